"""Whether experts' loads are uneven, and change from step to step, by more than chance makes them.

Two nulls, each drawn anew a number of times. `dealt`: the recorded tokens in other steps, so that experts keep their
loads and only the course of time is lost. `uniform`: every token picks its number of experts evenly among all. A figure
above the largest of 19 draws is beyond chance at a level of 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from cosim.trace.random import RandomStream
from cosim.trace.routing import RoutingTrace
from cosim.trace.statistics import max_over_mean
from cosim.trace.step_series import StepSeries, step_series

__all__ = ["LoadFigures", "LoadVariation", "load_variation"]

Counts = NDArray[np.int64]

#: Streams of the two nulls under one seed.
_DEALT, _UNIFORM = 1 << 32, 2 << 32


@dataclass(frozen=True)
class LoadFigures:
    """Of one layer's loads, or the largest of each over draws.

    peak_over_mean: the hottest expert's tokens over the mean expert's, in the step where that is largest.
    skew:           the same over all steps together.
    dispersion:     variance of an expert's load between steps over its mean, all experts' together: the sum of the
                    variances over that of the means; above 1 - 1 / experts where steps differ by more than draws do.
    hot_overlap:    share of a step's hottest quarter of the experts that is in the next step's, mean over steps.
    """

    peak_over_mean: float
    skew: float
    dispersion: float
    hot_overlap: float


@dataclass(frozen=True)
class LoadVariation:
    """One layer: what was recorded and the largest figures of the draws of both nulls."""

    layer: int
    recorded: LoadFigures
    dealt: LoadFigures
    uniform: LoadFigures


def load_variation(
    trace: RoutingTrace, *, batch_tokens: int, layers: tuple[int, ...], draws: int = 19, seed: int = 1
) -> tuple[LoadVariation, ...]:
    """Figures of some layers.

    Args:
        trace: the trace; its decode rows where it names phases.
        batch_tokens: tokens of a step.
        layers: MoE layers.
        draws: of each null.
        seed: of the draws.

    Raises:
        TraceError: fewer than two steps.
    """
    series = step_series(trace, batch_tokens, at_least=2, why="a course of loads over steps")
    found = []
    for layer in layers:
        dealt = [_figures(series.counts(layer, series.permuted(RandomStream(seed, _DEALT + n)))) for n in range(draws)]
        uniform = [_figures(_uniform_counts(series, layer, RandomStream(seed, _UNIFORM + n))) for n in range(draws)]
        found.append(LoadVariation(layer, _figures(series.counts(layer)), _largest(dealt), _largest(uniform)))
    return tuple(found)


def _figures(counts: Counts) -> LoadFigures:
    steps = counts[counts.sum(axis=1) > 0]
    mean = counts.mean(axis=0).sum()
    return LoadFigures(
        float(max_over_mean(steps).max()),
        float(max_over_mean(counts.sum(axis=0))),
        float(counts.var(axis=0, ddof=1).sum() / mean),
        _hot_overlap(counts),
    )


def _hot_overlap(counts: Counts) -> float:
    experts = counts.shape[1]
    hottest = max(1, experts // 4)
    hot = np.zeros(counts.shape, dtype=bool)
    np.put_along_axis(hot, np.argsort(-counts, axis=1, kind="stable")[:, :hottest], True, axis=1)
    return float((hot[1:] & hot[:-1]).sum() / (hottest * (len(hot) - 1)))


def _largest(drawn: list[LoadFigures]) -> LoadFigures:
    return LoadFigures(*(max(getattr(one, field.name) for one in drawn) for field in fields(LoadFigures)))


def _uniform_counts(series: StepSeries, layer: int, stream: RandomStream) -> Counts:
    """F[d, e] of tokens that pick as many experts as recorded, all sets of them equally likely."""
    experts = series.trace.experts
    picks = (series.trace.ids[series.rows.reshape(-1), layer] >= 0).sum(axis=1)
    ranked = np.argsort(stream.draws(len(picks) * experts).reshape(-1, experts), axis=1)
    chosen = np.arange(int(picks.max(initial=0)))[None, :] < picks[:, None]
    ids = ranked[:, : chosen.shape[1]] + (series.step * experts)[:, None]
    size = series.steps * experts
    return np.bincount(ids[chosen], minlength=size).reshape(series.steps, experts).astype(np.int64)
