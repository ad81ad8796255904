"""What bounds a run: the critical path through the last commands, constraint by constraint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cosim.mem.checker import _matches
from cosim.mem.standard import COMMANDS, ROW_COMMANDS, SAME_BANK, Constraint, Standard

_BUS = "command bus"
_KIND = {c: c[:2] for c in (*COMMANDS, SAME_BANK)}  # RD and RDA, WR and WRA, PREpb and PREab are of one kind


def binding_constraints(commands: Mapping[str, Any], standard: Standard) -> dict[str, int]:
    """Steps of the critical path by the constraint that ties each command to an earlier one.

    The walk starts at the last data command and steps to the earlier command whose constraint was met with no slack;
    the step is booked to that constraint. A command nothing held back is booked to "requests" (it came when it was
    asked for, or when the command bus and the queue let it).

    Args:
        commands: columns tick, command (name), pseudo_channel, stack_id, bank_group, bank of one channel, in order.
        standard: the resolved standard.

    Returns:
        steps per constraint name, largest first.
    """
    ticks: list[int] = np.asarray(commands["tick"], dtype=np.int64).tolist()
    names = list(commands["command"])
    keys = ("pseudo_channel", "stack_id", "bank_group", "bank")
    columns = [np.asarray(commands[k], dtype=np.int64).tolist() for k in keys]
    rows = [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]
    by_later: dict[str, list[Constraint]] = defaultdict(list)
    for constraint in standard.constraints:
        by_later[constraint.to].append(constraint)
    horizon = max((c.ticks for c in standard.constraints), default=0) + standard.slots_per_cycle
    edges = set(standard.rising_edge_only)
    booked: dict[str, int] = defaultdict(int)

    def least_slot(earlier: int, constraint: Constraint) -> int:
        slot = ticks[earlier] + constraint.ticks
        return slot | 1 if constraint.to in edges and standard.slots_per_cycle == 2 else slot

    at = next((i for i in range(len(names) - 1, -1, -1) if names[i] in ("RD", "WR", "RDA", "WRA")), -1)
    while at > 0:
        best, best_name = _binding(at, ticks, names, rows, by_later, horizon, least_slot, standard)
        if best < 0:
            best = next((i for i in range(at - 1, -1, -1) if ticks[i] < ticks[at]), -1)
            best_name = "requests"
            if best < 0:
                break
        booked[best_name] += 1
        at = best
    return dict(sorted(booked.items(), key=lambda item: (-item[1], item[0])))


def _binding(
    at: int,
    ticks: list[int],
    names: list[str],
    rows: list[dict[str, int]],
    by_later: Mapping[str, list[Constraint]],
    horizon: int,
    least_slot: Callable[[int, Constraint], int],
    standard: Standard,
) -> tuple[int, str]:
    """The earlier command a constraint ties this one to with no slack, and the constraint; -1 if nothing does.

    Where several do, a constraint between commands of one kind (the rate of the data bus, of activations) says most,
    then any other, then the command bus; among equals the latest command.
    """
    best, best_name, best_rank = -1, "", 3
    for constraint in by_later[names[at]]:
        rank = 2 if constraint.name == _BUS else int(_KIND[constraint.start] != _KIND[constraint.to])
        seen = 0
        for i in range(at - 1, -1, -1):
            if ticks[i] < ticks[at] - horizon:
                break
            if names[i] == constraint.start and _matches(constraint.scope, rows[i], rows[at]):
                seen += 1
                if seen == constraint.window:
                    if least_slot(i, constraint) == ticks[at] and (-rank, i) > (-best_rank, best):
                        best, best_name, best_rank = i, constraint.name, rank
                    break
    if best >= 0 and best_rank < 2:
        return best, best_name
    # commands of one slot need no constraint: one right behind another waited for the bus
    for i in range(at - 1, -1, -1):
        if ticks[i] < ticks[at] - 1:
            break
        same_bus = standard.shared_command_bus or (names[i] in ROW_COMMANDS) == (names[at] in ROW_COMMANDS)
        if ticks[i] == ticks[at] - 1 and same_bus:
            return i, _BUS
    return best, best_name
