"""Which units of a run are also simulated at the expensive rung."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

#: Key of the random stream of a sample, apart from that of the bootstrap.
KEY = 0x73616D706C65


def stratified_sample(rows: pd.DataFrame, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """A seeded sample of a run's (seed, batch, layer) rows, the same share of every layer of every seed.

    rows:     frame with the columns seed, batch and layer, one row each
    fraction: share to sample, above 0 and at most 1; every stratum gives at least one row
    seed:     chooses the sample; the draws are raw words of Philox-4x64-10

    Returns the mask of the sampled rows, in the order of ``rows`` and independent of it. Policies that are
    to be compared use one mask.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"expected a fraction above 0 and at most 1, got {fraction!r}")
    if bool(rows.duplicated(["seed", "batch", "layer"]).any()):
        raise ValueError("expected every (seed, batch, layer) once")
    order = rows.reset_index(drop=True).sort_values(["seed", "layer", "batch"], kind="stable")
    words = np.random.Philox(key=[KEY, seed]).random_raw(len(order))
    mask = np.zeros(len(order), dtype=np.bool_)
    place = order.index.to_numpy()
    stratum = order.groupby(["seed", "layer"], sort=True).ngroup().to_numpy()
    for number in range(int(stratum.max(initial=-1)) + 1):
        members = np.flatnonzero(stratum == number)
        wanted = math.ceil(fraction * len(members))
        mask[place[members[np.argsort(words[members], kind="stable")[:wanted]]]] = True
    return mask
