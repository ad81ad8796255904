"""3D-MoE (seed 001): grouped experts, helpers inside a stack by Algorithm 1, and tiered remapping between steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.config.errors import ConfigErrors
from cosim.config.spec import Problem
from cosim.policy.assignment import least_loaded
from cosim.policy.base import Policy, Pressure, Profile, ResidencyAction, WindowState
from cosim.policy.core_work import CoreRates, CoreWork
from cosim.policy.delivery import Delivery, DeliveryName
from cosim.policy.directory import Directory, Placement
from cosim.policy.hybrid_parallel import Placed
from cosim.policy.placement import expert_parallel
from cosim.policy.remapping import Remapping, RemappingRates

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["ThreeDMoE", "collaboration_domains"]

_IMPROVES = 1e-9


class ThreeDMoE(Policy):
    """Expert parallelism on a grouping, with help inside stacks and remapping.

    A stack is the network that a core sits in. A decision window is one batch, that is one decode step.
    """

    name = "three_d_moe"

    class Params(Policy.Params):
        """What of the paper is on.

        ``file``: placement of whole experts (``cosim place group``); none: experts in blocks, as expert parallelism.
        ``helpers``: Algorithm 1. ``delivery``: how weights reach helpers, of :data:`cosim.policy.delivery.DELIVERIES`.
        ``phase_aligned``: whether a read for several cores waits until the stack's tokens are dispatched; if not given,
        it does with ``cmn``, whose sessions take links from packets.
        ``helpers_most``: of a domain, the source not counted. ``tiers``: remapping up to this tier; 0: none. ``ema``:
        share of the newest step in the predicted load. ``period_steps``, ``trigger``, ``trigger_steps``: tiers 2 and
        3 are considered so often, or when a layer's group max to mean exceeds its steady value by this share for so
        many steps. ``cost_aware``: whether an action must gain more than it costs until the next check.
        ``replica_budget``: bytes of all replicas over those of one copy; homes stay and count.
        """

        file: Annotated[str, Field(min_length=1)] | None = None
        helpers: bool = True
        delivery: DeliveryName = "unicast"
        phase_aligned: bool | None = None
        helpers_most: Annotated[int, Field(ge=1, le=15)] = 15
        tiers: Annotated[int, Field(ge=0, le=3)] = 3
        ema: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.3
        period_steps: Annotated[int, Field(ge=1)] = 8
        trigger: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.2
        trigger_steps: Annotated[int, Field(ge=1)] = 3
        cost_aware: bool = True
        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 2.0

        def problems(self) -> Iterator[Problem]:
            if self.phase_aligned is not None and not (self.helpers and self.delivery != "unicast"):
                got = f"it beside delivery {self.delivery!r}" if self.helpers else "it beside helpers: false"
                yield Problem(("phase_aligned",), "none unless helpers share a read: forward, multicast or cmn", got)

    params: Params

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        super().__init__(params)
        self.window_batches = 1 if self.params.tiers > 1 else 0
        self.max_replicas = 1 << 15 if self.params.tiers > 1 else 1
        self.replica_budget = self.params.replica_budget if self.params.tiers > 1 else 1.0
        self.delivery = self.params.delivery
        wished = self.params.phase_aligned
        self.phase_aligned = self.params.delivery == "cmn" if wished is None else wished

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._system = system
        self._way = Delivery.on(system, self.params.delivery, "policies.three_d_moe.params.delivery")
        self._rates = CoreRates.of(system, model)
        self._stack = {place.index: place.network for place in system.compute_endpoints}
        self._remapping = Remapping(
            self.params.tiers,
            self._stack,
            RemappingRates.of(system, model, self._rates),
            layers=model.moe_layers,
            experts=model.experts,
            ema=self.params.ema,
            period_steps=self.params.period_steps,
            trigger=self.params.trigger,
            trigger_steps=self.params.trigger_steps,
            cost_aware=self.params.cost_aware,
        )
        if self.params.file is None:
            return expert_parallel(system, model)
        placed = Placed({"file": self.params.file}).place(system, model, profile)
        split = [replica for replica in placed.replicas if replica.parts]
        if split:
            raise ConfigErrors.single(
                "a placement of whole experts, as 'cosim place group' writes",
                f"{self.params.file}: expert {split[0].expert} of layer {split[0].layer} is split",
                path="policies.three_d_moe.params.file",
            )
        return placed

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        """Tier 1: tokens among existing replicas, to the least loaded."""
        return least_loaded(groups, directory)

    def execute_at(
        self,
        groups: npt.NDArray[np.void],
        assigned: npt.NDArray[np.int32],
        directory: Directory,
        pressure: Pressure,
    ) -> npt.NDArray[np.int32] | None:
        if not self.params.helpers:
            return None
        work = CoreWork(groups, assigned, directory, self._rates, self._way)
        stacks: dict[int, list[int]] = {}
        for core, stack in self._stack.items():
            stacks.setdefault(stack, []).append(core)
        for _, cores in sorted(stacks.items()):
            collaboration_domains(work, sorted(cores), self._system, self.params.helpers_most)
        return work.at

    def on_window(self, state: WindowState) -> Sequence[ResidencyAction]:
        return self._remapping.actions(state)

    def save(self) -> dict[str, object]:
        return self._remapping.save()

    def load(self, state: Mapping[str, object]) -> None:
        self._remapping.load(state)


def collaboration_domains(
    work: CoreWork, cores: Sequence[int], system: System, helpers_most: int
) -> list[tuple[int, list[int], set[int]]]:
    """Algorithm 1 of 3D-MoE in one stack: moves groups of ``work`` to helpers.

    Cores above the stack's mean work are sources, the busiest first; those below are helpers, the nearest first. A
    source's largest expert is shared with as many helpers as bring the latest of them and the source to the earliest
    end, the helpers' weights included. A domain's links, from the source to its helpers, are none of another
    domain's. A domain is kept only if it ends before the source alone would have by more than the time for which its
    links are withheld from packets beyond the transfer: if its gain exceeds its cost.

    Returns source, helpers and links of every domain, in the order in which they were made.
    """
    busy = {core: work.busy_s(core) for core in cores}
    mean = sum(busy.values()) / len(busy)
    taken: set[int] = set()
    used: set[int] = set()
    domains: list[tuple[int, list[int], set[int]]] = []
    for source in sorted((core for core in cores if busy[core] > mean), key=lambda core: (-busy[core], core)):
        if source in taken:
            continue
        rows = [row for row in work.rows_at(source) if len(work.groups_of(row, source)) > 1]
        if not rows:
            continue
        row = max(rows, key=lambda r: (work.tokens_of(r, source), -r))
        memory = int(work.memory[row])
        links: dict[int, set[int]] = {}
        for core in cores:
            path = set(system.routes.path(memory, core))
            if busy[core] < mean and core not in taken and not path & used:
                links[core] = path
        near = sorted(links, key=lambda core: (len(links[core]), busy[core], core))[:helpers_most]
        best: tuple[float, dict[int, int]] | None = None
        for count in range(1, len(near) + 1):
            end, moves = _shared(work, row, source, near[:count])
            if end < (busy[source] - work.delivery.held_s if best is None else best[0]) * (1 - _IMPROVES):
                best = (end, moves)
        if best is None:
            continue
        helpers = sorted(set(best[1].values()))
        for group, core in best[1].items():
            work.move(group, core)
        for core in (source, *helpers):
            busy[core] = work.busy_s(core)
        path = set().union(*(links[core] for core in helpers))
        used |= path
        taken |= {source, *helpers}
        domains.append((source, helpers, path))
    return domains


def _shared(work: CoreWork, row: int, source: int, helpers: Sequence[int]) -> tuple[float, dict[int, int]]:
    """When the last of source and helpers ends if the row's groups at the source are shared, and who moves where."""
    here = work.tokens_of(row, source)
    other = {core: work.load(core) for core in helpers}
    other[source] = work.load(source).minus(work.cell(row, source, here))
    tokens = dict.fromkeys((source, *helpers), 0)
    streams = len(helpers)

    def end(core: int, count: int) -> float:
        return other[core].plus(work.cell(row, core, count, streams)).end_s

    moves: dict[int, int] = {}
    for group in work.groups_of(row, source):
        size = int(work.tokens[group])
        core = min((source, *helpers), key=lambda c: (end(c, tokens[c] + size), c != source, c))
        tokens[core] += size
        if core != source:
            moves[group] = core
    return max(end(core, count) for core, count in tokens.items()), moves
