"""User time of the same requests here and on a Ramulator 2.1 of yours.

One pseudo-channel (DDR5: one sub-channel), no refresh, open rows, as fast as accepted, macro-steps off. Ours is the
user time of `run_requests` in the values `ramulator2.1`, theirs that of its process less that of one with a tenth of
the requests, scaled: what does not grow with the run cancels out.

    python third_party_scripts/ramulator2_speed.py --ramulator2 ~/ramulator2-venv/bin/python
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from cosim_adapters.ramulator2 import export_requests, run_ramulator2

from cosim import mem

CASES = ("stream", "random", "mixed")
# times ours is to be faster: stream, random, mixed
GATES = {"HBM3_6400": (80, 60, 40), "DDR5_6400": (80, 60, 40), "HBM2_2000": (50, 35, 25)}


def requests(case: str, count: int, memory: mem.Memory) -> pd.DataFrame:
    """A frame of coordinates on one pseudo-channel: a stream over the bank groups, random reads, 30 % random writes."""
    o = memory.standard.organisation
    i = np.arange(count)
    draws = np.random.default_rng(1)
    if case == "stream":
        left = i // o.bank_groups
        place = {
            "bank_group": i % o.bank_groups,
            "bank": left // o.columns % o.banks_per_group,
            "row": left // (o.columns * o.banks_per_group) % o.rows,
            "column": left % o.columns,
        }
    else:
        sizes = {"bank_group": o.bank_groups, "bank": o.banks_per_group, "row": o.rows, "column": o.columns}
        place = {name: draws.integers(0, size, count) for name, size in sizes.items()}
    op = np.where(draws.random(count) < (0.3 if case == "mixed" else 0.0), "W", "R")
    zero = np.zeros(count, np.int64)
    return pd.DataFrame({"arrive_cycle": zero, "op": op, "pseudo_channel": zero, "stack_id": zero, **place})


def ours(memory: mem.Memory, frame: pd.DataFrame) -> float:
    """User seconds of one run."""
    start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    memory.run_requests(frame)
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - start


def theirs(python: Path, memory: mem.Memory, frame: pd.DataFrame, timeout: float) -> float:
    """User seconds of one process of Ramulator."""
    experiment = export_requests(memory, frame, record=False)
    start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as scratch:
        run_ramulator2(python, experiment, Path(scratch), timeout)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start


def main() -> int:
    """Print one line per preset and case; 1 where ours is less often faster than asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ramulator2", type=Path, required=True, help="the Python that has the package `ramulator`")
    parser.add_argument("--requests", type=int, default=200_000, help="of a case")
    parser.add_argument("--repeats", type=int, default=3, help="of ours; the least counts")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for one run of Ramulator")
    arguments = parser.parse_args()
    missed = 0
    print("preset     case    cosim us/request  Ramulator us/request  ratio  asked")
    for preset, gates in GATES.items():
        memory = mem.Memory({"preset": preset, "values": "ramulator2.1", "skipping": "off"})
        for case, gate in zip(CASES, gates, strict=True):
            frame = requests(case, arguments.requests, memory)
            short = frame.iloc[: max(1, arguments.requests // 10)]
            more = len(frame) - len(short)
            own = min(ours(memory, frame) for _ in range(arguments.repeats)) / len(frame)
            other = theirs(arguments.ramulator2, memory, frame, arguments.timeout)
            other = (other - theirs(arguments.ramulator2, memory, short, arguments.timeout)) / more
            missed += other < gate * own
            print(
                f"{preset:<10} {case:<7} {own * 1e6:16.3f} {other * 1e6:21.2f} {other / own:6.1f} {gate:6}", flush=True
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
