"""DeepSeek's expert-parallel load balancer as a policy: redundant experts, dealt out in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.placement.eplb import rebalance_experts
from cosim.policy.assignment import in_turn
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel
from cosim.policy.room import Room

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Eplb"]


class Eplb(Policy):
    """Redundant experts by DeepSeek's balancer on the profile; a replica's share of the tokens is dealt out in turn.

    The first replica of an expert is its home; further ones lie in the nearest tier with room. Two of one expert on one
    chiplet are one.
    """

    name = "eplb"

    class Params(Policy.Params):
        """``replica_budget``: bytes of all replicas over those of one copy; whole replicas per chiplet are made of it.

        ``groups``, ``nodes``: of the balancer; by default its global policy.
        """

        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 1.3
        groups: Annotated[int, Field(ge=1)] = 1
        nodes: Annotated[int, Field(ge=1)] = 1

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        chiplets = [endpoint.index for endpoint in system.compute_endpoints]
        self.max_replicas = len(chiplets)
        each = max(int(self.params.replica_budget * model.experts) // len(chiplets), -(-model.experts // len(chiplets)))
        replicas = each * len(chiplets)
        running = set(profile.running)
        homes = [home for home in expert_parallel(system, model).replicas if home.layer not in running]
        p = self.params
        placed = rebalance_experts(profile.counts, replicas, groups=p.groups, nodes=p.nodes, gpus=len(chiplets)).phy2log
        room = Room(system, model)
        made: list[PlacedReplica] = list(homes)
        copies: list[tuple[int, int, int, int]] = []
        home_tier = [system.home_tier.name]
        for layer in profile.running:
            seen: dict[int, set[int]] = {}
            for position, expert in enumerate(placed[layer].tolist()):
                chiplet = chiplets[position // each]
                if expert not in seen:
                    seen[expert] = {chiplet}
                    home = room.replica(layer, expert, chiplet, home_tier)
                    made.append(home or PlacedReplica(layer, expert, chiplet, *_refused_at(system, chiplet)))
                elif chiplet not in seen[expert]:
                    seen[expert].add(chiplet)
                    copies.append((-int(profile.counts[layer, expert]), layer, expert, chiplet))
        most = int((self.params.replica_budget - 1) * model.experts * len(running))
        for _, layer, expert, chiplet in sorted(copies)[:most]:
            copy = room.replica(layer, expert, chiplet)
            if copy is not None:
                made.append(copy)
        return Placement(made)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return in_turn(groups, directory)


def _refused_at(system: System, chiplet: int) -> tuple[int, str]:
    """Where a home without room is asked for, so that the keeper refuses it with its figures."""
    tier = system.home_tier
    return tier.serving(chiplet)[0], tier.name
