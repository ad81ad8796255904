"""Placements that several policies start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.policy.directory import PlacedReplica, Placement

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System
    from cosim.system.routes import Routes

__all__ = ["expert_parallel", "memory_tier", "nearest_memory"]


def memory_tier(system: System) -> str:
    """The name of the tier that holds homes: the one of the highest rank.

    Raises:
        ValueError: the system has no tier.
    """
    return system.home_tier.name


def nearest_memory(system: System, routes: Routes, held: dict[int, int], chiplet: int, tier: str | None = None) -> int:
    """The memory that ``chiplet`` is stacked with, else the one with the fewest hops from it.

    Among equals the one that holds least, then the first. Only endpoints of the tier that serve the chiplet count.

    Args:
        held: replicas given to each memory endpoint so far.
        tier: its name; the one of homes if not given (any memory of a system without tiers).
    """
    if tier is None and not system.tiers:
        memories = tuple(endpoint.index for endpoint in system.memory_endpoints)
    else:
        memories = (system.home_tier if tier is None else system.tier(tier)).serving(chiplet)
    if system.near_memories.get(chiplet) in memories:
        return system.near_memories[chiplet]
    return min(memories, key=lambda memory: (routes.between(chiplet, memory), held.get(memory, 0), memory))


def expert_parallel(system: System, model: ModelSpec) -> Placement:
    """One home per expert, in blocks: experts 0 .. E/D - 1 on the first chiplet, and so on (expert parallelism).

    Weights lie in the memory endpoint nearest to the chiplet.
    """
    tier = memory_tier(system)
    routes = system.routes
    chiplets = [endpoint.index for endpoint in system.compute_endpoints]
    held: dict[int, int] = {}
    homes = {}
    for chiplet in chiplets:
        homes[chiplet] = nearest_memory(system, routes, held, chiplet)
        held[homes[chiplet]] = held.get(homes[chiplet], 0) + 1
    replicas = []
    for layer in range(model.moe_layers):
        for expert in range(model.experts):
            chiplet = chiplets[expert * len(chiplets) // model.experts]
            replicas.append(PlacedReplica(layer, expert, chiplet, homes[chiplet], tier))
    return Placement(replicas)
