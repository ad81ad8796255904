"""Request frames: checked, then turned into the columns the core reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.config.errors import closest
from cosim.mem.address_map import FIELDS
from cosim.mem.options import MemoryOptions
from cosim.mem.problems import Problems, refuse

_KNOWN = ("arrive_cycle", "op", "address", "size_bytes", *FIELDS)
_LIMIT = 1 << 62


def request_columns(frame: pd.DataFrame, options: MemoryOptions) -> tuple[dict[str, npt.NDArray[Any]], bool]:
    """The columns of a request frame in the core's units.

    Args:
        frame: arrive_cycle (CK), op ("R" or "W") and either address [, size_bytes], or coordinates (channel,
            pseudo_channel, stack_id, bank_group, bank, row, column; missing ones are 0). Other columns are left alone.
        options: the memory the frame is for.

    Returns:
        the columns, and whether they are addresses.

    Raises:
        ConfigErrors: every error with the first row it was found in.
    """
    problems = Problems("requests")
    if not isinstance(frame, pd.DataFrame):
        raise refuse("requests", "", f"expected a pandas DataFrame, got {type(frame).__name__}")
    for name in ("arrive_cycle", "op"):
        if name not in frame.columns:
            problems.add("", _missing(name, frame))
    coordinates = [f for f in FIELDS if f in frame.columns]
    by_address = "address" in frame.columns
    if by_address and coordinates:
        problems.add("", f"give either address or coordinates, not both (found address and {', '.join(coordinates)})")
    if not by_address and not coordinates:
        near = closest("address", [str(c) for c in frame.columns])
        hint = f"; did you mean {near!r} to be it?" if near else ""
        problems.add("", f"needs the column address, or coordinate columns ({', '.join(FIELDS)}){hint}")
    if "size_bytes" in frame.columns and not by_address:
        problems.add("size_bytes", "belongs to address; a coordinate names one burst")
    problems.raise_if_any()

    columns: dict[str, npt.NDArray[Any]] = {}
    standard = options.standard
    ticks = _numbers(frame, "arrive_cycle", problems, halves=standard.slots_per_cycle == 2)
    columns["arrive_tick"] = (ticks * standard.slots_per_cycle).astype(np.int64)
    _limit(columns["arrive_tick"], "arrive_cycle", 0, _LIMIT // 4, problems)
    columns["op"] = _ops(frame["op"], problems)
    if by_address:
        _addresses(frame, options, columns, problems)
    else:
        organisation = standard.organisation
        sizes = {
            "channel": options.channels,
            "pseudo_channel": organisation.pseudo_channels,
            "stack_id": organisation.stack_ids,
            "bank_group": organisation.bank_groups,
            "bank": organisation.banks_per_group,
            "row": organisation.rows,
            "column": organisation.columns,
        }
        for field, size in sizes.items():
            values = (
                _numbers(frame, field, problems).astype(np.int64)
                if field in frame.columns
                else np.zeros(len(frame), np.int64)
            )
            _limit(values, field, 0, size - 1, problems)
            columns[field] = values
    problems.raise_if_any()
    if by_address and options.channels != options.address_map.sizes["channel"]:
        raise refuse(
            "requests",
            "address",
            f"needs a power of two of channels, this memory has {options.channels}; use coordinates",
        )
    return columns, by_address


def _missing(name: str, frame: pd.DataFrame) -> str:
    near = closest(name, [str(c) for c in frame.columns])
    hint = f"; did you mean {near!r} to be it?" if near else ""
    return f"the column {name} is missing{hint} (found: {', '.join(str(c) for c in frame.columns)})"


def _numbers(frame: pd.DataFrame, name: str, problems: Problems, halves: bool = False) -> npt.NDArray[Any]:
    """A column of whole numbers (or halves, where a command slot is half a cycle)."""
    series = frame[name]
    if not pd.api.types.is_numeric_dtype(series) or pd.api.types.is_bool_dtype(series):
        problems.add(name, f"expected numbers, got {series.dtype}")
        return np.zeros(len(frame), np.int64)
    values: npt.NDArray[Any] = series.to_numpy()
    if np.issubdtype(values.dtype, np.integer):
        return values
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    scaled = values * 2 if halves else values
    bad = ~np.isfinite(values) | (scaled != np.floor(scaled))
    if bad.any():
        row = int(np.argmax(bad))
        what = "whole or half" if halves else "whole"
        problems.add(name, f"row {row}: expected a {what} number, got {values[row]}")
        return np.zeros(len(frame), np.int64)
    return values


def _limit(values: npt.NDArray[Any], name: str, least: int, most: int, problems: Problems) -> None:
    bad = (values < least) | (values > most)
    if bad.any():
        row = int(np.argmax(bad))
        problems.add(name, f"row {row}: expected {least} to {most}, got {values[row]}")


def _ops(series: pd.Series[Any], problems: Problems) -> npt.NDArray[Any]:
    writes = (series == "W").to_numpy(dtype=bool)
    bad = ~(writes | (series == "R").to_numpy(dtype=bool))
    if bad.any():
        row = int(np.argmax(bad))
        problems.add("op", f"row {row}: expected 'R' or 'W', got {series.iloc[row]!r}")
    return writes.astype(np.uint8)


def _addresses(
    frame: pd.DataFrame, options: MemoryOptions, columns: dict[str, npt.NDArray[Any]], problems: Problems
) -> None:
    access = options.standard.organisation.access_bytes
    capacity = options.address_map.capacity_bytes
    address = _numbers(frame, "address", problems).astype(np.int64)
    size = (
        _numbers(frame, "size_bytes", problems).astype(np.int64)
        if "size_bytes" in frame.columns
        else np.full(len(frame), access, np.int64)
    )
    for name, values, least in (("address", address, 0), ("size_bytes", size, 1)):
        _limit(values, name, least, capacity, problems)
        unaligned = values % access != 0
        if unaligned.any():
            row = int(np.argmax(unaligned))
            problems.add(
                name, f"row {row}: {values[row]} is not a multiple of the {access} B of one burst of this memory"
            )
    beyond = address > capacity - size
    if beyond.any() and not problems.found:
        row = int(np.argmax(beyond))
        problems.add(
            "address",
            f"row {row}: {address[row]} + {size[row]} B lies outside the capacity of {capacity} B",
        )
    columns["address"] = address
    columns["size_bytes"] = size
