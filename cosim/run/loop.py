"""The closed loop: routing in, decisions, tasks, and the times that come out, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.policy.base import (
    GateState,
    Outcome,
    Policy,
    PreBroadcast,
    Prefetch,
    PrefetchState,
    Profile,
    ResidencyAction,
    Revoke,
    RoutedAction,
    RoutedEvent,
    Upgrade,
    UpgradeStep,
    WindowState,
)
from cosim.policy.delivery import Delivery
from cosim.policy.directory import HOST, NEAR_MEMORY, Directory
from cosim.policy.residency import Residency
from cosim.run.backbone import backbone_tasks
from cosim.run.counterfactual import Counterfactual, WhatIf
from cosim.run.domains import DomainCounts, domain_counts
from cosim.run.energy import energy_joules
from cosim.run.fault_plan import FaultPlan
from cosim.run.incidents import INCIDENT_OF_STEP, Incident
from cosim.run.machine import COMPUTE, DECISION, FETCH, REVOKE, Machine, single_task
from cosim.run.power_cap import PowerCap
from cosim.run.pressure import PressureMeter
from cosim.run.recording import DecisionRecord, LayerDecision
from cosim.run.tenant_results import TenantRow, tenant_rows
from cosim.system.backbone import backbone_work
from cosim.workload.admission import QueueQuotas
from cosim.workload.collectives import AllReduce, GroupReduce, Metadata, ring_order
from cosim.workload.gating import GateCounts, choose, kept_choices
from cosim.workload.group_reduce import group_reduce
from cosim.workload.groups import (
    first_tokens,
    replicated_groups,
    shared_groups,
    token_groups,
    token_homes,
    token_legs,
)
from cosim.workload.legs import legs_of, returned_bytes
from cosim.workload.lowering import LayerTasks, SharedReads, WorkRates, lower_layer
from cosim.workload.multicast import Multicasts, multicasts
from cosim.workload.stages import STAGES, group_stages

if TYPE_CHECKING:
    from cosim.config.schema_experiment import FullModelSpec
    from cosim.config.schema_model import ModelSpec
    from cosim.policy.residency import WriteOrder

__all__ = ["LayerResult", "LoopInputs", "PolicyError", "RunLoop"]

LAYER_DONE = 0
LAYER_ROUTED = 1
FIRST_REPLICA = 2
"""Decision keys: a layer's end, the end of its gate, and FIRST_REPLICA + the replica whose copy is complete, or whose
region has been written over."""

TRAFFIC = ("dispatch", "gather", "weight", "prefetch", "migration")
"""What bytes are counted for; where memory is stacked with compute, what demands read there is NEAR_MEMORY_BYTES."""
NEAR_MEMORY_BYTES = "near_memory"
DRAM_READ_BYTES = "dram_read"
"""Where memory is stacked with compute: what all memories read; a read for several endpoints counts once."""
READ_BYTES = "read_"
"""Before the name of a kind of memory, where the system has several: what they read."""
SCRUB_BYTES = "scrub"
"""Where regions are scrubbed before they are given to others: what is written over them."""
UPGRADE_BYTES = "upgrade"
"""Where experts are upgraded while the system runs: what is written of their next versions."""
OVER_LINKS_BYTES = "over_links"
"""Bytes times the links that they crossed; with headers and padding where there are flits."""

_FS_PER_SECOND = 10**15


class PolicyError(RuntimeError):
    """A policy returned something that no legal policy returns."""


@dataclass(frozen=True)
class LoopInputs:
    """What a run works on.

    ids: expert ids, shape (tokens, MoE layers, slots), of the whole trace.
    batches: token rows of each batch.
    layers: MoE layers that run, ascending.
    full_model: of scope ``model``. burst_bytes: what it reads are whole bursts.
    scores: router scores, shape (scored tokens, MoE layers, experts), and their rows of ``ids``; for policies that
        change routing.
    tenants: of every row of ``ids``, int16, where several share the system; quotas: of their queues.
    """

    ids: npt.NDArray[np.integer]
    batches: Sequence[npt.NDArray[np.int64]]
    layers: Sequence[int]
    model: ModelSpec
    rates: WorkRates
    scope: str
    full_model: FullModelSpec | None = None
    burst_bytes: int = 1
    scores: tuple[npt.NDArray[np.floating], npt.NDArray[np.int64]] | None = None
    tenants: npt.NDArray[np.int16] | None = None
    quotas: QueueQuotas | None = None


@dataclass(frozen=True)
class LayerResult:
    """One (batch, layer) unit: its groups with their replicas and stage times, and the bytes that moved meanwhile.

    A group whose replica is split has an entry per part in every array; ``first_tokens`` counts each token once per
    chiplet (see cosim.workload.groups), 0 for shared experts. ``gate`` says how a policy changed the routing,
    ``domains`` who helped whom under a policy that hands groups to other endpoints, ``tenants`` what each of those who
    share the system had and got. ``throttled``: whether a power cap slowed the endpoints that compute; none: no cap.
    """

    batch: int
    layer: int
    start_fs: int
    end_fs: int
    groups: npt.NDArray[np.void]
    replicas: npt.NDArray[np.void]
    first_tokens: npt.NDArray[np.int64]
    stages: Mapping[str, npt.NDArray[np.int64]]
    fetch_bytes: npt.NDArray[np.int64]
    resident_fraction: npt.NDArray[np.float64]
    bytes_by_class: Mapping[str, int]
    replica_factor: float
    energy_J: float | None
    gate: GateCounts | None = None
    domains: DomainCounts | None = None
    tenants: tuple[TenantRow, ...] = ()
    throttled: bool | None = None

    def critical(self) -> dict[str, int]:
        """Stages of the group that ends last (the first of them); they add up to ``total``."""
        last = int(np.argmax(self.stages["end"]))
        row = {stage: int(self.stages[stage][last]) for stage in STAGES}
        row["total"] = self.end_fs - self.start_fs
        return row


@dataclass
class LivePrefetch:
    """A prefetch under way or waiting in a buffer: its engine task and the replica whose weights it brings."""

    state: PrefetchState
    task: int
    replica: int


@dataclass
class RunLoop:
    """Drives one machine through all batches under one policy.

    With ``replay`` the recorded decisions are taken instead of the policy's own; a group whose recorded replica is not
    published yet waits for it. ``layer_over`` is shown every simulated layer: result, tasks, id of the first task and
    records. With ``only`` as well, just those (batch, layer) are measured: between them the recorded
    residency actions take effect at once, and where the record prefetches, the layer before is run to warm up.
    """

    machine: Machine
    policy: Policy
    residency: Residency
    inputs: LoopInputs
    profile: Profile
    window_batches: int = 0
    replay: DecisionRecord | None = None
    only: frozenset[tuple[int, int]] | None = None
    progress: Callable[[int, int], None] | None = None
    between_layers: Callable[[RunLoop], None] | None = None
    layer_over: Callable[[LayerResult, LayerTasks, int, Mapping[str, npt.NDArray[np.int64]]], None] | None = None
    faults: FaultPlan | None = None
    results: list[LayerResult] = field(default_factory=list)
    record: DecisionRecord = field(default_factory=DecisionRecord)

    def __post_init__(self) -> None:
        self.position = 0  # (batch, layer) units that are over
        self.demand = np.zeros_like(self.profile.counts)  # of the present window
        self.energy_J = 0.0
        self.macs = 0
        self.copies_made = 0
        self.gated = 0  # token groups
        cap = self.machine.system.spec.power_cap
        self.power_cap = None if cap is None else PowerCap(cap)
        self.rates = self.inputs.rates  # at the present rate of the endpoints
        self._rate_share = Fraction(1)
        self.outcomes: list[Outcome] = []
        self.prefetches: dict[int, LivePrefetch] = {}
        stacked = (NEAR_MEMORY_BYTES,) if self.machine.system.near_memories else ()
        scrubbed = (SCRUB_BYTES,) if self.residency.scrubs else ()
        upgraded = (UPGRADE_BYTES,) if self.faults is not None and self.faults.upgrades else ()
        self.moved = dict.fromkeys((*TRAFFIC, *stacked, *scrubbed, *upgraded), 0)
        self.counted = dict.fromkeys(self._counted(), 0)  # at the end of the layer before
        self.delivery = Delivery.on(self.machine.system, self.policy.delivery, f"policies.{self.policy.name}.delivery")
        self.copies: dict[int, int] = {}  # replica → engine task with which its copy, or its first write, ends
        self.trials: dict[tuple[int, int], int] = {}  # (layer, expert) → batch in which its next version was published
        self.incidents: list[Incident] = []
        self.kinds: dict[int, str] = {}  # engine task → class its bytes count for
        self.next_prefetch = 0
        self.meter = PressureMeter(self.machine)
        self._counterfactual: Counterfactual | None = None

    # -- the loop

    def run(self) -> list[LayerResult]:
        """All batches and layers from ``position`` on; returns one result each. Conservation is checked at the end."""
        layers = list(self.inputs.layers)
        units = [(batch, layer) for batch in range(len(self.inputs.batches)) for layer in layers]
        while self.position < len(units):
            batch, layer = units[self.position]
            following = units[self.position + 1] if self.position + 1 < len(units) else (-1, -1)
            if self._runs((batch, layer), following):
                result = self._layer(batch, layer, following)
                once = result.replicas["part_of"] == result.replicas["replica"]
                routed = result.groups[once & (result.groups["expert"] < self.inputs.rates.experts)]
                np.add.at(self.demand, (routed["layer"], routed["expert"]), routed["tokens"])
                if self._measured((batch, layer)):
                    self.results.append(result)
            else:
                self._skip(batch, layer)
            self.position += 1
            if self.window_batches and layer == layers[-1] and (batch + 1) % self.window_batches == 0:
                self._window((batch + 1) // self.window_batches - 1, self.demand)
                self.demand = np.zeros_like(self.demand)
            cap = self.power_cap
            if cap is not None and layer == layers[-1] and (batch + 1) % cap.spec.window_batches == 0:
                cap.close(self.machine.now_fs, self.energy_J)
            if self.progress is not None:
                self.progress(self.position, len(units))
            if self.between_layers is not None:
                self.between_layers(self)
        self._finish()
        return self.results

    def _measured(self, unit: tuple[int, int]) -> bool:
        return self.only is None or unit in self.only

    def _runs(self, unit: tuple[int, int], following: tuple[int, int]) -> bool:
        """Whether a unit is simulated: a measured one, or one whose prefetches a measured one waits for."""
        if self._measured(unit):
            return True
        assert self.replay is not None
        warms_up = any(isinstance(action, (Prefetch, PreBroadcast)) for action in self.replay.layer(*unit).actions)
        return warms_up and following != (-1, -1) and self._measured(following)

    def _skip(self, batch: int, layer: int) -> None:
        """Takes a unit's decisions as taken, without simulating it: what they bring is there at once."""
        assert self.replay is not None
        self._settle()
        decided = self.replay.layer(batch, layer)
        if self.residency.tenants is not None:
            rows, size = self.inputs.batches[batch], self.inputs.model.activation_bytes
            homes = token_homes(len(rows), self.machine.compute_endpoints)
            ids = self.inputs.ids[rows, layer] if decided.ids is None else decided.ids
            self.residency.tenants.see(token_groups(ids, homes, layer, size, self._tenants(rows)))
        for action in decided.actions:
            if isinstance(action, PreBroadcast):
                order = self.residency.broadcast(action, recorded=True)
                for copy in () if isinstance(order, str) else order.copies:
                    self._published(copy.replica)
            elif isinstance(action, ResidencyAction):
                self._migrate([action], self.machine.now_fs)
        for step in decided.upgrades:
            self._take_step(step, batch, None, self.machine.now_fs)
        self.record.add(batch, layer, decided)

    def _layer(self, batch: int, layer: int, following: tuple[int, int]) -> LayerResult:
        machine, model = self.machine, self.inputs.model
        start_fs = machine.now_fs
        decided = self.replay.layer(batch, layer) if self.replay is not None else None
        throttled = self._throttle(decided)
        rows = self.inputs.batches[batch]
        homes = token_homes(len(rows), machine.compute_endpoints)
        if self.inputs.full_model is not None:
            self._backbone(homes, layer, start_fs)
        if self.inputs.scope != "routed":
            self._gate(homes, machine.now_fs)
        routed_fs = machine.now_fs
        directory = self.residency.directory(with_pending=decided is not None)
        ids, chosen, gate = self._routing(batch, layer, homes, directory, decided)
        tenants = self._tenants(rows)
        groups = token_groups(ids, homes, layer, model.activation_bytes, tenants)
        if self.residency.tenants is not None:
            self.residency.tenants.see(groups)
        if decided is None:
            pressure = self.meter.read(self.residency)
            event = RoutedEvent(
                routed_fs,
                batch,
                layer,
                following[1],
                following[0],
                groups,
                directory,
                pressure,
                [live.state for live in self.prefetches.values()],
                tuple(self.outcomes),
                ids,
                homes,
            )
            self.outcomes.clear()
            actions = tuple(self.policy.on_routed(event))
            assigned = self.policy.assign(groups, directory, pressure)
            self._check_assignment(groups, assigned, directory)
            helped = self.policy.execute_at(groups, assigned, directory, pressure)
            cost = sum(self._cost(hook) for hook in ("on_routed", "assign", "execute_at"))
            cost += self._cost("gate") if gate is not None else 0
        else:
            actions, assigned, cost = decided.actions, self._rows_of(decided, directory), decided.cost_fs
            helped = decided.chiplets
            self._check_assignment(groups, assigned, directory)
        effective = routed_fs + cost
        served_by = directory.rows["replica"][assigned]
        domains: DomainCounts | None = None
        if helped is not None:
            assigned, directory, domains = self._helped(assigned, helped, directory)
        legs, rows_of_legs = legs_of(assigned, directory)
        chiplets = directory.rows["chiplet"][rows_of_legs]
        firsts = first_tokens(ids, homes, groups, legs, chiplets, tenants)
        summing: GroupReduce | None = None
        once: npt.NDArray[np.int64] | None = None
        if self.policy.group_all_reduce:
            summing = group_reduce(
                ids,
                homes,
                groups,
                legs,
                rows_of_legs,
                directory,
                machine.system.routes,
                tenants,
                sum_bytes=model.hidden * self.policy.partial_sum_bytes,
                merged=self.policy.local_reduction,
            )
            # among those that return anything, no earlier one brings a token to its chiplet
            going = np.flatnonzero((summing.ring_of_group < 0) | summing.returns)
            once = np.zeros_like(firsts)
            once[going] = first_tokens(ids, homes, groups, legs[going], chiplets[going], tenants)
        multicast = self._multicast(token_legs(ids, homes, groups, legs, tenants), chiplets, homes, tenants)
        groups, assigned = groups[legs], rows_of_legs
        if self.policy.all_reduce:
            self._check_spread(assigned, directory)
            groups, assigned, firsts = replicated_groups(groups, assigned, chiplets, firsts)
        once = firsts if once is None else once
        if self.inputs.rates.shared_bytes:
            shared = shared_groups(homes, layer, model.experts, model.activation_bytes, tenants)
            groups = np.concatenate([groups, shared])
            assigned = np.concatenate([assigned, self._shared_rows(shared, directory)])
            none = np.zeros(len(shared), dtype=np.int64)
            firsts, once = np.concatenate([firsts, none]), np.concatenate([once, none])
            if summing is not None:
                ring_of_group = np.concatenate([summing.ring_of_group, none - 1])
                summing = GroupReduce(summing.rings, ring_of_group, np.concatenate([summing.returns, none > 0]))
        replicas = directory.rows[assigned].copy()

        waits = dict(self.copies) if self.replay is not None else None
        summed = once if self.policy.local_reduction else None
        returned = returned_bytes(groups, replicas, model, self.policy.partial_sum_bytes)
        if summing is not None:
            returned = np.where(summing.ring_of_group >= 0, groups["bytes"], returned)
        tasks = lower_layer(
            groups,
            assigned,
            directory,
            self.rates,
            machine.nodes,
            machine.classes,
            decision_key=LAYER_DONE,
            combine=self.inputs.scope != "routed",
            gather_bytes=returned,
            waits=waits,
            summed_tokens=summed,
            sent_tokens=firsts if self.policy.dispatch_once else None,
            metadata=self._metadata(directory, layer),
            all_reduce=self._all_reduce(len(rows)),
            group_reduce=summing,
            shared_reads=self._shared_reads(),
            quotas=self.inputs.quotas,
            multicast=multicast,
        )
        base = machine.engine.submit(tasks.columns, tasks.before, tasks.after, effective)
        used_here = np.unique(replicas["replica"]).tolist()
        in_use = [replica for replica in used_here if replica not in self.residency.pending]
        self.residency.check_reads([replica for replica in used_here if replica not in (waits or {})])
        self.residency.use(in_use, 1)
        taken = self._apply(actions, following[0], effective)
        steps = self._upgrade(batch, layer, groups, replicas, decided, effective)
        self.record.add(batch, layer, LayerDecision(taken, served_by, cost, chosen, helped, throttled, steps))
        records = self._run_to_end_of_layer(base, tasks)
        self.residency.check_reads(used_here)
        self.residency.use(in_use, -1)
        self._write_over()

        stages = group_stages(tasks, records, base, start_fs, effective)
        fetched = np.searchsorted(records["task"], base + np.arange(tasks.fetches))
        used = records["used_bytes"][fetched][tasks.fetch_of_replica]
        weights = directory.rows["bytes"][tasks.replica_rows]
        moved = self._take_moved(tasks, records, fetched, directory)
        result = LayerResult(
            batch,
            layer,
            start_fs,
            int(stages["end"].max(initial=effective)),
            groups,
            replicas,
            firsts,
            stages,
            (weights - used)[tasks.replica_of_group],
            (used / weights)[tasks.replica_of_group],
            moved,
            self.residency.replica_factor(),
            self._energy(groups, replicas),
            gate,
            domains,
            () if self.residency.tenants is None else tenant_rows(self.residency.tenants, groups, stages, start_fs),
            None if self.power_cap is None else throttled,
        )
        if self.layer_over is not None:
            self.layer_over(result, tasks, base, records)
        return result

    def _throttle(self, decided: LayerDecision | None) -> bool:
        """Sets the rate of the layer that begins; whether a power cap lowers it, as recorded or as it stands."""
        if self.power_cap is None:
            return False
        throttled = self.power_cap.throttled if decided is None else decided.throttled
        whole = self.inputs.rates
        self.rates = whole.slowed(self.power_cap.spec.exact_rate) if throttled else whole
        self._rate_share = self.power_cap.spec.exact_rate if throttled else Fraction(1)
        return throttled

    def _tenants(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16] | None:
        """Tenant of each token of a batch."""
        return None if self.inputs.tenants is None else self.inputs.tenants[rows]

    def _routing(
        self, batch: int, layer: int, homes: npt.NDArray[np.int32], directory: Directory, decided: LayerDecision | None
    ) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int32] | None, GateCounts | None]:
        """Experts of the batch's tokens; where the policy has a gate, what it chose and what that changed."""
        rows = self.inputs.batches[batch]
        recorded = self.inputs.ids[rows, layer]
        if self.policy.preserves_routing:
            return recorded, None, None
        assert self.inputs.scores is not None
        values, scored = self.inputs.scores
        scores = values[np.searchsorted(scored, rows), layer]
        if decided is not None:
            assert decided.ids is not None
            return decided.ids, decided.ids, kept_choices(scores, recorded, decided.ids)
        state = GateState(batch, layer, recorded, homes, directory, self.meter.read(self.residency))
        adjusted = self.policy.gate(scores, state)
        if not isinstance(adjusted, np.ndarray) or adjusted.shape != scores.shape or not np.isfinite(adjusted).all():
            raise PolicyError(
                f"policy {self.policy.name}: gate must return finite scores of shape {scores.shape} (tokens, experts)"
            )
        chosen = choose(adjusted, recorded)
        return chosen, chosen, kept_choices(scores, recorded, chosen)

    def _energy(self, groups: npt.NDArray[np.void], replicas: npt.NDArray[np.void]) -> float | None:
        """Joules since the end of the layer before."""
        rates = self.inputs.rates
        shared = groups["expert"] == rates.experts
        slices = groups["tokens"][~shared].astype(np.int64) * replicas["neurons"][~shared]
        self.macs += int(slices.sum()) * rates.expert_macs // rates.neurons
        self.macs += int(groups["tokens"][shared].sum()) * rates.shared_macs
        self.gated += int((~shared).sum())
        total = energy_joules(self.machine, self.macs, self.copies_made, self.gated)
        if total is None:
            return None
        spent, self.energy_J = total - self.energy_J, total
        return spent

    def _backbone(self, homes: npt.NDArray[np.int32], layer: int, start_fs: int) -> None:
        """What precedes a layer's gate outside the experts; returns when the last chiplet is done."""
        full = self.inputs.full_model
        assert full is not None
        work = backbone_work(self.inputs.model, full, layer)
        tasks = backbone_tasks(self.machine, work, full, homes, self.inputs.burst_bytes, LAYER_ROUTED, self._rate_share)
        base = self.machine.engine.submit(tasks.columns, tasks.before, tasks.after, start_fs)
        self.kinds.update(dict.fromkeys(range(base, base + tasks.fetches), "weight"))
        self.macs += work.macs * len(homes)
        self._run_to(LAYER_ROUTED, -1, -1)

    def _gate(self, homes: npt.NDArray[np.int32], start_fs: int) -> None:
        """The gate at every chiplet with tokens; returns when the last is done."""
        rates, nodes = self.rates, self.machine.nodes
        chiplets, tokens = np.unique(homes, return_counts=True)
        jobs = [
            single_task(
                COMPUTE,
                source=int(nodes[chiplet]),
                destination=int(nodes[chiplet]),
                cycles=rates.cycles(int(chiplet), rates.gate_macs * int(count)),
            )[0]
            for chiplet, count in zip(chiplets, tokens, strict=True)
        ]
        jobs.append(single_task(DECISION, key=LAYER_ROUTED)[0])
        columns = {name: np.concatenate([job[name] for job in jobs]) for name in jobs[0]}
        before = np.arange(len(chiplets), dtype=np.int64)
        base = self.machine.engine.submit(columns, before, np.full(len(chiplets), len(chiplets)), start_fs)
        self._run_to(LAYER_ROUTED, base, base + len(jobs))

    def _metadata(self, directory: Directory, layer: int) -> Metadata | None:
        """Every chiplet tells every other how many tokens each of its experts will get."""
        each, endpoints = self.policy.metadata_bytes, self.machine.compute_endpoints.astype(np.int64)
        if not each or len(endpoints) < 2:
            return None
        here = directory.rows["chiplet"][directory.rows["layer"] == layer]
        held = np.bincount(here, minlength=int(endpoints.max()) + 1)[endpoints]
        return Metadata(endpoints, each * np.maximum(held, 1))

    def _all_reduce(self, tokens: int) -> AllReduce | None:
        if not self.policy.all_reduce or len(self.machine.compute_endpoints) < 2:
            return None
        return AllReduce(self._ring, tokens * self.inputs.model.hidden * self.policy.partial_sum_bytes)

    @cached_property
    def _ring(self) -> npt.NDArray[np.int64]:
        """All compute endpoints in a ring of few links."""
        endpoints, routes = self.machine.compute_endpoints.astype(np.int64), self.machine.system.routes
        routers = routes.router[endpoints]
        return endpoints[ring_order(routes.hops[np.ix_(routers, routers)])]

    def _check_spread(self, assigned: npt.NDArray[np.int32], directory: Directory) -> None:
        """Raises PolicyError unless every replica in use has a part on every compute endpoint."""
        rows = directory.rows[np.unique(assigned)]
        replicas, parts = np.unique(rows["part_of"], return_counts=True)
        short = np.flatnonzero(parts != len(self.machine.compute_endpoints))
        if len(short):
            expert = int(rows["expert"][rows["part_of"] == replicas[short[0]]][0])
            raise PolicyError(
                f"policy {self.policy.name}: all_reduce needs every expert on all of the "
                f"{len(self.machine.compute_endpoints)} compute endpoints, expert {expert} is on {parts[short[0]]}"
            )

    def _multicast(
        self,
        pairs: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
        chiplets: npt.NDArray[np.int32],
        homes: npt.NDArray[np.int32],
        tenants: npt.NDArray[np.int16] | None,
    ) -> Multicasts | None:
        if not self.policy.multicast_dispatch:
            return None
        return multicasts(*pairs, chiplets, homes, tenants, "multicast", self.machine.group)

    def _shared_reads(self) -> SharedReads | None:
        if not self.delivery.reads_once:
            return None
        places = self.machine.system.endpoints
        networks = np.array([place.network for place in places], dtype=np.int64) if self.policy.phase_aligned else None
        return SharedReads(self.delivery.message_class, self.machine.group, networks)

    def _shared_rows(self, shared: npt.NDArray[np.void], directory: Directory) -> npt.NDArray[np.int32]:
        found = []
        for group in shared:
            rows = directory.of(int(group["layer"]), int(group["expert"]))
            found.append(next(row for row in rows if directory.rows["chiplet"][row] == group["source"]))
        return np.array(found, dtype=np.int32)

    def _run_to_end_of_layer(self, base: int, tasks: LayerTasks) -> dict[str, npt.NDArray[np.int64]]:
        return self._run_to(LAYER_DONE, base, base + tasks.tasks)

    def _run_to(self, wanted: int, first: int, last: int) -> dict[str, npt.NDArray[np.int64]]:
        """Runs to the decision with key ``wanted``; publishes what is copied meanwhile. Returns finished tasks."""
        parts: list[dict[str, npt.NDArray[np.int64]]] = []
        while True:
            stop, _, key, _ = self.machine.engine.run()
            if stop == "idle":
                raise RuntimeError("the engine went idle in the middle of a layer")
            parts.append(self.machine.engine.take_records())
            self._note_finished(parts[-1], first, last)
            if key == wanted:
                break
            self._copied_or_written(key - FIRST_REPLICA)
        merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(merged["task"], kind="stable")
        return {name: values[order] for name, values in merged.items()}

    # -- decisions

    def _cost(self, hook: str) -> int:
        seconds = Fraction(self.policy.decision_cost.get(hook, 0))
        return -(-(seconds * _FS_PER_SECOND).numerator // (seconds * _FS_PER_SECOND).denominator)

    def _rows_of(self, decided: LayerDecision, directory: Directory) -> npt.NDArray[np.int32]:
        rows = directory.rows
        position = {int(replica): row for row, replica in enumerate(rows["replica"])}
        missing = sorted({int(replica) for replica in decided.replicas} - set(position))
        if missing:
            raise PolicyError(f"the recorded replicas {missing} are not published in this run")
        return np.array([position[int(replica)] for replica in decided.replicas], dtype=np.int32)

    def _check_assignment(self, groups: npt.NDArray[np.void], assigned: object, directory: Directory) -> None:
        rows = directory.rows
        name = self.policy.name
        if not isinstance(assigned, np.ndarray) or assigned.shape != (len(groups),):
            raise PolicyError(f"policy {name}: assign must return one directory row per group, shape ({len(groups)},)")
        if assigned.dtype.kind != "i" or (len(assigned) and (assigned.min() < 0 or assigned.max() >= len(rows))):
            raise PolicyError(f"policy {name}: assign must return rows of the directory, 0 to {len(rows) - 1}")
        chosen = rows[assigned]
        wrong = np.flatnonzero((chosen["expert"] != groups["expert"]) | (chosen["layer"] != groups["layer"]))
        if len(wrong):
            first = wrong[0]
            raise PolicyError(
                f"policy {name}: group {first} needs expert {groups['expert'][first]} of layer "
                f"{groups['layer'][first]}, assign gave it expert {chosen['expert'][first]} of layer "
                f"{chosen['layer'][first]}"
            )

    def _helped(
        self, assigned: npt.NDArray[np.int32], chiplets: npt.NDArray[np.int32], directory: Directory
    ) -> tuple[npt.NDArray[np.int32], Directory, DomainCounts]:
        """Rows of groups and the directory once helpers have rows of their own, which live for one layer; domains."""
        name, rows = self.policy.name, directory.rows
        if not isinstance(chiplets, np.ndarray) or chiplets.shape != assigned.shape or chiplets.dtype.kind != "i":
            raise PolicyError(f"policy {name}: execute_at must return an endpoint per group, shape {assigned.shape}")
        unknown = sorted(set(chiplets.tolist()) - set(self.machine.compute_endpoints.tolist()))
        if unknown:
            raise PolicyError(f"policy {name}: execute_at named endpoint {unknown[0]}, which does not compute")
        away = np.flatnonzero(rows["chiplet"][assigned] != chiplets)
        if not len(away):
            return assigned, directory, domain_counts(rows, (), self.machine.system.routes)
        split = [int(row) for row in assigned[away] if len(directory.parts(int(row))) > 1]
        if split:
            raise PolicyError(
                f"policy {name}: expert {rows['expert'][split[0]]} is split over endpoints, it has no helpers"
            )
        pairs, number = np.unique(np.stack([assigned[away], chiplets[away]], axis=1), axis=0, return_inverse=True)
        guests = rows[pairs[:, 0]].copy()
        guests["chiplet"], guests["executes_at"] = pairs[:, 1], HOST
        domains = domain_counts(rows, [(int(row), int(at)) for row, at in pairs], self.machine.system.routes)
        assigned = assigned.copy()
        assigned[away] = len(rows) + number.reshape(-1).astype(np.int32)
        return assigned, Directory(np.concatenate([rows, guests])), domains

    def _apply(self, actions: Sequence[RoutedAction], batch: int, effective: int) -> tuple[RoutedAction, ...]:
        """Starts what was asked for; returns what a replay has to ask for again."""
        taken: list[RoutedAction] = []
        for action in actions:
            if isinstance(action, PreBroadcast):
                if not self._pre_broadcast(action, effective):
                    continue
            elif isinstance(action, ResidencyAction):
                if not self._migrate([action], effective):
                    continue
            elif isinstance(action, Revoke):
                self._revoke(action, effective)
            elif not self._prefetch(action, batch, effective):
                continue
            taken.append(action)
        return tuple(taken)

    def _pre_broadcast(self, action: PreBroadcast, effective: int) -> bool:
        """Starts the copies of a broadcast; whether there is room for them."""
        order = self.residency.broadcast(action, recorded=self.replay is not None)
        if isinstance(order, str):
            self.outcomes.append(Outcome(action, "refused", order))
            return False
        self.outcomes.append(Outcome(action, "deferred", "its copies are under way"))
        end, tasks = self.machine.submit_broadcast(order, effective, FIRST_REPLICA)
        self.copies.update(dict.fromkeys((copy.replica for copy in order.copies), end))
        self.copies_made += len(order.copies)
        self.kinds.update(dict.fromkeys(tasks, "migration"))
        return True

    def _prefetch_problem(self, action: Prefetch, batch: int) -> str:
        """Why a prefetch cannot start; empty if it can."""
        directory = self.residency.directory()
        row = _replica_at(directory, action)
        if row is None:
            return f"endpoint {action.chiplet} has no replica of expert {action.expert} in layer {action.layer}"
        if self.faults is not None and self.faults.of_prefetch(batch, action):
            self._note("prefetch_failed", action.layer, action.expert)
            return "it failed"
        replica = int(directory.rows["replica"][row])
        if any(live.replica == replica for live in self.prefetches.values()):
            return "it is being prefetched already"
        return ""

    def _prefetch(self, action: Prefetch, batch: int, effective: int) -> bool:
        """Starts a prefetch if it can; false where a tenant's bound forbids it: a replay does not ask for that."""
        problem = self._prefetch_problem(action, batch)
        if problem:
            self.outcomes.append(Outcome(action, "refused", problem))
            return True
        problem = self._beyond_credits(action)
        if problem:
            self.outcomes.append(Outcome(action, "refused", problem))
            return False
        directory = self.residency.directory()
        row = _replica_at(directory, action)
        assert row is not None
        replica = directory.rows[row]
        if self.residency.tenants is not None:
            self.residency.tenants.prefetched(self.next_prefetch, action.layer, action.expert)
        task = self.machine.engine.submit(
            *single_task(
                FETCH,
                prefetch=1,
                message_class=self.machine.classes[self.policy.prefetch_class],
                source=int(self.machine.nodes[replica["memory"]]),
                destination=int(self.machine.nodes[action.chiplet]),
                bytes=int(replica["bytes"]),
                address=int(replica["address"]),
                key=int(replica["replica"]),
            ),
            effective,
        )
        state = PrefetchState(self.next_prefetch, batch, action.layer, action.expert, action.chiplet)
        self.prefetches[state.prefetch] = LivePrefetch(state, task, int(replica["replica"]))
        self.kinds[task] = "prefetch"
        self.next_prefetch += 1
        return True

    def _beyond_credits(self, action: Prefetch) -> str:
        """Why its tenant may have no further prefetch; empty if it may."""
        books = self.residency.tenants
        if books is None or self.replay is not None:
            return ""
        live: dict[int, int] = {}
        for number in self.prefetches:
            live[books.prefetch_of(number)] = live.get(books.prefetch_of(number), 0) + 1
        return books.prefetch_problem(action.layer, action.expert, live)

    def _revoke(self, action: Revoke, effective: int) -> None:
        live = self.prefetches.pop(action.prefetch, None)
        if live is None:
            self.outcomes.append(Outcome(action, "refused", f"no prefetch {action.prefetch} is under way"))
            return
        destination = int(self.machine.nodes[live.state.chiplet])
        self.machine.engine.submit(*single_task(REVOKE, destination=destination, stream=live.task), effective)
        self.outcomes.append(Outcome(action, "done"))

    def _window(self, window: int, demand: npt.NDArray[np.int64]) -> None:
        self.residency.close_window()
        state = WindowState(
            self.machine.now_fs,
            window,
            demand,
            self.residency.directory(),
            self.meter.read(self.residency),
            tuple(self.outcomes),
            self.residency.migrating,
            self._what_if((window + 1) * self.window_batches - 1) if self.policy.needs_what_if else None,
        )
        self.outcomes.clear()
        self.meter.close_window()
        wishes = self.replay.window(window) if self.replay is not None else tuple(self.policy.on_window(state))
        taken = self._migrate(wishes, self.machine.now_fs + (0 if self.replay is not None else self._cost("on_window")))
        self.record.add_window(window, taken)

    def _what_if(self, batch: int) -> WhatIf | None:
        """Times of a batch's layers under layouts of one's choice; none in a replay, which asks no policy."""
        if self.replay is not None:
            return None
        if self._counterfactual is None:
            self._counterfactual = Counterfactual(self.machine.system, self.inputs.rates, self.policy)
        rows = self.inputs.batches[batch]
        homes = token_homes(len(rows), self.machine.compute_endpoints)
        size = self.inputs.model.activation_bytes
        layers = [token_groups(self.inputs.ids[rows, layer], homes, layer, size) for layer in self.inputs.layers]
        return self._counterfactual.what_if(layers, self.residency.directory())

    def _migrate(self, wishes: Sequence[ResidencyAction], effective: int) -> list[ResidencyAction]:
        """Starts what is legal of the wishes; returns that."""
        orders, outcomes = self.residency.propose(wishes, recorded=self.replay is not None)
        self.outcomes.extend(outcomes)
        taken = [wish for wish, outcome in zip(wishes, outcomes, strict=True) if outcome.status != "refused"]
        self._write_over()
        for order in orders:
            if self.only is not None:
                self._published(order.replica)
                continue
            task = self.machine.submit_copy(order, effective, decision_key=FIRST_REPLICA + order.replica)
            self.copies[order.replica] = task
            self.copies_made += 1
            self.kinds[task] = "migration"
        return taken

    def _copied_or_written(self, replica: int) -> None:
        """A copy is complete, a next version written, or the region that a replica left behind written over."""
        if replica in self.residency.scrubbing:
            self.residency.scrubbed(replica)
        elif replica in self.residency.writing:
            self._written(replica)
        else:
            self._published(replica)

    def _write_over(self) -> None:
        """Has regions written over that came back; where copies take no time, neither does that."""
        for order in self.residency.take_scrubs():
            if self.only is not None:
                self.residency.scrubbed(order.replica)
                continue
            key = FIRST_REPLICA + order.replica
            task = self.machine.submit_write(order, self.machine.now_fs, decision_key=key)
            self.kinds[task] = SCRUB_BYTES

    def _published(self, replica: int) -> None:
        fault = None if self.faults is None else self.faults.of_copy(replica)
        if fault is not None:
            action = self.residency.pending[replica].action
            self._note("copy_interrupted" if fault == "interruption" else "copy_harmed", action.layer, action.expert)
        if fault == "interruption":
            self.outcomes.append(self.residency.interrupt(replica))
        else:
            self.outcomes.append(self.residency.publish(replica, intact=fault is None))
        self.copies.pop(replica, None)
        self._write_over()

    # -- upgrades

    def _upgrade(
        self,
        batch: int,
        layer: int,
        groups: npt.NDArray[np.void],
        replicas: npt.NDArray[np.void],
        decided: LayerDecision | None,
        effective: int,
    ) -> tuple[Upgrade, ...]:
        """Steps of upgrades that are due while the layer's tokens are in flight, as recorded or as they stand."""
        if decided is None:
            if self.faults is None or not self.faults.upgrades:
                return ()
            steps = [*self._ends_of_trials(batch, layer), *self._ends_of_writes(layer)]
        else:
            steps = list(decided.upgrades)
        flying = (groups, replicas)
        taken = [step for step in steps if self._take_step(step, batch, flying, effective)]
        if decided is None and self.faults is not None:
            copied = {(order.action.layer, order.action.expert) for order in self.residency.pending.values()}
            routed = groups[groups["expert"] < self.inputs.rates.experts]
            wanted = [
                expert
                for expert in np.sort(np.repeat(routed["expert"], routed["tokens"])).tolist()  # hot ones more often
                if (layer, expert) not in copied and not self.residency.upgrading(layer, expert)
            ]
            chosen = self.faults.upgraded(batch, layer, wanted)
            if chosen is not None:
                places = self.residency.replicas_of(layer, chosen)
                step = Upgrade(UpgradeStep.stage, layer, chosen, places)
                if self._take_step(step, batch, flying, effective):
                    taken.append(step)
        return tuple(taken)

    def _ends_of_trials(self, batch: int, layer: int) -> list[Upgrade]:
        assert self.faults is not None
        ended = [key for key, at in self.trials.items() if key[0] == layer and self.faults.ends_trial(batch, at)]
        back = UpgradeStep.roll_back
        return [
            Upgrade(back if self.faults.rolled_back(batch, *key) else UpgradeStep.confirm, *key)
            for key in sorted(ended)
        ]

    def _ends_of_writes(self, layer: int) -> list[Upgrade]:
        staged, _ = self.residency.upgrades()
        problems = {key: self.residency.staged_problem(*key) for key in sorted(staged) if key[0] == layer}
        return [
            Upgrade(UpgradeStep.drop if problem else UpgradeStep.publish, *key)
            for key, problem in problems.items()
            if problem is not None
        ]

    def _take_step(
        self,
        step: Upgrade,
        batch: int,
        flying: tuple[npt.NDArray[np.void], npt.NDArray[np.void]] | None,
        effective: int,
    ) -> bool:
        """Takes one step of an upgrade; false where there is no room for it.

        ``flying``: groups and replicas of the layer that is under way.
        """
        residency, key = self.residency, (step.layer, step.expert)
        recorded = self.replay is not None
        before = residency.replicas_of(*key)
        swaps = step.step in (UpgradeStep.publish, UpgradeStep.roll_back)
        problem = ""
        if step.step is UpgradeStep.stage:
            orders = residency.stage(*key, replicas=step.replicas)
            if isinstance(orders, str):
                if recorded:
                    raise PolicyError(f"the recorded upgrade of expert {key[1]} in layer {key[0]}: {orders}")
                self._note("upgrade_refused", *key)
                return False
            for order in orders:
                self._write_next(order, effective)
        elif step.step is UpgradeStep.publish:
            problem = residency.upgrade(*key, recorded=recorded)
            self.trials[key] = batch
        elif step.step is UpgradeStep.drop:
            residency.drop_staged(*key)
        else:
            del self.trials[key]
            problem = (residency.confirm if step.step is UpgradeStep.confirm else residency.roll_back)(*key)
        if problem:
            raise PolicyError(f"{step.step.value} of expert {key[1]} in layer {key[0]}: {problem}")
        groups = tokens = 0
        if swaps:
            self._revoke_stale(before, (batch, step.layer) if flying is not None else None, effective)
        if swaps and flying is not None:
            using = np.isin(flying[1]["replica"], before)
            groups, tokens = int(using.sum()), int(flying[0]["tokens"][using].sum())
        self._note(INCIDENT_OF_STEP[step.step], *key, len(before), groups, tokens)
        self._write_over()
        return True

    def _write_next(self, order: WriteOrder, effective: int) -> None:
        """Has a memory write a replica's next version; where copies take no time, neither does that."""
        if self.only is not None:
            self._written(order.replica)
            return
        task = self.machine.submit_write(order, effective, decision_key=FIRST_REPLICA + order.replica)
        self.copies[order.replica] = task
        self.kinds[task] = UPGRADE_BYTES

    def _written(self, replica: int) -> None:
        """The write of a next version has ended, soundly or not."""
        assert self.faults is not None
        fault = self.faults.of_copy(replica)
        if fault is not None:
            row = self.residency.row(replica)
            name = "write_interrupted" if fault == "interruption" else "write_harmed"
            self._note(name, int(row["layer"]), int(row["expert"]))
        self.residency.written(replica, whole=fault != "interruption", intact=fault != "checksum")
        self.copies.pop(replica, None)
        self._write_over()

    def _revoke_stale(self, replicas: Sequence[int], running: tuple[int, int] | None, effective: int) -> None:
        """Withdraws prefetches of replicas that have left the directory, but for those of the layer under way."""
        for number, live in list(self.prefetches.items()):
            if live.replica in replicas and (live.state.batch, live.state.layer) != running:
                self._revoke(Revoke(number), effective)

    def _note(
        self, incident: str, layer: int, expert: int, replicas: int = 1, groups: int = 0, tokens: int = 0
    ) -> None:
        batch = min(self.position // max(len(self.inputs.layers), 1), len(self.inputs.batches) - 1)
        version = self.residency.version(layer, expert)
        row = Incident(self.machine.now_fs, batch, layer, expert, incident, replicas, version, groups, tokens)
        self.incidents.append(row)

    # -- accounts

    def _note_finished(self, records: Mapping[str, npt.NDArray[np.int64]], first: int, last: int) -> None:
        """Books bytes of tasks that are not of the layer [first, last), and forgets prefetches that are claimed."""
        for position, task in enumerate(records["task"].tolist()):
            if first <= task < last:
                continue
            kind = self.kinds.pop(task, None)
            if kind is not None:
                self.moved[kind] += int(records["moved_bytes"][position])

    def _take_moved(
        self,
        tasks: LayerTasks,
        records: Mapping[str, npt.NDArray[np.int64]],
        fetched: npt.NDArray[np.int64],
        directory: Directory,
    ) -> dict[str, int]:
        size = tasks.columns["bytes"]
        self.moved["dispatch"] += tasks.dispatch_bytes
        self.moved["gather"] += tasks.gather_bytes
        brought = int(records["moved_bytes"][fetched].sum())
        near = directory.rows["executes_at"][tasks.replica_rows] == NEAR_MEMORY
        if bool(near.any()):
            used = records["used_bytes"][fetched]
            of_near = int((size[: tasks.fetches].astype(np.int64) - used)[tasks.fetch_of_replica[near]].sum())
            self.moved[NEAR_MEMORY_BYTES] += of_near
            brought -= of_near
        self.moved["weight"] += brought
        claimed = set(tasks.columns["key"][: tasks.fetches].tolist())
        for number, live in list(self.prefetches.items()):
            if live.replica in claimed:
                del self.prefetches[number]
        moved, self.moved = self.moved, dict.fromkeys(self.moved, 0)
        now = self._counted()
        moved.update({name: count - self.counted[name] for name, count in now.items()})
        self.counted = now
        return moved

    def _counted(self) -> dict[str, int]:
        """What the machine has counted since its beginning and every layer has a share of."""
        memories: dict[str, int] = {}
        for place in self.machine.system.memory_endpoints:
            read = int(self.machine.memory_statistics(place.index)["read_bytes"])
            memories[place.name] = memories.get(place.name, 0) + read
        counted = {OVER_LINKS_BYTES: self.machine.link_bytes()}
        if self.machine.system.near_memories:
            counted[DRAM_READ_BYTES] = sum(memories.values())
        if len(memories) > 1:
            counted.update({READ_BYTES + name: read for name, read in memories.items()})
        return counted

    def _finish(self) -> None:
        """Withdraws what nobody claimed, lets everything under way end, and checks conservation."""
        self._settle()
        self.machine.check_conservation()

    def _settle(self) -> None:
        for number in list(self.prefetches):
            self._revoke(Revoke(number), self.machine.now_fs)
        while True:
            stop, _, key, _ = self.machine.engine.run(drain=True)
            records = self.machine.engine.take_records()
            self._note_finished(records, -1, -1)
            if stop == "idle":
                break
            self._copied_or_written(key - FIRST_REPLICA)


def _replica_at(directory: Directory, action: Prefetch) -> int | None:
    """Directory row of the replica, or part of one, that a prefetch brings to its chiplet; ``None``: it has none."""
    held = [part for row in directory.of(action.layer, action.expert) for part in directory.parts(int(row))]
    rows = [row for row in held if directory.rows["chiplet"][row] == action.chiplet]
    return rows[0] if rows else None
