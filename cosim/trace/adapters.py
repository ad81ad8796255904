"""Readers of outside formats, found by entry point and imported only when one is asked for."""

from __future__ import annotations

from functools import lru_cache

from cosim.plugins.registry import GROUPS, find, plugins
from cosim.trace.options import TraceAdapter

_KIND = "trace_adapters"
GROUP = GROUPS[_KIND]


@lru_cache(maxsize=1)
def names() -> list[str]:
    """Names of all adapters, none of them imported."""
    return [plugin.name for plugin in plugins(_KIND)]


@lru_cache(maxsize=256)
def adapter(name: str) -> TraceAdapter:
    """The adapter of that name.

    Raises:
        ConfigErrors: when there is none.
        PluginError: when its package cannot be imported.
    """
    found: TraceAdapter = find(_KIND, name).load()
    return found
