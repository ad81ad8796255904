"""What a grouping of experts costs over the steps of a profile: the three objectives of 3D-MoE (seed 001).

    T[g, d] = sum_e D[e, g] F[e, d]                       work of group g in step d
    objective 1 = sum_d (max_g T - min_g T)               range of work between groups
    objective 2 = sum_d (max_g M - min_g M)               range of collaboration
    objective 3 = sum_d sum_g M                           collaboration in all

D[e, g] is the share of expert e's tokens that group g serves, 0 where it does not hold the expert. The paper does not
print M[g, d], the collaboration cost. Both readings here count tokens:

    excess    sum over the group's experts of max(0, D F - T / slots): what exceeds an even share of the group's own
              work per expert slot, hence what helpers inside the group must take over. The default.
    overload  sum over the group's experts of D max(0, F - AL), AL the mean load of all experts in the step, the mean
              that the paper's offset score uses. Objective 3 is then the same for every grouping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cosim.placement.shares import FloatArray, IntArray

__all__ = ["COLLABORATION", "Collaboration", "GroupObjectives", "group_loads", "group_objectives", "max_over_mean"]

Collaboration = Literal["excess", "overload"]
COLLABORATION: tuple[Collaboration, ...] = ("excess", "overload")


@dataclass(frozen=True, order=True)
class GroupObjectives:
    """The three objectives in tokens, summed over steps; ordered as the paper does, the first decides."""

    work_range: float
    collaboration_range: float
    collaboration: float

    def __str__(self) -> str:
        return f"{self.work_range:.6g} / {self.collaboration_range:.6g} / {self.collaboration:.6g}"


def group_loads(loads: FloatArray, shares: FloatArray) -> FloatArray:
    """T[d, g], float64 (steps, groups), of loads (steps, experts) under shares (experts, groups)."""
    return np.asarray(loads @ shares)


def group_objectives(
    loads: FloatArray, weight: IntArray, shares: FloatArray, slots: int, collaboration: Collaboration = "excess"
) -> GroupObjectives:
    """All three objectives.

    Args:
        loads: F as (steps, experts).
        weight: how many steps each row stands for.
        shares: D as (experts, groups); a group holds the experts with a share above 0.
        slots: experts that a group has room for.
        collaboration: how M is read.
    """
    work = group_loads(loads, shares)
    if collaboration == "excess":
        served = loads[:, :, None] * shares[None, :, :]
        cost = np.maximum(served - (work / slots)[:, None, :], 0).sum(axis=1)
    else:
        above = np.maximum(loads - loads.mean(axis=1, keepdims=True), 0)
        cost = above @ shares
    return GroupObjectives(
        float(weight @ (work.max(axis=1) - work.min(axis=1))),
        float(weight @ (cost.max(axis=1) - cost.min(axis=1))),
        float(weight @ cost.sum(axis=1)),
    )


def max_over_mean(loads: FloatArray, shares: FloatArray) -> FloatArray:
    """Work of the fullest group over that of all groups' mean, per step with any work, float64 (busy steps,)."""
    work = group_loads(loads, shares)
    busy = work.sum(axis=1) > 0
    return np.asarray(work[busy].max(axis=1) / work[busy].mean(axis=1))
