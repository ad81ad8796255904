"""Layers frames made by rule, for tests that need rows of several policies and rungs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cosim.analytic import STAGES


def layers(
    means: dict[tuple[str, str], float],
    *,
    seeds: int = 3,
    batches: int = 8,
    layers: int = 4,
    noise: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Rows of every (policy, rung) around its mean latency in ns; the noise of a row is shared by all of them.

    compute takes a quarter of the total, memory the rest; weights are 1,000 bytes per ns of the mean.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    index = pd.MultiIndex.from_product(
        [range(1, seeds + 1), range(batches), range(layers)], names=["seed", "batch", "layer"]
    ).to_frame(index=False)
    shared = 1 + noise * generator.standard_normal(len(index))
    frames = []
    for (policy, rung), mean in means.items():
        frame = index.astype(np.int64)
        frame["policy"], frame["rung"] = policy, rung
        for stage in STAGES:
            frame[f"{stage}_fs"] = np.int64(0)
        frame["total_fs"] = np.rint(mean * shared * 1e6).astype(np.int64)
        frame["compute_fs"] = frame["total_fs"] // 4
        frame["memory_fs"] = frame["total_fs"] - frame["compute_fs"]
        frame["bytes_weight"] = np.int64(round(1000 * mean))
        frames.append(frame)
    result: pd.DataFrame = pd.concat(frames, ignore_index=True)
    return result
