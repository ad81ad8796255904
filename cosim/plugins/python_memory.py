"""A memory written in Python behind the same table of functions as a C plug-in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cosim.plugins import headers
from cosim.plugins.python_table import PythonTable, parameters_of, qualified_name
from cosim.plugins.shared_object import LoadedTable, c_text

__all__ = ["MemoryGeometry", "MemoryRequest", "from_python_memory"]

HEADER = "cosim_memory.h"
NEVER = (1 << 64) - 1


@dataclass(frozen=True)
class MemoryGeometry:
    """The channel that the user asked for; ticks are command slots."""

    preset: str
    pseudo_channels: int
    stack_ids: int
    bank_groups: int
    banks_per_group: int
    rows: int
    columns: int
    access_bytes: int
    ticks_per_cycle: int
    capacity_bytes: int
    peak_bytes_per_second: int
    tick_fs_num: int
    tick_fs_den: int


@dataclass(frozen=True)
class MemoryRequest:
    """One burst: a read, or a write, of ``access_bytes`` at byte ``offset`` of its channel."""

    id: int
    write: bool
    offset: int
    pseudo_channel: int
    stack_id: int
    bank_group: int
    bank: int
    row: int
    column: int
    class_id: int


_GEOMETRY = tuple(name for name in MemoryGeometry.__annotations__ if name != "preset")
_REQUEST = tuple(name for name in MemoryRequest.__annotations__ if name != "write")


def from_python_memory(memory: Callable[..., Any], name: str | None = None) -> LoadedTable:
    """A memory channel of this process as a table of functions.

    Args:
        memory: a class ``Memory(geometry, **params)`` with ``accept(request, tick) -> bool``, ``next_event() -> int |
            None``, ``advance(tick)`` and ``pop() -> iterable of (id, tick)``, the bursts that are done; optionally
            ``save() -> bytes`` and ``load(bytes)``.
        name: what errors call it; defaults to its own.
    """
    made = PythonTable("memory", memory, name or qualified_name(memory))
    ffi = made.ffi

    def make(config: Any, params: dict[str, Any]) -> _Instance:
        preset = c_text(ffi, config.preset)
        geometry = MemoryGeometry(preset, **{key: int(getattr(config, key)) for key in _GEOMETRY})
        return _Instance(memory(geometry, **params))

    def accept(handle: Any, raw: Any, tick: int) -> int:
        fields = {key: int(getattr(raw, key)) for key in _REQUEST}
        instance: _Instance = ffi.from_handle(handle)
        return int(bool(instance.memory.accept(MemoryRequest(write=raw.op == 1, **fields), tick)))

    def next_event(handle: Any) -> int:
        instance: _Instance = ffi.from_handle(handle)
        if instance.done:
            return instance.tick + 1
        when = instance.memory.next_event()
        return NEVER if when is None else int(when)

    def advance(handle: Any, tick: int) -> int:
        instance: _Instance = ffi.from_handle(handle)
        instance.tick = tick
        instance.memory.advance(tick)
        instance.done.extend(instance.memory.pop())
        return 0

    def pop(handle: Any, out: Any, cap: int) -> int:
        instance: _Instance = ffi.from_handle(handle)
        count = min(len(instance.done), cap)
        for i in range(count):
            out[i].id, out[i].tick = instance.done[i]
        del instance.done[:count]
        return count

    def save(handle: Any, state: Any, cap: int) -> int:
        instance: _Instance = ffi.from_handle(handle)
        data: bytes = instance.memory.save()
        if cap >= len(data):
            ffi.memmove(state, data, len(data))
        return len(data)

    def load(handle: Any, state: Any, size: int) -> int:
        instance: _Instance = ffi.from_handle(handle)
        instance.memory.load(bytes(ffi.buffer(state, size)))
        return 0

    internal = headers.constant(HEADER, "COSIM_E_INTERNAL")
    made.set_lifetime(make)
    made.set("accept", accept, internal)
    made.set("next_event", next_event, 0)  # a tick that has passed: the core ends the run
    made.set("advance", advance, internal)
    made.set("pop", pop, internal)
    if hasattr(memory, "save") and hasattr(memory, "load"):
        made.set("save", save, 0)
        made.set("load", load, internal)
    return made.finish((), parameters_of(memory), "Python class")


class _Instance:
    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.done: list[tuple[int, int]] = []
        self.tick = 0
