"""Random layers on random small systems: all ends, nothing is lost, stages add up, order and restarts are unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_run import digest, everything
from small_system import NS, Bench

from cosim._core import TaskKind
from cosim.run.machine import RUNG_KNOBS


@dataclass(frozen=True)
class Case:
    """A system, and the seed of what happens on it."""

    changes: dict[str, Any]
    seed: int
    layers: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    routers = draw(st.integers(2, 5))
    memories = sorted(draw(st.sets(st.integers(0, routers - 1), min_size=1, max_size=min(2, routers - 1))))
    flit = draw(st.sampled_from([16, 32, 64]))
    tile = draw(st.sampled_from([128, 256, 1024]))
    return Case(
        {
            "routers": routers,
            "memories": tuple(memories),
            "level": {
                "flit_width": f"{flit} B",
                "clock": draw(st.sampled_from(["1 GHz", "0.9 GHz", "1.4 GHz"])),
                "vc_buf_size": draw(st.sampled_from([2, 8])),
                "max_packet_flits": draw(st.sampled_from([128, 512])) // flit,
                "header_bytes": f"{draw(st.sampled_from([0, 8]))} B",
            },
            "expert": {
                "tile": f"{tile} B",
                "expert_buffer": f"{tile * draw(st.integers(1, 5))} B",
                "grant_latency": draw(st.integers(0, 3)),
            },
            "memory": {
                "preset": draw(st.sampled_from(["HBM2_2000", "HBM2_2400", "HBM2_1600"])),
                "channels": draw(st.sampled_from([1, 2])),
                "address_map": draw(st.sampled_from(["RoBaSiCoBgPcCh", "RoBaSiBgPcChCo"])),
                "read_queue": draw(st.sampled_from([2, 32])),
                "refresh": draw(st.sampled_from(["none", "per_bank"])),
            },
            "node": {"read_return_slots": draw(st.sampled_from([16, 64]))},
        },
        draw(st.integers(0, 2**32)),
        draw(st.integers(1, 2)),
    )


def fill(bench: Bench, case: Case) -> list[int]:
    """Layers with dispatches, fetches, jobs, gathers, prefetches, revokes and copies; returns the jobs' task ids."""
    draw = np.random.default_rng(case.seed)
    memories = list(case.changes["memories"])
    chiplets = [router for router in range(case.changes["routers"]) if router not in memories]
    jobs: list[int] = []

    def pick(items: list[int]) -> int:
        return int(items[draw.integers(len(items))])

    def bursts(most: int) -> int:
        return 32 * int(draw.integers(1, most))

    for layer in range(case.layers):
        start = int(layer * draw.integers(0, 3_000_000))
        prefetches = []
        for key in range(int(draw.integers(0, 3))):
            bench.fetch(pick(memories), pick(chiplets), bursts(60), prefetch=1, key=key, address=4096 * key)
            prefetches.append((bench.rows[-1], bench.submit(start)))
        begin = start + int(draw.integers(0, 900_000))
        local = []
        for expert in range(int(draw.integers(1, 5))):
            at = pick(chiplets)
            adopts = [row for row, _ in prefetches if row["destination"] == bench.node(at)]
            if adopts and draw.random() < 0.7:  # the weights of a prefetch
                row = adopts[0]
                source = memories[[bench.node(memory) for memory in memories].index(row["source"])]
                fetch = bench.fetch(source, at, row["bytes"], key=row["key"], address=row["address"])
            else:
                fetch = bench.fetch(pick(memories), at, bursts(80), key=100 + expert, address=8192 * expert)
            sent = [bench.transfer(pick(chiplets), at, int(draw.integers(1, 900))) for _ in range(draw.integers(3))]
            job = bench.compute(at, int(draw.integers(1, 400)), stream=fetch, after=sent)
            local.append(job)
            bench.transfer(at, pick(chiplets), int(draw.integers(1, 900)), after=[job])
        base = bench.submit(begin)
        jobs += [base + job for job in local]
        for row, task in prefetches:  # those that a demand has claimed by then are left alone
            bench.revoke(next(at for at in chiplets if bench.node(at) == row["destination"]), task)
        if prefetches:
            bench.submit(begin + int(draw.integers(0, 900_000)))
        if len(memories) == 2:
            for _ in range(int(draw.integers(0, 3))):
                source, destination = draw.permutation(memories).tolist()
                bench.copy(source, destination, bursts(200), address=1 << 20, to_address=1 << 21)
            if bench.rows:
                bench.submit(start + int(draw.integers(0, 500_000)))
    return jobs


@pytest.mark.parametrize("rung", RUNG_KNOBS)
@settings(max_examples=12)
@given(case=cases())
def test_random_layers(rung: str, case: Case) -> None:
    bench = Bench.of(rung, **case.changes)
    jobs = fill(bench, case)
    wait = bench.delay(300_000)
    bench.add(TaskKind.decision, after=[wait])
    decided = bench.submit(0) + 1
    tasks_before = bench.machine.engine.unfinished_tasks
    stop, *_, task = bench.machine.engine.run(drain=True)
    assert (stop, task) == ("decision", decided)
    state = bytes(bench.machine.engine.save())
    bench.run()  # checks conservation
    assert bench.machine.engine.unfinished_tasks == 0
    assert len(bench.records) == tasks_before
    expected = digest(everything(bench))
    for record in bench.records.values():
        assert 0 <= record["ready_fs"] <= record["start_fs"] <= record["end_fs"]
    for job in jobs:
        record = bench.records[job]
        memory = record["start_fs"] - record["ready_fs"] - record["waited_fs"] + record["stalled_fs"]
        assert record["waited_fs"] >= 0
        assert memory >= 0
        assert record["end_fs"] - record["start_fs"] > record["stalled_fs"] >= 0

    other = Bench.of(rung, **case.changes)
    nodes = other.machine.engine.nodes
    other.machine.engine.set_order(np.random.default_rng(case.seed).permutation(nodes).tolist())
    other.machine.engine.load(state)
    other.run()
    assert digest(everything(other)) == expected


def test_compute_time_is_exact_whatever_the_waits() -> None:
    """Stalls and turns of others are booked apart: what is left is the job's cycles."""
    bench = Bench.of(expert={"expert_buffer": "256 B"})
    jobs = {}
    for expert in range(4):
        fetch = bench.fetch(0, 1, 256 * (1 + expert), address=4096 * expert)
        jobs[bench.compute(1, 10 + 7 * expert, stream=fetch)] = 10 + 7 * expert
    bench.run()
    for job, cycles in jobs.items():
        record = bench.records[job]
        assert record["end_fs"] - record["start_fs"] - record["stalled_fs"] == cycles * NS
