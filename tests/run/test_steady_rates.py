"""A stream runs at the slowest of link, bank and consumer, and the other two are held back to that rate."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from small_system import NS, Bench

from cosim._core import TaskKind

TILE = 4096
STREAM = 96 * TILE
ORDERS = list(itertools.permutations([8, 16, 32]))
"""Rates of link, bank and consumer in bytes per ns."""


def stream_bench(rung: str, link: int, bank: int, routers: int = 2, memory: int = 0) -> Bench:
    """A flit of ``link`` bytes a ns; ``bank`` bytes a ns from both pseudo-channels: each a burst in 64 / bank CK."""
    return Bench.of(
        rung,
        routers=routers,
        memories=(memory,),
        level={
            "flit_width": f"{link} B",
            "num_vcs": 6,
            "vc_buf_size": 16,
            "max_packet_flits": 512 // link,
        },
        expert={"tile": f"{TILE} B", "expert_buffer": f"{16 * TILE} B"},
        memory={
            "address_map": "RoBaSiCoBgPcCh",
            "timing": {"nCCDS": 64 // bank, "nCCDL": max(4, 64 // bank)},
        },
    )


@dataclass(frozen=True)
class Window:
    """What happened between two instants of a running stream."""

    fs: int
    reads: int
    flits: int
    busy_cycles: int
    blocked_ticks: int


def sample(bench: Bench) -> Window:
    memory = bench.machine.memory_statistics(int(bench.machine.system.memory_endpoints[0].index))
    machine = bench.machine
    network = machine.flit_statistics(0) if machine.network_kind == "flit" else machine.link_statistics()
    return Window(
        bench.machine.now_fs,
        sum(channel["served_reads"] for channel in memory["channels"]),
        int(network["link_vc_flits"].sum()) if "link_vc_flits" in network else 0,
        sum(
            int(bench.machine.compute_statistics(place.index)["busy_cycles"])
            for place in bench.machine.system.compute_endpoints
        ),
        sum(channel["blocked_by_return_ticks"] for channel in memory["channels"]),
    )


def steady_window(bench: Bench, begin_ns: int, end_ns: int) -> Window:
    """Counts between two decisions in the middle of the run; the run is finished afterwards."""
    for instant in (begin_ns, end_ns):
        wait = bench.delay(instant * NS)
        bench.add(TaskKind.decision, after=[wait])
    bench.submit(0)
    samples = []
    for _ in range(2):
        stop, *_ = bench.machine.engine.run()
        assert stop == "decision"
        samples.append(sample(bench))
    bench.run()
    first, last = samples
    return Window(
        last.fs - first.fs,
        last.reads - first.reads,
        last.flits - first.flits,
        last.busy_cycles - first.busy_cycles,
        last.blocked_ticks - first.blocked_ticks,
    )


@pytest.mark.parametrize(("link", "bank", "consumer"), ORDERS)
def test_a_stream_runs_at_its_slowest_rate(link: int, bank: int, consumer: int) -> None:
    bench = stream_bench("flit", link, bank)
    fetch = bench.fetch(0, 1, STREAM)
    job = bench.compute(1, STREAM // consumer, stream=fetch)
    window = steady_window(bench, 12_000, 36_000)
    slowest = min(link, bank, consumer)
    ns = window.fs / NS
    record = bench.records[job]
    assert STREAM / ((record["end_fs"] - record["start_fs"]) / NS) == pytest.approx(slowest, rel=0.01)
    # all three move at that rate, tile by tile the compute engine
    assert window.reads * 32 / ns == pytest.approx(slowest, rel=0.01)
    assert window.flits * link / ns == pytest.approx(slowest, rel=0.01)
    assert window.busy_cycles / ns == pytest.approx(slowest / consumer, rel=0.03)


@pytest.mark.parametrize(("link", "bank", "consumer"), ORDERS)
def test_links_without_flits_hold_the_banks_back_too(link: int, bank: int, consumer: int) -> None:
    bench = stream_bench("link+command", link, bank)
    fetch = bench.fetch(0, 1, STREAM)
    job = bench.compute(1, STREAM // consumer, stream=fetch)
    window = steady_window(bench, 12_000, 36_000)
    slowest = min(link, bank, consumer)
    record = bench.records[job]
    assert STREAM / ((record["end_fs"] - record["start_fs"]) / NS) == pytest.approx(slowest, rel=0.01)
    assert window.reads * 32 / (window.fs / NS) == pytest.approx(slowest, rel=0.01)


@pytest.mark.parametrize("rung", ["link", "flit+rate"])
@pytest.mark.parametrize(("link", "consumer"), [(8, 16), (16, 8), (64, 64)])
def test_a_memory_that_is_a_rate(rung: str, link: int, consumer: int) -> None:
    bench = stream_bench(rung, link, 32)
    fetch = bench.fetch(0, 1, STREAM)
    job = bench.compute(1, STREAM // consumer, stream=fetch)
    record = bench.run()[job]
    slowest = min(link, 32, consumer)  # 32 GB/s: the peak of one channel
    assert STREAM / ((record["end_fs"] - record["start_fs"]) / NS) == pytest.approx(slowest, rel=0.01)


def test_only_a_slow_link_fills_the_return_buffer() -> None:
    blocked = {}
    for name, (link, bank, consumer) in {"link": (8, 32, 32), "bank": (32, 8, 32), "consumer": (32, 32, 8)}.items():
        bench = stream_bench("flit", link, bank)
        fetch = bench.fetch(0, 1, STREAM)
        bench.compute(1, STREAM // consumer, stream=fetch)
        window = steady_window(bench, 12_000, 36_000)
        blocked[name] = window.blocked_ticks / (window.fs / NS)
    # reads wait for a return slot in both pseudo-channels nearly all the time, or never
    assert blocked["link"] > 1.5
    assert blocked["bank"] == 0
    assert blocked["consumer"] == 0


def test_traffic_of_others_on_the_link_slows_the_banks() -> None:
    """Router 0 sends tokens over the link 1 -> 2 that the weights need as well: each gets half of it."""
    rates = {}
    for crowded in (False, True):
        bench = stream_bench("flit", 32, 32, routers=4, memory=1)
        fetch = bench.fetch(1, 2, STREAM)
        bench.compute(2, STREAM // 64, stream=fetch)
        if crowded:
            bench.transfer(0, 3, 2 * STREAM)
        window = steady_window(bench, 4_000, 10_000)
        rates[crowded] = window.reads * 32 / (window.fs / NS)
    assert rates[False] > 30
    assert rates[True] == pytest.approx(16, rel=0.01)
