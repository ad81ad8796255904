"""Expert complementarity: the tests against slow obvious ones, on noise, on planted structure and on recordings."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import trace
from cosim.cli import main
from cosim.trace import RandomStream, RoutingTrace, TraceError
from cosim.trace.complementarity import (
    Complementarity,
    _pooled_quantile,
    analyse,
    benjamini_hochberg,
    circular_shift_p,
    correlation,
)
from cosim.trace.step_series import step_series


def noise(requests: int = 24, positions: int = 60, experts: int = 8, top_k: int = 2, seed: int = 5) -> RoutingTrace:
    """Tokens that pick Top-k experts at random, every one by itself."""
    generator = np.random.default_rng(seed)
    tokens = requests * positions
    ids = generator.permuted(np.tile(np.arange(experts), (tokens, 1, 1)), axis=2)[:, :, :top_k]
    return RoutingTrace(
        ids=ids.astype(np.int16),
        experts=experts,
        layer_map=np.arange(1, dtype=np.int32),
        request=np.repeat(np.arange(requests), positions).astype(np.int32),
        position=np.tile(np.arange(positions), requests).astype(np.int32),
        source="noise",
    )


def planted() -> RoutingTrace:
    """Noise in which experts 0 and 1 take turns: 0 serves requests of one domain, 1 the others, in alternate steps."""
    quiet = noise(requests=24, positions=60, experts=8)
    ids = np.array(quiet.ids)
    assert quiet.request is not None
    assert quiet.position is not None
    domain = quiet.request % 2
    late = (quiet.position // 6) % 2
    for side, expert in ((0, 0), (1, 1)):
        rows = np.flatnonzero((domain == side) & (late == side))
        others = np.where(ids[rows, 0, 0] < 2, 2 + ids[rows, 0, 0], ids[rows, 0, 0])
        ids[rows, 0, 0], ids[rows, 0, 1] = expert, others
    return replace(quiet, ids=ids, domain=domain.astype(np.int16), domains=("even", "odd"), source="planted")


counts_of_steps = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).integers(0, 6, (int(seed % 17) + 4, int(seed % 4) + 2))
)


@settings(max_examples=25)
@given(counts_of_steps)
def test_correlation_and_shifts_against_a_slow_reference(counts: np.ndarray[Any, Any]) -> None:
    steps, experts = counts.shape
    r, p = correlation(counts), circular_shift_p(counts)
    for a in range(experts):
        for b in range(experts):
            if a == b:
                continue
            x, y = counts[:, a].astype(float), counts[:, b].astype(float)
            if x.std() == 0 or y.std() == 0:
                assert np.isnan(r[a, b])
                assert np.isnan(p[a, b])
                continue
            assert r[a, b] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
            lower = sum(int(counts[:, a] @ np.roll(counts[:, b], -s)) <= int(x @ y) for s in range(1, steps))
            assert p[min(a, b), max(a, b)] == p[a, b]
            assert p[a, b] == (1 + lower) / steps or a > b


def test_pooled_quantile_is_that_of_all_shifts() -> None:
    counts = np.random.default_rng(3).integers(0, 9, (40, 5))
    drawn = [
        np.corrcoef(counts[:, a], np.roll(counts[:, b], -s))[0, 1]
        for a in range(5)
        for b in range(a + 1, 5)
        for s in range(1, 40)
    ]
    assert _pooled_quantile(counts, 0.05) == pytest.approx(np.quantile(drawn, 0.05, method="lower"), abs=2e-3)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=20), st.sampled_from([0.05, 0.2]))
def test_false_discovery_control_against_its_definition(ranks: list[int], rate: float) -> None:
    p = np.array(ranks) / 100
    kept = [n for n in range(1, len(p) + 1) if np.sort(p)[n - 1] <= rate * n / len(p)]
    threshold = np.sort(p)[kept[-1] - 1] if kept else -1.0
    chosen = benjamini_hochberg(p, rate)
    assert int(chosen.sum()) == (kept[-1] if kept else 0)
    assert p[chosen].max(initial=-1.0) == threshold
    assert bool((p[~chosen] >= threshold).all())


def test_dealing_anew_keeps_step_totals_and_every_tokens_experts() -> None:
    series = step_series(planted(), 12, at_least=20, why="a test")
    recorded = series.counts(0)
    slow = [Counter(series.trace.ids[rows, 0].reshape(-1).tolist()) for rows in series.rows]
    assert recorded.tolist() == [[step[e] for e in range(8)] for step in slow]
    for step in (series.permuted(RandomStream(1, 0)), series.rotated(RandomStream(1, 0))):
        dealt = series.counts(0, step)
        assert bool((np.bincount(step, minlength=series.steps) == series.tokens).all())
        assert dealt.sum(axis=1).tolist() == recorded.sum(axis=1).tolist()
        assert dealt.sum(axis=0).tolist() == recorded.sum(axis=0).tolist()
        assert not np.array_equal(dealt, recorded)


def test_rotation_keeps_the_course_of_every_request() -> None:
    series = step_series(noise(), 12, at_least=20, why="a test")
    step = series.rotated(RandomStream(3, 0)).reshape(series.rows.shape)
    for start in (0, 60):  # two runs of twelve requests
        for column in range(12):
            offset = step[start, column] - start
            assert step[start : start + 60, column].tolist() == [start + (n + offset) % 60 for n in range(60)]


def one(found: Complementarity) -> Any:
    (layer,) = found.layers
    return layer


def test_noise_is_flagged_by_shifts_and_not_by_permutations() -> None:
    """The circular-shift test breaks the fixed sum of a step; permutations keep it."""
    layer = one(analyse(noise(), batch_tokens=12, permutations=199))
    assert layer.pairs == 28
    assert layer.median_r == pytest.approx(-1 / 7, abs=0.05)
    assert layer.flagged_share > 0.3
    assert layer.shuffled_share > 0.3
    assert layer.nominal_share <= 0.15
    assert layer.survives_share == 0
    assert layer.exceeds_share == 0
    assert layer.domain_survives is None


@pytest.mark.parametrize("deal", ["permute", "rotate"])
def test_a_planted_pair_survives(deal: Any) -> None:
    layer = one(analyse(planted(), batch_tokens=24, permutations=599, deal=deal))
    assert layer.survives[0, 1]
    assert layer.survives[1, 0]
    assert layer.r[0, 1] < -0.5
    assert layer.p_low[0, 1] == 1 / 600
    assert layer.domain_survives is not None
    assert layer.domain_survives.flagged > layer.domain_survives.others
    assert layer.domain_survives.p < 0.05
    assert not layer.exceeds[0, 1]


def test_same_seed_same_figures() -> None:
    a, b = (one(analyse(planted(), batch_tokens=12, permutations=39, seed=4)) for _ in range(2))
    assert np.array_equal(a.p_low, b.p_low, equal_nan=True)
    assert a.shuffled_shares == b.shuffled_shares
    assert len(a.shuffled_shares) == 3


def test_too_short_a_trace_says_how_many_steps_are_needed() -> None:
    with pytest.raises(
        TraceError, match=r"3 steps of 64 tokens; .* 0.05 .* needs at least 20 steps; steps of 8 tokens"
    ):
        analyse(noise(requests=64, positions=3), batch_tokens=64)
    with pytest.raises(TraceError, match="needs at least 100 steps"):
        analyse(noise(requests=8, positions=30), batch_tokens=8, alpha=0.01)


def test_bad_input() -> None:
    with pytest.raises(TraceError, match=r"layer 3: expected MoE layer 0\.\.0"):
        analyse(noise(), batch_tokens=12, layers=(3,))
    uneven = noise()
    ids = np.array(uneven.ids)
    ids[5, 0, 1] = -1
    with pytest.raises(TraceError, match="1 tokens have fewer than 2 experts"):
        analyse(replace(uneven, ids=ids), batch_tokens=12)
    with pytest.raises(TraceError, match="no request boundaries"):
        analyse(replace(noise(), request=None, position=None), batch_tokens=12, deal="rotate", permutations=19)
    same = replace(noise(), ids=np.zeros_like(noise().ids[:, :, :1]))
    with pytest.raises(TraceError, match="at least two experts whose load changes"):
        analyse(same, batch_tokens=12, permutations=19)
    for options, text in (
        ({"alpha": 0.0}, "alpha"),
        ({"false_discovery_rate": 1.0}, "false_discovery_rate"),
        ({"permutations": 5}, "at least 19"),
        ({"shuffles": 2000}, "shuffles"),
        ({"shift_null": "paired"}, "pair or pooled"),
        ({"deal": "shuffle"}, "permute or rotate"),
        ({"batch_tokens": 0}, "batch_tokens"),
    ):
        with pytest.raises(ValueError, match=text):
            analyse(noise(), **{"batch_tokens": 12, **options})  # type: ignore[arg-type]


def test_command(tmp_path: Path) -> None:
    trace.save(planted(), tmp_path / "t.npz")
    arguments = ["trace", "complementarity", str(tmp_path / "t.npz"), "--batch-tokens", "24", "--permutations", "599"]
    result = CliRunner().invoke(main, [*arguments, "--pairs", str(tmp_path / "pairs.csv")])
    assert result.exit_code == 0, result.output
    assert "60 of 24 tokens; top 2 of 8 experts" in result.output
    for word in ("median r", "shift", "shuffled", "low", "survive", "exceed", "domain p"):
        assert f"\n  {word:<9} " in result.output
    with (tmp_path / "pairs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 28
    assert rows[0]["survives"] == "1"
    result = CliRunner().invoke(main, [*arguments, "--json"])
    found = json.loads(result.stdout)
    assert found["layers"][0]["pairs"] == 28
    assert found["forced_r"] == pytest.approx(-1 / 7)
    assert found["layers"][0]["domain_survives"]["p"] < 0.05


@pytest.mark.public_traces
@pytest.mark.parametrize(
    ("name", "tokens", "layers", "flagged", "shuffled"),
    [
        ("hdmoe_mixtral8x7b_mtbench/mixtral8x7b_mtbench_topk.npz", 64, (0, 8, 16, 24), 0.64, 0.85),
        ("gptoss20b_decode/gptoss20b_decode_topk.npz", 152, (0, 8, 16), 0.37, 0.33),
    ],
)
def test_on_recordings_shuffled_tokens_are_flagged_as_often(
    public_trace: Callable[[str], Path],
    name: str,
    tokens: int,
    layers: tuple[int, ...],
    flagged: float,
    shuffled: float,
) -> None:
    """Shares as another program found them over all layers (the README of the sets); here over some layers."""
    loaded = trace.load(public_trace(name))
    found = analyse(loaded, batch_tokens=tokens, layers=layers, permutations=19, shuffles=2)
    share = float(np.mean([layer.flagged_share for layer in found.layers]))
    noise_share = float(np.mean([layer.shuffled_share for layer in found.layers]))
    assert share == pytest.approx(flagged, abs=0.12)
    assert noise_share == pytest.approx(shuffled, abs=0.08)
    assert noise_share > 5 * found.alpha  # the nominal level is 5 %
