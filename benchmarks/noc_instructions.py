"""Instructions per flit-hop of the network core: callgrind, between two run lengths of the same traffic.

usage: noc_instructions.py [--plugin FILE.c] [CASE ...]        (no case: all; needs valgrind)

A run is `Network.run_traffic` with sources, statistics and laws on. The start of the interpreter and the construction
of the network cancel in the difference. "C plug-in" is run with --plugin, a routing of your own for an 8 x 8 mesh, such
as table_router.c of the examples. Prints a table; nothing here is a test.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from cosim.noc import Network


@dataclass(frozen=True)
class Case:
    """A network, its traffic, and the cycles of the two runs."""

    rate: float
    size: int
    cycles: tuple[int, int]
    shape: tuple[int, ...] = (8, 8)
    network: dict[str, Any] = field(default_factory=dict)
    pattern: Any = "uniform"
    message_class: str | None = None
    plugin: bool = False
    bound: int | None = None


TWO = {"a": {"vcs": [0, 1]}, "b": {"vcs": [2, 3]}}
FORKS = {"u": {"vcs": [0]}, "m": {"vcs": [1], "multicast": True}}
SUMS = {"s": {"vcs": [0, 1, 2, 3], "reduction": True}}
NEIGHBOURS = {n: [m for m in range(64) if m // 8 == n // 8] for n in range(64)}

CASES = {
    "8x8 p1 .01": Case(0.01, 1, (2000, 12000), bound=500),
    "8x8 p1 .1": Case(0.1, 1, (500, 2000), bound=400),
    "8x8 p1 .3": Case(0.3, 1, (500, 1500), bound=400),
    "8x8 p1 .42": Case(0.42, 1, (500, 1500), bound=450),
    "8x8 p4 .3": Case(0.3, 4, (500, 1500), bound=300),
    "16x16 p1 .1": Case(0.1, 1, (300, 800), (16, 16)),
    "32x32 p1 .1": Case(0.1, 1, (200, 500), (32, 32)),
    "torus p1 .1": Case(0.1, 1, (500, 2000), network={"topology": {"kind": "torus", "shape": [8, 8]}}),
    "fat tree p1 .1": Case(0.1, 1, (500, 2000), network={"topology": {"kind": "fat_tree", "k": 4, "n": 3}}),
    "2 classes p1 .1": Case(0.1, 1, (500, 2000), network={"classes": TWO}, message_class="a"),
    "C plug-in p1 .1": Case(0.1, 1, (500, 2000), plugin=True),
    "multicast to 8 p4": Case(
        0.02, 4, (500, 2000), network={"num_vcs": 2, "classes": FORKS}, message_class="m",
        pattern={"kind": "multicast", "sets": NEIGHBOURS},
    ),
    "reduction of 8 p4": Case(
        0.05, 4, (500, 2000), network={"classes": SUMS, "reduction": {"ports": 2}}, message_class="s",
        pattern={"kind": "reduction", "sets": {8 * y: NEIGHBOURS[8 * y] for y in range(8)}},
    ),
}  # fmt: skip


def run(name: str, cycles: int, plugin: str | None) -> tuple[int, float, int]:
    """Flit-hops, seconds of user time and core bytes of one run."""
    case = CASES[name]
    description: dict[str, Any] = {"topology": {"kind": "mesh", "shape": list(case.shape)}, **case.network}
    if case.plugin:
        description["routing"] = {"plugin": plugin}
    network = Network(description)
    start = time.process_time()
    result = network.run_traffic(
        case.pattern, injection_rate=case.rate, packet_size_flits=case.size, message_class=case.message_class,
        warmup_cycles=100, measure_cycles=cycles, max_drain_cycles=0,
    )  # fmt: skip
    return result.flit_hops, time.process_time() - start, result.core_bytes


def instructions(name: str, cycles: int, plugin: str | None) -> tuple[int, int]:
    """Instructions of a whole process that makes one run, and the run's flit-hops."""
    with tempfile.NamedTemporaryFile() as profile:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile.name}", sys.executable, __file__]
        options = [] if plugin is None else ["--plugin", plugin]
        child = subprocess.run(
            [*command, *options, "--child", str(cycles), name], capture_output=True, text=True, check=True
        )
    collected = re.search(r"Collected : (\d+)", child.stderr)
    assert collected is not None, child.stderr
    return int(collected[1]), int(child.stdout)


def main() -> int:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", help="a routing in C for the case of a plug-in")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    given = parser.parse_args()
    if given.child is not None:
        print(run(given.cases[0], given.child, given.plugin)[0])
        return 0
    print(f"{'case':20}{'instr/flit-hop':>16}{'bound':>8}{'M flit-hops/s':>16}{'core MiB':>10}")
    for name in given.cases or CASES:
        if CASES[name].plugin and given.plugin is None:
            continue
        short, long = CASES[name].cycles
        few, few_hops = instructions(name, short, given.plugin)
        many, many_hops = instructions(name, long, given.plugin)
        hops, seconds, size = run(name, 10 * long, given.plugin)
        each = (many - few) / (many_hops - few_hops)
        bound = CASES[name].bound or ""
        print(f"{name:20}{each:16.1f}{bound:>8}{hops / seconds / 1e6:16.1f}{size / 2**20:10.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
