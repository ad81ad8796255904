"""Reading request traces: our own tables, Ramulator-like lines, DRAMsim3 lines."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pandas as pd

from cosim.mem.problems import Problems, refuse

_READS = ("R", "RD", "READ", "LD", "P_MEM_RD")
_WRITES = ("W", "WR", "WRITE", "ST", "P_MEM_WR")
_COORDINATES = ("pseudo_channel", "stack_id", "bank_group", "bank", "row", "column")
_MOST_ERRORS = 20
_COLUMNS = {"coordinates": _COORDINATES, "levels": ("channel", *_COORDINATES), "address": ("address",)}


def read_trace(path: Path) -> pd.DataFrame:
    """A request frame from a file.

    Forms, told apart by the name and the first line:

    * ``.csv`` and ``.parquet``: the columns of a request frame.
    * ``[@cycle ]R|W pc sid bg bank row column``: coordinates; without ``@cycle`` as fast as accepted.
    * ``R|W address`` or ``LD|ST address``: byte addresses (hexadecimal with 0x), as fast as accepted.
    * ``R|W channel,pseudo-channel,[stack id,]bank group,bank,row,column``: Ramulator 2.1's ReadWriteTrace; six levels
      are HBM2's, or DDR5's with the rank, of which there is one, in the second place.
    * ``address R|W`` (Ramulator 1), as fast as accepted.
    * ``address READ|WRITE cycle`` (DRAMsim3).

    ``#`` starts a comment. A file may be gzipped (``.gz``).

    Raises:
        ConfigErrors: the first lines that do not fit, with their numbers.
        OSError: the file cannot be read.
    """
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        table: pd.DataFrame = pd.read_parquet(path)
        return table
    if name.endswith(".csv"):
        try:
            csv: pd.DataFrame = pd.read_csv(path)
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise refuse(str(path), "", f"is not readable as CSV: {error}") from error
        return csv
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise refuse(str(path), "", f"is no readable text: {error}") from error
    return parse_lines(text.splitlines(), str(path))


def parse_lines(lines: list[str], where: str) -> pd.DataFrame:
    """The same for lines already read; `where` starts the error messages."""
    problems = Problems(where)
    rows: list[tuple[float | str, ...]] = []
    form = ""
    for number, line in enumerate(lines, start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        found, row = _parse(words)
        if row is None:
            problems.add(f"line {number}", f"{found}, got {line.strip()!r}")
        elif form and found != form:
            problems.add(f"line {number}", f"expected the form of the lines before ({form}), got {line.strip()!r}")
        else:
            form = found
            rows.append(row)
        if len(problems.found) == _MOST_ERRORS:
            break
    problems.raise_if_any()
    if not rows:
        raise refuse(where, "", "holds no request")
    names = ("arrive_cycle", "op", *_COLUMNS[form])
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(names))
    return frame


def _operation(word: str) -> str | None:
    return "R" if word.upper() in _READS else "W" if word.upper() in _WRITES else None


def _parse(words: list[str]) -> tuple[str, tuple[int | str, ...] | None]:
    """The form of a line and its row; or what was expected and nothing."""
    expected = (
        "expected '[@cycle ]R|W pc sid bg bank row column', 'R|W address', 'R|W ch,pc[,sid],bg,bank,row,column', "
        "'address R|W' or 'address READ|WRITE cycle'"
    )
    try:
        at = 0
        if words[0].startswith("@"):
            at = int(words[0][1:])
            words = words[1:]
        op = _operation(words[0])
        if op is not None and len(words) == 1 + len(_COORDINATES):
            return "coordinates", (at, op, *(int(w, 0) for w in words[1:]))
        if op is not None and len(words) == 2 and "," in words[1]:
            levels = [int(w) for w in words[1].split(",")]
            if len(levels) == len(_COORDINATES):
                levels.insert(2, 0)
            if len(levels) == len(_COLUMNS["levels"]):
                return "levels", (at, op, *levels)
            return expected, None
        if len(words) == 2 and op is None and (op := _operation(words[1])) is not None:
            return "address", (at, op, int(words[0], 0))
        if op is not None and len(words) == 2:
            return "address", (at, op, int(words[1], 0))
        if len(words) == 3 and (op := _operation(words[1])) is not None:
            return "address", (int(words[2]), op, int(words[0], 0))
    except (ValueError, IndexError):
        pass
    return expected, None
