"""One home per expert, for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from cosim.policy.assignment import homes
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.directory import Directory, Placement
from cosim.policy.placement import expert_parallel
from cosim.policy.resident_pages import page_slots, resident_homes

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Static"]


class Static(Policy):
    """Expert parallelism with one home per expert, weights fetched on demand (baseline of CoMoE-Chip, section 4)."""

    name = "static"

    class Params(Policy.Params):
        """``resident``: whether the tier nearest to compute holds each chiplet's hottest experts of the profile."""

        resident: Literal["none", "profile"] = "none"

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        placed = list(expert_parallel(system, model).replicas)
        slots = page_slots(system, model) if self.params.resident == "profile" else None
        if slots is not None:
            placed += resident_homes(slots, profile.counts, placed)
        return Placement(placed)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)
