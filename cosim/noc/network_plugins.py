"""The plug-ins that a network's description names, loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cosim import _core
from cosim.config.errors import ConfigErrors
from cosim.config.schema_network import NetworkConfig
from cosim.plugins.arbiters import ArbiterPlugin, load_arbiter
from cosim.plugins.description import Description
from cosim.plugins.registry import PluginError
from cosim.plugins.routers import RouterModelPlugin, load_router_model
from cosim.plugins.routing import RoutingPlugin, load_routing

__all__ = ["NetworkPlugins", "load_network_plugins"]


@dataclass(frozen=True)
class NetworkPlugins:
    """What takes the place of built-in parts of a network, None where nothing does."""

    routing: RoutingPlugin | None
    vc_allocator: ArbiterPlugin | None
    sw_allocator: ArbiterPlugin | None
    router: RouterModelPlugin | None

    def loaded(self) -> Mapping[str, RoutingPlugin | ArbiterPlugin | RouterModelPlugin]:
        """Key of the network's description → plug-in, those there are."""
        every = vars(self)
        return {key: every[key] for key in every if every[key] is not None}

    def descriptions(self) -> Mapping[str, Description]:
        """Key of the network's description → who the plug-in is."""
        return {key: plugin.description for key, plugin in self.loaded().items()}

    def give_to(self, spec: _core.NetworkSpec, config: NetworkConfig) -> None:
        """Makes them part of the core's description."""
        kind, dims = config.topology.kind, getattr(config.topology, "shape", ())
        if self.routing is not None:
            spec.set_routing_plugin(self.routing.core(kind, dims))
        if self.router is not None:
            spec.set_router_model(self.router.core(kind, dims))
        # the core takes None too, which its stub does not say
        arbiters: list[Any] = [None if each is None else each.core() for each in (self.vc_allocator, self.sw_allocator)]
        spec.set_arbiter_plugins(*arbiters)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """What goes wrong inside is a plug-in's: it refuses, breaks its contract, or its Python code raises.

        Raises:
            ConfigErrors: one refuses.
            PluginError: the rest.
        """
        loaded = self.loaded()
        if not loaded:
            yield
            return
        try:
            yield
        except ValueError as error:
            path = "network" if len(loaded) > 1 else f"network.{next(iter(loaded))}.plugin"
            raise ConfigErrors.single("a network that the plug-in takes", str(error), path=path) from error
        except _core.RoutingError as error:
            self._raise_problems()
            raise PluginError(str(error)) from error
        self._raise_problems()

    def _raise_problems(self) -> None:
        for plugin in self.loaded().values():
            plugin.table.raise_problem()


def load_network_plugins(config: NetworkConfig) -> NetworkPlugins:
    """Loads what `config` names.

    Raises:
        ConfigErrors: no such file or entry point, or parameters that a plug-in does not have.
        PluginError: a plug-in that cannot be used.
    """
    r, vc, sw, router = config.routing, config.vc_allocator, config.sw_allocator, config.router
    return NetworkPlugins(
        routing=None if r is None or r.plugin is None else load_routing(r.plugin, r.params, "network.routing.params"),
        vc_allocator=None if vc.plugin is None else load_arbiter(vc.plugin, vc.params, "network.vc_allocator.params"),
        sw_allocator=None if sw.plugin is None else load_arbiter(sw.plugin, sw.params, "network.sw_allocator.params"),
        router=None
        if router.plugin is None
        else load_router_model(router.plugin, router.params, "network.router.params"),
    )
