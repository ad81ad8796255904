"""Which experts of a layer to have everywhere: predicted loads, and priorities on the node that they congest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["LoadPrediction", "by_priority"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class LoadPrediction:
    """Tokens that each expert of a layer will get, before the layer is routed.

    From the layer before it: every token's experts there times the share of each successor in the profile's
    transitions; an expert that the profile never saw there is followed by the layer's usual loads. The first layer of a
    batch, which no layer precedes, gets those of the batches so far, before the first of them the profile's.
    """

    def __init__(self, counts: IntArray, transitions: IntArray) -> None:
        self._profile = counts.astype(np.float64)
        self._transitions = transitions
        self._seen = np.zeros_like(counts, dtype=np.int64)

    def see(self, layer: int, tokens: IntArray) -> None:
        """What a layer's experts got."""
        self._seen[layer] += tokens

    def ahead(self, layer: int, tokens: IntArray, following: int) -> FloatArray:
        """Predicted tokens of the layer ``following``, when ``layer`` has been routed with ``tokens`` per expert."""
        usual = self._usual(following)
        if following != layer + 1 or layer >= len(self._transitions):
            return float(tokens.sum()) * usual
        pairs = self._transitions[layer].astype(np.float64)
        total = pairs.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, pairs / np.maximum(total, 1.0), usual[None, :])
        predicted: FloatArray = tokens.astype(np.float64) @ shares
        return predicted

    def _usual(self, layer: int) -> FloatArray:
        seen = self._seen[layer].astype(np.float64)
        counts = seen if seen.any() else self._profile[layer]
        total = float(counts.sum())
        return counts / total if total else np.full(len(counts), 1.0 / len(counts))

    def save(self) -> list[list[int]]:
        """Loads seen so far, as plain JSON."""
        return self._seen.tolist()  # type: ignore[no-any-return]

    def load(self, seen: object) -> None:
        """Takes what :meth:`save` gave."""
        self._seen = np.array(seen, dtype=np.int64).reshape(self._seen.shape)


def by_priority(predicted: FloatArray, shares: FloatArray, seconds_per_token: FloatArray, most: int) -> list[int]:
    """Experts in the order in which they are worth a broadcast, at most ``most``.

    The priority of expert i on node c is the time that c is expected to work on it, share · predicted tokens · seconds
    a token. The first is the one of highest priority on the node that is expected to work longest; it will then be
    everywhere and burden no node in particular, so the next is looked for without it. (HD-MoE's expert priority, in
    the order of its published code.)

    Args:
        predicted: tokens of each expert.
        shares: of each expert on each node, shape (experts, nodes); no row: it is everywhere already.
        seconds_per_token: of a whole expert, per node.
    """
    work = predicted[:, None] * shares * seconds_per_token[None, :]
    chosen: list[int] = []
    while len(chosen) < most:
        busiest = int(np.argmax(work.sum(axis=0)))
        best = int(np.argmax(work[:, busiest]))
        if work[best, busiest] <= 0:
            break
        chosen.append(best)
        work[best] = 0.0
    return chosen
