"""The versioned directory: which replica of which expert is where, and whether tokens may use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["DIRECTORY", "HOST", "NEAR_MEMORY", "Directory", "PlacedReplica", "Placement"]

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
        ("executes_at", np.int8),  # HOST, or NEAR_MEMORY
        ("in_flight", np.int32),  # token groups that are using it
        ("age_windows", np.int32),  # decision windows since it was published
    ]
)
"""One row per published replica."""


@dataclass(frozen=True)
class PlacedReplica:
    """Where a placement wants one replica: computed at endpoint ``chiplet``, weights in endpoint ``memory``."""

    layer: int
    expert: int
    chiplet: int
    memory: int
    tier: str


@dataclass(frozen=True)
class Placement:
    """The replicas of a run's start; the first replica of an expert is its home and is never evicted."""

    replicas: Sequence[PlacedReplica]


class Directory:
    """The published replicas, as rows of :data:`DIRECTORY`, with the rows of one expert found at once."""

    def __init__(self, rows: npt.NDArray[np.void]) -> None:
        self.rows = rows
        self._by_expert: dict[tuple[int, int], npt.NDArray[np.int32]] = {}
        order = np.lexsort((rows["replica"], rows["expert"], rows["layer"]))
        keys = np.stack([rows["layer"][order], rows["expert"][order]], axis=1)
        if len(rows):
            starts = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=-1), axis=1))
            for first, last in zip(starts, [*starts[1:], len(rows)], strict=True):
                layer, expert = keys[first]
                self._by_expert[int(layer), int(expert)] = order[first:last].astype(np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, layer: int, expert: int) -> npt.NDArray[np.int32]:
        """Row numbers of an expert's published replicas, oldest replica first; empty when it has none."""
        return self._by_expert.get((layer, expert), np.empty(0, dtype=np.int32))

    def layer(self, layer: int) -> npt.NDArray[np.int32]:
        """Row numbers of a layer's published replicas."""
        return np.flatnonzero(self.rows["layer"] == layer).astype(np.int32)
