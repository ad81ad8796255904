"""Memory plug-ins: from C and from Python, by hand-computed times, and when they misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cosim import mem
from cosim.config import ConfigErrors
from cosim.plugins import MemoryGeometry, MemoryRequest, PluginError, compile_c

STREAM = pd.DataFrame(
    {"arrive_cycle": [0, 0, 500], "op": ["R", "W", "R"], "address": [0, 4096, 64], "size_bytes": [4096, 64, 32]}
)


def run(plugin: object, frame: pd.DataFrame = STREAM, **keys: Any) -> mem.MemoryRun:
    return mem.Memory({"preset": "HBM2_2000", "plugin": plugin, **keys}).run_requests(frame)


def test_fixed_latency_and_bandwidth_to_the_cycle(examples: Path) -> None:
    one = pd.DataFrame({"arrive_cycle": [7], "op": ["R"], "address": [0], "size_bytes": [32]})
    found = run(str(examples / "fixed_memory.c"), one, params={"latency_cycles": 20, "burst_cycles": 2})
    # accepted at 7, first beat 20 later, on the bus for 2
    assert found.requests["accept_cycle"].tolist() == [7]
    assert found.requests["done_cycle"].tolist() == [29]
    long = run(str(examples / "fixed_memory.c"), params={"latency_cycles": 20, "burst_cycles": 2})
    bursts = 4096 // 32 + 64 // 32
    # half of the bursts come by the first pseudo-channel, its part of the write included, before the second's
    assert long.requests["done_cycle"].tolist() == [20 + 2 * (bursts - 1), 20 + 2 * bursts, 500 + 22]
    assert long.total_cycles == 522
    assert long.counters == {"asked": 131, "served_reads": 129, "served_writes": 2, "cancelled": 0}


def test_c_and_python_are_one_memory(examples: Path) -> None:
    rng = np.random.default_rng(3)
    count = 300
    frame = pd.DataFrame(
        {
            "arrive_cycle": np.sort(rng.integers(0, 200, count)),
            "op": rng.choice(["R", "W"], count),
            "address": rng.integers(0, 1 << 20, count) * 32,
            "size_bytes": rng.integers(1, 20, count) * 32,
        }
    )
    runs = [
        run(plugin, frame, channels=2)
        for plugin in (str(examples / "fixed_memory.c"), f"{examples / 'fixed_memory.py'}:FixedMemory")
    ]
    pd.testing.assert_frame_equal(runs[0].requests, runs[1].requests)
    assert (runs[0].requests["done_cycle"] > runs[0].requests["accept_cycle"]).all()
    assert runs[0].counters["asked"] == int(frame["size_bytes"].sum()) // 32


def test_what_only_our_controller_knows_is_refused(examples: Path) -> None:
    found = run(str(examples / "fixed_memory.c"))
    for name in ("banks", "energy", "refreshes", "bounds"):
        with pytest.raises(ValueError, match="the memory plug-in 'fixed_memory' does not tell"):
            getattr(found, name)


class Memory:
    """Done after 5 ticks; each test breaks one thing."""

    def __init__(self, geometry: MemoryGeometry) -> None:
        self.bursts: list[tuple[int, int]] = []
        self.now = 0

    def accept(self, request: MemoryRequest, tick: int) -> bool:
        self.bursts.append((request.id, tick + 5))
        return True

    def next_event(self) -> int | None:
        return min((tick for _, tick in self.bursts), default=None)

    def advance(self, tick: int) -> None:
        self.now = tick

    def pop(self) -> list[tuple[int, int]]:
        done = [burst for burst in self.bursts if burst[1] <= self.now]
        self.bursts = [burst for burst in self.bursts if burst[1] > self.now]
        return done


class TwiceDone(Memory):
    def pop(self) -> list[tuple[int, int]]:
        return 2 * super().pop()


class TooEarly(Memory):
    def pop(self) -> list[tuple[int, int]]:
        return [(number, tick - 5) for number, tick in super().pop()]


class Silent(Memory):
    def next_event(self) -> int | None:
        return None


class Backwards(Memory):
    def next_event(self) -> int | None:
        return 0


class Full(Memory):
    def accept(self, request: MemoryRequest, tick: int) -> bool:
        return False


class Raising(Memory):
    def advance(self, tick: int) -> None:
        raise ZeroDivisionError("on purpose")


class Refusing(Memory):
    def __init__(self, geometry: MemoryGeometry) -> None:
        raise ValueError(f"no {geometry.preset} here")


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (TwiceDone, "'TwiceDone': burst 0 is said to be done at tick 5, but no burst of this id is under way"),
        (TooEarly, "'TooEarly': burst 0 is said to be done at tick 0, expected after tick 0, when it was accepted"),
        (Silent, "stands still"),
        (Backwards, "'Backwards': next_event is tick 0, expected one after the last advance"),
        (Full, "stands still"),
        (Raising, "'Raising' raised ZeroDivisionError: on purpose"),
    ],
)
def test_a_broken_contract_ends_the_run_with_an_error(memory: type[Memory], text: str) -> None:
    assert run(Memory).total_cycles == 505
    with pytest.raises(PluginError, match=text):
        run(memory)


def test_what_is_asked_wrong_is_refused(examples: Path) -> None:
    with pytest.raises(ConfigErrors, match=r"refresh: expected one of plugin.*a plug-in is the controller"):
        run(str(examples / "fixed_memory.c"), refresh="none")
    with pytest.raises(ConfigErrors, match=r"params: expected plugin, beside params"):
        mem.Memory({"preset": "HBM2_2000", "params": {}})
    with pytest.raises(ConfigErrors, match=r"params\.latency_cycle: .*did you mean 'latency_cycles'"):
        run(str(examples / "fixed_memory.c"), params={"latency_cycle": 3})
    with pytest.raises(ConfigErrors, match="refuses this memory: ValueError: no HBM2_2000 here"):
        run(Refusing)
    with pytest.raises(PluginError, match="exports no cosim_memory_entry"):
        run(compile_c("int nothing;\n", flags=("-fvisibility=default",)))
