"""What a wrong request frame gets: every error at once, with the first row it was found in."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cosim import mem
from cosim.config.errors import ConfigErrors

GIB = 2**30


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        ({"address": [0, GIB]}, ["address: row 1", f"lies outside the capacity of {GIB} B"]),
        ({"address": [GIB - 64, 0], "size_bytes": [128, 32]}, ["address: row 0", "outside the capacity"]),
        ({"address": [0, -32]}, ["address: row 1: expected 0 to", "got -32"]),
        ({"address": [0, 8]}, ["address: row 1: 8 is not a multiple of the 32 B of one burst"]),
        ({"address": [0, 0], "size_bytes": [32, 0]}, ["size_bytes: row 1: expected 1 to", "got 0"]),
        ({"address": [0, 0], "size_bytes": [33, 32]}, ["size_bytes: row 0: 33 is not a multiple of the 32 B"]),
        ({"address": [0, 0.5]}, ["address: row 1: expected a whole number, got 0.5"]),
        ({"address": [0, np.nan]}, ["address: row 1: expected a whole number, got nan"]),
        ({"address": ["0", "0x20"]}, ["address: expected numbers"]),
        ({"address": [0, 0], "row": [0, 0]}, ["give either address or coordinates"]),
        ({"row": [0, 32768]}, ["row: row 1: expected 0 to 32767, got 32768"]),
        (
            {"bank_group": [4, 0], "column": [0, 32]},
            ["bank_group: row 0: expected 0 to 3", "column: row 1: expected 0 to 31"],
        ),
        ({"channel": [0, 1]}, ["channel: row 1: expected 0 to 0, got 1"]),
        ({"row": [0, 0], "size_bytes": [32, 32]}, ["belongs to address"]),
        ({"adress": [0, 0]}, ["needs the column address, or coordinate columns", "did you mean 'adress' to be it?"]),
        ({"row": [0, 0], "op": ["R", "X"]}, ["op: row 1: expected 'R' or 'W', got 'X'"]),
        ({"row": [0, 0], "op": ["R", None]}, ["op: row 1: expected 'R' or 'W', got "]),
        ({"row": [0, 0], "arrive_cycle": [0, -1]}, ["arrive_cycle: row 1: expected 0 to", "got -1"]),
        ({"row": [0, 0], "arrive_cycle": [0, 0.5]}, ["arrive_cycle: row 1: expected a whole number, got 0.5"]),
    ],
)
def test_wrong_rows(columns: dict[str, Any], texts: list[str]) -> None:
    frame = pd.DataFrame({"arrive_cycle": [0, 0], "op": ["R", "R"], **columns})
    with pytest.raises(ConfigErrors) as error:
        mem.Memory({"preset": "HBM2_2000"}).run_requests(frame)
    for text in texts:
        assert text in str(error.value)


def test_missing_columns_name_the_nearest() -> None:
    with pytest.raises(ConfigErrors, match=r"the column arrive_cycle is missing; did you mean 'arrival_cycle'"):
        mem.Memory({"preset": "HBM2_2000"}).run_requests(pd.DataFrame({"arrival_cycle": [0], "op": ["R"], "row": [0]}))
    with pytest.raises(ConfigErrors, match="expected a pandas DataFrame, got list"):
        mem.Memory({"preset": "HBM2_2000"}).run_requests([1])  # type: ignore[arg-type]


def test_addresses_need_a_power_of_two_of_channels() -> None:
    memory = mem.Memory({"preset": "HBM2_2000", "channels": 3})
    frame = pd.DataFrame({"arrive_cycle": [0], "op": ["R"], "channel": [2]})
    assert memory.run_requests(frame).total_cycles > 0
    with pytest.raises(ConfigErrors, match="needs a power of two of channels, this memory has 3"):
        memory.run_requests(frame.drop(columns="channel").assign(address=0))


def test_half_cycles_are_slots_of_hbm3() -> None:
    frame = pd.DataFrame({"arrive_cycle": [0.5], "op": ["R"], "row": [0]})
    assert mem.Memory({"preset": "HBM3_6400"}).run_requests(frame).requests["accept_cycle"].tolist() == [0.5]


def test_no_request_is_a_run_of_nothing() -> None:
    run = mem.Memory({"preset": "HBM2_2000"}).run_requests(
        pd.DataFrame({"arrive_cycle": np.array([], int), "op": np.array([], str), "row": np.array([], int)})
    )
    assert (run.total_cycles, run.bandwidth_GBps, run.bound_by) == (0, 0.0, "requests")


def test_a_request_of_an_experts_size_takes_no_memory_of_its_own() -> None:
    """88 MB are cut into bursts as they are taken: the peak of the process stays where a request of 1 MB left it."""
    code = """
import resource
import pandas as pd
from cosim import mem

memory = mem.Memory({"preset": "HBM3_6400", "skipping": "off"})

def peak_kib(size_bytes):
    frame = pd.DataFrame({"arrive_cycle": [0], "op": ["R"], "address": [0], "size_bytes": [size_bytes]})
    run = memory.run_requests(frame)
    assert run.counters["served_reads"] == size_bytes // 32
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

small = peak_kib(1 << 20)
print(peak_kib(88_000_000 // 64 * 64) - small)
"""
    grown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(grown.stdout) < 2048  # 2.75 million bursts
