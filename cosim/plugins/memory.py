"""A memory plug-in with its parameters, ready to be made a memory of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cosim import _core
from cosim.plugins.description import Description, checked_params, params_text
from cosim.plugins.loading import load_table
from cosim.plugins.shared_object import LoadedTable

__all__ = ["MemoryPlugin", "load_memory"]


@dataclass(frozen=True)
class MemoryPlugin:
    """A memory plug-in and the parameters that its `create` gets."""

    table: LoadedTable
    params: Mapping[str, Any]

    @property
    def description(self) -> Description:
        """Who it is."""
        return self.table.description

    def core(self, preset: str, peak_bytes_per_second: int, tick_fs_num: int, tick_fs_den: int) -> _core.MemoryPlugin:
        """What the core makes channels with; a tick lasts ``tick_fs_num / tick_fs_den`` femtoseconds."""
        text = params_text(self.params)
        return _core.MemoryPlugin(
            self.table.address, text, preset, peak_bytes_per_second, tick_fs_num, tick_fs_den, self.table
        )


def load_memory(reference: object, params: Mapping[str, Any] | None = None, path: str = "params") -> MemoryPlugin:
    """Load a memory plug-in and check its parameters; arguments and errors as `load_routing`."""
    if isinstance(reference, MemoryPlugin):
        return reference
    table = load_table(reference, "memory")
    description = table.description
    return MemoryPlugin(table, checked_params(params or {}, description.parameters, description.name, path))
