"""Laws: every constraint kept, nothing lost, refreshes on time, and that a broken law is seen."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import _core, mem
from cosim.mem.address_map import FIELDS as ADDRESS_FIELDS
from cosim.mem.memory import channel_config
from cosim.mem.soak import Case, check_case, random_case

from . import patterns

FIELDS = list(ADDRESS_FIELDS)
KINDS = ("none", "all_bank", "per_bank")


def standard_of(preset: str) -> mem.Standard:
    return mem.load_standard(preset)


@st.composite
def runs(draw: st.DrawFn) -> tuple[dict[str, Any], pd.DataFrame]:
    """A memory of any standard, policy and queue size, and requests that crowd a few banks and rows."""
    preset = draw(st.sampled_from(list(mem.presets())))
    both = preset in ("HBM2_2000", "HBM2_2400", "HBM3_6400", "HBM4_8000", "DDR5_4800", "DDR5_5600", "DDR5_6400")
    values = draw(st.sampled_from(["standard", "standard", "ramulator2.1"])) if both else "standard"
    config: dict[str, Any] = {
        "preset": preset,
        "values": values,
        "channels": draw(st.sampled_from([1, 2])),
        "refresh": draw(st.sampled_from(["none", *mem.load_standard(preset).refresh_interval_cycles])),
        "read_queue": draw(st.sampled_from([1, 4, 32])),
        "write_queue": draw(st.sampled_from([2, 8, 32])),
        "timing": {},
    }
    if config["refresh"] == "all_bank":
        config["timing"] = {"nREFI": draw(st.sampled_from([1000, 1500]))}
    if config["refresh"] == "same_bank":
        config["timing"] = {"nREFIsb": draw(st.sampled_from([1200, 1600]))}
    if config["refresh"] == "per_bank":
        config["timing"] = {"nREFIpb": draw(st.sampled_from([150, 200]))}
    if values == "standard":
        config["page_policy"] = draw(st.sampled_from(["open", "closed", "timeout"]))
        if config["page_policy"] == "timeout":
            config["page_timeout"] = draw(st.sampled_from([0, 20, 200]))
        config["age_cap"] = draw(st.sampled_from([0, 4, 128]))
        config["coalesce_writes"] = draw(st.booleans())
        if config["refresh"] != "none":
            config["postponed_refreshes"] = draw(st.sampled_from([0, 2, 4]))
    organisation = mem.load_standard(preset).organisation
    count = draw(st.sampled_from([1, 40, 250]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    gap = draw(st.sampled_from([0, 2, 10, 100]))

    def pick(most: int, few: int) -> Any:
        return rng.integers(0, min(most, draw(st.sampled_from([few, most]))), count)

    frame = pd.DataFrame(
        {
            "arrive_cycle": np.cumsum(rng.integers(0, gap + 1, count)),
            "op": np.where(rng.random(count) < draw(st.sampled_from([0.0, 0.3, 1.0])), "W", "R"),
            "channel": rng.integers(0, config["channels"], count),
            "pseudo_channel": pick(organisation.pseudo_channels, 1),
            "stack_id": pick(organisation.stack_ids, 1),
            "bank_group": pick(organisation.bank_groups, 1),
            "bank": pick(organisation.banks_per_group, 1),
            "row": pick(organisation.rows, 2),
            "column": pick(organisation.columns, 2),
        }
    )
    return config, frame


@given(runs())
@settings(max_examples=25, deadline=None)
def test_random_requests_keep_every_constraint(case: tuple[dict[str, Any], pd.DataFrame]) -> None:
    config, frame = case
    assert check_case(Case(config, frame)).broken == ()


@pytest.mark.parametrize("preset", list(mem.presets()))
@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, deadline=None)
def test_every_standard_under_random_policies_and_maps(preset: str, seed: int) -> None:
    assert check_case(random_case(seed, preset)).broken == ()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda f: f.assign(slot=f["slot"].where(f["command"] != "ACT", f["slot"] + 1)), "tRCD"),
        (lambda f: f.assign(slot=f["slot"].where(f.index != f.index[f["command"] == "RD"][3], f["slot"] - 1)), "tCCD"),
        (lambda f: f.assign(slot=f["slot"].where(f["command"] != "REFpb", f["slot"] - 1)), "is due at"),
        (lambda f: f.assign(bank=f["bank"].where(f["command"] != "REFpb", 3)), "is next"),
        (lambda f: f[f["command"] != "REFpb"], "had 0, expected"),
        (lambda f: f.assign(row=f["row"] + (f["command"] == "RD")), "its row is not open"),
        (lambda f: f[f["command"] != "PREpb"], "refreshes a bank whose row is open"),
    ],
)
def test_the_checker_finds_what_is_broken(change: Any, text: str) -> None:
    memory = mem.Memory({"preset": "HBM2_2000", "refresh": "per_bank", "timing": {"nREFIpb": 200}})
    run = memory.run_requests(stream(memory, 600, 4), commands=True)

    def found(frame: pd.DataFrame) -> list[str]:
        records = frame.to_dict("records")
        return [
            v.text
            for v in mem.check_commands(records, memory.standard, refresh="per_bank", end_slot=int(run.total_cycles))
        ]

    assert found(run.commands) == []
    assert any(text in line for line in found(change(run.commands)))


def test_the_checker_looks_at_buses_by_themselves() -> None:
    """Without a constraint table, overlapping bursts and overlapping commands are still found."""
    standard = dataclasses.replace(mem.load_standard("DDR5_6400"), constraints=())
    where = {"channel": 0, "pseudo_channel": 0, "stack_id": 0, "bank_group": 0, "bank": 0, "row": 5, "column": 0}
    trace = [{"slot": 0, "command": "ACT", **where}, {"slot": 1, "command": "RD", **where}]
    trace += [{"slot": 8, "command": "RD", **where}]
    assert {v.text for v in mem.check_commands(trace, standard)} == {
        "the command bus is taken until slot 2",
        "its data begin 1 slots too early",
    }


def _refreshes_are_on_time(memory: mem.Memory, run: mem.MemoryRun) -> None:
    """Count per pseudo-channel = floor(T / interval) ± (1 + postponed)."""
    options = memory.options
    if options.refresh == "none" or options.compatible:
        return
    interval = memory.standard.refresh_interval_cycles[options.refresh]
    for count in run.refreshes["refreshes"]:
        assert abs(count - int(run.total_cycles // interval)) <= 1 + options.postponed_refreshes
    assert run.counters["most_postponed"] <= options.postponed_refreshes


def stream(memory: mem.Memory, count: int, every: float = 0, pseudo_channels: int = 1) -> pd.DataFrame:
    """Reads that go through the bank groups in turn."""
    organisation = memory.standard.organisation
    i = np.arange(count)
    left = i // pseudo_channels
    return pd.DataFrame(
        {
            "arrive_cycle": np.floor(i * every),
            "op": "R",
            "pseudo_channel": i % pseudo_channels,
            "bank_group": left % organisation.bank_groups,
            "column": left // organisation.bank_groups % organisation.columns,
            "bank": left // (organisation.bank_groups * organisation.columns) % organisation.banks_per_group,
            "row": left // (organisation.bank_groups * organisation.columns * organisation.banks_per_group),
        }
    )


@pytest.mark.parametrize("preset", ["HBM2_2000", "HBM3_6400"])
@pytest.mark.parametrize("refresh", ["all_bank", "per_bank"])
@pytest.mark.parametrize("postponed", [0, 4])
@pytest.mark.parametrize("load", ["stream", "random", "idle"])
def test_refresh_count(preset: str, refresh: str, postponed: int, load: str) -> None:
    memory = mem.Memory({"preset": preset, "refresh": refresh, "postponed_refreshes": postponed})
    g = patterns.GEOMETRY[preset[:4].lower()]
    if load == "random":
        frame = patterns.random(g, 12_000, 1, 30)
        frame["arrive_cycle"] = 0
    else:
        frame = stream(memory, 20_000) if load == "stream" else stream(memory, 500, 100)
    run = memory.run_requests(frame, commands=True)
    assert run.total_cycles > 6 * memory.standard.timing["nREFI"]
    _refreshes_are_on_time(memory, run)
    # each bank is closed for its refresh time, and refreshed in its turn
    if refresh == "per_bank":
        refs = run.commands[(run.commands["command"] == "REFpb") & (run.commands["pseudo_channel"] == 0)]
        organisation = memory.standard.organisation
        order = (refs["stack_id"] * organisation.bank_groups + refs["bank_group"]) * organisation.banks_per_group
        assert ((order + refs["bank"]).to_numpy() == np.arange(len(refs)) % organisation.banks).all()


@pytest.mark.parametrize("preset", [p for p in mem.presets() if "per_bank" in standard_of(p).refresh_interval_cycles])
def test_per_bank_refresh_costs_less_than_all_bank(preset: str) -> None:
    """A per-bank refresh stops its own bank only: it loses between nothing and what all-bank refresh loses."""
    organisation = standard_of(preset).organisation
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"arrive_cycle": 0, "op": "R", "stack_id": rng.integers(0, organisation.stack_ids, 8000)})
    for name, most in (("bank_group", organisation.bank_groups), ("bank", organisation.banks_per_group), ("row", 4096)):
        frame[name] = rng.integers(0, most, 8000)
    runs = {r: mem.Memory({"preset": preset, "refresh": r}).run_requests(frame, commands=True) for r in KINDS}
    cycles = {r: runs[r].total_cycles for r in KINDS}
    assert cycles["none"] <= cycles["per_bank"] <= cycles["all_bank"]
    # every bank is refreshed once per tREFI and closed tRFCpb for it, while the others keep going
    standard = runs["per_bank"].memory.standard
    banks = runs["per_bank"].banks
    banks = banks[banks["pseudo_channel"] == 0]
    rounds = cycles["per_bank"] / (standard.refresh_interval_cycles["per_bank"] * organisation.banks)
    assert ((banks["REF"] - rounds).abs() <= 1).all()
    commands = runs["per_bank"].commands
    # an ACT is named by its first cycle, and tRFCpb ends with its last
    closed = standard.timing["nRFCpb"] * standard.slots_per_cycle - (standard.command_ticks["ACT"] - 1)
    for refresh in commands[commands["command"] == "REFpb"].iloc[5:20].itertuples():
        during = commands[(commands["slot"] > refresh.slot) & (commands["slot"] < refresh.slot + closed)]
        here = during[FIELDS[2:5]].eq(pd.Series([refresh.stack_id, refresh.bank_group, refresh.bank], FIELDS[2:5]))
        mine = during[here.all(axis=1) & (during["pseudo_channel"] == refresh.pseudo_channel)]
        assert mine.empty
        if refresh.pseudo_channel == 0:
            assert len(during) > 4


def test_same_bank_refresh_of_ddr5() -> None:
    """REFsb closes one bank of every bank group for tRFCsb; the others of each group keep going."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"arrive_cycle": 0, "op": "R", "bank_group": rng.integers(0, 8, 6000)})
    frame["bank"], frame["row"] = rng.integers(0, 4, 6000), rng.integers(0, 60000, 6000)
    memory = mem.Memory({"preset": "DDR5_6400", "refresh": "same_bank"})
    run = memory.run_requests(frame, commands=True)
    interval = memory.standard.refresh_interval_cycles["same_bank"]
    assert interval * 4 == memory.standard.timing["nREFI"] // 2  # fine granularity
    refreshes = run.commands[run.commands["command"] == "REFsb"]
    assert abs(len(refreshes) - run.total_cycles // interval) <= 1
    assert refreshes["bank"].tolist() == [k % 4 for k in range(len(refreshes))]
    assert (refreshes["bank_group"] == -1).all()
    counted = run.banks.groupby("bank")["REF"].agg(["min", "max"])
    assert (counted["min"] == counted["max"]).all()
    closed = memory.standard.timing["nRFCsb"] - 1  # an ACT is named by its first cycle
    for refresh in refreshes.itertuples():
        during = run.commands[(run.commands["slot"] > refresh.slot) & (run.commands["slot"] < refresh.slot + closed)]
        assert not (during["bank"] == refresh.bank).any()
        if refresh.slot + closed < run.total_cycles:
            assert len(during) > 20
    assert (run.latency.sum(axis=1) == run.requests["done_cycle"] - run.requests["accept_cycle"]).all()


def controller(config: dict[str, Any], **changes: Any) -> _core.MemController:
    core = channel_config(mem.Memory(config).options)
    core.log_commands = True
    for name, value in changes.items():
        setattr(core, name, value)
    return _core.MemController(core)


def drive(
    channel: _core.MemController, frame: pd.DataFrame, slots: int, drain: int, release: bool = True
) -> tuple[list[int], dict[str, Any]]:
    """Feeds a channel whose read-return slots come back `drain` ticks after the data; done ticks by request."""
    rows = frame.to_dict("records")
    done = [-1] * len(rows)
    releases: list[int] = []
    at = 0
    tick = 0
    channel.set_return_slots(0, slots)
    while min(done) < 0:
        while at < len(rows):
            r = rows[at]
            if r["arrive_cycle"] > tick:
                break
            if not channel.try_accept(
                int(r["op"] == "W"), 0, 0, r["bank_group"], r["bank"], r["row"], r["column"], at, tick
            ):
                break
            at += 1
        waits = [t for t in (channel.next_event(), min(releases, default=None)) if t is not None]
        if at < len(rows) and rows[at]["arrive_cycle"] > tick:
            waits.append(int(rows[at]["arrive_cycle"]))
        if not waits:
            break
        tick = min(waits)
        if channel.next_event() == tick:
            channel.advance(tick)
        for _ in range(releases.count(tick)):
            releases.remove(tick)
            channel.release_slot(0, tick)
        completed = channel.take_completions()
        for tag, end, op in zip(completed["tag"], completed["done_tick"], completed["op"], strict=True):
            done[tag] = int(end)
            if op == 0 and release:
                releases.append(int(end) + drain)
    assert channel.verify_conservation() == ""
    return done, channel.take_commands()


def test_return_slots_enough_change_nothing() -> None:
    """ceil((RL + drain) / tCCD_S) slots carry the full rate; fewer carry slots / (RL + drain)."""
    memory = mem.Memory({"preset": "HBM2_2000"})
    frame = stream(memory, 2000)
    drain = 4
    unlimited, _ = drive(controller({"preset": "HBM2_2000"}), frame, 2**31 - 1, drain)
    # a slot is held from the RD to the tick after its release
    held = memory.standard.read_latency_cycles + drain + 1
    enough = -(-held // memory.standard.timing["nCCDS"])
    many, _ = drive(controller({"preset": "HBM2_2000"}), frame, enough + 1, drain)
    assert many == unlimited
    few, _ = drive(controller({"preset": "HBM2_2000"}), frame, 3, drain)
    assert (max(few) - few[100]) / 1900 == pytest.approx(held / 3, rel=0.02)


def test_no_return_slot_no_progress() -> None:
    """Reads that nobody takes leave no progress to wait for, and the report says why."""
    channel = controller({"preset": "HBM2_2000", "refresh": "all_bank"})
    channel.set_return_slots(0, 1)
    for tag in range(3):
        assert channel.try_accept(0, 0, 0, tag, 0, 5, 0, tag, 0)
    while (event := channel.next_progress()) is not None:
        channel.advance(event)
    assert channel.take_completions()["tag"].tolist() == [0]
    assert channel.next_event() is not None  # refreshes go on
    assert "wait for a free read-return slot" in channel.describe_wait()
    channel.release_slot(0, 5000)
    assert channel.next_progress() is not None


@pytest.mark.parametrize("refresh", ["all_bank", "per_bank"])
@pytest.mark.parametrize("postponed", [0, 3])
def test_blocked_reads_do_not_hold_refresh_back(refresh: str, postponed: int) -> None:
    config = {"preset": "HBM2_2000", "refresh": refresh, "postponed_refreshes": postponed}
    memory = mem.Memory(config)
    channel = controller(config)
    channel.set_return_slots(0, 0)
    for tag in range(30):
        assert channel.try_accept(0, 0, 0, tag % 4, tag // 4 % 4, tag, 0, tag, 0)
    interval = memory.standard.refresh_interval_cycles[refresh]
    end = 40 * interval
    while (event := channel.next_event()) is not None and event <= end:
        channel.advance(event)
    assert abs(channel.refreshes(0) - 40) <= 1 + postponed
    assert channel.counters()["most_postponed"] <= postponed
    commands = pd.DataFrame(channel.take_commands())
    commands["command"] = [_core.MEM_COMMANDS[c] for c in commands["command"]]
    commands["slot"] = commands["tick"]
    assert mem.check_commands(commands.to_dict("records"), memory.standard) == []
    # and the reads are served once slots are free
    for _ in range(30):
        channel.release_slot(0, end)
    while channel.queued():
        channel.advance(channel.next_event())
    assert sorted(channel.take_completions()["tag"].tolist()) == list(range(30))
    assert channel.verify_conservation() == ""


def test_cancelled_requests_are_counted() -> None:
    channel = controller({"preset": "HBM2_2000"})
    for tag in range(20):
        assert channel.try_accept(0, 0, 0, tag % 4, tag // 4 % 4, tag, 0, tag, 0)
    for _ in range(6):
        channel.advance(channel.next_event())
    served = len(channel.take_completions()["tag"])
    cancelled = channel.cancel(10, 19, 40)
    assert cancelled == 10
    while channel.queued():
        channel.advance(channel.next_event())
    assert served + len(channel.take_completions()["tag"]) == 10
    assert channel.counters()["cancelled"] == 10
    assert channel.verify_conservation() == ""


@given(runs(), st.integers(0, 400))
@settings(max_examples=25)
def test_saved_and_loaded_is_the_same(case: tuple[dict[str, Any], pd.DataFrame], stop: int) -> None:
    """A run saved at any event and loaded into a fresh controller goes on identically; so does a normalised one."""
    config, frame = case
    frame = frame[(frame["channel"] == 0) & (frame["pseudo_channel"] == 0) & (frame["stack_id"] == 0)]
    plain = controller(config)
    other = controller(config)
    tick = 0
    events = 0
    rows = frame.to_dict("records")
    at = 0
    finished: list[Any] = [[], []]
    while at < len(rows) or plain.queued() or other.queued():
        if events == stop:
            fresh = controller(config)
            assert fresh.load(other.save())
            other = fresh
            other.normalise(tick)
        accepted = [False, False]
        while at < len(rows) and rows[at]["arrive_cycle"] <= tick:
            r = rows[at]
            accepted = [
                c.try_accept(int(r["op"] == "W"), 0, 0, r["bank_group"], r["bank"], r["row"], r["column"], at, tick)
                for c in (plain, other)
            ]
            assert accepted[0] == accepted[1]
            if not accepted[0]:
                break
            at += 1
        nexts = [c.next_event() for c in (plain, other)]
        wait = [n for n in nexts if n is not None]
        if at < len(rows) and rows[at]["arrive_cycle"] > tick:
            wait.append(int(np.ceil(rows[at]["arrive_cycle"])))
        tick = max(min(wait), tick + 1)
        # an event that one of them does not have changes nothing for the other
        plain.advance(tick)
        other.advance(tick)
        for seen, c in zip(finished, (plain, other), strict=True):
            done = c.take_completions()
            seen.extend(zip(done["tag"].tolist(), done["done_tick"].tolist(), strict=True))
        events += 1
    assert finished[0] == finished[1]
    assert plain.counters() == other.counters()


_FAULTY = """
import numpy as np, pandas as pd
from cosim import mem
memory = mem.Memory({"preset": "HBM2_2000", "refresh": "all_bank"})
frame = pd.DataFrame({"arrive_cycle": np.arange(3000) * 10, "op": "R", "row": np.arange(3000) % 50})
run = memory.run_requests(frame)
count = int(run.refreshes["refreshes"].iloc[0])
assert abs(count - int(run.total_cycles // 3900)) <= 1, f"{count} refreshes in {run.total_cycles} cycles"
"""


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fault", "message"), [("late_refresh", "refreshes in"), ("lose_request", "asked 3000 requests, but served")]
)
def test_a_broken_law_is_seen(fault: str, message: str) -> None:
    for chosen in ("", fault):
        result = subprocess.run(
            [sys.executable, "-c", _FAULTY],
            env={**os.environ, "COSIM_FAULT": chosen},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (result.returncode == 0) == (chosen == ""), result.stderr
    assert message in result.stderr
