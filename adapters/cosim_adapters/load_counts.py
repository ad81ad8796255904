"""Counts by expert: what load balancers take and papers publish. A trace is fitted to them, and says so.

- an array `[layer, expert]` (npy, torch, pickle): the input of DeepSeek's EPLB, `rebalance_experts(weight, …)`
  (github.com/deepseek-ai/EPLB), of vLLM's and of SGLang's;
- npz or a torch/pickle dictionary with `counts` (or `weight`, `load`) `[layer, expert]` and optional
  `transition_counts` `[layer - 1, expert, expert]`;
- npz with several recordings, `<model>_counts_<domain>` and `<model>_cross_<domain>`: `select="<model>/<domain>"`;
- CSV: a matrix of numbers, a line per layer; or `layer_id,expert_id,count` (SGLang until April 2025);
- JSON: a list of lists, or `{"<layer>": [count, …]}`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.arraytree import describe, holds_arrays, open_tree, peek_tree
from cosim.trace.jsondoc import read_json
from cosim.trace.jsonl import lines
from cosim.trace.options import FITTING, ReadOptions
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.recorded import from_counts
from cosim.trace.routing import RoutingTrace
from cosim.trace.tensors import ArrayRef

_NAMES = ("counts", "weight", "load", "expert_counts", "load_counts")
_CROSSED = "transition_counts"
_SEVERAL = re.compile(r"(.+)_counts_(.+)")
_LONG = re.compile(rb"(?:\xef\xbb\xbf)?layer_id,expert_id,count\s*\r?\n")
_MATRIX = re.compile(rb"\s*-?\d[\d.eE+-]*(\s*,\s*-?\d[\d.eE+-]*)+\s*")
_JSON_LIST = re.compile(rb"\s*\[\s*\[\s*-?\d")
_JSON_OBJECT = re.compile(rb'\s*\{\s*"\d{1,4}"\s*:\s*\[\s*-?\d')


class LoadCounts:
    """Reader of counts."""

    name = "load_counts"
    description = "counts [layer, expert], with or without transition counts (DeepSeek EPLB input, npy, npz, CSV, JSON)"
    reads = frozenset(FITTING)

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for arrays of two axes, their names, or text of that form."""
        if holds_arrays(path, head):
            tree = peek_tree(path, head)
            if isinstance(tree, ArrayRef):
                return tree.ndim == 2 and tree.dtype.kind in "iuf"
            return isinstance(tree, dict) and (_one_of(tree) is not None or bool(_several(tree)))
        if _LONG.match(head) or _JSON_LIST.match(head) or _JSON_OBJECT.match(head):
            return True
        rows = head.splitlines()
        return len(rows) > 0 and all(_MATRIX.fullmatch(row) for row in (rows[:-1] or rows)[:64])

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Fits a trace of the stated size.

        Raises:
            TraceError: when a size is not stated, or the counts are of no Top-k routing.
        """
        source = str(path)
        with path.open("rb") as stream:
            head = stream.read(65536)
        label = path.name
        crossed = None
        if holds_arrays(path, head):
            counts, crossed, chosen = _arrays(source, open_tree(path, options.limits), options)
            label = f"{path.name}:{chosen}" if chosen else label
        else:
            if options.select is not None:
                raise TraceError(source, ["select: the file holds one recording"])
            if _JSON_LIST.match(head) or _JSON_OBJECT.match(head):
                counts = _from_json(source, read_json(path, options.limits))
            elif _LONG.match(head):
                counts = _long_csv(path, options)
            else:
                counts = _matrix_csv(path, options)
        return from_counts(source, options, counts, label=label, transition_counts=crossed)


def _one_of(tree: dict[Any, Any]) -> str | None:
    found = [name for name in _NAMES if isinstance(tree.get(name), ArrayRef) and tree[name].ndim == 2]
    return found[0] if len(found) == 1 and tree.keys() <= {found[0], _CROSSED} else None


def _several(tree: dict[Any, Any]) -> dict[str, tuple[str, str]]:
    """`<model>/<domain>` → keys of its counts and transitions."""
    found = {}
    for key, value in tree.items():
        match = _SEVERAL.fullmatch(str(key))
        if match and isinstance(value, ArrayRef) and value.ndim == 2:
            found[f"{match[1]}/{match[2]}"] = (str(key), f"{match[1]}_cross_{match[2]}")
    return found


def _arrays(source: str, tree: Any, options: ReadOptions) -> tuple[NDArray[Any], NDArray[Any] | None, str | None]:
    if isinstance(tree, dict) and _one_of(tree) is None:
        several = _several(tree)
        if not several:
            raise TraceError(source, [f"no counts [layer, expert]; it holds {describe(tree)}"])
        if options.select not in several:
            hint = did_you_mean(options.select, several) if options.select else ""
            raise TraceError(source, [f"select: expected one of {', '.join(several)}, got {options.select}{hint}"])
        first, second = several[options.select or ""]
        crossed = tree[second].read() if isinstance(tree.get(second), ArrayRef) else None
        return tree[first].read(), crossed, options.select
    if options.select is not None:
        raise TraceError(source, ["select: the file holds one recording"])
    if isinstance(tree, dict):
        crossed = tree[_CROSSED].read() if isinstance(tree.get(_CROSSED), ArrayRef) else None
        return tree[_one_of(tree) or ""].read(), crossed, None
    if not isinstance(tree, ArrayRef):
        raise TraceError(source, [f"no counts [layer, expert]; it holds {describe(tree)}"])
    return tree.read(), None, None


def _from_json(source: str, value: Any) -> NDArray[Any]:
    if isinstance(value, dict):
        if not all(isinstance(key, str) and key.isdigit() for key in value):
            raise TraceError(source, ['expected {"<layer>": [count, …]}'])
        rows = [value[key] for key in sorted(value, key=int)]
        if sorted(map(int, value)) != list(range(len(value))):
            raise TraceError(source, [f"layers: expected 0 to {len(value) - 1}, got {', '.join(list(value)[:8])}"])
    else:
        rows = value
    try:
        counts = np.array(rows)
    except (ValueError, OverflowError) as error:
        raise TraceError(source, ["ragged lists, expected the counts of all experts for every layer"]) from error
    if counts.ndim != 2 or counts.dtype.kind not in "iuf":
        raise TraceError(source, ["expected lists of numbers, one for every layer"])
    return counts


def _matrix_csv(path: Path, options: ReadOptions) -> NDArray[Any]:
    problems = Problems(str(path))
    rows: list[list[float]] = []
    for number, text in lines(path, options.limits):
        try:
            rows.append([float(cell) for cell in text.split(",")])
        except ValueError:
            problems.add("expected numbers", f"line {number}: {text.strip()[:60]!r}")
            continue
        if len(rows[-1]) != len(rows[0]):
            problems.add(f"expected {len(rows[0])} numbers", f"line {number}: {len(rows[-1])}")
        if not all(abs(value) < 2**53 for value in rows[-1]):
            problems.add("a count that is not finite or too large", f"line {number}")
    problems.raise_if_any()
    if not rows:
        raise TraceError(str(path), ["no rows"])
    return np.array(rows)


def _long_csv(path: Path, options: ReadOptions) -> NDArray[Any]:
    problems = Problems(str(path))
    found: dict[tuple[int, int], int] = {}
    for number, text in lines(path, options.limits):
        if number == 1:
            continue
        cells = text.strip().split(",")
        if len(cells) != 3 or not all(cell.isdigit() and len(cell) < 16 for cell in cells):
            problems.add("expected layer_id,expert_id,count", f"line {number}: {text.strip()[:60]!r}")
            continue
        layer, expert, count = map(int, cells)
        if layer > 4096 or expert >= options.limits.max_experts:
            problems.add("a layer or expert out of all bounds", f"line {number}")
        elif (layer, expert) in found:
            problems.add("a layer and expert that occurs twice", f"line {number}")
        else:
            found[layer, expert] = count
    problems.raise_if_any()
    if not found:
        raise TraceError(str(path), ["no rows"])
    counts = np.zeros((max(layer for layer, _ in found) + 1, max(e for _, e in found) + 1), dtype=np.int64)
    for (layer, expert), count in found.items():
        counts[layer, expert] = count
    return counts


ADAPTER = LoadCounts()
