"""An arbiter plug-in with its parameters, ready for a stage of a network's routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cosim import _core
from cosim.plugins.description import Description, checked_params, params_text
from cosim.plugins.loading import load_table
from cosim.plugins.shared_object import LoadedTable

__all__ = ["ArbiterPlugin", "load_arbiter"]


@dataclass(frozen=True)
class ArbiterPlugin:
    """An arbiter plug-in and the parameters that its `create` gets."""

    table: LoadedTable
    params: Mapping[str, Any]

    @property
    def description(self) -> Description:
        """Who it is."""
        return self.table.description

    def core(self) -> _core.ArbiterPlugin:
        """What `_core.NetworkSpec.set_arbiter_plugins` takes."""
        return _core.ArbiterPlugin(self.table.address, params_text(self.params), self.table)


def load_arbiter(reference: object, params: Mapping[str, Any] | None = None, path: str = "params") -> ArbiterPlugin:
    """Load an arbiter plug-in and check its parameters; arguments and errors as `load_routing`."""
    if isinstance(reference, ArbiterPlugin):
        return reference
    table = load_table(reference, "arbiters")
    description = table.description
    return ArbiterPlugin(table, checked_params(params or {}, description.parameters, description.name, path))
