"""Gate weights by layer as CSV (DynaNDE / NeuPIMs-MoE): `layer_id,token_id,expert_0,…,expert_{E-1}`.

One file per layer: a row per token, the gate weight of every expert and 0 where it was not chosen. `layer_id` is 0 in
the published files whatever the layer, so a folder is read as one layer a file, in order of the numbers in the names.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.trace.jsonl import lines
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.recorded import from_arrays
from cosim.trace.routing import RoutingTrace

_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?layer_id,token_id,expert_0(,expert_\d+)*\s*\r?\n")
_NUMBER = re.compile(r"\d+")


class WeightsCsv:
    """Reader of one such file, or of a folder of them."""

    name = "weights_csv"
    description = "DynaNDE / NeuPIMs-MoE gate weights: CSV layer_id,token_id,expert_0,…; one file or a folder"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for the header."""
        return _HEADER.match(head) is not None

    def sniff_folder(self, path: Path) -> bool:
        """True for a folder whose first CSV is one."""
        for file in sorted(path.glob("*.csv"))[:1]:
            with file.open("rb") as stream:
                return self.sniff(file, stream.read(1 << 20))
        return False

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Experts with a weight, strongest first; a token with fewer leaves slots empty.

        Raises:
            TraceError: naming file and line.
        """
        source = str(path)
        files = sorted(path.glob("*.csv"), key=_order) if path.is_dir() else [path]
        problems = Problems(source)
        layers: list[NDArray[np.float32]] = []
        for file in files:
            tables = _tables(file, options, problems)
            if len(tables) > 1 and len(files) > 1:
                problems.add("a file of a folder that holds several layers", file.name)
            layers.extend(tables)
        problems.raise_if_any()
        if not layers:
            raise TraceError(source, ["no rows"])
        for number, layer in enumerate(layers):
            if layer.shape != layers[0].shape:
                problems.add(
                    f"layers of different [token, expert]: the first is {list(layers[0].shape)}",
                    f"layer {number} is {list(layer.shape)}",
                )
        problems.raise_if_any()
        weights = np.stack(layers, axis=1)
        top_k = int((weights > 0).sum(axis=2).max())
        if top_k == 0:
            raise TraceError(source, ["no expert has a weight"])
        order = np.argsort(-weights, axis=2, kind="stable")[:, :, :top_k]
        chosen = np.take_along_axis(weights, order, axis=2)
        ids = np.where(chosen > 0, order, -1)
        return from_arrays(source, options, ids, experts=weights.shape[2], weights=chosen)


def _order(file: Path) -> tuple[list[int], str]:
    return [int(number) for number in _NUMBER.findall(file.stem)], file.name


def _tables(path: Path, options: ReadOptions, problems: Problems) -> list[NDArray[np.float32]]:
    """Weights `[token, expert]` of every `layer_id` of a file, in order of token_id."""
    width = 0
    rows: dict[int, dict[int, list[float]]] = {}
    for number, text in lines(path, options.limits):
        cells = text.strip().split(",")
        if number == 1:
            width = len(cells)
            if cells[2:] != [f"expert_{n}" for n in range(width - 2)] or width - 2 > options.limits.max_experts:
                problems.add(f"{path.name}: expected columns layer_id, token_id, expert_0, expert_1, …")
                return []
            continue
        try:
            layer, token, weights = int(cells[0]), int(cells[1]), [float(cell) for cell in cells[2:]]
        except (ValueError, IndexError):
            problems.add(f"{path.name}: expected numbers", f"line {number}: {text.strip()[:60]!r}")
            continue
        if len(cells) != width or not all(0 <= weight < 1e30 for weight in weights):
            problems.add(f"{path.name}: expected {width - 2} weights >= 0", f"line {number}")
        elif token in rows.setdefault(layer, {}):
            problems.add(f"{path.name}: a token that occurs twice", f"line {number}: layer {layer}, token {token}")
        else:
            rows[layer][token] = weights
    return [
        np.array([tokens[token] for token in sorted(tokens)], dtype=np.float32) for _, tokens in sorted(rows.items())
    ]


ADAPTER = WeightsCsv()
