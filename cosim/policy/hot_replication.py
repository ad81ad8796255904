"""Copies of the hottest experts; tokens go to the least loaded copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from typing_extensions import Self

from cosim.policy.assignment import least_loaded, nearest
from cosim.policy.base import ActionKind, Policy, Pressure, Profile, ResidencyAction, WindowState
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel, memory_tier, nearest_memory
from cosim.policy.resident_pages import PageSlots, page_slots

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["HotReplication"]


class HotReplication(Policy):
    """The most frequent experts of each layer get further replicas, as many as the budget pays for.

    The baseline of CoMoE-Chip, section 4: copies follow popularity alone, not transitions or pressure. At the start
    popularity is that of the profile; with ``window_batches`` copies follow the demand of each window, by real copies
    between memories.
    """

    name = "hot_replication"

    class Params(Policy.Params):
        """``replica_budget``: bytes of all replicas over those of one copy. ``max_replicas``: of one expert.

        ``window_batches``: batches of a decision window; 0: the copies of the start stay. ``resident``: with
        ``profile`` copies lie in the tier nearest to compute, beside each chiplet's hottest experts: what its room goes
        to is what is hottest per replica. Copies then follow the profile alone. ``mapping``: tokens to the least loaded
        replica, or to the nearest one whatever its queue (seed 003, section 5.1: without a remapping of tokens).
        """

        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 1.25
        max_replicas: Annotated[int, Field(ge=1)] = 2
        window_batches: Annotated[int, Field(ge=0)] = 0
        resident: Literal["none", "profile"] = "none"
        mapping: Literal["least_loaded", "nearest"] = "least_loaded"

        @model_validator(mode="after")
        def _readable(self) -> Self:
            if self.resident == "profile" and self.window_batches:
                raise ValueError("resident 'profile' keeps the copies of the start: no window_batches beside it")
            return self

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._routes = system.routes
        self._system = system
        self._computes = [endpoint.index for endpoint in system.compute_endpoints]
        self._tier = memory_tier(system)
        self._copies = int((self.params.replica_budget - 1) * model.experts)
        homes = list(expert_parallel(system, model).replicas)
        slots = page_slots(system, model) if self.params.resident == "profile" else None
        if slots is not None:
            return Placement(homes + self._near_copies(slots, profile, homes))
        held: dict[int, int] = {}
        for home in homes:
            held[home.memory] = held.get(home.memory, 0) + 1
        extra: list[PlacedReplica] = []
        for layer in range(len(profile.counts)):
            at = {home.expert: home.chiplet for home in homes if home.layer == layer}
            for expert, chiplet in self._wanted(profile.counts[layer], at):
                memory = nearest_memory(system, self._routes, held, chiplet)
                held[memory] = held.get(memory, 0) + 1
                extra.append(PlacedReplica(layer, expert, chiplet, memory, self._tier))
        return Placement(homes + extra)

    def _near_copies(self, slots: PageSlots, profile: Profile, homes: list[PlacedReplica]) -> list[PlacedReplica]:
        """Every chiplet holds the hottest of its own experts and of the copies that are wanted there, per replica."""
        pages: list[PlacedReplica] = []
        for layer in range(len(profile.counts)):
            demand = profile.counts[layer]
            at = {home.expert: home.chiplet for home in homes if home.layer == layer}
            asked = [*at.items(), *self._wanted(demand, at)]
            replicas: dict[int, int] = {}
            for expert, _ in asked:
                replicas[expert] = replicas.get(expert, 0) + 1
            asked.sort(key=lambda page: (-demand[page[0]] / replicas[page[0]], page))
            free = dict.fromkeys(self._computes, slots.per_layer)
            for expert, chiplet in asked:
                if free[chiplet] > 0:
                    free[chiplet] -= 1
                    pages.append(PlacedReplica(layer, expert, chiplet, slots.memory[chiplet], slots.tier))
        return pages

    def _wanted(self, demand: npt.NDArray[np.int64], homes: Mapping[int, int]) -> list[tuple[int, int]]:
        """Copies (expert, chiplet) beside the homes of a layer: each to the hottest expert per replica so far,
        at the chiplet with the least demand so far."""
        chiplets = {expert: [home] for expert, home in homes.items()}
        load = dict.fromkeys(self._computes, 0.0)
        for expert, home in homes.items():
            load[home] += float(demand[expert])
        wanted: list[tuple[int, int]] = []
        for _ in range(self._copies):
            open_ones = [expert for expert in chiplets if len(chiplets[expert]) < self.params.max_replicas]
            if not open_ones:
                break
            hottest = max(open_ones, key=lambda expert: (demand[expert] / len(chiplets[expert]), -expert))
            copies = chiplets[hottest]
            free = [chiplet for chiplet in self._computes if chiplet not in copies]
            if demand[hottest] == 0 or not free:
                break
            share = float(demand[hottest]) / (len(copies) + 1)
            for chiplet in copies:
                load[chiplet] -= float(demand[hottest]) / len(copies) - share
            target = min(free, key=lambda chiplet: (load[chiplet], chiplet))
            load[target] += share
            copies.append(target)
            wanted.append((hottest, target))
        return wanted

    def on_window(self, state: WindowState) -> Sequence[ResidencyAction]:
        rows = state.directory.rows
        actions: list[ResidencyAction] = []
        experts = state.demand.shape[1]
        coming = {(action.layer, action.expert) for action in state.migrating}
        for layer in np.unique(rows["layer"]).tolist():
            of_layer = rows[(rows["layer"] == layer) & (rows["expert"] < experts)]
            homes: dict[int, int] = {}
            copies: dict[int, list[int]] = {}
            for row in np.sort(of_layer, order="replica"):
                expert = int(row["expert"])
                if expert in homes:
                    copies.setdefault(expert, []).append(int(row["replica"]))
                else:
                    homes[expert] = int(row["chiplet"])
            wanted = self._wanted(state.demand[layer], homes)
            keep: dict[int, int] = {}
            for expert, _ in wanted:
                keep[expert] = keep.get(expert, 0) + 1
            for expert, replicas in copies.items():
                for replica in replicas[keep.get(expert, 0) :]:
                    actions.append(ResidencyAction(ActionKind.evict, layer, expert, replica=replica))
            for expert, chiplet in wanted:
                held = len(copies.get(expert, []))
                if held:
                    copies[expert].pop()
                elif (layer, expert) not in coming:
                    memory = nearest_memory(self._system, self._routes, {}, chiplet)
                    actions.append(ResidencyAction(ActionKind.promote, layer, expert, chiplet, memory, self._tier))
        return actions

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        if self.params.mapping == "nearest":
            return nearest(groups, directory, self._routes)
        return least_loaded(groups, directory)
