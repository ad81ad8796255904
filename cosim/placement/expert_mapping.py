"""Offline mapping of 3D-MoE (seed 001): which core of its group's stack holds which expert.

    minimise sum_{e1 < e2} [same group · sum_d C[e1, e2, d] + lambda_route · A[e1, e2]] · R[core(e1), core(e2)]

C is the load that one expert could hand to the other in a step (the offset score), A how often a token picks both,
over the tokens, and R the links between their cores. The paper does not print lambda_route. The default `tokens` is the
number of tokens of the profile: lambda_route · A then counts tokens that both experts work on, as C counts tokens that
could move from one to the other. The alternative `balanced` makes both terms weigh the same in sum; a number is taken
as it is.

It is a quadratic assignment problem. Swaps of two experts inside a group, and of whole groups between stacks, are made
until none helps; the bound of Gilmore and Lawler (over all cores, whatever the group) says how far from the optimum
that can be at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cosim.config.errors import ConfigErrors
from cosim.placement.shares import FloatArray, IntArray
from cosim.trace.random import RandomStream

__all__ = [
    "LayerMapping",
    "MappingWeights",
    "RouteWeight",
    "co_activation",
    "map_experts",
    "offset_scores",
    "pair_weights",
]

RouteWeight = Literal["tokens", "balanced"] | float
_IMPROVES = 1e-9


def offset_scores(loads: IntArray) -> FloatArray:
    """sum_d C[e1, e2, d] of loads (steps, experts), float64 (experts, experts), zero diagonal.

    C is min(|F1 - AL|, |F2 - AL|) where one is above and the other below the step's mean load AL, else 0.
    """
    experts = loads.shape[1]
    away = loads * experts - loads.sum(axis=1, keepdims=True)  # (F - AL) · experts, whole numbers
    above, below = np.maximum(away, 0), np.maximum(-away, 0)
    scores = np.zeros((experts, experts))
    for expert in range(experts):
        given = np.minimum(above[:, expert : expert + 1], below).sum(axis=0)
        taken = np.minimum(below[:, expert : expert + 1], above).sum(axis=0)
        scores[expert] = (given + taken) / experts
    return scores


def co_activation(ids: IntArray, experts: int) -> FloatArray:
    """A[e1, e2]: share of tokens that pick both, of ids (tokens, slots), -1 empty; float64, zero diagonal."""
    picked = np.zeros((len(ids), experts))
    rows = np.arange(len(ids)).repeat(ids.shape[1])
    flat = ids.reshape(-1)
    picked[rows[flat >= 0], flat[flat >= 0]] = 1
    pairs = picked.T @ picked
    np.fill_diagonal(pairs, 0)
    return np.asarray(pairs / max(len(ids), 1))


@dataclass(frozen=True, eq=False)
class MappingWeights:
    """What R is multiplied with, float64 (experts, experts), symmetric; and the lambda_route that was used."""

    pairs: FloatArray
    route_weight: float


def pair_weights(
    scores: FloatArray, affinity: FloatArray, group: IntArray, tokens: int, route_weight: RouteWeight = "tokens"
) -> MappingWeights:
    """Weights of all pairs under a grouping.

    Args:
        scores: of :func:`offset_scores`.
        affinity: of :func:`co_activation`.
        group: of every expert.
        tokens: of the profile.
        route_weight: lambda_route, or how to choose it.

    Raises:
        ConfigErrors: a lambda_route that is negative or unknown.
    """
    inside = np.where(group[:, None] == group[None, :], scores, 0)
    if route_weight == "tokens":
        value = float(tokens)
    elif route_weight == "balanced":
        value = float(inside.sum() / affinity.sum()) if affinity.any() else 0.0
    elif isinstance(route_weight, str) or not 0 <= float(route_weight) < float("inf"):
        raise ConfigErrors.single(
            "lambda_route: tokens, balanced, or a number of at least 0", repr(route_weight), path="mapping"
        )
    else:
        value = float(route_weight)
    return MappingWeights(inside + value * affinity, value)


@dataclass(frozen=True, eq=False)
class LayerMapping:
    """Core of every expert, int64 (experts,), and its cost.

    core_in_order, in_order: core and cost of experts in the order of their numbers, spread over their stack's cores.
    bound: below any mapping's cost. swaps: made.
    """

    core: IntArray
    core_in_order: IntArray
    cost: float
    in_order: float
    bound: float
    swaps: int

    @property
    def gap(self) -> float:
        """By how much of it the cost can exceed the optimum's, at most."""
        return 0.0 if self.cost <= 0 else max(0.0, (self.cost - self.bound) / self.cost)

    def __str__(self) -> str:
        return (
            f"mapping {self.cost:.6g} after {self.swaps} swaps, in order {self.in_order:.6g}, bound {self.bound:.6g} "
            f"(gap {self.gap:.1%})"
        )


def map_experts(
    weights: FloatArray,
    distance: FloatArray,
    group: IntArray,
    stack_of_core: IntArray,
    *,
    most_experts: int,
    restarts: int = 4,
    seed: int = 1,
) -> LayerMapping:
    """Maps one layer's experts.

    Args:
        weights: of pairs, (experts, experts).
        distance: R between cores, (cores, cores).
        group: of every expert, 0 .. groups - 1.
        stack_of_core: stack of every core; as many stacks as groups.
        most_experts: P_max, experts that a core may hold.
        restarts: drawn mappings that swaps also start from.
        seed: of those.

    Raises:
        ConfigErrors: as many groups as stacks are needed; a group larger than its stack's room.
    """
    groups = int(group.max()) + 1
    stacks = np.unique(stack_of_core)
    if len(stacks) != groups:
        raise ConfigErrors.single("as many stacks as groups", f"{len(stacks)} stacks, {groups} groups", path="mapping")
    largest = int(np.bincount(group).max())
    for stack in stacks.tolist():
        cores = int(np.count_nonzero(stack_of_core == stack))
        if cores * most_experts < largest:
            raise ConfigErrors.single(
                f"room for a group's {largest} experts in stack {stack}",
                f"{cores} cores of at most {most_experts}",
                path="mapping",
                suggestion=f"{-(-largest // cores)} experts a core would do",
            )
    slots = np.concatenate([np.repeat(np.flatnonzero(stack_of_core == stack), most_experts) for stack in stacks])
    search = _Search(weights, distance[np.ix_(slots, slots)], group, np.searchsorted(stacks, stack_of_core[slots]))
    in_order = search.start(None)
    best, swaps = search.improve(in_order)
    for number in range(restarts):
        candidate, made = search.improve(search.start(RandomStream(seed, number)))
        if search.cost(candidate) < search.cost(best) - _IMPROVES:
            best, swaps = candidate, made
    return LayerMapping(
        slots[best],
        slots[in_order],
        search.cost(best),
        search.cost(in_order),
        _gilmore_lawler(weights, search.distance),
        swaps,
    )


class _Search:
    """Swaps of slots; ``slot`` of every expert, dummies fill what is left of a stack's slots."""

    def __init__(self, weights: FloatArray, distance: FloatArray, group: IntArray, stack: IntArray) -> None:
        self.experts = len(weights)
        self.distance, self.group, self.stack = distance, group, stack
        self.weights = weights

    def start(self, stream: RandomStream | None) -> IntArray:
        """Experts of group g in slots of stack g: in order, spread over the cores, or drawn."""
        slot = np.empty(self.experts, dtype=np.int64)
        for g in range(int(self.group.max()) + 1):
            experts, room = np.flatnonzero(self.group == g), np.flatnonzero(self.stack == g)
            if stream is not None:
                chosen = np.sort(stream.permutation(len(room))[: len(experts)])
                slot[experts[stream.permutation(len(experts))]] = room[chosen]
            else:
                slot[experts] = room[np.arange(len(experts)) * len(room) // len(experts)]
        return slot

    def cost(self, slot: IntArray) -> float:
        return float((self.weights * self.distance[np.ix_(slot, slot)]).sum()) / 2

    def improve(self, slot: IntArray) -> tuple[IntArray, int]:
        slot = slot.copy()
        swaps = 0
        changed = True
        while changed:
            changed = False
            for stack in range(int(self.stack.max()) + 1):
                room = np.flatnonzero(self.stack == stack)
                for a in np.flatnonzero(self.stack[slot] == stack).tolist():
                    target = self._best_target(slot, a, room)
                    if target is not None:
                        other = np.flatnonzero(slot == target)
                        slot[other] = slot[a]
                        slot[a] = target
                        swaps += 1
                        changed = True
            pair = self._best_exchange(slot)
            if pair is not None:
                slot = pair
                swaps += 1
                changed = True
        return slot, swaps

    def _best_target(self, slot: IntArray, a: int, room: IntArray) -> int | None:
        """The slot of its stack that expert a gains most by moving to, changing places with whoever is there."""
        holder = np.full(len(self.distance), -1, dtype=np.int64)
        holder[slot] = np.arange(self.experts)
        here = int(slot[a])
        at = self.distance[:, slot]  # (slots, experts)
        pull = at @ self.weights[a]
        best, gain = None, -_IMPROVES * max(1.0, abs(float(pull[here])))
        for target in room.tolist():
            if target == here:
                continue
            b = int(holder[target])
            change = float(pull[target] - pull[here])
            if b >= 0:
                push = at @ self.weights[b]
                change += float(push[here] - push[target])
                # both sums above count the pair itself as if one of the two stood still
                change += 2 * float(self.weights[a, b] * self.distance[here, target])
                change -= float(self.weights[a, b] * (self.distance[here, here] + self.distance[target, target]))
            if change < gain:
                best, gain = target, change
        return best

    def _best_exchange(self, slot: IntArray) -> IntArray | None:
        """Two whole groups change stacks, slot for slot, where that helps."""
        now = self.cost(slot)
        count = int(self.stack.max()) + 1
        rooms = [np.flatnonzero(self.stack == stack) for stack in range(count)]
        best = None
        for s in range(count):
            for t in range(s + 1, count):
                if len(rooms[s]) != len(rooms[t]):
                    continue
                swap = np.arange(len(self.distance))
                swap[rooms[s]], swap[rooms[t]] = rooms[t], rooms[s]
                value = self.cost(swap[slot])
                if value < now - _IMPROVES * max(1.0, now):
                    best, now = swap[slot], value
        return best


def _gilmore_lawler(weights: FloatArray, distance: FloatArray) -> float:
    """Gilmore and Lawler's bound of the quadratic assignment problem, experts without a group to slots."""
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    experts, slots = len(weights), len(distance)
    heavy = np.sort(np.where(np.eye(experts, dtype=bool), -np.inf, weights), axis=1)[:, ::-1][:, : experts - 1]
    near = np.sort(np.where(np.eye(slots, dtype=bool), np.inf, distance), axis=1)[:, : experts - 1]
    if experts < 2:
        return 0.0
    cost = heavy @ near.T
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].sum()) / 2
