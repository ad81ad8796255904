"""Sampled runs: a stratified part at the expensive rung, ratio estimates for the whole."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samples import layers

from cosim.analytic import quantity
from cosim.validate.compare import metrics_frame
from cosim.validate.expression import Term
from cosim.validate.samples import NotMeasuredError, Samples
from cosim.validate.sampling import stratified_sample
from cosim.validate.statistics import Interval, covered

KEY = ["seed", "batch", "layer"]


def two_rungs(seed: int, batches: int = 10) -> pd.DataFrame:
    """link and flit of two policies; flit is 1.3 times link with a noise of its own."""
    frame = layers({("a", "link"): 100.0, ("b", "link"): 80.0}, batches=batches, noise=0.2, seed=seed)
    flit = frame.assign(rung="flit")
    own = np.random.Generator(np.random.Philox(seed + 1000)).standard_normal(len(flit))
    for column in ("total_fs", "compute_fs", "memory_fs"):
        flit[column] = np.rint(flit[column] * (1.3 + 0.1 * own)).astype(np.int64)
    return pd.concat([frame, flit], ignore_index=True)


def sample_of(frame: pd.DataFrame, fraction: float, seed: int) -> pd.DataFrame:
    keys = frame[frame["rung"] == "link"].drop_duplicates(KEY)[KEY]
    chosen = keys[stratified_sample(keys, fraction, seed)]
    flit = frame[frame["rung"] == "flit"].merge(chosen, on=KEY)
    return pd.concat([frame[frame["rung"] == "link"], flit], ignore_index=True)


def estimate(samples: Samples, name: str = "layer_latency_total", policy: str = "a") -> Interval:
    return samples.estimate(Term(quantity(name), policy, "flit"))


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 12), st.integers(1, 5), st.floats(0.01, 1.0), st.integers(0, 5))
def test_every_stratum_gives_its_share(seeds: int, batches: int, depth: int, fraction: float, seed: int) -> None:
    rows = layers({("a", "link"): 1.0}, seeds=seeds, batches=batches, layers=depth)[KEY]
    mask = stratified_sample(rows, fraction, seed)
    shares = rows.assign(taken=mask).groupby(["seed", "layer"])["taken"].sum()
    assert set(shares) == {int(np.ceil(fraction * batches))}
    shuffled = rows.sample(frac=1.0, random_state=1)
    again = stratified_sample(shuffled, fraction, seed)
    assert set(map(tuple, rows[mask].to_numpy())) == set(map(tuple, shuffled[again].to_numpy()))


def test_samples_differ_by_seed() -> None:
    rows = layers({("a", "link"): 1.0})[KEY]
    assert (stratified_sample(rows, 0.5, 1) != stratified_sample(rows, 0.5, 2)).any()


def test_estimate_is_the_ratio_of_sums() -> None:
    frame = sample_of(two_rungs(1), 0.3, 7)
    samples = Samples(frame, sampled={"flit": "link"})
    link = frame[(frame["rung"] == "link") & (frame["policy"] == "a")]
    flit = frame[(frame["rung"] == "flit") & (frame["policy"] == "a")]
    common = link.merge(flit[KEY], on=KEY)
    expected = link["total_fs"].sum() * (flit["total_fs"].sum() / common["total_fs"].sum()) * 1e-6
    assert estimate(samples).value == pytest.approx(expected, rel=1e-12)
    assert estimate(samples, "layer_latency_mean").value == pytest.approx(expected / len(link), rel=1e-12)
    assert estimate(samples).n == len(flit) == 3 * 4 * 3
    # A stage that takes no time at either rung is zero, not a division by zero.
    assert estimate(samples, "stage_queue_mean").value == 0.0


def test_intervals_cover_the_whole_run_in_ninety_of_a_hundred_samples() -> None:
    frame = two_rungs(2)
    truth = estimate(Samples(frame)).value
    estimates = []
    for seed in range(100):
        part = sample_of(frame[frame["policy"] == "a"], 0.2, seed)
        estimates.append(estimate(Samples(part, sampled={"flit": "link"})))
    assert covered(estimates, truth) >= 90
    assert all(e.low is not None and e.high is not None and e.high - e.low < 0.2 * truth for e in estimates)


def test_a_whole_sample_gives_the_plain_figures() -> None:
    frame = two_rungs(3)
    plain, whole = Samples(frame), Samples(frame, sampled={"flit": "link"})
    for name in ("layer_latency_mean", "stage_memory_mean", "layer_latency_p50"):
        a, b = estimate(plain, name), estimate(whole, name)
        assert b.value == pytest.approx(a.value, rel=1e-12)
        assert b.low == pytest.approx(a.low, rel=1e-12)


def test_the_largest_is_that_of_the_rows_and_no_estimate() -> None:
    frame = two_rungs(6)
    plain = Samples(frame)
    rows = frame[(frame["policy"] == "a") & (frame["rung"] == "flit")]
    found = estimate(plain, "layer_latency_max")
    assert found.value == pytest.approx(rows["total_fs"].max() * 1e-6, rel=1e-12)
    # most resamples hold the unit with the largest row, none a larger one
    assert found.high == pytest.approx(found.value)
    assert found.low is not None
    assert found.low < found.value
    with pytest.raises(NotMeasuredError, match="the largest is not estimated"):
        estimate(Samples(sample_of(frame, 0.3, 7), sampled={"flit": "link"}), "layer_latency_max")


def test_metrics_of_a_sampled_run() -> None:
    frame = sample_of(two_rungs(4), 0.3, 1)
    metrics = metrics_frame(Samples(frame, sampled={"flit": "link"}), ["a", "b"], ["link", "flit"])
    rows = metrics[metrics["metric"] == "error_against_flit"]
    np.testing.assert_allclose(rows["value"], 1 / 1.3 - 1, atol=0.02)
    flit = metrics[(metrics["rung"] == "flit") & (metrics["metric"] == "layer_latency_mean")]
    assert set(flit["n"]) == {36}


def test_percentiles_need_enough_rows_in_all() -> None:
    samples = Samples(sample_of(two_rungs(5, batches=30), 0.3, 1), sampled={"flit": "link"})
    with pytest.raises(NotMeasuredError, match="the run has 108"):
        estimate(samples, "layer_latency_p95")
    few = Samples(sample_of(two_rungs(5, batches=40), 0.01, 1), sampled={"flit": "link"})
    with pytest.raises(NotMeasuredError, match="the run has 12"):
        estimate(few, "layer_latency_p95")


def test_percentiles_under_the_ratio_model_cover_those_of_the_whole() -> None:
    found = []
    for seed in range(6):
        frame = two_rungs(seed, batches=40)
        whole = frame[(frame["rung"] == "flit") & (frame["policy"] == "a")]["total_fs"]
        samples = Samples(sample_of(frame, 0.1, seed), sampled={"flit": "link"})
        got = estimate(samples, "layer_latency_p95")
        truth = float(np.quantile(whole, 0.95, method="inverted_cdf")) * 1e-6
        assert got.value == pytest.approx(truth, rel=0.06)
        found.append(covered([got], truth))
    assert sum(found) >= 5


def test_an_exact_ratio_gives_the_exact_percentile() -> None:
    frame = two_rungs(3, batches=40)
    cheap = frame[frame["rung"] == "link"]
    frame = pd.concat([cheap, cheap.assign(rung="flit", total_fs=cheap["total_fs"] * 2)], ignore_index=True)
    samples = Samples(sample_of(frame, 0.1, 1), sampled={"flit": "link"})
    link = samples.estimate(Term(quantity("layer_latency_p95"), "a", "link"))
    assert estimate(samples, "layer_latency_p95").value == pytest.approx(2 * link.value)


@given(st.integers(1, 3), st.integers(1, 12), st.integers(1, 7), st.floats(0.01, 1.0), st.integers(0, 5))
@settings(max_examples=30)
def test_a_sample_of_the_run_is_spread_evenly_over_layers(
    seeds: int, batches: int, depth: int, fraction: float, seed: int
) -> None:
    rows = layers({("a", "link"): 1.0}, seeds=seeds, batches=batches, layers=depth)[KEY]
    mask = stratified_sample(rows, fraction, seed, strata="run")
    assert mask.sum() == max(1, round(fraction * len(rows)))
    per_layer = rows.assign(taken=mask).groupby("layer")["taken"].sum()
    assert per_layer.max() - per_layer.min() <= 1
    per_batch = rows.assign(taken=mask).groupby(["seed", "batch"])["taken"].sum()
    assert per_batch.max() - per_batch.min() <= 1
    shuffled = rows.sample(frac=1.0, random_state=1)
    again = stratified_sample(shuffled, fraction, seed, strata="run")
    assert set(map(tuple, rows[mask].to_numpy())) == set(map(tuple, shuffled[again].to_numpy()))


def test_what_is_no_sample_is_refused() -> None:
    frame = sample_of(two_rungs(6), 0.3, 1)
    with pytest.raises(ValueError, match="comparisons are paired"):
        Samples(frame)
    other = frame.drop(frame[(frame["rung"] == "flit") & (frame["policy"] == "b")].index[:1])
    with pytest.raises(ValueError, match="comparisons are paired"):
        Samples(other, sampled={"flit": "link"})
    with pytest.raises(ValueError, match="did not run"):
        Samples(frame[frame["rung"] == "flit"], sampled={"flit": "link"})
    short = frame[(frame["rung"] == "flit") | (frame["batch"] > 2)]
    with pytest.raises(ValueError, match="rows that link has not"):
        Samples(short, sampled={"flit": "link"})
    with pytest.raises(ValueError, match="a fraction above 0"):
        stratified_sample(frame[KEY].drop_duplicates(), 0.0, 1)
