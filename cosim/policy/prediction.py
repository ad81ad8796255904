"""Which experts of the next layer are worth a prefetch: the transition graph, seen from the layer just routed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.policy.transition_graph import TransitionGraph, expected_need

__all__ = ["Candidate", "Grading", "ahead", "tokens_by_expert", "ungraded", "wanted_of"]


@dataclass(frozen=True)
class Candidate:
    """An expert of the next layer and the probability that any token of the batch needs it."""

    expert: int
    need: float


@dataclass(frozen=True)
class Grading:
    """The confidence bands of seed 003, section 3.2; the section prints no threshold.

    high_hit: a token of a node uses a successor of at least this probability: the page is fetched.
    low_hit: between the two the node's two most probable successors are candidates, below it none.
    high_entropy: bits; a node of at least this entropy gives no candidate at all.
    """

    high_hit: float
    low_hit: float
    high_entropy: float


def tokens_by_expert(groups: npt.NDArray[np.void]) -> dict[int, int]:
    """Tokens of each routed expert of a layer."""
    found: dict[int, int] = {}
    for expert, tokens in zip(groups["expert"].tolist(), groups["tokens"].tolist(), strict=True):
        found[expert] = found.get(expert, 0) + tokens
    return found


def wanted_of(groups: npt.NDArray[np.void]) -> set[tuple[int, int]]:
    """(layer, expert) of every group."""
    return set(zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True))


def ahead(graph: TransitionGraph, layer: int, tokens: Mapping[int, int], grading: Grading) -> list[Candidate]:
    """Candidates of the layer behind ``layer``, the most needed first, by graded confidence."""
    hits: dict[int, list[tuple[int, float]]] = {}
    for node, count in sorted(tokens.items()):
        edges, entropy = graph.row(layer, node)
        if not edges or entropy >= grading.high_entropy or edges[0].hit < grading.low_hit:
            continue
        sure = [edge for edge in edges if edge.hit >= grading.high_hit]
        for edge in sure or edges[:2]:
            hits.setdefault(edge.expert, []).append((count, edge.hit))
    return _ranked(hits)


def ungraded(graph: TransitionGraph, layer: int, tokens: Mapping[int, int], each: int) -> list[Candidate]:
    """Candidates whatever the confidence: the ``each`` most probable successors of every node."""
    hits: dict[int, list[tuple[int, float]]] = {}
    for node, count in sorted(tokens.items()):
        for edge in graph.row(layer, node)[0][:each]:
            hits.setdefault(edge.expert, []).append((count, edge.hit))
    return _ranked(hits)


def _ranked(hits: Mapping[int, list[tuple[int, float]]]) -> list[Candidate]:
    need = expected_need(hits)
    return [Candidate(expert, need[expert]) for expert in sorted(need, key=lambda expert: (-need[expert], expert))]
