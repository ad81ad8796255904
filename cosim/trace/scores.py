"""Router scores kept in a file of their own beside a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cosim.trace.archive import Archive
from cosim.trace.assemble import float_dtype, settle_experts
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.routing import RoutingTrace


def attach_scores(trace: RoutingTrace, path: Path, options: ReadOptions) -> RoutingTrace:
    """The trace with the scores of `path`: npz with `scores` `[request, position, layer, expert]` and `request`.

    Entry `[r, p]` belongs to the p-th recorded row of request `request[r]`, in order of position.

    Raises:
        TraceError: when a request is not in the trace or the sizes disagree.
    """
    source = str(path)
    problems = Problems(source)
    if trace.request is None or trace.position is None:
        raise TraceError(source, ["scores by request, but the trace keeps no request boundaries"])
    with Archive(path, options.limits) as archive:
        for name in ("scores", "request"):
            if name not in archive.members:
                problems.add(f"no array {name}")
        for name in archive.members:
            if name not in ("scores", "request"):
                problems.add("an array nobody reads", repr(name))
        problems.raise_if_any()
        scored, request = archive.members["scores"], archive.members["request"]
        if scored.dtype.kind != "f" or len(scored.shape) != 4 or scored.shape[2] != trace.layers:
            problems.add(
                f"scores: expected floats [request, position, {trace.layers} layers, expert], "
                f"got {scored.dtype} {list(scored.shape)}"
            )
        elif request.dtype.kind not in "iu" or request.shape != scored.shape[:1]:
            problems.add(f"request: expected {scored.shape[0]} integers, got {request.dtype} {list(request.shape)}")
        problems.raise_if_any()
        wanted = archive.read_as("request", np.int64)
        count, length = scored.shape[:2]
        order = np.lexsort((trace.position, trace.request))
        sorted_requests = trace.request[order]
        begin = np.searchsorted(sorted_requests, wanted, side="left")
        end = np.searchsorted(sorted_requests, wanted, side="right")
        for index in np.flatnonzero(end - begin != length)[:1]:
            rows = int(end[index] - begin[index])
            problems.add(
                "a request whose rows do not match its scores",
                f"request {int(wanted[index])}: {rows} rows in the trace, {length} with scores",
                int(np.count_nonzero(end - begin != length)),
            )
        if np.unique(wanted).size != count:
            problems.add("request: a request that occurs twice")
        problems.raise_if_any()
        rows_of = order[(begin[:, None] + np.arange(length)[None, :]).reshape(-1)]
        scores = archive.read_as("scores", float_dtype(scored.dtype)).reshape(count * length, trace.layers, -1)
    stated = trace.experts if trace.experts_stated else None
    experts, _ = settle_experts(trace.ids, stated, options, source, scored=int(scores.shape[-1]))
    by_row = np.argsort(rows_of, kind="stable")
    if np.any(np.diff(by_row) != 1):
        scores = scores[by_row]
    return replace(
        trace,
        experts=experts,
        experts_stated=True,
        scores=scores,
        scores_token=rows_of[by_row].astype(np.int64),
    )
