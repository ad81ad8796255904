"""What a routing trace looks like: skew, locality and predictability, layer by layer.

All figures are computed from the ids alone; empty slots (-1) count nowhere. Sums are integers, divisions come last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.routing import RoutingTrace

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Ids = NDArray[np.signedinteger[Any]]

BLOCK_ROWS = 64
"""Rows of one block where a trace without requests is dealt into fitting and testing blocks."""
MAX_TEST_ROWS = 65536
"""Rows the recall is tested on at most, evenly spaced."""


def load_counts(trace: RoutingTrace) -> Counts:
    """Slots routed to each expert, `[layer, expert]`."""
    return np.stack([_counts(trace.ids[:, layer], trace.experts) for layer in range(trace.layers)])


def _counts(ids: Ids, experts: int) -> Counts:
    flat = ids.reshape(-1)
    flat = flat[flat >= 0]
    return np.bincount(flat, minlength=experts).astype(np.int64)


def max_over_mean(counts: Counts) -> Floats:
    """Load of the hottest expert over the mean load of all experts; counts `[..., expert]`."""
    total = counts.sum(axis=-1)
    return np.asarray(counts.max(axis=-1) * counts.shape[-1] / np.maximum(total, 1), dtype=np.float64)


def zipf_slope(counts: Counts) -> float:
    """Exponent a of load ~ rank**-a: least squares of log(load) on log(rank) over all experts with any load.

    Returns NaN where fewer than two experts have load.
    """
    load = np.sort(counts[counts > 0])[::-1].astype(np.float64)
    if load.size < 2:
        return float("nan")
    x, y = np.log(np.arange(1, load.size + 1)), np.log(load)
    x = x - x.mean()
    return float(-(x * (y - y.mean())).sum() / (x * x).sum())


def gini(counts: Counts) -> float:
    """Gini coefficient of the load over all experts: 0 = equal, 1 - 1/E = one expert takes all."""
    load = np.sort(counts)
    total = int(load.sum())
    if total == 0:
        return float("nan")
    n = load.size
    return float(((2 * np.arange(1, n + 1) - n - 1) * load).sum()) / (n * total)


def entropy_bits(counts: Counts) -> float:
    """Shannon entropy of the load shares in bits; log2(E) = equal load."""
    total = int(counts.sum())
    if total == 0:
        return float("nan")
    share = counts[counts > 0] / total
    return float(-(share * np.log2(share)).sum())


def follows(trace: RoutingTrace, distance: int = 1) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of rows whose tokens are `distance` positions apart in one request.

    Where the trace keeps no request boundaries: rows `distance` apart in file order inside one domain.
    """
    if trace.request is not None and trace.position is not None:
        order = np.lexsort((trace.position, trace.request))
        first, second = order[:-distance], order[distance:]
        same = (trace.request[first] == trace.request[second]) & (
            trace.position[second] - trace.position[first] == distance
        )
        return first[same], second[same]
    rows = np.arange(trace.tokens, dtype=np.int64)
    first, second = rows[:-distance], rows[distance:]
    if trace.domain is not None:
        same = trace.domain[first] == trace.domain[second]
        return first[same], second[same]
    return first, second


def shared_share(a: Ids, b: Ids) -> float:
    """Share of the slots of `a` `[row, slot]` whose expert is also in the same row of `b`; NaN without slots."""
    hits = np.zeros(a.shape, dtype=np.bool_)
    for slot in range(b.shape[1]):
        hits |= a == b[:, slot : slot + 1]
    valid = a >= 0
    filled = int(np.count_nonzero(valid))
    return int(np.count_nonzero(hits & valid)) / filled if filled else float("nan")


def overlap(trace: RoutingTrace, distance: int = 1) -> Floats:
    """Per layer, the share of a token's experts that the token `distance` later uses too (see `follows`)."""
    first, second = follows(trace, distance)
    return np.array([shared_share(trace.ids[first, n], trace.ids[second, n]) for n in range(trace.layers)])


def overlap_by_load(counts: Counts, tokens: int, top_k: int) -> Floats:
    """Overlap of two independent tokens that follow the layer's load: sum of squared pick probabilities / Top-k."""
    return np.asarray(((counts / max(tokens, 1)) ** 2).sum(axis=-1) / top_k, dtype=np.float64)


def transitions(a: Ids, b: Ids, experts: int) -> Counts:
    """How often expert i of `a` and expert j of `b` serve the same row, `[i, j]`, over all pairs of slots."""
    table = np.zeros(experts * experts, dtype=np.int64)
    for first in range(a.shape[1]):
        for second in range(b.shape[1]):
            both = (a[:, first] >= 0) & (b[:, second] >= 0)
            key = a[both, first].astype(np.int64) * experts + b[both, second]
            table += np.bincount(key, minlength=experts * experts)
    return table.reshape(experts, experts)


@dataclass(frozen=True)
class Recall:
    """How much of the next layer's Top-k a predictor names, on rows it was not fitted on.

    Attributes:
        conditional: predictor that names the k experts e with the largest 1 - prod(1 - P(e | i)), the product over the
            token's experts i: the chance that at least one of them leads to e, taken as independent (noisy-or).
        popularity: predictor that always names the next layer's k hottest experts.
    """

    conditional: float
    popularity: float


def held_out_rows(trace: RoutingTrace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to fit on and rows to test on: requests (blocks of BLOCK_ROWS rows without them) of even and odd number."""
    if trace.request is None:
        odd = (np.arange(trace.tokens) // BLOCK_ROWS) % 2 == 1
    else:
        _, first, number = np.unique(trace.request, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        odd = rank[number] % 2 == 1
    return np.flatnonzero(~odd), np.flatnonzero(odd)


def transition_recall(trace: RoutingTrace, layer: int) -> Recall:
    """Predictability of layer `layer + 1` from layer `layer`; NaN where there are no rows to test on."""
    fit, test = held_out_rows(trace)
    if test.size > MAX_TEST_ROWS:
        test = test[np.arange(MAX_TEST_ROWS) * test.size // MAX_TEST_ROWS]
    a, b = trace.ids[:, layer], trace.ids[:, layer + 1]
    return recall(a[fit], b[fit], a[test], b[test], trace.experts)


def recall(
    fit_a: Ids,
    fit_b: Ids,
    test_a: Ids,
    test_b: Ids,
    experts: int,
) -> Recall:
    """Recall of both predictors, fitted on one set of rows and tested on another; ids `[row, slot]`."""
    if not test_a.shape[0]:
        return Recall(float("nan"), float("nan"))
    top_k = test_b.shape[1]
    table = transitions(fit_a, fit_b, experts)
    given = table / np.maximum(_counts(fit_a, experts), 1)[:, None]
    claim = -np.log1p(-np.minimum(given, 1 - 1e-12))
    claim = np.vstack([claim, np.zeros((1, experts))])  # row -1 serves empty slots
    hits = filled = 0
    chunk = max(1, (4 << 20) // experts)
    for start in range(0, test_a.shape[0], chunk):
        a, b = test_a[start : start + chunk], test_b[start : start + chunk]
        score = np.zeros((a.shape[0], experts))
        for slot in range(a.shape[1]):
            score += claim[a[:, slot]]
        named = np.argsort(-score, axis=1, kind="stable")[:, :top_k]
        hit, slots = _hits(b, named)
        hits, filled = hits + hit, filled + slots
    hottest = np.argsort(-_counts(fit_b, experts), kind="stable")[:top_k]
    popular, _ = _hits(test_b, np.broadcast_to(hottest, (test_b.shape[0], top_k)))
    if not filled:
        return Recall(float("nan"), float("nan"))
    return Recall(hits / filled, popular / filled)


def _hits(ids: Ids, named: NDArray[np.int64]) -> tuple[int, int]:
    found = np.zeros(ids.shape, dtype=np.bool_)
    for slot in range(named.shape[1]):
        found |= ids == named[:, slot : slot + 1]
    return int(np.count_nonzero(found)), int(np.count_nonzero(ids >= 0))


def load_correlation(a: Counts, b: Counts) -> Floats:
    """Pearson correlation of two loads per layer, counts `[layer, expert]`; NaN where one of them is constant."""
    x = a - a.mean(axis=1, keepdims=True)
    y = b - b.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1)), dtype=np.float64)


def halves(trace: RoutingTrace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the first and second half: of the requests in file order, of the rows without requests."""
    requests = trace.requests
    if requests is None or trace.request is None:
        rows = np.arange(trace.tokens, dtype=np.int64)
        return rows[: trace.tokens // 2], rows[trace.tokens // 2 :]
    late = np.isin(trace.request, requests[requests.size // 2 :])
    return np.flatnonzero(~late), np.flatnonzero(late)


def step_groups(trace: RoutingTrace, batch_tokens: int) -> NDArray[np.int64]:
    """Rows of batches as serving forms them, `[batch, token]`; incomplete batches are left out.

    With request boundaries: the n-th recorded row of each of `batch_tokens` requests that follow each other in file
    order. Without: consecutive rows.
    """
    if trace.request is None or trace.position is None:
        count = trace.tokens // batch_tokens
        return np.arange(count * batch_tokens, dtype=np.int64).reshape(count, batch_tokens)
    _, first, number = np.unique(trace.request, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")[number]
    order = np.lexsort((trace.position, rank))
    starts = np.flatnonzero(np.diff(rank[order], prepend=-1))
    place = np.empty(trace.tokens, dtype=np.int64)
    place[order] = np.arange(trace.tokens) - np.repeat(starts, np.diff(np.append(starts, trace.tokens)))
    by_step = np.lexsort((rank, place, rank // batch_tokens))
    key = (rank // batch_tokens)[by_step] * (int(place.max()) + 1) + place[by_step]
    cuts = np.flatnonzero(np.diff(key, prepend=-1))
    sizes = np.diff(np.append(cuts, key.size))
    whole = cuts[sizes == batch_tokens]
    groups: NDArray[np.int64] = by_step[whole[:, None] + np.arange(batch_tokens)[None, :]]
    return groups


@dataclass(frozen=True)
class BatchLoad:
    """Means over layers and batches.

    Attributes:
        batch_tokens: tokens per batch.
        batches: how many whole batches the trace holds.
        max_over_mean: load of the hottest expert of a batch over the mean load of all experts.
        experts_touched: experts of a layer that get at least one token.
    """

    batch_tokens: int
    batches: int
    max_over_mean: float
    experts_touched: float


def batch_load(trace: RoutingTrace, batch_tokens: int) -> BatchLoad | None:
    """Load of the batches of `step_groups`, or None where the trace holds no whole one."""
    groups = step_groups(trace, batch_tokens)
    count = groups.shape[0]
    if not count:
        return None
    offset = np.arange(count, dtype=np.int64)[:, None] * trace.experts
    touched = filled = 0
    imbalance = 0.0
    for layer in range(trace.layers):
        ids = trace.ids[groups, layer].reshape(count, -1).astype(np.int64)
        keys = (ids + offset)[ids >= 0]
        load = np.bincount(keys, minlength=count * trace.experts).reshape(count, trace.experts)
        touched += int(np.count_nonzero(load))
        busy = load.sum(axis=1) > 0
        filled += int(np.count_nonzero(busy))
        imbalance += float(max_over_mean(load[busy]).sum())
    return BatchLoad(batch_tokens, count, imbalance / max(filled, 1), touched / (count * trace.layers))


@dataclass(frozen=True)
class LayerStatistics:
    """Figures of one MoE layer; the module's functions of the same names define them.

    Attributes:
        layer: MoE layer.
        decoder_layer: the same in the model's own numbering.
        recall: predictability of the next MoE layer, None for the last.
        half_correlation: load of the first half of the trace against the second.
    """

    layer: int
    decoder_layer: int
    experts_used: int
    max_over_mean: float
    zipf_slope: float
    gini: float
    entropy_bits: float
    overlap: float
    overlap_by_load: float
    recall: Recall | None
    half_correlation: float


@dataclass(frozen=True)
class TraceStatistics:
    """All figures `cosim trace inspect` prints.

    Attributes:
        layers: one entry per MoE layer asked for.
        batches: load of batches of some sizes.
        uniform_overlap: Top-k / experts, the overlap of tokens routed at random.
    """

    layers: tuple[LayerStatistics, ...]
    batches: tuple[BatchLoad, ...]
    uniform_overlap: float


def describe(
    trace: RoutingTrace, *, layers: tuple[int, ...] | None = None, batch_tokens: tuple[int, ...] = (16, 64, 256)
) -> TraceStatistics:
    """Figures of some layers (all by default) and of batches of the given sizes (those the trace can fill).

    Args:
        trace: the trace.
        layers: MoE layers.
        batch_tokens: batch sizes.

    Raises:
        ValueError: on a layer the trace does not have.
    """
    chosen = tuple(range(trace.layers)) if layers is None else layers
    for layer in chosen:
        if not 0 <= layer < trace.layers:
            raise ValueError(f"layer: expected 0..{trace.layers - 1}, got {layer}")
    first, second = follows(trace)
    early, late = halves(trace)
    found = []
    for layer in chosen:
        ids = trace.ids[:, layer]
        counts = _counts(ids, trace.experts)
        correlation = load_correlation(
            _counts(ids[early], trace.experts)[None], _counts(ids[late], trace.experts)[None]
        )
        found.append(
            LayerStatistics(
                layer=layer,
                decoder_layer=int(trace.layer_map[layer]),
                experts_used=int(np.count_nonzero(counts)),
                max_over_mean=float(max_over_mean(counts)),
                zipf_slope=zipf_slope(counts),
                gini=gini(counts),
                entropy_bits=entropy_bits(counts),
                overlap=shared_share(ids[first], ids[second]),
                overlap_by_load=float(overlap_by_load(counts, trace.tokens, trace.top_k)),
                recall=transition_recall(trace, layer) if layer + 1 < trace.layers else None,
                half_correlation=float(correlation[0]),
            )
        )
    loads = (batch_load(trace, size) for size in batch_tokens)
    return TraceStatistics(tuple(found), tuple(load for load in loads if load), trace.top_k / trace.experts)
