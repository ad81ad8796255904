"""Packets as a frame: checks on the way in, columns on the way out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.config.errors import Problems, did_you_mean, listed
from cosim.config.schema_network import NetworkConfig

__all__ = ["packet_rows", "with_times"]

REQUIRED = ("create_cycle", "src", "dst", "size_flits")
OPTIONAL = ("message_class",)
ADDED = (
    "inject_cycle",
    "eject_cycle",
    "hops",
    "source_queueing_cycles",
    "router_cycles",
    "link_cycles",
    "serialisation_cycles",
    "contention_cycles",
)
SHOWN = 8


def _integers(frame: pd.DataFrame, column: str, problems: Problems) -> npt.NDArray[np.int64]:
    values = frame[column]
    if values.isna().any():
        row = int(np.flatnonzero(values.isna().to_numpy())[0])
        problems.add(f"packets.{column}", "a value in every row", f"none in row {row}")
        return np.zeros(len(frame), dtype=np.int64)
    if pd.api.types.is_bool_dtype(values) or not pd.api.types.is_numeric_dtype(values):
        problems.add(f"packets.{column}", "integers", str(values.dtype))
        return np.zeros(len(frame), dtype=np.int64)
    numbers = values.to_numpy()
    if not pd.api.types.is_integer_dtype(values):
        whole = np.isfinite(numbers) & (np.floor(numbers) == numbers)
        if not whole.all():
            row = int(np.flatnonzero(~whole)[0])
            problems.add(f"packets.{column}", "integers", f"{numbers[row]} in row {row}")
            return np.zeros(len(frame), dtype=np.int64)
    return numbers.astype(np.int64)


def _within(
    column: str, values: npt.NDArray[np.int64], least: int, most: int, meaning: str, problems: Problems
) -> None:
    wrong = np.flatnonzero((values < least) | (values > most))
    for row in wrong[:SHOWN]:
        problems.add(f"packets.{column}", meaning, f"{values[row]} in row {row}")
    if len(wrong) > SHOWN:
        problems.add(f"packets.{column}", meaning, f"other values in {len(wrong) - SHOWN} more rows")


def _classes(frame: pd.DataFrame, config: NetworkConfig, problems: Problems) -> npt.NDArray[np.int64]:
    if "message_class" not in frame.columns:
        if len(config.classes) > 1:
            problems.add("packets.message_class", "this column (the network has several classes)", "no such column")
        return np.zeros(len(frame), dtype=np.int64)
    names = {name: i for i, name in enumerate(config.class_names)}
    values = frame["message_class"]
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        numbers = _integers(frame, "message_class", problems)
        most = max(len(names), 1) - 1
        _within("message_class", numbers, 0, most, f"a message class from 0 to {most}", problems)
        return numbers
    known = values.astype(str).map(names)
    wrong = np.flatnonzero(known.isna().to_numpy())
    for row in wrong[:SHOWN]:
        problems.add(
            "packets.message_class",
            listed(names),
            f"{values.iloc[row]!r} in row {row}",
            did_you_mean(str(values.iloc[row]), names),
        )
    return known.fillna(0).to_numpy().astype(np.int64)


def packet_rows(frame: pd.DataFrame, config: NetworkConfig, nodes: int) -> npt.NDArray[np.int64]:
    """Rows (create_cycle, source, dest, size_flits, message_class) of a checked frame.

    Args:
        frame: columns create_cycle, src, dst, size_flits and, with message classes, message_class (name or index).
            Other columns are kept but not read.

    Raises:
        ConfigErrors: missing columns, values that are no integers, unknown nodes, empty packets: all of them.
    """
    problems = Problems()
    for column in REQUIRED:
        if column not in frame.columns:
            columns = [str(c) for c in frame.columns]
            problems.add(
                "packets", f"a column {column!r}", f"the columns {', '.join(columns)}", did_you_mean(column, columns)
            )
    if "dst_set" in frame.columns:
        problems.add("packets.dst_set", "one row per destination", "this column (multicast packets are not supported)")
    for column in ADDED:
        if column in frame.columns:
            problems.add(f"packets.{column}", "no such column (it is a result of the run)", "a column of this name")
    problems.raise_if_any()
    create = _integers(frame, "create_cycle", problems)
    source = _integers(frame, "src", problems)
    dest = _integers(frame, "dst", problems)
    size = _integers(frame, "size_flits", problems)
    _within("create_cycle", create, 0, 1 << 60, "a cycle from 0 to 2^60", problems)
    _within("src", source, 0, nodes - 1, f"a node from 0 to {nodes - 1}", problems)
    _within("dst", dest, 0, nodes - 1, f"a node from 0 to {nodes - 1}", problems)
    _within("size_flits", size, 1, (1 << 31) - 1, "a size of at least 1 flit", problems)
    message_class = _classes(frame, config, problems)
    problems.raise_if_any()
    return np.column_stack([create, source, dest, size, message_class])


def with_times(frame: pd.DataFrame, records: npt.NDArray[np.int64]) -> pd.DataFrame:
    """The frame with inject_cycle, eject_cycle, latencies, hops and latency terms added; same rows and index."""
    out: pd.DataFrame = frame.copy()
    for i, column in enumerate(ADDED):
        out[column] = records[:, i]
    create = frame["create_cycle"].to_numpy().astype(np.int64)
    out.insert(list(out.columns).index("hops"), "packet_latency_cycles", records[:, 1] - create)
    out.insert(list(out.columns).index("hops"), "network_latency_cycles", records[:, 1] - records[:, 0])
    return out
