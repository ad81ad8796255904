"""Where the time of a request went: waiting, refresh, row commands, column access, data bus."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.mem.address_map import FIELDS
from cosim.mem.standard import COLUMN_COMMANDS, SAME_BANK, Standard

PARTS = ("queue", "refresh", "activate", "column", "bus", "later_bursts")
_BANK = ("channel", "pseudo_channel", "stack_id", "bank_group", "bank")
_REFRESH_TIMES = {"REFab": "nRFC", "REFpb": "nRFCpb", SAME_BANK: "nRFCsb"}
_NO_DRAM = ("forwarded", "coalesced", "none")

Key = tuple[int, ...]


class _Bank:
    """The commands of one bank, in order of time."""

    def __init__(self) -> None:
        self.columns: dict[int, int] = {}  # slot of RD or WR: how many ACTs came before it
        self.acts: list[int] = []
        self.pres: list[int] = []
        self.closed: list[tuple[int, int]] = []  # refreshes: from, to


def latency_parts(
    requests: pd.DataFrame, commands: pd.DataFrame, ticks: dict[str, npt.NDArray[np.int64]], standard: Standard
) -> pd.DataFrame:
    """The parts of done minus accept of every request, in command slots; they sum to it exactly.

    * queue: from accept to the first command issued for the request (PRE, ACT, or the RD/WR of a row hit), without the
      refreshes in it; all of a request that DRAM was not asked for (forwarded, absorbed) and of SRAM up to its access.
    * refresh: the part of that wait in which the request's bank was closed by a refresh.
    * activate: from the first command to RD or WR: precharge, activation, and what held the column command back.
    * column: from RD or WR to the first beat (CL, CWL; SRAM: the access).
    * bus: the beats of the first burst.
    * later_bursts: from there to the last beat of a request of several bursts.

    Args:
        requests: rows with coordinates of the first burst issued (`_BANK` and `row_result`).
        commands: the command trace.
        ticks: accept, issue and done of every request, in slots, and first_done of its first burst.
        standard: the resolved standard.
    """
    slots = standard.slots_per_cycle
    banks = _banks(commands, standard)
    burst = standard.burst_cycles * slots
    keys = requests[list(_BANK)].to_numpy().tolist()
    results = requests["row_result"].astype(str).tolist()
    accepts, issues, firsts, dones = (ticks[name].tolist() for name in ("accept", "issue", "first_done", "done"))
    rows: list[tuple[int, ...]] = []
    for key, result, accept, issue, first, done in zip(keys, results, accepts, issues, firsts, dones, strict=True):
        later = done - first
        if result in _NO_DRAM and standard.kind == "dram":
            rows.append((first - accept, 0, 0, 0, 0, later))
            continue
        start, wait = issue, 0
        if standard.kind == "dram":
            bank = banks[tuple(key)]
            start = _first_command(bank, result, accept, issue)
            wait = sum(max(0, min(b, start) - max(a, accept)) for a, b in bank.closed if a < start and b > accept)
        data = first - issue
        beats = min(burst, data)
        rows.append((start - accept - wait, wait, issue - start, data - beats, beats, later))
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(PARTS), dtype=np.int64, index=requests.index)
    return frame


def _banks(commands: pd.DataFrame, standard: Standard) -> dict[Key, _Bank]:
    banks: dict[Key, _Bank] = defaultdict(_Bank)
    organisation = standard.organisation
    slots = standard.slots_per_cycle
    all_of = [
        (s, g, b)
        for s in range(organisation.stack_ids)
        for g in range(organisation.bank_groups)
        for b in range(organisation.banks_per_group)
    ]
    records: list[dict[Any, Any]] = commands.to_dict("records")
    for c in records:
        name, slot = c["command"], int(c["slot"])
        lane = (int(c["channel"]), int(c["pseudo_channel"]))
        own = (int(c["stack_id"]), int(c["bank_group"]), int(c["bank"]))
        together = all_of if own[2] < 0 else [own] if own[1] >= 0 else [p for p in all_of if p[2] == own[2]]
        for place in together:
            bank = banks[lane + place]
            if name == "ACT":
                bank.acts.append(slot)
            elif name in ("PREpb", "PREab"):
                bank.pres.append(slot)
            elif name in _REFRESH_TIMES:
                length = standard.timing[_REFRESH_TIMES[name]] * slots
                bank.closed.append((slot, slot + length))
            elif name in COLUMN_COMMANDS:
                bank.columns[slot] = len(bank.acts)
    return banks


def _first_command(bank: _Bank, result: str, accept: int, issue: int) -> int:
    """The first command issued for a request: of a miss its ACT, of a conflict the PRE before that."""
    if result == "hit":
        return issue
    at = bisect_right(bank.acts, issue) - 1
    act = bank.acts[at] if at >= 0 else issue
    if result == "conflict":
        before = bisect_left(bank.pres, act) - 1
        if before >= 0 and bank.pres[before] >= accept:
            return bank.pres[before]
    return max(act, accept)


def first_bursts(
    frame: pd.DataFrame, commands: pd.DataFrame, issue: npt.NDArray[np.int64], decode: Any, encode: Any
) -> pd.DataFrame:
    """The coordinate of the burst that each request issued first.

    Args:
        frame: the requests, by coordinate or by address.
        commands: the command trace.
        issue: slot of each request's first column command.
        decode: address to coordinate; encode: coordinate to address.
    """
    if "address" not in frame.columns:
        found: pd.DataFrame = pd.DataFrame(
            {f: frame[f] if f in frame.columns else np.zeros(len(frame), np.int64) for f in FIELDS}
        )
        return found
    columns = commands[commands["command"].isin(COLUMN_COMMANDS)]
    at_slot: dict[int, list[dict[Any, Any]]] = defaultdict(list)
    records: list[dict[Any, Any]] = columns.to_dict("records")
    for c in records:
        at_slot[int(c["slot"])].append(c)
    sizes = frame["size_bytes"] if "size_bytes" in frame.columns else pd.Series(1, index=frame.index)
    rows = []
    for address, size, slot in zip(frame["address"].tolist(), sizes.tolist(), issue.tolist(), strict=True):
        place = decode(address)
        for c in at_slot.get(slot, ()):
            if address <= encode({f: int(c[f]) for f in FIELDS}) < address + size:
                place = {f: int(c[f]) for f in FIELDS}
                break
        rows.append(place)
    placed: pd.DataFrame = pd.DataFrame(rows, columns=list(FIELDS), index=frame.index)
    return placed
