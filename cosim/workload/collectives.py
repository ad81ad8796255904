"""Collectives of a layer as steps of messages: a ring all-reduce, and the metadata all-to-all before a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["AllReduce", "GroupReduce", "Metadata", "RingSteps", "ring_order", "ring_steps"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AllReduce:
    """A ring all-reduce over endpoints that each hold ``size_bytes`` of partial sums, in the order of the ring."""

    order: IntArray
    size_bytes: int


@dataclass(frozen=True, eq=False)
class GroupReduce:
    """Ring all-reduces among the endpoints that hold the parts of split experts, before outputs are returned.

    rings: one for each set of endpoints that has tokens. ring_of_group: int64, shape (groups,), -1 where the group's
    replica is whole. returns: whether a group's chiplet is the one of its ring that returns the sums, bool, shape
    (groups,).
    """

    rings: Sequence[AllReduce]
    ring_of_group: IntArray
    returns: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Metadata:
    """What every endpoint tells every other before tokens move: how many it will send to each of its experts.

    endpoints: int64, shape (endpoints,). size_bytes: of the message to each of them, at least 1.
    """

    endpoints: IntArray
    size_bytes: IntArray


@dataclass(frozen=True, eq=False)
class RingSteps:
    """Messages of a ring all-reduce, steps one after the other and in each the members in the order of the ring.

    source, destination: members. size_bytes: of each message. before, after: messages by index, each step but the first
    waiting for what its sender received in the step before. members, steps: message = step · members + place of the
    sender.
    """

    source: IntArray
    destination: IntArray
    size_bytes: IntArray
    before: IntArray
    after: IntArray
    members: int
    steps: int

    def reducing(self, place: int) -> IntArray:
        """Messages from a place that its own partial sums are in: of the reduce-scatter, and its finished slice."""
        return np.arange(self.members, dtype=np.int64) * self.members + place

    def arriving(self, place: int) -> IntArray:
        """Messages of the all-gather that reach a place."""
        steps = np.arange(self.members - 1, self.steps, dtype=np.int64)
        return steps * self.members + (place - 1) % self.members


def ring_order(hops: npt.NDArray[np.integer]) -> IntArray:
    """Endpoints in a ring with few links between neighbours: the nearest next, then exchanges (2-opt) until none helps.

    Args:
        hops: links between endpoints, shape (endpoints, endpoints).
    """
    count = len(hops)
    ring = [0]
    left = set(range(1, count))
    while left:
        at = ring[-1]
        ring.append(min(left, key=lambda other: (int(hops[at, other]), other)))
        left.remove(ring[-1])
    better = True
    while better:
        better = False
        for first in range(count - 1):
            for last in range(first + 1, count):
                a, b = ring[first - 1], ring[first]
                c, d = ring[last], ring[(last + 1) % count]
                if a == c or b == d:
                    continue
                if hops[a, c] + hops[b, d] < hops[a, b] + hops[c, d]:
                    ring[first : last + 1] = reversed(ring[first : last + 1])
                    better = True
    return np.array(ring, dtype=np.int64)


def ring_steps(order: IntArray, size_bytes: int) -> RingSteps:
    """Reduce-scatter, then all-gather: 2 (n - 1) steps in which every member sends a slice of size / n to the next one.

    Slices differ by a byte where the division leaves a rest.

    Args:
        order: members, at least two.
        size_bytes: that every member holds, at least a byte for each.

    Raises:
        ValueError: fewer members or bytes.
    """
    count = len(order)
    if count < 2 or size_bytes < count:
        raise ValueError(f"expected two members and a byte for each, got {size_bytes} B for {count}")
    steps = 2 * (count - 1)
    place = np.arange(count, dtype=np.int64)
    slice_bytes = (place + 1) * size_bytes // count - place * size_bytes // count
    # the member at place p sends slice p - step in step `step`: what it has just received
    slices = (place[None, :] - np.arange(steps)[:, None]) % count
    message = np.arange(steps * count, dtype=np.int64).reshape(steps, count)
    return RingSteps(
        np.tile(order, steps).astype(np.int64),
        np.tile(np.roll(order, -1), steps).astype(np.int64),
        slice_bytes[slices].reshape(-1).astype(np.int64),
        np.roll(message, 1, axis=1)[:-1].reshape(-1),
        message[1:].reshape(-1),
        count,
        steps,
    )
