"""CSV: one row per token and layer, columns as in `columns.resolve`.

    # {"cosim_trace": 1, "experts": 64, "provenance": "recorded"}
    request,position,layer,expert_0,expert_1,weight_0,weight_1,phase
    0,0,0,17,3,0.6,0.4,prefill

The first line is optional. Router scores do not fit this form.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.assemble import phase_codes
from cosim.trace.columns import Columns, resolve
from cosim.trace.jsonl import MAX_DOMAINS, lines
from cosim.trace.limits import ReadLimits
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.rows import Header, Rows, header_of, parse_header, to_trace

_BLOCK_BYTES = 4 << 20


def read_csv(path: Path, options: ReadOptions) -> RoutingTrace:
    """Reads a CSV recording.

    Raises:
        TraceError: naming file, line and column of everything that is wrong.
    """
    source = str(path)
    header, names, skipped = _head(path, options.limits)
    problems = Problems(source)
    columns = resolve(names, problems, lists=False)
    problems.raise_if_any()
    try:
        rows = _read_fast(path, names, columns, skipped, source)
    except _NotClean as error:
        _diagnose(path, names, columns, skipped, problems, options.limits)
        problems.raise_if_any()
        raise TraceError(source, [f"not a clean CSV table: {error}"]) from error
    rows.header = header
    rows.first_row = 1
    return to_trace(rows, options, source)


class _NotClean(Exception):
    """The fast reader met a cell or row it cannot read."""


def _head(path: Path, limits: ReadLimits) -> tuple[Header, list[str], int]:
    """Header comment, column names and the number of lines before the first row."""
    header, source = Header(), str(path)
    for number, text in lines(path, limits):
        if number == 1 and text.startswith("#"):
            try:
                value = json.loads(text[1:])
            except (ValueError, RecursionError) as error:
                raise TraceError(source, [f"line 1: expected a JSON object after '#': {error}"]) from error
            if not isinstance(value, dict):
                raise TraceError(source, ["line 1: expected a JSON object after '#'"])
            header = parse_header(value, "line 1", source)
            continue
        return header, [name.strip() for name in text.lstrip("﻿").strip("\r\n").split(",")], number
    raise TraceError(source, ["no column names"])


def _read_fast(path: Path, names: list[str], columns: Columns, skipped: int, source: str) -> Rows:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types: dict[str, Any] = {name: pa.int64() for name in (*columns.place, "layer", *columns.experts)}
    types.update({name: pa.float32() for name in columns.weights})
    text = pa.dictionary(pa.int32(), pa.string())
    types.update({name: text for name in ("phase", "domain") if name in names})
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    tables: dict[str, dict[str, int]] = {"phase": {}, "domain": {}}
    try:
        reader = arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, column_names=names, skip_rows=skipped
            ),
            convert_options=arrow_csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
        with reader:
            for batch in reader:
                for name in names:
                    column = batch.column(name)
                    if name in tables:
                        parts[name].append(_codes(column, tables[name]))
                    else:
                        values = column.to_numpy(zero_copy_only=False)
                        parts[name].append(values.astype(np.int32) if name in columns.experts else values)
    except (pa.ArrowException, OSError, UnicodeError, OverflowError) as error:
        raise _NotClean(" ".join(str(error).split())[:200]) from error
    if not parts["layer"]:
        raise TraceError(source, ["no rows"])

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate(parts.pop(name))

    def stack(wanted: tuple[str, ...]) -> NDArray[Any]:
        return np.stack([joined(name) for name in wanted], axis=1)

    weights = stack(columns.weights) if columns.weights else None
    if weights is not None and not (float(weights.min()) >= 0 and math.isfinite(float(weights.max()))):
        raise _NotClean("a weight that is negative or no finite number")
    phase = domain = None
    if columns.phase:
        phase = phase_codes(np.array(list(tables["phase"]), dtype=np.str_), source)[joined("phase")]
    if columns.domain:
        domain = joined("domain").astype(np.int16)
    return Rows(
        request=joined("request") if "request" in columns.place else None,
        position=joined(columns.place[-1]),
        layer=joined("layer"),
        ids=stack(columns.experts),
        weights=weights,
        phase=phase,
        domain=domain,
        domains=tuple(tables["domain"]),
    )


def _codes(column: Any, table: dict[str, int]) -> NDArray[np.int32]:
    """Codes of a dictionary column under one table for the whole file, names in order of appearance."""
    names = [str(name) for name in column.dictionary.to_pylist()]
    if len(table) + len(names) > MAX_DOMAINS:
        raise _NotClean(f"more than {MAX_DOMAINS} different names in one column")
    place = np.array([table.setdefault(name, len(table)) for name in names], dtype=np.int32)
    codes: NDArray[np.int32] = place[column.indices.to_numpy(zero_copy_only=False)]
    return codes


def _diagnose(
    path: Path, names: list[str], columns: Columns, skipped: int, problems: Problems, limits: ReadLimits
) -> None:
    """Looks at every cell of a table that could not be read, to name and count all that is wrong."""
    integers = {names.index(name): name for name in (*columns.place, "layer", *columns.experts)}
    floats = {names.index(name): name for name in columns.weights}
    numbers: list[int] = []

    def texts() -> Iterator[str]:
        for number, text in lines(path, limits):
            if number > skipped:
                numbers.append(number)
                yield text

    for cells in csv.reader(texts()):
        where = f"line {numbers[-1]}"
        numbers[:] = numbers[-1:]
        if len(cells) != len(names):
            problems.add("a ragged row", f"{where}: {len(cells)} cells, expected {len(names)}")
            continue
        for index, name in integers.items():
            if not _is_integer(cells[index]):
                problems.add(f"{name}: expected an integer", f"{where}: {cells[index][:40]!r}")
        for index, name in floats.items():
            value = _float(cells[index])
            if value is None or not math.isfinite(value):
                problems.add(f"{name}: expected a finite number", f"{where}: {cells[index][:40]!r}")
            elif value < 0:
                problems.add(f"{name}: negative", f"{where}: {cells[index][:40]!r}")
        if columns.phase and cells[names.index("phase")] not in PHASES:
            problems.add("phase: expected prefill or decode", f"{where}: {cells[names.index('phase')][:40]!r}")


def _is_integer(cell: str) -> bool:
    digits = cell.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def _float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def save_csv(trace: RoutingTrace, path: Path) -> None:
    """Writes one row per token and layer; weights in the shortest form that reads back the same.

    Raises:
        TraceError: when the trace has router scores, which this form cannot hold.
    """
    if trace.scores is not None:
        raise TraceError(str(path), ["router scores do not fit CSV; write npz, Parquet or JSONL"])
    placed = trace.request is not None and trace.position is not None
    names = ["request", "position"] if placed else ["token"]
    names += ["layer", *(f"expert_{n}" for n in range(trace.top_k))]
    if trace.weights is not None:
        names += [f"weight_{n}" for n in range(trace.top_k)]
    names += ["phase"] * (trace.phase is not None) + ["domain"] * (trace.domain is not None)
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write("# " + json.dumps(header_of(trace)) + "\n")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        decoder_layers = trace.layer_map.tolist()
        for token in range(trace.tokens):
            place = [token]
            if trace.request is not None and trace.position is not None:
                place = [int(trace.request[token]), int(trace.position[token])]
            tail = [] if trace.phase is None else [PHASES[trace.phase[token]]]
            tail += [] if trace.domain is None else [trace.domains[trace.domain[token]]]
            for layer, decoder_layer in enumerate(decoder_layers):
                weights = [] if trace.weights is None else trace.weights[token, layer].astype(np.float32).tolist()
                writer.writerow([*place, decoder_layer, *trace.ids[token, layer].tolist(), *weights, *tail])
