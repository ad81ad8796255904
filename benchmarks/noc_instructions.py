"""Instructions per flit-hop of the network core: callgrind, between two run lengths of the same traffic.

usage: noc_instructions.py [CASE ...]        (no case: all; needs valgrind)

A run is `TrafficRun` with sources, statistics and laws on, exactly what `Network.run_traffic` runs. The start of the
interpreter and the construction of the network cancel in the difference. Prints a table; nothing here is a test.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time

from cosim import _core

# name: (routers per dimension, rate in flits per node and cycle, packet size in flits, cycles of the two runs)
CASES = {
    "8x8 p1 .01": ([8, 8], 0.01, 1, (2000, 12000)),
    "8x8 p1 .1": ([8, 8], 0.1, 1, (500, 2000)),
    "8x8 p1 .3": ([8, 8], 0.3, 1, (500, 1500)),
    "8x8 p1 .42": ([8, 8], 0.42, 1, (500, 1500)),
    "8x8 p4 .3": ([8, 8], 0.3, 4, (500, 1500)),
    "16x16 p1 .1": ([16, 16], 0.1, 1, (300, 800)),
    "32x32 p1 .1": ([32, 32], 0.1, 1, (200, 500)),
}
# the bound of the project and what a prototype without laws reached
BOUNDS = {
    "8x8 p1 .01": 500, "8x8 p1 .1": 400, "8x8 p1 .3": 400, "8x8 p1 .42": 450, "8x8 p4 .3": 300,
}  # fmt: skip


def run(case: str, cycles: int) -> tuple[int, float, int]:
    """Flit-hops, seconds of user time and core bytes of one run."""
    shape, rate, size, _ = CASES[case]
    spec = _core.NetworkSpec()
    spec.build_grid(shape, False, 1, [1] * len(shape), 8)
    spec.route_dimension_order()
    traffic = _core.TrafficSpec()
    traffic.injection_rate, traffic.packet_size_flits = rate, size
    traffic.warmup_cycles, traffic.measure_cycles, traffic.max_drain_cycles = 100, cycles, 0
    start = time.process_time()
    task = _core.TrafficRun(spec, traffic)
    while not task.advance(2_000_000):
        pass
    return task.result().flit_hops, time.process_time() - start, task.result().core_bytes


def instructions(case: str, cycles: int) -> tuple[int, int]:
    """Instructions of a whole process that makes one run, and the run's flit-hops."""
    with tempfile.NamedTemporaryFile() as profile:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile.name}"]
        child = subprocess.run(
            [*command, sys.executable, __file__, "--child", case, str(cycles)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    collected = re.search(r"Collected : (\d+)", child.stderr)
    assert collected is not None, child.stderr
    return int(collected[1]), int(child.stdout)


def main() -> int:
    """Print one line per case."""
    if sys.argv[1:2] == ["--child"]:
        print(run(sys.argv[2], int(sys.argv[3]))[0])
        return 0
    print(f"{'case':14}{'instr/flit-hop':>16}{'bound':>8}{'M flit-hops/s':>16}{'core MiB':>10}")
    for case in sys.argv[1:] or CASES:
        short, long = CASES[case][3]
        few, few_hops = instructions(case, short)
        many, many_hops = instructions(case, long)
        hops, seconds, size = run(case, 10 * long)
        each = (many - few) / (many_hops - few_hops)
        bound = str(BOUNDS.get(case, ""))
        print(f"{case:14}{each:16.1f}{bound:>8}{hops / seconds / 1e6:16.1f}{size / 2**20:10.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
