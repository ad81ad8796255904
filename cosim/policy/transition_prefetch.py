"""Prefetch along the transition graph, without any remapping: the third policy of CoMoE-Chip's comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import home_row, homes
from cosim.policy.base import Policy, Prefetch, Pressure, Profile, Revoke, RoutedEvent
from cosim.policy.directory import NEAR_MEMORY, Directory, Placement
from cosim.policy.observer import GraphParams, TransitionObserver
from cosim.policy.placement import expert_parallel
from cosim.policy.prediction import tokens_by_expert, ungraded, wanted_of
from cosim.policy.resident_pages import page_slots, resident_homes

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["TransitionPrefetch"]


class TransitionPrefetch(Policy):
    """One home per expert; each routed expert's most probable successors stream into their chiplets.

    Seed 003, section 4.2: it predicts by Eq. 2 and loads the next layer's experts early, but looks at no queue, no
    network and no confidence. Prefetches have the lowest priority and are withdrawn when the layer is routed and nobody
    asks for them.
    """

    name = "transition_prefetch"

    class Params(GraphParams):
        """Beside the graph's parameters:

        successors_each: prefetched per routed expert. pages_per_chiplet: most that a chiplet has under way.
        resident: whether the tier nearest to compute holds each chiplet's hottest experts of the profile.
        """

        successors_each: Annotated[int, Field(ge=1)] = 2
        pages_per_chiplet: Annotated[int, Field(ge=1)] = 2
        resident: Literal["none", "profile"] = "none"

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._observer = TransitionObserver(self.params, model, profile)
        placed = list(expert_parallel(system, model).replicas)
        slots = page_slots(system, model) if self.params.resident == "profile" else None
        if slots is not None:
            placed += resident_homes(slots, profile.counts, placed)
        return Placement(placed)

    def on_routed(self, event: RoutedEvent) -> Sequence[Prefetch | Revoke]:
        self._observer.see(event)
        wanted = wanted_of(event.groups)
        actions: list[Prefetch | Revoke] = [
            Revoke(held.prefetch)
            for held in event.prefetches
            if held.layer == event.layer and (held.layer, held.expert) not in wanted
        ]
        if not self._observer.follows(event):
            return actions
        graph = self._observer.graph
        rows = event.directory.rows
        given: dict[int, int] = {}
        for candidate in ungraded(graph, event.layer, tokens_by_expert(event.groups), self.params.successors_each):
            row = home_row(event.directory, event.next_layer, candidate.expert)
            chiplet = int(rows["chiplet"][row])
            if rows["executes_at"][row] == NEAR_MEMORY or given.get(chiplet, 0) >= self.params.pages_per_chiplet:
                continue
            given[chiplet] = given.get(chiplet, 0) + 1
            actions.append(Prefetch(event.next_layer, candidate.expert, chiplet))
        return actions

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)

    @property
    def state_bytes(self) -> int:
        """Bytes of the transition graph."""
        return self._observer.graph.state_bytes

    def save(self) -> dict[str, object]:
        return self._observer.save()

    def load(self, state: Mapping[str, object]) -> None:
        self._observer.load(state)
