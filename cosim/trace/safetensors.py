"""safetensors files: the header first, held against the file before an array is read.

Layout (github.com/huggingface/safetensors, README): 8 bytes little-endian length of the header; the header, a JSON
object name → {dtype, shape, data_offsets [begin, end)}, and `__metadata__`; then the bytes of the arrays, no holes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.limits import ReadLimits
from cosim.trace.problems import Problems, TraceError
from cosim.trace.tensors import ArrayRef, checked_view

_DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "BF16": "bfloat16",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}


def looks_like_safetensors(head: bytes, size: int) -> bool:
    """True if the first bytes are a header length that fits the file and the beginning of its JSON."""
    return len(head) > 9 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8


def read_safetensors(path: Path, limits: ReadLimits) -> dict[str, ArrayRef]:
    """The arrays of a safetensors file by name, in file order.

    Raises:
        TraceError: on a header that is too long, no JSON, or does not describe the rest of the file exactly.
    """
    source = str(path)
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 10 or length > size - 8:
            raise TraceError(source, [f"a header of {length} bytes in a file of {size}: truncated or no safetensors"])
        if length > limits.max_header_bytes:
            raise TraceError(source, [f"a header of {length} bytes, at most {limits.max_header_bytes} are read"])
        raw = stream.read(length)
    try:
        header = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise TraceError(source, [f"the header: {' '.join(str(error).split())[:120]}"]) from error
    if not isinstance(header, dict):
        raise TraceError(source, ["the header is no JSON object"])
    header.pop("__metadata__", None)
    problems = Problems(source)
    found: dict[str, tuple[int, int, ArrayRef]] = {}
    for name, entry in header.items():
        described = _describe(path, entry, 8 + length, size)
        if isinstance(described, str):
            problems.add("an entry of the header", f"{name[:60]!r}: {described}")
        else:
            found[name] = described
    problems.raise_if_any()
    ordered = sorted(found, key=lambda name: found[name][:2])
    place = 0
    for name in ordered:
        begin, end, _ = found[name]
        if begin != place:
            problems.add("arrays that overlap or leave a hole", f"{name[:60]!r} begins at {begin}, expected {place}")
        place = end
    if place != size - 8 - length:
        problems.add(f"truncated: the header describes {place} bytes of arrays, the file has {size - 8 - length}")
    problems.raise_if_any()
    return {name: found[name][2] for name in ordered}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name that occurs twice")
    return found


def _describe(path: Path, entry: Any, start: int, size: int) -> tuple[int, int, ArrayRef] | str:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return "expected dtype, shape and data_offsets"
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _DTYPES:
        return f"dtype {str(kind)[:20]!r} is not one of {', '.join(_DTYPES)}"
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and n >= 0 for n in shape):
        return f"shape {str(shape)[:40]}"
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(n) is int for n in offsets):
        return f"data_offsets {str(offsets)[:40]}"
    begin, end = offsets
    text = _DTYPES[kind]
    width = 2 if kind == "BF16" else np.dtype(text).itemsize
    if not 0 <= begin <= end <= size - start or end - begin != math.prod(shape) * width:
        return f"{kind} {shape} at bytes {begin} to {end} of {size - start}"

    def read() -> NDArray[Any]:
        with path.open("rb") as stream:
            stream.seek(start + begin)
            raw = stream.read(end - begin)
        if len(raw) != end - begin:
            raise TraceError(str(path), ["truncated while it was read"])
        steps, step = [], 1
        for length in reversed(shape):
            steps.append(step)
            step *= length
        return checked_view(np.frombuffer(raw, np.uint8), text, 0, tuple(shape), tuple(reversed(steps)))

    dtype = np.dtype(np.float32) if kind == "BF16" else np.dtype(text).newbyteorder("=")
    return begin, end, ArrayRef(tuple(shape), dtype, read)
