"""Whether ranks are really loaded unevenly, or only as unevenly as a small batch makes any router look.

Imbalance of a step and layer: slots of the busiest rank over the mean of all ranks. It is held against two nulls, both
drawn with the batch's own size:

- *balanced*: every token picks its Top-k evenly, without replacement. What sampling alone does to a perfect router.
- *shuffled*: tokens drawn from all steps, whatever their time. What the long-run load of the experts does: replicas
  placed by history can remedy it. What the observed value has beyond it comes from tokens of one time being alike, and
  no placement by history sees that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.diagnosis.steps import Steps

__all__ = ["Imbalance", "imbalance", "rank_imbalance"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_DRAWS = 200
_MEANS = 1000


@dataclass(frozen=True, eq=False)
class Imbalance:
    """Busiest rank over mean, per layer, shape (layers,).

    observed: mean over the steps. balanced, balanced_high: mean of the null and the 97.5th percentile of its mean over
    as many steps. shuffled: mean of the shuffled null.
    """

    observed: FloatArray
    balanced: FloatArray
    balanced_high: FloatArray
    shuffled: FloatArray

    @property
    def real(self) -> npt.NDArray[np.bool_]:
        """Layers whose imbalance sampling alone does not explain."""
        return self.observed > self.balanced_high


def rank_imbalance(loads: npt.NDArray[np.int64]) -> FloatArray:
    """Busiest over mean of the last axis; 1 where there is no load."""
    total = loads.sum(axis=-1)
    return np.where(total > 0, loads.max(axis=-1) * loads.shape[-1] / np.maximum(total, 1), 1.0)


def _rank_loads(ids: IntArray, rank_of: IntArray, ranks: int) -> npt.NDArray[np.int64]:
    """Slots per rank of each row of ``ids``, shape (rows, ranks)."""
    flat = ids.reshape(len(ids), -1)
    filled = flat >= 0
    keys = np.arange(len(flat))[:, None] * ranks + rank_of[np.maximum(flat, 0)]
    return np.bincount(keys[filled], minlength=len(flat) * ranks).reshape(len(flat), ranks).astype(np.int64)


def imbalance(steps: Steps, rank_of: IntArray, ranks: int, seed: int) -> Imbalance:
    """Both nulls for every layer, with experts placed one copy each.

    Args:
        rank_of: rank of every expert, shape (experts,).
    """
    draws = np.random.default_rng([seed, 1])
    observed, balanced, high, shuffled = [], [], [], []
    for layer in range(steps.layers):
        ids = steps.ids[:, :, layer, :]
        observed.append(float(rank_imbalance(_rank_loads(ids, rank_of, ranks)).mean()))
        filled = (ids >= 0).sum(axis=2)
        even = np.full((_DRAWS, *ids.shape[1:]), -1, dtype=np.int64)
        for draw in range(_DRAWS):  # as many slots as a token of some step has
            slots = filled[draws.integers(len(filled))]
            picks = np.argsort(draws.random((steps.tokens, steps.experts)), axis=1)[:, : ids.shape[2]]
            even[draw] = np.where(np.arange(ids.shape[2]) < slots[:, None], picks, -1)
        null = rank_imbalance(_rank_loads(even, rank_of, ranks))
        balanced.append(float(null.mean()))
        means = null[draws.integers(_DRAWS, size=(_MEANS, steps.count))].mean(axis=1)
        high.append(float(np.quantile(means, 0.975)))
        rows = ids.reshape(-1, ids.shape[2])
        picked = rows[draws.integers(len(rows), size=(_DRAWS, steps.tokens))]
        shuffled.append(float(rank_imbalance(_rank_loads(picked, rank_of, ranks)).mean()))
    return Imbalance(np.array(observed), np.array(balanced), np.array(high), np.array(shuffled))
