"""What readers of outside formats share: from arrays, or from counts, to a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.assemble import (
    finish,
    float_dtype,
    narrow_ids,
    prepare_ids,
    settle_experts,
    settle_provenance,
    stated_phase,
)
from cosim.trace.fit import fitted
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.routing import RoutingTrace

_I32 = np.iinfo(np.int32)


def from_arrays(
    source: str,
    options: ReadOptions,
    ids: NDArray[Any],
    *,
    experts: int | None = None,
    layer_map: NDArray[Any] | None = None,
    weights: NDArray[Any] | None = None,
    request: NDArray[Any] | None = None,
    position: NDArray[Any] | None = None,
    phase: NDArray[np.uint8] | None = None,
    domain: NDArray[np.int16] | None = None,
    domains: tuple[str, ...] = (),
    scores: NDArray[Any] | None = None,
    physical_to_logical: NDArray[Any] | None = None,
) -> RoutingTrace:
    """The trace of arrays that a reader found.

    Args:
        source: name for messages.
        options: the caller's statements; those that apply to any ids are applied.
        ids: integers `[token, layer, slot]`.
        experts: experts per layer, where the file says.
        layer_map: decoder layers; 0, 1, … when None.
        weights: gate weights, shape of `ids`; what stands in empty slots is dropped.
        request, position, phase, domain: per token, where known.
        domains: names of the domains.
        scores: router scores of all tokens `[token, layer, expert]`.
        physical_to_logical: the file's own map, for ids that are physical.

    Raises:
        TraceError: on anything that makes no trace.
    """
    if ids.ndim != 3 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        raise TraceError(source, [f"ids: expected integers [token, layer, slot], got {ids.dtype} {list(ids.shape)}"])
    if ids.dtype.kind == "u" and ids.dtype.itemsize == 8:
        raise TraceError(source, ["ids: unsigned 64-bit, expected smaller integers"])
    if ids.size and (int(ids.min()) < _I32.min or int(ids.max()) > _I32.max):
        raise TraceError(source, [f"ids: values {int(ids.min())} to {int(ids.max())} are no expert ids"])
    tokens, layers, _ = ids.shape
    ids = prepare_ids(ids, options, source, physical_to_logical=physical_to_logical)
    width = None if scores is None else int(scores.shape[-1])
    settled, known = settle_experts(ids, experts, options, source, scored=width)
    if options.phase is not None and request is None:
        raise TraceError(source, ["phase: cannot be stated, the recording keeps no request boundaries"])
    stated = stated_phase(options, tokens, phase is not None, source)
    ids = narrow_ids(ids, settled, source)
    if weights is not None:
        weights = weights.astype(float_dtype(weights.dtype))
        weights = np.where(ids < 0, weights.dtype.type(0), weights)
    return finish(
        source,
        {
            "ids": ids,
            "experts": settled,
            "experts_stated": known,
            "layer_map": np.arange(layers, dtype=np.int32) if layer_map is None else layer_map.astype(np.int32),
            "weights": weights,
            "request": None if request is None else request.astype(np.int32),
            "position": None if position is None else position.astype(np.int32),
            "phase": phase if stated is None else stated,
            "domain": domain,
            "domains": domains,
            "scores": None if scores is None else scores.astype(float_dtype(scores.dtype)),
            "scores_token": None if scores is None else np.arange(tokens, dtype=np.int64),
            "provenance": settle_provenance(None, options, source),
        },
    )


def flat_positions(
    tokens: int, options: ReadOptions, source: str, *, sequence_first: bool
) -> tuple[NDArray[np.int64] | None, NDArray[np.int32] | None, NDArray[np.int32] | None]:
    """(order of rows, request, position) of a flat axis of `sequences` sequences; all None without that statement.

    Args:
        tokens: rows.
        options: `sequences` is used.
        source: name for messages.
        sequence_first: True for `[position * sequence]`, False for `[sequence * position]`.

    Raises:
        TraceError: when the rows do not divide.
    """
    count = options.sequences
    if count is None:
        return None, None, None
    if count < 1 or tokens % count:
        raise TraceError(source, [f"sequences: {tokens} rows are not those of {count} sequences of one length"])
    positions = tokens // count
    rows = np.arange(tokens).reshape((positions, count) if sequence_first else (count, positions))
    order = (rows.T if sequence_first else rows).reshape(-1)
    return (
        order,
        np.repeat(np.arange(count, dtype=np.int32), positions),
        np.tile(np.arange(positions, dtype=np.int32), count),
    )


def from_counts(
    source: str,
    options: ReadOptions,
    counts: NDArray[Any],
    *,
    label: str | None = None,
    layer_map: NDArray[Any] | None = None,
    transition_counts: NDArray[Any] | None = None,
    top_k: int | None = None,
) -> RoutingTrace:
    """A trace fitted to counts `[layer, expert]`: its provenance says so.

    Args:
        source: name for messages.
        options: `fit_requests`, `fit_positions`, `fit_seed` and `top_k` give its size; `moe` layers are all of them.
        counts: slots routed to each expert.
        label: what the provenance names; the file's name when None.
        layer_map: decoder layers; 0, 1, … when None. Layers without any load are dense ones and left out.
        transition_counts: see `fit.fitted`.
        top_k: experts per token, where the file says.

    Raises:
        TraceError: when a size is not stated, or the counts are of no Top-k routing.
    """
    problems = Problems(source)
    counts = np.asarray(counts)
    if top_k is not None and options.top_k is not None and top_k != options.top_k:
        problems.add(f"top_k: the file says {top_k}, the caller {options.top_k}")
    settled = top_k if top_k is not None else options.top_k
    sizes = {
        "top_k": settled,
        "fit_requests": options.fit_requests,
        "fit_positions": options.fit_positions,
        "fit_seed": options.fit_seed,
    }
    lacking = [name for name, value in sizes.items() if value is None]
    if lacking:
        flags = ", ".join("--" + name.replace("_", "-") for name in lacking)
        problems.add(f"it holds counts {list(counts.shape)}, not tokens: state {flags} and a trace is fitted to them")
    if options.phase is not None or options.padding is not None or options.physical_map is not None:
        problems.add("phase, padding and physical_map: cannot be stated of counts")
    if options.provenance is not None:
        problems.add("provenance: what is fitted to counts says so itself")
    if options.experts is not None and counts.ndim == 2 and options.experts != counts.shape[1]:
        problems.add(f"experts: the counts are of {counts.shape[1]} experts, the caller says {options.experts}")
    problems.raise_if_any()
    if counts.ndim == 2 and counts.dtype.kind == "f" and np.array_equal(counts, np.round(counts)):
        counts = counts.astype(np.int64)  # counts kept as floats, such as sums over ranks
    layers = np.arange(counts.shape[0]) if layer_map is None else np.asarray(layer_map)
    if counts.ndim == 2 and counts.dtype.kind in "iu" and transition_counts is None:
        loaded = counts.sum(axis=1) > 0
        if loaded.any():  # the others are dense layers that the recorder counts
            counts, layers = counts[loaded], layers[loaded]
    made = fitted(
        counts,
        source=label or Path(source).name,
        top_k=int(settled or 0),
        requests=int(options.fit_requests or 0),
        positions=int(options.fit_positions or 0),
        seed=int(options.fit_seed or 0),
        transition_counts=transition_counts,
    )
    return finish(source, {**{name: getattr(made, name) for name in _KEPT}, "layer_map": layers.astype(np.int32)})


_KEPT = ("ids", "experts", "request", "position", "phase", "provenance")
