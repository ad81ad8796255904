"""Next-event equals brute force: a run in which every component is called at every edge of its clock ends the same."""

from __future__ import annotations

import numpy as np
import pytest
from mixed_run import digest, everything
from skipping_cases import form_differences, prepared
from small_system import Bench

from cosim._core import TaskKind

SEEDS = range(60, 76)
"""Four systems of each rung."""

MARGIN_FS = 400_000_000


def interrupted(seed: int, times_fs: list[int]) -> Bench:
    """A case with a decision of key 70 at these instants, and one of key 71 a while after each of them."""
    bench = prepared(seed)
    bench.machine.engine.skipping = False
    for time_fs in times_fs:
        for key, at in ((70, time_fs), (71, time_fs + MARGIN_FS)):
            bench.add(TaskKind.decision, key=key, after=[bench.delay(at)])
    bench.submit()
    return bench


def go_to(bench: Bench, key: int) -> list[tuple[int, int]]:
    """The next decision of a key; instants and keys of all decisions on the way."""
    found = []
    while not found or found[-1][1] != key:
        stop, at, reached, _ = bench.machine.engine.run(drain=True)
        assert stop == "decision"
        found.append((at, reached))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_brute_force_goes_through_the_same_states(seed: int) -> None:
    """The last step of a network and the last tick of a memory are those of the last call, so both runs call every
    edge for a while before they are compared."""
    whole = prepared(seed)
    whole.run()
    end = whole.machine.now_fs
    times = [int(np.random.default_rng(seed).integers(end // 10, end - 3 * MARGIN_FS)), end + MARGIN_FS]
    plain, brute = interrupted(seed, times), interrupted(seed, times)
    brute.machine.engine.set_every_edge(True)
    for _ in times:
        for key, every_edge in ((70, False), (71, True)):
            plain.machine.engine.set_every_edge(every_edge)
            assert go_to(plain, key) == go_to(brute, key)
            assert plain.machine.engine.instants == brute.machine.engine.instants
        assert form_differences(plain, brute) == ()
    plain.run()
    brute.run()
    assert digest(everything(plain)) == digest(everything(brute))


def test_brute_force_calls_at_more_instants() -> None:
    """The switch does something: a component that is late by a cycle would be seen."""
    calls = []
    for every_edge in (False, True):
        bench = prepared(60)
        bench.machine.engine.skipping = False
        bench.machine.engine.set_every_edge(every_edge)
        steps = 0
        while bench.machine.engine.step(1, True) or bench.machine.engine.unfinished_tasks:
            steps += 1
        calls.append(steps)
    assert calls[1] > 1.2 * calls[0]
