"""Prefetch of the next layer's hottest experts of the profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import homes
from cosim.policy.base import Policy, Prefetch, Pressure, Profile, Revoke, RoutedEvent
from cosim.policy.directory import Directory, Placement

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["PopularityPrefetch"]


class PopularityPrefetch(Policy):
    """One home per expert; while a layer runs, the hottest experts of the next one stream into their chiplets.

    A prefetch has the lowest priority, holds only room that no demand wants, and is withdrawn when the layer is
    routed and nobody asks for it.
    """

    name = "popularity_prefetch"

    class Params(Policy.Params):
        """``experts_per_chiplet``: hottest experts of the next layer that each chiplet prefetches."""

        experts_per_chiplet: Annotated[int, Field(ge=1)] = 1

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._hot = np.argsort(-profile.counts, axis=1, kind="stable")
        self._counts = profile.counts
        return super().place(system, model, profile)

    def on_routed(self, event: RoutedEvent) -> Sequence[Prefetch | Revoke]:
        wanted = {
            (int(layer), int(expert))
            for layer, expert in zip(event.groups["layer"], event.groups["expert"], strict=True)
        }
        actions: list[Prefetch | Revoke] = [
            Revoke(held.prefetch)
            for held in event.prefetches
            if held.layer == event.layer and (held.layer, held.expert) not in wanted
        ]
        if event.next_layer < 0:
            return actions
        given: dict[int, int] = {}
        for expert in self._hot[event.next_layer]:
            if self._counts[event.next_layer, expert] == 0:
                break
            rows = event.directory.of(event.next_layer, int(expert))
            chiplet = int(event.directory.rows["chiplet"][rows[0]])
            if given.get(chiplet, 0) < self.params.experts_per_chiplet:
                given[chiplet] = given.get(chiplet, 0) + 1
                actions.append(Prefetch(event.next_layer, int(expert), chiplet))
        return actions

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)
