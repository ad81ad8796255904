"""Fast loops that several policies share: which replica serves which token group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.policy.directory import NEAR_MEMORY, Directory

if TYPE_CHECKING:
    from cosim.system.routes import Routes

__all__ = ["home_row", "homes", "in_turn", "least_loaded", "nearest"]


def homes(groups: npt.NDArray[np.void], directory: Directory) -> npt.NDArray[np.int32]:
    """Every group to its expert's home, or to a copy that its chiplet executes near memory.

    Returns directory rows, int32, shape (groups,).
    """
    keys = zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)
    return np.fromiter((home_row(directory, *key) for key in keys), dtype=np.int32, count=len(groups))


def home_row(directory: Directory, layer: int, expert: int) -> int:
    """The row of an expert's oldest replica, or of one near memory at the same chiplet."""
    rows = directory.of(layer, expert)
    if len(rows) > 1:
        table = directory.rows
        for row in rows.tolist():
            if table["executes_at"][row] == NEAR_MEMORY and table["chiplet"][row] == table["chiplet"][rows[0]]:
                return int(row)
    return int(rows[0])


def least_loaded(groups: npt.NDArray[np.void], directory: Directory) -> npt.NDArray[np.int32]:
    """Groups with a choice, largest first, each to the replica whose chiplet has been given the fewest tokens.

    Groups without a choice count first. Among equals the replica at the tokens' own chiplet wins, then the oldest.
    Where some replicas are near memory, only these count.
    Returns directory rows, int32, shape (groups,).
    """
    rows = directory.rows
    options = [
        _near_first(directory, layer, expert)
        for layer, expert in zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)
    ]
    given: dict[int, int] = {}
    chosen = np.empty(len(groups), dtype=np.int32)
    order = sorted(range(len(groups)), key=lambda g: (len(options[g]) > 1, -int(groups["tokens"][g]), g))
    for group in order:
        source = int(groups["source"][group])
        best = min(
            options[group],
            key=lambda row: (
                given.get(int(rows["chiplet"][row]), 0),
                int(rows["chiplet"][row]) != source,
                int(rows["replica"][row]),
            ),
        )
        chiplet = int(rows["chiplet"][best])
        given[chiplet] = given.get(chiplet, 0) + int(groups["tokens"][group])
        chosen[group] = best
    return chosen


def in_turn(groups: npt.NDArray[np.void], directory: Directory) -> npt.NDArray[np.int32]:
    """The groups of an expert to its replicas in turn, oldest first. Returns directory rows, int32, shape (groups,)."""
    given: dict[tuple[int, int], int] = {}
    chosen = np.empty(len(groups), dtype=np.int32)
    for group, key in enumerate(zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)):
        options = directory.of(*key)
        chosen[group] = options[given.get(key, 0) % len(options)]
        given[key] = given.get(key, 0) + 1
    return chosen


def nearest(
    groups: npt.NDArray[np.void], directory: Directory, routes: Routes, domain: Mapping[int, int] | None = None
) -> npt.NDArray[np.int32]:
    """Every group to the replica with the fewest links from its source; among equals the oldest.

    Where some replicas are near memory, only these count.

    Args:
        domain: block of every chiplet; a replica in the source's own block goes before any other.

    Returns:
        Directory rows, int32, shape (groups,).
    """
    rows = directory.rows
    chosen = np.empty(len(groups), dtype=np.int32)
    for number, (layer, expert, source) in enumerate(
        zip(groups["layer"].tolist(), groups["expert"].tolist(), groups["source"].tolist(), strict=True)
    ):

        def far(row: int, source: int = source) -> tuple[bool, int, int]:
            chiplet = int(rows["chiplet"][row])
            outside = domain is not None and domain[chiplet] != domain[source]
            return outside, routes.between(source, chiplet), int(rows["replica"][row])

        chosen[number] = min(_near_first(directory, layer, expert), key=far)
    return chosen


def _near_first(directory: Directory, layer: int, expert: int) -> list[int]:
    rows = directory.of(layer, expert).tolist()
    near = [row for row in rows if directory.rows["executes_at"][row] == NEAR_MEMORY]
    return near or rows
