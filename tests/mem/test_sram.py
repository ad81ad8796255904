"""SRAM banks: width, ports, latency and queue, against hand-worked cycles and a slow model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import _core, mem
from cosim.config.errors import ConfigErrors
from cosim.mem.memory import channel_config

FILE = """
schema: 1
kind: sram
standard: MINE
extends: SRAM
presets:
  MINE:
    clock: {value: 2 GHz, assumed: "a try"}
    banks: {value: BANKS, assumed: "a try"}
    bank_bytes: {value: 64 KiB, assumed: "a try"}
    width_bytes: {value: WIDTH, assumed: "a try"}
    access_bytes: {value: ACCESS, assumed: "a try"}
    ports: {value: PORTS, assumed: "a try"}
    latency_cycles: {value: 3, assumed: "a try"}
    read_pJ_per_byte: {value: 1.25, source: hcrmap}
    write_pJ_per_byte: {value: 1.5, source: hcrmap}
    standby_mW: {value: 2, assumed: "a try"}
"""


def written(folder: Path, banks: int = 4, width: int = 64, access: int = 64, ports: int = 1) -> Path:
    text = FILE.replace("BANKS", str(banks)).replace("WIDTH", str(width)).replace("ACCESS", str(access))
    path = folder / f"sram_{banks}_{width}_{access}_{ports}.yaml"
    path.write_text(text.replace("PORTS", str(ports)))
    return path


def reads(count: int, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"arrive_cycle": np.zeros(count, int), "op": "R", **columns})


def test_the_tier_of_the_published_system() -> None:
    """64 MB in 16 banks of 125 B per cycle at 1 GHz: 2.0 TB/s, 1.25 pJ/B."""
    memory = mem.Memory({"preset": "SRAM_64MiB"})
    assert memory.peak_GBps == 125 * 16 == 2000.0
    assert memory.capacity_bytes == 64 * 2**20
    count = 40_000
    run = memory.run_requests(reads(count, address=np.arange(count) * 128))
    assert run.bandwidth_GBps >= 0.99 * memory.peak_GBps
    assert run.bound_by == "bank port"
    assert (run.banks["bytes"] == count * 8).all()
    assert run.energy["energy_pJ"].sum() == pytest.approx(1.25 * count * 128)
    assert set(run.assumed) == {"access_bytes", "ports", "latency_cycles", "standby_mW"}


def test_one_bank_by_hand() -> None:
    """128 B accesses through 125 B a cycle: the k-th ends with byte 128 k, two cycles of latency behind its cycle."""
    run = mem.Memory({"preset": "SRAM_64MiB"}).run_requests(reads(100, row=np.arange(100)), commands=True)
    ends = 128 * np.arange(1, 101)
    assert run.requests["done_cycle"].tolist() == (1 + (ends - 1) // 125 + 2).tolist()
    assert run.requests["issue_cycle"].tolist() == (1 + (ends - 128) // 125).tolist()
    assert run.requests["row_result"].tolist() == ["none"] * 100


def test_ports_share_a_bank(tmp_path: Path) -> None:
    for ports, cycles in ((1, 32), (2, 16), (4, 8)):
        memory = mem.Memory({"preset": str(written(tmp_path, ports=ports))})
        assert memory.peak_GBps == 64 * 2 * 4 * ports
        run = memory.run_requests(reads(32, row=np.arange(32)))
        assert run.total_cycles == cycles + 3
        assert run.bound_by == "bank port"


def test_a_latency_is_overridden_by_name() -> None:
    run = mem.Memory({"preset": "SRAM_64MiB", "timing": {"latency_cycles": 9}}).run_requests(reads(1, row=[0]))
    assert run.total_cycles == 1 + 1 + 9
    assert "latency_cycles" not in run.assumed


class SlowSram:
    """One cycle at a time, byte by byte of port time."""

    def __init__(self, banks: int, width: int, access: int, ports: int, latency: int) -> None:
        self.width, self.access, self.latency = width, access, latency
        self.queues: list[list[tuple[int, int]]] = [[] for _ in range(banks)]
        self.free = [[0] * ports for _ in range(banks)]  # in bytes since cycle 0

    def run(self, rows: list[tuple[int, int, int]], entries: int) -> list[int]:
        done = [-1] * len(rows)
        at = cycle = 0
        while min(done) < 0:
            for bank, queue in enumerate(self.queues):
                while queue and queue[0][0] <= cycle:
                    port = min(range(len(self.free[bank])), key=lambda p: self.free[bank][p])
                    if self.free[bank][port] >= (cycle + 1) * self.width:
                        break
                    _, tag = queue.pop(0)
                    end = max(self.free[bank][port], cycle * self.width) + self.access
                    self.free[bank][port] = end
                    done[tag] = (end - 1) // self.width + self.latency
            while at < len(rows) and rows[at][0] <= cycle and self.room(rows, at, entries):
                self.queues[rows[at][1]].append((cycle + 1, at))
                at += 1
            cycle += 1
        return done

    def room(self, rows: list[tuple[int, int, int]], at: int, entries: int) -> bool:
        return sum(rows[tag][2] == rows[at][2] for queue in self.queues for _, tag in queue) < entries


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_against_the_slow_model(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    banks = data.draw(st.sampled_from([1, 4]))
    width = data.draw(st.sampled_from([16, 50, 64, 125]))
    ports = data.draw(st.sampled_from([1, 2, 3]))
    entries = data.draw(st.sampled_from([2, 32]))
    rows = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, banks - 1), st.integers(0, 1)), max_size=60))
    times = np.cumsum([r[0] for r in rows]).tolist()
    path = written(tmp_path_factory.mktemp("sram"), banks, width, 64, ports)
    memory = mem.Memory({"preset": str(path), "read_queue": entries, "write_queue": entries})
    frame = pd.DataFrame(
        {
            "arrive_cycle": np.array(times, dtype=np.int64),
            "op": ["RW"[r[2]] for r in rows],
            "bank": np.array([r[1] for r in rows], dtype=np.int64),
            "row": np.arange(len(rows)),
        }
    )
    run = memory.run_requests(frame)
    model = SlowSram(banks, width, 64, ports, 3)
    wanted = model.run([(t, r[1], r[2]) for t, r in zip(times, rows, strict=True)], entries) if rows else []
    assert run.requests["done_cycle"].tolist() == wanted
    assert run.counters["asked"] == run.counters["served_reads"] + run.counters["served_writes"] == len(rows)


def channel() -> _core.MemController:
    return _core.MemController(channel_config(mem.Memory({"preset": "SRAM_64MiB"}).options))


def test_a_read_without_a_slot_lets_other_writes_pass() -> None:
    c = channel()
    c.set_return_slots(0, 1)
    for tag, (op, row) in enumerate([(0, 1), (0, 2), (1, 2), (1, 3)]):
        assert c.try_accept(op, 0, 0, 0, 0, row, 0, tag, 0)
    while (event := c.next_progress()) is not None:
        c.advance(event)
    assert c.take_completions()["tag"].tolist() == [0, 3]  # the write to row 2 waits for the read of row 2
    assert "wait for a free read-return slot" in c.describe_wait()
    c.release_slot(0, 50)
    while (event := c.next_progress()) is not None:
        c.advance(event)
    assert c.take_completions()["tag"].tolist() == [1, 2]
    assert c.counters()["blocked_by_return_ticks"] > 0
    assert c.verify_conservation() == ""


def test_cancelled_and_saved() -> None:
    c = channel()
    for tag in range(20):
        assert c.try_accept(0, 0, 0, 0, tag % 2, tag, 0, tag, 0)
    c.advance(1)
    assert c.cancel(10, 19, 1) == 10
    other = channel()
    assert other.load(c.save())
    other.normalise(1)
    done = []
    for each in (c, other):
        while each.queued():
            each.advance(each.next_event())
        done.append(each.take_completions()["done_tick"].tolist())
        assert each.verify_conservation() == ""
    assert done[0] == done[1]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"preset": "SRAM_64MiB", "refresh": "all_bank"}, "refresh: is not read by an SRAM"),
        ({"preset": "SRAM_64MiB", "page_policy": "closed"}, "page_policy: is not read by an SRAM"),
        ({"preset": "SRAM_64MiB", "timing": {"nRCD": 3}}, "unknown timing 'nRCD'"),
        ({"preset": "SRAM_64MiB", "values": "ramulator2.1"}, "SRAM has no values"),
        ({"preset": "SRAM_64MB"}, "did you mean 'SRAM_64MiB'?"),
        ({"preset": "SRAM_64MiB", "organisation": "4Gb"}, "SRAM has none"),
    ],
)
def test_what_an_sram_refuses(config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigErrors) as error:
        mem.Memory(config)
    assert text in str(error.value)


def test_wrong_sram_files(tmp_path: Path) -> None:
    path = written(tmp_path, banks=3, width=0, access=48)
    path.write_text(path.read_text().replace("clock: {value: 2 GHz", "clock: {value: 2 GB").replace("ports", "port"))
    with pytest.raises(ConfigErrors) as error:
        mem.Memory({"preset": str(path)})
    for text in (
        "banks: expected a power of two, got 3",
        "width_bytes: expected a whole number from 1",
        "access_bytes: expected a power of two, got 48",
        "clock",
        "unknown key 'port'; did you mean 'ports'?",
        "bank_bytes: expected a power of two of accesses of 48 B",
    ):
        assert text in str(error.value)
