"""Communication-efficient dispatch: a token goes where it is anyway, to the least loaded of these nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.policy.assignment import homes
from cosim.policy.directory import Directory

__all__ = ["BatchTokens", "dispatched"]


@dataclass(frozen=True, eq=False)
class BatchTokens:
    """The tokens of a layer: experts of each, shape (tokens, slots), -1 an empty slot, and where each waits."""

    ids: npt.NDArray[np.integer]
    homes: npt.NDArray[np.int32]


def dispatched(
    groups: npt.NDArray[np.void],
    directory: Directory,
    tokens: BatchTokens,
    seconds_per_token: npt.NDArray[np.float64],
    neurons: int,
) -> npt.NDArray[np.int32]:
    """Replica of every group: of experts with several, at the least loaded node that its tokens touch anyway.

    A token touches the node where it waits and those that hold its experts of one replica. A group goes as a whole, so
    it may choose among nodes that all of its tokens touch; where none of them has a replica, among all. Loads are the
    seconds of what is assigned so far: first the groups without a choice, then the others, the largest first. A replica
    that is split is chosen only where there is no other (HD-MoE's dispatch, which gives a pre-broadcast expert to one
    of the nodes of the token's other experts).

    Args:
        seconds_per_token: of a whole expert, per endpoint.
        neurons: of an expert.

    Returns:
        Directory rows, int32, shape (groups,).
    """
    rows = directory.rows
    chosen = homes(groups, directory)
    options: dict[int, list[int]] = {}
    for number, (layer, expert) in enumerate(zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)):
        found = directory.of(layer, expert).tolist()
        whole = [row for row in found if int(rows["neurons"][row]) == neurons]
        if len(found) > 1 and whole:
            options[number] = whole
    if not options:
        return chosen
    fixed = [number for number in range(len(groups)) if number not in options]
    endpoints = len(seconds_per_token)
    held = np.zeros((int(groups["expert"].max()) + 1, endpoints), dtype=bool)
    load = np.zeros(endpoints)
    for number in fixed:
        for part in directory.parts(int(chosen[number])):
            place = int(rows["chiplet"][part])
            held[int(groups["expert"][number]), place] = True
            share = int(rows["neurons"][part]) / neurons
            load[place] += int(groups["tokens"][number]) * share * seconds_per_token[place]
    touched = np.zeros((len(tokens.ids), endpoints), dtype=bool)
    for slot in range(tokens.ids.shape[1]):
        experts = tokens.ids[:, slot]
        there = experts >= 0
        touched[there] |= held[experts[there]]
    touched[np.arange(len(tokens.homes)), tokens.homes] = True
    for number in sorted(options, key=lambda n: (-int(groups["tokens"][n]), n)):
        source, expert = int(groups["source"][number]), int(groups["expert"][number])
        members = (tokens.homes == source) & (tokens.ids == expert).any(axis=1)
        common = touched[members].all(axis=0)
        near = [row for row in options[number] if common[int(rows["chiplet"][row])]] or options[number]

        def finish(
            row: int, size: int = int(groups["tokens"][number]), source: int = source
        ) -> tuple[float, bool, int]:
            place = int(rows["chiplet"][row])
            return load[place] + size * seconds_per_token[place], place != source, int(rows["replica"][row])

        best = min(near, key=finish)
        load[int(rows["chiplet"][best])] = finish(best)[0]
        chosen[number] = best
    return chosen
