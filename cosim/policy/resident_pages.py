"""Expert pages in a tier near to compute: which copies a capacity holds, the same for every policy that shares it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.policy.directory import PlacedReplica

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["PageSlots", "page_slots", "resident_homes"]


class PageSlots:
    """Room for whole experts in the tier of rank 0, shared evenly by the MoE layers.

    Attributes:
        tier: its name.
        memory: the endpoint whose pages a chiplet executes, per chiplet.
        per_layer: pages of one layer that a chiplet may hold.
    """

    def __init__(self, tier: str, memory: Mapping[int, int], per_layer: int) -> None:
        self.tier = tier
        self.memory = memory
        self.per_layer = per_layer


def page_slots(system: System, model: ModelSpec) -> PageSlots | None:
    """The slots of the tier that is nearest to compute; ``None`` where the homes' tier is the only one.

    A memory that serves several chiplets gives each an even part.
    """
    near = min(system.tiers, key=lambda tier: tier.rank)
    if near.rank == system.home_tier.rank:
        return None
    memory: dict[int, int] = {}
    shared: dict[int, int] = {}
    for place in system.compute_endpoints:
        serving = near.serving(place.index)
        if not serving:
            return None
        stacked = system.near_memories.get(place.index)
        memory[place.index] = stacked if stacked in serving else serving[0]
        shared[memory[place.index]] = shared.get(memory[place.index], 0) + 1
    most = max(shared.values())
    return PageSlots(near.name, memory, near.capacity_bytes // model.expert_bytes // model.moe_layers // most)


def resident_homes(
    slots: PageSlots,
    counts: npt.NDArray[np.int64],
    homes: Sequence[PlacedReplica],
    taken: Iterable[PlacedReplica] = (),
) -> list[PlacedReplica]:
    """Copies of homes in the slots of their own chiplets: of every layer and chiplet the hottest of the profile first.

    Args:
        counts: tokens per (layer, expert) of the profile.
        taken: replicas that have slots already.
    """
    free: dict[tuple[int, int], int] = {}
    for replica in taken:
        if replica.tier == slots.tier:
            key = (replica.layer, replica.chiplet)
            free[key] = free.get(key, slots.per_layer) - 1
    found: list[PlacedReplica] = []
    known = [home for home in homes if home.layer < len(counts)]
    for home in sorted(known, key=lambda home: (home.layer, -int(counts[home.layer, home.expert]), home.expert)):
        key = (home.layer, home.chiplet)
        left = free.get(key, slots.per_layer)
        if left > 0:
            free[key] = left - 1
            found.append(PlacedReplica(home.layer, home.expert, home.chiplet, slots.memory[home.chiplet], slots.tier))
    return found
