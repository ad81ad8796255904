"""Synthetic routing: the Zipf-Markov generator.

It draws the k experts of a token and layer by Pareto sampling (Rosen, "On sampling with probability proportional to
size", J. Stat. Plan. Inference 62, 1997): expert e with inclusion probability p_e gets the ranking variable
u (1 - p_e) / ((1 - u) p_e), u uniform, and the k smallest win; every expert is then picked with a probability close to
p_e, never twice.

Zipf-Markov. In every layer the load follows rank**-alpha, under a seeded order of the experts. Cross-layer
predictability comes from sharing the u: the expert of rank r in layer n + 1 keeps the u of rank r in layer n with
probability q, else it gets a fresh one. The load of every layer is therefore exactly that of layer 0, whatever q; q is
found by bisection so that the recall of the conditional predictor of `statistics.recall` is rho, or given as `keep`.

A hot set that moves. With `drift_positions` the order of the experts changes after every so many positions of a
request, at the same positions in all of them, in each layer by itself: `drift_share` of the experts, drawn by the seed,
deal their places in the order among themselves. The load by rank, and how well one layer predicts the next, stay what
they are.

`draw: successive` picks the k experts one after the other, each in proportion to rank**-alpha among those that are left
(the k smallest of -log(u) / weight: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", Inf. Process.
Lett. 97, 2006). It exists for every alpha, but the load falls off less than rank**-alpha the larger alpha is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.random import RandomStream
from cosim.trace.routing import PHASES, RoutingTrace, compact_ids_dtype
from cosim.trace.statistics import recall

#: How the k experts of a token are drawn.
DRAWS = ("inclusion", "successive")

_SOURCE = "generator"
_CALIBRATION_ROWS = 16384
_BISECTIONS = 10
_CHUNK_CELLS = 1 << 21
# streams of one seed, far apart per layer
_ORDER, _FRESH, _KEEP, _CALIBRATE, _DRIFT = (0x7A6D0000 + n for n in range(5))

Floats = NDArray[np.float64]


def zipf_markov(
    *,
    layers: int,
    experts: int,
    top_k: int,
    requests: int,
    positions: int,
    alpha: float,
    rho: float | None = None,
    keep: float | None = None,
    draw: str = "inclusion",
    seed: int,
    prompt_tokens: int = 0,
    drift_positions: int | None = None,
    drift_share: float = 1.0,
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
        keep: instead of rho, the probability itself that an expert keeps its u from one layer to the next, 0 to 1.
        draw: `inclusion`: the load follows rank**-alpha exactly. `successive`: see above.
        seed: of everything.
        prompt_tokens: leading positions that are prefill, the rest is decode.
        drift_positions: positions after which the set of hot experts moves; None: it never does.
        drift_share: of the experts of a layer whose places are dealt anew when it moves.

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
    if (rho is None) == (keep is None):
        problems.add(f"rho, keep: expected one of them, got {'neither' if rho is None else 'both'}")
    for name, value in (("rho", rho), ("keep", keep)):
        if value is not None and not (np.isfinite(value) and 0 <= value <= 1):
            problems.add(f"{name}: expected 0..1, got {value}")
    if draw not in DRAWS:
        problems.add(f"draw: expected one of {', '.join(DRAWS)}, got {draw!r}{did_you_mean(draw, DRAWS)}")
    check_drift(problems, positions, drift_positions, drift_share)
    problems.raise_if_any()
    choose = _chooser(draw, alpha, experts, top_k)
    if keep is None:
        assert rho is not None
        keep = _calibrate(alpha, experts, top_k, draw, rho, seed) if layers > 1 else 0.0
    tokens = requests * positions
    ranks = np.empty((tokens, layers, top_k), dtype=compact_ids_dtype(experts))
    step = max(1, _CHUNK_CELLS // experts)
    streams = [RandomStream(seed, _FRESH + (n << 40)) for n in range(layers)]
    keepers = [RandomStream(seed, _KEEP + (n << 40)) for n in range(layers)]
    for start in range(0, tokens, step):
        count = min(step, tokens - start)
        current = streams[0].units(count * experts).reshape(count, experts)
        ranks[start : start + count, 0] = choose(current)
        for layer in range(1, layers):
            kept = _like(keepers[layer], current) <= keep
            current = np.where(kept, current, _like(streams[layer], current))
            ranks[start : start + count, layer] = choose(current)
    ids = np.empty_like(ranks)
    epoch = np.tile(np.arange(positions) // (drift_positions or positions), requests)
    for layer in range(layers):
        orders = _orders(layer, experts, seed, int(epoch[-1]) + 1, round(drift_share * experts))
        ids[:, layer] = orders[epoch[:, np.newaxis], ranks[:, layer]]
    return as_trace(ids, experts, requests, positions, prompt_tokens, "synthetic", f"zipf_markov seed {seed}")


def _chooser(draw: str, alpha: float, experts: int, top_k: int) -> Callable[[Floats], NDArray[np.int64]]:
    """Top-k columns of every row of u."""
    if draw == "inclusion":
        return partial(pick, share=_inclusion(alpha, experts, top_k), top_k=top_k)
    weight = np.asarray(np.arange(1, experts + 1, dtype=np.float64) ** -alpha, dtype=np.float64)

    def successive(u: Floats) -> NDArray[np.int64]:
        with np.errstate(divide="ignore"):
            return _smallest(-np.log(u) / weight, top_k)

    return successive


def _orders(layer: int, experts: int, seed: int, epochs: int, moved: int) -> NDArray[np.int64]:
    """Expert of each rank of a layer, from one move of the hot set to the next, shape (epochs, experts)."""
    order = RandomStream(seed, _ORDER + (layer << 40)).permutation(experts).astype(np.int64)
    moves = RandomStream(seed, _DRIFT + (layer << 40))
    orders = [order]
    for _ in range(1, epochs):
        places = moves.permutation(experts)[:moved]
        order = order.copy()
        order[places] = order[places[moves.permutation(moved)]]
        orders.append(order)
    return np.stack(orders)


def check_drift(problems: Problems, positions: int, drift_positions: int | None, drift_share: float) -> None:
    """Notes moves of the hot set that no trace can have, or that this one would never see."""
    if drift_positions is not None and not 1 <= drift_positions < positions:
        problems.add(f"drift_positions: expected 1 to below positions ({positions}), got {drift_positions}")
    if not (np.isfinite(drift_share) and 0 < drift_share <= 1):
        problems.add(f"drift_share: expected above 0, at most 1, got {drift_share}")
    if drift_positions is None and drift_share != 1:
        problems.add(f"drift_share: only read with drift_positions, got {drift_share} without")


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
                f"Top-{top_k}; at most {low:.3f} is possible (draw 'successive' takes any)"
            ],
        )
    return np.minimum(share, 1.0)


def pick(u: Floats, share: Floats, top_k: int) -> NDArray[np.int64]:
    """Pareto sampling of Top-k columns per row; the strongest claim (smallest ranking variable) first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = share / (1 - share)
        ranking = u / (1 - u) / odds  # u = 1 gives inf: last in line, as it should be
    return _smallest(np.where(share <= 0, np.inf, ranking), top_k)


def _smallest(ranking: Floats, top_k: int) -> NDArray[np.int64]:
    best = np.argpartition(ranking, top_k - 1, axis=1)[:, :top_k]
    order = np.argsort(np.take_along_axis(ranking, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1).astype(np.int64)


def _like(stream: RandomStream, current: Floats) -> Floats:
    return stream.units(current.size).reshape(current.shape)


@lru_cache(maxsize=64)
def _calibrate(alpha: float, experts: int, top_k: int, draw: str, rho: float, seed: int) -> float:
    """The probability q of keeping u at which the conditional predictor's recall is rho."""
    choose = _chooser(draw, alpha, experts, top_k)
    rows = _CALIBRATION_ROWS
    half = rows // 2
    u = RandomStream(seed, _CALIBRATE).units(rows * experts).reshape(rows, experts)
    fresh, keeper = (_like(RandomStream(seed, _CALIBRATE + (n << 40)), u) for n in (1, 2))
    first = choose(u)

    def reached(keep: float) -> tuple[float, float]:
        second = choose(np.where(keeper <= keep, u, fresh))
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
