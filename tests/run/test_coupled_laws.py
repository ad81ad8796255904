"""The laws on coupled runs: order, conservation, deadlock, refresh, saving and loading, and cost that follows work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mixed_run import digest, everything, mixed_bench, submit_mixed
from small_system import NS, Bench

from cosim._core import DeadlockError, TaskKind
from cosim.run.machine import RUNG_KNOBS

HERE = Path(__file__).parent


def finished(rung: str = "flit", order: list[int] | None = None) -> Bench:
    bench = mixed_bench(rung)
    if order is not None:
        bench.machine.engine.set_order(order)
    submit_mixed(bench)
    bench.run()
    return bench


# ---- determinism


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_the_same_run_twice(rung: str) -> None:
    assert digest(everything(finished(rung))) == digest(everything(finished(rung)))


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_the_order_of_the_nodes_does_not_matter(rung: str) -> None:
    expected = everything(finished(rung))
    nodes = len(expected["memory"]) + len(expected["compute"]) + 2
    draw = np.random.default_rng(4)
    for order in (list(range(nodes))[::-1], *(draw.permutation(nodes).tolist() for _ in range(4))):
        assert digest(everything(finished(rung, order))) == digest(expected)


def test_an_order_names_every_node_once() -> None:
    engine = mixed_bench().machine.engine
    for order in ([0, 1], [0, 1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 6, 7]):
        with pytest.raises(ValueError, match="every node once"):
            engine.set_order(order)


# ---- conservation


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_bytes_of_a_mixed_run_add_up(rung: str) -> None:
    bench = finished(rung)
    found = everything(bench)
    layers = 3
    demanded = layers * (3072 + 2048)
    copied = layers * (8192 + 2048)
    doomed = layers * 4096
    moved = sum(record["moved_bytes"] for record in bench.records.values())
    reads = sum(memory["read_bytes"] for memory in found["memory"])
    cancelled = sum(memory["cancelled_bytes"] for memory in found["memory"])
    wasted = sum(compute["wasted_bytes"] for compute in found["compute"])
    assert reads + cancelled == demanded + copied + doomed
    assert moved == reads
    # what a revoked prefetch brought is wasted, what it did not bring was called off
    assert wasted + cancelled == doomed
    assert wasted > 0
    assert sum(memory["written_bytes"] for memory in found["memory"]) == copied


# ---- no silent hang


def test_a_cycle_of_tasks_is_a_deadlock() -> None:
    bench = Bench.of()
    first = bench.transfer(1, 2, 64)
    second = bench.transfer(2, 1, 64, after=[first])
    bench.edges.append((second, first))
    with pytest.raises(DeadlockError, match="2 tasks are left") as caught:
        bench.run()
    assert "task 0 (transfer" in str(caught.value)
    assert "waits for 1 tasks" in str(caught.value)


def test_a_job_whose_stream_never_comes_is_a_deadlock() -> None:
    bench = Bench.of()
    fetch = bench.fetch(0, 1, 256)
    bench.edges.append((1, fetch))  # the fetch waits for the job that waits for its tiles
    bench.compute(1, 10, stream=fetch)
    with pytest.raises(DeadlockError) as caught:
        bench.run()
    text = str(caught.value)
    assert "task 0 (fetch" in text
    assert "compute node" in text
    assert "waits for the first tile of task 0" in text


def test_refresh_is_no_progress() -> None:
    bench = Bench.of(memory={"refresh": "all_bank"})
    bench.compute(1, 10, stream=0)
    bench.fetch(0, 1, 256, after=[0])
    bench.rows[0]["stream"] = 1
    with pytest.raises(DeadlockError) as caught:
        bench.run()
    # seen at once, not after years of refreshes
    assert bench.machine.now_fs < 100_000 * NS
    assert "2 tasks are left" in str(caught.value)


def test_a_fetch_belongs_to_one_job() -> None:
    bench = Bench.of()
    bench.fetch(0, 1, 256)
    with pytest.raises(ValueError, match="fetch 0 is consumed by 0 compute tasks of its submission"):
        bench.submit()
    bench = Bench.of()
    bench.used_fetch(0, 1, 256)
    bench.compute(1, 1, stream=0)
    with pytest.raises(ValueError, match="fetch 0 is consumed by 2 compute tasks"):
        bench.submit()
    bench = Bench.of()
    sent = bench.transfer(1, 2, 64)
    bench.compute(1, 1, stream=sent)
    with pytest.raises(ValueError, match="which is no fetch"):
        bench.submit()


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_a_revoke_that_comes_before_its_prefetch(rung: str) -> None:
    bench = Bench.of(rung)
    bench.fetch(0, 1, 1024, prefetch=1, key=3)
    prefetch = bench.submit(200 * NS)
    bench.revoke(1, prefetch)
    bench.submit(100 * NS)
    records = bench.run()
    assert records[prefetch]["end_fs"] == 201 * NS  # seen at the next edge, and over
    assert records[prefetch]["moved_bytes"] == 0
    assert bench.machine.compute_statistics(1)["wasted_bytes"] == 0


# ---- refresh


def test_refreshes_of_a_coupled_memory_come_on_time() -> None:
    bench = Bench.of(memory={"refresh": "all_bank", "timing": {"nREFI": 1000}}, expert={"expert_buffer": "8 KiB"})
    fetch = bench.fetch(0, 1, 512 * 1024)
    bench.compute(1, 1000, stream=fetch)
    bench.run()
    statistics = bench.machine.memory_statistics(0)
    due = statistics["last_tick"] // 1000
    refreshes = [channel["refreshes_all"] for channel in statistics["channels"]]
    assert due > 10
    # one per pseudo-channel and interval; the last may still be owed
    assert 2 * due - 2 <= refreshes[0] <= 2 * due


# ---- saving and loading


def cuts(bench: Bench, instants_ns: list[int]) -> None:
    for instant in instants_ns:
        wait = bench.delay(instant * NS)
        bench.add(TaskKind.decision, key=1_000_000 + instant, after=[wait])
    bench.submit(0)


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_a_run_continues_identically_from_any_decision(rung: str) -> None:
    instants = [*range(3, 460, 19), *range(500, 3600, 173)]
    whole = mixed_bench(rung)
    cuts(whole, instants)
    submit_mixed(whole)
    states = []
    stop = ""
    while stop != "idle":
        stop, *_ = whole.machine.engine.run(drain=True)
        states.append(bytes(whole.machine.engine.save()))
    whole.collect()
    expected = everything(whole)
    assert len(states) > len(instants)
    for position in range(0, len(states) - 1, 3):
        other = mixed_bench(rung)
        other.machine.engine.load(states[position])
        assert bytes(other.machine.engine.save()) == states[position]
        later = position
        stop = ""
        while stop != "idle":
            stop, *_ = other.machine.engine.run(drain=True)
            later += 1
            assert bytes(other.machine.engine.save()) == states[later]
        other.collect()
        assert digest(everything(other)) == digest(expected)


def test_a_state_of_another_system_is_refused() -> None:
    bench = mixed_bench()
    state = bytes(bench.machine.engine.save())
    with pytest.raises(RuntimeError, match="another number of nodes"):
        Bench.of(routers=3).machine.engine.load(state)
    with pytest.raises(RuntimeError, match="shorter"):
        bench.machine.engine.load(state[:-8])
    with pytest.raises(RuntimeError, match="longer"):
        bench.machine.engine.load(state + b"12345678")


# ---- cost follows work


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_time_in_which_nothing_happens_costs_nothing(rung: str) -> None:
    """The same fetch, at once and after a millisecond: the same instants but for the wait itself."""
    instants = []
    for start_ns in (0, 1_000_000):
        bench = Bench.of(rung)
        bench.fetch(0, 1, 4096)
        bench.compute(1, 200, stream=0)
        bench.submit(start_ns * NS)
        bench.run()
        instants.append(bench.machine.engine.instants)
    assert instants[0] == instants[1]


def test_nodes_with_nothing_to_do_cost_nothing() -> None:
    instants = []
    for routers in (2, 12):
        bench = Bench.of(routers=routers)
        bench.fetch(0, 1, 4096)
        bench.compute(1, 200, stream=0)
        bench.run()
        instants.append(bench.machine.engine.instants)
    assert instants[0] == instants[1]


# ---- every law seen to be broken

PROGRAMS = {
    "mixed": "bench = mixed_bench(); submit_mixed(bench, layers=40); bench.run()",
    "order": """
import numpy as np
results = set()
for seed in range(4):
    bench = mixed_bench()
    nodes = bench.machine.engine.nodes
    bench.machine.engine.set_order(np.random.default_rng(seed).permutation(nodes).tolist())
    submit_mixed(bench)
    bench.run()
    results.add(digest(everything(bench)))
assert len(results) == 1, "the order of the nodes shows in the results"
""",
    "refresh": "from test_coupled_laws import *; test_refreshes_of_a_coupled_memory_come_on_time()",
    "saved": """
def started():
    bench = Bench.of()
    bench.used_fetch(0, 1, 1024)
    return bench
whole, other = started(), Bench.of()
wait = whole.delay(100 * NS)
whole.add(TaskKind.decision, after=[wait])
whole.submit(0)
whole.machine.engine.run()
other.machine.engine.load(whole.machine.engine.save())
whole.run()
other.run()
assert digest(everything(other)) == digest(everything(whole)), "the saved state was not whole"
""",
}


def with_fault(fault: str, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COSIM_FAULT": fault}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *(os.path.abspath(path) for path in sys.path if path)])
    text = "from mixed_run import *\n" + PROGRAMS[program]
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fault", "program", "report"),
    [
        # a message whose last flit is gone never arrives; any other flit is missed when the run ends
        ("lose_flit", "mixed", "(DeadlockError|ConservationError)"),
        ("drop_credit", "mixed", "(DeadlockError|ConservationError)"),
        ("lose_request", "mixed", "DeadlockError"),
        ("unordered_commit", "order", "(order of the nodes shows|Error)"),
        ("late_refresh", "refresh", "AssertionError"),
        ("skip_state", "saved", "Error"),
    ],
)
def test_a_broken_law_is_reported(fault: str, program: str, report: str) -> None:
    sound = with_fault("", program)
    assert sound.returncode == 0, sound.stderr
    broken = with_fault(fault, program)
    assert broken.returncode != 0
    assert re.search(report, broken.stderr), broken.stderr
