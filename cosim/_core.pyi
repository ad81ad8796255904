"""
C++ core of cosim: network, memory and engine; used through the Python package.
"""

from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

__all__: list[str] = ["Clock", "DeadlockError", "Engine", "TaskKind", "faults_compiled"]

class Clock:
    """
    A clock of rational frequency; edge n is at floor(n / frequency) femtoseconds.
    """
    def __init__(
        self,
        hz_numerator: typing.SupportsInt | typing.SupportsIndex,
        hz_denominator: typing.SupportsInt | typing.SupportsIndex = 1,
    ) -> None: ...
    def edge_after(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_at_or_after(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_at_or_before(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_fs(self, edge: typing.SupportsInt | typing.SupportsIndex) -> int: ...

class DeadlockError(RuntimeError):
    pass

class TaskKind:
    """
    Members:

      transfer

      fetch

      compute

      delay

      decision

      revoke
    """

    __members__: typing.ClassVar[dict[str, TaskKind]]
    compute: typing.ClassVar[TaskKind]
    decision: typing.ClassVar[TaskKind]
    delay: typing.ClassVar[TaskKind]
    fetch: typing.ClassVar[TaskKind]
    revoke: typing.ClassVar[TaskKind]
    transfer: typing.ClassVar[TaskKind]
    @typing.overload
    def __eq__(self, other: TaskKind) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: TaskKind) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class Engine:
    """
    Advances network, memory and compute nodes to the next decision.
    """
    def __init__(self) -> None: ...
    def add_compute(
        self,
        *,
        clock: Clock,
        tile_bytes: typing.SupportsInt | typing.SupportsIndex,
        buffer_tiles: typing.SupportsInt | typing.SupportsIndex,
        grant_latency_cycles: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def add_link_network(
        self,
        *,
        routers: typing.SupportsInt | typing.SupportsIndex,
        link_bytes_per_second: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        link_target: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        next_link: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        endpoint_node: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        endpoint_router: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        chunks_per_message: typing.SupportsInt | typing.SupportsIndex,
        hop_latency_fs: typing.SupportsInt | typing.SupportsIndex,
        message_classes: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def add_rate_memory(
        self,
        *,
        clock: Clock,
        bytes_per_second: typing.SupportsInt | typing.SupportsIndex,
        latency_fs: typing.SupportsInt | typing.SupportsIndex,
        network: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def compute_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def link_network_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def load(self, data: bytes) -> None: ...
    def rate_memory_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def run(self, slice: typing.SupportsInt | typing.SupportsIndex = 20000) -> tuple[typing.Any, ...]: ...
    def save(self) -> bytes: ...
    def set_order(self, order: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None: ...
    def submit(
        self,
        columns: dict[str, typing.Any],
        before: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        after: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        effective_fs: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def take_records(self) -> dict[str, typing.Any]: ...
    @property
    def instants(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def now_fs(self) -> int: ...
    @property
    def unfinished_tasks(self) -> int: ...

__version__: str = "0.1.0"
faults_compiled: bool = False
