"""The transition graph of CoMoE-Chip: which expert of the next layer follows which of this one, in bounded memory.

Seed 003, section 1.2 and Eq. 2: a node is a (layer, expert), an edge weighs the conditional probability that a token of
its node is routed to an expert of the next layer, counted over a sliding window with a smoothing term:

    P(j | i) = (N(i, j) + eps) / (N(i) + eps E),   H(i) = - sum over j of P(j | i) log2 P(j | i).

Section 6.1 bounds it: of each node the eight most frequent successors, a 16-bit count and a 16-bit identifier each.
They are kept by the Space-Saving algorithm (Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and
top-k elements in data streams", ICDT 2005). The window slides in two halves: counts of the present and of the last half
window are added ("double buffering"); at the end of a half the older one is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Edge", "TransitionGraph", "expected_need"]

_LARGEST_COUNT = 0xFFFF
_NOBODY = 0xFFFF


@dataclass(frozen=True)
class Edge:
    """A successor: the expert of the next layer, and the probability that a token of the node uses it there."""

    expert: int
    hit: float


class TransitionGraph:
    """Counts of transitions between the MoE layers of one model; the last layer is followed by the first of no token.

    Args:
        layers, experts: of the model.
        top_k: experts per token and layer: a token is at Top-k nodes and has Top-k successors.
        successors: kept per node.
        smoothing: eps of Eq. 2, in transitions.
        half_window: layers' worth of updates (calls of :meth:`observe` for the same layer) in half a window.
    """

    def __init__(
        self, layers: int, experts: int, top_k: int, *, successors: int, smoothing: float, half_window: int
    ) -> None:
        if experts >= _NOBODY:
            raise ValueError(f"a graph of 16-bit identifiers holds less than {_NOBODY} experts, got {experts}")
        self.experts = experts
        self.top_k = top_k
        self.successors = min(successors, experts)
        self._smoothing = smoothing
        self._half_window = half_window
        shape = (2, layers, experts, self.successors)
        self._expert = np.full(shape, _NOBODY, dtype=np.uint16)  # [0]: the present half window, [1]: the last one
        self._count = np.zeros(shape, dtype=np.uint16)
        self._total = np.zeros((2, layers, experts), dtype=np.uint32)
        self._updates = np.zeros(layers, dtype=np.uint32)
        self._rows: dict[tuple[int, int], tuple[list[Edge], float]] = {}

    @property
    def edge_bytes(self) -> int:
        """Identifiers and counts of one half window: what section 6.1 calls raw edge state."""
        return (self._expert[0].nbytes + self._count[0].nbytes) if self._expert.size else 0

    @property
    def state_bytes(self) -> int:
        """Everything that is kept: both half windows, totals of the nodes, update counters."""
        return self._expert.nbytes + self._count.nbytes + self._total.nbytes + self._updates.nbytes

    def learn(self, transitions: npt.NDArray[np.int64]) -> None:
        """Takes counts of a profile for the last half window.

        Args:
            transitions: int64, shape (layers - 1, experts, experts). Counts above 16 bits are scaled down by powers of
                two, node by node.
        """
        for layer in range(len(transitions)):
            for expert in np.flatnonzero(transitions[layer].any(axis=1)).tolist():
                counts = transitions[layer, expert]
                scale = 0
                while int(counts.max()) >> scale > _LARGEST_COUNT:
                    scale += 1
                best = np.lexsort((np.arange(self.experts), -counts))[: self.successors]
                best = best[counts[best] >> scale > 0]
                self._expert[1, layer, expert, : len(best)] = best
                self._count[1, layer, expert, : len(best)] = counts[best] >> scale
                self._total[1, layer, expert] = int(counts.sum()) >> scale
        self._rows.clear()

    def observe(self, layer: int, here: npt.NDArray[np.integer], there: npt.NDArray[np.integer]) -> None:
        """Counts the transitions of tokens from ``layer`` to the next one.

        Args:
            here, there: expert ids of the same tokens in this layer and in the next, shape (tokens, slots); -1 is none.
        """
        first = np.repeat(here, there.shape[1], axis=1).ravel().astype(np.int64)
        second = np.tile(there, (1, here.shape[1])).ravel().astype(np.int64)
        known = (first >= 0) & (second >= 0)
        pairs, counts = np.unique(first[known] * self.experts + second[known], return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            node, successor = divmod(pair, self.experts)
            self._count_edge(layer, node, successor, count)
            self._rows.pop((layer, node), None)
        self._updates[layer] += 1
        if self._updates[layer] >= self._half_window:
            self._slide(layer)

    def _count_edge(self, layer: int, node: int, successor: int, count: int) -> None:
        experts, counts = self._expert[0, layer, node], self._count[0, layer, node]
        found = np.flatnonzero(experts == successor)
        if len(found):
            slot = int(found[0])
            value = int(counts[slot]) + count
        else:  # Space-Saving: the least frequent one gives its place and its count, which bounds the error
            slot = int(np.argmin(counts))
            value = int(counts[slot]) + count
            experts[slot] = successor
        total = int(self._total[0, layer, node]) + count
        while value > _LARGEST_COUNT:  # all counts of the node halve: their proportions stay
            counts >>= 1
            value >>= 1
            total >>= 1
        counts[slot] = value
        self._total[0, layer, node] = total

    def _slide(self, layer: int) -> None:
        for table, empty in ((self._expert, _NOBODY), (self._count, 0), (self._total, 0)):
            table[1, layer] = table[0, layer]
            table[0, layer] = empty
        self._updates[layer] = 0
        for key in [key for key in self._rows if key[0] == layer]:
            del self._rows[key]

    def row(self, layer: int, node: int) -> tuple[list[Edge], float]:
        """The known successors of a node, most probable first, and its entropy in bits.

        What the node's other transitions weigh is spread evenly over the experts that are not kept. An edge's ``hit``
        is Top-k times P: each of a token's Top-k slots in the next layer draws a successor.
        """
        key = (layer, node)
        if key not in self._rows:
            self._rows[key] = self._make_row(layer, node)
        return self._rows[key]

    def _make_row(self, layer: int, node: int) -> tuple[list[Edge], float]:
        counts: dict[int, int] = {}
        for half in (0, 1):
            for expert, count in zip(
                self._expert[half, layer, node].tolist(), self._count[half, layer, node].tolist(), strict=True
            ):
                if expert != _NOBODY and count:
                    counts[expert] = counts.get(expert, 0) + count
        total = max(int(self._total[:, layer, node].sum()), sum(counts.values()))
        if total == 0:
            return [], float(np.log2(self.experts))
        weight = total + self._smoothing * self.experts
        kept = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: self.successors]
        shares = [(count + self._smoothing) / weight for _, count in kept]
        entropy = -sum(share * float(np.log2(share)) for share in shares)
        others = self.experts - len(kept)
        rest = 1.0 - sum(shares)
        if others and rest > 0:
            entropy -= rest * float(np.log2(rest / others))
        edges = [Edge(expert, min(1.0, self.top_k * share)) for (expert, _), share in zip(kept, shares, strict=True)]
        return edges, entropy

    def save(self) -> dict[str, object]:
        """The state as plain JSON."""
        return {
            "expert": self._expert.tolist(),
            "count": self._count.tolist(),
            "total": self._total.tolist(),
            "updates": self._updates.tolist(),
        }

    def load(self, state: Mapping[str, object]) -> None:
        """Takes what :meth:`save` gave."""
        for name, table in (
            ("expert", self._expert),
            ("count", self._count),
            ("total", self._total),
            ("updates", self._updates),
        ):
            table[...] = np.array(state[name], dtype=table.dtype)
        self._rows.clear()


def expected_need(hits: Mapping[int, list[tuple[int, float]]]) -> dict[int, float]:
    """Probability that each expert of the next layer is needed at all.

    Args:
        hits: per expert, pairs of (tokens at a predecessor, probability that one of them uses it), all independent.
    """
    need = {}
    for expert, pairs in hits.items():
        missed = 1.0
        for tokens, hit in pairs:
            missed *= (1.0 - hit) ** tokens
        need[expert] = 1.0 - missed
    return need
