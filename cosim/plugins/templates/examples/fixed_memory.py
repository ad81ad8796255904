"""A memory channel of fixed latency and bandwidth, as a Python class."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator

from cosim.plugins import MemoryGeometry, MemoryRequest


class FixedMemory:
    """A burst begins when the one before has left the bus, and is done ``latency_cycles`` after it began.

    Args:
        geometry: the channel that the user asked for.
        latency_cycles: CK from begin to first beat.
        burst_cycles: CK of a burst on the bus.
    """

    def __init__(self, geometry: MemoryGeometry, latency_cycles: int = 30, burst_cycles: int = 1) -> None:
        self.latency = latency_cycles * geometry.ticks_per_cycle
        self.gap = burst_cycles * geometry.ticks_per_cycle
        self.now = 0
        self.bus_free = 0
        self.bursts: deque[tuple[int, int]] = deque()  # (id, tick), in the order in which they are done

    def accept(self, request: MemoryRequest, tick: int) -> bool:
        """Take a burst, or say that there is no room."""
        if len(self.bursts) == 1024:
            return False
        begin = max(self.bus_free, tick)
        self.bus_free = begin + self.gap
        self.bursts.append((request.id, begin + self.latency + self.gap))
        return True

    def next_event(self) -> int | None:
        """The tick at which the next burst is done."""
        return self.bursts[0][1] if self.bursts else None

    def advance(self, tick: int) -> None:
        """Time has come to `tick`."""
        self.now = tick

    def pop(self) -> Iterator[tuple[int, int]]:
        """The bursts that are done."""
        while self.bursts and self.bursts[0][1] <= self.now:
            yield self.bursts.popleft()

    def save(self) -> bytes:
        """The state as bytes."""
        return json.dumps([self.now, self.bus_free, list(self.bursts)]).encode()

    def load(self, state: bytes) -> None:
        """Back to a saved state."""
        self.now, self.bus_free, bursts = json.loads(state)
        self.bursts = deque((number, tick) for number, tick in bursts)
