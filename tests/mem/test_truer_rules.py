"""What the default values do otherwise than Ramulator 2.1, and the rates a standard allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from cosim import _core, mem
from cosim.mem.memory import channel_config


def run(preset: str, rows: list[tuple[Any, ...]], **config: Any) -> mem.MemoryRun:
    frame = pd.DataFrame(rows, columns=["arrive_cycle", "op", "bank_group", "bank", "row", "column"])
    return mem.Memory({"preset": preset, **config}).run_requests(frame, commands=True)


def issued(r: mem.MemoryRun) -> list[tuple[int, str]]:
    return [(c.slot, c.command) for c in r.commands.itertuples()]


def test_a_write_is_done_with_its_last_beat() -> None:
    """WR + CWL + BL, not at the WR."""
    for values, done in (("standard", 14 + 5 + 2), ("ramulator2.1", 14)):
        r = run("HBM2_2000", [(0, "W", 0, 0, 5, 0)], values=values)
        assert issued(r) == [(1, "ACT"), (14, "WR")]
        assert r.requests["done_cycle"].tolist() == [done]


def test_write_mode_counts_activated_reads() -> None:
    """A read waiting for its row is still a waiting read: the write does not overtake it."""
    rows = [(0, "R", 0, 0, 5, 0), (0, "W", 0, 0, 5, 1)]
    assert issued(run("HBM2_2000", rows)) == [(1, "ACT"), (16, "RD"), (29, "WR")]
    assert issued(run("HBM2_2000", rows, values="ramulator2.1")) == [(1, "ACT"), (14, "WR"), (29, "RD")]


def test_a_forwarded_read_waits_for_nobody() -> None:
    rows = [(0, "R", 0, 0, 5, 0), (20, "W", 1, 0, 5, 0), (20, "R", 1, 0, 5, 0)]
    for values, done in (("standard", 21), ("ramulator2.1", 32)):
        r = run("HBM2_2000", rows, values=values)
        assert r.requests["done_cycle"].iloc[2] == done
        assert r.requests["row_result"].iloc[2] == "forwarded"


def test_a_write_forwards_until_its_data_leaves() -> None:
    """Also between its ACT and its WR, where Ramulator has already forgotten the address."""
    rows = [(0, "W", 0, 0, 5, 0), (5, "R", 0, 0, 5, 0)]
    assert run("HBM2_2000", rows).requests["row_result"].tolist() == ["miss", "forwarded"]
    assert run("HBM2_2000", rows, values="ramulator2.1").requests["row_result"].tolist() == ["miss", "hit"]


def test_writes_are_absorbed_only_when_asked() -> None:
    rows = [(0, "W", 0, 0, 5, 0), (0, "W", 0, 0, 5, 0)]
    assert run("HBM2_2000", rows).counters["WR"] == 2
    assert run("HBM2_2000", rows, coalesce_writes=True).counters["WR"] == 1
    assert run("HBM2_2000", rows, values="ramulator2.1").counters["WR"] == 1


def test_ties_are_broken_by_age() -> None:
    """Of two requests of one cycle the first is older: its PRE is not held back by the second's hit."""
    rows = [(0, "R", 0, 0, 5, 0), (100, "R", 0, 0, 6, 0), (100, "R", 0, 0, 5, 1)]
    r = run("HBM2_2000", rows)
    # the younger hit goes first when it is ready first, but does not stop the older request's PRE
    assert issued(r)[2:] == [(101, "RD"), (106, "PREpb"), (119, "ACT"), (134, "RD")]
    far = [(0, "R", 0, 0, 5, 0), (0, "R", 0, 0, 6, 0), (0, "R", 0, 0, 5, 1)]
    assert run("HBM2_2000", far, values="ramulator2.1").requests["done_cycle"].iloc[2] == 36


def test_an_activated_request_keeps_its_queue_entry() -> None:
    """The window is the queue: with 4 entries the fifth read enters at the first RD, not at the first ACT."""
    rows = [(0, "R", i % 4, i // 4, 5, 0) for i in range(6)]
    r = run("HBM2_2000", rows, read_queue=4)
    first_read = next(slot for slot, command in issued(r) if command == "RD")
    assert r.requests["accept_cycle"].tolist()[:5] == [0, 0, 0, 0, first_read]
    assert run("HBM2_2000", rows, read_queue=4, values="ramulator2.1").requests["accept_cycle"].iloc[4] == 1


def test_hits_overtake_an_older_miss_a_bounded_number_of_times() -> None:
    hits = [(i * 4, "R", 0, 0, 5, i % 32) for i in range(400)]
    rows = sorted([*hits, (41, "R", 0, 0, 6, 0)], key=lambda r: r[0])
    victim = next(i for i, r in enumerate(rows) if r[4] == 6)

    def wait(**config: Any) -> int:
        requests = run("HBM2_2000", rows, **config).requests
        return int(requests["done_cycle"].iloc[victim] - requests["accept_cycle"].iloc[victim])

    assert wait(age_cap=0) > 1500  # tCCD_L < tRTP: hits that keep coming hold the PRE back for ever
    assert wait(age_cap=16) < 16 * 4 + 100
    assert wait() < 128 * 4 + 100


@pytest.mark.parametrize("cap", [0, 32])
def test_neither_reads_nor_writes_starve_with_a_cap(cap: int) -> None:
    """A lone write below the watermark among a steady stream of reads."""
    rows = [(i * 2, "R", i % 4, 0, 5, i // 4 % 32) for i in range(2000)]
    rows.insert(10, (20, "W", 0, 1, 7, 0))
    r = run("HBM2_2000", rows, age_cap=cap)
    wait = r.requests["done_cycle"].iloc[10] - 20
    assert (wait < 300) if cap else (wait > 3000)


def test_priority_counts_as_age() -> None:
    core = channel_config(mem.Memory({"preset": "HBM2_2000"}).options)
    channel = _core.MemController(core)
    for tag, priority in enumerate((0, 0, 0, 3)):
        assert channel.try_accept(0, 0, 0, 0, 0, 5 + tag, 0, tag, 0, priority=priority)
    while channel.queued():
        channel.advance(channel.next_event())
    assert channel.take_completions()["tag"].tolist() == [3, 0, 1, 2]


def test_refresh_rules_that_ramulator_leaves_out() -> None:
    for preset in ("HBM2_2000", "HBM3_6400"):
        pairs = {
            values: {(c.start, c.to) for c in mem.load_standard(preset, values).constraints if c.scope != "channel"}
            for values in ("standard", "ramulator2.1")
        }
        added = {("REFab", "REFab"), ("REFab", "REFpb"), ("REFpb", "REFab"), ("PREab", "REFpb"), ("RDA", "REFpb")}
        assert added <= pairs["standard"] - pairs["ramulator2.1"]
    assert ("REFpb", "REFpb") in {(c.start, c.to) for c in mem.load_standard("HBM2_2000").constraints}


def test_ddr5_write_pairs() -> None:
    """Another bank of the bank group 10 ns, the same bank 20 ns; Ramulator has one figure for both."""
    other = [(0, "W", 0, 0, 5, 0), (0, "W", 0, 1, 5, 0), (0, "W", 0, 1, 5, 1)]
    slots = [s for s, c in issued(run("DDR5_6400", other)) if c == "WR"]
    assert np.diff(slots).tolist() == [32, 64]


def interleaved(memory: mem.Memory, count: int, groups: int, pseudo_channels: int) -> pd.DataFrame:
    organisation = memory.standard.organisation
    i = np.arange(count) // pseudo_channels
    return pd.DataFrame(
        {
            "arrive_cycle": 0,
            "op": "R",
            "pseudo_channel": np.arange(count) % pseudo_channels,
            "bank_group": i % groups,
            "column": i // groups % organisation.columns,
            "bank": i // (groups * organisation.columns) % organisation.banks_per_group,
            "row": i // (groups * organisation.columns * organisation.banks_per_group),
        }
    )


PRESETS = list(mem.presets())


@pytest.mark.parametrize("preset", PRESETS)
def test_bank_groups_in_turn_reach_the_peak(preset: str) -> None:
    """With a queue that sees tRP + tRCD + four activations ahead; 32 entries are too few from 8 Gb/s HBM on."""
    memory = mem.Memory({"preset": preset, "read_queue": 64})
    pcs = memory.standard.organisation.pseudo_channels
    r = memory.run_requests(interleaved(memory, 20_000, memory.standard.organisation.bank_groups, pcs))
    assert r.bandwidth_GBps >= 0.99 * r.peak_GBps
    assert r.bound_by == "tCCD_S"


@pytest.mark.parametrize("preset", PRESETS)
def test_one_bank_group_pays_tccd_l(preset: str) -> None:
    """Exactly tCCD_S / tCCD_L of the peak between row changes."""
    memory = mem.Memory({"preset": preset})
    timing = memory.standard.timing
    columns = memory.standard.organisation.columns
    r = memory.run_requests(interleaved(memory, columns, 1, 1), commands=True)
    reads = r.commands[r.commands["command"] == "RD"]["slot"].to_numpy()
    assert set(np.diff(reads)) == {timing["nCCDL"] * memory.standard.slots_per_cycle}


@pytest.mark.parametrize(
    ("preset", "timing", "bound", "cycles"),
    [
        ("HBM2_2000", {}, "tRRD_S", 4),
        ("HBM2_2000", {"nFAW": 30}, "tFAW", 7.5),
        ("HBM3_6400", {}, "tFAW", 6),
        ("DDR5_6400", {"nFAW": 40}, "tFAW", 10),
        ("DDR5_6400", {}, "tCCD_S", 8),
    ],
)
def test_a_row_per_access_is_bound_by_activation(
    preset: str, timing: dict[str, int], bound: str, cycles: float
) -> None:
    memory = mem.Memory({"preset": preset, "timing": timing})
    organisation = memory.standard.organisation
    i = np.arange(4000)
    frame = pd.DataFrame(
        {
            "arrive_cycle": 0,
            "op": "R",
            "bank_group": i % organisation.bank_groups,
            "bank": i // organisation.bank_groups % organisation.banks_per_group,
            "row": i // (organisation.bank_groups * organisation.banks_per_group),
        }
    )
    r = memory.run_requests(frame)
    assert r.total_cycles / 4000 == pytest.approx(cycles, rel=0.03)
    assert r.bound_by == bound  # DDR5: tRRD_S = tCCD_S = 8 nCK


def test_one_bank_is_bound_by_its_row_cycle() -> None:
    memory = mem.Memory({"preset": "HBM2_2000"})
    frame = pd.DataFrame({"arrive_cycle": 0, "op": "R", "row": np.arange(500)})
    r = memory.run_requests(frame)
    assert r.total_cycles / 500 == pytest.approx(memory.standard.timing["nRC"], rel=0.01)
    assert r.bound_by == "tRC"


def test_pseudo_channels_issue_row_and_column_commands_together() -> None:
    """Two command buses per channel, shared; data buses and windows are each pseudo-channel's own."""
    memory = mem.Memory({"preset": "HBM2_2000"})
    frame = interleaved(memory, 4000, 4, 2)
    r = memory.run_requests(frame, commands=True)
    per_slot = r.commands.groupby("slot")
    both = per_slot.filter(lambda g: len(g) == 2)
    assert (both.groupby("slot")["pseudo_channel"].nunique() == 2).any()
    assert per_slot.size().max() == 2
    one = memory.run_requests(frame[frame["pseudo_channel"] == 0])
    assert r.total_cycles < 1.02 * one.total_cycles


def test_random_reads_of_two_pseudo_channels_share_the_row_bus() -> None:
    """ACT (2 CK) and PRE (1 CK) of every access on one bus: 3 CK per 32 B."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"arrive_cycle": 0, "op": "R", "pseudo_channel": rng.integers(0, 2, 6000)})
    for name, most in (("bank_group", 4), ("bank", 4), ("row", 32768), ("column", 32)):
        frame[name] = rng.integers(0, most, 6000)
    r = mem.Memory({"preset": "HBM2_2000"}).run_requests(frame)
    assert 3.0 <= r.total_cycles / 6000 < 3.1
    assert r.bound_by == "command bus"


def test_energy_adds_up() -> None:
    memory = mem.Memory({"preset": "HBM2_2000"})
    r = memory.run_requests(interleaved(memory, 3200, 4, 2))
    energy = r.energy.set_index("component")["energy_pJ"]
    assert energy["read"] == pytest.approx(3200 * 256 * 1.51)
    assert energy["activate and precharge"] == pytest.approx(r.counters["ACT"] * 909)
    standby_pj = energy["active standby"] + energy["precharge standby"]
    assert 24 * 2 * r.total_ns <= standby_pj <= 33 * 2 * r.total_ns
    with pytest.raises(ValueError, match="no public energy figures"):
        _ = (
            mem.Memory({"preset": "DDR5_6400"})
            .run_requests(pd.DataFrame({"arrive_cycle": [0], "op": "R", "row": 0}))
            .energy
        )


def test_banks_count_what_they_did() -> None:
    memory = mem.Memory({"preset": "HBM2_2000", "channels": 2})
    frame = interleaved(memory, 1000, 4, 2)
    frame["channel"] = np.arange(1000) // 2 % 2
    r = memory.run_requests(frame)
    assert r.banks["bytes"].sum() == 32_000
    assert len(r.banks) == 2 * 2 * 16
    assert (r.banks["row_hits"] + r.banks["row_misses"] + r.banks["row_conflicts"] == r.banks["RD"]).all()
    assert (r.banks["busy_cycles"] <= r.total_cycles + memory.standard.timing["nRP"]).all()
