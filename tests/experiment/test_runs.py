"""The main job: closed loop, replay, sampling, resume, whatever the process count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosim import Experiment
from cosim.config.errors import ConfigErrors
from cosim.report.directory import claims_json, metrics_json
from cosim.run.checkpoint import load_state, save_state
from cosim.run.loop import RunLoop
from cosim.run.unit import UnitKey, UnitResult, run_unit
from cosim.validate.sampling import stratified_sample
from cosim.validate.statistics import ratio_estimate

SMALL = ["seeds=[1, 2]", "workload.batches=2", "workload.layers=0-2", "policies=[static, popularity_prefetch]"]


def test_validation_is_the_same_for_any_process_count_and_resolved_file(tmp_path: Path) -> None:
    first = Experiment.load("quickstart", SMALL)
    alone = first.validate(jobs=1)
    resolved = tmp_path / "again.yaml"
    resolved.write_text(first.resolved)
    both = Experiment.load(resolved).validate(jobs=2)
    assert metrics_json(alone.metrics) == metrics_json(both.metrics)
    assert claims_json(alone.claims) == claims_json(both.claims)
    pd.testing.assert_frame_equal(alone.layers, both.layers)
    assert set(alone.metrics["rung"]) == {"analytic", "analytic:hcrmap", "link", "flit"}
    page = alone.to_html(tmp_path / "out" / "report.html").read_text()
    assert "popularity_prefetch" in page


def test_finished_units_are_kept_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cosim.run.campaign as campaign

    experiment = Experiment.load("quickstart", [*SMALL, "rungs=[link]", "analytic=[]", "policies=[static]"])
    ran: list[UnitKey] = []
    interrupt = [True]

    def counted(setup: object, key: UnitKey, *rest: object, **named: object) -> UnitResult:
        if len(ran) == 1 and interrupt[0]:
            raise KeyboardInterrupt
        ran.append(key)
        return run_unit(setup, key, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(campaign, "run_unit", counted)
    with pytest.raises(KeyboardInterrupt):
        experiment.validate(units=tmp_path)
    interrupt[0] = False
    resumed = experiment.validate(units=tmp_path)
    assert len(ran) == 2
    assert metrics_json(resumed.metrics) == metrics_json(experiment.validate().metrics)


POLICY = """
from fractions import Fraction
import numpy as np
from cosim.policy.hot_replication import HotReplication

class Pressed(HotReplication):
    name = "pressed"
    decision_cost = {"assign": Fraction(30, 10**9), "on_routed": Fraction(5, 10**9)}

    def assign(self, groups, directory, pressure):
        rows = directory.rows
        chosen = []
        for group in groups:
            options = directory.of(int(group["layer"]), int(group["expert"]))
            chosen.append(min(options, key=lambda row: (pressure.bank[rows["memory"][row]], row)))
        return np.array(chosen, dtype=np.int32)
"""


def pressed(tmp_path: Path, *more: str) -> Experiment:
    file = tmp_path / "pressed.py"
    file.write_text(POLICY)
    policy = f'policies=[{{name: "{file}:Pressed", label: pressed, params: {{window_batches: 1}}}}]'
    layers = ["seeds=[1]", "workload.batches=3", "workload.layers=0-2", policy, "rungs=[link, flit]", "analytic=[]"]
    return Experiment.load("quickstart", [*layers, *more])


def test_rungs_that_decide_otherwise_are_replayed_under_the_top_rungs_decisions(tmp_path: Path) -> None:
    experiment = pressed(tmp_path)
    report = experiment.validate()
    rows = report.metrics.set_index(["rung", "metric"])
    assert ("link", "closed_loop_latency_mean") in rows.index
    assert "replayed" in report.contents.info.laws[1].detail
    own = experiment.run("pressed", "link")
    closed = float(rows.loc[("link", "closed_loop_latency_mean"), "value"])
    assert closed == pytest.approx(own.layers["total_fs"].mean() / 1e6)
    flit = experiment.run("pressed", "flit")
    replayed = run_unit(experiment.setup, UnitKey("pressed", "link", 1, replay=True), flit.decisions[1])
    assert replayed.record.same_as(flit.decisions[1])
    assert not own.decisions[1].same_as(flit.decisions[1])
    stages = [name for name in replayed.frames["groups"].columns if name.endswith("_fs") and name != "total_fs"]
    groups = replayed.frames["groups"]
    assert (groups[stages].sum(axis=1) == groups["total_fs"]).all()
    assert (groups["publish_wait_fs"] >= 0).all()


def test_declared_decision_cost_is_charged(tmp_path: Path) -> None:
    layers = pressed(tmp_path).run("pressed", "flit").layers
    assert (layers["gate_fs"] == 35_000_000).all()


def test_copies_are_real_traffic(tmp_path: Path) -> None:
    run = pressed(tmp_path).run("pressed", "flit")
    figures = run.figures[1]
    assert figures["dram_written_bytes"] > 0
    assert figures["dram_written_bytes"] % 49152 == 0
    moved = run.layers[["bytes_weight", "bytes_prefetch", "bytes_migration"]].sum().sum()
    assert figures["dram_read_bytes"] >= moved
    assert any(len(actions) for actions in run.decisions[1].windows.values())


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_bytes_over_links_are_those_of_the_links(rung: str) -> None:
    run = Experiment.load("quickstart", [*SMALL, "seeds=[1]"]).run("static", rung)
    assert run.layers["bytes_over_links"].sum() == run.links["bytes"].sum() > 0
    classes = run.layers[["bytes_dispatch", "bytes_gather", "bytes_weight"]].sum(axis=1)
    assert (run.layers["bytes_over_links"] > classes / 2).all()
    assert "bytes_read_memory" not in run.layers  # one kind of memory has nothing to be told apart from


def test_reads_of_several_kinds_of_memory_are_told_apart() -> None:
    options = [
        "workload.layers=0",
        "workload.batches=1",
        "workload.batch_tokens=32",
        "system.endpoints.chiplet.tile=1 MiB",
    ]
    run = Experiment.load("hcrmap", [*options, "sampling=none", "sweeps={}", "components=null"]).run("hcrmap", "link")
    reads = {name: int(run.layers[f"bytes_read_{name}"].sum()) for name in ("sram", "hbm", "dram")}
    assert sum(reads.values()) == run.figures[1]["dram_read_bytes"]
    assert reads["hbm"] > 0
    assert reads["dram"] > 0
    assert run.layers["bytes_weight"].sum() <= sum(reads.values())


def test_prefetch_is_used_or_counted_as_wasted() -> None:
    run = Experiment.load("quickstart", SMALL).run("popularity_prefetch", "flit")
    for seed, figures in run.figures.items():
        groups = run.groups[run.groups["seed"] == seed].drop_duplicates(["batch", "layer", "replica"])
        taken = (49152 * groups["resident_fraction"]).sum()
        assert taken > 0
        weights = run.layers[run.layers["seed"] == seed]["bytes_weight"].sum()
        # every byte read is used by a demand or wasted by a withdrawn prefetch
        assert figures["dram_read_bytes"] == weights + taken + figures["wasted_prefetch_bytes"]


def test_a_policy_that_breaks_the_rules_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    head = "import numpy as np\nfrom cosim.policy.static import Static\nclass Wrong(Static):\n    name = 'wrong'\n"
    for body, message in (
        ("return np.zeros(len(groups), dtype=np.int32)", "needs expert"),
        ("return np.full(len(groups), 10**6, dtype=np.int32)", "rows of the directory"),
        ("return [0]", "one directory row per group"),
    ):
        file.write_text(f"{head}    def assign(self, groups, directory, pressure):\n        {body}\n")
        experiment = Experiment.load("quickstart", [*SMALL, f'policies=["{file}:Wrong"]'])
        with pytest.raises(RuntimeError, match=message):
            experiment.run(experiment.spec.policies[0].title, "link")


def test_sampled_rungs_stand_for_the_whole() -> None:
    whole = Experiment.load("quickstart", SMALL).validate()
    sampled = Experiment.load("quickstart", [*SMALL, "sampling={fraction: 0.5, seed: 4}"]).validate()
    flit = sampled.layers[sampled.layers["rung"] == "flit"]
    assert len(flit) == len(whole.layers[whole.layers["rung"] == "flit"]) // 2
    link = [report.layers[report.layers["rung"] == "link"].reset_index(drop=True) for report in (whole, sampled)]
    pd.testing.assert_frame_equal(*link)
    for policy in ("static", "popularity_prefetch"):
        mean = [_mean(report.metrics, policy) for report in (whole, sampled)]
        assert mean[1] == pytest.approx(mean[0], rel=0.05)
    with pytest.raises(ConfigErrors, match="the rung 'link'"):
        Experiment.load("quickstart", ["sampling={fraction: 0.5}", "rungs=[flit]", "analytic=[]"])


def _mean(metrics: pd.DataFrame, policy: str) -> float:
    row = metrics[
        (metrics["policy"] == policy) & (metrics["rung"] == "flit") & (metrics["metric"] == "layer_latency_mean")
    ]
    return float(row["value"].iloc[0])


def test_the_sampled_interval_covers_the_full_total_in_ninety_of_a_hundred() -> None:
    experiment = Experiment.load("quickstart", ["seeds=[1]", "workload.batches=8", "workload.layers=0-3"])
    link = experiment.run("static", "link").layers
    flit = experiment.run("static", "flit").layers
    cheap, exact = (frame["total_fs"].to_numpy(dtype=np.float64) for frame in (link, flit))
    inside = 0
    for seed in range(100):
        mask = stratified_sample(link, 0.5, seed)
        found = ratio_estimate(cheap, cheap[mask], exact[mask])
        assert found.low is not None
        assert found.high is not None
        inside += bool(found.low <= exact.sum() <= found.high)
    assert inside >= 90


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_a_run_goes_on_from_any_saved_state_to_the_same_bytes(tmp_path: Path, rung: str) -> None:
    file = tmp_path / "both.py"
    file.write_text(
        POLICY.replace("Pressed(HotReplication)", "Both(HotReplication)")
        + "\n    def on_routed(self, event):\n"
        + "        from cosim.policy import Prefetch\n"
        + "        if event.next_layer < 0:\n            return ()\n"
        + "        row = event.directory.of(event.next_layer, 7)[0]\n"
        + "        return (Prefetch(event.next_layer, 7, int(event.directory.rows['chiplet'][row])),)\n"
    )
    policy = f'policies=[{{name: "{file}:Both", label: both, params: {{window_batches: 1}}}}]'
    options = ["seeds=[1]", "workload.batches=3", "workload.layers=0-2", policy, "rungs=[link, flit]", "analytic=[]"]
    setup = Experiment.load("quickstart", options).setup
    key = UnitKey("both", rung, 1)
    states: list[bytes] = []

    def keep(loop: RunLoop) -> None:
        loop.between_layers = lambda running: states.append(save_state(running))

    whole = run_unit(setup, key, prepare=keep)
    assert len(states) == 9
    for state in states[1::3]:
        resumed = run_unit(setup, key, prepare=lambda loop, state=state: load_state(loop, state))  # type: ignore[misc]
        assert resumed.figures == whole.figures
        assert resumed.record.same_as(whole.record)
        for name, frame in whole.frames.items():
            pd.testing.assert_frame_equal(resumed.frames[name], frame)


def interrupted(units: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A validation of one unit that was ended in its sixth layer, with a state saved after every layer."""
    import cosim.run.store as store

    monkeypatch.setattr(store, "_SECONDS_BETWEEN_STATES", 0.0)
    experiment = Experiment.load(
        "quickstart", ["seeds=[1]", "workload.batches=2", "rungs=[link]", "analytic=[]", "policies=[static]"]
    )
    seen: list[float] = []

    def stop(done: float, total: float, note: str) -> None:
        seen.append(done)
        if len(seen) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.validate(units=units, progress=stop)
    return experiment


def test_a_killed_unit_is_taken_up_where_its_last_state_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = interrupted(tmp_path, monkeypatch)
    assert [path.suffix for path in tmp_path.iterdir()] == [".state"]
    done: list[float] = []
    resumed = experiment.validate(units=tmp_path, progress=lambda now, total, note: done.append(now))
    assert len(done) < 16  # not the sixteen layers again
    assert metrics_json(resumed.metrics) == metrics_json(experiment.validate().metrics)
    assert [path.suffix for path in tmp_path.iterdir()] == [""]


@pytest.mark.parametrize("spoilt", ["garbage", "another version's"])
def test_a_state_of_no_use_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str) -> None:
    import cosim.run.checkpoint as checkpoint

    experiment = interrupted(tmp_path, monkeypatch)
    (state,) = tmp_path.glob("*.state")
    if spoilt == "garbage":
        state.write_bytes(b"not a state")
    else:
        monkeypatch.setattr(checkpoint, "_SCHEMA", checkpoint._SCHEMA + 1)
    again = experiment.validate(units=tmp_path)
    assert metrics_json(again.metrics) == metrics_json(experiment.validate().metrics)


@pytest.mark.parametrize("sampling", ["none", "{fraction: 0.5, seed: 4}"])
def test_progress_ends_when_the_last_replay_does(sampling: str) -> None:
    seen: list[tuple[float, float, str]] = []
    experiment = Experiment.load("quickstart", [*SMALL, f"sampling={sampling}"])
    experiment.validate(jobs=1, progress=lambda done, total, note: seen.append((done, total, note)))
    shares = [done / total for done, total, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert shares.index(1) >= len(shares) - 2  # its last layer, and the unit
