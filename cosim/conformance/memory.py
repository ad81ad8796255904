"""The checks of a memory plug-in; the core holds every call against the contract besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from cosim import mem
from cosim.conformance.request import CheckFailed, CheckRequest, NotApplicable
from cosim.mem.checker import check_commands

__all__ = ["CHECKS"]

INSTANCES = 200
REQUESTS = 2000


def _memory(request: CheckRequest) -> mem.Memory:
    return mem.Memory({**request.base, "plugin": request.reference, "params": dict(request.params)})


def _frame(memory: mem.Memory, count: int, gap: float, seed: int) -> pd.DataFrame:
    """Reads and writes of 1 to 16 bursts at random places, `gap` cycles apart in the mean."""
    rng = np.random.default_rng(seed)
    burst = memory.standard.organisation.access_bytes
    size = rng.integers(1, 17, count) * burst
    frame: pd.DataFrame = pd.DataFrame(
        {
            "arrive_cycle": np.floor(np.cumsum(rng.exponential(gap, count))).astype(np.int64),
            "op": np.where(rng.random(count) < 0.7, "R", "W"),
            "address": rng.integers(0, (memory.capacity_bytes - 16 * burst) // burst, count) * burst,
            "size_bytes": size,
        }
    )
    return frame


def _load(request: CheckRequest) -> str:
    plugin = _memory(request).plugin
    assert plugin is not None
    d = plugin.description
    return f"{d.name} {d.version}, {d.origin}, ABI {d.abi}, capabilities: {', '.join(d.caps) or 'none'}"


def _create(request: CheckRequest) -> str:
    memory = _memory(request)
    one = _frame(memory, 1, 1.0, 1)
    for _ in range(INSTANCES):
        memory.run_requests(one)
    return f"{INSTANCES} instances made and destroyed"


def _conservation(request: CheckRequest) -> str:
    memory = _memory(request)
    bursts = 0
    for gap in (100.0, 0.0):
        found = memory.run_requests(_frame(memory, REQUESTS, gap, 2))
        late = found.requests["done_cycle"] <= found.requests["accept_cycle"]
        if late.any():
            raise CheckFailed(f"request {int(np.argmax(late))} is done when it was accepted")
        bursts += found.counters["asked"]
    return f"{bursts} bursts, each done once and after it was accepted"


def _determinism(request: CheckRequest) -> str:
    runs = [_memory(request).run_requests(_frame(_memory(request), REQUESTS, 5.0, 3)).requests for _ in range(2)]
    if not runs[0].equals(runs[1]):
        raise CheckFailed("two runs of the same requests differ")
    return "two runs of the same requests are equal"


def _bandwidth(request: CheckRequest) -> str:
    memory = _memory(request)
    size = min(1 << 20, memory.capacity_bytes)
    stream = pd.DataFrame({"arrive_cycle": [0], "op": ["R"], "address": [0], "size_bytes": [size]})
    found = memory.run_requests(stream)
    if found.bandwidth_GBps > found.peak_GBps:
        raise CheckFailed(
            f"a stream runs at {found.bandwidth_GBps:.3f} GB/s, above the peak of {found.peak_GBps:.3f} GB/s"
        )
    return f"a stream of {size} B runs at {found.bandwidth_GBps:.3f} GB/s of {found.peak_GBps:.3f} GB/s"


def _constraints(request: CheckRequest) -> str:
    memory = _memory(request)
    if memory.plugin is None or "commands" not in memory.plugin.description.caps:
        raise NotApplicable("it does not tell its commands (capability COMMANDS)")
    found = memory.run_requests(_frame(memory, REQUESTS // 4, 5.0, 4), commands=True)
    rows: list[dict[str, Any]] = [
        {str(key): value for key, value in row.items()} for row in found.commands.to_dict("records")
    ]
    broken = check_commands(rows, memory.standard)
    if broken:
        first = broken[0]
        raise CheckFailed(f"{len(broken)} violations; slot {first.slot}, {first.command}: {first.text}")
    return f"{len(rows)} commands keep every timing constraint of {memory.standard.preset}"


def _soak(request: CheckRequest) -> str:
    memory = _memory(request)
    found = memory.run_requests(_frame(memory, max(1, request.packets * 2 // 17), 2.0, 5))
    return f"{found.counters['asked']} bursts at {found.bandwidth_GBps:.3f} GB/s"


CHECKS: dict[str, Callable[[CheckRequest], str]] = {
    "load": _load,
    "create": _create,
    "conservation": _conservation,
    "determinism": _determinism,
    "bandwidth": _bandwidth,
    "constraints": _constraints,
    "soak": _soak,
}
"""Name → check; each returns what it found, or raises."""
