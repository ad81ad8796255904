"""Periodic replica placement: DeepSeek's load balancer, run again after every window on the window's load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.placement.eplb import rebalance_experts
from cosim.policy.assignment import least_loaded
from cosim.policy.base import ActionKind, Policy, Pressure, Profile, ResidencyAction, WindowState
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import memory_tier, nearest_memory

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["PeriodicReplication"]


class PeriodicReplication(Policy):
    """The baseline PS of 3D-MoE (seed 001): replicas as EPLB places them, by load alone.

    Every core has ``slots_per_core`` slots of a layer. At the start the load is the profile's; after every
    ``window_batches`` batches it is the window's, and what changed is copied and dropped. An expert's home, its first
    replica, stays where the start put it.
    """

    name = "periodic_replication"
    max_replicas = 1 << 15

    class Params(Policy.Params):
        """``slots_per_core``: replicas of a layer at a core. ``window_batches``: 0: the start's placement stays."""

        slots_per_core: Annotated[int, Field(ge=1)] = 2
        window_batches: Annotated[int, Field(ge=0)] = 8

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._cores = [place.index for place in system.compute_endpoints]
        self._slots = self.params.slots_per_core * len(self._cores)
        self._memory = {core: nearest_memory(system, system.routes, {}, core) for core in self._cores}
        self._tier = memory_tier(system)
        # homes stay beside what a later window places
        self.replica_budget = self._slots / model.experts + 1
        replicas = []
        for layer in range(model.moe_layers):
            load = profile.counts[layer] if layer < len(profile.counts) else np.ones(model.experts, dtype=np.int64)
            for expert, cores in enumerate(self._wanted(load)):
                replicas += [PlacedReplica(layer, expert, core, self._memory[core], self._tier) for core in cores]
        return Placement(replicas)

    def _wanted(self, load: npt.NDArray[np.int64]) -> list[list[int]]:
        """Cores of every expert, each once."""
        found = rebalance_experts(load[None].astype(np.float64), self._slots, gpus=len(self._cores))
        per_core = self.params.slots_per_core
        cores: list[list[int]] = [[] for _ in range(len(load))]
        for slot, expert in enumerate(found.phy2log[0].tolist()):
            core = self._cores[slot // per_core]
            if core not in cores[expert]:
                cores[expert].append(core)
        return cores

    def on_window(self, state: WindowState) -> Sequence[ResidencyAction]:
        actions: list[ResidencyAction] = []
        rows: npt.NDArray[Any] = state.directory.rows
        coming = {(action.layer, action.expert, action.chiplet) for action in state.migrating}
        for layer in np.flatnonzero(state.demand.sum(axis=1) > 0).tolist():
            wanted = self._wanted(state.demand[layer])
            for expert, cores in enumerate(wanted):
                held = np.sort(rows[(rows["layer"] == layer) & (rows["expert"] == expert)], order="replica")
                for row in held[1:]:
                    if int(row["chiplet"]) not in cores:
                        actions.append(ResidencyAction(ActionKind.evict, layer, expert, replica=int(row["replica"])))
                for core in cores:
                    if core not in held["chiplet"] and (layer, expert, core) not in coming:
                        memory = self._memory[core]
                        actions.append(ResidencyAction(ActionKind.promote, layer, expert, core, memory, self._tier))
        return actions

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return least_loaded(groups, directory)
