"""HD-MoE whole: a placement from a file, pre-broadcasting of experts that will be hot, dispatch to their replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.config.quantities import Femtoseconds
from cosim.policy.base import (
    ActionKind,
    PreBroadcast,
    Pressure,
    Profile,
    ResidencyAction,
    RoutedAction,
    RoutedEvent,
)
from cosim.policy.broadcast_cost import ALPHA_FS, BroadcastCost
from cosim.policy.directory import Directory, Placement
from cosim.policy.expert_priority import LoadPrediction, by_priority
from cosim.policy.hybrid_parallel import Placed
from cosim.policy.token_dispatch import BatchTokens, dispatched

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["HDMoE"]

_FS_PER_SECOND = 10**15


class HDMoE(Placed):
    """The online part of HD-MoE and HDA-MoE on a placement of theirs.

    When a layer has been routed, the loads of the next one are predicted, and the experts of highest priority are
    broadcast to all nodes, as many as the time until the next layer covers. Their tokens then go to the least loaded of
    the nodes that they touch anyway. A replica that was broadcast serves one layer of one batch and leaves; one that
    came too late serves the layer's next batch. The time until the next layer is the mean of what it has been so far.
    """

    name = "hd_moe"

    class Params(Placed.Params):
        """``pre_broadcast``: ``cost_aware``: as many experts as the window covers; ``always``: as many as there are
        slots, whatever the window; ``off``: none. ``experts``: slots, experts that are everywhere at a time; the
        predecessor shows two and five. ``alpha``: time of a step in the cost of a broadcast; the value of the published
        code. ``chunks``: whether nodes pass chunks on to each other, or every node reads from the expert's home."""

        pre_broadcast: Literal["cost_aware", "always", "off"] = "cost_aware"
        experts: Annotated[int, Field(ge=1)] = 5
        alpha: Femtoseconds = ALPHA_FS
        chunks: bool = True

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        places = system.compute_endpoints
        self._seconds_per_token = np.zeros(len(system.endpoints))
        for place in places:
            assert place.spec.compute is not None
            rate = float(place.spec.compute.effective_rate())
            self._seconds_per_token[place.index] = 2 * model.expert_macs_per_token / rate
        self._neurons_of_expert, self._experts = model.moe_intermediate, model.experts
        ports = min(float(system.network_of(place).link_bandwidth_Bps) * place.spec.ports for place in places)
        alpha_s = self.params.alpha / _FS_PER_SECOND
        self._cost = BroadcastCost(model.expert_bytes, ports, len(places), alpha_s)
        if self.params.pre_broadcast != "off":
            self.max_replicas = len(places) + 1
            # homes, whose parts are whole bursts and may be a little more, and in every slot a replica at each node
            layers = max(len(profile.running), 1)
            self.replica_budget = 1 + (self.params.experts + 1) * len(places) / (layers * model.experts)
        self._prediction = LoadPrediction(profile.counts, profile.transitions)
        self._tokens = BatchTokens(np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=np.int32))
        self._before: tuple[int, int] | None = None  # layer and time of the last event
        self._intervals: dict[int, tuple[int, int]] = {}  # layer → times until the next one: sum in fs, number
        self._spent: list[tuple[int, int, int]] = []  # layer, expert and replica of what has served its layer
        return super().place(system, model, profile)

    # -- pre-broadcasting

    def on_routed(self, event: RoutedEvent) -> Sequence[RoutedAction]:
        self._tokens = BatchTokens(event.ids, event.homes)
        if self.params.pre_broadcast == "off":
            return ()
        self._measure(event)
        tokens = np.bincount(event.groups["expert"], weights=event.groups["tokens"], minlength=self._experts)
        loads = tokens.astype(np.int64)
        self._prediction.see(event.layer, loads)
        actions: list[RoutedAction] = [
            ResidencyAction(ActionKind.evict, layer, expert, replica=replica) for layer, expert, replica in self._spent
        ]
        leaving = {replica for _, _, replica in self._spent}
        copies = self._copies(event.directory)
        self._spent = [copy for copy in copies if copy[0] == event.layer and copy[2] not in leaving]
        taken = {(layer, expert) for layer, expert, replica in copies if replica not in leaving}
        if event.next_layer < 0 or event.pressure.migration_bytes > 0:
            return actions  # a broadcast that is under way has its slots
        free = self.params.experts - len(taken)
        if self.params.pre_broadcast == "cost_aware":
            free = self._cost.affordable(self._window_s(event.layer), free)
        if free <= 0:
            return actions
        predicted = self._prediction.ahead(event.layer, loads, event.next_layer)
        shares = self._shares(event.directory, event.next_layer)
        chosen = by_priority(predicted, shares, self._seconds_per_token, free)
        chunk = self._cost.chunk_bytes(len(chosen)) if self.params.chunks and chosen else 0
        actions += [PreBroadcast(event.next_layer, expert, chunk) for expert in chosen]
        return actions

    def _measure(self, event: RoutedEvent) -> None:
        """How long it has been since the layer before was routed."""
        if self._before is not None:
            layer, time_fs = self._before
            total, number = self._intervals.get(layer, (0, 0))
            self._intervals[layer] = (total + event.time_fs - time_fs, number + 1)
        self._before = (event.layer, event.time_fs)

    def _window_s(self, layer: int) -> float:
        """Time until the next layer is routed: its mean behind this layer, behind any as long as there is none."""
        known = [self._intervals[layer]] if layer in self._intervals else list(self._intervals.values())
        number = sum(count for _, count in known)
        return sum(total for total, _ in known) / number / _FS_PER_SECOND if number else 0.0

    def _copies(self, directory: Directory) -> list[tuple[int, int, int]]:
        """Layer, expert and replica of all replicas of routed experts that are not homes, in their order."""
        rows = directory.rows
        leads = rows[(rows["part_of"] == rows["replica"]) & (rows["expert"] < self._experts)]
        found: list[tuple[int, int, int]] = []
        seen: set[tuple[int, int]] = set()
        for layer, expert, replica in sorted(
            zip(leads["layer"].tolist(), leads["expert"].tolist(), leads["replica"].tolist(), strict=True),
            key=lambda row: row[2],
        ):
            if (layer, expert) in seen:
                found.append((layer, expert, replica))
            seen.add((layer, expert))
        return found

    def _shares(self, directory: Directory, layer: int) -> npt.NDArray[np.float64]:
        """Of every expert at every endpoint, shape (experts, endpoints); none of those that are everywhere."""
        shares = self._held_shares(directory, layer)
        shares[[expert for at, expert, _ in self._copies(directory) if at == layer]] = 0.0
        return shares

    def _held_shares(self, directory: Directory, layer: int) -> npt.NDArray[np.float64]:
        """Neurons of every routed expert at every endpoint over those of the expert; replicas add up."""
        rows = directory.rows
        rows = rows[(rows["layer"] == layer) & (rows["expert"] < self._experts)]
        shares = np.zeros((self._experts, len(self._seconds_per_token)))
        np.add.at(shares, (rows["expert"], rows["chiplet"]), rows["neurons"] / self._neurons_of_expert)
        return shares

    # -- dispatch

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return dispatched(groups, directory, self._tokens, self._seconds_per_token, self._neurons_of_expert)

    # -- state

    def save(self) -> dict[str, object]:
        return {
            "loads": self._prediction.save(),
            "before": None if self._before is None else list(self._before),
            "intervals": [[layer, *figures] for layer, figures in sorted(self._intervals.items())],
            "spent": [list(copy) for copy in self._spent],
        }

    def load(self, state: Mapping[str, object]) -> None:
        self._prediction.load(state["loads"])
        before, intervals, spent = state["before"], state["intervals"], state["spent"]
        assert before is None or isinstance(before, Sequence)
        assert isinstance(intervals, Sequence)
        assert isinstance(spent, Sequence)
        self._before = None if before is None else (int(before[0]), int(before[1]))
        self._intervals = {int(layer): (int(total), int(number)) for layer, total, number in intervals}
        self._spent = [(int(layer), int(expert), int(replica)) for layer, expert, replica in spent]
