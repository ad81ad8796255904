"""Replays a command trace against a constraint table: slow, obvious, and independent of the controller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cosim.mem.standard import COLUMN_COMMANDS, ROW_COMMANDS, Constraint, Standard


@dataclass(frozen=True)
class Violation:
    """One broken rule: what was issued at `slot`, and why it should not have been."""

    slot: int
    command: str
    text: str


def _matches(scope: str, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Whether two commands of one channel meet in a scope. An all-bank command meets every bank."""
    if scope == "channel":
        return True
    if earlier["pseudo_channel"] != later["pseudo_channel"]:
        return False
    if scope == "pseudo_channel":
        return True
    same_stack = earlier["stack_id"] == later["stack_id"]
    if scope == "stack_id":
        return bool(same_stack)
    if scope == "other_stack_id":
        return not same_stack
    same_group = same_stack and earlier["bank_group"] == later["bank_group"]
    if scope == "bank_group":
        return bool(same_group)
    return bool(same_group and earlier["bank"] == later["bank"])


def check_commands(commands: Iterable[Mapping[str, Any]], standard: Standard) -> list[Violation]:
    """Every violation in a command trace.

    Args:
        commands: rows {slot, command, channel, pseudo_channel, stack_id, bank_group, bank, row, column}, a frame's
            ``to_dict("records")``; all-bank commands carry -1 below the pseudo-channel.
        standard: the resolved standard, whose constraint table and bank states are checked.

    Returns:
        violations in order of time; empty when the trace is legal.
    """
    by_channel: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for command in commands:
        by_channel[int(command["channel"])].append(command)
    found: list[Violation] = []
    for trace in by_channel.values():
        found.extend(_check_timing(sorted(trace, key=lambda c: int(c["slot"])), standard))
        found.extend(_check_states(sorted(trace, key=lambda c: int(c["slot"])), standard))
    return sorted(found, key=lambda v: v.slot)


def _check_timing(trace: list[Mapping[str, Any]], standard: Standard) -> list[Violation]:
    found: list[Violation] = []
    by_later: dict[str, list[Constraint]] = defaultdict(list)
    for constraint in standard.constraints:
        by_later[constraint.to].append(constraint)
    horizon = max((c.ticks for c in standard.constraints), default=0)
    start = 0
    for i, later in enumerate(trace):
        slot = int(later["slot"])
        while int(trace[start]["slot"]) < slot - horizon:
            start += 1
        for constraint in by_later[str(later["command"])]:
            earlier = [
                e for e in trace[start:i] if e["command"] == constraint.start and _matches(constraint.scope, e, later)
            ]
            if len(earlier) < constraint.window:
                continue
            gap = slot - int(earlier[-constraint.window]["slot"])
            if gap < constraint.ticks:
                found.append(
                    Violation(
                        slot,
                        str(later["command"]),
                        f"{constraint.name}: {constraint.start} -> {constraint.to} after {gap} ticks, "
                        f"needs {constraint.ticks} ({constraint.scope})",
                    )
                )
        bus = None if standard.shared_command_bus else (later["command"] in ROW_COMMANDS)
        for earlier_command in trace[start:i]:
            if int(earlier_command["slot"]) == slot and (
                bus is None or (earlier_command["command"] in ROW_COMMANDS) == bus
            ):
                found.append(Violation(slot, str(later["command"]), "two commands in one slot of a command bus"))
        if later["command"] in standard.rising_edge_only and slot % standard.slots_per_cycle != 1:
            found.append(Violation(slot, str(later["command"]), "issued on the falling clock edge"))
    return found


def _check_states(trace: list[Mapping[str, Any]], standard: Standard) -> list[Violation]:
    """Row commands find their bank in the right state, column commands their row open."""
    open_row: dict[tuple[int, int, int, int], int] = {}
    found: list[Violation] = []
    # a column command of the same slot does not see the row command of that slot
    ordered = sorted(trace, key=lambda c: (int(c["slot"]), c["command"] not in COLUMN_COMMANDS))
    for command in ordered:
        name = str(command["command"])
        slot = int(command["slot"])
        bank = (
            int(command["pseudo_channel"]),
            int(command["stack_id"]),
            int(command["bank_group"]),
            int(command["bank"]),
        )
        is_open = [b for b in open_row if b[0] == bank[0]] if bank[3] < 0 else [b for b in (bank,) if b in open_row]
        if name == "ACT":
            if is_open:
                found.append(Violation(slot, name, "activates a bank whose row is open"))
            open_row[bank] = int(command["row"])
        elif name in COLUMN_COMMANDS:
            if open_row.get(bank) != int(command["row"]):
                found.append(Violation(slot, name, "its row is not open"))
            if name in ("RDA", "WRA"):
                open_row.pop(bank, None)
        elif name in ("PREpb", "PREab"):
            for b in is_open:
                del open_row[b]
        elif is_open:
            found.append(Violation(slot, name, "refreshes a bank whose row is open"))
        organisation = standard.organisation
        if name in COLUMN_COMMANDS and not 0 <= int(command["column"]) < organisation.columns:
            found.append(Violation(slot, name, "its column does not exist"))
    return found
