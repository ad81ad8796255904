"""A run in which everything is under way at once: transfers, fetches, jobs, prefetches, a revoke, adoptions, copies."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from small_system import NS, Bench

from cosim._core import TaskKind

ROUTERS = 5
MEMORIES = (0, 4)


def mixed_bench(rung: str = "flit") -> Bench:
    """Five routers, a memory at each end, refresh often enough to meet the run."""
    return Bench.of(
        rung,
        routers=ROUTERS,
        memories=MEMORIES,
        level={"max_packet_flits": 4, "header_bytes": "8 B"},
        expert={"tile": "512 B", "expert_buffer": "4 KiB"},
        memory={"address_map": "RoBaSiCoBgPcCh", "refresh": "per_bank", "timing": {"nREFIpb": 300}},
        node={"read_return_slots": 16},
    )


def submit_mixed(bench: Bench, layers: int = 3) -> None:
    """Everything is handed over at the start, with the instants at which it takes effect."""
    for layer in range(layers):
        start = layer * 1500 * NS
        base = layer << 16
        prefetch = bench.fetch(0, 2, 3072, prefetch=1, key=100 + layer, address=base)
        prefetch = bench.submit(start)
        doomed = bench.fetch(4, 3, 4096, prefetch=1, key=200 + layer, address=base)
        doomed = bench.submit(start)
        sent = [bench.transfer(source, 2, 700) for source in (1, 3)]
        demand = bench.fetch(0, 2, 3072, key=100 + layer, address=base)
        other = bench.fetch(4, 2, 2048, address=base + 8192)
        jobs = [
            bench.compute(2, 150, stream=demand, after=sent),
            bench.compute(2, 90, stream=other, after=sent[:1]),
        ]
        back = [bench.transfer(2, 1, 900, after=jobs[:1]), bench.transfer(2, 3, 300, after=jobs[1:])]
        bench.add(TaskKind.decision, key=layer, after=back)
        bench.submit(start + 200 * NS)
        bench.copy(0, 4, 8192, address=base + 16384, to_address=base + 32768)
        bench.copy(4, 0, 2048, address=base + 16384, to_address=base + 40960)
        bench.submit(start + 90 * NS)
        bench.revoke(3, doomed)
        bench.submit(start + 260 * NS)
        assert doomed == prefetch + 1


def everything(bench: Bench) -> dict[str, Any]:
    """Records and counters of a finished run as plain numbers."""
    machine = bench.machine
    network = machine.flit_statistics(0) if machine.network_kind == "flit" else machine.link_statistics()
    network.pop("core_bytes", None)  # memory that the process holds: no result
    found: dict[str, Any] = {
        "records": [[task, *bench.records[task].values()] for task in sorted(bench.records)],
        "network": network,
        "now_fs": machine.now_fs,
        "memory": [machine.memory_statistics(place.index) for place in machine.system.memory_endpoints],
        "compute": [machine.compute_statistics(place.index) for place in machine.system.compute_endpoints],
    }
    return found


def digest(item: Any) -> str:
    """A hash of plain numbers, names, lists and arrays."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray) else value

    return hashlib.sha256(json.dumps(item, default=plain).encode()).hexdigest()
