"""Synthetic routing: the Zipf-Markov generator.

It draws the k experts of a token and layer by Pareto sampling (Rosen, "On sampling with probability proportional to
size", J. Stat. Plan. Inference 62, 1997): expert e with inclusion probability p_e gets the ranking variable
u (1 - p_e) / ((1 - u) p_e), u uniform, and the k smallest win; every expert is then picked with a probability close to
p_e, never twice.

Zipf-Markov. In every layer the load follows rank**-alpha, under a seeded order of the experts. Cross-layer
predictability comes from sharing the u: the expert of rank r in layer n + 1 keeps the u of rank r in layer n with
probability q, else it gets a fresh one. The load of every layer is therefore exactly that of layer 0, whatever q; q is
found by bisection so that the recall of the conditional predictor of `statistics.recall` is rho.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.problems import Problems, TraceError
from cosim.trace.random import RandomStream
from cosim.trace.routing import PHASES, RoutingTrace, compact_ids_dtype
from cosim.trace.statistics import recall

_SOURCE = "generator"
_CALIBRATION_ROWS = 16384
_BISECTIONS = 10
_CHUNK_CELLS = 1 << 21
_ORDER, _FRESH, _KEEP, _CALIBRATE = (0x7A6D0000 + n for n in range(4))  # streams of one seed, far apart per layer

Floats = NDArray[np.float64]


def zipf_markov(
    *,
    layers: int,
    experts: int,
    top_k: int,
    requests: int,
    positions: int,
    alpha: float,
    rho: float,
    seed: int,
    prompt_tokens: int = 0,
) -> RoutingTrace:
    """A synthetic trace of known skew and cross-layer predictability.

    Args:
        layers: MoE layers.
        experts: experts per layer.
        top_k: experts per token.
        requests: number of requests.
        positions: tokens of each.
        alpha: Zipf exponent of the load of every layer (0 = equal).
        rho: recall of the conditional next-layer predictor (`statistics.transition_recall`), between the recall of
            naming the hottest experts and about 1.
        seed: of everything.
        prompt_tokens: leading positions that are prefill, the rest is decode.

    Returns:
        The trace, provenance `synthetic`.

    Raises:
        TraceError: on impossible sizes, an alpha at which the hottest expert would be picked more than once per token,
            a rho that cannot be reached.
    """
    problems = Problems(_SOURCE)
    check_sizes(problems, layers, experts, top_k, requests, positions, prompt_tokens)
    if not (np.isfinite(alpha) and alpha >= 0):
        problems.add(f"alpha: expected a number >= 0, got {alpha}")
    if not (np.isfinite(rho) and 0 <= rho <= 1):
        problems.add(f"rho: expected 0..1, got {rho}")
    problems.raise_if_any()
    share = _inclusion(alpha, experts, top_k)
    keep = _calibrate(alpha, experts, top_k, rho, seed) if layers > 1 else 0.0
    tokens = requests * positions
    ranks = np.empty((tokens, layers, top_k), dtype=compact_ids_dtype(experts))
    step = max(1, _CHUNK_CELLS // experts)
    streams = [RandomStream(seed, _FRESH + (n << 40)) for n in range(layers)]
    keepers = [RandomStream(seed, _KEEP + (n << 40)) for n in range(layers)]
    for start in range(0, tokens, step):
        count = min(step, tokens - start)
        current = streams[0].units(count * experts).reshape(count, experts)
        ranks[start : start + count, 0] = pick(current, share, top_k)
        for layer in range(1, layers):
            kept = _like(keepers[layer], current) <= keep
            current = np.where(kept, current, _like(streams[layer], current))
            ranks[start : start + count, layer] = pick(current, share, top_k)
    ids = np.empty_like(ranks)
    for layer in range(layers):
        order = RandomStream(seed, _ORDER + (layer << 40)).permutation(experts)
        ids[:, layer] = order[ranks[:, layer]]
    return as_trace(ids, experts, requests, positions, prompt_tokens, "synthetic", f"zipf_markov seed {seed}")


def check_sizes(
    problems: Problems, layers: int, experts: int, top_k: int, requests: int, positions: int, prompt_tokens: int
) -> None:
    """Notes the sizes that no trace can have."""
    sizes = {"layers": layers, "experts": experts, "top_k": top_k, "requests": requests, "positions": positions}
    for name, value in sizes.items():
        if value < 1:
            problems.add(f"{name}: expected at least 1, got {value}")
    if top_k > experts:
        problems.add(f"top_k: expected at most experts ({experts}), got {top_k}")
    if not 0 <= prompt_tokens <= positions:
        problems.add(f"prompt_tokens: expected 0..positions ({positions}), got {prompt_tokens}")


def _inclusion(alpha: float, experts: int, top_k: int) -> Floats:
    """Probability that a token picks the expert of each rank: proportional to rank**-alpha, summing to Top-k."""
    weight = np.arange(1, experts + 1, dtype=np.float64) ** -alpha
    share = np.asarray(weight / weight.sum() * top_k, dtype=np.float64)
    if top_k < experts and share[0] >= 1:
        low, high = 0.0, alpha
        for _ in range(60):
            middle = (low + high) / 2
            trial = np.arange(1, experts + 1, dtype=np.float64) ** -middle
            low, high = (middle, high) if trial[0] / trial.sum() * top_k < 1 else (low, middle)
        raise TraceError(
            _SOURCE,
            [
                f"alpha: at {alpha} the hottest of {experts} experts would be picked {share[0]:.2f} times a token at "
                f"Top-{top_k}; at most {low:.3f} is possible"
            ],
        )
    return np.minimum(share, 1.0)


def pick(u: Floats, share: Floats, top_k: int) -> NDArray[np.int64]:
    """Pareto sampling of Top-k columns per row; the strongest claim (smallest ranking variable) first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = share / (1 - share)
        ranking = u / (1 - u) / odds  # u = 1 gives inf: last in line, as it should be
    ranking = np.where(share <= 0, np.inf, ranking)
    best = np.argpartition(ranking, top_k - 1, axis=1)[:, :top_k]
    order = np.argsort(np.take_along_axis(ranking, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1).astype(np.int64)


def _like(stream: RandomStream, current: Floats) -> Floats:
    return stream.units(current.size).reshape(current.shape)


@lru_cache(maxsize=64)
def _calibrate(alpha: float, experts: int, top_k: int, rho: float, seed: int) -> float:
    """The probability q of keeping u at which the conditional predictor's recall is rho."""
    share = _inclusion(alpha, experts, top_k)
    rows = _CALIBRATION_ROWS
    half = rows // 2
    u = RandomStream(seed, _CALIBRATE).units(rows * experts).reshape(rows, experts)
    fresh, keeper = (_like(RandomStream(seed, _CALIBRATE + (n << 40)), u) for n in (1, 2))
    first = pick(u, share, top_k)

    def reached(keep: float) -> tuple[float, float]:
        second = pick(np.where(keeper <= keep, u, fresh), share, top_k)
        found = recall(first[:half], second[:half], first[half:], second[half:], experts)
        return found.conditional, found.popularity

    lowest, highest = max(reached(0.0)), reached(1.0)[0]
    if not lowest <= rho <= highest + 1e-9:
        raise TraceError(
            _SOURCE,
            [
                f"rho: expected {lowest:.3f} (naming the hottest finds as much) to {highest:.3f} at this alpha, "
                f"got {rho}"
            ],
        )
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle)[0] < rho else (low, middle)
    return (low + high) / 2


def as_trace(
    ids: NDArray[Any],
    experts: int,
    requests: int,
    positions: int,
    prompt_tokens: int,
    provenance: str,
    source: str,
) -> RoutingTrace:
    """A trace of `requests` requests of `positions` tokens each."""
    position = np.tile(np.arange(positions, dtype=np.int32), requests)
    return RoutingTrace(
        ids=ids,
        experts=experts,
        layer_map=np.arange(ids.shape[1], dtype=np.int32),
        request=np.repeat(np.arange(requests, dtype=np.int32), positions),
        position=position,
        phase=np.where(position < prompt_tokens, PHASES.index("prefill"), PHASES.index("decode")).astype(np.uint8),
        provenance=provenance,
        source=source,
    )
