"""Loads beside two kinds of chance: against a slow obvious count, on noise, and on loads that drift."""

from __future__ import annotations

import itertools
from collections import Counter
from statistics import fmean, variance

import numpy as np
import pytest

from cosim import trace
from cosim.trace import RoutingTrace, TraceError
from cosim.trace.load_variation import load_variation
from cosim.trace.routing import PHASES


def made(expert_of_token: np.ndarray, requests: int, experts: int) -> RoutingTrace:
    """Top-1 of the experts given, request after request."""
    tokens = len(expert_of_token)
    return RoutingTrace(
        ids=expert_of_token.reshape(tokens, 1, 1).astype(np.int16),
        experts=experts,
        layer_map=np.arange(1, dtype=np.int32),
        request=np.repeat(np.arange(requests), tokens // requests).astype(np.int32),
        position=np.tile(np.arange(tokens // requests), requests).astype(np.int32),
        source="made",
    )


def test_figures_are_those_of_an_obvious_count() -> None:
    sample = trace.load("sample")
    (found,) = load_variation(sample, batch_tokens=64, layers=(3,))
    assert sample.request is not None
    assert sample.phase is not None
    decode = sample.phase == PHASES.index("decode")
    steps = []
    positions = Counter(sample.request.tolist())
    for first in range(0, len(positions), 64):
        rows = [np.flatnonzero(decode & (sample.request == request)) for request in range(first, first + 64)]
        for position in range(min(len(row) for row in rows)):
            counts = Counter(int(e) for row in rows for e in sample.ids[row[position], 3])
            steps.append([counts[expert] for expert in range(sample.experts)])
    mean = 64 * sample.ids.shape[2] / sample.experts
    assert found.recorded.peak_over_mean == pytest.approx(max(max(step) for step in steps) / mean)
    loads = list(zip(*steps, strict=True))
    assert found.recorded.skew == pytest.approx(max(sum(load) for load in loads) / (mean * len(steps)))
    assert found.recorded.dispersion == pytest.approx(
        sum(variance(load) for load in loads) / sum(fmean(load) for load in loads)
    )
    hot = [
        {expert for expert, _ in sorted(enumerate(step), key=lambda item: (-item[1], item[0]))[:16]} for step in steps
    ]
    shared = [len(a & b) / 16 for a, b in itertools.pairwise(hot)]
    assert found.recorded.hot_overlap == pytest.approx(fmean(shared))
    # dealing tokens to other steps keeps every expert's load
    assert found.dealt.skew == pytest.approx(found.recorded.skew)


def test_noise_is_within_chance_and_drift_is_not() -> None:
    generator = np.random.default_rng(7)
    beyond = 0
    for _ in range(20):
        noise = made(generator.integers(0, 8, 32 * 40), 32, 8)
        (quiet,) = load_variation(noise, batch_tokens=32, layers=(0,))
        beyond += quiet.recorded.dispersion > quiet.dealt.dispersion
        beyond += quiet.recorded.skew > quiet.uniform.skew
    assert beyond <= 7  # 2 expected of 40 at a level of 5 %; more than 7 once in a thousand
    turns = np.tile(np.arange(40) // 5 % 8, 32)  # all requests go from expert to expert together
    drift = made(np.where(generator.random(turns.size) < 0.5, turns, generator.integers(0, 8, turns.size)), 32, 8)
    (found,) = load_variation(drift, batch_tokens=32, layers=(0,))
    assert found.recorded.dispersion > 3 * found.dealt.dispersion
    skewed = made(np.where(generator.random(turns.size) < 0.3, 0, generator.integers(0, 8, turns.size)), 32, 8)
    (found,) = load_variation(skewed, batch_tokens=32, layers=(0,))
    assert found.recorded.skew > 2 * found.uniform.skew
    assert found.recorded.dispersion < 1.2


def test_draws_are_seeded_and_one_step_is_too_few() -> None:
    trace_ = made(np.random.default_rng(1).integers(0, 4, 64), 8, 4)
    first, again, other = (load_variation(trace_, batch_tokens=8, layers=(0,), seed=seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first.recorded == other.recorded
    assert first != other
    with pytest.raises(TraceError, match="at least 2"):
        load_variation(made(np.zeros(8, dtype=np.int64), 8, 4), batch_tokens=8, layers=(0,))
