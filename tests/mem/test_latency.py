"""Latency of a request, part by part: worked by hand, and summing to the whole on random runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import mem
from cosim.mem.soak import random_case


def parts(preset: str, rows: list[tuple[Any, ...]], **config: Any) -> list[list[float]]:
    frame = pd.DataFrame(rows, columns=["arrive_cycle", "op", "bank_group", "bank", "row", "column"])
    run = mem.Memory({"preset": preset, **config}).run_requests(frame, commands=True)
    return run.latency.to_numpy().tolist()


def test_a_miss_a_hit_and_a_conflict() -> None:
    """HBM2 at 2 Gb/s: ACT at 1, RD 15 later, CL 14, two beats' cycles; PRE waits for tRAS, ACT 13 later."""
    rows = [(0, "R", 0, 0, 5, 0), (100, "R", 0, 0, 5, 1), (200, "R", 0, 0, 6, 0), (300, "W", 0, 0, 6, 1)]
    assert parts("HBM2_2000", rows) == [
        [1, 0, 15, 14, 2, 0],
        [1, 0, 0, 14, 2, 0],
        [1, 0, 13 + 15, 14, 2, 0],
        [1, 0, 0, 5, 2, 0],
    ]


def test_a_wait_for_refresh() -> None:
    """REFab at 3900 closes the bank until 4160, where the second cycle of the ACT lies."""
    got = parts("HBM2_2000", [(3950, "R", 0, 0, 5, 0)], refresh="all_bank")
    assert got == [[0, 4159 - 3950, 15, 14, 2, 0]]


def test_forwarded_and_long_requests() -> None:
    assert parts("HBM2_2000", [(0, "W", 0, 0, 5, 0), (0, "R", 0, 0, 5, 0)])[1] == [1, 0, 0, 0, 0, 0]
    frame = pd.DataFrame({"arrive_cycle": [0], "op": "R", "address": [0], "size_bytes": [256]})
    memory = mem.Memory({"preset": "HBM2_2000", "address_map": "RoBaSiBgPcChCo"})
    # eight bursts of one row, tCCD_L apart
    assert memory.run_requests(frame, commands=True).latency.to_numpy().tolist() == [[1, 0, 15, 14, 2, 7 * 4]]


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_parts_sum_to_the_latency(seed: int) -> None:
    case = random_case(seed)
    run = mem.Memory(case.config).run_requests(case.frame, commands=True)
    whole = run.requests["done_cycle"] - run.requests["accept_cycle"]
    assert (run.latency.sum(axis=1) == whole).all()
    assert (run.latency >= 0).all().all()


def test_it_needs_the_command_trace() -> None:
    run = mem.Memory({"preset": "HBM2_2000"}).run_requests(pd.DataFrame({"arrive_cycle": [0], "op": "R", "row": 1}))
    with pytest.raises(ValueError, match="kept no command trace"):
        _ = run.latency


def test_what_is_assumed_of_what_bounds_a_run() -> None:
    """HBM3E has no public table but for tCCD_L; HBM2's figures have sources."""
    i = np.arange(2000)
    frame = pd.DataFrame({"arrive_cycle": 0, "op": "R", "bank_group": i % 4, "bank": i // 4 % 4, "row": i // 16})
    bound = {p: mem.Memory({"preset": p}).run_requests(frame) for p in ("HBM2_2000", "HBM3E_9600")}
    assert bound["HBM2_2000"].bound_by_assumed == ()
    assert bound["HBM3E_9600"].bound_by == "tFAW"
    assert bound["HBM3E_9600"].bound_by_assumed == ("nFAW",)
