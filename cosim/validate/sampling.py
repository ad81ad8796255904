"""Which units of a run are also simulated at the expensive rung."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

#: Key of the random stream of a sample, apart from that of the bootstrap.
KEY = 0x73616D706C65


def stratified_sample(
    rows: pd.DataFrame, fraction: float, seed: int, *, strata: str = "layer"
) -> npt.NDArray[np.bool_]:
    """A seeded sample of a run's (seed, batch, layer) rows, the same share of every layer of every seed.

    rows:     frame with the columns seed, batch and layer, one row each
    fraction: share to sample, above 0 and at most 1
    strata:   ``layer``: every layer of every seed gives its share, at least one row. ``run``: a systematic sample,
              every 1/fraction-th row of the layers in turn from a seeded first row, in each layer of the batches that
              have the fewest sampled rows so far, ties in seeded order
    seed:     chooses the sample; the draws are raw words of Philox-4x64-10

    Returns the mask of the sampled rows, in the order of ``rows`` and independent of it. Policies that are
    to be compared use one mask.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"expected a fraction above 0 and at most 1, got {fraction!r}")
    if bool(rows.duplicated(["seed", "batch", "layer"]).any()):
        raise ValueError("expected every (seed, batch, layer) once")
    order = rows.reset_index(drop=True).sort_values(["seed", "layer", "batch"], kind="stable")
    if strata == "run":
        return _systematic(order, fraction, seed)
    words = np.random.Philox(key=[KEY, seed]).random_raw(len(order))
    mask = np.zeros(len(order), dtype=np.bool_)
    place = order.index.to_numpy()
    stratum = order.groupby(["seed", "layer"], sort=True).ngroup().to_numpy()
    for number in range(int(stratum.max(initial=-1)) + 1):
        members = np.flatnonzero(stratum == number)
        wanted = math.ceil(fraction * len(members))
        mask[place[members[np.argsort(words[members], kind="stable")[:wanted]]]] = True
    return mask


def _systematic(order: pd.DataFrame, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    words = np.random.Philox(key=[KEY, seed]).random_raw(len(order) + 1)
    layer = order["layer"].to_numpy()
    count = max(1, round(fraction * len(order)))
    start = (int(words[-1]) * len(order)) >> 64  # the first row, in 1 / count of a row
    wanted = np.sort(layer)[[(start + row * len(order)) // count for row in range(count)]]
    batch = order.groupby(["seed", "batch"], sort=True).ngroup().to_numpy()
    taken = np.zeros(int(batch.max()) + 1, dtype=np.int64)
    mask = np.zeros(len(order), dtype=np.bool_)
    for number, rows in zip(*np.unique(wanted, return_counts=True), strict=True):
        members = np.flatnonzero(layer == number)
        # an interval is a bootstrap over batches: one without a sampled row would leave it open
        chosen = members[np.lexsort((words[members], taken[batch[members]]))[:rows]]
        taken[batch[chosen]] += 1
        mask[order.index.to_numpy()[chosen]] = True
    return mask
