"""How much room the tiers have left while a placement is made, and the nearest tier that still has some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cosim.policy.directory import PlacedReplica
from cosim.policy.placement import nearest_memory

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Room"]


class Room:
    """Bytes left in every memory of every tier; replicas are taken to be as large as whole experts."""

    def __init__(self, system: System, model: ModelSpec, placed: Iterable[PlacedReplica] = ()) -> None:
        self._system = system
        self._size = model.expert_bytes
        self._held: dict[int, int] = {}
        self._free = {(tier.name, memory): tier.capacity_bytes for tier in system.tiers for memory in tier.endpoints}
        self._capacity = dict(self._free)
        self._tiers = [tier.name for tier in sorted(system.tiers, key=lambda tier: (tier.rank, tier.name))]
        for replica in placed:
            self.take(replica)

    @property
    def tiers(self) -> list[str]:
        """Names of the tiers, the nearest to compute first."""
        return list(self._tiers)

    def take(self, replica: PlacedReplica) -> None:
        """Books a replica."""
        self._free[replica.tier, replica.memory] -= self._size
        self._held[replica.memory] = self._held.get(replica.memory, 0) + 1

    def fits(self, tier: str, memory: int) -> bool:
        """Whether one more expert fits."""
        return self._free[tier, memory] >= self._size

    def free_share(self, tier: str, memory: int) -> float:
        """What is left of a memory's tier, as a share of it."""
        return self._free[tier, memory] / self._capacity[tier, memory]

    def replica(
        self, layer: int, expert: int, chiplet: int, tiers: Iterable[str] | None = None
    ) -> PlacedReplica | None:
        """A replica executed at ``chiplet`` in the first of ``tiers`` (all, nearest first) with room, booked.

        ``None`` where there is no room.
        """
        for tier in self._tiers if tiers is None else tiers:
            memory = self._memory(tier, chiplet)
            if memory is not None:
                made = PlacedReplica(layer, expert, chiplet, memory, tier)
                self.take(made)
                return made
        return None

    def _memory(self, tier: str, chiplet: int) -> int | None:
        """The memory of a tier with room that is nearest to a chiplet; among equals the one that holds least."""
        routes = self._system.routes
        serving = [m for m in self._system.tier(tier).serving(chiplet) if self.fits(tier, m)]
        if not serving:
            return None
        nearest = nearest_memory(self._system, routes, self._held, chiplet, tier)
        if nearest in serving:
            return nearest
        return min(serving, key=lambda m: (routes.between(chiplet, m), self._held.get(m, 0), m))
