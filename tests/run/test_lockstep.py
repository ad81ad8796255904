"""Channels that do the same are stepped once for all of them: the same results for less work."""

from __future__ import annotations

import pytest
from lockstep_cases import compare, stepped
from skipping_cases import differences
from small_system import Bench

_CHANNELS = 4
_STRIPE = 32 * _CHANNELS  # a burst of each


def bench(lockstep: bool = True, slots: int = 64, tile: int = 8 * _STRIPE, refresh: str = "per_bank") -> Bench:
    """A memory of four interleaved channels, refreshed."""
    made = Bench.of(
        "flit",
        expert={"tile": f"{tile} B", "expert_buffer": f"{4 * tile} B"},
        memory={"channels": _CHANNELS, "address_map": "RoBaSiCoBgPcCh", "refresh": refresh},
        node={"read_return_slots": slots},
    )
    made.machine.engine.set_lockstep(lockstep)
    return made


def streamed(lockstep: bool, **how: int) -> Bench:
    """One stream to its end, over a network that is slower than the memory."""
    made = bench(lockstep, **how)
    made.compute(2, 500, stream=made.fetch(0, 2, 64 * 1024))
    made.run()
    return made


def test_random_systems_do_not_tell_the_difference() -> None:
    outcomes = {seed: compare(seed) for seed in range(900, 920)}
    assert {seed: outcome.differences for seed, outcome in outcomes.items() if outcome.differences} == {}
    assert sum(outcome.stepped_share < 0.9 for outcome in outcomes.values()) >= 7


def test_one_channel_is_stepped_for_all() -> None:
    on, off = streamed(True, slots=512), streamed(False, slots=512)
    assert differences(on, off) == ()
    assert stepped(off) == 64 * 1024 // 32
    assert stepped(on) * _CHANNELS == stepped(off)


def test_channels_part_where_return_slots_run_out() -> None:
    on, off = streamed(True, slots=16), streamed(False, slots=16)
    assert differences(on, off) == ()
    assert stepped(off) // _CHANNELS < stepped(on) < stepped(off)


def test_a_tile_of_half_a_stripe_parts_them() -> None:
    made = bench(tile=_STRIPE // 2)
    made.compute(2, 100, stream=made.fetch(0, 2, 16 * _STRIPE))
    made.run()
    assert stepped(made) == 16 * _STRIPE // 32


@pytest.mark.parametrize("refresh", ["none", "all_bank", "per_bank"])
def test_they_join_again_at_rest(refresh: str) -> None:
    """What parted them is over; where refreshes have closed the rows since, the next stream is stepped once for all."""
    benches = []
    for lockstep in (True, False):
        made = bench(lockstep, slots=512, refresh=refresh)
        odd = made.fetch(0, 2, _STRIPE // 2)
        made.compute(2, 1, stream=odd)
        later = made.delay(100_000 * 1_000_000, after=[odd])
        made.compute(3, 1, stream=made.fetch(0, 3, 64 * 1024, address=1 << 20, after=[later]))
        made.run()
        benches.append(made)
    on, off = benches
    assert differences(on, off) == ()
    alone = _STRIPE // 2 // 32
    shared = stepped(off) - alone
    assert stepped(on) == alone + (shared if refresh == "none" else shared // _CHANNELS)


def test_statistics_on_the_way_are_those_of_every_channel() -> None:
    on, off = bench(True, slots=512), bench(False, slots=512)
    seen = []
    for made in (on, off):
        node = made.node(0)
        rows = []
        for size in (8192, 4096 + _STRIPE // 2, 8192, 64 * 1024):
            made.used_fetch(0, 2, size)
            made.submit(made.machine.now_fs)
            made.run()
            rows.append(made.machine.engine.memory_statistics(node))
        seen.append(rows)
    assert seen[0] == seen[1]
    assert stepped(on) < stepped(off)
    assert {bank[0] for bank in seen[0][-1]["banks"] if bank[4] > 0} == set(range(_CHANNELS))


@pytest.mark.faults
def test_parting_too_late_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSIM_FAULT", "late_parting")
    assert differences(streamed(True, slots=8), streamed(False, slots=8)) != ()
