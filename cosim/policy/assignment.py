"""Fast loops that several policies share: which replica serves which token group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cosim.policy.directory import Directory

__all__ = ["homes", "least_loaded"]


def homes(groups: npt.NDArray[np.void], directory: Directory) -> npt.NDArray[np.int32]:
    """Every group to its expert's oldest replica. Returns directory rows, int32, shape (groups,)."""
    keys = zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)
    return np.fromiter((directory.of(layer, expert)[0] for layer, expert in keys), dtype=np.int32, count=len(groups))


def least_loaded(groups: npt.NDArray[np.void], directory: Directory) -> npt.NDArray[np.int32]:
    """Groups with a choice, largest first, each to the replica whose chiplet has been given the fewest tokens.

    Groups without a choice count first. Among equals the replica at the tokens' own chiplet wins, then the oldest.
    Returns directory rows, int32, shape (groups,).
    """
    rows = directory.rows
    options = [
        directory.of(layer, expert)
        for layer, expert in zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)
    ]
    given: dict[int, int] = {}
    chosen = np.empty(len(groups), dtype=np.int32)
    order = sorted(range(len(groups)), key=lambda g: (len(options[g]) > 1, -int(groups["tokens"][g]), g))
    for group in order:
        source = int(groups["source"][group])
        best = min(
            options[group].tolist(),
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
