"""The transition graph: probabilities of Eq. 2, bounded memory, a window that slides, grades of confidence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.policy.prediction import Grading, ahead, ungraded
from cosim.policy.transition_graph import TransitionGraph, expected_need


def graph(
    experts: int = 8, top_k: int = 1, *, half: int = 1000, successors: int = 8, eps: float = 1.0
) -> TransitionGraph:
    return TransitionGraph(3, experts, top_k, successors=successors, smoothing=eps, half_window=half)


def test_probabilities_are_those_of_equation_2() -> None:
    made = graph()
    here, there = np.array([[0], [0], [0], [1]]), np.array([[3], [3], [5], [3]])
    made.observe(0, here, there)
    edges, entropy = made.row(0, 0)
    # three transitions from expert 0, eps = 1 on eight experts
    assert [(edge.expert, edge.hit) for edge in edges] == [(3, 3 / 11), (5, 2 / 11)]
    shares = np.array([3, 2, 1, 1, 1, 1, 1, 1]) / 11
    assert entropy == pytest.approx(-(shares * np.log2(shares)).sum())
    assert made.row(1, 0) == ([], 3.0)  # nothing known: as uncertain as can be


def test_a_token_has_top_k_successors() -> None:
    made = graph(top_k=2, eps=1e-9)
    made.observe(1, np.array([[0, 1]] * 10), np.array([[2, 3]] * 10))
    assert [edge.hit for edge in made.row(1, 0)[0]] == pytest.approx([1.0, 1.0])


def test_the_state_is_bounded_and_reported() -> None:
    made = TransitionGraph(32, 64, 2, successors=8, smoothing=1.0, half_window=32)
    assert made.edge_bytes == 32 * 64 * 8 * 4  # section 6.1: 64 KiB
    assert made.state_bytes < 300 * 1024


@given(st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_frequent_successors_survive_in_few_places(seed: int) -> None:
    """Space-Saving: what is more frequent than total / places is kept, its count too high by at most that."""
    generator = np.random.default_rng(seed)
    there = np.minimum(generator.zipf(1.5, size=2000) - 1, 63)
    made = graph(experts=64, successors=8, eps=1e-9)
    for part in np.array_split(there, 20):
        made.observe(0, np.zeros((len(part), 1), dtype=int), part.reshape(-1, 1))
    counts = np.bincount(there, minlength=64)
    kept = {edge.expert: edge.hit * len(there) for edge in made.row(0, 0)[0]}
    for expert in np.flatnonzero(counts > len(there) / 8).tolist():
        assert counts[expert] <= round(kept[expert]) <= counts[expert] + len(there) / 8


def test_counts_of_16_bits_keep_their_proportions() -> None:
    made = graph(experts=4, eps=1e-9)
    for _ in range(100):
        made.observe(0, np.zeros((1000, 1), dtype=int), np.repeat([[1], [2]], [750, 250], axis=0))
    hits = {edge.expert: edge.hit for edge in made.row(0, 0)[0]}
    assert hits[1] == pytest.approx(0.75, abs=0.02)
    learnt = graph(experts=4, eps=1e-9)
    transitions = np.zeros((2, 4, 4), dtype=np.int64)
    transitions[0, 0] = [0, 3_000_000, 1_000_000, 0]
    learnt.learn(transitions)
    assert [edge.hit for edge in learnt.row(0, 0)[0]] == pytest.approx([0.75, 0.25], abs=1e-4)


def test_the_window_slides() -> None:
    made = graph(experts=4, half=2, eps=1e-9)
    zero = np.zeros((10, 1), dtype=int)
    made.observe(0, zero, zero + 1)
    made.observe(0, zero, zero + 1)  # the first half is over
    made.observe(0, zero, zero + 2)
    assert {edge.expert: round(edge.hit, 3) for edge in made.row(0, 0)[0]} == {1: 0.667, 2: 0.333}
    made.observe(0, zero, zero + 2)
    made.observe(0, zero, zero + 2)
    assert {edge.expert for edge in made.row(0, 0)[0]} == {2}


def test_empty_slots_are_no_transitions() -> None:
    made = graph(experts=4)
    made.observe(0, np.array([[0, -1]]), np.array([[-1, 2]]))
    assert made.row(0, 0)[0][0].expert == 2
    assert made.row(0, 2) == ([], 2.0)


@given(st.integers(0, 50))
@settings(max_examples=10, deadline=None)
def test_what_is_saved_goes_on_the_same(seed: int) -> None:
    generator = np.random.default_rng(seed)
    one, other = graph(half=3), graph(half=3)
    for step in range(8):
        if step == 4:
            other.load(json.loads(json.dumps(one.save())))
        here, there = generator.integers(0, 8, (2, 6, 2))
        for made in (one, other) if step >= 4 else (one,):
            made.observe(step % 2, here, there)
    for node in range(8):
        assert one.row(0, node) == other.row(0, node)


def test_confidence_is_graded() -> None:
    made = graph(experts=16, eps=1e-9)
    sure, split, vague = ([[3]] * 9 + [[4]], [[5]] * 4 + [[6]] * 3 + [[7]] * 3, [[n] for n in range(10)])
    for node, there in enumerate((sure, split, vague)):
        made.observe(0, np.full((10, 1), node), np.array(there))
    grading = Grading(high_hit=0.5, low_hit=0.2, high_entropy=3.0)

    def found(node: int) -> list[int]:
        return [candidate.expert for candidate in ahead(made, 0, {node: 1}, grading)]

    assert found(0) == [3]  # deterministic: the page
    assert found(1) == [5, 6]  # middle band: the two most probable
    assert found(2) == []  # high entropy: none
    assert len(ungraded(made, 0, {2: 1}, each=3)) == 3
    # many tokens at a node make its successors certain
    assert ahead(made, 0, {0: 40}, grading)[0].need == pytest.approx(1.0)


def test_need_of_independent_tokens() -> None:
    assert expected_need({1: [(2, 0.5), (1, 0.5)]}) == {1: 0.875}
