"""The versioned directory: which replica of which expert is where, and whether tokens may use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["DIRECTORY", "HOST", "NEAR_MEMORY", "Directory", "ExpertPart", "PlacedReplica", "Placement"]

HOST = 0
NEAR_MEMORY = 1

DIRECTORY = np.dtype(
    [
        ("replica", np.int32),  # row identity, never reused within a run
        ("layer", np.int32),  # MoE layer
        ("expert", np.int32),
        ("version", np.int32),
        ("tier", np.int32),  # index into the system's tiers
        ("chiplet", np.int32),  # endpoint that computes
        ("memory", np.int32),  # endpoint whose banks hold the weights
        ("address", np.int64),  # first byte there
        ("bytes", np.int64),
        ("part_of", np.int32),  # replica that it is a part of: itself where it is whole, or the first part
        ("neurons", np.int32),  # of the expert's hidden layer that it holds and executes
        ("executes_at", np.int8),  # HOST, or NEAR_MEMORY
        ("in_flight", np.int32),  # token groups that are using it
        ("age_windows", np.int32),  # decision windows since it was published
    ]
)
"""One row per published replica, or per part of one that is split over chiplets."""


@dataclass(frozen=True)
class ExpertPart:
    """A slice of an expert's hidden layer: ``neurons`` of it, computed at ``chiplet``, weights in ``memory``."""

    chiplet: int
    memory: int
    tier: str
    neurons: int


@dataclass(frozen=True)
class PlacedReplica:
    """Where a placement wants one replica: computed at endpoint ``chiplet``, weights in endpoint ``memory``.

    With ``parts`` the replica is split over them (tensor parallelism inside an expert): every part gets all tokens,
    runs its neurons and returns partial sums. Their neurons add up to the expert's; the first stands at ``chiplet``.
    """

    layer: int
    expert: int
    chiplet: int
    memory: int
    tier: str
    parts: tuple[ExpertPart, ...] = ()

    @classmethod
    def split(cls, layer: int, expert: int, parts: Sequence[ExpertPart]) -> PlacedReplica:
        """A replica of several parts, or of one that is the whole expert."""
        first = parts[0]
        several = tuple(parts) if len(parts) > 1 else ()
        return cls(layer, expert, first.chiplet, first.memory, first.tier, several)


@dataclass(frozen=True)
class Placement:
    """The replicas of a run's start; the first replica of an expert is its home and is never evicted."""

    replicas: Sequence[PlacedReplica]


class Directory:
    """The published replicas, as rows of :data:`DIRECTORY`, with the rows of one expert found at once.

    A replica that is split over chiplets has a row per part; the row of its first part stands for it.
    """

    def __init__(self, rows: npt.NDArray[np.void]) -> None:
        self.rows = rows
        self._by_expert: dict[tuple[int, int], npt.NDArray[np.int32]] = {}
        leads = np.flatnonzero(rows["part_of"] == rows["replica"])
        order = leads[np.lexsort((rows["replica"][leads], rows["expert"][leads], rows["layer"][leads]))]
        keys = np.stack([rows["layer"][order], rows["expert"][order]], axis=1)
        if len(order):
            starts = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=-1), axis=1))
            for first, last in zip(starts, [*starts[1:], len(order)], strict=True):
                layer, expert = keys[first]
                self._by_expert[int(layer), int(expert)] = order[first:last].astype(np.int32)
        self._parts: dict[int, list[int]] = {}
        for row in np.flatnonzero(rows["part_of"] != rows["replica"]).tolist():
            self._parts.setdefault(int(rows["part_of"][row]), []).append(row)

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, layer: int, expert: int) -> npt.NDArray[np.int32]:
        """Row numbers of an expert's published replicas, oldest replica first; empty when it has none."""
        return self._by_expert.get((layer, expert), np.empty(0, dtype=np.int32))

    def parts(self, row: int) -> list[int]:
        """Row numbers of all parts of the replica that row ``row`` stands for, that row first."""
        return [row, *self._parts.get(int(self.rows["replica"][row]), [])]

    def layer(self, layer: int) -> npt.NDArray[np.int32]:
        """Row numbers of a layer's published replicas."""
        rows = self.rows
        return np.flatnonzero((rows["layer"] == layer) & (rows["part_of"] == rows["replica"])).astype(np.int32)
