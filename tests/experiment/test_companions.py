"""Several experiments that answer one set of claims together, and claims on components by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from cosim import Experiment
from cosim.cli import main as command
from cosim.config.errors import ConfigErrors
from cosim.noc import hotspot
from cosim.run.components import check_components, component_frames
from cosim.trace.step_series import step_series
from cosim.validate.claims import load_claims
from cosim.validate.verdicts import together

CLAIMS = """
schema: 1
paper: none
claims:
  - {id: own, kind: ratio, scope: routed, statement: s, source: t, published: 1, unit: '1', experiment: first,
     quantity: layer_latency_mean(static) / layer_latency_mean(static)}
  - {id: theirs, kind: ratio, scope: routed, statement: s, source: t, published: 1, unit: '1', experiment: second,
     quantity: bytes_dispatch(hot_replication) / bytes_dispatch(hot_replication)}
  - {id: any, kind: ratio, scope: routed, statement: s, source: t, published: 1, unit: '1',
     quantity: bytes_weight(hot_replication) / bytes_weight(hot_replication)}
  - {id: none, kind: ratio, scope: routed, statement: s, source: t, published: 1, unit: '1', experiment: third,
     quantity: bytes_weight(static) / bytes_weight(static)}
  - {id: sessions, kind: order, scope: network, statement: s, source: t,
     quantity: {lowest_first: ["hotspot_completion_cycles(cmn, helpers=3, tile_bytes=2048)",
                               "hotspot_completion_cycles(unicast, helpers=3, tile_bytes=2048)"]}}
  - {id: share, kind: value, scope: network, statement: s, source: t, published: {at_most: 50}, unit: '%',
     quantity: "hotspot_router_share(unicast, helpers=3, tile_bytes=2048)"}
  - {id: grows, kind: trend, scope: network, statement: s, source: t, published: increasing,
     quantity: {y: "hotspot_completion_cycles(unicast, tile_bytes=2048, packet_flits=4)", over: helpers}}
  - {id: several, kind: value, scope: network, statement: s, source: t, published: 1, unit: '1',
     quantity: "hotspot_completion_cycles(unicast, helpers=3)"}
  - {id: misspelt, kind: value, scope: network, statement: s, source: t, published: 1, unit: '1',
     quantity: "hotspot_completion_cycles(cnm, helpers=3, tile_bytes=2048)"}
  - {id: tested, kind: order, scope: trace, statement: s, source: t,
     quantity: {highest_first: ["complementarity_flagged_share(recorded)", "complementarity_flagged_share(shuffled)"]}}
  - {id: skewed, kind: order, scope: trace, statement: s, source: t,
     quantity: {highest_first: ["loads_skew(recorded)", "loads_skew(uniform)"]}}
  - {id: mapped, kind: order, scope: network, statement: s, source: t,
     quantity: {lowest_first: ["grouping_collaboration_hops(grouped)", "grouping_collaboration_hops(in_order)"]}}
"""

SAMPLE = {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}}


def files(tmp_path: Path, **changes: Any) -> Path:
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    base: dict[str, Any] = {
        "trace": SAMPLE,
        "workload": {
            "model": "own-byte-moe",
            "mode": "decode",
            "batch_tokens": 8,
            "batches": 1,
            "layers": "0",
            "scope": "routed",
        },
        "system": "package-4x4",
        "rungs": ["link"],
        "claims": "./claims.yaml",
        "seeds": [1, 2],
    }
    components = {
        "hotspot": {"file": "noc-hotspot"},
        "complementarity": {"layers": "0", "permutations": 19, "shuffles": 1},
        "loads": {"layers": "0"},
    }
    first = {**base, "policies": ["static"], "companions": ["./second.yaml"], "components": components, **changes}
    (tmp_path / "first.yaml").write_text(yaml.safe_dump(first))
    (tmp_path / "second.yaml").write_text(yaml.safe_dump({**base, "policies": ["static", "hot_replication"]}))
    return tmp_path / "first.yaml"


def test_companions_and_components_answer_the_claims_together(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = CliRunner().invoke(command, ["validate", str(files(tmp_path)), "--out", str(out)])
    assert found.exit_code == 0, found.output
    assert "Companion second" in found.output
    claims = {claim["id"]: claim for claim in json.loads((out / "claims.json").read_text())["claims"]}
    assert [claims[name]["verdict"] for name in ("own", "theirs", "any", "none")] == [
        "confirmed",
        "confirmed",
        "confirmed",
        "not_testable",
    ]
    assert claims["none"]["needs"] == ["the experiment third"]
    measured = hotspot.run(*hotspot.load("noc-hotspot")).frame
    here = measured[(measured["helpers"] == 3) & (measured["tile_bytes"] == 2048)].set_index("scheme")
    assert claims["sessions"]["verdict"] == "confirmed"
    assert "holds, exactly" in claims["sessions"]["reason"]
    share = claims["share"]["rungs"]["link"]
    assert share["value"] == share["ci_low"] == share["ci_high"] == 100 * here["router_share"]["unicast"]
    assert claims["share"]["verdict"] == ("confirmed" if share["value"] <= 55 else "refuted")
    assert claims["grows"]["verdict"] == "confirmed"
    assert "differ in tile_bytes" in claims["several"]["needs"][0]
    assert claims["misspelt"]["needs"] == ["hotspot of cnm (did you mean 'cmn'?)"]
    assert claims["tested"]["verdict"] in ("confirmed", "refuted")
    assert claims["skewed"]["verdict"] == "confirmed"
    assert claims["mapped"]["verdict"] == "not_testable"
    # a companion keeps a directory of its own, with what it answered by itself
    alone = json.loads((out / "companions" / "second" / "claims.json").read_text())["claims"]
    assert {claim["id"]: claim["verdict"] for claim in alone}["own"] == "not_testable"
    assert (out / "companions" / "second" / "report.html").is_file()


def test_groupings_are_judged_on_other_steps_than_they_are_made_on(tmp_path: Path) -> None:
    components = {"grouping": {"layers": "3", "restarts": 0}}
    changes = {"system": "3d-moe-device", "components": components, "companions": []}
    experiment = Experiment.load(str(files(tmp_path, **changes)))
    check_components(experiment.spec, experiment.setup)
    frame = component_frames(experiment.spec, experiment.setup)["grouping"].set_index("subject")
    trace = experiment.setup.trace
    later = step_series(trace.take(np.sort(experiment.setup.parts.evaluate)), 64, at_least=1, why="a test").counts(3)
    groups = np.repeat(np.arange(4), 16)
    by_block = np.stack([later[:, groups == group].sum(axis=1) for group in range(4)], axis=1)
    assert frame["max_over_mean"]["blocks"] == pytest.approx((by_block.max(axis=1) / by_block.mean(axis=1)).mean())
    over = [
        np.maximum(step - step[groups == group].mean(), 0)[groups == group].sum()
        for step in later
        for group in range(4)
    ]
    assert frame["collaboration"]["blocks"] == pytest.approx(sum(over) / (64 * len(later)))
    assert frame["max_over_mean"]["grouped"] < frame["max_over_mean"]["blocks"]
    assert frame["collaboration_hops"]["grouped"] < frame["collaboration_hops"]["in_order"]


def test_points_of_a_sweep_have_neither(tmp_path: Path) -> None:
    sweeps = {"tokens": {"key": "workload.batch_tokens", "values": [4]}}
    experiment = Experiment.load(str(files(tmp_path, sweeps=sweeps)))
    experiment.check()
    assert [point.setup.spec.companions for point in experiment.points] == [()]


def test_the_resolved_experiment_runs_again_with_its_companions(tmp_path: Path) -> None:
    experiment = Experiment.load(str(files(tmp_path)))
    again = tmp_path / "elsewhere" / "again.yaml"
    again.parent.mkdir()
    again.write_text(experiment.resolved)
    assert [item.name for item in Experiment.load(str(again)).companions] == ["second"]
    assert len(experiment.units()) == 2 + 4
    assert experiment.estimate().seconds > max(item.estimate().seconds for item in experiment.companions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"companions": ["./third.yaml"]}, "third.yaml"),
        ({"companions": ["quickstart"]}, "an experiment with claims"),
        ({"companions": ["./second.yaml", "./second.yaml"]}, "each of them once"),
        ({"claims": None, "components": None}, "the key 'claims', which companions answer together"),
        ({"claims": None, "companions": []}, "the key 'claims', which alone reads them"),
        ({"components": {"hotspot": {"file": "noc-hotpot"}}}, "noc-hotspot"),
        ({"components": {"complementarity": {"layers": "0-99"}}}, "layers of the trace"),
        ({"components": {"complementarity": {"permutations": 9}}}, "permutations"),
        ({"components": {"loads": {"layers": "0-99"}}}, "layers of the trace"),
        ({"components": {"loads": {"batch_tokens": 4096}}}, "4096"),
        ({"components": {"grouping": {}}}, "a number of groups"),  # cores in one network
        ({"components": {"hotspots": {}}}, "hotspot"),
    ],
)
def test_wrong_companions_and_components(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    file = files(tmp_path, **changes)
    if None in changes.values():
        data = {key: value for key, value in yaml.safe_load(file.read_text()).items() if value is not None}
        file.write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigErrors, match=message):
        Experiment.load(str(file)).check()


def test_one_claim_speaks_of_runs_or_of_components(tmp_path: Path) -> None:
    file = tmp_path / "mixed.yaml"
    file.write_text(
        "schema: 1\npaper: none\nclaims:\n  - {id: a, kind: value, scope: network, statement: s, source: t,\n"
        "     published: 1, unit: '1', quantity: 'balance(static) * hotspot_over_ideal(cmn)'}\n"
    )
    with pytest.raises(ConfigErrors, match="metrics of runs, or of components, alone"):
        load_claims(str(file))


def test_a_claim_is_answered_by_the_experiment_it_names_or_by_the_first_verdict(tmp_path: Path) -> None:
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    claims = load_claims(str(tmp_path / "claims.yaml"))

    def entries(name: str, tested: set[str]) -> list[dict[str, Any]]:
        return [
            {"id": claim.id, "by": name, "verdict": "refuted" if claim.id in tested else "not_testable"}
            for claim in claims.claims
        ]

    judged = [("first", entries("first", {"own"})), ("second", entries("second", {"own", "any", "share"}))]
    answered = {entry["id"]: entry["by"] for entry in together(claims, judged)}
    assert (answered["own"], answered["theirs"], answered["any"], answered["none"]) == (
        "first",
        "second",
        "second",
        "first",
    )
    assert (answered["share"], answered["several"]) == ("second", "first")
