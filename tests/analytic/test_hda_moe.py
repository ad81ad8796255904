"""Equations 1 to 4 of seed 002: by hand, against plain loops, and as a plug-in on decisions."""

from __future__ import annotations

import numpy as np
import pytest
from analytic_line import SMALL, TinyModel, decisions, line_system
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.analytic import HDAMoE, load_analytic
from cosim.analytic.hda_moe_equations import (
    OPERATIONS,
    compute_time_s,
    expert_operations,
    fit_gamma,
    hosts,
    node_tokens,
    node_traffic_time_s,
    ring_all_reduce_time_s,
)

SYSTEM, MODEL = line_system(), TinyModel()


def with_tokens(frame, first_tokens, share=None):
    frame = frame.assign(first_tokens=np.array(first_tokens, dtype=np.int64))
    return frame if share is None else frame.assign(share=np.array(share))


def test_operations_by_both_conventions() -> None:
    assert expert_operations(4096, 14336, "2hI") == 117_440_512
    assert expert_operations(4096, 14336, "3hI") == 176_160_768
    with pytest.raises(KeyError):
        expert_operations(1, 1, "4hI")
    assert set(OPERATIONS) == {"2hI", "3hI"}


def test_stages_by_hand() -> None:
    # h = I = 2: 12 operations a token. Chiplet 0: 1 token at 20 x 0.5 FLOP/s = 1.2 s, chiplet 1: 3 at 20 = 1.8 s.
    # Nodes are touched by 1 and 3 tokens of 8 B over ports of 20 B/s: one pass 1.2 s.
    got = HDAMoE().layer_times(with_tokens(SMALL, [2, 1, 1]), SYSTEM, MODEL)
    assert got.stages["compute"].tolist() == pytest.approx([1.8])
    assert got.stages["dispatch"].tolist() == got.stages["gather"].tolist() == pytest.approx([1.2])
    assert got.total.tolist() == pytest.approx([4.2])
    # 60 B and 40 B from one memory of 100 B/s: reported, not added.
    assert got.other["memory"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("params", "compute", "one_pass", "passes"),
    [
        ({"operations": "2hI"}, 1.2, 1.2, 2),
        ({"flop_per_operation": 2}, 3.6, 1.2, 2),
        ({"partial_sums": "FP16"}, 1.8, 0.6, 2),
        ({"gamma": 2.5}, 1.8, 3.0, 2),
        ({"passes": 1}, 1.8, 1.2, 1),
    ],
)
def test_readings(params: dict[str, object], compute: float, one_pass: float, passes: int) -> None:
    got = HDAMoE.with_parameters(params).layer_times(with_tokens(SMALL, [2, 1, 1]), SYSTEM, MODEL)
    assert got.stages["compute"].tolist() == pytest.approx([compute])
    assert got.stages["gather"].tolist() == pytest.approx([one_pass])
    assert got.total.tolist() == pytest.approx([compute + passes * one_pass])


def test_a_token_with_two_experts_on_one_node_counts_once() -> None:
    both = decisions((0, 0, 0, 0, 1, 8, 1, -1, 0), (0, 1, 0, 0, 1, 8, 1, -1, 0))
    exact = HDAMoE().layer_times(with_tokens(both, [1, 0]), SYSTEM, MODEL)
    apart = HDAMoE.with_parameters({"co_activation": "disjoint"}).layer_times(both, SYSTEM, MODEL)
    assert apart.stages["gather"].tolist() == pytest.approx([2 * exact.stages["gather"][0]])
    with pytest.raises(ValueError, match="first_tokens"):
        HDAMoE().layer_times(both, SYSTEM, MODEL)


def test_shares_split_compute_and_tensor_parallelism_has_gamma_one() -> None:
    whole = decisions((0, 0, 0, 0, 4, 32, 0, -1, 0), (0, 0, 0, 0, 4, 32, 1, -1, 0))
    split = with_tokens(whole, [4, 4], [0.25, 0.75])
    got = HDAMoE.with_parameters({"gamma": 7}).layer_times(split, SYSTEM, MODEL)
    # 4 tokens x 12 x 0.25 at 10 and 4 x 12 x 0.75 at 20 FLOP/s
    assert got.stages["compute"].tolist() == pytest.approx([1.8])
    assert got.stages["gather"].tolist() == pytest.approx([1.6])
    one_node = with_tokens(decisions((0, 0, 0, 0, 4, 32, 0, -1, 0)), [4])
    held = HDAMoE.with_parameters({"gamma": 7}).layer_times(one_node, SYSTEM, MODEL)
    assert held.stages["gather"].tolist() == pytest.approx([7 * 1.6])


@pytest.mark.parametrize(
    ("share", "first", "text"),
    [([0.0, 1.0], [1, 1], "share must be above 0"), ([1.0, 1.0], [1, 5], "first_tokens must be between 0 and tokens")],
)
def test_bad_columns(share: list[float], first: list[int], text: str) -> None:
    frame = decisions((0, 0, 0, 0, 4, 32, 0, -1, 0), (0, 0, 0, 0, 4, 32, 1, -1, 0))
    with pytest.raises(ValueError, match=text):
        HDAMoE().layer_times(with_tokens(frame, first, share), SYSTEM, MODEL)


def test_plug_in_by_name() -> None:
    model = load_analytic({"name": "hda_moe", "params": {"operations": "2hI", "gamma": 1.2}})
    assert isinstance(model, HDAMoE)
    assert model.name == "hda_moe(operations=2hI, gamma=1.2)"
    with pytest.raises(ValueError, match="did you mean 'gamma'"):
        load_analytic({"name": "hda_moe", "params": {"gama": 2}})


@st.composite
def layers(draw):
    experts, nodes, slots = draw(st.integers(2, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    slots = min(slots, experts)
    token = st.lists(st.integers(0, experts - 1), min_size=slots, max_size=slots, unique=True)
    tokens = draw(st.lists(token, min_size=1, max_size=12))
    parts = draw(st.lists(st.integers(0, 4), min_size=experts * nodes, max_size=experts * nodes))
    shares = np.array(parts, dtype=float).reshape(experts, nodes)
    shares[shares.sum(axis=1) == 0] = 1
    return np.array(tokens), shares / shares.sum(axis=1, keepdims=True)


@given(layers())
@settings(max_examples=60)
def test_equations_against_loops_over_tokens(case) -> None:
    ids, shares = case
    experts, nodes = shares.shape
    counts = np.bincount(ids.ravel(), minlength=experts).astype(float)
    busiest = max(
        sum(shares[e, c] * sum(e in token for token in ids.tolist()) for e in range(experts)) for c in range(nodes)
    )
    assert compute_time_s(shares, counts, 6.0, 3.0) == pytest.approx(busiest * 2.0)
    touched = [sum(any(shares[e, c] > 0 for e in token) for token in ids.tolist()) for c in range(nodes)]
    groups, number = np.unique(np.sort(ids, axis=1), axis=0, return_counts=True)
    found = node_tokens(hosts(shares), groups, number.astype(float))
    assert found.tolist() == touched
    assert node_traffic_time_s(found, 10, 4, 5.0) == pytest.approx(max(touched) * 8)


def test_empty_slots_touch_no_node() -> None:
    hosted = np.array([[True, False], [False, True]])
    assert node_tokens(hosted, np.array([[0, -1], [1, -1]]), np.array([3.0, 4.0])).tolist() == [3.0, 4.0]


def test_ring_all_reduce() -> None:
    # 4 nodes, 8 B each at 2 B/s: 6 steps of 2 B and 0.5 s.
    assert ring_all_reduce_time_s(8, 4, 2.0, step_latency_s=0.5) == pytest.approx(6 * 1.5)
    assert ring_all_reduce_time_s(8, 4, 2.0, exact=False) == pytest.approx(8.0)
    assert ring_all_reduce_time_s(8, 1, 2.0) == 0.0
    # the limit of many nodes is Eq. 4 in both passes
    assert ring_all_reduce_time_s(8, 10**6, 2.0) == pytest.approx(
        ring_all_reduce_time_s(8, 9, 2.0, exact=False), rel=1e-5
    )
    with pytest.raises(ValueError, match="at least one node"):
        ring_all_reduce_time_s(8, 0, 2.0)


def test_gamma_is_recovered_with_its_interval() -> None:
    draws = np.random.default_rng(7)
    x = draws.uniform(1, 2, 400)
    exact = fit_gamma(x, 1.3 * x)
    assert exact.gamma == pytest.approx(1.3)
    assert exact.r_squared == pytest.approx(1.0)
    noisy = fit_gamma(x, 1.3 * x + draws.normal(0, 0.1, 400))
    assert noisy.ci_low < 1.3 < noisy.ci_high
    assert noisy.ci_high - noisy.ci_low < 0.02
    free = fit_gamma(x, 1.3 * x + 5, intercept=True)
    assert (free.gamma, free.intercept_s) == pytest.approx((1.3, 5.0))
    assert np.abs(free.residuals_s(x, 1.3 * x + 5)).max() < 1e-9


def test_gamma_interval_covers_at_its_rate() -> None:
    draws = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        x = draws.uniform(1, 2, 12)
        fit = fit_gamma(x, 2 * x + draws.normal(0, 0.2, 12))
        hits += fit.ci_low <= 2 <= fit.ci_high
    assert 180 <= hits <= 199


@pytest.mark.parametrize(
    ("x", "y", "intercept", "text"),
    [
        ([1, 2], [1, 2], False, "three points"),
        ([1, 2, np.nan], [1, 2, 3], False, "finite"),
        ([1, 1, 1], [1, 2, 3], True, "different values"),
    ],
)
def test_gamma_refuses(x: list[float], y: list[float], intercept: bool, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fit_gamma(np.array(x, dtype=float), np.array(y, dtype=float), intercept=intercept)
