"""Small systems with hand-made tasks: a line of routers, memory at some of them, compute at the others.

Times are whole nanoseconds wherever the clocks allow it, so that an expected time is a cycle of the 1 GHz network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cosim._core import TaskKind
from cosim.run.machine import Machine, build_machine
from cosim.system.loading import load_system

NS = 1_000_000
"""Femtoseconds of a nanosecond."""

_DTYPES: dict[str, Any] = {
    "kind": np.uint8,
    "message_class": np.uint8,
    "prefetch": np.uint8,
    "source": np.int32,
    "destination": np.int32,
    "bytes": np.int64,
    "address": np.int64,
    "to_address": np.int64,
    "cycles": np.int64,
    "stream": np.int64,
    "key": np.int64,
    "group": np.int32,
}


def line(
    routers: int = 4,
    memories: Sequence[int] = (0,),
    *,
    level: dict[str, Any] | None = None,
    expert: dict[str, Any] | None = None,
    memory: dict[str, Any] | None = None,
    node: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A hardware description; endpoint i sits at router i.

    By default: 64 B flits at 1 GHz, no header, packets of at most 4 flits (256 B, 8 bursts), tiles of 256 B; HBM2 at
    1 GHz with one channel, addresses filling a row (1 KiB) before they change pseudo-channel, then bank group.
    """
    return {
        "levels": {
            "package": {
                "topology": {"kind": "mesh", "shape": [routers]},
                "routing": "dor",
                "num_vcs": 4,
                "vc_buf_size": 8,
                "flit_width": "64 B",
                "clock": "1 GHz",
                "link_latency": 2,
                "max_packet_flits": 4,
                "header_bytes": "0 B",
                **(level or {}),
            }
        },
        "endpoints": {
            "expert": {
                "at": {"package": [router for router in range(routers) if router not in memories]},
                "compute": {"rate": "1 TFLOP/s", "efficiency": 1.0},
                "tile": "256 B",
                "expert_buffer": "1 KiB",
                **(expert or {}),
            },
            "memory": {
                "at": {"package": list(memories)},
                "memory": {
                    "preset": "HBM2_2000",
                    "channels": 1,
                    "address_map": "RoBaSiBgPcChCo",
                    **(memory or {}),
                },
                "read_return_slots": 64,
                "allow_bottleneck": True,
                **(node or {}),
            },
        },
    }


@dataclass
class Bench:
    """A machine and the tasks that wait to be submitted; endpoints are named by their index."""

    machine: Machine
    rows: list[dict[str, int]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    records: dict[int, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, rung: str = "flit", **changes: Any) -> Bench:
        """The machine of ``line(**changes)``."""
        return cls(build_machine(load_system(line(**changes)), rung))

    def node(self, endpoint: int) -> int:
        return int(self.machine.nodes[endpoint])

    def add(self, kind: TaskKind, *, after: Sequence[int] = (), **fields: int) -> int:
        """Returns the task's number within its submission; ``after`` names such numbers, or -2 - id of earlier ones."""
        defaults = {"source": -1, "destination": -1, "stream": -1, "key": -1, "group": -1}
        self.rows.append({**dict.fromkeys(_DTYPES, 0), **defaults, "kind": int(kind), **fields})
        number = len(self.rows) - 1
        self.edges += [(before, number) for before in after]
        return number

    def transfer(self, source: int, destination: int, size: int, **fields: Any) -> int:
        fields = {"message_class": self.machine.classes["token"], **fields}
        return self.add(
            TaskKind.transfer, source=self.node(source), destination=self.node(destination), bytes=size, **fields
        )

    def fetch(self, memory: int, compute: int, size: int, **fields: Any) -> int:
        name = "prefetch" if fields.get("prefetch") else "weight"
        fields = {"message_class": self.machine.classes[name], **fields}
        return self.add(TaskKind.fetch, source=self.node(memory), destination=self.node(compute), bytes=size, **fields)

    def used_fetch(self, memory: int, compute: int, size: int, **fields: Any) -> int:
        """A fetch and a job of one cycle that uses its tiles up: else they would stay in the buffer."""
        number = self.fetch(memory, compute, size, **fields)
        self.compute(compute, 1, stream=number)
        return number

    def compute(self, at: int, cycles: int, **fields: Any) -> int:
        return self.add(TaskKind.compute, source=self.node(at), destination=self.node(at), cycles=cycles, **fields)

    def copy(self, source: int, destination: int, size: int, **fields: Any) -> int:
        fields = {"message_class": self.machine.classes["prefetch"], **fields}
        return self.add(
            TaskKind.copy, source=self.node(source), destination=self.node(destination), bytes=size, **fields
        )

    def revoke(self, at: int, prefetch: int, **fields: Any) -> int:
        """``prefetch`` is the id of a prefetch submitted before."""
        return self.add(TaskKind.revoke, destination=self.node(at), stream=prefetch, **fields)

    def delay(self, femtoseconds: int, **fields: Any) -> int:
        return self.add(TaskKind.delay, cycles=femtoseconds, **fields)

    def submit(self, effective_fs: int = 0) -> int:
        """Hands over what was added; returns the id of the first task."""
        columns = {name: np.array([row[name] for row in self.rows], dtype=dtype) for name, dtype in _DTYPES.items()}
        before = np.array([edge[0] for edge in self.edges], dtype=np.int64)
        after = np.array([edge[1] for edge in self.edges], dtype=np.int64)
        self.rows, self.edges = [], []
        return int(self.machine.engine.submit(columns, before, after, effective_fs))

    def collect(self) -> None:
        """Takes the records of finished tasks."""
        taken: dict[str, npt.NDArray[np.int64]] = dict(self.machine.engine.take_records())
        names = [name for name in taken if name != "task"]
        for position, task in enumerate(taken["task"].tolist()):
            self.records[task] = {name: int(taken[name][position]) for name in names}

    def run(self) -> dict[int, dict[str, int]]:
        """Submits what is left, runs until nothing is, checks conservation; records by task id."""
        if self.rows:
            self.submit()
        stop = "decision"
        while stop != "idle":
            stop, *_ = self.machine.engine.run(drain=True)
        self.collect()
        self.machine.check_conservation()
        return self.records

    def end_ns(self, task: int) -> float:
        return self.records[task]["end_fs"] / NS
