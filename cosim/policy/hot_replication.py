"""Copies of the experts that the profile calls hot; tokens go to the least loaded copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.config.spec import Spec
from cosim.policy.assignment import least_loaded
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel, memory_tier, nearest_memory
from cosim.system.routes import Routes

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["HotReplication"]


class HotReplication(Policy):
    """The most frequent experts of each layer get further replicas, as many as the budget pays for.

    The baseline of CoMoE-Chip's section 4: copies follow popularity alone, not transitions or pressure.
    """

    name = "hot_replication"

    class Params(Spec):
        """``replica_budget``: bytes of all replicas over those of one copy. ``max_replicas``: of one expert."""

        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 1.25
        max_replicas: Annotated[int, Field(ge=1)] = 2

    params: Params

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        super().__init__(params)
        self.max_replicas = self.params.max_replicas
        self.replica_budget = self.params.replica_budget

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        homes = list(expert_parallel(system, model).replicas)
        routes = Routes.of(system)
        computes = [endpoint.index for endpoint in system.compute_endpoints]
        budget = int((self.params.replica_budget - 1) * model.experts)
        tier = memory_tier(system)
        held: dict[int, int] = {}
        for home in homes:
            held[home.memory] = held.get(home.memory, 0) + 1
        extra: list[PlacedReplica] = []
        for layer in range(model.moe_layers):
            of_layer = [home for home in homes if home.layer == layer]
            chiplets = {home.expert: [home.chiplet] for home in of_layer}
            counts = profile.counts[layer]
            load = dict.fromkeys(computes, 0.0)
            for home in of_layer:
                load[home.chiplet] += float(counts[home.expert])
            for _ in range(budget):
                hottest = max(
                    range(model.experts),
                    key=lambda expert: (
                        counts[expert] / len(chiplets[expert])
                        if len(chiplets[expert]) < self.params.max_replicas
                        else -1.0,
                        -expert,
                    ),
                )
                copies = chiplets[hottest]
                if len(copies) >= self.params.max_replicas or counts[hottest] == 0:
                    break
                free = [chiplet for chiplet in computes if chiplet not in copies]
                if not free:
                    break
                share = float(counts[hottest]) / (len(copies) + 1)
                for chiplet in copies:
                    load[chiplet] -= float(counts[hottest]) / len(copies) - share
                target = min(free, key=lambda chiplet: (load[chiplet], chiplet))
                load[target] += share
                memory = nearest_memory(system, routes, held, target)
                held[memory] = held.get(memory, 0) + 1
                copies.append(target)
                extra.append(PlacedReplica(layer, hottest, target, memory, tier))
        return Placement(homes + extra)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return least_loaded(groups, directory)
