"""How much of long streams exact skipping steps: cases of the package-4x4 system, work counted.

    python benchmarks/skipping.py [--size-mib 88] [--check | --off] [CASE ...]

A case is a number of experts that stream their weights from the four memory nodes, at a rung, with refresh or without,
with tokens of other experts in between or not. Printed per case: engine instants simulated and stepped (at `flit` an
instant is a cycle in which something moves, so the ratio is that of port-cycles), bursts read for each one that a
channel was stepped for (jumps, and channels in lockstep), the time simulated, periods proved and skipped, weights per
second of user time.
With --check the case runs with skipping off too, and both must agree in every counter and in the whole state at the
end; with --off it runs with skipping off alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cosim._core import TaskKind
from cosim.run.machine import Machine, build_machine
from cosim.system.loading import load_system

# sixteen HBM3 channels a memory at 819 GB/s, links of 1,024 GB/s, slots for what a refresh holds back
_WIDE = [
    "endpoints.memory.memory.preset=HBM3_6400",
    "endpoints.memory.memory.channels=16",
    "endpoints.memory.read_return_slots=1024",
    "levels.package.flit_width=1024 B",
    "levels.package.header_bytes=0 B",
    "levels.package.max_packet_flits=2",
    "endpoints.expert.tile=64 KiB",
    "endpoints.expert.expert_buffer=4 MiB",
    "tiers.hbm.capacity=4 GiB",
]
_READERS = (0, 3, 4, 6, 9, 11, 12, 15)
_NS = 1_000_000
_COLUMNS: dict[str, Any] = {
    "kind": np.uint8,
    "message_class": np.uint8,
    "source": np.int32,
    "destination": np.int32,
    "bytes": np.int64,
    "address": np.int64,
    "cycles": np.int64,
    "stream": np.int64,
    "key": np.int64,
}


@dataclass(frozen=True)
class Case:
    """experts: streams; token_every_ns: a token to a random expert that often, 0: none; 4 VCs: two for weights."""

    rung: str
    experts: int
    refresh: str = "none"
    token_every_ns: int = 0
    all_to_all: bool = False
    num_vcs: int = 4  # over three classes of messages
    bulk_vc: str = "dynamic"
    memories: int = 4  # that the streams are dealt out to
    wide: bool = False  # _WIDE: memories of 32 pseudo-channels are what the streams wait for


CASES = {
    "link-8": Case("link", 8),
    "rate-1": Case("flit+rate", 1),
    "rate-2": Case("flit+rate", 2),
    "rate-4": Case("flit+rate", 4),
    "rate-8": Case("flit+rate", 8),
    "rate-8-1vc": Case("flit+rate", 8, num_vcs=3),
    "rate-1-static": Case("flit+rate", 1, bulk_vc="static"),
    "rate-4-static": Case("flit+rate", 4, bulk_vc="static"),
    "rate-8-static": Case("flit+rate", 8, bulk_vc="static"),
    "rate-1-tokens": Case("flit+rate", 1, token_every_ns=2000),
    "rate-8-static-tokens": Case("flit+rate", 8, token_every_ns=2000, bulk_vc="static"),
    "flit-1": Case("flit", 1),
    "flit-2": Case("flit", 2),
    "flit-8": Case("flit", 8),
    "flit-8-1vc": Case("flit", 8, num_vcs=3),
    "flit-1-static": Case("flit", 1, bulk_vc="static"),
    "flit-8-static": Case("flit", 8, bulk_vc="static"),
    "flit-1-refresh": Case("flit", 1, "per_bank"),
    "flit-1-refresh-ab": Case("flit", 1, "all_bank"),
    "flit-8-refresh": Case("flit", 8, "per_bank"),
    "flit-8-static-refresh": Case("flit", 8, "per_bank", bulk_vc="static"),
    "flit-8-static-refresh-ab": Case("flit", 8, "all_bank", bulk_vc="static"),
    "flit-2-one-memory-refresh-ab": Case("flit", 2, "all_bank", bulk_vc="static", memories=1),
    "flit-1-tokens": Case("flit", 1, token_every_ns=2000),
    "flit-8-tokens": Case("flit", 8, token_every_ns=2000),
    "flit-8-static-tokens": Case("flit", 8, token_every_ns=2000, bulk_vc="static"),
    "wide-8": Case("flit", 8, wide=True),
    "wide-8-refresh": Case("flit", 8, "per_bank", wide=True),
    "wide-8-refresh-ab": Case("flit", 8, "all_bank", wide=True),
    "all-to-all": Case("flit", 0, all_to_all=True),
}


def tasks(case: Case, machine: Machine, size: int) -> tuple[dict[str, npt.NDArray[Any]], list[int], list[int]]:
    """Columns of the case's tasks, and their dependencies."""
    computes = [int(machine.nodes[place.index]) for place in machine.system.compute_endpoints]
    memories = [int(machine.nodes[place.index]) for place in machine.system.memory_endpoints]
    rows: list[dict[str, int]] = []
    before: list[int] = []
    after: list[int] = []

    def add(kind: TaskKind, **fields: int) -> int:
        rows.append({**dict.fromkeys(_COLUMNS, 0), "stream": -1, "key": -1, "kind": int(kind), **fields})
        return len(rows) - 1

    for number, reader in enumerate(_READERS[: case.experts]):
        fetch = add(
            TaskKind.fetch,
            message_class=machine.classes["weight"],
            source=memories[number % case.memories],
            destination=computes[reader],
            bytes=size,
            address=number // case.memories << (size - 1).bit_length(),
        )
        add(TaskKind.compute, source=computes[reader], destination=computes[reader], cycles=30_000, stream=fetch)
    draw = np.random.default_rng(1)
    token = machine.classes["token"]
    if case.token_every_ns:
        for number in range(1, size * max(case.experts // case.memories, 1) // 64 // case.token_every_ns):
            source, destination = draw.choice(computes, 2, replace=False).tolist()
            wait = add(TaskKind.delay, cycles=number * case.token_every_ns * _NS)
            sent = add(TaskKind.transfer, source=source, destination=destination, bytes=4096, message_class=token)
            before.append(wait)
            after.append(sent)
    if case.all_to_all:
        for source in computes:
            for destination in computes:
                if source != destination:
                    add(
                        TaskKind.transfer,
                        source=source,
                        destination=destination,
                        bytes=size >> 6,
                        message_class=token,
                    )
    return {name: np.array([row[name] for row in rows], dtype=dtype) for name, dtype in _COLUMNS.items()}, before, after


def run(case: Case, size: int, skipping: bool) -> tuple[Machine, float]:
    """The case to its end; also its user time."""
    level = {"num_vcs": case.num_vcs, "bulk_vc": case.bulk_vc}
    changes = [f"levels.package.{key}={value}" for key, value in level.items()]
    if case.wide:
        changes += _WIDE
    system = load_system("package-4x4", [f"endpoints.memory.memory.refresh={case.refresh}", *changes])
    machine = build_machine(system, case.rung, skipping=skipping)
    columns, before, after = tasks(case, machine, size)
    machine.engine.submit(columns, np.array(before, dtype=np.int64), np.array(after, dtype=np.int64), 0)
    begin = os.times().user
    machine.engine.run()
    return machine, os.times().user - begin


def bursts(machine: Machine) -> float:
    """Bursts read by all memories for each one that a channel was stepped for; nan where there are no bursts."""
    if "command" not in machine.rung and machine.rung != "flit":
        return float("nan")
    read = stepped = 0
    for place in machine.system.memory_endpoints:
        node = int(machine.nodes[place.index])
        statistics = machine.engine.memory_statistics(node)
        read += sum(bank[5] for bank in statistics["banks"])  # RD commands
        stepped += machine.engine.stepped_bursts(node)
    return read / stepped if stepped else float("nan")


def main() -> int:
    """Prints a row per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--size-mib", type=int, default=88)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="run with skipping off as well and compare")
    how.add_argument("--off", action="store_true", help="run with skipping off alone")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.cases) - set(CASES))
    if unknown:
        parser.error(f"unknown case {unknown[0]}, expected one of {', '.join(CASES)}")
    size = chosen.size_mib << 20
    print(
        f"{'case':24s} {'simulated':>11s} {'stepped':>11s} {'ratio':>7s} {'bursts':>7s} {'us':>9s} {'proved':>6s} "
        f"{'periods':>8s} {'MB/s':>9s}"
    )
    status = 0
    for name in chosen.cases or CASES:
        case = CASES[name]
        machine, seconds = run(case, size, not chosen.off)
        report = machine.engine.skip_report()
        simulated = int(machine.engine.instants)
        stepped = simulated - int(report["instants"])
        moved = size * case.experts / 1e6
        line = (
            f"{name:24s} {simulated:11,} {stepped:11,} {simulated / stepped:7.1f} {bursts(machine):7.1f} "
            f"{machine.now_fs / 1e9:9,.1f} {report['found']:6,} {report['periods']:8,} "
            f"{moved / max(seconds, 0.01):9,.0f}"
        )
        if chosen.check:
            other, plain = run(case, size, False)
            here, there = machine.engine.form(), other.engine.form()
            agree = here[0] == there[0] and all(np.array_equal(a, b) for a, b in zip(here[1:], there[1:], strict=True))
            agree = agree and machine.figures() == other.figures()
            status |= not agree
            line += f"   off {moved / max(plain, 0.01):,.0f} MB/s, user time {seconds / max(plain, 0.01):.2f} of it"
            line += ", same" if agree else ", DIFFERENT"
        print(line)
        for why, stretches in sorted(report["reasons"].items()):
            print(f"    stepped to the end: {why} ({stretches} ×)")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
