"""HD-MoE and HDA-MoE routing dumps (github.com/angerybob/HD-MoE, `expert_trace/`).

Layout: one JSON object, `{"<decoder layer>": [[e1, …, ek], …], …}`, a list entry per forward token, the same tokens in
the same order under every layer. Neither request boundaries nor gate weights are kept.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.assemble import finish, narrow_ids, prepare_ids, settle_experts, settle_provenance
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError
from cosim.trace.routing import RoutingTrace

_START = re.compile(rb'\s*\{\s*"(0|[1-9]\d*)"\s*:\s*\[\s*(\[|\])')
_KEY = re.compile(r'\s*"([^"\\]*)"\s*:\s*')
_SPACE = re.compile(r"\s*")
_ROW_END = re.compile(r"\]\s*,")
_PIECE_CHARACTERS = 1 << 20
_I32 = np.iinfo(np.int32)


class HdMoeJson:
    """Reader of the HD-MoE JSON layout."""

    name = "hdmoe_json"
    description = 'HD-MoE / HDA-MoE: JSON {"<layer>": [[e1, …, ek], …]}'

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for an object whose first key is a layer number with a list of lists."""
        return _START.match(head) is not None

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the file, one layer at a time: the lists of one piece of a layer are all that is held as objects.

        Raises:
            TraceError: naming file, layer and token of what is wrong.
        """
        source = str(path)
        if path.stat().st_size > options.limits.max_decoded_bytes:
            raise TraceError(source, [f"larger than {options.limits.max_decoded_bytes} bytes"])
        if options.phase is not None:
            raise TraceError(source, ["phase: cannot be stated, the layout keeps no request boundaries"])
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise TraceError(source, [f"not UTF-8 text (byte {error.start})"]) from error
        layers = _layers(text, source)
        del text
        problems = Problems(source)
        numbers = sorted(layers)
        shape = layers[numbers[0]].shape
        for number in numbers:
            if layers[number].shape != shape:
                problems.add(
                    f"layers of different sizes: layer {numbers[0]} is {list(shape)} [token, slot]",
                    f"layer {number} is {list(layers[number].shape)}",
                )
        problems.raise_if_any()
        if 0 in shape:
            raise TraceError(source, [f"an empty trace: every layer is {list(shape)} [token, slot]"])
        ids = np.stack([layers.pop(number) for number in numbers], axis=1)
        ids = prepare_ids(ids, options, source)
        experts, known = settle_experts(ids, None, options, source)
        return finish(
            source,
            {
                "ids": narrow_ids(ids, experts, source),
                "experts": experts,
                "experts_stated": known,
                "layer_map": np.array(numbers, dtype=np.int32),
                "provenance": settle_provenance(None, options, source),
            },
        )


def _layers(text: str, source: str) -> dict[int, NDArray[np.int32]]:
    """Ids `[token, slot]` of every layer of the object."""
    problems = Problems(source)
    found: dict[int, NDArray[np.int32]] = {}
    place = _expect(text, _skip(text, 0), "{", source)
    while True:
        key = _KEY.match(text, place)
        if key is None:
            raise TraceError(source, [f'{_line(text, place)}: expected "<layer>":, got {_here(text, place)}'])
        place = key.end()
        end = _list_end(text, place, source)
        name = key[1]
        if not (name.isascii() and name.isdigit() and len(name) < 7 and str(int(name)) == name):
            problems.add("a key that is no layer number", f"{_line(text, key.start())}: {name[:40]!r}")
        elif int(name) in found:
            problems.add("a layer that occurs twice", f"{_line(text, key.start())}: {name}")
        else:
            ids = _parse_layer(text, place, end, name, problems)
            found[int(name)] = ids
        place = _skip(text, end)
        if text.startswith(",", place):
            place += 1
            continue
        place = _skip(text, _expect(text, place, "}", source))
        break
    if place != len(text):
        problems.add(f"{_line(text, place)}: text after the object: {_here(text, place)}")
    problems.raise_if_any()
    return found


def _list_end(text: str, place: int, source: str) -> int:
    """End of the list of lists that starts at `place`."""
    start = _expect(text, place, "[", source)
    inner = _skip(text, start)
    if text.startswith("]", inner):
        return inner + 1
    close = re.compile(r"\]\s*\]").search(text, start)
    if close is None:
        raise TraceError(source, [f"truncated: the list that begins in {_line(text, place)} does not end"])
    return close.end()


def _parse_layer(text: str, start: int, end: int, name: str, problems: Problems) -> NDArray[np.int32]:
    """`[token, slot]` of one layer, parsed a piece at a time; on a problem what is returned is not used."""
    place = text.index("[", start) + 1
    stop = text.rindex("]", start, end)
    pieces: list[NDArray[np.int32]] = []
    width, token = -1, 0
    while place < stop:
        begin = place
        cut = _ROW_END.search(text, min(place + _PIECE_CHARACTERS, stop), stop)
        piece_end = cut.start() + 1 if cut else stop
        try:
            rows = json.loads("[" + text[place:piece_end] + "]")
        except (ValueError, RecursionError) as error:
            problems.add("not JSON", f"layer {name}, after token {token}, {_line(text, place)} on: {error}")
            break
        place = cut.end() if cut else stop
        if not rows:
            continue
        fast = _as_table(rows, width)
        if fast is not None and "t" not in text[begin:piece_end] and "f" not in text[begin:piece_end]:
            width, token = fast.shape[1], token + len(rows)
            pieces.append(fast)
            continue
        width = len(rows[0]) if width < 0 and isinstance(rows[0], list) else width
        if _note_bad_rows(rows, width, name, token, problems):
            pieces.append(np.array(rows, dtype=np.int32).reshape(len(rows), width))
        token += len(rows)
    return np.concatenate(pieces) if pieces else np.empty((0, max(width, 0)), dtype=np.int32)


def _as_table(rows: list[Any], width: int) -> NDArray[np.int32] | None:
    """The rows as an array if they are plainly lists of `width` integers (any width when it is -1), else None."""
    try:
        table = np.array(rows)
    except (ValueError, OverflowError):
        return None
    if table.dtype.kind != "i" or table.ndim != 2 or (width >= 0 and table.shape[1] != width):
        return None
    if int(table.min(initial=0)) < _I32.min or int(table.max(initial=0)) > _I32.max:
        return None
    return table.astype(np.int32)


def _note_bad_rows(rows: list[Any], width: int, layer: str, token: int, problems: Problems) -> bool:
    good = True
    for index, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            got = f"{len(row)} ids" if isinstance(row, list) else type(row).__name__
            problems.add(
                f"layer {layer}: a ragged row", f"token {token + index} has {got}, expected a list of {max(width, 1)}"
            )
            good = False
        elif not all(type(value) is int and _I32.min <= value <= _I32.max for value in row):
            problems.add(f"layer {layer}: expected integer ids", f"token {token + index}: {str(row)[:60]}")
            good = False
    return good


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _expect(text: str, place: int, sign: str, source: str) -> int:
    if not text.startswith(sign, place):
        if place >= len(text):
            raise TraceError(source, [f"truncated: the text ends where {sign!r} was expected"])
        raise TraceError(source, [f"{_line(text, place)}: expected {sign!r}, got {_here(text, place)}"])
    return place + 1


def _line(text: str, place: int) -> str:
    return f"line {text.count(chr(10), 0, place) + 1}"


def _here(text: str, place: int) -> str:
    return repr(text[place : place + 20]) if place < len(text) else "the end of the file"


ADAPTER = HdMoeJson()
