"""Parquet: one row per token and layer, columns as in `columns.resolve`, slots as columns or as lists.

File metadata `cosim_trace` holds the header object of `rows.parse_header`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.assemble import float_dtype, phase_codes
from cosim.trace.columns import Columns, resolve
from cosim.trace.jsonl import MAX_DOMAINS
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.rows import Header, Rows, header_of, parse_header, to_trace

_BATCH_ROWS = 32768
_METADATA_KEY = b"cosim_trace"


def read_parquet(
    path: Path,
    options: ReadOptions,
    *,
    rename: Mapping[str, str] = MappingProxyType({}),
    ignored: frozenset[str] = frozenset(),
) -> RoutingTrace:
    """Reads a Parquet recording.

    Args:
        path: the file.
        options: the caller's statements.
        rename: another format's column names → those of this one.
        ignored: columns that say nothing about routing.

    Raises:
        TraceError: naming file, row and column of everything that is wrong.
    """
    import pyarrow as pa
    from pyarrow import parquet as pq

    source = str(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return _Reader(file, source, options, path.stat().st_size, rename, ignored).trace()
    except (pa.ArrowException, OSError, UnicodeError, OverflowError, KeyError) as error:
        raise TraceError(
            source, [f"truncated or damaged Parquet file: {' '.join(str(error).split())[:200]}"]
        ) from error


class _Reader:
    def __init__(
        self,
        file: Any,
        source: str,
        options: ReadOptions,
        file_bytes: int,
        rename: Mapping[str, str],
        ignored: frozenset[str],
    ) -> None:
        import pyarrow as pa

        self.file, self.source, self.options = file, source, options
        self.problems = Problems(source)
        self.count = int(file.metadata.num_rows)
        self.names = [name for name in file.schema_arrow.names if name not in ignored]
        self.renamed = [rename.get(name, name) for name in self.names]
        held = [file.schema_arrow.field(name) for name in self.names if self.names.count(name) == 1]
        schema = pa.schema([field.with_name(rename.get(field.name, field.name)) for field in held])
        self.columns = resolve(self.renamed, self.problems, lists=True)
        self.problems.raise_if_any()
        self._check_types(schema)
        self.problems.raise_if_any()
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        asked = max(sum(int(g.total_byte_size) for g in groups), self.count * 8 * len(schema.names))
        budget = options.limits.decoded_budget(file_bytes)
        if asked > budget:
            raise TraceError(
                source, [f"the table asks for {asked} bytes unpacked, the limit for a file of this size is {budget}"]
            )
        if self.count == 0:
            raise TraceError(source, ["no rows"])

    def _check_types(self, schema: Any) -> None:
        import pyarrow.types as pt

        def inner(name: str) -> Any:
            kind = schema.field(name).type
            if not self.columns.lists and name != "scores":
                return kind
            if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
                return kind.value_type
            self.problems.add(f"{name}: expected lists", f"got {kind}")
            return None

        for name in (*self.columns.place, "layer"):
            if not pt.is_integer(schema.field(name).type):
                self.problems.add(f"{name}: expected integers", f"got {schema.field(name).type}")
        for name in self.columns.experts:
            kind = inner(name)
            if kind is not None and not pt.is_integer(kind):
                self.problems.add(f"{name}: expected integer ids", f"got {kind}")
        for name in (*self.columns.weights, *(("scores",) if self.columns.scores else ())):
            kind = inner(name)
            if kind is not None and not pt.is_floating(kind):
                self.problems.add(f"{name}: expected floats", f"got {kind}")
        for name, there in (("phase", self.columns.phase), ("domain", self.columns.domain)):
            kind = schema.field(name).type if there else None
            if kind is not None and pt.is_dictionary(kind):
                kind = kind.value_type
            if kind is not None and not (pt.is_string(kind) or pt.is_large_string(kind)):
                self.problems.add(f"{name}: expected text", f"got {kind}")

    def trace(self) -> RoutingTrace:
        columns, parts = self.columns, _Parts()
        row = 0
        for original in self.file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False, columns=self.names):
            batch = original.rename_columns(dict(zip(self.names, self.renamed, strict=True)))
            batch.validate(full=True)  # indices and offsets of a damaged file may point outside
            self._batch(batch, columns, parts, row)
            row += batch.num_rows
        self.problems.raise_if_any()
        if row != self.count:
            raise TraceError(self.source, [f"truncated: {row} rows, its metadata says {self.count}"])
        raw = (self.file.schema_arrow.metadata or {}).get(_METADATA_KEY)
        rows = parts.rows(columns, self._header(raw))
        if parts.tables["phase"]:
            names = np.array(list(parts.tables["phase"]), dtype=np.str_)
            rows.phase = phase_codes(names, self.source)[rows.phase]
        return to_trace(rows, self.options, self.source)

    def _header(self, raw: bytes | None) -> Header:
        if raw is None:
            return Header()
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise TraceError(self.source, [f"metadata cosim_trace: not JSON: {error}"]) from error
        if not isinstance(value, dict):
            raise TraceError(self.source, ["metadata cosim_trace: expected a JSON object"])
        return parse_header(value, "metadata cosim_trace", self.source)

    def _batch(self, batch: Any, columns: Columns, parts: _Parts, row: int) -> None:
        for name in batch.schema.names:
            column = batch.column(name)
            if name != "scores" and column.null_count:
                first = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                self.problems.add(f"{name}: an empty cell", f"row {row + first + 1}", int(column.null_count))
        if self.problems:
            return
        for name in (*columns.place, "layer"):
            parts.add(name, batch.column(name).to_numpy(zero_copy_only=False))
        for group, names in (("ids", columns.experts), ("weights", columns.weights)):
            if not names:
                continue
            if columns.lists:
                values = self._lists(names[0], batch.column(names[0]), parts, row)
            else:
                values = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in names], axis=1)
            if values is None:
                return
            if group == "weights":
                values = values.astype(float_dtype(values.dtype))
            elif values.dtype.itemsize > 4 and np.all(values == values.astype(np.int32)):
                values = values.astype(np.int32)
            parts.add(group, values)
        for name, there in (("phase", columns.phase), ("domain", columns.domain)):
            if there:
                parts.add(name, self._codes(name, batch.column(name), parts.tables[name]))
        if columns.scores:
            self._scores(batch.column("scores"), parts, row)

    def _lists(self, name: str, column: Any, parts: _Parts, row: int) -> NDArray[Any] | None:
        """The lists of a column as `[row, slot]`; lists of different lengths are noted."""
        import pyarrow.compute as pc

        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        width = parts.widths.setdefault("experts" if name == "weights" else name, int(lengths[0]))
        bad = np.flatnonzero(lengths != width)
        flat = column.flatten()
        if bad.size or width == 0:
            first = int(bad[0]) if bad.size else 0
            self.problems.add(
                f"{name}: ragged or empty lists",
                f"row {row + first + 1} has {int(lengths[first])}, expected {width}",
                max(1, int(bad.size)),
            )
            return None
        if flat.null_count:
            self.problems.add(f"{name}: an empty entry", f"rows {row + 1}…", int(flat.null_count))
            return None
        values: NDArray[Any] = flat.to_numpy(zero_copy_only=False).reshape(-1, width)
        return values

    def _scores(self, column: Any, parts: _Parts, row: int) -> None:
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if there.size:
            values = self._lists("scores", column.drop_null(), parts, row)
            if values is not None:
                parts.add("scores", values.astype(float_dtype(values.dtype)))
                parts.add("scores_row", there + row)

    def _codes(self, name: str, column: Any, table: dict[str, int]) -> NDArray[np.int32]:
        import pyarrow as pa

        encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        names = [str(value) for value in encoded.dictionary.to_pylist()]
        if len(table) + len(names) > MAX_DOMAINS:
            raise TraceError(self.source, [f"{name}: more than {MAX_DOMAINS} names"])
        place = np.array([table.setdefault(value, len(table)) for value in names], dtype=np.int32)
        codes: NDArray[np.int32] = place[encoded.indices.to_numpy(zero_copy_only=False)]
        return codes


class _Parts:
    """Pieces of columns, batch by batch."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[NDArray[Any]]] = {}
        self.tables: dict[str, dict[str, int]] = {"phase": {}, "domain": {}}
        self.widths: dict[str, int] = {}

    def add(self, name: str, values: NDArray[Any]) -> None:
        self.pieces.setdefault(name, []).append(values)

    def column(self, name: str) -> NDArray[Any] | None:
        pieces = self.pieces.pop(name, None)
        return None if pieces is None else np.concatenate(pieces)

    def need(self, name: str) -> NDArray[Any]:
        column = self.column(name)
        assert column is not None, name
        return column

    def rows(self, columns: Columns, header: Header) -> Rows:
        domain = self.column("domain")
        return Rows(
            request=self.column("request"),
            position=self.need(columns.place[-1]),
            layer=self.need("layer"),
            ids=self.need("ids"),
            weights=self.column("weights"),
            phase=self.column("phase"),
            domain=None if domain is None else domain.astype(np.int16),
            domains=tuple(self.tables["domain"]),
            scores_row=self.column("scores_row"),
            scores=self.column("scores"),
            header=header,
        )


def save_parquet(trace: RoutingTrace, path: Path) -> None:
    """Writes one row per token and layer with `experts`, `weights` and `scores` as list columns (zstd)."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    layers = trace.layers
    columns: dict[str, Any] = {}
    if trace.request is not None and trace.position is not None:
        columns["request"] = pa.array(np.repeat(trace.request, layers))
        columns["position"] = pa.array(np.repeat(trace.position, layers))
    else:
        columns["token"] = pa.array(np.repeat(np.arange(trace.tokens, dtype=np.int64), layers))
    columns["layer"] = pa.array(np.tile(trace.layer_map, trace.tokens))
    columns["experts"] = pa.FixedSizeListArray.from_arrays(pa.array(trace.ids.reshape(-1)), trace.top_k)
    if trace.weights is not None:
        columns["weights"] = pa.FixedSizeListArray.from_arrays(pa.array(trace.weights.reshape(-1)), trace.top_k)
    if trace.phase is not None:
        columns["phase"] = pa.DictionaryArray.from_arrays(np.repeat(trace.phase.astype(np.int32), layers), list(PHASES))
    if trace.domain is not None:
        columns["domain"] = pa.DictionaryArray.from_arrays(
            np.repeat(trace.domain.astype(np.int32), layers), list(trace.domains)
        )
    if trace.scores is not None and trace.scores_token is not None:
        lengths = np.zeros(trace.tokens, dtype=np.int64)
        lengths[trace.scores_token] = trace.experts
        per_row = np.repeat(lengths, layers)
        offsets = np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64)
        columns["scores"] = pa.LargeListArray.from_arrays(
            pa.array(offsets), pa.array(trace.scores.reshape(-1)), mask=pa.array(per_row == 0)
        )
    table = pa.table(columns).replace_schema_metadata({_METADATA_KEY: json.dumps(header_of(trace)).encode()})
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
