"""Estimators against closed forms, slow obvious references and their own promises."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from cosim.validate.statistics import (
    RESAMPLES,
    Interval,
    batch_means,
    covered,
    interval,
    percentile_needs,
    rank_agreement,
    ratio_estimate,
    resample_weights,
    theil_sen,
    uniform_indices,
    weighted_percentile,
    weighted_sums,
)

FAST = settings(deadline=None, max_examples=50)


@pytest.mark.parametrize(("percent", "needed"), [(50, 40), (90, 200), (95, 400), (99, 2000), (97, 667)])
def test_percentiles_need_twenty_samples_in_their_tail(percent: int, needed: int) -> None:
    assert percentile_needs(percent) == needed


def test_draws_are_fixed_by_the_generators_definition() -> None:
    # First words of Philox-4x64-10 with this key, shifted: a change of the stream breaks published intervals.
    assert uniform_indices(1000, 8, key=7).tolist() == FIRST_DRAWS
    assert uniform_indices(1000, 8, key=8).tolist() != FIRST_DRAWS


FIRST_DRAWS = [872, 295, 420, 405, 82, 696, 296, 620]


def test_every_resample_draws_as_many_units_as_there_are() -> None:
    weights = resample_weights(7)
    assert weights.shape == (RESAMPLES, 7)
    assert (weights.sum(axis=1) == 7).all()
    # 14,000 draws over 7 units: 2,000 each with a standard deviation of 41.
    assert (np.abs(weights.sum(axis=0) - 2000) < 5 * 41).all()


@FAST
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.integers(1, 99),
    st.integers(1, 5),
)
def test_weighted_percentile_is_that_of_the_repeated_rows(values: list[int], percent: int, units: int) -> None:
    rows = np.array(values, dtype=float)
    unit = np.arange(len(rows)) % units
    present = int(unit.max()) + 1
    weights = resample_weights(present, resamples=20, key=percent)
    weights = weights[(weights[:, unit].sum(axis=1)) > 0]
    got = weighted_percentile(weights, unit, rows, percent)
    for row, value in zip(weights, got, strict=True):
        repeated = np.sort(np.repeat(rows, row[unit]))
        assert value == repeated[math.ceil(percent * len(repeated) / 100) - 1]


@FAST
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_weighted_sums_add_the_drawn_units(values: list[float]) -> None:
    per_unit = np.array(values)
    weights = resample_weights(len(values), resamples=10)
    got = weighted_sums(weights, per_unit)
    for row, value in zip(weights, got, strict=True):
        assert value == pytest.approx(math.fsum(row * per_unit), abs=1e-6)


def test_interval_of_a_mean_matches_students_t() -> None:
    # Normal data: the expanded percentile interval of the mean approaches the t interval.
    sample = np.random.Generator(np.random.Philox(3)).normal(10.0, 2.0, size=24)
    means = weighted_sums(resample_weights(24), sample) / 24
    got = interval(float(sample.mean()), means, 24, 24)
    half = 2.0687 * sample.std(ddof=1) / math.sqrt(24)
    assert got.low == pytest.approx(sample.mean() - half, abs=0.12)
    assert got.high == pytest.approx(sample.mean() + half, abs=0.12)


def test_one_unit_has_no_interval() -> None:
    assert interval(1.0, np.ones(RESAMPLES), 1, 8) == Interval(1.0, None, None, 8)


def test_ratio_estimate_is_exact_where_the_two_are_proportional() -> None:
    whole = np.arange(1.0, 41.0)
    got = ratio_estimate(whole, whole[::4], 3 * whole[::4])
    assert got.value == pytest.approx(3 * whole.sum(), rel=1e-15)
    assert got.low == pytest.approx(got.value)
    assert got.high == pytest.approx(got.value)
    with pytest.raises(ValueError, match="same units"):
        ratio_estimate(whole, whole[:3], whole[:2])


def test_sampled_totals_cover_the_full_total() -> None:
    """The 95 % interval of a sampled total covers the truth in at least 90 of 100 seeded samples."""
    generator = np.random.Generator(np.random.Philox(11))
    units = 240
    cheap = generator.gamma(4.0, 1.0, size=units)
    exact = cheap * (1.4 + 0.3 * generator.standard_normal(units)) + 0.5
    truth = math.fsum(exact)
    estimates = []
    for sample in range(100):
        picked = np.sort(np.random.Generator(np.random.Philox(sample)).choice(units, size=24, replace=False))
        estimates.append(ratio_estimate(cheap, cheap[picked], exact[picked]))
    assert 90 <= covered(estimates, truth) <= 100
    # The intervals say something: none is wider than a third of the total.
    assert max(e.high - e.low for e in estimates if e.high and e.low) < truth / 3


def test_an_interval_that_misses_is_not_covered() -> None:
    assert covered([Interval(1.0, 0.5, 1.5, 4), Interval(3.0, 2.5, 3.5, 4), Interval(1.0, None, None, 1)], 1.2) == 1


@FAST
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-50, 50)), min_size=2, max_size=12))
def test_theil_sen_is_the_median_slope(points: list[tuple[int, int]]) -> None:
    x = np.array([p[0] for p in points], dtype=float)
    y = np.array([p[1] for p in points], dtype=float)
    if len(set(x)) < 2:
        with pytest.raises(ValueError, match="two different x"):
            theil_sen(x, y)
        return
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :] if a[0] != b[0]]
    assert float(theil_sen(x, y)) == pytest.approx(median(slopes))


def test_theil_sen_of_many_rows() -> None:
    y = np.array([[0.0, 1.0, 2.0], [0.0, -2.0, -4.0]])
    assert theil_sen([1, 2, 3], y).tolist() == [1.0, -2.0]


@FAST
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9))
def test_rank_agreement_agrees_with_scipy(pairs: list[tuple[int, int]]) -> None:
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    got = rank_agreement(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert got.tau is None
    else:
        assert got.tau == pytest.approx(kendalltau(first, second).statistic)
    same = all(
        np.sign(first[i] - first[j]) == np.sign(second[i] - second[j])
        for i in range(len(pairs))
        for j in range(len(pairs))
    )
    assert got.same_order == same


def test_batch_means_by_hand() -> None:
    # Means 1.5, 3.5, 5.5: mean 3.5, standard deviation 2, t(0.975, 2) = 4.302653.
    got = batch_means(np.array([99.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), batches=3)
    assert got.value == 3.5
    assert got.high == pytest.approx(3.5 + 4.302653 * 2 / math.sqrt(3), rel=1e-6)
    with pytest.raises(ValueError, match="at least as many values"):
        batch_means(np.ones(2), batches=3)


def test_batch_means_are_wider_than_independent_ones_on_a_correlated_series() -> None:
    noise = np.random.Generator(np.random.Philox(5)).standard_normal(4000)
    series = np.empty(4000)
    level = 0.0
    for i, step in enumerate(noise):
        level = 0.95 * level + step
        series[i] = level
    independent = 1.96 * series.std(ddof=1) / math.sqrt(len(series))
    got = batch_means(series)
    assert got.high is not None
    assert got.high - got.value > 2 * independent
