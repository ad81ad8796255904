"""Routing drawn to match counts of a recording that is not itself at hand.

Loads alone: every token picks its k experts by Pareto sampling (see `generate`) with the inclusion probabilities of the
loads, layer by layer independently.

With transition counts the choice in a layer depends on the token's experts in the layer before:

- **All pairs** (a token with experts S and then S' counts k * k pairs). Among all conditional choices P(S' | S) with
  these pair counts, the one of largest entropy is log-linear: weight of S' = exp(sum over j in S' of z_j), z = b +
  sum over i in S of W_i. W is found by iterative scaling on a sample of rows of the layer before: W += step *
  log(counted / expected). Inclusion probabilities given S are sigmoid(z_j + c), c such that they sum to k, and are
  drawn by Pareto sampling; both approximate the exact conditional Poisson sampling closely (Rosen 1997, cited in
  `generate`).
- **Slot by slot** (the n-th strongest expert of one layer with the n-th of the next: k counts a token). Slot n of the
  next layer is drawn from row (slot n before) of a table among the experts not taken yet; the table is scaled in the
  same way until the expected slot-wise counts are the counted ones.

Both need no more than sums over rows, so that results do not depend on a linear-algebra library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.generate import Floats, as_trace, check_sizes, pick
from cosim.trace.problems import Problems, TraceError
from cosim.trace.random import RandomStream
from cosim.trace.routing import RoutingTrace, compact_ids_dtype

_CHUNK_CELLS = 1 << 21
_FRESH = 0x66697400  # streams of one seed, far apart per layer
_ROWS = 4096
_ITERATIONS = 24
_SLOT_ITERATIONS = 14


def fitted(
    counts: NDArray[np.int64],
    *,
    source: str,
    top_k: int,
    requests: int,
    positions: int,
    seed: int,
    transition_counts: NDArray[np.int64] | None = None,
    prompt_tokens: int = 0,
) -> RoutingTrace:
    """A trace drawn to match counts of a recording that is not itself at hand.

    Args:
        counts: slots routed to each expert, `[layer, expert]`.
        source: what the counts come from; kept in the provenance `fitted(<source>)`.
        top_k, requests, positions, seed, prompt_tokens: as in `zipf_markov`.
        transition_counts: `[layer - 1, expert, expert]`, how often expert i of a layer and expert j of the next serve
            one token: over all pairs of slots (Top-k times as many as the load counts), or slot by slot (as many as
            the load counts). Without them layers are independent.

    Raises:
        TraceError: on counts that are negative, empty in a layer, of the wrong shape, of a load no Top-k can have (an
            expert picked by more than every token), or transitions that do not add up with the loads.
    """
    problems = Problems(source)
    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.dtype.kind not in "iu" or 0 in counts.shape:
        raise TraceError(
            source, [f"counts: expected integers [layer, expert], got {counts.dtype} {list(counts.shape)}"]
        )
    layers, experts = counts.shape
    check_sizes(problems, layers, experts, top_k, requests, positions, prompt_tokens)
    if counts.min() < 0:
        problems.add("counts: negative", count=int(np.count_nonzero(counts < 0)))
    for layer in np.flatnonzero(counts.sum(axis=1) <= 0).tolist():
        problems.add("counts: a layer without load", f"layer {layer}")
    problems.raise_if_any()
    shares = counts / counts.sum(axis=1, keepdims=True) * top_k
    for layer in np.flatnonzero(shares.max(axis=1) > 1).tolist():
        problems.add(
            "counts: an expert picked by more than every token",
            f"layer {layer}, expert {int(shares[layer].argmax())}: {shares[layer].max():.3f} times at Top-{top_k}",
        )
    for layer in np.flatnonzero((counts > 0).sum(axis=1) < top_k).tolist():
        problems.add(f"counts: fewer than {top_k} experts with load", f"layer {layer}")
    slotwise = False
    if transition_counts is not None:
        slotwise = _check_transitions(np.asarray(transition_counts), counts, top_k, problems)
    problems.raise_if_any()
    tokens = requests * positions
    ids = np.empty((tokens, layers, top_k), dtype=compact_ids_dtype(experts))
    step = max(1, _CHUNK_CELLS // experts)
    for layer in range(layers):
        stream = RandomStream(seed, _FRESH + (layer << 40))
        table = None
        if transition_counts is not None and layer:
            sample = ids[:: -(-tokens // _ROWS), layer - 1].astype(np.int64)
            target = np.asarray(transition_counts[layer - 1], dtype=np.float64)
            scale = _scale_slots if slotwise else _scale_pairs
            table = scale(target, shares[layer], sample, top_k)
        for start in range(0, tokens, step):
            count = min(step, tokens - start)
            u = stream.units(count * experts).reshape(count, experts)
            chosen = slice(start, start + count)
            if table is None:
                ids[chosen, layer] = pick(u, shares[layer], top_k)
                continue
            before = ids[chosen, layer - 1].astype(np.int64)
            if slotwise:
                ids[chosen, layer] = _draw_slots(u, table, before)
            else:
                share, _ = _inclusion_given(table, before, top_k, np.zeros((count, 1)), 12)
                ids[chosen, layer] = pick(u, share, top_k)
    return as_trace(ids, experts, requests, positions, prompt_tokens, f"fitted({source})", f"fitted to {source}")


def _check_transitions(table: NDArray[Any], counts: NDArray[Any], top_k: int, problems: Problems) -> bool:
    """Notes what is wrong with transition counts; True if they were counted slot by slot."""
    layers, experts = counts.shape
    wanted = (layers - 1, experts, experts)
    if table.dtype.kind not in "iu" or table.shape != wanted:
        problems.add(
            f"transition_counts: expected integers of shape {list(wanted)}, got {table.dtype} {list(table.shape)}"
        )
        return False
    if table.size and table.min() < 0:
        problems.add("transition_counts: negative", count=int(np.count_nonzero(table < 0)))
        return False
    sums, loads = table.sum(axis=(1, 2)), counts.sum(axis=1)[1:]
    if layers > 1 and np.array_equal(sums, loads):
        return True
    for layer in np.flatnonzero(sums * counts.sum(axis=1)[1:].astype(object) != loads.astype(object) ** 2 * top_k):
        problems.add(
            "transition_counts: expected Top-k times the load of a layer (all pairs) or as much (slot by slot)",
            f"into layer {int(layer) + 1}: {int(sums[layer])} transitions, load {int(loads[layer])}",
        )
    return False


def _inclusion_given(
    table: Floats, before: NDArray[np.int64], top_k: int, offset: Floats, steps: int
) -> tuple[Floats, Floats]:
    """Inclusion probabilities `[row, expert]` of the next layer, and the offsets c that make rows sum to Top-k.

    `table` is W with b / k added to every row, so that z is the sum of its rows.
    """
    z = np.zeros((before.shape[0], table.shape[1]))
    for slot in range(before.shape[1]):
        z += table[before[:, slot]]
    for _ in range(steps):  # Newton on log(sum), which is concave in c for sums below the number of experts
        share = 1.0 / (1.0 + np.exp(-np.clip(z + offset, -60.0, 60.0)))
        total = share.sum(axis=1, keepdims=True)
        slope = np.maximum((share * (1.0 - share)).sum(axis=1, keepdims=True), 1e-9)
        offset = offset + np.clip((top_k - total) / slope, -2.0, 2.0)
    share = 1.0 / (1.0 + np.exp(-np.clip(z + offset, -60.0, 60.0)))
    share *= top_k / share.sum(axis=1, keepdims=True)
    return np.minimum(np.maximum(share, 1e-12), 1.0), offset


def _row_sums(before: NDArray[np.int64], values: Floats, experts: int) -> Floats:
    """Sum of the rows of `values` by expert of the row, `[expert before, expert]`, in a fixed order."""
    order = np.argsort(before, kind="stable")
    held, first = np.unique(before[order], return_index=True)
    sums = np.zeros((experts, values.shape[1]))
    sums[held] = np.add.reduceat(values[order], first, axis=0)
    return sums


def _scale_pairs(target: Floats, share: Floats, before: NDArray[np.int64], top_k: int) -> Floats:
    """W + b / k such that the expected pair counts are those of `target`, by iterative scaling on sampled rows."""
    rows, experts = before.shape[0], target.shape[0]
    held = np.bincount(before.reshape(-1), minlength=experts).astype(np.float64)
    by_row = target.sum(axis=1, keepdims=True)
    load = target.sum(axis=0) / target.sum() if target.sum() else share / share.sum()
    # pairs expected from the sampled rows, if expert i is followed as counted; a little of the load smooths zeros
    follows = (target + 0.05 * load) / (by_row + 0.05)
    wanted = held[:, None] * follows * top_k
    odds = np.log(np.clip(share, 1e-9, 1 - 1e-9) / (1 - np.clip(share, 1e-9, 1 - 1e-9)))
    table: Floats = np.tile(odds / top_k, (experts, 1))
    offset = np.zeros((rows, 1))
    step, before_error = 1.0 / float(np.sqrt(top_k)), np.inf
    for iteration in range(_ITERATIONS):
        given, offset = _inclusion_given(table, before, top_k, offset, 10 if iteration == 0 else 3)
        expected = np.zeros((experts, experts))
        for slot in range(top_k):
            expected += _row_sums(before[:, slot], given, experts)
        error = float(np.abs(wanted - expected).sum())
        if error > before_error:  # too long a step: pairs that share experts pull in one direction
            step *= 0.7
        before_error = error
        table += np.log((wanted + 1e-3) / (expected + 1e-3)) * step * (held[:, None] > 0)
    return table


def _draw_slots(u: Floats, table: Floats, before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Slot by slot from row (slot before) of the log table, among the experts not taken (Gumbel maximum)."""
    noise = -np.log(-np.log(np.clip(u, 1e-300, 1 - 1e-16)))
    chosen = np.empty_like(before)
    free = np.ones(u.shape, dtype=np.bool_)
    rows = np.arange(u.shape[0])
    for slot in range(before.shape[1]):
        # an expert that loses in one slot keeps its noise for the next: the draws stay one per row and expert
        chosen[:, slot] = np.where(free, table[before[:, slot]] + noise, -np.inf).argmax(axis=1)
        free[rows, chosen[:, slot]] = False
    return chosen


def _scale_slots(target: Floats, share: Floats, before: NDArray[np.int64], top_k: int) -> Floats:
    """Log table such that the expected slot-wise counts are those of `target`, by scaling on sampled rows."""
    rows, experts = before.shape[0], target.shape[0]
    load = target.sum(axis=0) / max(float(target.sum()), 1.0)
    follows = (target + 1e-6 * load) / (target.sum(axis=1, keepdims=True) + 1e-6)
    held = np.bincount(before.reshape(-1), minlength=experts).astype(np.float64)
    wanted = held[:, None] * follows
    table: Floats = np.log(np.maximum(follows, 1e-12))
    stream = RandomStream(0x736C6F74, _FRESH)
    u = stream.units(rows * experts).reshape(rows, experts)
    for iteration in range(_SLOT_ITERATIONS):
        drawn = _draw_slots(u, table, before)
        flat = before.reshape(-1) * experts + drawn.reshape(-1)
        expected = np.bincount(flat, minlength=experts * experts).reshape(experts, experts).astype(np.float64)
        pull = held.mean() * 0.05 / experts + 1.0  # few draws tell little: small corrections where counts are small
        if iteration < _SLOT_ITERATIONS - 4:
            table += 0.7 * np.log((wanted + pull) / (expected + pull))
        else:  # the loads last: they are counted with far less scatter than the pairs
            table += 0.7 * np.log((load * rows * top_k + 1.0) / (expected.sum(axis=0) + 1.0))
    return table
