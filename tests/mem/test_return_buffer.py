"""Reads go through a finite buffer: never more than its slots on their way, in the order of their commands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import _core, mem
from cosim.mem.memory import channel_config

PRESETS = ("HBM2_2000", "HBM3_6400", "DDR5_6400")


def table(preset: str, count: int, writes: int, rows: int, seed: int) -> dict[str, Any]:
    """Random requests to one pseudo-channel of a preset, `writes` of ten of them writes."""
    o = mem.Memory({"preset": preset}).standard.organisation
    rng = np.random.default_rng(seed)
    zero = np.zeros(count, np.int64)
    return {
        "arrive_tick": zero,
        "op": (rng.integers(0, 10, count) < writes).astype(np.uint8),
        "channel": zero,
        "pseudo_channel": zero,
        "stack_id": zero,
        "bank_group": rng.integers(0, o.bank_groups, count),
        "bank": rng.integers(0, o.banks_per_group, count),
        "row": rng.integers(0, rows, count),
        "column": rng.integers(0, o.columns, count),
    }


def played(preset: str, refresh: str, requests: dict[str, Any], buffer: tuple[int, int] | None) -> _core.MemReplay:
    """The replay at its end, everything served."""
    config = channel_config(mem.Memory({"preset": preset, "refresh": refresh}).options)
    replay = _core.MemReplay(config, 1, requests)
    if buffer is not None:
        replay.set_return_buffer(*buffer)
    replay.run(1 << 62)
    assert replay.finished_bursts == len(requests["op"])
    assert replay.verify_conservation(0) == ""
    return replay


@settings(deadline=None, max_examples=30)
@given(
    preset=st.sampled_from(PRESETS),
    refresh=st.sampled_from(("none", "all_bank")),
    writes=st.sampled_from((0, 3)),
    rows=st.sampled_from((1, 64)),
    slots=st.integers(1, 24),
    ticks=st.integers(0, 60),
    seed=st.integers(0, 1000),
)
def test_reads_on_their_way_never_exceed_the_slots(
    preset: str, refresh: str, writes: int, rows: int, slots: int, ticks: int, seed: int
) -> None:
    """RD n goes after the slot of RD n - slots is free, which is `ticks` after its last beat, in order."""
    requests = table(preset, 300, writes, rows, seed)
    replay = played(preset, refresh, requests, (slots, ticks))
    reads = requests["op"] == 0
    issued, done = replay.issue_tick()[reads], replay.done_tick()[reads]
    order = np.lexsort((done, issued))
    free = np.maximum.accumulate(done[order] + ticks)
    assert (issued[order][slots:] > free[:-slots]).all()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_buffer_nobody_waits_for_changes_nothing(preset: str) -> None:
    """With room for every request, and without a buffer event by event, all goes as the channel goes by itself."""
    requests = table(preset, 400, 3, 4, 5)
    by_itself = played(preset, "all_bank", requests, None)
    for buffer in ((0, 0), (400, 50)):
        replay = played(preset, "all_bank", requests, buffer)
        for ticks in ("accept_tick", "issue_tick", "done_tick", "row_result"):
            assert (getattr(replay, ticks)() == getattr(by_itself, ticks)()).all()
        assert replay.counters(0) == by_itself.counters(0)


def test_a_small_buffer_costs_time_and_the_wait_is_counted() -> None:
    """Half the slots that a stream needs: about twice the time, most of it waited for a slot."""
    requests = table("HBM3_6400", 600, 0, 1, 1)
    free = played("HBM3_6400", "none", requests, (0, 0))
    tight = played("HBM3_6400", "none", requests, (5, 0))
    assert 1.7 < tight.total_ticks / free.total_ticks < 2.6
    assert tight.counters(0)["blocked_by_return_ticks"] > 0.4 * tight.total_ticks
    assert free.counters(0)["blocked_by_return_ticks"] == 0


def test_a_buffer_and_skipping_exclude_each_other() -> None:
    """The buffer is no part of what macro-steps compare."""
    config = channel_config(mem.Memory({"preset": "HBM3_6400"}).options)
    replay = _core.MemReplay(config, 1, table("HBM3_6400", 10, 0, 1, 1), None, True)
    with pytest.raises(ValueError, match="skipping"):
        replay.set_return_buffer(4, 0)
    replay = _core.MemReplay(config, 1, table("HBM3_6400", 10, 0, 1, 1))
    with pytest.raises(ValueError, match="slots and ticks"):
        replay.set_return_buffer(-1, 0)
