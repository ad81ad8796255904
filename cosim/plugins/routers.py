"""A router model with its parameters, ready for a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosim import _core
from cosim.plugins.description import Description, checked_params, params_text
from cosim.plugins.loading import load_table
from cosim.plugins.shared_object import LoadedTable

__all__ = ["RouterModelPlugin", "load_router_model"]


@dataclass(frozen=True)
class RouterModelPlugin:
    """A router model and the parameters that its `create` gets."""

    table: LoadedTable
    params: Mapping[str, Any]

    @property
    def description(self) -> Description:
        """Who it is."""
        return self.table.description

    def core(self, kind: str, dims: Sequence[int]) -> _core.RouterModelPlugin:
        """What `_core.NetworkSpec.set_router_model` takes.

        Args:
            kind: of the topology.
            dims: routers per dimension, empty where routers have no coordinates.
        """
        return _core.RouterModelPlugin(self.table.address, params_text(self.params), kind, list(dims), self.table)


def load_router_model(
    reference: object, params: Mapping[str, Any] | None = None, path: str = "params"
) -> RouterModelPlugin:
    """Load a router model and check its parameters; arguments and errors as `load_routing`."""
    if isinstance(reference, RouterModelPlugin):
        return reference
    table = load_table(reference, "routers")
    description = table.description
    return RouterModelPlugin(table, checked_params(params or {}, description.parameters, description.name, path))
