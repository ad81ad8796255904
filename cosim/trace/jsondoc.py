"""JSON documents that must be read whole, and JSON lines: bounded, with the place of what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.jsonl import lines
from cosim.trace.limits import ReadLimits
from cosim.trace.problems import TraceError

_I32 = np.iinfo(np.int32)


def read_json(path: Path, limits: ReadLimits) -> Any:
    """The document.

    Raises:
        TraceError: longer than `max_json_bytes`, not UTF-8 or not JSON.
    """
    source = str(path)
    if path.stat().st_size > limits.max_json_bytes:
        raise TraceError(source, [f"a JSON document longer than {limits.max_json_bytes} bytes"])
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise TraceError(source, [f"not UTF-8 text (byte {error.start})"]) from error
    except (ValueError, RecursionError) as error:
        raise TraceError(source, [f"not JSON: {error}"]) from error


def read_documents(path: Path, limits: ReadLimits) -> Iterator[tuple[str, Any]]:
    """(place, document) of a file with one JSON document, a list of them, or one a line.

    Raises:
        TraceError: on what is none of these.
    """
    source = str(path)
    several = False
    for number, text in lines(path, limits):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            if several:
                raise TraceError(source, [f"line {number}: not JSON: {error}"]) from error
            break
        if isinstance(document, list):
            break
        several = True
        yield f"line {number}", document
    else:
        return
    whole = read_json(path, limits)
    for index, document in enumerate(whole if isinstance(whole, list) else [whole]):
        yield f"document {index}", document


def integer_array(value: Any, axes: int) -> NDArray[np.int32] | None:
    """Nested lists of integers as an array of `axes` axes; None where they are ragged, of other types or too large."""
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        return None
    if array.dtype.kind != "i" or array.ndim != axes or 0 in array.shape:
        return None
    if int(array.min()) < _I32.min or int(array.max()) > _I32.max:
        return None
    return array.astype(np.int32)
