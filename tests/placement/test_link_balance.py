"""Link Balance and the search of both in turn: never worse than where they started, repeatable, clear refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.link import LinkSimulator, fat_tree, mesh, torus
from cosim.placement.activation import Activation, activation
from cosim.placement.families import expert_parallel
from cosim.placement.link_balance import _nearer, _together, link_balance, one_pass_s
from cosim.placement.node_balance import NodeCosts
from cosim.placement.search import SearchOptions, expert_parallel_gamma, hybrid_search

TOPOLOGIES = {
    "mesh": mesh([2, 4], 10**9),
    "torus": torus([2, 4], 10**9),
    "fat_tree": fat_tree(
        endpoint_leaf_Bps=10**9,
        leaf_aggregation_Bps=10**9,
        aggregation_core_Bps=10**9,
        pods=2,
        leaves_per_pod=2,
        endpoints_per_leaf=2,
        cores=2,
    ),
}


def drawn(seed: int) -> Activation:
    draws = np.random.default_rng(seed)
    weights = draws.dirichlet(np.ones(4))
    return activation(np.stack([draws.choice(4, 2, replace=False, p=weights) for _ in range(40)]), 4)


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_a_map_is_a_permutation_and_never_worse(topology) -> None:
    found, shares = drawn(1), expert_parallel(1, 4, 8).shares[0]
    simulator = LinkSimulator(topology, 4)
    start = np.random.default_rng(0).permutation(8)
    first, second = (link_balance(shares, found, 1e6, simulator, start=start, evaluations=12) for _ in range(2))
    assert sorted(first.mapping.tolist()) == list(range(8))
    assert first.end_s <= first.start_s
    assert first.evaluations == 12
    assert first.mapping.tolist() == second.mapping.tolist()
    assert first.end_s == one_pass_s(shares, found, first.mapping, 1e6, simulator)
    assert "12 link simulations" in str(first)


@given(st.integers(0, 5000))
@settings(max_examples=20)
def test_swaps_by_distance_lower_tokens_times_hops(seed: int) -> None:
    draws = np.random.default_rng(seed)
    hosted = draws.random((4, 8)) < 0.4
    hosted[:, 0] |= ~hosted.any(axis=1)
    together = _together(hosted, drawn(seed))
    hops = TOPOLOGIES["mesh"].hops
    start = draws.permutation(8)
    end = _nearer(start, together, hops)

    def cost(mapping: np.ndarray) -> float:
        return float((together * hops[np.ix_(mapping, mapping)]).sum())

    assert cost(end) <= cost(start) + 1e-9
    for a in range(8):
        for b in range(a):
            swapped = end.copy()
            swapped[a], swapped[b] = end[b], end[a]
            assert cost(swapped) >= cost(end) - 1e-6


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"start": np.array([0, 0, 1, 2, 3, 4, 5, 6])}, "a permutation of 8 nodes, got endpoint 0 for nodes 0, 1"),
        ({"evaluations": 0}, "at least one link simulation"),
    ],
)
def test_bad_maps(changes, text: str) -> None:
    shares = expert_parallel(1, 4, 8).shares[0]
    with pytest.raises(ValueError, match=text):
        link_balance(shares, drawn(0), 1e6, LinkSimulator(TOPOLOGIES["mesh"], 2), **changes)


def test_as_many_nodes_as_endpoints() -> None:
    with pytest.raises(ValueError, match="as many nodes as mesh 2x4 has endpoints, 8, got 4"):
        link_balance(expert_parallel(1, 4, 4).shares[0], drawn(0), 1e6, LinkSimulator(TOPOLOGIES["mesh"], 2))


def test_both_in_turn() -> None:
    simulator = LinkSimulator(TOPOLOGIES["mesh"], 2)
    layers = [drawn(2), drawn(3)]
    price = NodeCosts(1e-3, 1e-3, 1.0, 2.0, weight_bytes=100, capacity_bytes=400)
    gamma = expert_parallel_gamma(layers[0], 8, price.traffic_s, 1e6, simulator)
    assert 0.2 < gamma < 10
    options = SearchOptions(evaluations=6, gap=0.02, rounds=2)
    first, second = (hybrid_search(dict(enumerate(layers)), 8, price, 1e6, simulator, options) for _ in range(2))
    assert first.placement.shares.tolist() == second.placement.shares.tolist()
    assert list(first.report) == list(second.report)
    assert len(first.report) == 2
    assert all("gamma" in line and "link simulations" in line for line in first.report)
    assert first.placement.mapping is not None
    plain = hybrid_search(
        dict(enumerate(layers)), 8, price, 1e6, simulator, SearchOptions(evaluations=0, gap=0.02, rounds=1)
    )
    assert first.objective_s <= plain.objective_s * (1 + 1e-6)
