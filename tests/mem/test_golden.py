"""Agreement with Ramulator 2.1, command by command and run by run (values "ramulator2.1")."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cosim import _core, mem
from cosim.mem.memory import channel_config

from . import patterns

REFERENCE = Path(__file__).parents[1] / "reference" / "mem"
PRESET = {"hbm2": "HBM2_2000", "hbm3": "HBM3_6400", "ddr5": "DDR5_6400"}
REFRESH = {"off": "none", "on(REFab)": "all_bank", "on(REFpb)": "per_bank"}

GOLDEN: list[dict[str, Any]] = json.loads((REFERENCE / "golden_commands.json").read_text())
with (REFERENCE / "streams.csv").open(newline="") as _stream:
    STREAMS = list(csv.DictReader(_stream))


def test_reference_is_whole() -> None:
    assert len(GOLDEN) == 51
    assert len(STREAMS) == 101


@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['standard']}.{c['case']}")
def test_micro_case(case: dict[str, Any]) -> None:
    memory = mem.Memory({"preset": PRESET[case["standard"]], "values": "ramulator2.1"})
    slots = memory.standard.slots_per_cycle
    frame = pd.DataFrame(case["requests"], columns=["arrive_cycle", "op", "bank_group", "bank", "row", "column"])
    frame["arrive_cycle"] = frame["arrive_cycle"] / slots
    run = memory.run_requests(frame, commands=True)
    got = [
        (c.slot, c.command, c.bank_group, c.bank, c.row if c.command == "ACT" else -1, c.column)
        for c in run.commands.itertuples()
    ]
    assert sorted(got) == sorted(tuple(c) for c in case["commands"])
    assert (run.requests["done_cycle"] * slots).tolist() == case["done"]
    assert not mem.check_commands(run.commands.to_dict("records"), memory.standard)


def _memory(row: dict[str, str], **more: Any) -> mem.Memory:
    overrides = {}
    for word in row["preset"].split()[1:]:
        name, _, value = word.partition("=")
        if name.startswith("n"):
            overrides[name] = int(value)
    return mem.Memory(
        {
            "preset": PRESET[row["case"].split(".")[0]],
            "values": "ramulator2.1",
            "refresh": REFRESH[row["refresh"]],
            "timing": overrides,
            **more,
        }
    )


def _name(row: dict[str, str]) -> str:
    return "-".join([row["case"], row["refresh"], *row["preset"].split()[1:]])


@pytest.mark.parametrize(
    "row", [r for r in STREAMS if "2pc" not in r["case"] and r["inject_policy"] != "chase"], ids=_name
)
def test_stream(row: dict[str, str]) -> None:
    memory = _memory(row)
    frame = patterns.by_name(*row["case"].split(".")[:2])
    every = 0 if row["inject_policy"] == "asap" else int(row["inject_policy"][1:])
    frame["arrive_cycle"] = np.arange(len(frame)) * every / memory.standard.slots_per_cycle
    run = memory.run_requests(frame)
    assert run.total_cycles == float(row["total_cycles"])
    # the table is rounded to three digits
    assert run.read_latency_mean_cycles == pytest.approx(float(row["avg_read_latency_cycles"]), abs=6e-4, rel=0)
    assert [run.counters[k] for k in ("row_hits", "row_misses", "row_conflicts")] == [
        int(row[k]) for k in ("row_hits", "row_misses", "row_conflicts")
    ]


@pytest.mark.parametrize("row", [r for r in STREAMS if r["inject_policy"] == "chase"], ids=_name)
def test_pointer_chase(row: dict[str, str]) -> None:
    memory = _memory(row)
    slots = memory.standard.slots_per_cycle
    channel = _core.MemController(channel_config(memory.options, 1))
    now = 0
    latency = 0
    for request in patterns.by_name(*row["case"].split(".")[:2]).itertuples():
        assert channel.try_accept(0, 0, 0, request.bank_group, request.bank, request.row, request.column, 0, now)
        done: list[int] = []
        while not done:
            channel.advance(channel.next_event())
            done = channel.take_completions()["done_tick"].tolist()
        latency += done[0] - now
        now = done[0]
        while (event := channel.next_event()) is not None and event <= now:
            channel.advance(event)
    assert now / slots == float(row["total_cycles"])
    assert latency / slots / 10_000 == pytest.approx(float(row["avg_read_latency_cycles"]), abs=6e-4, rel=0)
    banks = channel.banks(0)
    assert [int(banks[k].sum()) for k in ("row_hits", "row_misses", "row_conflicts")] == [
        int(row[k]) for k in ("row_hits", "row_misses", "row_conflicts")
    ]


@pytest.mark.parametrize("row", [r for r in STREAMS if "2pc" in r["case"]], ids=_name)
def test_two_pseudo_channels(row: dict[str, str]) -> None:
    """One controller, shared command buses and read queue."""
    standard, pattern, _ = row["case"].split(".")
    memory = _memory(row, read_queue=64 if "read_buffer_size=64" in row["preset"] else 32)
    g = patterns.GEOMETRY[standard]
    count = int(row["requests"])
    index = np.arange(count)
    if pattern.startswith("seq"):
        frame = patterns.sequential(g, count // 2, "RoBaCoBg").iloc[index // 2].reset_index(drop=True)
        frame["pseudo_channel"] = index % 2
    else:
        frame = patterns.random_two(g, count, 9)
    frame["arrive_cycle"] = 0
    run = memory.run_requests(frame)
    assert run.total_cycles == float(row["total_cycles"])
    # measured in nanoseconds with two digits, then turned into cycles
    cycle_ns = float(memory.standard.tick_fs * memory.standard.slots_per_cycle / 10**6)
    want_ns = float(row["avg_read_latency_cycles"]) * cycle_ns
    assert run.read_latency_mean_ns == pytest.approx(want_ns, abs=6e-3, rel=0)
