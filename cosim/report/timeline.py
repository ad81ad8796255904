"""What happened when, as a file for a trace viewer: Chrome's trace-event format, which Perfetto opens.

Times are written in microseconds with three decimals, whole nanoseconds rounded down: what Perfetto keeps. Slices that
overlap on one track are drawn on rows of it, ``name``, ``name +1``, ...; parts of a slice below it. No row has the
number of a process: Perfetto would take it for a main thread and put it first.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Arrow", "Slice", "Timeline", "Track", "trace_json_gz"]


@dataclass(frozen=True)
class Track:
    """A row of the viewer: ``group`` is its process, ``position`` its place in it."""

    group: str
    position: int
    name: str


@dataclass(frozen=True)
class Slice:
    """Something that took its time on a track; ``args`` is what the viewer shows of it when it is clicked.

    ``part_of`` is the slice of the same track that it is a part of.
    """

    track: Track
    begin_fs: int
    end_fs: int
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    part_of: Slice | None = None


@dataclass(frozen=True)
class Arrow:
    """A way through slices, earliest first."""

    name: str
    through: tuple[Slice, ...]


@dataclass(frozen=True)
class Timeline:
    """Slices and the arrows between them; ``facts`` says what was recorded, and what was left out."""

    slices: tuple[Slice, ...]
    arrows: tuple[Arrow, ...]
    facts: Mapping[str, Any]


def _microseconds(fs: int) -> float:
    return fs // 10**6 / 1000


def _rows(slices: list[Slice]) -> Iterator[tuple[int, Slice]]:
    """The row of every slice of a track: the first that is free by then, for a part that of its whole."""
    free_at: list[int] = []
    row_of: dict[int, int] = {}  # identity of a whole → its row
    for item in sorted(slices, key=lambda one: (one.begin_fs, one.part_of is not None, -one.end_fs)):
        if item.part_of is not None:
            yield row_of[id(item.part_of)], item
            continue
        row = next((row for row, end in enumerate(free_at) if end <= item.begin_fs), len(free_at))
        if row == len(free_at):
            free_at.append(0)
        free_at[row] = item.end_fs
        row_of[id(item)] = row
        yield row, item


def _events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    by_track: dict[Track, list[Slice]] = defaultdict(list)
    for item in timeline.slices:
        by_track[item.track].append(item)
    groups = list(dict.fromkeys(item.track.group for item in timeline.slices))
    place: dict[int, tuple[int, int]] = {}  # identity of a slice → process and thread
    for number, group in enumerate(groups, start=1):
        yield {"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": group}}
        yield {"ph": "M", "name": "process_sort_index", "pid": number, "tid": 0, "args": {"sort_index": number}}
        thread = len(groups)
        for track in sorted((one for one in by_track if one.group == group), key=lambda one: one.position):
            first, rows = thread + 1, 0
            for row, item in _rows(by_track[track]):
                rows = max(rows, row + 1)
                place[id(item)] = (number, first + row)
                begin = _microseconds(item.begin_fs)
                yield {
                    "ph": "X",
                    "name": item.name,
                    "cat": group,
                    "pid": number,
                    "tid": first + row,
                    "ts": begin,
                    "dur": round(_microseconds(item.end_fs) - begin, 3),
                    "args": dict(item.args),
                }
            for row in range(rows):
                name = track.name if row == 0 else f"{track.name} +{row}"
                for key, value in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": first + row})):
                    yield {"ph": "M", "name": key, "pid": number, "tid": first + row, "args": value}
            thread = first + rows - 1
    for number, arrow in enumerate(timeline.arrows, start=1):
        last = len(arrow.through) - 1
        for step, item in enumerate(arrow.through):
            process, thread = place[id(item)]
            yield {
                "ph": "s" if step == 0 else "f" if step == last else "t",
                "name": arrow.name,
                "cat": "flow",
                "id": number,
                "pid": process,
                "tid": thread,
                "ts": _microseconds(item.begin_fs),
                **({"bp": "e"} if step == last else {}),
            }


def trace_json_gz(timeline: Timeline) -> bytes:
    """The bytes of ``trace.json.gz``: the same for the same timeline."""
    document = {"displayTimeUnit": "ns", "otherData": dict(timeline.facts), "traceEvents": list(_events(timeline))}
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)
