"""Instructions per flit-hop of the network core: callgrind, between two run lengths of the same traffic.

usage: noc_instructions.py [--plugin FILE.c] [CASE ...]        (no case: all; needs valgrind)

A run is `Network.run_traffic` with sources, statistics and laws on, in a process forked from one that has loaded all
modules: these and the construction of the network cancel in the difference. "C plug-in" is run with --plugin, a routing
of your own for an 8 x 8 mesh, such as table_router.c of the examples. "package" is noc_package.py: messages of a system
of levels, with the engine and the nodes that send and receive them; its cycles are rounds. Prints a table; nothing here
is a test.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import noc_package

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
    package: bool = False
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
    "package p4": Case(0.025, 4, (50, 200), package=True),
}  # fmt: skip


def run(name: str, cycles: int, plugin: str | None) -> tuple[int, float, int]:
    """Flit-hops, seconds of user time and core bytes of one run."""
    case = CASES[name]
    if case.package:
        return (*noc_package.run(cycles), 0)
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


def children(runs: list[tuple[str, int]], plugin: str | None) -> None:
    """Make each run in a process of its own, forked from this one, and print its number and flit-hops."""
    for name, cycles in runs:
        child = os.fork()
        if child == 0:
            hops = run(name, cycles, plugin)[0]
            print(os.getpid(), hops, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise SystemExit(f"{name} with {cycles} cycles ended with status {status}")


def instructions(runs: list[tuple[str, int]], plugin: str | None) -> list[tuple[int, int]]:
    """Per run the instructions of its process, with those of the one that it was forked from, and its flit-hops."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p", sys.executable, __file__]
        options = [] if plugin is None else ["--plugin", plugin]
        named = [text for name, cycles in runs for text in (name, str(cycles))]
        done = subprocess.run([*command, *options, "--runs", *named], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    collected = {int(pid): int(count) for pid, count in re.findall(r"==(\d+)== Collected : (\d+)", done.stderr)}
    pairs = (line.split() for line in done.stdout.splitlines())
    return [(collected[int(pid)], int(hops)) for pid, hops in pairs]


def main() -> int:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", help="a routing in C for the case of a plug-in")
    parser.add_argument("--runs", nargs="+", default=[], help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    given = parser.parse_args()
    if given.runs:
        children(list(zip(given.runs[::2], map(int, given.runs[1::2]), strict=True)), given.plugin)
        return 0
    names = [name for name in given.cases or CASES if given.plugin is not None or not CASES[name].plugin]
    counted = iter(instructions([(name, cycles) for name in names for cycles in CASES[name].cycles], given.plugin))
    print(f"{'case':20}{'instr/flit-hop':>16}{'bound':>8}{'M flit-hops/s':>16}{'core MiB':>10}")
    for name, (few, few_hops), (many, many_hops) in zip(names, counted, counted, strict=True):
        hops, seconds, size = run(name, 10 * CASES[name].cycles[1], given.plugin)
        each = (many - few) / (many_hops - few_hops)
        bound = CASES[name].bound or ""
        print(f"{name:20}{each:16.1f}{bound:>8}{hops / seconds / 1e6:16.1f}{size / 2**20:10.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
