"""Messages through a package of levels: flit-hops per second; a row of noc_instructions.py has the instructions.

usage: noc_package.py [--rounds N]

Four chiplets, each a 4 x 4 mesh with a core at every router and a gateway at router 0, on a package that is a 2 x 2
mesh; 16 B flits at 1 GHz everywhere. In every round of 160 cycles each core sends one message of 64 B to a core drawn
from all others: three in four leave their chiplet, through two gateways.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

from cosim._core import TaskKind
from cosim.run.machine import build_machine
from cosim.system.loading import load_system

ROUND_CYCLES = 160
NS = 1_000_000  # femtoseconds

LEVEL: dict[str, Any] = {
    "routing": "dor", "num_vcs": 8, "vc_buf_size": 8, "flit_width": "16 B", "clock": "1 GHz", "link_latency": 1,
    "max_packet_flits": 4, "header_bytes": "0 B",
    "message_classes": {"token": {"vcs": [0, 1, 2, 3]}, "weight": {"vcs": [4, 5]}, "prefetch": {"vcs": [6, 7]}},
}  # fmt: skip
PACKAGE: dict[str, Any] = {
    "levels": {
        "chiplet": {**LEVEL, "count": 4, "topology": {"kind": "mesh", "shape": [4, 4]}},
        "package": {**LEVEL, "topology": {"kind": "mesh", "shape": [2, 2]}},
    },
    "endpoints": {
        "core": {
            "at": {"chiplet": "all"}, "compute": {"rate": "1 TFLOP/s", "efficiency": 1.0}, "tile": "256 B",
            "expert_buffer": "1 KiB",
        },
    },
    "gateways": {
        "d2d": {
            "between": ["chiplet", "package"], "at": {"chiplet": 0, "package": "all"},
            "buffer": {"token": "1 KiB", "weight": "1 KiB", "prefetch": "1 KiB"}, "synchroniser_cycles": 1,
        },
    },
}  # fmt: skip


def run(rounds: int) -> tuple[int, float]:
    """Flit-hops of all levels and seconds of user time of so many rounds."""
    machine = build_machine(load_system(PACKAGE), "flit")
    nodes = np.array([machine.nodes[e.index] for e in machine.system.compute_endpoints], dtype=np.int32)
    draw = np.random.default_rng(1)
    start = time.process_time()
    for number in range(rounds):
        away = draw.integers(1, len(nodes), len(nodes))
        columns = {
            "kind": np.full(len(nodes), int(TaskKind.transfer), dtype=np.uint8),
            "message_class": np.full(len(nodes), machine.classes["token"], dtype=np.uint8),
            "source": nodes,
            "destination": nodes[(np.arange(len(nodes)) + away) % len(nodes)],
            "bytes": np.full(len(nodes), 64, dtype=np.int64),
        }
        rest = {"prefetch": np.uint8, "address": np.int64, "to_address": np.int64, "cycles": np.int64}
        columns |= {name: np.zeros(len(nodes), dtype=kind) for name, kind in rest.items()}
        none = {"stream": np.int64, "key": np.int64, "group": np.int32}
        columns |= {name: np.full(len(nodes), -1, dtype=kind) for name, kind in none.items()}
        no_edges = np.empty(0, dtype=np.int64)
        machine.engine.submit(columns, no_edges, no_edges, number * ROUND_CYCLES * NS)
    while machine.engine.run(drain=True)[0] != "idle":
        pass
    machine.check_conservation()
    return int(machine.figures()["flit_hops"]), time.process_time() - start


def main() -> int:
    """Run it and print the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    given = parser.parse_args()
    hops, seconds = run(given.rounds)
    print(f"{given.rounds} rounds: {hops} flit-hops, {seconds:.2f} s user, {hops / seconds / 1e6:.1f} M flit-hops/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
