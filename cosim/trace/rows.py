"""From long rows (one per token and layer) to the dense arrays of a `RoutingTrace`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.assemble import (
    finish,
    narrow_ids,
    prepare_ids,
    settle_experts,
    settle_provenance,
    stated_phase,
)
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.routing import RoutingTrace

_MAX_INDEX = np.iinfo(np.int32).max


@dataclass
class Header:
    """What a text or table file says about itself.

    Attributes:
        experts: experts per layer.
        provenance: see `RoutingTrace.provenance`.
        domains: all domains in order; without it they are numbered as they appear.
        repairs: see `RoutingTrace.repairs`.
    """

    experts: int | None = None
    provenance: str | None = None
    domains: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()


HEADER_KEYS = ("cosim_trace", "experts", "provenance", "domains", "repairs")
SCHEMA = 1


def parse_header(values: dict[str, Any], where: str, source: str) -> Header:
    """The header object `{"cosim_trace": 1, "experts": 64, "provenance": "recorded"}`.

    Raises:
        TraceError: on an unknown key, an unknown version or a value of the wrong type.
    """
    problems = Problems(source)
    for key in values:
        if key not in HEADER_KEYS:
            problems.add(f"{where}: unknown header key", f"{key!r}, expected one of {', '.join(HEADER_KEYS)}")
    if values.get("cosim_trace") != SCHEMA:
        problems.add(f"{where}: cosim_trace: expected version {SCHEMA}, got {values.get('cosim_trace')!r}")
    experts, provenance = values.get("experts"), values.get("provenance")
    if experts is not None and type(experts) is not int:
        problems.add(f"{where}: experts: expected an integer, got {experts!r}")
    if provenance is not None and not isinstance(provenance, str):
        problems.add(f"{where}: provenance: expected text, got {provenance!r}")
    domains = values.get("domains", [])
    if not isinstance(domains, list) or not all(isinstance(name, str) and name for name in domains):
        problems.add(f"{where}: domains: expected a list of names, got {str(domains)[:60]}")
    elif len(set(domains)) < len(domains):
        problems.add(f"{where}: domains: a name occurs twice")
    repairs = values.get("repairs", [])
    if not isinstance(repairs, list) or not all(isinstance(text, str) for text in repairs):
        problems.add(f"{where}: repairs: expected a list of texts, got {str(repairs)[:60]}")
    problems.raise_if_any()
    return Header(experts, provenance, tuple(domains), tuple(repairs))


def header_of(trace: RoutingTrace) -> dict[str, Any]:
    """The header object of a trace, for a writer."""
    header: dict[str, Any] = {"cosim_trace": SCHEMA, "provenance": trace.provenance}
    if trace.experts_stated:
        header["experts"] = trace.experts
    if trace.domain is not None:
        header["domains"] = list(trace.domains)
    if trace.repairs:
        header["repairs"] = list(trace.repairs)
    return header


@dataclass
class Rows:
    """Columns of a long table, one entry per (token, layer).

    Attributes:
        request: request of each row, or None with `position` meaning the token's index.
        position: position inside the request, or token index.
        layer: decoder layer.
        ids: `[row, slot]`.
        weights: `[row, slot]` or None.
        phase: codes into `PHASES`, or None.
        domain: codes into `domains`, or None.
        domains: names of the domains.
        scores_row: rows that have router scores.
        scores: `[scored row, expert]`.
        row_name: what the rows are called in messages.
        first_row: number of the first of them.
        header: what the file says about itself.
    """

    request: NDArray[Any] | None
    position: NDArray[Any]
    layer: NDArray[Any]
    ids: NDArray[Any]
    weights: NDArray[Any] | None = None
    phase: NDArray[Any] | None = None
    domain: NDArray[Any] | None = None
    domains: tuple[str, ...] = ()
    scores_row: NDArray[np.int64] | None = None
    scores: NDArray[Any] | None = None
    row_name: str = "row"
    first_row: int = 1
    header: Header = field(default_factory=Header)


def to_trace(rows: Rows, options: ReadOptions, source: str) -> RoutingTrace:
    """The trace of the rows: tokens in order of first appearance, layers in increasing order.

    Raises:
        TraceError: duplicate (request, position, layer), a token without one of the layers, a token whose rows disagree
            on phase or domain.
    """
    problems = Problems(source)
    count = rows.position.shape[0]
    if count == 0:
        raise TraceError(source, ["no rows"])
    columns = {"position": rows.position, "layer": rows.layer}
    if rows.request is not None:
        columns["request"] = rows.request
    for name, column in columns.items():
        bad = np.flatnonzero((column < 0) | (column > _MAX_INDEX))
        if bad.size:
            problems.add(f"{name}: expected 0..{_MAX_INDEX}", f"{_at(rows, bad[0])} is {column[bad[0]]}", int(bad.size))
    problems.raise_if_any()

    order = _plain_order(rows) or _any_order(rows, problems)
    problems.raise_if_any()
    first = order.first

    def dense(values: NDArray[Any]) -> NDArray[Any]:
        if order.cell is not None:
            scattered = np.empty_like(values)
            scattered[order.cell] = values
            values = scattered
        return values.reshape(order.tokens, order.layer_map.size, *values.shape[1:])

    scores = scores_token = None
    scored_width = None
    if rows.scores is not None and rows.scores_row is not None:
        scores, scores_token = _dense_scores(rows, order, problems)
        scored_width = int(rows.scores.shape[1])
    phase = _per_token("phase", rows, rows.phase, order, problems)
    domain = _per_token("domain", rows, rows.domain, order, problems)
    problems.raise_if_any()
    domains = rows.domains
    if domain is not None and rows.header.domains:
        domain, domains = _stated_domains(rows, domain, source), rows.header.domains
    layer = None if options.physical_map is None else np.searchsorted(order.layer_map, rows.layer)
    ids = prepare_ids(rows.ids, options, source, layer=layer, layers=order.layer_map.size)
    experts, known = settle_experts(ids, rows.header.experts, options, source, scored=scored_width)
    has_request = rows.request is not None
    if options.phase is not None and not has_request:
        raise TraceError(source, ["phase: cannot be stated, the file keeps no request boundaries"])
    stated = stated_phase(options, order.tokens, phase is not None, source)
    return finish(
        source,
        {
            "ids": dense(narrow_ids(ids, experts, source)),
            "experts": experts,
            "experts_stated": known,
            "layer_map": order.layer_map.astype(np.int32),
            "weights": None if rows.weights is None else dense(rows.weights),
            "scores": scores,
            "scores_token": scores_token,
            "request": rows.request[first].astype(np.int32) if rows.request is not None else None,
            "position": rows.position[first].astype(np.int32) if has_request else None,
            "phase": phase if stated is None else stated,
            "domain": domain,
            "domains": domains,
            "provenance": settle_provenance(rows.header.provenance, options, source),
            "repairs": rows.header.repairs,
        },
    )


@dataclass(frozen=True)
class _Order:
    """Where the rows go: `cell` = token * layers + layer of each row, None when that is the row's own number."""

    tokens: int
    layer_map: NDArray[Any]
    first: NDArray[np.int64]
    cell: NDArray[np.int64] | None

    def token_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Token of some rows."""
        cells = rows if self.cell is None else self.cell[rows]
        return cells // self.layer_map.size


def _token_key(rows: Rows, part: slice = slice(None)) -> NDArray[np.int64]:
    key = rows.position[part].astype(np.int64)
    if rows.request is not None:
        key |= rows.request[part].astype(np.int64) << 32
    return key


def _plain_order(rows: Rows) -> _Order | None:
    """The order of rows that are sorted already (all layers of a token together, increasing), else None."""
    count = rows.layer.shape[0]
    again = np.flatnonzero(rows.layer[1:] == rows.layer[0])
    layers = int(again[0]) + 1 if again.size else count
    layer_map = rows.layer[:layers]
    if count % layers or np.any(np.diff(layer_map.astype(np.int64)) <= 0):
        return None
    for name in ("layer", "position", "request"):
        column = getattr(rows, name)
        if column is not None:
            table = column.reshape(-1, layers)
            pattern = layer_map[None, :] if name == "layer" else table[:, :1]
            if not np.array_equal(table, np.broadcast_to(pattern, table.shape)):
                return None
    keys = _token_key(rows, slice(None, None, layers))
    if np.unique(keys).size != keys.size:
        return None
    return _Order(keys.size, layer_map, np.arange(0, count, layers, dtype=np.int64), None)


def _any_order(rows: Rows, problems: Problems) -> _Order:
    """The order of rows that come as they like; rows that are missing or there twice go to `problems`."""
    layer_map, layer = np.unique(rows.layer, return_inverse=True)
    keys, first, inverse = np.unique(_token_key(rows), return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    rank = np.empty(keys.size, dtype=np.int64)
    rank[appearance] = np.arange(keys.size)
    cell = rank[inverse] * layer_map.size + layer
    if keys.size * layer_map.size != cell.size or not _is_permutation(cell):
        _explain_cells(rows, cell, keys.size, layer_map, problems)
    return _Order(keys.size, layer_map, first[appearance].astype(np.int64), cell)


def _at(rows: Rows, index: Any) -> str:
    return f"{rows.row_name} {int(index) + rows.first_row}"


def _is_permutation(cell: NDArray[np.int64]) -> bool:
    seen = np.zeros(cell.size, dtype=np.bool_)
    seen[cell] = True
    return bool(seen.all())


def _explain_cells(
    rows: Rows, cell: NDArray[np.int64], tokens: int, layer_map: NDArray[Any], problems: Problems
) -> None:
    cells, first, times = np.unique(cell, return_index=True, return_counts=True)
    again = np.flatnonzero(times > 1)
    name = "(request, position, layer)" if rows.request is not None else "(token, layer)"
    for index in again[:3]:
        others = np.flatnonzero(cell == cells[index])
        problems.add(f"duplicate {name}", f"{_at(rows, others[1])} repeats {_at(rows, others[0])}")
    if again.size > 3:
        problems.add(f"duplicate {name}", "", int(again.size) - 3)
    layers = layer_map.size
    per_token = np.bincount(cells // layers, minlength=tokens)
    short = np.flatnonzero(per_token < layers)
    if short.size:
        have = cells[cells // layers == short[0]] % layers
        lacking = sorted(set(layer_map.tolist()) - set(layer_map[have].tolist()))
        where = _at(rows, first[np.searchsorted(cells, short[0] * layers)])
        problems.add("a token without a row for every layer", f"{where}: no layer {lacking[:8]}", int(short.size))


def _per_token(
    name: str, rows: Rows, values: NDArray[Any] | None, order: _Order, problems: Problems
) -> NDArray[Any] | None:
    if values is None:
        return None
    out = values[order.first]
    differ = np.flatnonzero(out[order.token_of(np.arange(values.size))] != values)
    if differ.size:
        problems.add(f"{name}: rows of one token disagree", _at(rows, differ[0]), int(differ.size))
    return out


def _stated_domains(rows: Rows, domain: NDArray[Any], source: str) -> NDArray[np.int16]:
    """Codes into the header's list of domains instead of the order of appearance."""
    stated = rows.header.domains
    strange = [name for name in rows.domains if name not in stated]
    if strange:
        raise TraceError(source, [f"domain: not in the header's list: {', '.join(strange[:3])}"])
    place = np.array([stated.index(name) for name in rows.domains], dtype=np.int16)
    renamed: NDArray[np.int16] = place[domain]
    return renamed


def _dense_scores(
    rows: Rows, order: _Order, problems: Problems
) -> tuple[NDArray[Any] | None, NDArray[np.int64] | None]:
    assert rows.scores is not None
    assert rows.scores_row is not None
    layers = order.layer_map.size
    cells = rows.scores_row if order.cell is None else order.cell[rows.scores_row]
    by_cell = np.argsort(cells, kind="stable")
    tokens, times = np.unique(cells // layers, return_counts=True)
    partial = np.flatnonzero(times != layers)
    if partial.size:
        problems.add("scores: a token with scores of some layers only", f"token {tokens[partial[0]]}", partial.size)
        return None, None
    return rows.scores[by_cell].reshape(tokens.size, layers, -1), tokens.astype(np.int64)
