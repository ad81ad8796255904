"""SGLang: the expert distribution recorder's files, and `routed_experts` of responses.

Recorder (`--expert-distribution-recorder-mode`, files written by torch.save; sglang/srt/eplb/expert_distribution.py of
SGLang 0.5): `stat` holds `logical_count` `[step, layer, expert]`; `per_pass` and `per_token` hold `records`, each with
`global_physical_count` `[layer, physical]`, and `last_physical_to_logical_map`; records of `per_token` have
`topk_ids_of_layer` `[layer, token, slot]` (physical ids, 8 slots, unused ones -1), `positions`, `extend_seq_lens`,
`forward_mode` (1 extend, 2 decode) and, in some versions, `rids`. Layers count the dense ones too.

Responses (`return_routed_experts`): base64 of int32 `[token, layer, slot]` in `meta_info` or in a choice's `sgl_ext`.
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.arraytree import describe, open_tree, peek_tree
from cosim.trace.assemble import checked_map
from cosim.trace.jsondoc import read_documents
from cosim.trace.options import FITTING, ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.recorded import from_arrays, from_counts
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.tensors import ArrayRef
from cosim_adapters.vllm import Request, logical_counts, requests_trace

_MAP = "last_physical_to_logical_map"
_EXTEND, _DECODE = 1, 2
_RESPONSE = re.compile(rb'"routed_experts"\s*:\s*"')


class SglangRecorder:
    """Reader of recorder files; a folder of `per_token` files holds the tokens of several ranks."""

    name = "sglang_recorder"
    description = "SGLang expert distribution recorder (.pt): stat and per_pass are counts, per_token is routing"
    reads = frozenset(FITTING) - {"select"}

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for a dictionary with `logical_count`, or `records` and a map."""
        return _is_recorder(peek_tree(path, head))

    def sniff_folder(self, path: Path) -> bool:
        """True for a folder whose first .pt is a recorder's."""
        for file in sorted(path.glob("*.pt"))[:1]:
            with file.open("rb") as stream:
                return self.sniff(file, stream.read(4))
        return False

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Routing of `per_token`, physical ids mapped to logical ones; a trace fitted to the counts of the others.

        Raises:
            TraceError: naming record and array.
        """
        files = sorted(path.glob("*.pt")) if path.is_dir() else [path]
        trees = []
        for file in files:
            tree = open_tree(file, options.limits)
            if not _is_recorder(tree):
                raise TraceError(str(file), [f"no recorder's file; it holds {describe(tree)}"])
            trees.append(tree)
        routed = [_has_tokens(tree) for tree in trees]
        if all(routed):
            return _tokens(str(path), trees, options)
        if len(trees) > 1:
            raise TraceError(
                str(path),
                ["several files of counts, which every rank writes for all ranks: give one of them, not the folder"],
            )
        return from_counts(str(path), options, _counts(str(path), trees[0], options))


def _is_recorder(tree: Any) -> bool:
    return isinstance(tree, dict) and ("logical_count" in tree or ("records" in tree and _MAP in tree))


def _has_tokens(tree: dict[Any, Any]) -> bool:
    records = tree.get("records")
    return isinstance(records, list) and any(isinstance(r, dict) and "topk_ids_of_layer" in r for r in records)


def _map(source: str, tree: dict[Any, Any]) -> NDArray[np.int64]:
    table = tree[_MAP]
    if not isinstance(table, ArrayRef) or not table.integers or table.ndim != 2 or 0 in table.shape:
        raise TraceError(source, [f"{_MAP}: expected integers [layer, physical], got {table!r:.60}"])
    return checked_map(table.read(), source)


def _counts(source: str, tree: dict[Any, Any], options: ReadOptions) -> NDArray[Any]:
    if "logical_count" in tree:
        counts = tree["logical_count"]
        if not isinstance(counts, ArrayRef) or counts.ndim not in (2, 3) or counts.dtype.kind not in "iuf":
            raise TraceError(source, [f"logical_count: expected numbers [step, layer, expert], got {counts!r:.60}"])
        values = counts.read()
        return values.sum(axis=0) if values.ndim == 3 else values
    table = _map(source, tree)
    total = np.zeros(table.shape, dtype=np.int64)
    problems = Problems(source)
    for number, record in enumerate(tree["records"] if isinstance(tree["records"], list) else []):
        counts = record.get("global_physical_count") if isinstance(record, dict) else None
        if not isinstance(counts, ArrayRef) or counts.shape != table.shape or not counts.integers:
            problems.add(f"global_physical_count: expected integers {list(table.shape)}", f"record {number}: {counts}")
        else:
            total += counts.read()
    problems.raise_if_any()
    return logical_counts(total, table, options)


def _tokens(source: str, trees: list[dict[Any, Any]], options: ReadOptions) -> RoutingTrace:
    if options.given():
        raise TraceError(source, [f"{name}: the file holds routing, nothing is fitted" for name in options.given()])
    problems = Problems(source)
    table = _map(source, trees[0])
    parts: list[NDArray[Any]] = []
    modes: list[int] = []
    positions: list[Any] = []
    lengths: list[Any] = []
    names: list[Any] = []
    seen: set[tuple[Any, ...]] = set()
    twice = 0
    for tree in trees:
        mine: set[tuple[Any, ...]] = set()
        if not np.array_equal(_map(source, tree), table):
            problems.add(f"{_MAP}: the files of the ranks differ: the experts were moved between their writing")
        for number, record in enumerate(tree["records"]):
            ids = record.get("topk_ids_of_layer") if isinstance(record, dict) else None
            if not isinstance(ids, ArrayRef) or not ids.integers or ids.ndim != 3 or ids.shape[0] != table.shape[0]:
                problems.add(
                    f"topk_ids_of_layer: expected integers [{table.shape[0]}, token, slot]", f"record {number}: {ids}"
                )
                continue
            if 0 in ids.shape:
                continue  # an idle pass
            parts.append(ids.read().transpose(1, 0, 2))
            mine.add((record.get("forward_pass_id"), parts[-1].shape, hash(parts[-1].tobytes())))
            modes.append(record.get("forward_mode", 0))
            positions.append(_numbers(record.get("positions"), ids.shape[1]))
            lengths.append(_numbers(record.get("extend_seq_lens"), None))
            names.append(record.get("rids"))
        twice += len(seen & mine)
        seen |= mine
    if twice:
        problems.add(f"{twice} records that two ranks hold alike (data-parallel double counting): read one file")
    if parts and len({part.shape[2] for part in parts}) > 1:
        problems.add("topk_ids_of_layer: records of different numbers of slots")
    problems.raise_if_any()
    if not parts:
        raise TraceError(source, ["no record with tokens"])
    request, position, phase = _requests(parts, modes, positions, lengths, names)
    return from_arrays(
        source,
        options,
        np.concatenate(parts),
        physical_to_logical=table,
        request=request,
        position=position,
        phase=phase,
    )


def _numbers(value: Any, count: int | None) -> NDArray[np.int64] | None:
    """A list or tensor of integers, of `count` elements where that is given; None if it is neither."""
    if isinstance(value, ArrayRef) and value.integers and value.ndim == 1:
        found = value.read().astype(np.int64)
    elif isinstance(value, list) and all(type(number) is int and abs(number) < 1 << 31 for number in value):
        found = np.array(value, dtype=np.int64)
    else:
        return None
    return found if count is None or found.size == count else None


def _requests(
    parts: list[NDArray[Any]], modes: list[int], positions: list[Any], lengths: list[Any], names: list[Any]
) -> tuple[NDArray[Any] | None, NDArray[Any] | None, NDArray[np.uint8] | None]:
    """Request, position and phase of every row, where the records tell: by request name, or from whole prompts."""
    number: dict[Any, int] = {}
    request: list[NDArray[np.int64]] = []
    phase: list[NDArray[np.uint8]] = []
    for index, part in enumerate(parts):
        rows = part.shape[0]
        where, mode, sizes, rids = positions[index], modes[index], lengths[index], names[index]
        if where is None or mode not in (_EXTEND, _DECODE):
            return None, None, None
        if mode == _DECODE:
            sizes = np.ones(rows, dtype=np.int64)
        if sizes is None or int(sizes.sum()) != rows:
            return None, None, None
        if isinstance(rids, (list, tuple)) and len(rids) == sizes.size and all(isinstance(r, (str, int)) for r in rids):
            mine = np.array([number.setdefault(rid, len(number)) for rid in rids], dtype=np.int64)
        elif mode == _EXTEND and bool((where[np.cumsum(sizes) - sizes] == 0).all()):
            mine = np.arange(sizes.size) + len(number)
            number.update({(index, n): len(number) + n for n in range(sizes.size)})
        else:
            return None, None, None
        request.append(np.repeat(mine, sizes))
        code = PHASES.index("prefill" if mode == _EXTEND else "decode")
        phase.append(np.full(rows, code, dtype=np.uint8))
    return np.concatenate(request), np.concatenate(positions), np.concatenate(phase)


class SglangJson:
    """Reader of responses with base64 `routed_experts`."""

    name = "sglang_json"
    description = "SGLang responses, JSON or JSON lines, with base64 routed_experts (state top_k)"
    reads = frozenset({"top_k"})

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for JSON with `routed_experts` as text."""
        return head.lstrip()[:1] in (b"{", b"[") and _RESPONSE.search(head) is not None

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads all responses; the number of layers follows from the tokens and the stated Top-k.

        Raises:
            TraceError: when Top-k is not stated, or naming the response and what does not fit.
        """
        source = str(path)
        if options.top_k is None:
            raise TraceError(source, ["routed_experts is one flat row of numbers: state --top-k"])
        problems = Problems(source)
        requests: list[Request] = []
        for place, response in read_documents(path, options.limits):
            for where, text, info in _responses(response, place, problems):
                request = _decode(text, info, options.top_k)
                if isinstance(request, str):
                    problems.add("routed_experts", f"{where}: {request}")
                else:
                    requests.append(request)
        problems.raise_if_any()
        return requests_trace(source, options, requests)


def _responses(response: Any, place: str, problems: Problems) -> list[tuple[str, Any, dict[str, Any]]]:
    """(place, text, prompt_tokens and completion_tokens) of what a response holds."""
    if isinstance(response, dict) and isinstance(response.get("meta_info"), dict):
        return [(place, response["meta_info"].get("routed_experts"), response["meta_info"])]
    if isinstance(response, dict) and isinstance(response.get("choices"), list):
        usage: dict[str, Any] = response["usage"] if isinstance(response.get("usage"), dict) else {}
        found = []
        for number, choice in enumerate(response["choices"]):
            extra = choice.get("sgl_ext") if isinstance(choice, dict) else None
            text = extra.get("routed_experts") if isinstance(extra, dict) else None
            found.append((f"{place}, choice {number}", text, dict(usage)))
        if len(found) > 1 and usage:
            problems.add("several choices share one usage: their tokens cannot be told apart", place)
            return []
        return found
    problems.add("expected a response with meta_info or choices", place)
    return []


def _decode(text: Any, info: dict[str, Any], top_k: int) -> Request | str:
    prompt, output = info.get("prompt_tokens"), info.get("completion_tokens")
    if type(prompt) is not int or type(output) is not int or prompt < 0 or output < 0:
        return "no prompt_tokens and completion_tokens beside it"
    try:
        raw = base64.b64decode(text, validate=True)
    except (ValueError, TypeError, binascii.Error):
        return "no base64 text"
    start = info.get("routed_experts_start_len", 0)
    tokens = prompt + output - 1 - (start if type(start) is int else 0)
    per_token, rest = divmod(len(raw) // 4, tokens) if tokens > 0 else (0, 1)
    if len(raw) % 4 or rest or not per_token or per_token % top_k:
        return f"{len(raw)} bytes are not int32 [{tokens} tokens, layers, {top_k} slots]"
    ids = np.frombuffer(raw, dtype="<i4").reshape(tokens, per_token // top_k, top_k)
    return Request(ids, prompt + output - 1 - tokens, prompt)


RECORDER = SglangRecorder()
JSON = SglangJson()
