"""Legs: what of a token group goes to one chiplet. A split replica makes a leg of every part, any other makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.policy.directory import Directory

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec

__all__ = ["legs_of", "returned_bytes"]


def legs_of(
    assigned: npt.NDArray[np.int32], directory: Directory
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Group and directory row of every leg, in the order of the groups.

    Args:
        assigned: directory row per group, each of a whole replica or of a first part.
    """
    parts = [directory.parts(int(row)) for row in assigned]
    counts = [len(rows) for rows in parts]
    legs = np.repeat(np.arange(len(assigned), dtype=np.int64), counts)
    return legs, np.fromiter((row for rows in parts for row in rows), dtype=np.int32, count=len(legs))


def returned_bytes(
    groups: npt.NDArray[np.void], replicas: npt.NDArray[np.void], model: ModelSpec, partial_sum_bytes: int
) -> npt.NDArray[np.int64]:
    """What comes back of each leg: activations of a whole expert, partial sums of a part.

    Args:
        groups, replicas: group and directory row of each leg.
        partial_sum_bytes: of one element.
    """
    split = replicas["neurons"] < model.moe_intermediate
    split &= groups["expert"] < model.experts  # shared experts are whole
    partial = groups["tokens"].astype(np.int64) * (model.hidden * partial_sum_bytes)
    return np.where(split, partial, groups["bytes"])
