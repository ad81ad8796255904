"""Estimates and their uncertainty: seeded, in a fixed order of operations, without BLAS.

The unit of resampling is a (seed, batch): all layers of a batch are drawn together, because they share
tokens and residency. Policies and rungs of one comparison are drawn with the same units (paired).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Resamples behind every interval, and the key of their random stream.
RESAMPLES = 2000
KEY = 0x636F73696D
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A point estimate with a confidence interval; bounds are None where too few units ran."""

    value: float
    low: float | None
    high: float | None
    n: int


def percentile_needs(percent: int) -> int:
    """Samples below which a percentile is not reported: n >= 20 / (1 - p)."""
    if not 0 < percent < 100:
        raise ValueError(f"expected a percentile between 1 and 99, got {percent}")
    return -(-2000 // (100 - percent))


def uniform_indices(count: int, size: int, key: int = KEY) -> IntArray:
    """``size`` draws from 0 .. count - 1, from the raw 64-bit words of Philox-4x64-10.

    The words of that counter-based generator are fixed by its definition, so the draws do not depend on
    the version of numpy. The multiply-shift mapping is biased by less than count / 2**32.
    """
    if not 0 < count < 2**31:
        raise ValueError(f"expected 1 to 2**31 - 1 units, got {count}")
    words = np.random.Philox(key=key).random_raw(size)
    picks: npt.NDArray[np.uint64] = ((words >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)
    return picks.astype(np.int64)


@lru_cache(maxsize=8)
def resample_weights(units: int, resamples: int = RESAMPLES, key: int = KEY) -> IntArray:
    """How often each unit occurs in each bootstrap sample, shape (resamples, units). Read-only."""
    picks = uniform_indices(units, resamples * units, key)
    row = np.repeat(np.arange(resamples, dtype=np.int64), units)
    weights = np.bincount(row * units + picks, minlength=resamples * units).reshape(resamples, units)
    weights.setflags(write=False)
    return weights


def weighted_sums(weights: IntArray, per_unit: FloatArray) -> FloatArray:
    """Sum of ``per_unit`` in each resample, shape (resamples,)."""
    total = np.zeros(len(weights))
    for column in range(weights.shape[1]):  # the order of units, whatever the machine
        total += weights[:, column] * per_unit[column]
    return total


def weighted_percentile(weights: IntArray, unit: IntArray, values: FloatArray, percent: int) -> FloatArray:
    """Percentile of the rows in each resample: the smallest value with at least that share at or below it.

    ``unit[i]`` is the unit that row ``i`` of ``values`` belongs to. Always an observed value.
    """
    order = np.argsort(values, kind="stable")
    ranked, owner = values[order], unit[order]
    result = np.empty(len(weights))
    block = max(1, 2_000_000 // max(len(values), 1))
    for start in range(0, len(weights), block):
        part = weights[start : start + block]
        reached = np.cumsum(part[:, owner], axis=1)
        # ceil(percent / 100 * total) in integers
        rank = -(-reached[:, -1] * percent // 100)
        result[start : start + block] = ranked[(reached < rank[:, None]).sum(axis=1)]
    return result


def interval(value: float, resampled: FloatArray, units: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Expanded percentile interval of a bootstrap distribution.

    The tail probability is Phi(-sqrt(u / (u - 1)) * t) with the t quantile of u - 1 degrees of freedom
    for u units: the correction for the narrowness of the plain percentile interval given by
    T. Hesterberg, "What Teachers Should Know about the Bootstrap", The American Statistician 69 (2015).
    Fewer than two units give no interval.
    """
    from scipy.special import ndtr, stdtrit  # type: ignore[import-untyped]

    if units < 2 or not bool(np.isfinite(resampled).all()):
        return Interval(value, None, None, n)
    quantile = float(stdtrit(units - 1, (1 + confidence) / 2))
    tail = float(ndtr(-math.sqrt(units / (units - 1)) * quantile))
    ranked = np.sort(resampled)
    low = ranked[max(0, math.floor(tail * len(ranked)))]
    high = ranked[min(len(ranked) - 1, math.ceil((1 - tail) * len(ranked)) - 1)]
    return Interval(value, float(low), float(high), n)


def ratio_estimate(whole: FloatArray, sampled_cheap: FloatArray, sampled_exact: FloatArray, key: int = KEY) -> Interval:
    """Total of an expensive quantity from a cheap one known everywhere: sum(whole) * sum(exact) / sum(cheap).

    whole:         the cheap quantity of every unit
    sampled_cheap: the cheap quantity of the sampled units
    sampled_exact: the expensive quantity of the same units, same order

    The interval is a bootstrap over the sampled units; ``n`` is their number.
    """
    if len(sampled_cheap) != len(sampled_exact) or not len(sampled_cheap):
        raise ValueError(f"expected the same units in both samples, got {len(sampled_cheap)} and {len(sampled_exact)}")
    total = math.fsum(whole)
    units = len(sampled_cheap)
    value = total * (math.fsum(sampled_exact) / math.fsum(sampled_cheap))
    weights = resample_weights(units, key=key)
    resampled = total * (weighted_sums(weights, sampled_exact) / weighted_sums(weights, sampled_cheap))
    return interval(value, resampled, units, units)


def theil_sen(x: Sequence[float] | FloatArray, y: FloatArray) -> FloatArray:
    """Median of the slopes between all pairs of points with different x; ``y`` has shape (..., points)."""
    x = np.asarray(x, dtype=np.float64)
    first, second = np.triu_indices(len(x), k=1)
    apart = x[first] != x[second]
    if not bool(apart.any()):
        raise ValueError("a slope needs at least two different x")
    first, second = first[apart], second[apart]
    slopes = (y[..., second] - y[..., first]) / (x[second] - x[first])
    return np.asarray(np.median(slopes, axis=-1), dtype=np.float64)


@dataclass(frozen=True)
class RankAgreement:
    """Kendall's tau-b of two rankings of the same things, and whether the order is the same throughout."""

    tau: float | None
    same_order: bool
    n: int


def rank_agreement(first: Sequence[float], second: Sequence[float]) -> RankAgreement:
    """Compare two sets of values of the same things; tau is None where either set is all ties."""
    if len(first) != len(second):
        raise ValueError(f"expected two values per thing, got {len(first)} and {len(second)}")
    signs = [
        (_sign(first[i] - first[j]), _sign(second[i] - second[j]))
        for i in range(len(first))
        for j in range(i + 1, len(first))
    ]
    untied_first = sum(a != 0 for a, _ in signs)
    untied_second = sum(b != 0 for _, b in signs)
    scale = math.sqrt(untied_first * untied_second)
    tau = sum(a * b for a, b in signs) / scale if scale else None
    return RankAgreement(tau, all(a == b for a, b in signs), len(first))


def _sign(difference: float) -> int:
    return (difference > 0) - (difference < 0)


def batch_means(series: FloatArray, batches: int = 20) -> Interval:
    """Mean of an autocorrelated series, with an interval from the means of equal, consecutive batches.

    The series is cut into ``batches`` runs; up to ``batches - 1`` leading values that do not fill a run
    are left out of the interval and of the mean. Student's t with ``batches - 1`` degrees of freedom.
    """
    from scipy.special import stdtrit

    if batches < 2:
        raise ValueError(f"expected at least 2 batches, got {batches}")
    length = len(series) // batches
    if not length:
        raise ValueError(f"{batches} batches need at least as many values, got {len(series)}")
    means = series[len(series) - length * batches :].reshape(batches, length).mean(axis=1)
    value = math.fsum(means) / batches
    variance = math.fsum((mean - value) ** 2 for mean in means) / (batches - 1)
    half = float(stdtrit(batches - 1, (1 + CONFIDENCE) / 2)) * math.sqrt(variance / batches)
    return Interval(value, value - half, value + half, batches)


def covered(intervals: Sequence[Interval], truth: float) -> int:
    """How many of the intervals contain the true value; one without bounds contains nothing."""
    return sum(
        estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high
        for estimate in intervals
    )
