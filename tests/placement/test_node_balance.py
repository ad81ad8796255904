"""Node Balance: optimal on cases small enough to enumerate, never worse than its starting points, clear refusals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.placement.activation import Activation, activation
from cosim.placement.families import expert_parallel, tensor_parallel
from cosim.placement.node_balance import NodeCosts, node_balance
from cosim.placement.node_kinds import kinds_count, solve_kinds


def drawn(seed: int, experts: int, slots: int, tokens: int = 60) -> Activation:
    draws = np.random.default_rng(seed)
    weights = draws.dirichlet(np.full(experts, 1.5))
    ids = np.stack([draws.choice(experts, slots, replace=False, p=weights) for _ in range(tokens)])
    return activation(ids, experts)


def costs(compute: float = 1.0, traffic: float = 1.0, capacity: int | None = None) -> NodeCosts:
    return NodeCosts(compute, traffic, gamma=1.5, passes=2.0, weight_bytes=100, capacity_bytes=capacity)


def least_work(hosted: np.ndarray, load: np.ndarray) -> float:
    """Eq. 1 for given holders: by Hall's condition, the largest load of any set of experts over its holders."""
    experts = len(load)
    best = 0.0
    for chosen in product([False, True], repeat=experts):
        subset = np.flatnonzero(chosen)
        if len(subset):
            best = max(best, float(load[subset].sum()) / int(hosted[subset].any(axis=0).sum()))
    return best


def enumerated(found: Activation, nodes: int, price: NodeCosts) -> float:
    """The least objective over all holders."""
    best = float("inf")
    for flat in product([False, True], repeat=found.experts * nodes):
        hosted = np.array(flat).reshape(found.experts, nodes)
        if hosted.any(axis=1).all():
            traffic = max(
                sum(f for g, f in zip(found.groups, found.group, strict=True) if hosted[g[g >= 0], c].any())
                for c in range(nodes)
            )
            value = price.compute_s * least_work(hosted, found.expert) + 3.0 * traffic * price.traffic_s
            best = min(best, value)
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("compute", "traffic"), [(3.0, 0.1), (1.0, 1.0)])
def test_it_reaches_the_enumerated_optimum(seed: int, compute: float, traffic: float) -> None:
    found = drawn(seed, 3, 2)
    price = costs(compute, traffic)
    answer = node_balance(found, 3, price, smallest_share=1e-3, gap=1e-3)
    assert answer.report.objective_s == pytest.approx(enumerated(found, 3, price), rel=5e-3)
    assert answer.report.objective_s == pytest.approx(price.layer_s(answer.shares, answer.shares > 0, found))


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 8), st.floats(0.05, 20))
@settings(max_examples=15)
def test_it_is_never_worse_than_tensor_or_expert_parallelism(
    seed: int, experts: int, nodes: int, traffic: float
) -> None:
    found = drawn(seed, experts, min(2, experts))
    price = costs(1.0, traffic)
    answer = node_balance(found, nodes, price, gap=0.02)
    np.testing.assert_allclose(answer.shares.sum(axis=1), 1.0)
    assert answer.shares[answer.shares > 0].min() >= 0.02 - 1e-9
    for rule in (tensor_parallel, expert_parallel):
        shares = rule(1, experts, nodes).shares[0]
        assert answer.report.objective_s <= price.layer_s(shares, shares > 0, found) * (1 + 1e-9)


def test_it_repeats_and_says_what_it_did() -> None:
    found = drawn(1, 6, 2)
    first, second = (node_balance(found, 8, costs()) for _ in range(2))
    assert first.shares.tolist() == second.shares.tolist()
    assert str(first.report) == str(second.report)
    for word in ("programs", "variables", "integer", "rows", "groups covering 100.0%", "nodes, gap 0.50%", "us by"):
        assert word in str(first.report)


def test_groups_are_capped_by_coverage() -> None:
    draws = np.random.default_rng(2)
    found = activation(np.stack([draws.choice(40, 4, replace=False) for _ in range(3000)]), 40)
    assert len(found.groups) > 2000
    report = node_balance(found, 40, costs(1.0, 0.5), most_kinds=40, gap=0.2).report
    assert 0.95 <= report.coverage < 0.96
    assert report.groups < len(found.groups)


def test_capacity_is_kept_and_costs() -> None:
    found = drawn(3, 4, 2)
    free = node_balance(found, 4, costs(5.0, 0.01))
    tight = node_balance(found, 4, costs(5.0, 0.01, capacity=100))
    assert (tight.shares.sum(axis=0) * 100).max() <= 100 + 1e-6
    assert tight.report.objective_s >= free.report.objective_s * (1 - 5e-3)


@pytest.mark.parametrize(
    ("changes", "capacity", "text"),
    [
        (
            {},
            99,
            "memory-capacity constraint: expected room for the layer's 4 experts, 400 B, got 396 B on 4 nodes of 99",
        ),
        ({"smallest_share": 0.0}, None, "smallest_share: expected a share above 0"),
        ({"node_limit": 0}, None, "node_limit: expected at least one node of branch and bound, got 0"),
        ({"gap": 1.0}, None, "gap: expected a relative gap"),
    ],
)
def test_bad_programs(changes: dict[str, float], capacity: int | None, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        node_balance(drawn(0, 4, 2), 4, costs(capacity=capacity), **changes)  # type: ignore[arg-type]


def test_an_infeasible_program_names_its_constraints() -> None:
    # five experts, two nodes of 2.5 experts: one must be split, which whole experts only forbid
    with pytest.raises(ValueError, match="memory-capacity constraint and smallest_share, got none: 250 B per node"):
        node_balance(drawn(0, 5, 2), 2, costs(capacity=250), smallest_share=1.0)


def test_kinds_of_nodes_are_counted() -> None:
    assert kinds_count(8, 2) == 36
    assert kinds_count(3, 9) == 7
    none = solve_kinds(
        drawn(0, 5, 2),
        2,
        compute_s=1.0,
        traffic_s=1.0,
        capacity_experts=None,
        smallest_share=0.02,
        largest=1,
        node_limit=10,
        gap=0.01,
    )
    assert none.shares is None  # two nodes of one expert each cannot hold five
