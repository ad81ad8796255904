"""llama.cpp: expert traces as CSV, as log lines and as JSON lines.

CSV        `layer,expert`, a row per routed activation, as the example `moe-trace` writes it (github.com/ggml-org/
           llama.cpp pull request 28544): the micro-batches one after another, in each the layers in order, in each
           layer the tokens, in each token its experts. Top-k must be stated. The last layer computes only the tokens
           whose output is asked for: its missing rows are empty, and they are the first ones of the micro-batch.
log, ids   lines `<layer>,<id>,<id>,…`, a token and layer each
log, named `EXPERT|L<layer>|T<n>: [ids] [ids]`, one bracket a token (moe-l2's patched llama.cpp); other lines of the
           log are passed over
JSON lines `{"prompt_id", "topic", "token_pos", "layer", "experts"}` (local-moe-inference-stack)
"""

from __future__ import annotations

import json
import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.jsonl import MAX_DOMAINS, lines
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.recorded import from_arrays
from cosim.trace.routing import RoutingTrace
from cosim.trace.rows import Rows, to_trace

_CSV_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?layer,expert\s*\r?\n")
_NUMBERS = re.compile(rb"\d{1,4}(,\d{1,5})+\s*\r?\n")
_NAMED = re.compile(r"EXPERT\|L(\d{1,4})\|T(\d{1,9}):\s*((?:\[[\d,\s]*\]\s*)+)")
_BRACKET = re.compile(r"\[([\d,\s]*)\]")
_LOCAL_KEYS = {"prompt_id", "topic", "token_pos", "layer", "experts"}
_MAX_ID = 1 << 20


class MoeTraceCsv:
    """Reader of `layer,expert` rows."""

    name = "llamacpp_csv"
    description = "llama.cpp moe-trace CSV layer,expert (state top_k)"
    reads = frozenset({"top_k"})

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for the header `layer,expert`."""
        return _CSV_HEADER.match(head) is not None

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the micro-batches.

        Raises:
            TraceError: when Top-k is not stated, or rows do not make whole tokens.
        """
        source = str(path)
        if options.top_k is None:
            raise TraceError(source, ["a row is one expert of a token: state --top-k"])
        layer, expert = array("i"), array("i")
        problems = Problems(source)
        for number, text in lines(path, options.limits):
            if number == 1:
                continue
            parts = text.strip().split(",")
            if len(parts) != 2 or not all(part.isdigit() and int(part) < _MAX_ID for part in parts):
                problems.add("expected layer,expert", f"line {number}: {text.strip()[:40]!r}")
                continue
            layer.append(int(parts[0]))
            expert.append(int(parts[1]))
        problems.raise_if_any()
        blocks = _blocks(np.frombuffer(layer, np.int32), np.frombuffer(expert, np.int32), options.top_k, problems)
        problems.raise_if_any()
        return _micro_batches(source, blocks, options)


_Block = tuple[int, NDArray[np.int32]]


def _blocks(layer: NDArray[np.int32], expert: NDArray[np.int32], top_k: int, problems: Problems) -> list[_Block]:
    """(layer, ids `[token, slot]`) of every run of rows of one layer."""
    found = []
    edges = np.flatnonzero(np.diff(layer)) + 1
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), layer.size], strict=True):
        if stop == start:
            continue
        if (stop - start) % top_k:
            problems.add(
                f"rows of a layer that are no whole tokens of {top_k} experts", f"row {start + 1}: {stop - start}"
            )
            continue
        found.append((int(layer[start]), expert[start:stop].reshape(-1, top_k)))
    return found


def _micro_batches(source: str, blocks: list[_Block], options: ReadOptions) -> RoutingTrace:
    """Blocks of increasing layers are one micro-batch; a shorter last layer lacks its first tokens."""
    if not blocks:
        raise TraceError(source, ["no rows"])
    layers = sorted({number for number, _ in blocks})
    problems = Problems(source)
    pieces: list[NDArray[np.int32]] = []
    batch: dict[int, NDArray[np.int32]] = {}

    def close() -> None:
        tokens = max(ids.shape[0] for ids in batch.values())
        top_k = next(iter(batch.values())).shape[1]
        piece = np.full((tokens, len(layers), top_k), -1, dtype=np.int32)
        for place, number in enumerate(layers):
            ids = batch.get(number)
            if ids is None or (ids.shape[0] != tokens and number != layers[-1]):
                count = 0 if ids is None else ids.shape[0]
                problems.add(
                    "a micro-batch whose layers differ",
                    f"batch {len(pieces)}: layer {number} has {count} of {tokens} tokens",
                )
                return
            piece[tokens - ids.shape[0] :, place] = ids
        pieces.append(piece)

    for number, ids in blocks:
        if batch and number <= max(batch):
            close()
            batch = {}
        batch[number] = ids
    close()
    problems.raise_if_any()
    return from_arrays(source, options, np.concatenate(pieces), layer_map=np.array(layers))


class ExpertLog:
    """Reader of log lines: `EXPERT|L<layer>|T<n>: [ids]`, or `<layer>,<id>,…` on every line."""

    name = "llamacpp_log"
    description = "llama.cpp logs: EXPERT|L<layer>|T<n>: [ids] [ids], or layer,id,id,… a line"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for a log with `EXPERT|L` lines, or lines of nothing but numbers of which the first repeats."""
        if b"EXPERT|L" in head and b"|T" in head:
            return True
        rows = head.splitlines(keepends=True)[:-1] or head.splitlines(keepends=True)
        if len(rows) < 2 or not all(_NUMBERS.fullmatch(row) for row in rows[:64]):
            return False
        widths = {row.count(b",") for row in rows[:64]}
        # a matrix of counts has a line for every layer, a log repeats its layers
        first = [row.split(b",", 1)[0] for row in rows]
        return len(widths) == 1 and len(set(first)) < len(first) and first[0] in (b"0", b"1", b"2", b"3")

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads all lines of experts; those of one layer in a row are the tokens of a micro-batch.

        Raises:
            TraceError: on ragged tokens or micro-batches whose layers differ.
        """
        source = str(path)
        problems = Problems(source)
        layers, rows = array("i"), array("i")
        width = 0
        for number, text in lines(path, options.limits):
            named = _NAMED.search(text)
            if named is not None:
                layer, tokens = int(named[1]), [_ids(part) for part in _BRACKET.findall(named[3])]
            elif _NUMBERS.fullmatch(text.strip().encode() + b"\n"):
                plain = _ids(text)
                layer, tokens = plain[0], [plain[1:]]
            else:
                continue
            for ids in tokens:
                width = width or len(ids)
                if len(ids) != width or not ids:
                    problems.add(f"expected {width or 'some'} experts", f"line {number}: {len(ids)}")
                    continue
                layers.append(layer)
                rows.extend(ids)
        problems.raise_if_any()
        if not layers:
            raise TraceError(source, ["no line of experts"])
        numbers = np.repeat(np.frombuffer(layers, np.int32), width)
        blocks = _blocks(numbers, np.frombuffer(rows, np.int32), width, problems)
        problems.raise_if_any()
        return _micro_batches(source, blocks, options)


def _ids(text: str) -> list[int]:
    return [min(int(part), _MAX_ID) for part in text.replace(",", " ").split() if part.isdigit()]


class LocalMoeJsonl:
    """Reader of JSON lines with `token_pos`, `layer`, `experts`."""

    name = "llamacpp_jsonl"
    description = "local-moe-inference-stack JSON lines {prompt_id, topic, token_pos, layer, experts}"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for a first line that is such an object."""
        try:
            first = json.loads(head.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and first.keys() == _LOCAL_KEYS

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the rows; the topic of a prompt is its domain.

        Raises:
            TraceError: naming line and field.
        """
        source = str(path)
        problems = Problems(source)
        request, position, layer, ids = array("q"), array("q"), array("q"), array("q")
        domain = array("h")
        prompts: dict[Any, int] = {}
        topics: dict[str, int] = {}
        width = 0
        for number, text in lines(path, options.limits):
            row = _object(text)
            if row is None or row.keys() != _LOCAL_KEYS:
                problems.add(f"expected an object with {', '.join(sorted(_LOCAL_KEYS))}", f"line {number}")
                continue
            experts, topic, prompt = row["experts"], row["topic"], row["prompt_id"]
            width = width or (len(experts) if isinstance(experts, list) else 0)
            good = isinstance(experts, list) and len(experts) == width > 0
            good = good and all(type(value) is int and -1 <= value < _MAX_ID for value in experts)
            good = good and all(type(row[key]) is int and 0 <= row[key] < 1 << 31 for key in ("token_pos", "layer"))
            if not good or not isinstance(topic, str) or not topic or type(prompt) not in (int, str):
                problems.add("a row of wrong values", f"line {number}: {text.strip()[:80]}")
                continue
            request.append(prompts.setdefault(prompt, len(prompts)))
            position.append(row["token_pos"])
            layer.append(row["layer"])
            ids.extend(experts)
            domain.append(topics.setdefault(topic, len(topics)))
            if len(topics) > MAX_DOMAINS:
                raise TraceError(source, [f"line {number}: more than {MAX_DOMAINS} topics"])
        problems.raise_if_any()
        if not layer:
            raise TraceError(source, ["no rows"])
        rows = Rows(
            request=np.frombuffer(request, np.int64),
            position=np.frombuffer(position, np.int64),
            layer=np.frombuffer(layer, np.int64),
            ids=np.frombuffer(ids, np.int64).reshape(-1, width),
            domain=np.frombuffer(domain, np.int16),
            domains=tuple(topics),
            row_name="line",
        )
        return to_trace(rows, options, source)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


CSV = MoeTraceCsv()
LOG = ExpertLog()
JSONL = LocalMoeJsonl()
