"""What bounds a run: the critical path through the last commands, constraint by constraint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from cosim.mem.checker import _matches
from cosim.mem.standards import Constraint, Standard


def binding_constraints(commands: Mapping[str, Any], standard: Standard) -> dict[str, int]:
    """Ticks of the critical path by the constraint that accounts for them.

    The walk starts at the last data command and steps to the earlier command whose constraint was met with no slack;
    the distance is booked to that constraint. A command nothing held back is booked to "requests" (it came when it was
    asked for, or when the command bus and the queue let it).

    Args:
        commands: columns tick, command (name), pseudo_channel, stack_id, bank_group, bank of one channel, in order.
        standard: the resolved standard.

    Returns:
        ticks per constraint name, largest first.
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
        best = -1
        best_name = ""
        for constraint in by_later[names[at]]:
            seen = 0
            for i in range(at - 1, -1, -1):
                if ticks[i] < ticks[at] - horizon:
                    break
                if names[i] == constraint.start and _matches(constraint.scope, rows[i], rows[at]):
                    seen += 1
                    if seen == constraint.window:
                        tight = least_slot(i, constraint) == ticks[at]
                        # of several tight constraints the longest explains most
                        if tight and (best < 0 or ticks[i] < ticks[best]):
                            best, best_name = i, constraint.name
                        break
        if best < 0:
            earlier = next((i for i in range(at - 1, -1, -1) if ticks[i] < ticks[at]), -1)
            if earlier < 0:
                break
            booked["requests"] += ticks[at] - ticks[earlier]
            at = earlier
        else:
            booked[best_name] += ticks[at] - ticks[best]
            at = best
    return dict(sorted(booked.items(), key=lambda item: (-item[1], item[0])))
