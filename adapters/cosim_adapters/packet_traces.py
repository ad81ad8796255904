"""Packets as BookSim2's workload traces (tag `svn_classes`, sim_type=workload, workload=trace({file},{sizes},…)).

A line `delay src dst type`: `delay` is relative to the line before, `type` indexes the list of packet sizes in flits.
Each source is a FIFO: its next packet is built when the one before has left. The file has no newline at its end: the
reader would take one as a further, damaged record.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from cosim.config.errors import ConfigErrors

__all__ = ["read_workload", "write_workload"]

_COLUMNS = ("create_cycle", "src", "dst", "size_flits")
_WORKLOAD = re.compile(r"trace\(\{([^}]*)\},\{([\d,]+)\},(-?\d+),(\d+),([\d.]+)\)")


def write_workload(packets: pd.DataFrame, path: Path) -> str:
    """Writes the trace and gives the value of BookSim2's option `workload` that runs it.

    Args:
        packets: create_cycle, src, dst, size_flits, as `workload.packets` and `Network.run_packets` have them; rows of
            one source are a FIFO in row order. They are written in order of create_cycle.
        path: the trace file.

    Returns:
        `trace({path},{sizes},-1,0,1.0)`: all packets, none skipped, delays as written.

    Raises:
        ConfigErrors: missing columns, no packets, or a source whose rows are not in order of time.
    """
    missing = [name for name in _COLUMNS if name not in packets.columns]
    if missing:
        raise ConfigErrors.single(f"columns {', '.join(_COLUMNS)}", f"no {', '.join(missing)}", path="packets")
    if packets.empty:
        raise ConfigErrors.single("at least one packet", "none", path="packets")
    table = packets.loc[:, list(_COLUMNS)].to_numpy(dtype=np.int64)
    if (table < 0).any() or (table[:, 3] < 1).any():
        raise ConfigErrors.single("cycles and nodes >= 0, sizes >= 1", "others", path="packets")
    by_source = np.argsort(table[:, 1], kind="stable")
    cycle, source = table[by_source, 0], table[by_source, 1]
    back = np.flatnonzero((np.diff(cycle) < 0) & (source[1:] == source[:-1]))
    if back.size:
        raise ConfigErrors.single(
            "rows of one source in order of create_cycle (a source is a FIFO)",
            f"row {int(by_source[back[0] + 1])} of source {int(source[back[0]])} is earlier than the one before",
            path="packets",
        )
    order = np.argsort(table[:, 0], kind="stable")
    table = table[order]
    sizes = np.unique(table[:, 3])
    kinds = np.searchsorted(sizes, table[:, 3])
    delays = np.diff(table[:, 0], prepend=0)
    lines = [f"{d} {s} {t} {k}" for d, s, t, k in zip(delays, table[:, 1], table[:, 2], kinds, strict=True)]
    path.write_text("\n".join(lines))
    return f"trace({{{path}}},{{{','.join(map(str, sizes))}}},-1,0,1.0)"


def read_workload(option: str) -> pd.DataFrame:
    """The packets of an option `trace({path},{sizes},-1,0,1.0)`, in the order of the file.

    Raises:
        ConfigErrors: an option of another form, or a line that is no packet.
    """
    match = _WORKLOAD.fullmatch(option)
    if match is None:
        raise ConfigErrors.single("trace({FILE},{s0,s1,…},limit,skip,scale)", repr(option[:80]), path="workload")
    if (match[3], match[4], float(match[5])) != ("-1", "0", 1.0):
        raise ConfigErrors.single("limit -1, skip 0, scale 1", ",".join(match.groups()[2:]), path="workload")
    sizes = [int(size) for size in match[2].split(",")]
    rows = []
    cycle = 0
    for number, line in enumerate(Path(match[1]).read_text().split("\n"), start=1):
        cells = line.split()
        if len(cells) != 4 or not all(cell.lstrip("-").isdigit() for cell in cells) or int(cells[3]) >= len(sizes):
            raise ConfigErrors.single("delay src dst type", repr(line[:60]), file=match[1], line=number)
        delay, src, dst, kind = map(int, cells)
        cycle += delay
        if kind >= 0:  # below 0 the line only lets time pass
            rows.append((cycle, src, dst, sizes[kind]))
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(_COLUMNS), dtype=np.int64)
    return frame
