"""FLAME-MoE (CMU): routing of a training run, one torch file a MoE layer and shard.

A file holds `samples` int64 `[n]`, `scores` float `[n, k]` and `indices` int64 `[n, k]`; `scores` are the gate weights
of the chosen experts, out of a softmax over all of them, so that they do not sum to 1. A folder holds the files of
several layers and shards: of the numbers in a file's path below the folder the first is the layer, the rest is the
shard. `samples` of one shard must be the same in every layer: a row is one token throughout. Rows are sequence-first,
`[position, sequence]` flattened within a shard: state the number of sequences, and request and position are known.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.arraytree import describe, open_tree, peek_tree
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.recorded import flat_positions, from_arrays
from cosim.trace.routing import RoutingTrace
from cosim.trace.tensors import ArrayRef

_KEYS = {"samples", "scores", "indices"}
_NUMBER = re.compile(r"\d+")
_Shard = tuple[int, ...]


class FlameMoe:
    """Reader of one file, which is one layer, or of a folder."""

    name = "flame_moe"
    description = "FLAME-MoE .pt with samples, scores and indices: one layer, or a folder of layers and shards"
    reads = frozenset({"sequences"})

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for a dictionary of the three tensors."""
        return _is_layer(peek_tree(path, head))

    def sniff_folder(self, path: Path) -> bool:
        """True for a folder whose first torch file is one."""
        for file in sorted(path.rglob("*.pt"))[:1]:
            with file.open("rb") as stream:
                return self.sniff(file, stream.read(1 << 20))
        return False

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads every layer; shards follow each other.

        Raises:
            TraceError: a file that is none, a layer without one of the shards, shards whose rows are not the same
                tokens in every layer, rows that are not those of so many sequences.
        """
        source = str(path)
        files = _files(path)
        problems = Problems(source)
        shards = sorted({shard for of_layer in files.values() for shard in of_layer})
        for layer, of_layer in files.items():
            for shard in shards:
                if shard not in of_layer:
                    problems.add("a layer without one of the shards", f"layer {layer}: no {_name(shard)}")
        problems.raise_if_any()
        ids, weights, orders, requests, positions = [], [], [], [], []
        first_row = first_request = 0
        for shard in shards:
            parts = [_layer(files[layer][shard], options) for layer in sorted(files)]
            tokens = parts[0][0]
            for layer, (samples, _, indices) in zip(sorted(files), parts, strict=True):
                if samples.shape != tokens.shape or not np.array_equal(samples, tokens):
                    problems.add("rows that are not the same tokens in every layer", f"layer {layer}, {_name(shard)}")
                elif indices.shape != parts[0][2].shape:
                    problems.add("layers of different Top-k", f"layer {layer}, {_name(shard)}")
            problems.raise_if_any()
            ids.append(np.stack([indices for _, _, indices in parts], axis=1))
            weights.append(np.stack([scores for _, scores, _ in parts], axis=1))
            order, request, position = flat_positions(len(tokens), options, source, sequence_first=True)
            if order is not None and request is not None and position is not None:
                orders.append(order + first_row)
                requests.append(request + first_request)
                positions.append(position)
                first_request += int(request[-1]) + 1
            first_row += len(tokens)
        rows = np.concatenate(orders) if orders else slice(None)
        return from_arrays(
            source,
            options,
            np.concatenate(ids)[rows],
            weights=np.concatenate(weights)[rows],
            request=np.concatenate(requests) if requests else None,
            position=np.concatenate(positions) if positions else None,
        )


def _is_layer(tree: Any) -> bool:
    if not isinstance(tree, dict) or set(tree) != _KEYS or not all(isinstance(one, ArrayRef) for one in tree.values()):
        return False
    samples, scores, indices = tree["samples"], tree["scores"], tree["indices"]
    return bool(
        samples.ndim == 1
        and indices.integers
        and indices.ndim == 2
        and scores.shape == indices.shape
        and scores.dtype.kind == "f"
        and samples.shape[0] == indices.shape[0]
    )


def _files(path: Path) -> dict[int, dict[_Shard, Path]]:
    """Layer → shard → file."""
    if not path.is_dir():
        return {0: {(): path}}
    found: dict[int, dict[_Shard, Path]] = {}
    problems = Problems(str(path))
    for file in sorted(path.rglob("*.pt")):
        below = file.relative_to(path).with_suffix("").as_posix()
        numbers = [int(number) for number in _NUMBER.findall(below)]
        if not numbers:
            problems.add("a file whose path has no layer number", below)
            continue
        shard = tuple(numbers[1:])
        if shard in found.setdefault(numbers[0], {}):
            problems.add("two files of one layer and shard", f"layer {numbers[0]}, {_name(shard)}")
        found[numbers[0]][shard] = file
    problems.raise_if_any()
    return found


def _name(shard: _Shard) -> str:
    return f"shard {'.'.join(map(str, shard)) or 'of no number'}"


def _layer(file: Path, options: ReadOptions) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.int64]]:
    tree = open_tree(file, options.limits)
    if not _is_layer(tree):
        raise TraceError(str(file), [f"no samples [n], scores [n, k] and indices [n, k]; it holds {describe(tree)}"])
    return tree["samples"].read(), tree["scores"].read().astype(np.float32), tree["indices"].read().astype(np.int64)


ADAPTER = FlameMoe()
