"""Expert complementarity: do the loads of two experts cancel over the steps of batched decoding?

3D-MoE (seed 001) takes Pearson's r of two experts' step series and calls the pair complementary when r is below the
5th percentile of what circular shifts of one series against the other give. Whether the percentile is that of the pair
or of all pairs together is not printed; both are here. That null breaks what every step has in common: a token picks
exactly k experts, so the series of a step sum to a constant and correlations centre near -1/(E - 1) without any
structure. Beside it stands the null that keeps this: all tokens are dealt anew to the steps, whole, so that step sizes,
every token's k experts and every expert's total stay. It breaks more than the pairing of experts, though: whatever a
request does for many steps on end. Where requests are known they can be rotated against each other instead, each by an
offset of its own, which keeps that. The p values of either are ranks among the draws,
(1 + as low or lower) / (1 + permutations), and the share of false discoveries among the pairs of a layer is bounded by
the step-up procedure of Benjamini and Hochberg (J. R. Stat. Soc. B 57, 1995).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cosim.trace.problems import TraceError
from cosim.trace.random import RandomStream
from cosim.trace.routing import RoutingTrace
from cosim.trace.statistics import BLOCK_ROWS
from cosim.trace.step_series import Counts, StepSeries, step_series

__all__ = [
    "Complementarity",
    "DomainDifference",
    "LayerComplementarity",
    "analyse",
    "benjamini_hochberg",
    "circular_shift_p",
    "correlation",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: Bins of r in [-1, 1] that the pooled quantile is read from; its error is one bin.
POOL_BINS = 1 << 16
# Streams of random numbers under one seed: permutations of tokens count up from 0, those of labels from here.
_LABEL_STREAM = 1 << 32
# r of a permutation counts as low as the recorded one within this: both are quotients of exact integers.
_TIE = 1e-12


def correlation(counts: Counts) -> Floats:
    """Pearson's r of every pair of columns of F[step, expert], shape (experts, experts); NaN where one is constant."""
    steps = counts.shape[0]
    load = counts.astype(np.float64)  # sums of products of counts are exact below 2**53
    total = load.sum(axis=0)
    covariance = steps * (load.T @ load) - total[:, None] * total[None, :]
    variance = np.diagonal(covariance)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(covariance / np.sqrt(variance[:, None] * variance[None, :]))


def _shifted_products(counts: Counts, expert: int) -> Counts:
    """sum_d F[d, expert] F[d + s, j] for all shifts s and experts j > expert, int64, shape (steps, others), exact."""
    spectrum = np.fft.rfft(counts.astype(np.float64), axis=0)
    product = np.conj(spectrum[:, expert : expert + 1]) * spectrum[:, expert + 1 :]
    return np.rint(np.fft.irfft(product, n=counts.shape[0], axis=0)).astype(np.int64)


def circular_shift_p(counts: Counts) -> Floats:
    """p of every pair against its own circular shifts: (1 + shifts that give r as low or lower) / steps.

    A shift changes neither mean nor variance, so sums of products, integers, are compared.
    Returns float64 (experts, experts), symmetric; NaN on the diagonal and where a series is constant.
    """
    steps, experts = counts.shape
    p = np.full((experts, experts), np.nan)
    varies = counts.min(axis=0) != counts.max(axis=0)
    for expert in range(experts - 1):
        products = _shifted_products(counts, expert)
        lower = np.count_nonzero(products[1:] <= products[0], axis=0)
        row = np.where(varies[expert] & varies[expert + 1 :], (1 + lower) / steps, np.nan)
        p[expert, expert + 1 :] = row
        p[expert + 1 :, expert] = row
    return p


def _pooled_quantile(counts: Counts, alpha: float) -> float:
    """The alpha quantile of r over all pairs and shifts together, to one bin of `POOL_BINS`."""
    steps, experts = counts.shape
    total = counts.sum(axis=0)
    variance = steps * (counts * counts).sum(axis=0) - total * total
    bins = np.zeros(POOL_BINS + 1, dtype=np.int64)
    for expert in range(experts - 1):
        others = np.flatnonzero(variance[expert + 1 :] > 0)
        if not variance[expert] or not len(others):
            continue
        products = _shifted_products(counts, expert)[1:, others]
        scale = np.sqrt(float(variance[expert]) * variance[expert + 1 :][others].astype(np.float64))
        r = (steps * products - total[expert] * total[expert + 1 :][others]) / scale
        number = np.clip(np.floor((r + 1) * (POOL_BINS / 2)), 0, POOL_BINS).astype(np.int64)
        bins += np.bincount(number.reshape(-1), minlength=POOL_BINS + 1)
    reached = np.cumsum(bins)
    if not reached[-1]:
        return float("nan")
    return float(np.searchsorted(reached, alpha * reached[-1]) / (POOL_BINS / 2) - 1)


def benjamini_hochberg(p: Floats, rate: float) -> Flags:
    """Which p values are discoveries when the expected share of false ones among them is to stay below `rate`."""
    order = np.argsort(p, kind="stable")
    steps = np.arange(1, len(p) + 1)
    passed = np.flatnonzero(p[order] <= rate * steps / max(len(p), 1))
    chosen = np.zeros(len(p), dtype=np.bool_)
    if len(passed):
        chosen[order[: passed[-1] + 1]] = True
    return chosen


@dataclass(frozen=True)
class DomainDifference:
    """Do flagged pairs serve different request domains more than other pairs do?

    An expert's profile is the share of each domain's picks that go to it, scaled to sum to one over the domains; two
    profiles are half the sum of absolute differences apart, 0 to 1.

    flagged, others: mean distance of the flagged pairs and of all others; NaN where there are none.
    p: share of label permutations (over requests, or over blocks of 64 rows without them) whose difference of the two
       means is as large or larger, counted as ranks; NaN where either set is empty.
    """

    flagged: float
    others: float
    p: float


@dataclass(frozen=True, eq=False)
class LayerComplementarity:
    """One MoE layer.

    layer, decoder_layer: its numbers. pairs: with two varying series. constant_experts: whose load never changes.
    r: Pearson's r. p_shift: of the circular-shift null of the pair. p_low, p_high: of the token-permutation null, for r
        as low and as high. All float64 (experts, experts), NaN where there is no pair.
    flagged: pairs that the circular-shift test flags. survives: negative pairs that the token-permutation null does not
        explain at the false-discovery rate; exceeds: positive ones. Bool (experts, experts), symmetric.
    shuffled_shares: what the circular-shift test flags, as a share of the pairs, on recordings whose tokens were dealt
        anew: no structure is left in them.
    cosine_flagged, cosine_others: mean cosine similarity of the load series.
    domain_flagged, domain_survives: `DomainDifference` of the two sets, or None where the trace names no domains.
    """

    layer: int
    decoder_layer: int
    constant_experts: int
    r: Floats
    p_shift: Floats
    p_low: Floats
    p_high: Floats
    flagged: Flags
    survives: Flags
    exceeds: Flags
    alpha: float
    shuffled_shares: tuple[float, ...]
    cosine_flagged: float
    cosine_others: float
    domain_flagged: DomainDifference | None
    domain_survives: DomainDifference | None
    _upper: tuple[NDArray[np.intp], NDArray[np.intp]] = field(repr=False)

    @property
    def pairs(self) -> int:
        """Pairs of experts that both vary."""
        return len(self._upper[0])

    @property
    def median_r(self) -> float:
        """Median of r over the pairs."""
        return float(np.median(self.r[self._upper]))

    @property
    def flagged_share(self) -> float:
        """Share of pairs that the circular-shift test calls complementary."""
        return self._share(self.flagged)

    @property
    def shuffled_share(self) -> float:
        """The same on shuffled recordings, mean; NaN without any."""
        return float(np.mean(self.shuffled_shares)) if self.shuffled_shares else float("nan")

    @property
    def nominal_share(self) -> float:
        """Share of pairs whose r is among the lowest alpha of its token permutations: alpha where there is nothing."""
        return float(np.count_nonzero(self.p_low[self._upper] <= self.alpha)) / self.pairs

    @property
    def survives_share(self) -> float:
        """Share of pairs that are complementary beyond what fixed Top-k and step totals force."""
        return self._share(self.survives)

    @property
    def exceeds_share(self) -> float:
        """Share of pairs that rise and fall together beyond it."""
        return self._share(self.exceeds)

    def _share(self, flags: Flags) -> float:
        return int(np.count_nonzero(flags[self._upper])) / self.pairs


@dataclass(frozen=True, eq=False)
class Complementarity:
    """The analysis of a trace: its steps, options and layers."""

    steps: int
    batch_tokens: int
    experts: int
    alpha: float
    false_discovery_rate: float
    permutations: int
    seed: int
    shift_null: str
    deal: str
    layers: tuple[LayerComplementarity, ...]

    @property
    def forced_r(self) -> float:
        """Mean r of equally loaded experts that a fixed number of picks per step forces: -1 / (E - 1)."""
        return -1 / (self.experts - 1)

    @property
    def fewest_discoveries(self) -> int:
        """Pairs that must have the lowest possible p, 1 / (permutations + 1), before any of a layer can survive."""
        pairs = max(layer.pairs for layer in self.layers)
        return math.ceil(pairs / (self.permutations + 1) / self.false_discovery_rate - 1e-9)


def analyse(
    trace: RoutingTrace,
    *,
    batch_tokens: int = 64,
    layers: tuple[int, ...] | None = None,
    alpha: float = 0.05,
    false_discovery_rate: float = 0.05,
    permutations: int = 999,
    shuffles: int = 3,
    shift_null: Literal["pair", "pooled"] = "pair",
    deal: Literal["permute", "rotate"] = "permute",
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Complementarity:
    """Both tests on the step series of some layers (all by default).

    Args:
        trace: the trace; its decode rows where it names phases.
        batch_tokens: tokens of a step.
        layers: MoE layers.
        alpha: level of the circular-shift test.
        false_discovery_rate: of what survives the token-permutation null, per layer.
        permutations: of all tokens; the same for every layer.
        shuffles: how many of the permutations are also put through the circular-shift test.
        shift_null: whether the circular-shift percentile is that of the pair or of all pairs pooled.
        deal: what the null does to tokens: `permute` them all, or `rotate` every request against the others.
        seed: of all draws.
        progress: called with permutations done and in all.

    Raises:
        TraceError: too few steps for either level (says how many are needed), tokens with unequal numbers of experts,
            a layer the trace does not have, fewer than two experts whose load changes.
        ValueError: options out of range.
    """
    _check_options(alpha, false_discovery_rate, permutations, shuffles, shift_null, deal)
    needed = math.ceil(1 / alpha - 1e-9)
    series = step_series(
        trace, batch_tokens, at_least=needed, why=f"a circular-shift test at the level {alpha:g} (1 / level shifts)"
    )
    chosen = tuple(range(trace.layers)) if layers is None else layers
    _check_layers(series, chosen)
    drawn_steps = series.permuted if deal == "permute" else series.rotated
    recorded = [series.counts(layer) for layer in chosen]
    r = [correlation(counts) for counts in recorded]
    lower = [np.zeros_like(values, dtype=np.int64) for values in r]
    higher = [np.zeros_like(values, dtype=np.int64) for values in r]
    shuffled: list[list[float]] = [[] for _ in chosen]
    for number in range(permutations):
        step = drawn_steps(RandomStream(seed, number))
        for index, layer in enumerate(chosen):
            counts = series.counts(layer, step)
            drawn = correlation(counts)
            with np.errstate(invalid="ignore"):
                lower[index] += ~(drawn > r[index] + _TIE)  # a constant series in a permutation counts against us
                higher[index] += ~(drawn < r[index] - _TIE)
            if number < shuffles:
                flags, _, upper = _flagged(counts, drawn, alpha, shift_null)
                shuffled[index].append(int(np.count_nonzero(flags[upper])) / max(len(upper[0]), 1))
        if progress is not None:
            progress(number + 1, permutations)
    found = []
    for index, layer in enumerate(chosen):
        flags, p_shift, upper = _flagged(recorded[index], r[index], alpha, shift_null)
        if not len(upper[0]):
            raise TraceError(
                trace.source, [f"layer {layer}: expected at least two experts whose load changes from step to step"]
            )
        missing = np.isnan(r[index])
        p_low = np.where(missing, np.nan, (1 + lower[index]) / (1 + permutations))
        p_high = np.where(missing, np.nan, (1 + higher[index]) / (1 + permutations))
        survives = _symmetric(p_low.shape, upper, benjamini_hochberg(p_low[upper], false_discovery_rate))
        exceeds = _symmetric(p_high.shape, upper, benjamini_hochberg(p_high[upper], false_discovery_rate))
        cosine = _cosine(recorded[index])
        rest = ~flags
        found.append(
            LayerComplementarity(
                layer=layer,
                decoder_layer=int(trace.layer_map[layer]),
                constant_experts=int(np.count_nonzero(np.isnan(np.diagonal(r[index])))),
                r=np.where(np.eye(len(r[index]), dtype=bool), np.nan, r[index]),
                p_shift=p_shift,
                p_low=p_low,
                p_high=p_high,
                flagged=flags,
                survives=survives,
                exceeds=exceeds,
                alpha=alpha,
                shuffled_shares=tuple(shuffled[index]),
                cosine_flagged=_mean(cosine[upper][flags[upper]]),
                cosine_others=_mean(cosine[upper][rest[upper]]),
                domain_flagged=_domain_difference(series.trace, layer, flags, upper, permutations, seed),
                domain_survives=_domain_difference(series.trace, layer, survives, upper, permutations, seed),
                _upper=upper,
            )
        )
    return Complementarity(
        series.steps,
        batch_tokens,
        trace.experts,
        alpha,
        false_discovery_rate,
        permutations,
        seed,
        shift_null,
        deal,
        tuple(found),
    )


def _check_options(alpha: float, rate: float, permutations: int, shuffles: int, shift_null: str, deal: str) -> None:
    for name, value in (("alpha", alpha), ("false_discovery_rate", rate)):
        if not 0 < value < 1:
            raise ValueError(f"{name}: expected a level between 0 and 1, got {value:g}")
    if not 1 <= permutations < _LABEL_STREAM:
        raise ValueError(f"permutations: expected at least 1, got {permutations}")
    if (permutations + 1) * rate < 1:
        raise ValueError(
            f"permutations: expected at least {math.ceil(1 / rate) - 1} for a false-discovery rate of {rate:g}, "
            f"got {permutations}"
        )
    if not 0 <= shuffles <= permutations:
        raise ValueError(f"shuffles: expected 0 to {permutations}, the number of permutations, got {shuffles}")
    if shift_null not in ("pair", "pooled"):
        raise ValueError(f"shift_null: expected pair or pooled, got {shift_null!r}")
    if deal not in ("permute", "rotate"):
        raise ValueError(f"deal: expected permute or rotate, got {deal!r}")


def _check_layers(series: StepSeries, layers: tuple[int, ...]) -> None:
    trace = series.trace
    problems = [
        f"layer {layer}: expected MoE layer 0..{trace.layers - 1}" for layer in layers if not 0 <= layer < trace.layers
    ]
    for layer in layers:
        if not problems:
            picks = np.count_nonzero(trace.ids[series.rows.reshape(-1), layer] >= 0, axis=1)
            odd = int(np.count_nonzero(picks != picks.max()))
            if odd:
                problems.append(
                    f"layer {layer}: {odd} tokens have fewer than {int(picks.max())} experts; dealing tokens anew "
                    "keeps step totals only where all have as many"
                )
    if problems:
        raise TraceError(trace.source, problems)


def _flagged(
    counts: Counts, r: Floats, alpha: float, shift_null: str
) -> tuple[Flags, Floats, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Pairs that the circular-shift test flags, their p values, and the indices of all pairs (first < second)."""
    first, second = np.triu_indices(len(r), 1)
    there = ~np.isnan(r[first, second])
    upper = (first[there], second[there])
    p = circular_shift_p(counts)
    with np.errstate(invalid="ignore"):
        flags = p <= alpha if shift_null == "pair" else r < _pooled_quantile(counts, alpha)
    np.fill_diagonal(flags, False)
    return flags, p, upper


def _symmetric(shape: tuple[int, ...], upper: tuple[NDArray[np.intp], NDArray[np.intp]], chosen: Flags) -> Flags:
    flags = np.zeros(shape, dtype=np.bool_)
    flags[upper] = chosen
    flags |= flags.T
    return flags


def _cosine(counts: Counts) -> Floats:
    load = counts.astype(np.float64)
    product = load.T @ load
    length = np.sqrt(np.diagonal(product))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(product / (length[:, None] * length[None, :]))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _domain_difference(
    trace: RoutingTrace,
    layer: int,
    flags: Flags,
    upper: tuple[NDArray[np.intp], NDArray[np.intp]],
    permutations: int,
    seed: int,
) -> DomainDifference | None:
    if trace.domain is None or len(np.unique(trace.domain)) < 2:
        return None
    picks, label = _labelled_units(trace, layer)
    chosen = flags[upper]
    if not chosen.any() or chosen.all():
        distance = _profile_distance(picks, label, len(trace.domains))[upper]
        return DomainDifference(_mean(distance[chosen]), _mean(distance[~chosen]), float("nan"))

    def means(labels: NDArray[np.int64]) -> tuple[float, float]:
        distance = _profile_distance(picks, labels, len(trace.domains))[upper]
        return float(distance[chosen].mean()), float(distance[~chosen].mean())

    flagged, others = means(label)
    as_large = 0
    for number in range(permutations):
        drawn = means(label[RandomStream(seed, _LABEL_STREAM + number).permutation(len(label))])
        as_large += drawn[0] - drawn[1] >= flagged - others - _TIE
    return DomainDifference(flagged, others, (1 + as_large) / (1 + permutations))


def _labelled_units(trace: RoutingTrace, layer: int) -> tuple[Counts, NDArray[np.int64]]:
    """Picks of each expert by unit, int64 (units, experts), and each unit's domain: requests, or blocks of rows."""
    assert trace.domain is not None
    domain = trace.domain.astype(np.int64)
    if trace.request is not None:
        key = trace.request.astype(np.int64) * len(trace.domains) + domain  # one domain a request, as a rule
    else:
        key = (np.arange(trace.tokens, dtype=np.int64) // BLOCK_ROWS) * len(trace.domains) + domain
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    ids = trace.ids[:, layer].astype(np.int64)
    cells = (unit.reshape(-1)[:, None] * trace.experts + ids)[ids >= 0]
    picks = np.bincount(cells, minlength=len(first) * trace.experts).reshape(len(first), trace.experts)
    return picks.astype(np.int64), domain[first]


def _profile_distance(picks: Counts, label: NDArray[np.int64], domains: int) -> Floats:
    member = np.zeros((domains, len(label)))
    member[label, np.arange(len(label))] = 1
    by_domain = member @ picks  # sums of counts: exact
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(by_domain.sum(axis=1, keepdims=True) > 0, by_domain / by_domain.sum(axis=1, keepdims=True), 0)
        total = rate.sum(axis=0, keepdims=True)
        profile = np.where(total > 0, rate / total, 1 / domains).T
    return np.asarray(0.5 * np.abs(profile[:, None, :] - profile[None, :, :]).sum(axis=2))
