"""Replays a command trace against a constraint table: slow, obvious, and independent of the controller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cosim.mem.standard import COLUMN_COMMANDS, ROW_COMMANDS, SAME_BANK, Constraint, Standard


@dataclass(frozen=True)
class Violation:
    """One broken rule: what was issued at `slot`, and why it should not have been."""

    slot: int
    command: str
    text: str


def _matches(scope: str, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Whether two commands of one channel meet in a scope. An all-bank command meets every bank, a same-bank one the
    bank of every bank group."""
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
    groups = (earlier["bank_group"], later["bank_group"])
    same_group = same_stack and (groups[0] == groups[1] or min(groups) < 0)
    if scope == "bank_group":
        return bool(same_group)
    return bool(same_group and earlier["bank"] == later["bank"])


def check_commands(
    commands: Iterable[Mapping[str, Any]],
    standard: Standard,
    *,
    refresh: str = "none",
    postponed_refreshes: int = 0,
    end_slot: int | None = None,
) -> list[Violation]:
    """Every violation in a command trace.

    Checked are the constraint table with its windows, bank states, the command buses with the lengths of their
    commands, the data bus beat by beat, and, where asked, that refreshes come when they must, in their order.

    Args:
        commands: rows {slot, command, channel, pseudo_channel, stack_id, bank_group, bank, row, column}, a frame's
            ``to_dict("records")``; all-bank commands carry -1 below the pseudo-channel.
        standard: the resolved standard, whose constraint table and bank states are checked.
        refresh: "none" checks no refresh times; "all_bank", "per_bank" and "same_bank" check every pseudo-channel that
            has a command.
        postponed_refreshes: refreshes that may be owed.
        end_slot: the slot up to which the trace is whole; refreshes due by then must be there.

    Returns:
        violations in order of time; empty when the trace is legal.
    """
    by_channel: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for command in commands:
        by_channel[int(command["channel"])].append(command)
    found: list[Violation] = []
    for unordered in by_channel.values():
        trace = sorted(unordered, key=lambda c: int(c["slot"]))
        found.extend(_check_timing(trace, standard))
        found.extend(_check_states(trace, standard))
        found.extend(_check_command_buses(trace, standard))
        found.extend(_check_data_bus(trace, standard))
        if refresh != "none":
            found.extend(_check_refreshes(trace, standard, refresh, postponed_refreshes, end_slot))
    return sorted(found, key=lambda v: v.slot)


def _check_command_buses(trace: list[Mapping[str, Any]], standard: Standard) -> list[Violation]:
    """A command keeps its bus for its length; nothing else is on it meanwhile."""
    found: list[Violation] = []
    free_at: dict[bool, int] = {}
    for command in trace:
        name, slot = str(command["command"]), int(command["slot"])
        bus = True if standard.shared_command_bus else name in ROW_COMMANDS
        if slot < free_at.get(bus, slot):
            found.append(Violation(slot, name, f"the command bus is taken until slot {free_at[bus]}"))
        free_at[bus] = slot + standard.command_ticks.get(name, 1)
    return found


def _check_data_bus(trace: list[Mapping[str, Any]], standard: Standard) -> list[Violation]:
    """Bursts of one pseudo-channel do not overlap."""
    found: list[Violation] = []
    slots = standard.slots_per_cycle
    burst = standard.burst_cycles * slots
    taken: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for command in trace:
        name = str(command["command"])
        if burst and name in COLUMN_COMMANDS:
            latency = standard.read_latency_cycles if name.startswith("RD") else standard.write_latency_cycles
            taken[int(command["pseudo_channel"])].append((int(command["slot"]) + latency * slots - burst, name))
    for bursts in taken.values():
        bursts.sort()
        for (start, _), (later, name) in pairwise(bursts):
            if later < start + burst:
                found.append(Violation(later, name, f"its data begin {start + burst - later} slots too early"))
    return found


def _check_refreshes(
    trace: list[Mapping[str, Any]], standard: Standard, kind: str, postponed: int, end_slot: int | None
) -> list[Violation]:
    """The k-th refresh of a pseudo-channel lies between its due time and `postponed` + 1 intervals later."""
    found: list[Violation] = []
    interval = standard.refresh_interval_cycles[kind] * standard.slots_per_cycle
    organisation = standard.organisation
    wanted = {"all_bank": "REFab", "per_bank": "REFpb", "same_bank": SAME_BANK}[kind]
    turns = organisation.banks_per_group if kind == "same_bank" else organisation.banks
    seen: dict[int, list[Mapping[str, Any]]] = {pc: [] for pc in {int(c["pseudo_channel"]) for c in trace}}
    for command in trace:
        if command["command"] in ("REFab", "REFpb", SAME_BANK):
            seen[int(command["pseudo_channel"])].append(command)
    for pc, refreshes in seen.items():
        for k, command in enumerate(refreshes):
            slot = int(command["slot"])
            due = (k + 1) * interval
            if command["command"] != wanted:
                found.append(Violation(slot, str(command["command"]), f"refreshes are {wanted} here"))
            if not due <= slot <= due + (postponed + 1) * interval:
                found.append(
                    Violation(
                        slot, wanted, f"the {k + 1}-th of pseudo-channel {pc} is due at {due}, at most {postponed} owed"
                    )
                )
            group = int(command["stack_id"]) * organisation.bank_groups + max(int(command["bank_group"]), 0)
            index = group * organisation.banks_per_group + int(command["bank"])
            if kind != "all_bank" and index != k % turns:
                found.append(Violation(slot, wanted, f"takes bank {index} where bank {k % turns} is next"))
        if end_slot is not None and len(refreshes) < end_slot // interval - 1 - postponed:
            found.append(
                Violation(
                    end_slot, wanted, f"pseudo-channel {pc} had {len(refreshes)}, expected {end_slot // interval}"
                )
            )
    return found


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
        is_open = [b for b in open_row if b[0] == bank[0] and bank[3] in (-1, b[3]) and bank[2] in (-1, b[2])]
        if bank[2] >= 0:
            is_open = [b for b in is_open if b == bank]
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
