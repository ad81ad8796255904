"""What an analytical model is, and the times it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from cosim.analytic.parameters import Parameters
from cosim.analytic.system import AnalyticSystem, FloatArray, ModelNumbers

#: Stages of one MoE layer, in the order of their columns in the layers frame.
STAGES = ("gate", "dispatch", "queue", "memory", "compute", "gather", "combine", "publish_wait")


@dataclass(frozen=True)
class LayerTimes:
    """Times of one MoE layer for every unit (seed, batch), all arrays in the order of ``units``.

    units:    frame with the columns seed and batch, sorted
    stages:   seconds per stage; names are those of STAGES, a missing stage takes no time. Stages that
              overlap do not add up to the total.
    total:    seconds of the layer
    other:    further quantities of the model that are no stage, seconds
    energy_J: joules per component, empty where the model has no energy equation
    """

    units: pd.DataFrame
    stages: Mapping[str, FloatArray]
    total: FloatArray
    other: Mapping[str, FloatArray] = field(default_factory=dict)
    energy_J: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.units)
        for name, values in (*self.stages.items(), *self.other.items(), *self.energy_J.items(), ("total", self.total)):
            if np.shape(values) != (n,):
                raise ValueError(f"{name}: expected one value per (seed, batch), shape ({n},), got {np.shape(values)}")
            if not bool(np.isfinite(values).all()) or bool((np.asarray(values) < 0).any()):
                raise ValueError(f"{name}: times and energies must be finite and not negative")
        unknown = [name for name in self.stages if name not in STAGES]
        if unknown:
            raise ValueError(f"unknown stages {', '.join(unknown)}; expected {', '.join(STAGES)}")


@runtime_checkable
class AnalyticModel(Protocol):
    """An analytical latency model, evaluated on the decisions that the simulator replays.

    ``decisions`` passed to ``layer_times`` holds one row per token group of one layer, all batches
    together (columns: see cosim.analytic.groups); the arrays of the answer have one entry per
    (seed, batch).
    """

    @property
    def name(self) -> str:
        """Name under which results appear: the rung is ``analytic:<name>``."""

    @property
    def paper(self) -> str:
        """Where the equations are printed."""

    @property
    def parameters(self) -> Parameters:
        """Every constant and named reading of the model."""

    def layer_times(self, decisions: pd.DataFrame, system: AnalyticSystem, model: ModelNumbers) -> LayerTimes:
        """Times of one layer; raises ValueError where the model does not apply."""
