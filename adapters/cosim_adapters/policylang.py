"""moe-policylang (PyPI, 1.15): traces of `record_trace()`, JSON lines or Parquet.

JSON lines: a header `{model_name, num_layers, num_experts, top_k, num_entries, records_full_softmax}`, then rows `p`
prompt, `t` token, `l` layer, `e` experts, `s` scores, and optional `sm` softmax over all experts, `ph` phase, `dm`
domain; `ti`, `lg`, `lg_l`, `tl`, `kv` say nothing about routing and are passed over. Parquet: the long names and
no header. Scores are what the recorder took from the router: often not normalised.
"""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import numpy as np

from cosim.trace.assemble import phase_codes
from cosim.trace.jsonl import MAX_DOMAINS, lines
from cosim.trace.options import ReadOptions
from cosim.trace.parquet import read_parquet
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.routing import RoutingTrace
from cosim.trace.rows import Header, Rows, to_trace

_HEADER_KEYS = {"model_name", "num_layers", "num_experts", "top_k", "num_entries", "records_full_softmax"}
_KEYS = {"p", "t", "l", "e", "s", "sm", "ti", "ph", "lg", "dm", "lg_l", "tl", "kv"}
_COLUMNS = {
    "prompt_id": "request",
    "token_idx": "position",
    "layer_idx": "layer",
    "selected_experts": "experts",
    "router_scores": "weights",
    "router_softmax": "scores",
    "phase": "phase",
    "domain_tag": "domain",
}
_IGNORED = frozenset({"token_id", "language_tag", "router_logits", "token_loss", "kv_shard_id"})
_BIG = 1 << 31


class PolicylangJsonl:
    """Reader of the JSON lines."""

    name = "policylang_jsonl"
    description = "moe-policylang record_trace() JSON lines"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for a first line that is its header."""
        try:
            first = json.loads(head.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and {"model_name", "num_experts", "num_entries"} <= first.keys()

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the rows.

        Raises:
            TraceError: naming line and field.
        """
        return _Reader(str(path), options).read(path)


class _Reader:
    def __init__(self, source: str, options: ReadOptions) -> None:
        self.source, self.options, self.problems = source, options, Problems(source)
        self.request, self.position, self.layer = array("q"), array("q"), array("q")
        self.ids, self.weights, self.scores, self.scored = array("q"), array("f"), array("f"), array("q")
        self.phase: list[str] = []
        self.domain, self.domains = array("h"), dict[str, int]()
        self.top_k, self.experts = 0, 0

    def read(self, path: Path) -> RoutingTrace:
        for number, text in lines(path, self.options.limits):
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                self.problems.add("not JSON", f"line {number}: {error}")
                continue
            if not isinstance(row, dict):
                self.problems.add("expected a JSON object", f"line {number}")
            elif number == 1:
                self._header(row)
            else:
                self._row(number, row)
        count = len(self.layer)
        for name, held in (
            ("s", len(self.weights) // max(self.top_k, 1)),
            ("ph", len(self.phase)),
            ("dm", len(self.domain)),
        ):
            if held not in (0, count):
                self.problems.add(f"{name}: on {held} of {count} rows, expected all or none")
        self.problems.raise_if_any()
        if not count:
            raise TraceError(self.source, ["no rows"])
        scored = len(self.scored)
        rows = Rows(
            request=np.frombuffer(self.request, np.int64),
            position=np.frombuffer(self.position, np.int64),
            layer=np.frombuffer(self.layer, np.int64),
            ids=np.frombuffer(self.ids, np.int64).reshape(count, self.top_k),
            weights=np.frombuffer(self.weights, np.float32).reshape(count, -1) if self.weights else None,
            phase=phase_codes(np.array(self.phase), self.source) if self.phase else None,
            domain=np.frombuffer(self.domain, np.int16) if self.domain else None,
            domains=tuple(self.domains),
            scores_row=np.frombuffer(self.scored, np.int64) if scored else None,
            scores=np.frombuffer(self.scores, np.float32).reshape(scored, -1) if scored else None,
            row_name="line",
            first_row=2,
            header=Header(experts=self.experts),
        )
        return to_trace(rows, self.options, self.source)

    def _header(self, row: dict[str, Any]) -> None:
        for key in row:
            if key not in _HEADER_KEYS:
                self.problems.add("line 1: unknown header key", f"{key!r}{did_you_mean(key, _HEADER_KEYS)}")
        for key in ("num_experts", "top_k"):
            if type(row.get(key)) is not int or not 1 <= row[key] <= self.options.limits.max_experts:
                self.problems.add(f"line 1: {key}: expected a positive integer", f"got {str(row.get(key))[:40]}")
        self.problems.raise_if_any()
        self.experts, self.top_k = row["num_experts"], row["top_k"]

    def _row(self, number: int, row: dict[str, Any]) -> None:
        unknown = row.keys() - _KEYS
        if unknown or not {"p", "t", "l", "e"} <= row.keys():
            self.problems.add("expected keys p, t, l, e", f"line {number}: {', '.join(sorted(map(str, row)))[:60]}")
            return
        place, ids = [row["p"], row["t"], row["l"]], row["e"]
        if not all(type(value) is int and 0 <= value < _BIG for value in place):
            self.problems.add("p, t, l: expected integers >= 0", f"line {number}: {str(place)[:60]}")
            return
        if (
            not isinstance(ids, list)
            or len(ids) != self.top_k
            or not all(type(i) is int and abs(i) < _BIG for i in ids)
        ):
            self.problems.add(f"e: expected {self.top_k} integer ids", f"line {number}: {str(ids)[:60]}")
            return
        for name, width, held in (("s", self.top_k, self.weights), ("sm", self.experts, self.scores)):
            values = row.get(name)
            if values is None:
                continue
            if not isinstance(values, list) or len(values) != width or not all(_is_number(v) for v in values):
                self.problems.add(f"{name}: expected {width} finite numbers", f"line {number}: {str(values)[:60]}")
                return
            if name == "sm":
                self.scored.append(len(self.layer))
            held.extend(values)
        if row.get("ph") is not None:
            self.phase.append(str(row["ph"])[:40])
        if row.get("dm") is not None:
            self.domain.append(self.domains.setdefault(str(row["dm"])[:200], len(self.domains)))
            if len(self.domains) > MAX_DOMAINS:
                raise TraceError(self.source, [f"line {number}: more than {MAX_DOMAINS} domains"])
        self.request.append(place[0])
        self.position.append(place[1])
        self.layer.append(place[2])
        self.ids.extend(ids)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e30


class PolicylangParquet:
    """Reader of the Parquet form."""

    name = "policylang_parquet"
    description = "moe-policylang record_trace() Parquet"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for Parquet with its column names."""
        if not head.startswith(b"PAR1"):
            return False
        import pyarrow as pa
        from pyarrow import parquet as pq

        try:
            names = set(pq.read_schema(path).names)
        except (pa.ArrowException, OSError, UnicodeError, OverflowError, KeyError, ValueError):
            return False  # damaged: whoever reads it says how
        return {"prompt_id", "token_idx", "layer_idx", "selected_experts"} <= names

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the rows; the number of experts is not in the file.

        Raises:
            TraceError: naming row and column.
        """
        return read_parquet(path, options, rename=_COLUMNS, ignored=_IGNORED)


JSONL = PolicylangJsonl()
PARQUET = PolicylangParquet()
