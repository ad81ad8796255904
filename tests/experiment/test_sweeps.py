"""Experiments of several points: schema, one campaign for all of them, claims across points."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosim import Experiment
from cosim.config.errors import ConfigErrors
from cosim.report.directory import metrics_json
from cosim.report.tables import plain_report

BASE = {
    "name": "skewed",
    "trace": {
        "zipf_markov": {
            "requests": 48,
            "positions": 2,
            "alpha": 1.1,
            "keep": 0.65,
            "draw": "successive",
            "seed": 1,
        },
        "profile": {"requests": "0-15"},
        "evaluate": {"requests": "16-47"},
    },
    "workload": {
        "model": "own-byte-moe",
        "mode": "decode",
        "batch_tokens": 16,
        "batches": 2,
        "layers": "0-1",
        "scope": "routed",
    },
    "system": "package-4x4",
    "policies": ["static", "hot_replication"],
    "rungs": ["analytic", "link"],
    "analytic": ["comoe"],
    "seeds": [1, 2],
    "sweeps": {
        "alpha": {"key": "trace.zipf_markov.alpha", "values": [0.0, 2.0], "policies": ["static"]},
    },
}

CLAIMS = """
schema: 1
paper: none
claims:
  - {id: rises, kind: trend, scope: routed, statement: s, source: t, published: decreasing,
     quantity: {y: bytes_weight(static), over: alpha}}
  - {id: compares, kind: order, scope: routed, statement: s, source: t,
     quantity: {lowest_first: ["bytes_weight(static, alpha=2.0)", "bytes_weight(static, alpha=1.1)"]}}
  - {id: recorded, kind: ratio, scope: routed, statement: s, source: t, published: {at_most: 1000}, unit: '1',
     quantity: "bytes_weight(static, point=sample) / bytes_weight(static)"}
  - {id: nowhere, kind: ratio, scope: routed, statement: s, source: t, published: 1, unit: '1',
     quantity: "bytes_weight(static, alpha=3.0) / bytes_weight(static)"}
  - {id: misspelt, kind: ratio, scope: routed, statement: s, source: t, published: 1, unit: '1',
     quantity: "bytes_weight(static, point=sampel) / bytes_weight(static)"}
"""

SAMPLE = {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}}


def experiment(claims: Path | None = None) -> Experiment:
    sweeps = {**BASE["sweeps"], "model": {"points": [{"name": "sample", "set": {"trace": SAMPLE}}]}}  # type: ignore[dict-item]
    return Experiment.load({**BASE, "sweeps": sweeps, **({} if claims is None else {"claims": str(claims)})})


def test_a_placement_that_does_not_fit_a_point_is_found_before_anything_runs() -> None:
    points = [{"name": "larger", "set": {"system": "near-memory-8x8"}}]
    placed = {"name": "placed", "params": {"file": "hda-moe-hybrid"}}
    changed = {"system": "near-memory-4x8", "policies": [placed], "sweeps": {"nodes": {"points": points}}}
    changed |= {"rungs": ["link"], "analytic": []}
    with pytest.raises(ConfigErrors, match="64 compute endpoints, as the system has, got 32"):
        Experiment.load({**BASE, **changed}).check()


def test_points_run_and_claims_reach_them(tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text(CLAIMS)
    loaded = experiment(file)
    assert [point.title for point in loaded.points] == ["alpha=0", "alpha=2", "model=sample"]
    assert len(loaded.units()) == 4 + 2 + 2 + 4
    report = loaded.validate(jobs=1)
    claims = {claim["id"]: claim for claim in report.claims}
    # the hotter the hottest, the fewer experts a batch touches
    assert claims["rises"]["verdict"] == "confirmed"
    assert "over 3 points" in claims["rises"]["reason"]
    assert claims["compares"]["verdict"] == "confirmed"
    assert claims["recorded"]["verdict"] == "confirmed"
    assert claims["nowhere"]["needs"] == ["a run with alpha = 3"]
    assert claims["misspelt"]["needs"] == ["a point sampel (did you mean 'sample'?)"]
    points = report.contents.points
    assert set(points[points["axis"] == "alpha"]["point"]) == {"0", "1.1", "2"}
    assert set(points[points["axis"] == "alpha"]["policy"]) == {"static"}
    base = points[(points["point"] == "1.1") & (points["metric"] == "layer_latency_mean") & (points["rung"] == "link")]
    alone = report.metrics
    alone = alone[(alone["policy"] == "static") & (alone["metric"] == "layer_latency_mean") & (alone["rung"] == "link")]
    assert base["value"].tolist() == alone["value"].tolist()
    assert "Sweep over alpha" in plain_report(report.contents)


def test_points_do_not_depend_on_processes(tmp_path: Path) -> None:
    one = experiment().validate(jobs=1)
    two = experiment().validate(jobs=2, units=tmp_path)
    assert metrics_json(one.metrics) == metrics_json(two.metrics)
    assert one.contents.points.equals(two.contents.points)
    again = experiment().validate(units=tmp_path)
    assert again.contents.points.equals(one.contents.points)


def test_a_resolved_experiment_has_the_same_points() -> None:
    loaded = experiment()
    from cosim.config.loader import parse_yaml

    again = Experiment.load(parse_yaml(loaded.resolved).data)
    assert again.resolved == loaded.resolved
    assert [point.resolved for point in again.points] == [point.resolved for point in loaded.points]


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ({"key": "trace.zipf_markov.alpha"}, "sweeps.a: expected the keys key and values together"),
        ({"values": [1]}, "sweeps.a: expected either the keys key and values, or points"),
        ({"key": "seeds", "values": [1]}, "a key that a point may change"),
        ({"points": [{"name": "x", "set": {"workload.batches": 3}}]}, "never workload.batches"),
        ({"points": [{"set": {"system": "package-4x4"}}]}, "expected one of the keys at and name, got neither"),
        ({"key": "trace.zipf_markov.alpha", "values": [1, 1]}, "each point once"),
        ({"key": "trace.zipf_markov.alpha", "values": [2], "policies": ["statics"]}, "did you mean 'static'"),
    ],
)
def test_wrong_sweeps_are_named(sweep: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigErrors, match=expected.replace("(", r"\(")):
        Experiment.load({**BASE, "sweeps": {"a": sweep}})


def test_errors_at_a_point_name_it() -> None:
    sweeps = {
        "a": {"key": "trace.zipf_markov.alhpa", "values": [1]},
        "b": {"key": "workload.batch_tokens", "values": [0]},
    }
    with pytest.raises(ConfigErrors) as found:
        Experiment.load({**BASE, "sweeps": sweeps}).check()
    assert "sweeps.a.1.trace.zipf_markov.alhpa" in str(found.value)
    assert "sweeps.b.0.workload.batch_tokens" in str(found.value)
    other = {"c": {"points": [{"name": "x", "set": {"policies": ["static"]}}]}}
    with pytest.raises(ConfigErrors, match=r"sweeps\.c\.x\.policies: expected policies of the base"):
        _ = Experiment.load({**BASE, "sweeps": other}).points
