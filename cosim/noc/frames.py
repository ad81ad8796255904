"""Packets as a frame: checks on the way in, columns on the way out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim import _core
from cosim.config.errors import Problems, did_you_mean, listed
from cosim.config.schema_network import NetworkConfig

__all__ = ["Packets", "delivery_frame", "packet_rows", "reduction_frame", "session_frame", "unit_frame", "with_times"]

REQUIRED = ("create_cycle", "src", "size_flits")
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
    "session_wait_cycles",
    "retry_cycles",
    "reduction_wait_cycles",
)
SESSION_COLUMNS = (
    "source", "dst_set", "links", "ask_cycle", "grant_cycle", "detach_cycle", "return_cycle", "packets", "flits",
)  # fmt: skip
SHOWN = 8
# a sum is sent as its flits come: the core counts those that are missing in 16 bits
MOST_REDUCED_FLITS = 65_536


@dataclass(frozen=True)
class Packets:
    """Checked packets: rows (create_cycle, source, dest, size_flits, message_class), and a set of nodes per row.

    A row without a set has an empty one and goes to `dest`. `dest_sets` is empty when no row has one. `reductions` has
    the position in `labels` of the reduction that a row is a contribution to, -1 for none; empty when no row is one.
    """

    rows: npt.NDArray[np.int64]
    dest_sets: list[list[int]]
    reductions: list[int] = field(default_factory=list)
    labels: list[object] = field(default_factory=list)


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


def _dest_sets(frame: pd.DataFrame, nodes: int, problems: Problems) -> list[list[int]]:
    """The set of nodes of every row, ascending; empty where the row has none (None or nan)."""
    sets: list[list[int]] = []
    wrong: list[tuple[int, str, str]] = []
    for row, value in enumerate(frame["dst_set"]):
        found: list[int] = []
        if isinstance(value, Collection | np.ndarray) and not isinstance(value, str | bytes):
            members = list(value)
            if not members:
                wrong.append((row, "at least one node", "an empty set"))
            for node in members:
                if isinstance(node, bool | np.bool_) or not isinstance(node, int | np.integer):
                    wrong.append((row, "nodes as integers", repr(node)))
                elif not 0 <= node < nodes:
                    wrong.append((row, f"nodes from 0 to {nodes - 1}", str(node)))
                elif int(node) in found:
                    wrong.append((row, "every node once", f"node {node} twice"))
                else:
                    found.append(int(node))
        elif value is not None and not (isinstance(value, float) and np.isnan(value)) and value is not pd.NA:
            wrong.append((row, "a list of nodes, or nothing for a row with a dst", repr(value)))
        sets.append(sorted(found))
    for row, expected, got in wrong[:SHOWN]:
        problems.add("packets.dst_set", expected, f"{got} in row {row}")
    if len(wrong) > SHOWN:
        problems.add("packets.dst_set", "lists of nodes", f"other values in {len(wrong) - SHOWN} more places")
    return sets


def _destinations(frame: pd.DataFrame, sets: list[list[int]], nodes: int, problems: Problems) -> npt.NDArray[np.int64]:
    """The dst of every row; 0 in rows with a set, which must name none."""
    single = np.array([not nodes_of_row for nodes_of_row in sets], dtype=bool)
    dest = np.zeros(len(frame), dtype=np.int64)
    if "dst" not in frame.columns:
        for row in np.flatnonzero(single)[:SHOWN]:
            problems.add("packets.dst_set", "a list of nodes (there is no column 'dst')", f"none in row {row}")
        return dest
    both = np.flatnonzero(~single & frame["dst"].notna().to_numpy() & (frame["dst"] != -1).to_numpy(bool))
    for row in both[:SHOWN]:
        problems.add("packets.dst", "-1 or nothing in a row with a dst_set", f"{frame['dst'].iloc[row]} in row {row}")
    rows = np.flatnonzero(single)
    dest[rows] = _integers(frame.iloc[rows], "dst", problems)
    _within("dst", dest, 0, nodes - 1, f"a node from 0 to {nodes - 1}", problems)
    return dest


def _check_trees(spec: _core.NetworkSpec, config: NetworkConfig, packets: Packets, problems: Problems) -> None:
    """Rows with a set: of a multicast or session class, along a tree, no larger than a VC or a session."""
    classes = list(config.classes.values())
    multicasts = _core.MulticastTrees(spec) if any(c.multicast for c in classes) else None
    sessions = _core.SessionTrees(spec) if config.has_sessions else None
    shown = 0
    for row in range(len(packets.rows)):
        dests = packets.dest_sets[row] if packets.dest_sets else []
        source, size, message_class = (int(packets.rows[row, i]) for i in (1, 3, 4))
        kind = classes[message_class] if classes else None
        session = kind is not None and kind.session
        if shown == SHOWN or (not dests and not session):
            continue
        shown += 1
        if session and not dests:
            name = config.class_names[message_class]
            problems.add(
                "packets.dst_set", f"a list of nodes for a row of the session class {name}", f"none in row {row}"
            )
            continue
        if kind is None or not (kind.multicast or session):
            names = [name for name, c in config.classes.items() if c.multicast or c.session]
            expected = (
                listed(names)
                if names
                else "a message class with `multicast: true` or `session: true` in network.classes"
            )
            name = config.class_names[message_class] if config.classes else "no class"
            problems.add("packets.message_class", f"{expected} for a row with a dst_set", f"{name} in row {row}")
            continue
        trees = sessions if session else multicasts
        assert trees is not None
        try:
            room = trees.room(source, dests)
        except ValueError as problem:
            expected = "nodes that ways lead to" if session else "routes that form a tree"
            problems.add("packets.dst_set", expected, f"{problem} (row {row})")
            continue
        if size > room:
            limit = (
                "what sessions.max_session_cycles leaves beside set-up, way and tear-down"
                if session
                else "the smallest VC on the way (multicast is virtual cut-through)"
            )
            problems.add("packets.size_flits", f"at most {room} flits, {limit}", f"{size} in row {row}")
            continue
        shown -= 1


def _reductions(frame: pd.DataFrame, problems: Problems) -> tuple[list[int], list[object]]:
    """Of every row the number of its reduction, -1 for none (None, nan or -1), and the labels in their order."""
    numbers: dict[object, int] = {}
    found = []
    for row, value in enumerate(frame["reduction"]):
        if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)) or value == -1:
            found.append(-1)
            continue
        if isinstance(value, float) and value == int(value):
            value = int(value)
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer | str):
            problems.add(
                "packets.reduction", "a number or a name, or nothing for no reduction", f"{value!r} in row {row}"
            )
            return [], []
        label: object = value if isinstance(value, str) else int(value)
        found.append(numbers.setdefault(label, len(numbers)))
    return found, list(numbers)


def _check_reductions(packets: Packets, config: NetworkConfig, problems: Problems) -> None:
    """Contributions to one sum: of a reduction class, to one node, of one size, one of each source."""
    classes = list(config.classes.values())
    first: dict[int, int] = {}
    sources: set[tuple[int, int]] = set()
    shown = 0
    for row, number in enumerate(packets.reductions):
        if number < 0 or shown == SHOWN:
            continue
        _, source, dest, size, message_class = (int(value) for value in packets.rows[row])
        before = len(problems.found)
        if not classes or not classes[message_class].reduction:
            names = [name for name, c in config.classes.items() if c.reduction]
            expected = listed(names) if names else "a message class with `reduction: true` in network.classes"
            name = config.class_names[message_class] if classes else "no class"
            problems.add("packets.message_class", f"{expected} for a row with a reduction", f"{name} in row {row}")
        if packets.dest_sets and packets.dest_sets[row]:
            problems.add("packets.dst_set", "none in a row with a reduction", f"one in row {row}")
        other = first.setdefault(number, row)
        for column, at, value in (("dst", 2, dest), ("size_flits", 3, size), ("message_class", 4, message_class)):
            known = int(packets.rows[other, at])
            if value != known:
                label = packets.labels[number]
                expected = f"{known}, as in row {other} of reduction {label!r}"
                problems.add(f"packets.{column}", expected, f"{value} in row {row}")
        if size > MOST_REDUCED_FLITS:
            problems.add(
                "packets.size_flits", f"at most {MOST_REDUCED_FLITS} flits in a reduction", f"{size} in row {row}"
            )
        if (number, source) in sources:
            expected = f"each source once in reduction {packets.labels[number]!r}"
            problems.add("packets.src", expected, f"node {source} again in row {row}")
        sources.add((number, source))
        shown += len(problems.found) > before


def packet_rows(frame: pd.DataFrame, config: NetworkConfig, spec: _core.NetworkSpec) -> Packets:
    """A checked frame as numbers.

    Args:
        frame: columns create_cycle, src, dst and/or dst_set, size_flits and, with message classes, message_class (name
            or index), reduction (number or name). Other columns are kept but not read.
        config: of the network.
        spec: the same, as it is built.

    Raises:
        ConfigErrors: missing columns, values that are no integers, unknown nodes, empty packets, multicasts of another
            class, without a tree or larger than a VC, session packets without a set or too large, contributions to a
            reduction that do not fit together: all of them.
    """
    problems = Problems()
    nodes = len(spec.terminals)
    several = "dst_set" in frame.columns
    for column in REQUIRED if several else (*REQUIRED, "dst"):
        if column not in frame.columns:
            columns = [str(c) for c in frame.columns]
            problems.add(
                "packets", f"a column {column!r}", f"the columns {', '.join(columns)}", did_you_mean(column, columns)
            )
    for column in ADDED:
        if column in frame.columns:
            problems.add(f"packets.{column}", "no such column (it is a result of the run)", "a column of this name")
    problems.raise_if_any()
    create = _integers(frame, "create_cycle", problems)
    source = _integers(frame, "src", problems)
    sets = _dest_sets(frame, nodes, problems) if several else []
    problems.raise_if_any()
    dest = _destinations(frame, sets, nodes, problems) if several else _integers(frame, "dst", problems)
    size = _integers(frame, "size_flits", problems)
    _within("create_cycle", create, 0, 1 << 60, "a cycle from 0 to 2^60", problems)
    _within("src", source, 0, nodes - 1, f"a node from 0 to {nodes - 1}", problems)
    if not several:
        _within("dst", dest, 0, nodes - 1, f"a node from 0 to {nodes - 1}", problems)
    _within("size_flits", size, 1, (1 << 31) - 1, "a size of at least 1 flit", problems)
    message_class = _classes(frame, config, problems)
    problems.raise_if_any()
    numbers, labels = _reductions(frame, problems) if "reduction" in frame.columns else ([], [])
    problems.raise_if_any()
    rows = np.column_stack([create, source, dest, size, message_class])
    packets = Packets(rows, sets if any(sets) else [], numbers if labels else [], labels)
    if any(sets) or config.has_sessions:
        _check_trees(spec, config, packets, problems)
    if labels:
        _check_reductions(packets, config, problems)
    problems.raise_if_any()
    return packets


def delivery_frame(packets: Packets, deliveries: npt.NDArray[np.int64]) -> pd.DataFrame:
    """One row per multicast or session packet and node: row, dst, the times, hops and latency terms of that copy."""
    rows = deliveries[:, 0]
    create = packets.rows[rows, 0]
    frame = pd.DataFrame({"row": rows, "dst": deliveries[:, 1], "create_cycle": create})
    timed = with_times(frame, deliveries[:, 2:])
    del timed["create_cycle"]
    return timed


def session_frame(run: _core.PacketRun) -> pd.DataFrame:
    """One row per session, in the order in which they ended: `SESSION_COLUMNS`."""
    table = run.sessions()
    frame: pd.DataFrame = pd.DataFrame(table, columns=["source", "tree", *SESSION_COLUMNS[3:]])
    trees = [int(tree) for tree in frame["tree"]]
    frame.insert(1, "dst_set", pd.Series([run.session_nodes(tree) for tree in trees], dtype=object))
    frame.insert(2, "links", pd.Series([run.session_links(tree) for tree in trees], dtype=object))
    del frame["tree"]
    return frame


def reduction_frame(packets: Packets, spec: _core.NetworkSpec, ejected: npt.NDArray[np.int64]) -> pd.DataFrame:
    """One row per reduction, in the order of their first rows; `ejected` is the eject_cycle of every packet."""
    trees = _core.ReductionTrees(spec)
    members: list[list[int]] = [[] for _ in packets.labels]
    for row, number in enumerate(packets.reductions):
        if number >= 0:
            members[number].append(row)
    sources = [sorted(int(packets.rows[row, 1]) for row in rows) for rows in members]
    dests = [int(packets.rows[rows[0], 2]) for rows in members]
    frame: pd.DataFrame = pd.DataFrame(
        {
            "reduction": pd.Series(packets.labels, dtype=object),
            "dst": np.array(dests, dtype=np.int64),
            "sources": pd.Series(sources, dtype=object),
            "joins": pd.Series([trees.joins(d, s) for d, s in zip(dests, sources, strict=True)], dtype=object),
            "create_cycle": np.array([packets.rows[rows, 0].max() for rows in members], dtype=np.int64),
            "eject_cycle": np.array([ejected[rows[0]] for rows in members], dtype=np.int64),
        }
    )
    return frame


def unit_frame(counters: npt.NDArray[np.int64]) -> pd.DataFrame:
    """One row per router: what its reduction unit read, made and held."""
    frame: pd.DataFrame = pd.DataFrame(counters, columns=["parts", "sums", "most_open"])
    frame.insert(0, "router", np.arange(len(frame)))
    return frame


def with_times(frame: pd.DataFrame, records: npt.NDArray[np.int64]) -> pd.DataFrame:
    """The frame with inject_cycle, eject_cycle, latencies, hops and latency terms added; same rows and index.

    A packet that was refused has cycles and latencies of -1.
    """
    out: pd.DataFrame = frame.copy()
    for i, column in enumerate(ADDED):
        out[column] = records[:, i]
    sent = records[:, 1] >= 0
    create = frame["create_cycle"].to_numpy().astype(np.int64)
    latency = np.where(sent, records[:, 1] - create, -1)
    out.insert(list(out.columns).index("hops"), "packet_latency_cycles", latency)
    network = np.where(sent, records[:, 1] - records[:, 0], -1)
    out.insert(list(out.columns).index("hops"), "network_latency_cycles", network)
    return out
