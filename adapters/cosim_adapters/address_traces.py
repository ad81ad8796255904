"""Memory requests as address traces of Ramulator 2 and DRAMsim3.

    DRAMsim3        `0x<address> READ|WRITE <cycle>`, a request a line, in order of cycle (its trace-based CPU)
    Ramulator 2     `LD 0x<address>` or `ST 0x<address>` (LoadStoreTrace): no times, as fast as the memory takes them

Both take one request of a burst's size a line, so requests of several bursts are cut.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from cosim.config.errors import ConfigErrors, did_you_mean, one_of

__all__ = ["FORMS", "read_addresses", "write_addresses"]

FORMS = ("dramsim3", "ramulator2")
_WORDS = {"dramsim3": {"R": "READ", "W": "WRITE"}, "ramulator2": {"R": "LD", "W": "ST"}}


def write_addresses(requests: pd.DataFrame, path: Path, form: str, *, burst_bytes: int) -> int:
    """Writes the trace; gives the number of bursts.

    Args:
        requests: op (R or W), address, and optional arrive_cycle (memory clocks, needed for dramsim3) and size_bytes
            (one burst without it), as `Memory.run_requests` takes them.
        path: the file.
        form: one of `FORMS`.
        burst_bytes: bytes that one request of the other simulator moves.

    Raises:
        ConfigErrors: an unknown form, missing columns, values that are no requests.
    """
    words = _words(form)
    wanted = ("op", "address", *(("arrive_cycle",) if form == "dramsim3" else ()))
    missing = [name for name in wanted if name not in requests.columns]
    if missing:
        raise ConfigErrors.single(f"columns {', '.join(wanted)}", f"no {', '.join(missing)}", path="requests")
    if burst_bytes < 1:
        raise ConfigErrors.single("at least 1", str(burst_bytes), path="burst_bytes")
    op = requests["op"].astype(str).to_numpy()
    if not set(op) <= {"R", "W"}:
        raise ConfigErrors.single("op R or W", ", ".join(sorted(set(op) - {"R", "W"}))[:60], path="requests")
    address = requests["address"].to_numpy(dtype=np.int64)
    size = np.full(address.size, burst_bytes, dtype=np.int64)
    if "size_bytes" in requests.columns:
        size = requests["size_bytes"].to_numpy(dtype=np.int64)
    cycle = np.zeros(address.size, dtype=np.int64)
    if "arrive_cycle" in requests.columns:
        cycle = requests["arrive_cycle"].to_numpy(dtype=np.int64)
    if (address < 0).any() or (size < 1).any() or (cycle < 0).any():
        raise ConfigErrors.single("addresses and cycles >= 0, sizes >= 1", "others", path="requests")
    order = np.argsort(cycle, kind="stable")
    first = address[order] // burst_bytes
    count = (address[order] + size[order] - 1) // burst_bytes - first + 1
    row = np.repeat(np.arange(first.size), count)
    bursts = (first[row] + np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)) * burst_bytes
    word = np.array([words[kind] for kind in op[order]])[row]
    with path.open("w", encoding="ascii", newline="\n") as stream:
        if form == "dramsim3":
            times = cycle[order][row]
            stream.writelines(
                f"0x{a:x} {w} {t}\n" for a, w, t in zip(bursts.tolist(), word, times.tolist(), strict=True)
            )
        else:
            stream.writelines(f"{w} 0x{a:x}\n" for a, w in zip(bursts.tolist(), word, strict=True))
    return int(row.size)


def read_addresses(path: Path, form: str) -> pd.DataFrame:
    """The bursts of a trace: op, address and, of dramsim3, arrive_cycle.

    Raises:
        ConfigErrors: an unknown form, or a line that is no request.
    """
    kinds = {word: kind for kind, word in _words(form).items()}
    rows: list[tuple[str, int, int]] = []
    with path.open(encoding="ascii") as stream:
        for number, line in enumerate(stream, start=1):
            cells = line.split()
            try:
                if form == "dramsim3":
                    place, word, time = cells
                    rows.append((kinds[word], int(place, 16), int(time)))
                else:
                    word, place = cells
                    rows.append((kinds[word], int(place, 16), 0))
            except (ValueError, KeyError):
                raise ConfigErrors.single(
                    f"a request of {form}", repr(line.strip()[:60]), file=str(path), line=number
                ) from None
    frame: pd.DataFrame = pd.DataFrame(rows, columns=["op", "address", "arrive_cycle"])
    if form == "ramulator2":
        frame = frame.drop(columns="arrive_cycle")
    return frame


def _words(form: str) -> dict[str, str]:
    if form not in _WORDS:
        raise ConfigErrors.single(one_of(FORMS), repr(form), path="form", suggestion=did_you_mean(form, FORMS))
    return _WORDS[form]
