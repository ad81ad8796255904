"""Readers of outside formats, found by entry point and imported only when one is asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from cosim.trace.options import TraceAdapter

GROUP = "cosim.trace_adapters"

_OWN = {"hdmoe_json": "cosim_adapters.hdmoe:ADAPTER"}
"""Adapters of this distribution: known without its metadata, so that a bare checkout works too."""


@lru_cache(maxsize=1)
def _found() -> dict[str, EntryPoint]:
    points = {name: EntryPoint(name, value, GROUP) for name, value in _OWN.items()}
    points.update({point.name: point for point in entry_points(group=GROUP)})
    return dict(sorted(points.items()))


def names() -> list[str]:
    """Names of all adapters, none of them imported."""
    return list(_found())


def adapter(name: str) -> TraceAdapter:
    """The adapter of that name.

    Raises:
        KeyError: when there is none.
        ImportError: when its package cannot be imported.
    """
    point = _found()[name]
    module = import_module(point.module)
    found: TraceAdapter = getattr(module, point.attr)
    return found
