"""Skipping stretches that come again changes no result, and it does skip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import mem

MEMORIES = [
    *(
        (preset, values)
        for preset in ("HBM2_2000", "HBM3_6400", "DDR5_6400")
        for values in ("standard", "ramulator2.1")
    ),
]


def assert_same(config: dict[str, Any], frame: pd.DataFrame, commands: bool = False) -> mem.MemoryRun:
    """Runs with skipping on and off, demands equal results, returns the run with skipping."""
    on = mem.Memory({**config, "skipping": "on"}).run_requests(frame, commands=commands)
    off = mem.Memory({**config, "skipping": "off"}).run_requests(frame, commands=commands)
    assert off.skipping["bursts_skipped"] == 0
    pd.testing.assert_frame_equal(on.requests, off.requests)
    pd.testing.assert_frame_equal(on.banks, off.banks)
    pd.testing.assert_frame_equal(on.refreshes, off.refreshes)
    pd.testing.assert_frame_equal(on.bounds, off.bounds)
    assert on.counters == off.counters
    assert on.total_cycles == off.total_cycles
    if commands:
        pd.testing.assert_frame_equal(on.commands, off.commands)
    return on


def coordinates(memory: mem.Memory, count: int, first: int, writes: int) -> pd.DataFrame:
    """A stream through pseudo-channels, bank groups, columns, banks and rows, in that order."""
    o = memory.standard.organisation
    left = np.arange(first, first + count)
    columns: dict[str, Any] = {"arrive_cycle": 0, "op": "R"}
    for name, size in (
        ("pseudo_channel", o.pseudo_channels),
        ("bank_group", o.bank_groups),
        ("column", o.columns),
        ("bank", o.banks_per_group),
        ("stack_id", o.stack_ids),
        ("row", o.rows),
    ):
        columns[name], left = left % size, left // size
    frame = pd.DataFrame(columns)
    if writes:
        frame.loc[frame["column"] % writes == 0, "op"] = "W"
    return frame


@settings(deadline=None, max_examples=6)
@given(
    memory=st.sampled_from(MEMORIES),
    refresh=st.sampled_from(("none", "all_bank", "per_bank", "same_bank")),
    kibibytes=st.integers(256, 768),
    first=st.integers(0, 5000),
    queue=st.sampled_from((16, 32)),
    postponed=st.integers(0, 2),
    noise=st.booleans(),
)
def test_address_ranges(
    memory: tuple[str, str], refresh: str, kibibytes: int, first: int, queue: int, postponed: int, noise: bool
) -> None:
    preset, values = memory
    standard = mem.load_standard(preset, values)
    if refresh != "none" and refresh not in standard.refresh_interval_cycles:
        refresh = "none"
    config = {"preset": preset, "values": values, "refresh": refresh, "channels": 2, "read_queue": queue}
    if values == "standard" and refresh != "none":
        config["postponed_refreshes"] = min(postponed, standard.max_postponed_refreshes)
    burst = standard.organisation.access_bytes
    rows: dict[str, Any] = {
        "arrive_cycle": [0, 0],
        "op": ["R", "R"],
        "address": [first * burst, 1 << 26],
        "size_bytes": [kibibytes << 10, 100 * burst],
    }
    if noise:  # requests that come in the middle of a stretch
        rows = {
            "arrive_cycle": [*rows["arrive_cycle"], 5000, 7777],
            "op": [*rows["op"], "W", "R"],
            "address": [*rows["address"], 0, 1 << 20],
            "size_bytes": [*rows["size_bytes"], 64 * burst, 1 << 18],
        }
    assert_same(config, pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("preset", "refresh", "least"),
    [
        ("HBM3_6400", "none", 0.8),
        ("HBM3_6400", "all_bank", 0.6),
        ("HBM3_6400", "per_bank", 0.5),
        ("HBM2_2000", "none", 0.8),
        ("HBM2_2000", "all_bank", 0.6),
        ("HBM2_2000", "per_bank", 0.0),
        ("LPDDR5X_8533", "per_bank", 0.8),
    ],
)
def test_a_stream_is_skipped(preset: str, refresh: str, least: float) -> None:
    memory = mem.Memory({"preset": preset, "refresh": refresh})
    frame = pd.DataFrame({"arrive_cycle": [0], "op": ["R"], "address": [0], "size_bytes": [2 << 20]})
    run = assert_same({"preset": preset, "refresh": refresh}, frame)
    assert run.skipping["bursts"] == (2 << 20) // memory.standard.organisation.access_bytes
    assert int(run.skipping["bursts_skipped"]) >= least * int(run.skipping["bursts"])
    assert run.skipping["why_not"] == "" or run.skipping["bursts_skipped"] == 0


def test_of_a_period_with_refresh_only_what_is_near_it_is_simulated() -> None:
    """Macro-steps are shorter than a period, and banks take turns: a refresh costs a few macro-steps."""
    config = {"preset": "HBM3_6400", "refresh": "all_bank"}
    frame = pd.DataFrame({"arrive_cycle": [0], "op": ["R"], "address": [0], "size_bytes": [8 << 20]})
    run = assert_same(config, frame)
    assert int(run.skipping["bursts_skipped"]) >= 0.65 * int(run.skipping["bursts"])


@pytest.mark.parametrize("policy", ["open", "closed", "timeout"])
@pytest.mark.parametrize("refresh", ["none", "all_bank"])
@pytest.mark.parametrize("address_map", ["RoBaSiCoBgPcCh", "RoCoBaSiBgPcCh", "RoBaBgSiCoPcCh"])
def test_banks_that_take_turns(address_map: str, refresh: str, policy: str) -> None:
    config: dict[str, Any] = {"preset": "HBM3_6400", "refresh": refresh, "address_map": address_map}
    config["page_policy"] = policy
    if policy == "timeout":
        config["page_timeout"] = 100
    rows = {"arrive_cycle": [0, 0], "op": ["R", "W"], "address": [96, 1 << 27], "size_bytes": [1 << 18, 1 << 17]}
    assert_same(config, pd.DataFrame(rows), commands=policy == "open")


@pytest.mark.parametrize("writes", [0, 4])
def test_coordinates_and_command_traces(writes: int) -> None:
    config = {"preset": "HBM3_6400", "refresh": "per_bank"}
    frame = coordinates(mem.Memory(config), 10_000, 700, writes)
    run = assert_same(config, frame, commands=True)
    if writes == 0:
        config["refresh"] = "none"
        run = assert_same(config, frame, commands=True)
        assert int(run.skipping["bursts_skipped"]) > 2_000


def test_why_nothing_was_skipped() -> None:
    rng = np.random.default_rng(1)
    rows, banks = rng.integers(0, 999, 300), rng.integers(0, 4, 300)
    frame = pd.DataFrame({"arrive_cycle": 0, "op": "R", "row": rows, "bank": banks})
    run = assert_same({"preset": "HBM3_6400"}, frame)
    assert "do not repeat" in str(run.skipping["why_not"])
    assert mem.Memory({"preset": "HBM3_6400", "skipping": False}).run_requests(frame).skipping["why_not"] == (
        "skipping is off"
    )
    with pytest.raises(ValueError, match="skipping"):
        mem.Memory({"preset": "HBM3_6400", "skipping": "of"})
