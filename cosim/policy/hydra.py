"""Hydra: one copy per expert, mapped by annealing so that popular experts are few hops from their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import homes
from cosim.policy.base import Policy, Prefetch, Pressure, Profile, Revoke, RoutedEvent
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel
from cosim.policy.room import Room

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Hydra", "annealed"]


def annealed(
    popularity: npt.NDArray[np.float64],
    distance: npt.NDArray[np.float64],
    steps: int,
    start_temperature: float,
    generator: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Slot of every expert, by simulated annealing over swaps, from the order of the experts.

    The cost is the sum of popularity × distance; temperatures are shares of the mean cost of an expert and fall
    linearly to zero. The best mapping seen is returned.

    Args:
        popularity: of every expert.
        distance: of every slot, at least as many as experts; a slot holds one expert.
        steps: swaps tried.
    """
    slots = np.arange(len(distance))
    held = np.append(popularity, np.zeros(len(distance) - len(popularity)))
    cost = float((held[slots] * distance).sum())
    scale = cost / max(len(popularity), 1)
    best, least = slots.copy(), cost
    firsts = generator.integers(0, len(slots), size=steps)
    seconds = generator.integers(0, len(slots), size=steps)
    chances = generator.random(steps)
    for step in range(steps):
        a, b = int(firsts[step]), int(seconds[step])
        change = float((held[slots[a]] - held[slots[b]]) * (distance[b] - distance[a]))
        temperature = start_temperature * scale * (1 - step / steps)
        if change <= 0 or (temperature > 0 and chances[step] < np.exp(-change / temperature)):
            slots[a], slots[b] = slots[b], slots[a]
            cost += change
            if cost < least:
                best, least = slots.copy(), cost
    where = np.empty(len(slots), dtype=np.int64)
    where[best] = np.arange(len(slots))
    return where[: len(popularity)]


class Hydra(Policy):
    """Popularity-aware mapping of one copy (Hydra, DAC 2025), as HCRMap's section 2.3 summarises it.

    Every chiplet takes as many experts of a layer as any other; slots are weighted with the mean hops from the token
    sources, experts with their popularity in the profile. While a layer runs, the experts of the next one that its
    tokens predict stream into their chiplets. The annealing schedule and the horizon are not published. The engine for
    permutations and the softmax of the paper are hardware of their own and left out.
    """

    name = "hydra"

    class Params(Policy.Params):
        """``steps`` and ``start_temperature`` of the annealing per layer, its ``seed``; ``preload`` experts of the
        next layer per chiplet."""

        steps: Annotated[int, Field(ge=0, le=1_000_000)] = 4000
        start_temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
        seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
        preload: Annotated[int, Field(ge=0)] = 1

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        chiplets = [endpoint.index for endpoint in system.compute_endpoints]
        routes = system.routes
        each = -(-model.experts // len(chiplets))
        mean = np.array([np.mean([routes.between(source, c) for source in chiplets]) for c in chiplets])
        distance = np.repeat(mean, each)
        self._transitions = profile.transitions
        self._experts = model.experts
        running = set(profile.running)
        placed = [home for home in expert_parallel(system, model).replicas if home.layer not in running]
        room = Room(system, model)
        tier = system.home_tier
        for layer in profile.running:
            popularity = profile.counts[layer] / max(int(profile.counts[layer].sum()), 1)
            generator = np.random.Generator(np.random.Philox(key=[self.params.seed, layer]))
            slots = annealed(popularity, distance, self.params.steps, self.params.start_temperature, generator)
            for expert in range(model.experts):
                chiplet = chiplets[int(slots[expert]) // each]
                home = room.replica(layer, expert, chiplet, [tier.name])
                placed.append(home or PlacedReplica(layer, expert, chiplet, tier.serving(chiplet)[0], tier.name))
        return Placement(placed)

    def on_routed(self, event: RoutedEvent) -> Sequence[Prefetch | Revoke]:
        wanted = set(zip(event.groups["layer"].tolist(), event.groups["expert"].tolist(), strict=True))
        actions: list[Prefetch | Revoke] = [
            Revoke(held.prefetch)
            for held in event.prefetches
            if held.layer == event.layer and (held.layer, held.expert) not in wanted
        ]
        if event.next_layer != event.layer + 1 or event.layer >= len(self._transitions) or not self.params.preload:
            return actions
        tokens = np.bincount(event.groups["expert"], weights=event.groups["tokens"], minlength=self._experts)
        pairs = self._transitions[event.layer].astype(np.float64)
        predicted = tokens @ (pairs / np.maximum(pairs.sum(axis=1, keepdims=True), 1))
        given: dict[int, int] = {}
        for expert in np.argsort(-predicted, kind="stable").tolist():
            if predicted[expert] == 0:
                break
            rows = event.directory.of(event.next_layer, expert)
            chiplet = int(event.directory.rows["chiplet"][rows[0]])
            if given.get(chiplet, 0) < self.params.preload:
                given[chiplet] = given.get(chiplet, 0) + 1
                actions.append(Prefetch(event.next_layer, expert, chiplet))
        return actions

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)
