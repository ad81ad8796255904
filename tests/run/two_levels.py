"""Two chiplets of two routers under a package of two, small enough for pencil and paper."""

from __future__ import annotations

from typing import Any

from small_system import Bench

from cosim.run.machine import build_machine
from cosim.system.loading import load_system

CORE0, FAR0, CORE1, FAR1, MEMORY, HOST = range(6)
"""Endpoints: chiplet 0 router 0 and 1 (with the gateway), chiplet 1 likewise, package router 0 and 1."""


def package(
    *,
    buffer: str = "1 KiB",
    chiplet: dict[str, Any] | None = None,
    top: dict[str, Any] | None = None,
    synchroniser_cycles: int = 1,
) -> dict[str, Any]:
    """Chiplets: 32 B flits at 2 GHz, links of one cycle; package: 64 B flits at 1 GHz, links of two. No headers."""
    compute = {
        "compute": {"rate": "1 TFLOP/s", "efficiency": 1.0},
        "tile": "256 B",
        "expert_buffer": "1 KiB",
    }
    return {
        "levels": {
            "chiplet": {
                "count": 2,
                "topology": {"kind": "mesh", "shape": [2]},
                "routing": "dor",
                "num_vcs": 6,
                "vc_buf_size": 8,
                "flit_width": "32 B",
                "clock": "2 GHz",
                "link_latency": 1,
                "max_packet_flits": 4,
                "header_bytes": "0 B",
                "message_classes": {"token": {"vcs": [0, 1]}, "weight": {"vcs": [2, 3]}, "prefetch": {"vcs": [4, 5]}},
                **(chiplet or {}),
            },
            "package": {
                "topology": {"kind": "mesh", "shape": [2]},
                "routing": "dor",
                "num_vcs": 4,
                "vc_buf_size": 8,
                "flit_width": "64 B",
                "clock": "1 GHz",
                "link_latency": 2,
                "max_packet_flits": 2,
                "header_bytes": "0 B",
                **(top or {}),
            },
        },
        "endpoints": {
            "core": {"at": {"chiplet": "all"}, **compute},
            "memory": {
                "at": {"package": 0},
                "memory": {"preset": "HBM2_2000", "channels": 1, "address_map": "RoBaSiBgPcChCo"},
                "read_return_slots": 64,
                "allow_bottleneck": True,
            },
            "host": {"at": {"package": 1}, **compute},
        },
        "gateways": {
            "d2d": {
                "between": ["chiplet", "package"],
                "at": {"chiplet": 1, "package": "all"},
                "buffer": {"token": buffer, "weight": buffer, "prefetch": buffer},
                "synchroniser_cycles": synchroniser_cycles,
            }
        },
    }


def package_bench(rung: str = "flit", **changes: Any) -> Bench:
    """The machine of ``package(**changes)``."""
    return Bench(build_machine(load_system(package(**changes)), rung))


def submit_random(bench: Bench, seed: int, transfers: int = 40) -> None:
    """Transfers between any two endpoints, fetches that are used, a copy-free mix of all three classes."""
    import numpy as np

    draw = np.random.default_rng(seed)
    computing = [CORE0, FAR0, CORE1, FAR1, HOST]
    for number in range(transfers):
        source, destination = draw.choice(computing, 2, replace=False).tolist()
        bench.transfer(source, destination, int(draw.integers(1, 900)), message_class=int(draw.integers(0, 2)))
        if number % 4 == 0:
            at = int(draw.choice(computing))
            fetch = bench.fetch(MEMORY, at, 1024, address=number * 4096)
            bench.compute(at, 40, stream=fetch)
        bench.submit(int(draw.integers(0, 300)) * 1_000_000 + 10_000_000 * number)
