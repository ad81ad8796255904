"""CoMoE-Chip (seed 003): transition graph, graded prefetch with credits, bounded copies, congestion-aware mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import home_row, homes
from cosim.policy.base import (
    Policy,
    Prefetch,
    Pressure,
    Profile,
    ResidencyAction,
    Revoke,
    RoutedEvent,
    WindowState,
)
from cosim.policy.comoe_mapping import TokenMapping
from cosim.policy.comoe_replicas import ReplicaPlanner
from cosim.policy.directory import NEAR_MEMORY, Directory, PlacedReplica, Placement
from cosim.policy.observer import GraphParams, TransitionObserver
from cosim.policy.placement import expert_parallel
from cosim.policy.prediction import Candidate, Grading, ahead, tokens_by_expert, wanted_of
from cosim.policy.resident_pages import page_slots, resident_homes
from cosim.policy.service_times import ServiceTimes

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["CoMoE"]

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class CoMoE(Policy):
    """The closed loop of seed 003, its mechanisms switchable one by one (Table 5).

    Slow loop (section 2.3, 3.1): every ``window_batches`` batches the copies of the near tier are chosen by expected
    gain; leases and a hysteresis keep them from churning. Between the loops (3.2): the layer that was just routed
    starts prefetches of its likely successors, graded by confidence, limited by credits, withdrawn when nobody asks.
    Fast loop (3.3): every token group goes to the replica of its own expert with the earliest predicted finish, in
    sub-batches after each of which the given credits are deducted. On overload copies freeze and tokens go to their
    homes (Table 2). The paper prints no threshold, weight or period: each is a parameter with an assumed default.
    """

    name = "comoe"
    decision_cost: Mapping[str, Fraction] = {"on_routed": Fraction(100, 10**9), "assign": Fraction(100, 10**9)}
    """Assumed: 100 clocks of 1 GHz each, for a look-up of the routed experts' rows and for the comparators of section
    6.1, which prints no time."""

    class Params(GraphParams):
        """Switches of Table 5, then parameters; all but those of :class:`GraphParams` are assumed.

        transition_graph: off, prefetch and copies follow the profile's popularity alone.
        bounded_replicas: off, there are no copies beside those of the start at their own homes.
        congestion_map: off, every group goes to the oldest copy of its expert, the home first.
        credits: off, prefetches are not limited, not graded and travel in the class of demand loads.
        two_timescales: off, copies are chosen after every batch, without leases and hysteresis.
        reduction: whether a chiplet adds up what its experts return for one token.
        dispatch: ``multicast``, where the network has that class: a token leaves its chiplet once (section 3.4).

        high_hit: more likely than not. low_hit: one in five. high_entropy: share of log2 of the experts.
        pages_per_chiplet: prefetch credits, in pages under way or waiting at a chiplet.
        window_batches: period of the slow loop, "tens to hundreds of batches".
        lease_windows: that a copy stays at least. hysteresis: gain over that of the copy it displaces.
        migrations_per_layer: copies of one layer that a window may start.
        expert_copies: most replicas of one expert.
        gain: what the hit probability of a copy is estimated from.
        sub_batches: of a batch, after each of which credits are deducted; 1: one snapshot.
        credit_slack: tokens that a chiplet takes beyond an even share before it counts as without credit.
        tail_weight: of the finish time beyond the busiest chiplet's so far.
        overload: share of a window that the busiest link is busy, from which the controller falls back.
        resident: whether the near tier starts with each chiplet's hottest experts of the profile.
        """

        transition_graph: bool = True
        bounded_replicas: bool = True
        congestion_map: bool = True
        credits: bool = True
        two_timescales: bool = True
        reduction: bool = True
        dispatch: Literal["unicast", "multicast"] = "unicast"
        high_hit: Share = 0.5
        low_hit: Share = 0.2
        high_entropy: Share = 0.75
        pages_per_chiplet: Positive = 2
        window_batches: Positive = 16
        lease_windows: Count = 2
        hysteresis: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.25
        migrations_per_layer: Positive = 2
        expert_copies: Positive = 4
        gain: Literal["popularity", "popularity+transition"] = "popularity+transition"
        sub_batches: Positive = 4
        credit_slack: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.25
        tail_weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
        overload: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.95
        resident: Literal["none", "profile"] = "profile"

    params: Params

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        super().__init__(params)
        p = self.params
        self.window_batches = (p.window_batches if p.two_timescales else 1) if p.bounded_replicas else 0
        self.max_replicas = p.expert_copies + 2  # its home and the page of its home chiplet are no copies
        self.local_reduction = p.reduction
        self.multicast_dispatch = p.dispatch == "multicast"
        self.prefetch_class = "prefetch" if p.credits else "weight"

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        p = self.params
        self._observer = TransitionObserver(p, model, profile)
        self._counts = profile.counts
        self._grading = Grading(p.high_hit, p.low_hit, p.high_entropy * float(np.log2(model.experts)))
        times = ServiceTimes(system, model)
        self._mapping = TokenMapping(times, p.sub_batches, p.credit_slack, p.tail_weight)
        self._live: frozenset[tuple[int, int, int]] = frozenset()
        self._overloaded = False
        homes_placed = list(expert_parallel(system, model).replicas)
        slots = page_slots(system, model)
        pages: list[PlacedReplica] = []
        if slots is not None:
            # copies are bounded by the tier's capacity, which all policies share
            self.replica_budget = 1.0 + slots.per_layer * len(slots.memory) / model.experts
            if p.resident == "profile":
                pages = resident_homes(slots, profile.counts, homes_placed)
        self._planner = ReplicaPlanner(
            times,
            slots,
            lease_windows=p.lease_windows if p.two_timescales else 0,
            hysteresis=p.hysteresis if p.two_timescales else 0.0,
            migrations_per_layer=p.migrations_per_layer if p.two_timescales else p.expert_copies * 2,
            expert_copies=p.expert_copies,
        )
        return Placement(homes_placed + pages)

    # -- prefetch

    def on_routed(self, event: RoutedEvent) -> Sequence[Prefetch | Revoke]:
        self._observer.see(event)
        self._overloaded = self._is_overloaded(event.pressure)
        wanted = wanted_of(event.groups)
        revoked = {
            held.prefetch
            for held in event.prefetches
            if held.layer == event.layer and (held.layer, held.expert) not in wanted
        }
        self._live = frozenset(
            (held.layer, held.expert, held.chiplet) for held in event.prefetches if held.prefetch not in revoked
        )
        actions: list[Prefetch | Revoke] = [Revoke(number) for number in sorted(revoked)]
        if self._overloaded or not self._observer.follows(event):
            return actions
        rows = event.directory.rows
        # credits come back when a prefetch is withdrawn or its layer has been routed
        given: dict[int, int] = {}
        for layer, _, chiplet in self._live:
            if layer != event.layer:
                given[chiplet] = given.get(chiplet, 0) + 1
        for candidate in self._candidates(event):
            options = event.directory.of(event.next_layer, candidate.expert)
            if bool((rows["executes_at"][options] == NEAR_MEMORY).any()):
                continue
            chiplet = int(rows["chiplet"][home_row(event.directory, event.next_layer, candidate.expert)])
            if (event.next_layer, candidate.expert, chiplet) in self._live:
                continue
            if self.params.credits and given.get(chiplet, 0) >= self.params.pages_per_chiplet:
                continue
            given[chiplet] = given.get(chiplet, 0) + 1
            actions.append(Prefetch(event.next_layer, candidate.expert, chiplet))
        return actions

    def _candidates(self, event: RoutedEvent) -> list[Candidate]:
        if not self.params.transition_graph:
            counts = self._counts[event.next_layer]
            total = max(int(counts.sum()), 1)
            hot = np.lexsort((np.arange(len(counts)), -counts))
            tokens = int(event.groups["tokens"].sum())
            return [
                Candidate(int(expert), 1.0 - (1.0 - float(counts[expert]) / total) ** tokens)
                for expert in hot[: self.params.pages_per_chiplet * len(self._planner.chiplets)]
                if counts[expert]
            ]
        grading = self._grading if self.params.credits else Grading(0.0, 0.0, float("inf"))
        return ahead(self._observer.graph, event.layer, tokens_by_expert(event.groups), grading)

    def _is_overloaded(self, pressure: Pressure) -> bool:
        return bool(len(pressure.link)) and float(pressure.link.max()) >= self.params.overload

    # -- copies

    def on_window(self, state: WindowState) -> Sequence[ResidencyAction]:
        if self._is_overloaded(state.pressure):
            return ()
        graph = self._observer.graph if self._uses_transitions() else None
        batches = self.window_batches
        return self._planner.plan(state, batches, graph)

    def _uses_transitions(self) -> bool:
        return self.params.transition_graph and self.params.gain == "popularity+transition"

    # -- mapping

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        if self._overloaded:
            return homes(groups, directory)
        if not self.params.congestion_map:
            return self._mapping.first_ready(groups, directory)
        return self._mapping.assign(groups, directory, pressure, self._live)

    # -- state

    @property
    def state_bytes(self) -> int:
        """Bytes of the transition graph."""
        return self._observer.graph.state_bytes

    def save(self) -> dict[str, object]:
        return {
            "observer": self._observer.save(),
            "planner": self._planner.save(),
            "live": [list(item) for item in sorted(self._live)],
            "overloaded": self._overloaded,
        }

    def load(self, state: Mapping[str, object]) -> None:
        observer, planner = state["observer"], state["planner"]
        assert isinstance(observer, Mapping)
        assert isinstance(planner, Mapping)
        self._observer.load(observer)
        self._planner.load(planner)
        live: Any = state["live"]
        self._live = frozenset((int(a), int(b), int(c)) for a, b, c in live)
        self._overloaded = bool(state["overloaded"])
