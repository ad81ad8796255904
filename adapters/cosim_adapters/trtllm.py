"""TensorRT-LLM: expert statistics, a folder written with EXPERT_STATISTIC_PATH.

`meta_info.json` gives `num_experts` and `num_experts_per_token`; `rank<r>.safetensors` hold counts `[expert]` under
`"<iteration>_<layer>"`; newer versions write `rank<r>_raw.safetensors` with the chosen experts `[token, slot]` under
the same keys (`tensorrt_llm/_torch/modules/fused_moe/`, `examples/wide_ep/ep_load_balancer/`). Counts of all ranks and
iterations are added up, and a trace is fitted to them; chosen experts are read as they are, iteration by iteration.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.arraytree import open_tree
from cosim.trace.jsondoc import read_json
from cosim.trace.options import FITTING, ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.recorded import from_arrays, from_counts
from cosim.trace.routing import RoutingTrace
from cosim.trace.tensors import ArrayRef

_FILE = re.compile(r"rank(\d{1,5})(_raw)?\.safetensors")
_KEY = re.compile(r"(\d{1,9})_(\d{1,4})")


class TrtLlmStatistics:
    """Reader of the statistics folder."""

    name = "trtllm_statistics"
    description = "TensorRT-LLM expert statistics: folder with meta_info.json and rank<r>.safetensors"
    reads = frozenset(FITTING) - {"select"}

    def sniff(self, path: Path, head: bytes) -> bool:
        """False: one file of the folder does not say how many experts a token takes."""
        return False

    def sniff_folder(self, path: Path) -> bool:
        """True for a folder with `meta_info.json` and files of ranks."""
        return (path / "meta_info.json").is_file() and bool(_files(path))

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """The chosen experts where they were written, else a trace fitted to the counts.

        Raises:
            TraceError: naming file and key.
        """
        source = str(path)
        if not path.is_dir():
            raise TraceError(source, ["expected the folder with meta_info.json, got a file"])
        experts, top_k = _meta(path / "meta_info.json", options)
        files = _files(path)
        if not files:
            raise TraceError(source, ["no rank<r>.safetensors in the folder"])
        raw = [file for file in files if file.name.endswith("_raw.safetensors")]
        if raw:
            if options.given():
                raise TraceError(
                    source, [f"{name}: the files hold routing, nothing is fitted" for name in options.given()]
                )
            return _routing(source, raw, experts, top_k, options)
        return _fitted(source, files, experts, top_k, options)


def _files(path: Path) -> list[Path]:
    found = [(match, file) for file in path.iterdir() if (match := _FILE.fullmatch(file.name))]
    return [file for match, file in sorted(found, key=lambda pair: (int(pair[0][1]), pair[0][2] or ""))]


def _meta(path: Path, options: ReadOptions) -> tuple[int, int]:
    meta = read_json(path, options.limits)
    numbers = [meta.get(name) if isinstance(meta, dict) else None for name in ("num_experts", "num_experts_per_token")]
    if not all(type(number) is int and 1 <= number <= options.limits.max_experts for number in numbers):
        raise TraceError(str(path), [f"expected num_experts and num_experts_per_token, got {json.dumps(meta)[:80]}"])
    return int(numbers[0] or 0), int(numbers[1] or 0)


def _entries(file: Path, options: ReadOptions, problems: Problems) -> list[tuple[int, int, ArrayRef]]:
    tree: dict[str, Any] = open_tree(file, options.limits)
    found = []
    for key, value in tree.items():
        match = _KEY.fullmatch(key)
        if match is None:
            problems.add("a key that is no <iteration>_<layer>", f"{file.name}: {key[:40]!r}")
        else:
            found.append((int(match[1]), int(match[2]), value))
    return sorted(found, key=lambda entry: entry[:2])


def _fitted(source: str, files: list[Path], experts: int, top_k: int, options: ReadOptions) -> RoutingTrace:
    problems = Problems(source)
    totals: dict[int, NDArray[np.int64]] = {}
    for file in files:
        for iteration, layer, value in _entries(file, options, problems):
            if value.shape != (experts,) or not value.integers:
                problems.add(f"counts: expected {experts} integers", f"{file.name}: {iteration}_{layer} is {value}")
            else:
                totals[layer] = totals.get(layer, np.zeros(experts, dtype=np.int64)) + value.read().astype(np.int64)
    problems.raise_if_any()
    if not totals:
        raise TraceError(source, ["no counts in the files"])
    layers = sorted(totals)
    counts = np.stack([totals[layer] for layer in layers])
    return from_counts(source, options, counts, layer_map=np.array(layers), top_k=top_k)


def _routing(source: str, files: list[Path], experts: int, top_k: int, options: ReadOptions) -> RoutingTrace:
    problems = Problems(source)
    pieces: list[NDArray[Any]] = []
    layers: list[int] | None = None
    for file in files:
        iterations: dict[int, dict[int, ArrayRef]] = {}
        for iteration, layer, value in _entries(file, options, problems):
            if value.ndim != 2 or value.shape[1] != top_k or not value.integers:
                problems.add(f"expected integers [token, {top_k}]", f"{file.name}: {iteration}_{layer} is {value}")
                continue
            iterations.setdefault(iteration, {})[layer] = value
        for iteration, found in iterations.items():
            layers = sorted(found) if layers is None else layers
            if sorted(found) != layers or len({value.shape for value in found.values()}) != 1:
                problems.add("an iteration whose layers differ", f"{file.name}: iteration {iteration}")
            elif not problems and next(iter(found.values())).shape[0]:
                pieces.append(np.stack([found[layer].read() for layer in layers], axis=1))
    problems.raise_if_any()
    if not pieces or layers is None:
        raise TraceError(source, ["no tokens in the files"])
    return from_arrays(source, options, np.concatenate(pieces), experts=experts, layer_map=np.array(layers))


ADAPTER = TrtLlmStatistics()
