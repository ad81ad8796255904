"""JSON lines: one object per token and layer, after an optional header line.

    {"cosim_trace": 1, "experts": 64, "provenance": "recorded"}
    {"request": 0, "position": 0, "layer": 0, "experts": [17, 3], "weights": [0.6, 0.4], "phase": "prefill"}

`request` and `position` may be replaced by `token` where the source keeps no request boundaries; `weights`, `phase`,
`domain` and `scores` (router scores over all experts) are optional, the first three on all rows or none.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cosim.trace.limits import ReadLimits
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.rows import Header, Rows, header_of, parse_header, to_trace

ROW_KEYS = ("request", "position", "token", "layer", "experts", "weights", "phase", "domain", "scores")
MAX_DOMAINS = 32_000
_I64 = 1 << 62


def read_jsonl(path: Path, options: ReadOptions) -> RoutingTrace:
    """Reads a JSON-lines recording.

    Raises:
        TraceError: naming file, line and field of everything that is wrong.
    """
    return _Reader(str(path), options).read(path)


def lines(path: Path, limits: ReadLimits) -> Iterator[tuple[int, str]]:
    """(line number, text) of every line that is not blank.

    Raises:
        TraceError: on a line beyond the limit or bytes that are not UTF-8.
    """
    with path.open("rb") as stream:
        number = 0
        while True:
            raw = stream.readline(limits.max_line_bytes + 1)
            if not raw:
                return
            number += 1
            if len(raw) > limits.max_line_bytes:
                raise TraceError(str(path), [f"line {number}: longer than {limits.max_line_bytes} bytes"])
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise TraceError(str(path), [f"line {number}: not UTF-8 text (byte {error.start})"]) from error
            if text.strip():
                yield number, text


class _Reader:
    def __init__(self, source: str, options: ReadOptions) -> None:
        self.source = source
        self.options = options
        self.problems = Problems(source)
        self.header = Header()
        self.keys: set[str] | None = None
        self.top_k = 0
        self.line_of_row = array("q")
        self.request, self.position, self.layer = array("q"), array("q"), array("q")
        self.ids, self.weights, self.scores = array("q"), array("f"), array("f")
        self.scores_row = array("q")
        self.scored = 0
        self.phase, self.domain = array("B"), array("h")
        self.domains: dict[str, int] = {}

    def read(self, path: Path) -> RoutingTrace:
        for number, text in lines(path, self.options.limits):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                self.problems.add("not JSON", f"line {number}: {error}")
                continue
            if not isinstance(value, dict):
                self.problems.add("expected a JSON object", f"line {number} is {type(value).__name__}")
            elif "cosim_trace" in value:
                if self.line_of_row or self.keys is not None:
                    self.problems.add("a header after the first row", f"line {number}")
                else:
                    self.header = parse_header(value, f"line {number}", self.source)
            else:
                self._row(number, value)
        self.problems.raise_if_any()
        if not self.line_of_row:
            raise TraceError(self.source, ["no rows"])
        return self._trace()

    def _row(self, number: int, row: dict[str, Any]) -> None:
        if self.keys is None:
            self._first_keys(number, row)
        mine = row.keys() - {"scores"}
        wanted = self.keys or set()
        if mine != wanted:
            lack, extra = sorted(wanted - mine), sorted(mine - wanted)
            parts = [f"{lack} missing"] * bool(lack) + [f"{extra} unexpected"] * bool(extra)
            self.problems.add("a row with other keys than the first", f"line {number}: {', '.join(parts)}")
            return
        if not self._numbers(number, row):
            return
        if not self._names(number, row):
            return
        if "phase" in row:
            self.phase.append(PHASES.index(row["phase"]))
        if "domain" in row:
            self.domain.append(self.domains.setdefault(row["domain"], len(self.domains)))
        self.line_of_row.append(number)
        self.layer.append(row["layer"])
        self.position.append(row["position"] if "position" in row else row["token"])
        if "request" in row:
            self.request.append(row["request"])
        self.ids.extend(row["experts"])
        if "weights" in row:
            self.weights.extend(row["weights"])
        if row.get("scores") is not None:
            self.scores_row.append(len(self.line_of_row) - 1)
            self.scores.extend(row["scores"])

    def _first_keys(self, number: int, row: dict[str, Any]) -> None:
        unknown = [key for key in row if key not in ROW_KEYS]
        for key in unknown:
            self.problems.add("unknown key", f"line {number}: {key!r}{did_you_mean(key, ROW_KEYS)}")
        place = {"request", "position"} if "request" in row or "position" in row else {"token"}
        missing = sorted((place | {"layer", "experts"}) - row.keys())
        if missing:
            self.problems.add("missing keys", f"line {number}: {', '.join(missing)}")
        if "token" in row and place != {"token"}:
            self.problems.add("token beside request and position, expected one or the other", f"line {number}")
        if unknown or missing or self.problems:
            self.problems.raise_if_any()
        self.keys = set(row.keys() - {"scores"})
        experts = row["experts"]
        self.top_k = len(experts) if isinstance(experts, list) else 0

    def _numbers(self, number: int, row: dict[str, Any]) -> bool:
        good = True
        for name in ("request", "position", "token", "layer"):
            if name in row and (type(row[name]) is not int or not 0 <= row[name] < _I64):
                self.problems.add(f"{name}: expected an integer >= 0", f"line {number}: {row[name]!r}")
                good = False
        ids = row["experts"]
        if not isinstance(ids, list) or not ids or len(ids) != self.top_k:
            got = f"{len(ids)} ids" if isinstance(ids, list) else type(ids).__name__
            self.problems.add(f"experts: expected a list of {self.top_k or 'at least 1'} ids", f"line {number}: {got}")
            good = False
        elif not all(type(value) is int and -_I64 < value < _I64 for value in ids):
            self.problems.add("experts: expected integer ids", f"line {number}: {str(ids)[:80]}")
            good = False
        elif "weights" in row:
            good = self._floats("weights", number, row["weights"], self.top_k, least=0.0) and good
        if row.get("scores") is not None:
            width = self.scored or (len(row["scores"]) if isinstance(row["scores"], list) else 0)
            good = self._floats("scores", number, row["scores"], width, least=-math.inf) and good
            self.scored = width
        return good

    def _names(self, number: int, row: dict[str, Any]) -> bool:
        good = True
        if "phase" in row and row["phase"] not in PHASES:
            self.problems.add("phase: expected prefill or decode", f"line {number}: {str(row['phase'])[:40]!r}")
            good = False
        if "domain" in row and (not isinstance(row["domain"], str) or not row["domain"]):
            self.problems.add("domain: expected a name", f"line {number}: {str(row['domain'])[:40]!r}")
            good = False
        elif "domain" in row and len(self.domains) > MAX_DOMAINS:
            raise TraceError(self.source, [f"line {number}: domain: more than {MAX_DOMAINS} names"])
        return good

    def _floats(self, name: str, number: int, values: Any, count: int, *, least: float) -> bool:
        if not isinstance(values, list) or len(values) != count or not count:
            got = f"{len(values)}" if isinstance(values, list) else type(values).__name__
            self.problems.add(f"{name}: expected a list of {count} numbers", f"line {number}: {got}")
            return False
        bad = [v for v in values if type(v) not in (int, float) or not abs(v) < 1e30 or v < least]
        if bad:
            kind = "finite numbers" if least < 0 else "finite numbers >= 0"
            self.problems.add(f"{name}: expected {kind}", f"line {number}: {str(bad[0])[:40]}", len(bad))
        return not bad

    def _trace(self) -> RoutingTrace:
        count = len(self.line_of_row)
        rows = Rows(
            request=np.frombuffer(self.request, dtype=np.int64) if self.request else None,
            position=np.frombuffer(self.position, dtype=np.int64),
            layer=np.frombuffer(self.layer, dtype=np.int64),
            ids=np.frombuffer(self.ids, dtype=np.int64).reshape(count, self.top_k),
            weights=np.frombuffer(self.weights, dtype=np.float32).reshape(count, -1) if self.weights else None,
            phase=np.frombuffer(self.phase, dtype=np.uint8) if self.phase else None,
            domain=np.frombuffer(self.domain, dtype=np.int16) if self.domain else None,
            domains=tuple(self.domains),
            scores_row=np.frombuffer(self.scores_row, dtype=np.int64) if self.scores_row else None,
            scores=np.frombuffer(self.scores, dtype=np.float32).reshape(-1, self.scored) if self.scores_row else None,
            header=self.header,
        )
        return to_trace(rows, self.options, self.source)


def save_jsonl(trace: RoutingTrace, path: Path) -> None:
    """Writes one object per token and layer; floats in the shortest form that reads back the same."""
    scored = (
        {int(token): index for index, token in enumerate(trace.scores_token.tolist())}
        if trace.scores_token is not None
        else {}
    )
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(json.dumps(header_of(trace)) + "\n")
        decoder_layers = trace.layer_map.tolist()
        for token in range(trace.tokens):
            base: dict[str, Any] = {"token": token}
            if trace.request is not None and trace.position is not None:
                base = {"request": int(trace.request[token]), "position": int(trace.position[token])}
            tail: dict[str, Any] = {}
            if trace.phase is not None:
                tail["phase"] = PHASES[trace.phase[token]]
            if trace.domain is not None:
                tail["domain"] = trace.domains[trace.domain[token]]
            for layer, decoder_layer in enumerate(decoder_layers):
                row = {**base, "layer": decoder_layer, "experts": trace.ids[token, layer].tolist(), **tail}
                if trace.weights is not None:
                    row["weights"] = trace.weights[token, layer].astype(np.float32).tolist()
                if trace.scores is not None and token in scored:
                    row["scores"] = trace.scores[scored[token], layer].astype(np.float32).tolist()
                stream.write(json.dumps(row, allow_nan=False) + "\n")
