"""Metrics of a run: figures by hand, errors that add up, and the same bytes for the same input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from made_samples import layers

from cosim.analytic import read_table
from cosim.config.errors import ConfigErrors
from cosim.report.contents import METRICS, canonical
from cosim.report.directory import claims_json, metrics_json
from cosim.validate.claims import load_claims
from cosim.validate.compare import layer_balance, metrics_frame
from cosim.validate.samples import Samples
from cosim.validate.verdicts import RunScope, judge

LADDER = {
    ("a", "flit"): 100.0,
    ("b", "flit"): 80.0,
    ("a", "link"): 90.0,
    ("b", "link"): 95.0,
    ("a", "link+command"): 94.0,
    ("b", "link+command"): 85.0,
    ("a", "flit+rate"): 97.0,
    ("b", "flit+rate"): 84.0,
    ("a", "analytic"): 50.0,
    ("b", "analytic"): 40.0,
}
RUNGS = ["analytic", "link", "link+command", "flit+rate", "flit"]
FRAME = layers(LADDER, noise=0.0)


def metric(frame: pd.DataFrame, policy: str, rung: str, name: str) -> float:
    rows = frame[(frame["policy"] == policy) & (frame["rung"] == rung) & (frame["metric"] == name)]
    assert len(rows) == 1, (policy, rung, name)
    return float(rows["value"].iloc[0])


def test_figures_by_hand() -> None:
    frame = metrics_frame(Samples(FRAME), ["a", "b"], RUNGS)
    assert metric(frame, "a", "flit", "layer_latency_mean") == pytest.approx(100.0)
    assert metric(frame, "a", "flit", "layer_latency_p50") == pytest.approx(100.0)
    assert np.isnan(metric(frame, "a", "flit", "layer_latency_p95"))
    assert metric(frame, "b", "link", "bytes_weight") == 95_000.0
    assert metric(frame, "a", "link", "error_against_flit") == pytest.approx(-0.1)
    assert metric(frame, "b", "link", "error_against_flit") == pytest.approx(15 / 80)
    assert metric(frame, "a", "analytic", "error_abs_against_flit") == pytest.approx(0.5)
    # memory is three quarters of the total.
    assert metric(frame, "a", "link", "stage_memory_error_against_flit") == pytest.approx(-7.5)
    assert metric(frame, "a", "link", "stage_compute_error_against_flit") == pytest.approx(-2.5)
    assert metric(frame, "all", "link", "rank_agreement") == -1.0
    assert metric(frame, "all", "link", "same_order") == 0.0
    assert metric(frame, "all", "analytic", "rank_agreement") == 1.0
    assert metric(frame, "all", "analytic", "same_order") == 1.0
    assert set(frame["metric"]) & {"balance", "energy"} == set()


def test_attribution_adds_up_to_the_error_of_link() -> None:
    noisy = metrics_frame(Samples(layers(LADDER, noise=0.2)), ["a", "b"], RUNGS)
    for policy in ("a", "b"):
        parts = [metric(noisy, policy, "link", f"error_from_{part}") for part in ("network", "memory", "interaction")]
        assert sum(parts) == pytest.approx(metric(noisy, policy, "link", "error_against_flit"))
    exact = metrics_frame(Samples(FRAME), ["a", "b"], RUNGS)
    assert metric(exact, "a", "link", "error_from_network") == pytest.approx(-0.06)
    assert metric(exact, "a", "link", "error_from_memory") == pytest.approx(-0.03)


def test_no_attribution_without_both_mixed_rungs() -> None:
    frame = metrics_frame(Samples(FRAME[FRAME["rung"] != "flit+rate"]), ["a", "b"], RUNGS)
    assert not any(name.startswith("error_from") for name in frame["metric"])


def test_no_errors_without_flit() -> None:
    frame = metrics_frame(Samples(FRAME[FRAME["rung"] != "flit"]), ["a", "b"], RUNGS[:-1])
    assert not any("flit" in name or "agreement" in name for name in frame["metric"])


def test_percentiles_need_enough_rows() -> None:
    many = Samples(layers({("a", "flit"): 100.0}, batches=20, layers=8, noise=0.1))
    frame = metrics_frame(many, ["a"], ["flit"])
    p95 = metric(frame, "a", "flit", "layer_latency_p95")
    assert p95 == pytest.approx(np.percentile(many.rows("a", "flit")["total_fs"], 95) / 1e6, rel=0.01)
    assert np.isnan(metric(frame, "a", "flit", "layer_latency_p99"))


def test_intervals_bracket_the_value() -> None:
    frame = metrics_frame(Samples(layers(LADDER, noise=0.3)), ["a", "b"], RUNGS)
    means = frame[frame["metric"].isin(["layer_latency_mean", "layer_latency_p50"])]
    assert (means["ci_low"] <= means["value"]).all()
    assert (means["value"] <= means["ci_high"]).all()
    assert (means["ci_low"] < means["ci_high"]).all()


def test_the_frame_is_what_the_report_takes() -> None:
    frame = metrics_frame(Samples(FRAME), ["a", "b"], RUNGS)
    assert len(canonical(frame, METRICS)) == len(frame)


def test_same_input_same_bytes_whatever_the_row_order() -> None:
    frame = layers(LADDER, noise=0.2)
    shuffled = frame.sample(frac=1.0, random_state=3).reset_index(drop=True)
    claims = load_claims("quickstart")
    outputs = []
    for rows in (frame, shuffled):
        samples = Samples(rows)
        entries = judge(claims, samples, RunScope("quickstart", "routed", {"comoe": "analytic"}))
        outputs.append((metrics_json(metrics_frame(samples, ["a", "b"], RUNGS)), claims_json(entries)))
    assert outputs[0] == outputs[1]


def test_figures_of_a_table_become_metrics(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = "policy,layer,quantity,value,unit\na,all,layer_latency_mean,0.12,us\nb,1,stage_queue_mean,5,ns\n"
    (tmp_path / "mine.csv").write_text(text)
    samples = Samples(FRAME[FRAME["rung"] != "analytic"], figures={"analytic": read_table(tmp_path / "mine.csv")})
    frame = metrics_frame(samples, ["a", "b"], RUNGS)
    assert metric(frame, "a", "analytic", "layer_latency_mean") == 120.0
    assert metric(frame, "a", "analytic", "error_against_flit") == pytest.approx(0.2)
    assert metric(frame, "b", "analytic", "stage_queue_mean[layer=1]") == 5.0
    with pytest.raises(ConfigErrors, match=r"mine\.csv:3"):
        metrics_frame(samples, ["a"], RUNGS)


def test_balance_counts_idle_chiplets() -> None:
    decisions = pd.DataFrame(
        {
            "seed": [1, 1, 1],
            "batch": [0, 0, 1],
            "layer": [0, 0, 0],
            "chiplet": [4, 6, 4],
            "tokens": [30, 10, 5],
        }
    )
    got = layer_balance(decisions, [4, 5, 6, 7], macs_per_token=7)
    assert got["balance"].tolist() == [40 / 4 / 30, 5 / 4 / 5]
    with pytest.raises(ValueError, match="expected one policy, got a, b"):
        layer_balance(decisions.assign(policy=["a", "b", "a"]), [4, 6], 7)
    with pytest.raises(ValueError, match=r"chiplet \[6\]"):
        layer_balance(decisions, [4, 5], 7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="total_fs"), "missing columns total_fs"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "appears twice"),
        (lambda f: f.iloc[1:], "comparisons are paired"),
    ],
)
def test_samples_refuse_what_cannot_be_paired(change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        Samples(change(FRAME))
