"""Run analytical models over the recorded decisions of a policy: one layers frame per model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cosim.analytic.interface import STAGES, AnalyticModel, LayerTimes
from cosim.analytic.system import AnalyticSystem, FloatArray, IntArray, ModelNumbers
from cosim.config.errors import ConfigErrors

#: Rung of the first analytical model of an experiment; those after it are ``analytic:<name>``.
RUNG = "analytic"


def analytic_rungs(names: Sequence[str]) -> dict[str, str]:
    """Model name to rung: the experiment's first model is 'analytic', any other 'analytic:<name>'.

    Raises ValueError where two models have one name.
    """
    if len(set(names)) != len(names):
        raise ValueError(f"expected analytical models of different names, got {', '.join(names)}")
    return {name: RUNG if position == 0 else f"{RUNG}:{name}" for position, name in enumerate(names)}


def layers_frame(
    analytic: AnalyticModel,
    decisions: pd.DataFrame,
    system: AnalyticSystem,
    model: ModelNumbers,
    *,
    policy: str,
    rung: str = RUNG,
) -> pd.DataFrame:
    """Times of every layer and batch under one analytical model.

    Returns a frame like that of a simulated rung: policy, rung, seed, batch, layer, ``<stage>_fs`` for
    all STAGES, total_fs (int64, rounded to the nearest femtosecond), and energy_J where the model has an
    energy equation. Rows are sorted by seed, batch, layer.

    Raises:
        ConfigErrors: the model does not apply to these decisions, or a user's function fails.
        ValueError: decisions that are malformed; names the layer.
    """
    frames: list[pd.DataFrame] = []
    for layer, rows in decisions.groupby("layer", sort=True):
        try:
            times = analytic.layer_times(rows, system, model)
        except ConfigErrors:
            raise
        except ValueError as problem:
            raise ValueError(f"{analytic.name}, policy {policy}, layer {layer}: {problem}") from problem
        frames.append(_frame(times).assign(layer=np.int64(int(str(layer)))))
    if not frames:
        raise ValueError(f"{analytic.name}, policy {policy}: no decisions to evaluate")
    frame: pd.DataFrame = pd.concat(frames, ignore_index=True).sort_values(["seed", "batch", "layer"], kind="stable")
    frame["policy"] = policy
    frame["rung"] = rung
    order = ["policy", "rung", "seed", "batch", "layer", *(f"{stage}_fs" for stage in STAGES), "total_fs"]
    if "energy_J" in frame.columns:
        order.append("energy_J")
    ordered: pd.DataFrame = frame.loc[:, order].reset_index(drop=True)
    return ordered


def _frame(times: LayerTimes) -> pd.DataFrame:
    frame: pd.DataFrame = times.units.copy()
    zero = np.zeros(len(frame))
    for stage in STAGES:
        frame[f"{stage}_fs"] = _femtoseconds(times.stages.get(stage, zero))
    frame["total_fs"] = _femtoseconds(times.total)
    if times.energy_J:
        energy = np.zeros(len(frame))
        for values in times.energy_J.values():
            energy = energy + values
        frame["energy_J"] = energy
    return frame


def _femtoseconds(seconds: FloatArray) -> IntArray:
    scaled = np.rint(seconds * 1e15)
    if bool((scaled >= 2.0**63).any()):
        raise ValueError(f"a stage of {float(seconds.max()):g} s exceeds the 64-bit femtosecond range")
    return scaled.astype(np.int64)
