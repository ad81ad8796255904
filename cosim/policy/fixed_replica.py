"""Copies that stay where the profile put them, and simple routing: HCRMap's matched-capacity baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import in_turn, least_loaded, nearest
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel
from cosim.policy.room import Room

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["FixedReplica", "spread_copies"]


def spread_copies(
    demand: npt.NDArray[np.int64], homes: Mapping[int, int], chiplets: list[int], copies: int, most: int
) -> list[tuple[int, int]]:
    """Copies (expert, chiplet) beside the homes of a layer, in the order they are given.

    Each goes to the expert with the most load per replica, at the chiplet with the least load so far.

    Args:
        demand: load of every expert.
        homes: chiplet of every expert's home.
        copies: how many at most.
        most: replicas of one expert, its home included.
    """
    places = {expert: [home] for expert, home in homes.items()}
    load = dict.fromkeys(chiplets, 0.0)
    for expert, home in homes.items():
        load[home] += float(demand[expert])
    given: list[tuple[int, int]] = []
    for _ in range(copies):
        free = [e for e in places if len(places[e]) < min(most, len(chiplets)) and demand[e] > 0]
        if not free:
            break
        hottest = max(free, key=lambda e: (demand[e] / len(places[e]), -e))
        held = places[hottest]
        share = float(demand[hottest]) / (len(held) + 1)
        for chiplet in held:
            load[chiplet] -= float(demand[hottest]) / len(held) - share
        target = min((c for c in chiplets if c not in held), key=lambda c: (load[c], c))
        load[target] += share
        held.append(target)
        given.append((hottest, target))
    return given


class FixedReplica(Policy):
    """Static replicas and simple routing (HCRMap, 7.2 and 7.3): the paper names neither, hence the parameters.

    Copies of the profile's hottest experts lie in the nearest tier with room, the hottest first.
    """

    name = "fixed_replica"

    class Params(Policy.Params):
        """``replica_budget``: bytes of all replicas over those of one copy. ``max_replicas``: of one expert.

        ``routing``: groups to the replicas in turn, to the nearest, or to the least loaded chiplet.
        """

        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 1.3
        max_replicas: Annotated[int, Field(ge=1)] = 4
        routing: Literal["in_turn", "nearest", "least_loaded"] = "in_turn"

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._routes = system.routes
        chiplets = [endpoint.index for endpoint in system.compute_endpoints]
        homes = list(expert_parallel(system, model).replicas)
        room = Room(system, model, [home for home in homes if home.layer in set(profile.running)])
        wanted: list[tuple[float, int, int, int]] = []
        for layer in profile.running:
            at = {home.expert: home.chiplet for home in homes if home.layer == layer}
            copies = int((self.params.replica_budget - 1) * model.experts)
            demand = profile.counts[layer]
            for expert, chiplet in spread_copies(demand, at, chiplets, copies, self.params.max_replicas):
                wanted.append((-float(demand[expert]), layer, expert, chiplet))
        placed: list[PlacedReplica] = []
        for _, layer, expert, chiplet in sorted(wanted):
            copy = room.replica(layer, expert, chiplet)
            if copy is not None:
                placed.append(copy)
        return Placement(homes + placed)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        if self.params.routing == "nearest":
            return nearest(groups, directory, self._routes)
        return (in_turn if self.params.routing == "in_turn" else least_loaded)(groups, directory)
