"""A routing plug-in with its parameters, ready for a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from cosim import _core
from cosim.plugins.description import Description, checked_params, params_text
from cosim.plugins.loading import load_table
from cosim.plugins.shared_object import LoadedTable

__all__ = ["RoutingPlugin", "load_routing", "routing_errors"]


@dataclass(frozen=True)
class RoutingPlugin:
    """A routing plug-in and the parameters that its `create` gets."""

    table: LoadedTable
    params: Mapping[str, Any]

    @property
    def description(self) -> Description:
        """Who it is."""
        return self.table.description

    def core(self, kind: str, dims: Sequence[int], flit_bytes: int = 0) -> _core.RoutingPlugin:
        """What `_core.NetworkSpec.set_routing_plugin` takes.

        Args:
            kind: of the topology.
            dims: routers per dimension, empty where routers have no coordinates.
            flit_bytes: 0 where the network does not say.
        """
        text = params_text(self.params)
        return _core.RoutingPlugin(self.table.address, text, kind, list(dims), flit_bytes, self.table)


def load_routing(reference: object, params: Mapping[str, Any] | None = None, path: str = "params") -> RoutingPlugin:
    """Load a routing plug-in and check its parameters.

    Args:
        reference: as `cosim.plugins.loading.load_table` takes it.
        params: what `create` gets.
        path: what to call ``params`` in errors.

    Raises:
        ConfigErrors: no such file or entry point, or parameters that the plug-in does not have.
        PluginError: a plug-in that cannot be used.
    """
    if isinstance(reference, RoutingPlugin):
        return reference
    table = load_table(reference, "routing")
    description = table.description
    return RoutingPlugin(table, checked_params(params or {}, description.parameters, description.name, path))


def routing_errors(plugin: RoutingPlugin | None) -> AbstractContextManager[None]:
    """What goes wrong inside is the plug-in's, where there is one; see `LoadedTable.in_use`."""
    if plugin is None:
        return nullcontext()
    return plugin.table.in_use("a network that the plug-in takes", "network.routing.plugin", _core.RoutingError)
