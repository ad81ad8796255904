"""One home per expert, for ever."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cosim.policy.assignment import homes
from cosim.policy.base import Policy, Pressure
from cosim.policy.directory import Directory

__all__ = ["Static"]


class Static(Policy):
    """Expert parallelism with one home per expert, weights fetched on demand (baseline of CoMoE-Chip, section 4)."""

    name = "static"

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)
