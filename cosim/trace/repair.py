"""Repairs of the traps that `traps` names: each asked for by the caller, each recorded in the trace.

Nothing here runs by itself. A repair that finds nothing to repair is an error, so that a flag cannot be carried along
where it does not belong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from cosim.trace.problems import Problems, TraceError
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.traps import warm_up_rows


@dataclass(frozen=True)
class Repairs:
    """Which repairs to do, in the order in which they are done.

    Attributes:
        one_copy: the rows are that many equal copies (every data-parallel rank wrote all tokens): the first is kept.
        sequence_first: rows are `[position, sequence]` flattened, of that many sequences: they are put sequence after
            sequence, and request and position are known then.
        drop_warm_up: rows of profile runs and warm-up (long runs of identical rows) are left out.
        drop_empty_rows: rows without a single expert (padding, positions served from a prefix cache) are left out.
        drop_incomplete_requests: requests with missing positions, or that begin after position 0, are left out.
        moe_layers: decoder layers to keep: the others are dense, or of no interest.
        first_moe_layer: decoder layer of the first recorded layer, where the file counts MoE layers from 0.
        drop_empty_slots: slots that no row uses (recorders of fixed width) are left out.
        sort_slots: slots are put in order of weight.
        normalise_weights: the gate weights of a token and layer are made to sum to 1.
    """

    one_copy: int | None = None
    sequence_first: int | None = None
    drop_warm_up: bool = False
    drop_empty_rows: bool = False
    drop_incomplete_requests: bool = False
    moe_layers: tuple[int, ...] | None = None
    first_moe_layer: int | None = None
    drop_empty_slots: bool = False
    sort_slots: bool = False
    normalise_weights: bool = False

    def __bool__(self) -> bool:
        return any(_asked(getattr(self, entry.name)) for entry in fields(self))


def repaired(trace: RoutingTrace, repairs: Repairs, *, phase: str | None = None) -> RoutingTrace:
    """The trace after the repairs; its `repairs` say what was done.

    Args:
        trace: as it was read.
        repairs: which to do.
        phase: phase of all rows, to be stated once `sequence_first` has made requests of them.

    Raises:
        TraceError: when a repair does not fit the trace or finds nothing to do.
    """
    for name, repair in _REPAIRS.items():
        value = getattr(repairs, name)
        if _asked(value):
            trace, done = repair(trace, value)
            trace = replace(trace, repairs=(*trace.repairs, f"{name}: {done}"))
            if name == "sequence_first" and phase is not None:
                trace = replace(trace, phase=np.full(trace.tokens, PHASES.index(phase), dtype=np.uint8))
    return trace


_Repair = Callable[[RoutingTrace, Any], tuple[RoutingTrace, str]]


def _asked(value: Any) -> bool:
    return value is not None and value is not False


def _refuse(trace: RoutingTrace, text: str) -> TraceError:
    return TraceError(trace.source, [text])


def _one_copy(trace: RoutingTrace, copies: int) -> tuple[RoutingTrace, str]:
    size, rest = divmod(trace.tokens, copies) if copies > 1 else (0, 1)
    if rest or not all(
        np.array_equal(trace.ids[:size], trace.ids[n * size : (n + 1) * size]) for n in range(1, copies)
    ):
        raise _refuse(trace, f"one_copy: the {trace.tokens} rows are not {copies} equal copies")
    return trace.take(np.arange(size)), f"kept {size} of {trace.tokens} rows, the first of {copies} equal copies"


def _sequence_first(trace: RoutingTrace, sequences: int) -> tuple[RoutingTrace, str]:
    if trace.request is not None:
        raise _refuse(trace, "sequence_first: the file records requests and positions, nothing is to be guessed")
    if sequences < 2 or trace.tokens % sequences:
        raise _refuse(trace, f"sequence_first: {trace.tokens} rows are not [position, {sequences} sequences]")
    positions = trace.tokens // sequences
    order = np.arange(trace.tokens).reshape(positions, sequences).T.reshape(-1)
    where = np.empty_like(order)
    where[order] = np.arange(trace.tokens)
    scores, scores_token = trace.scores, trace.scores_token
    if scores is not None and scores_token is not None:
        moved = where[scores_token]
        by_row = np.argsort(moved, kind="stable")
        scores, scores_token = scores[by_row], moved[by_row]
    moved_trace = replace(
        trace,
        ids=trace.ids[order],
        weights=None if trace.weights is None else trace.weights[order],
        scores=scores,
        scores_token=scores_token,
        domain=None if trace.domain is None else trace.domain[order],
        request=np.repeat(np.arange(sequences, dtype=np.int32), positions),
        position=np.tile(np.arange(positions, dtype=np.int32), sequences),
    )
    return moved_trace, f"{trace.tokens} rows [{positions} positions, {sequences} sequences] put sequence by sequence"


def _kept(trace: RoutingTrace, name: str, gone: Any, what: str) -> tuple[RoutingTrace, str]:
    count = int(np.count_nonzero(gone))
    if not count:
        raise _refuse(trace, f"{name}: there are no {what}")
    if count == trace.tokens:
        raise _refuse(trace, f"{name}: all {count} rows are {what}")
    return trace.take(np.flatnonzero(~gone)), f"left out {count} of {trace.tokens} rows, {what}"


def _drop_warm_up(trace: RoutingTrace, _: bool) -> tuple[RoutingTrace, str]:
    return _kept(trace, "drop_warm_up", warm_up_rows(trace), "rows in long runs of identical rows")


def _drop_empty_rows(trace: RoutingTrace, _: bool) -> tuple[RoutingTrace, str]:
    return _kept(trace, "drop_empty_rows", (trace.ids < 0).all(axis=(1, 2)), "rows without an expert")


def _drop_incomplete(trace: RoutingTrace, _: bool) -> tuple[RoutingTrace, str]:
    if trace.request is None or trace.position is None:
        raise _refuse(trace, "drop_incomplete_requests: the trace keeps no request boundaries")
    request, rows = np.unique(trace.request, return_counts=True)
    last = np.full(request.size, -1, dtype=np.int64)
    np.maximum.at(last, np.searchsorted(request, trace.request), trace.position)
    incomplete = request[last + 1 != rows]
    gone = np.isin(trace.request, incomplete)
    return _kept(trace, "drop_incomplete_requests", gone, f"rows of {incomplete.size} requests that miss positions")


def _moe_layers(trace: RoutingTrace, layers: tuple[int, ...]) -> tuple[RoutingTrace, str]:
    problems = Problems(trace.source)
    known = trace.layer_map.tolist()
    for layer in layers:
        if layer not in known:
            problems.add("moe_layers: not a recorded layer", str(layer))
    if not layers or len(set(layers)) < len(layers):
        problems.add("moe_layers: expected layers, each once")
    problems.raise_if_any()
    keep = np.array([known.index(layer) for layer in sorted(layers)])
    if keep.size == trace.layers:
        raise _refuse(trace, "moe_layers: these are all recorded layers, there is nothing to leave out")
    kept = replace(
        trace,
        ids=trace.ids[:, keep],
        weights=None if trace.weights is None else trace.weights[:, keep],
        scores=None if trace.scores is None else trace.scores[:, keep],
        layer_map=trace.layer_map[keep],
    )
    return kept, f"kept {keep.size} of {trace.layers} layers"


def _first_moe_layer(trace: RoutingTrace, first: int) -> tuple[RoutingTrace, str]:
    if int(trace.layer_map[0]) != 0:
        raise _refuse(trace, f"first_moe_layer: the first recorded layer is {int(trace.layer_map[0])}, not 0")
    if first < 1:
        raise _refuse(trace, f"first_moe_layer: expected at least 1, got {first}")
    return replace(trace, layer_map=(trace.layer_map + first).astype(np.int32)), f"layers renumbered from {first} on"


def _drop_empty_slots(trace: RoutingTrace, _: bool) -> tuple[RoutingTrace, str]:
    used = np.flatnonzero((trace.ids >= 0).any(axis=(0, 1)))
    if not 0 < used.size < trace.top_k:
        raise _refuse(trace, "drop_empty_slots: no slot is empty in every row")
    kept = replace(
        trace, ids=trace.ids[:, :, used], weights=None if trace.weights is None else trace.weights[:, :, used]
    )
    return kept, f"kept {used.size} of {trace.top_k} slots"


def _sort_slots(trace: RoutingTrace, _: bool) -> tuple[RoutingTrace, str]:
    if trace.weights is None:
        raise _refuse(trace, "sort_slots: the trace has no gate weights")
    order = np.argsort(-trace.weights.astype(np.float32), axis=2, kind="stable")
    moved = int(np.count_nonzero((order != np.arange(trace.top_k)).any(axis=2)))
    if not moved:
        raise _refuse(trace, "sort_slots: the slots are in order of weight")
    ids, weights = (np.take_along_axis(array, order, axis=2) for array in (trace.ids, trace.weights))
    return replace(trace, ids=ids, weights=weights), f"{moved} (token, layer) rows put in order of weight"


def _normalise(trace: RoutingTrace, _: bool) -> tuple[RoutingTrace, str]:
    if trace.weights is None:
        raise _refuse(trace, "normalise_weights: the trace has no gate weights")
    sums = trace.weights.sum(axis=2, dtype=np.float64, keepdims=True)
    off = (sums > 0) & (np.abs(sums - 1) > 0.002)
    if not off.any():
        raise _refuse(trace, "normalise_weights: the gate weights sum to 1")
    scaled = np.divide(trace.weights, sums, out=np.zeros(trace.weights.shape), where=sums > 0)
    return (
        replace(trace, weights=scaled.astype(np.float32)),
        f"{int(np.count_nonzero(off))} of {trace.tokens * trace.layers} (token, layer) rows scaled to sum 1",
    )


_REPAIRS: dict[str, _Repair] = {
    "one_copy": _one_copy,
    "sequence_first": _sequence_first,
    "drop_warm_up": _drop_warm_up,
    "drop_empty_rows": _drop_empty_rows,
    "drop_incomplete_requests": _drop_incomplete,
    "moe_layers": _moe_layers,
    "first_moe_layer": _first_moe_layer,
    "drop_empty_slots": _drop_empty_slots,
    "sort_slots": _sort_slots,
    "normalise_weights": _normalise,
}
