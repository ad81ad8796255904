"""Random memories under random requests, held against the constraint checker: the longer form of the property tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cosim.mem.address_map import FIELDS, SHORT
from cosim.mem.checker import Violation, check_commands
from cosim.mem.memory import Memory, MemoryRun
from cosim.mem.standard_files import presets
from cosim.mem.standards import load_standard

_COMPATIBLE = ("HBM2_1600", "HBM2_2000", "HBM2_2400", "HBM3_6400", "HBM4_8000", "DDR5_4800", "DDR5_5600", "DDR5_6400")
_FORWARDED = ("forwarded", "coalesced")


@dataclass(frozen=True)
class Case:
    """One random memory and its requests."""

    config: dict[str, Any]
    frame: pd.DataFrame


@dataclass(frozen=True)
class Checked:
    """What a case came to: `broken` is empty when every law held."""

    preset: str
    requests: int
    commands: int
    refreshes: int
    broken: tuple[str, ...]


def random_case(seed: int, preset: str | None = None) -> Case:
    """A memory of any standard, page policy, refresh, queue size and address map, and requests that crowd few banks.

    Args:
        seed: decides everything.
        preset: the standard; drawn when not given.
    """
    rng = np.random.default_rng(seed)

    def one(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    preset = preset or one(*presets())
    values = one("standard", "standard", "ramulator2.1") if preset in _COMPATIBLE else "standard"
    standard = load_standard(preset, values)
    config: dict[str, Any] = {
        "preset": preset,
        "values": values,
        "channels": one(1, 2),
        "refresh": one("none", *standard.refresh_interval_cycles),
        "read_queue": one(1, 4, 32),
        "write_queue": one(2, 8, 32),
    }
    config["write_low_watermark"], config["write_high_watermark"] = one((0.2, 0.8), (0.0, 0.5), (0.5, 1.0))
    timing = standard.timing
    if config["refresh"] == "all_bank":
        config["timing"] = {"nREFI": timing["nRFC"] + one(300, 800)}
    elif config["refresh"] == "same_bank":
        config["timing"] = {"nREFIsb": timing["nRFCsb"] + timing["nRC"] + one(300, 600)}
    elif config["refresh"] == "per_bank":
        shortest = max(timing.get("nPBR2PBR", 0), timing.get("nRREFD", 0), timing["nRC"])
        config["timing"] = {"nREFIpb": 2 * shortest + one(20, 60)}
    if values == "standard":
        config["page_policy"] = one("open", "closed", "timeout")
        if config["page_policy"] == "timeout":
            config["page_timeout"] = one(0, 20, 200)
        config["age_cap"] = one(0, 4, 128)
        config["coalesce_writes"] = one(True, False)
        if config["refresh"] != "none":
            config["postponed_refreshes"] = one(0, 2, 4)
    organisation = standard.organisation
    sizes = {
        "channel": config["channels"],
        "pseudo_channel": organisation.pseudo_channels,
        "stack_id": organisation.stack_ids,
        "bank_group": organisation.bank_groups,
        "bank": organisation.banks_per_group,
        "row": organisation.rows,
        "column": organisation.columns,
    }
    count = int(one(1, 40, 250))
    frame = pd.DataFrame(
        {
            "arrive_cycle": np.cumsum(rng.integers(0, one(0, 2, 10, 100) + 1, count)),
            "op": np.where(rng.random(count) < one(0.0, 0.3, 1.0), "W", "R"),
        }
    )
    if one(True, False):
        config["address_map"] = _random_map(rng, sizes)
        capacity = organisation.channel_bytes * config["channels"] // organisation.access_bytes
        near = rng.integers(0, min(capacity, one(16, 1024, capacity)), count)
        frame["address"] = near * organisation.access_bytes
        bursts = np.minimum(rng.integers(1, one(1, 4) + 1, count), capacity - near)
        frame["size_bytes"] = bursts * organisation.access_bytes
    else:
        few = {"channel": 4, "pseudo_channel": 1, "stack_id": 1, "bank_group": 1, "bank": 1, "row": 2, "column": 2}
        for name, size in sizes.items():
            frame[name] = rng.integers(0, min(size, one(few[name], size)), count)
    return Case(config, frame)


def _random_map(rng: np.random.Generator, sizes: dict[str, int]) -> list[str]:
    """A bit list in any order; half of them with bits hashed by bits above them, which keeps it a bijection."""
    short = {v: k for k, v in SHORT.items()}
    words = [f"{short[f]}{i}" for f in FIELDS for i in range(sizes[f].bit_length() - 1)]
    words = [words[i] for i in rng.permutation(len(words))]
    if rng.integers(2):
        return words
    return [
        f"{word}^{words[int(rng.integers(i + 1, len(words)))]}" if i + 1 < len(words) and rng.integers(3) == 0 else word
        for i, word in enumerate(words)
    ]


def check_case(case: Case) -> Checked:
    """Runs a case and holds it against every law of a memory: constraints, conservation, refresh."""
    memory = Memory(case.config)
    run = memory.run_requests(case.frame, commands=True)
    options = memory.options
    records: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in run.commands.to_dict("records")
    ]
    refresh = "none" if options.compatible else options.refresh
    end = int(run.total_cycles * memory.standard.slots_per_cycle)
    broken = [
        _told(violation)
        for violation in check_commands(
            records,
            memory.standard,
            refresh=refresh,
            postponed_refreshes=options.postponed_refreshes,
            end_slot=end if refresh != "none" else None,
        )
    ]
    broken += _conservation(memory, run, case.frame)
    counts = run.counters
    refreshes = counts["refreshes_all"] + counts["refreshes_bank"]
    return Checked(options.standard.preset, counts["asked"], len(records), refreshes, tuple(broken))


def _told(violation: Violation) -> str:
    return f"slot {violation.slot}: {violation.command}: {violation.text}"


def _conservation(memory: Memory, run: MemoryRun, frame: pd.DataFrame) -> list[str]:
    """Nothing lost, nothing served twice, no time before its cause."""
    counts = run.counters
    served = counts["served_reads"] + counts["served_writes"]
    organisation = memory.standard.organisation
    sizes = frame["size_bytes"] if "size_bytes" in frame.columns else organisation.access_bytes
    bursts = int(np.asarray(sizes).sum() // organisation.access_bytes) if "size_bytes" in frame.columns else len(frame)
    broken = []
    if not counts["asked"] == bursts == served + counts["forwarded"] + counts["coalesced"]:
        broken.append(f"{bursts} bursts asked for, {counts}")
    if counts["row_hits"] + counts["row_misses"] + counts["row_conflicts"] != served:
        broken.append(f"row results do not add up to {served}: {counts}")
    requests = run.requests
    for earlier, later in (("arrive", "accept"), ("accept", "issue"), ("issue", "done")):
        if (requests[f"{later}_cycle"] < requests[f"{earlier}_cycle"]).any():
            broken.append(f"{later}_cycle before {earlier}_cycle")
    columns = run.commands[run.commands["command"].isin(["RD", "RDA", "WR", "WRA"])]
    if len(columns) != served:
        broken.append(f"{len(columns)} column commands for {served} served bursts")
    if "address" not in frame.columns:
        direct = requests[~requests["row_result"].isin(_FORWARDED)]
        for kind in "RW":
            issued = columns[columns["command"].str.startswith(kind)]
            asked = direct[direct["op"] == kind]
            where = [f for f in FIELDS if f in frame.columns]
            if sorted(map(tuple, issued[where].to_numpy())) != sorted(map(tuple, asked[where].to_numpy())):
                broken.append(f"the {kind} commands are not the requests")
    return broken


def soak(cases: int, seed: int, preset: str | None = None) -> Iterator[tuple[int, Checked]]:
    """Checks `cases` random cases, one after another: (seed of the case, what it came to)."""
    for number in range(seed, seed + cases):
        yield number, check_case(random_case(number, preset))
