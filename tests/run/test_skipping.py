"""Exact skipping: the same results for less work, whatever the system, and a word where it could not be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from mixed_run import digest, everything, mixed_bench, submit_mixed
from skipping_cases import compare, differences, run
from small_system import NS, Bench

from cosim import Experiment
from cosim._core import TaskKind
from cosim.run.machine import RUNG_KNOBS
from cosim.run.skipping import SkipReport, skip_sentence
from cosim.run.summary import run_summary
from cosim.run.unit import FRAME_NAMES


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_on_and_off_agree_on_random_systems(rung: str) -> None:
    outcomes = [compare(seed, rung) for seed in range(100, 108)]
    assert {outcome.seed: outcome.differences for outcome in outcomes if outcome.differences} == {}
    assert sum(outcome.periods > 0 for outcome in outcomes) >= 2


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_everything_at_once(rung: str) -> None:
    """Too short to repeat itself, with every kind of task and refresh on top."""
    found = []
    for skipping in (True, False):
        bench = mixed_bench(rung)
        bench.machine.engine.skipping = skipping
        submit_mixed(bench)
        bench.run()
        found.append((digest(everything(bench)), bench))
    assert found[0][0] == found[1][0]
    assert differences(found[0][1], found[1][1]) == ()


def stream(skipping: bool, tiles: int, token_fs: int = -1, rung: str = "flit+rate") -> Bench:
    """One long stream; a token that becomes ready at an instant of its own."""
    bench = Bench.of(rung, memory={"refresh": "none"})
    bench.machine.engine.skipping = skipping
    fetch = bench.fetch(0, 2, tiles * 256)
    bench.compute(2, 7 * tiles + 3, stream=fetch)
    if token_fs >= 0:
        wait = bench.delay(token_fs)
        bench.transfer(1, 3, 700, after=[wait])
    bench.run()
    return bench


def test_a_long_stream_is_mostly_skipped() -> None:
    bench = stream(True, 20_000)
    report = bench.machine.engine.skip_report()
    assert report["instants"] > 0.95 * bench.machine.engine.instants
    assert report["found"] <= 3
    assert differences(bench, stream(False, 20_000)) == ()


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_an_arrival_on_any_edge(rung: str) -> None:
    """An event at, just before and just after the end of a period: the jump must stop in front of it."""
    on = stream(True, 600, rung=rung)
    end = on.machine.now_fs
    for token_fs in range(end // 2, end // 2 + 300 * NS, 37 * NS):
        assert differences(stream(True, 600, token_fs, rung), stream(False, 600, token_fs, rung)) == ()


def test_off_skips_nothing() -> None:
    bench = stream(False, 2000)
    report = SkipReport.of(bench.machine)
    assert (report.periods, report.skipped_fs, report.skipped_instants) == (0, 0, 0)
    assert skip_sentence([report]) == "skipping is off"


def test_the_run_says_what_it_skipped() -> None:
    report = SkipReport.of(stream(True, 2000).machine)
    assert 0 < report.skipped_fs < report.simulated_fs
    sentence = skip_sentence([report])
    assert sentence.startswith(f"{report.periods:,} periods skipped, ")
    assert f"of {report.simulated_instants:,} instants" in sentence


def test_the_run_says_why_it_could_not() -> None:
    bench = Bench.of("flit+rate", level={"routing": "min_adaptive", "num_vcs": 6})
    fetch = bench.fetch(0, 2, 500 * 256)
    bench.compute(2, 500, stream=fetch)
    bench.run()
    report = SkipReport.of(bench.machine)
    assert report.periods == 0
    assert "a routing function" in skip_sentence([report])


def test_a_jump_can_be_saved_and_gone_on_from() -> None:
    """A decision in the middle of a skipped stream: what was saved there goes on to the same end, on or off."""

    def begun(skipping: bool) -> Bench:
        bench = Bench.of("flit")
        bench.machine.engine.skipping = skipping
        fetch = bench.fetch(0, 2, 4000 * 256)
        bench.compute(2, 4000, stream=fetch)
        wait = bench.delay(40_000 * NS)
        bench.add(TaskKind.decision, after=[wait])
        bench.submit()
        return bench

    whole = begun(True)
    assert whole.machine.engine.run()[0] == "decision"
    assert whole.machine.engine.skip_report()["periods"] > 0
    saved = whole.machine.engine.save()
    forms = []
    for skipping in (True, False):
        other = Bench.of("flit")
        other.machine.engine.skipping = skipping
        other.machine.engine.load(saved)
        other.run()
        forms.append(other.machine.engine.form())
    whole.run()
    for form in forms:
        assert form[0] == whole.machine.engine.form()[0]
        assert np.array_equal(form[1], whole.machine.engine.form()[1])
        assert np.array_equal(form[2], whole.machine.engine.form()[2])


def test_an_experiment_gives_the_same_with_skipping_on_and_off() -> None:
    settings = ["workload.batches=1", "workload.layers=[0]", "seeds=[1]"]
    for rung in ("link", "flit+rate"):
        on, off = (
            Experiment.load("quickstart", [*settings, f"skipping={way}"]).run("static", rung) for way in ("on", "off")
        )
        assert on.figures == off.figures
        for name in FRAME_NAMES:
            pd.testing.assert_frame_equal(getattr(on, name), getattr(off, name))
        assert off.skipped[1].periods == 0
        assert on.skipped[1].on
        assert "skipping is off" in run_summary(off)
        assert "skipping is off" not in run_summary(on)


@pytest.mark.parametrize(("part", "seed"), [("inbox", 1002), ("phase", 1000)])
def test_skipping_by_a_form_that_lacks_a_part_is_caught(part: str, seed: int) -> None:
    """States that differ in nothing else do occur: messages on their way, and where in a cycle of the other clock."""
    off = run(seed, False, "flit+rate")
    try:
        on = run(seed, True, "flit+rate", part)
    except (ValueError, RuntimeError):
        return  # a packet of the past, or nothing can move
    on.machine.engine.leave_out("nothing")
    assert differences(on, off)
