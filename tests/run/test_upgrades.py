"""Next versions of experts while tokens are in flight: none reads a half-written or wrong one, at any rung."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from cosim import Experiment
from cosim.config.errors import ConfigErrors
from cosim.policy.residency import Residency
from cosim.policy.weight_store import ConsistencyError
from cosim.run.checkpoint import load_state, record_from_json, record_to_json, save_state
from cosim.run.loop import RunLoop
from cosim.run.unit import UnitKey, run_unit, unit_loop

EXPERT_BYTES = 49152  # of own-byte-moe
POLICIES = "[popularity_prefetch, {name: hot_replication, params: {window_batches: 1, replica_budget: 2.0}}]"
FAULTS = "{upgrade: 1.0, rollback: 0.5, seed: 5}"
ALL = "{prefetch: 0.1, interruption: 0.15, checksum: 0.15, upgrade: 1.0, rollback: 0.5, seed: 5}"


def experiment(faults: str | None = FAULTS, *more: str) -> Experiment:
    given = [] if faults is None else [f"faults={faults}"]
    small = ["workload.batches=6", "workload.layers=0-1", "workload.batch_tokens=12"]
    face = ["rungs=[link, flit]", "analytic=[]", "claims=null", "seeds=[1]", f"policies={POLICIES}"]
    return Experiment.load("quickstart", [*small, *face, *given, *more])


def steps(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    upgrades = frame[frame["incident"].str.startswith("upgrade_")]
    return list(upgrades[["batch", "layer", "expert", "incident", "version"]].itertuples(index=False, name=None))


@pytest.mark.parametrize(("policy", "rung"), [("popularity_prefetch", "link"), ("hot_replication", "flit")])
def test_tokens_in_flight_end_on_what_they_began_with(policy: str, rung: str) -> None:
    sound, run = experiment(None).run(policy, rung), experiment().run(policy, rung)
    pairs = ["batch", "layer", "expert", "source", "tokens"]
    mine, theirs = (one.groups[pairs].sort_values(pairs).reset_index(drop=True) for one in (sound, run))
    assert mine.equals(theirs)
    assert sound.incidents.empty
    assert "checked_reads" not in sound.figures[1]
    assert run.figures[1]["checked_reads"] > 0
    counts = run.incidents["incident"].value_counts()
    assert counts["upgrade_published"] > 3
    assert counts["upgrade_rolled_back"] > 0
    assert counts["upgrade_confirmed"] > 0
    swaps = run.incidents[run.incidents["incident"].isin(["upgrade_published", "upgrade_rolled_back"])]
    assert swaps["groups_in_flight"].max() > 0
    assert (swaps["tokens_in_flight"] >= swaps["groups_in_flight"]).all()
    # each replica's next version was written into its banks, once
    staged = run.incidents[run.incidents["incident"] == "upgrade_staged"]["replicas"].sum()
    copied = int(run.layers["bytes_migration"].sum())
    assert run.figures[1]["dram_written_bytes"] >= staged * EXPERT_BYTES + copied
    assert 0 < run.layers["bytes_upgrade"].sum() <= staged * EXPERT_BYTES


def test_versions_go_up_and_back() -> None:
    version: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], str] = {}
    after = {"upgrade_staged": None, "upgrade_dropped": "staged", "upgrade_published": "staged"}
    after |= {"upgrade_confirmed": "published", "upgrade_rolled_back": "published"}
    frame = experiment(ALL).run("hot_replication", "flit").incidents
    assert {"upgrade_dropped", "write_interrupted", "copy_harmed", "copy_interrupted"} <= set(frame["incident"])
    for _, layer, expert, incident, now in steps(frame):
        key = (layer, expert)
        assert after[incident] is None or last[key] == f"upgrade_{after[incident]}"
        last[key] = incident
        version[key] = version.get(key, 0) + {"upgrade_published": 1, "upgrade_rolled_back": -1}.get(incident, 0)
        assert now == version[key]


@pytest.mark.parametrize(
    ("policy", "by", "at"), [("popularity_prefetch", "link", "flit"), ("hot_replication", "flit", "link")]
)
def test_a_replay_takes_the_same_steps_and_waits_for_what_is_not_written(policy: str, by: str, at: str) -> None:
    setup = experiment(ALL).setup
    own = run_unit(setup, UnitKey(policy, by, 1))
    kept = record_from_json(json.loads(json.dumps(record_to_json(own.record))))
    assert kept.same_as(own.record)
    replay = run_unit(setup, UnitKey(policy, at, 1, replay=True), kept)
    assert steps(replay.frames["incidents"]) == steps(own.frames["incidents"])
    assert replay.record.same_as(own.record)
    served = ["batch", "layer", "expert", "source", "replica"]
    mine, theirs = (unit.frames["groups"][served].sort_values(served).reset_index(drop=True) for unit in (own, replay))
    assert mine.equals(theirs)
    only = frozenset({(2, 1), (4, 0)})
    some = run_unit(setup, UnitKey(policy, at, 1), kept, only=only)
    assert len(some.frames["layers"]) == 2
    assert steps(some.frames["incidents"]) == steps(own.frames["incidents"])


def test_an_interrupted_run_goes_on_in_the_middle_of_an_upgrade() -> None:
    setup, key = experiment(ALL).setup, UnitKey("hot_replication", "flit", 1)
    whole = run_unit(setup, key)
    states: list[bytes] = []

    def keep(running: RunLoop) -> None:
        states.append(save_state(running))

    loop = unit_loop(setup, key)
    loop.between_layers = keep
    loop.run()
    assert len(states) == 12
    for state in states[4:8:3]:
        resumed = run_unit(setup, key, prepare=lambda loop, state=state: load_state(loop, state))
        assert resumed.figures == whole.figures
        assert all(resumed.frames[name].equals(whole.frames[name]) for name in whole.frames)


def test_the_checker_sees_a_version_that_is_published_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(residency: Residency, layer: int, expert: int) -> str:
        """As if nobody waited for the last byte."""
        return ""

    monkeypatch.setattr(Residency, "staged_problem", at_once)
    slow = experiment("{upgrade: 1.0, interruption: 1.0}")
    with pytest.raises(ConsistencyError, match="it is half written"):
        slow.run("popularity_prefetch", "link")


@pytest.mark.parametrize(
    ("faults", "path"),
    [
        ("{rollback: 0.5}", "rollback"),
        ("{trial_batches: 2}", "trial_batches"),
        ("{upgrade: 1.5}", "upgrade"),
        ("{upgrades: 0.5}", "upgrades"),
    ],
)
def test_what_no_upgrade_reads_is_refused(faults: str, path: str) -> None:
    with pytest.raises(ConfigErrors, match=path):
        experiment(faults)
