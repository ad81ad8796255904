"""Sessions of links: what they cost and how long they may last."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.config.spec import Spec

__all__ = ["SessionsSpec"]

Cycles = Annotated[int, Field(ge=0, le=1_000_000)]


class SessionsSpec(Spec):
    """Cycles of the network's clock.

    A session's links are empty, then ``setup_cycles`` pass before its first flit; they return ``teardown_cycles`` after
    its last flit has been read. A flit takes ``segment_delay`` through the bus switch of a router, beside the links'
    latencies. From the links' being empty to their return it takes at most ``max_session_cycles``. A session whose
    source has nothing more to send waits ``idle_cycles`` for a further packet. Of the sessions that cannot have their
    links at once ``max_waiting`` wait, the others are refused; absent: all wait.
    """

    setup_cycles: Cycles = 4
    teardown_cycles: Cycles = 4
    segment_delay: Cycles = 1
    max_session_cycles: Annotated[int, Field(ge=1, le=1 << 40)] = 4096
    idle_cycles: Cycles = 0
    max_waiting: Annotated[int, Field(ge=0, le=1 << 30)] | None = None
