"""gpt-oss expert fingerprinting: `<task>_examples.json` (github.com/AmanPriyanshu/GPT-OSS-MoE-ExpertFingerprinting).

One object per file: `dataset`, `category`, `row_index`, `full_text` (tokens), and `router_data`, a list with an object
per generated token: `{"token_<position>": {"layer_<l>": {"selected_experts": […], "selected_probs": […]}}}`. Prompt
rows were not recorded. A folder of such files, at any depth, is read as one recording, a request a file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.jsondoc import integer_array, read_json
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.recorded import from_arrays
from cosim.trace.routing import PHASES, RoutingTrace

_START = re.compile(rb'\s*\{\s*"row_index"\s*:')
_TOKEN = re.compile(r"token_(\d{1,8})")
_LAYER = re.compile(r"layer_(\d{1,4})")
_MAX_FILES = 100_000


class GptOssExamples:
    """Reader of one example, or a folder of them."""

    name = "gptoss_json"
    description = "gpt-oss expert fingerprinting: JSON with router_data, one request a file, or a folder of them"

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for an object that begins with `row_index` and holds `router_data` and its keys."""
        if _START.match(head) is None:
            return False
        if b'"router_data"' in head:
            return True
        with path.open("rb") as stream:  # the text of the request comes before its routing
            return b'"router_data"' in stream.read(4 << 20)

    def sniff_folder(self, path: Path) -> bool:
        """True for a folder whose first `*_examples.json` is one."""
        for file in sorted(path.rglob("*_examples.json"))[:1]:
            with file.open("rb") as stream:
                return self.sniff(file, stream.read(1 << 16))
        return False

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the requests in order of file name; `dataset` is the domain.

        Raises:
            TraceError: naming file, token and layer.
        """
        source = str(path)
        files = sorted(path.rglob("*_examples.json")) if path.is_dir() else [path]
        if not 0 < len(files) <= _MAX_FILES:
            raise TraceError(source, [f"{len(files)} files *_examples.json, expected 1 to {_MAX_FILES}"])
        ids: list[NDArray[Any]] = []
        weights: list[NDArray[Any]] = []
        position: list[NDArray[Any]] = []
        lengths: list[int] = []
        domain: list[int] = []
        domains: dict[str, int] = {}
        layers: list[int] | None = None
        for file in files:
            document = read_json(file, options.limits)
            found = _tokens(file, document, layers)
            layers = found.layers
            if not found.ids.size:
                continue
            if ids and found.ids.shape[1:] != ids[0].shape[1:]:
                raise TraceError(
                    str(file), [f"{list(found.ids.shape[1:])} [layer, slot], other files {list(ids[0].shape[1:])}"]
                )
            ids.append(found.ids)
            weights.append(found.weights)
            position.append(found.position)
            lengths.append(found.ids.shape[0])
            name = document.get("dataset")
            domain.append(domains.setdefault(name if isinstance(name, str) and name else "unnamed", len(domains)))
        if not ids or layers is None:
            raise TraceError(source, ["no token with routing"])
        tokens = sum(lengths)
        return from_arrays(
            source,
            options,
            np.concatenate(ids),
            layer_map=np.array(layers),
            weights=np.concatenate(weights),
            request=np.repeat(np.arange(len(ids)), lengths),
            position=np.concatenate(position),
            phase=np.full(tokens, PHASES.index("decode"), dtype=np.uint8),
            domain=np.repeat(np.array(domain, dtype=np.int16), lengths),
            domains=tuple(domains),
        )


class _Found:
    def __init__(self, ids: NDArray[Any], weights: NDArray[Any], position: NDArray[Any], layers: list[int]) -> None:
        self.ids, self.weights, self.position, self.layers = ids, weights, position, layers


def _tokens(file: Path, document: Any, layers: list[int] | None) -> _Found:
    problems = Problems(str(file))
    data = document.get("router_data") if isinstance(document, dict) else None
    if not isinstance(data, list):
        raise TraceError(str(file), ["expected an object with a list router_data"])
    rows: list[list[Any]] = []
    probs: list[list[Any]] = []
    position: list[int] = []
    for index, entry in enumerate(data):
        name = next(iter(entry), "") if isinstance(entry, dict) and len(entry) == 1 else ""
        match = _TOKEN.fullmatch(name)
        held = entry[name] if match else None
        numbers = [_LAYER.fullmatch(key) for key in held] if isinstance(held, dict) else []
        if match is None or not numbers or not all(numbers):
            problems.add('expected {"token_<position>": {"layer_<l>": …}}', f"router_data[{index}]")
            continue
        mine = sorted(int(number[1]) for number in numbers if number)
        layers = mine if layers is None else layers
        cells = [held[f"layer_{layer}"] for layer in layers] if mine == layers and held else []
        if not cells or not all(
            isinstance(c, dict) and {"selected_experts", "selected_probs"} <= c.keys() for c in cells
        ):
            problems.add("expected selected_experts and selected_probs of the same layers", f"router_data[{index}]")
            continue
        rows.append([cell["selected_experts"] for cell in cells])
        probs.append([cell["selected_probs"] for cell in cells])
        position.append(int(match[1]))
    problems.raise_if_any()
    if not rows:
        return _Found(np.empty((0, 0, 0)), np.empty(0), np.empty(0), layers or [])
    ids = integer_array(rows, 3)
    try:
        weights = np.array(probs, dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        weights = np.empty(0, dtype=np.float32)
    if ids is None or weights.shape != ids.shape:
        raise TraceError(str(file), ["ragged selected_experts or selected_probs"])
    return _Found(ids, weights, np.array(position), layers or [])


ADAPTER = GptOssExamples()
