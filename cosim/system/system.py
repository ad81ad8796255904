"""A built system: routers, links, terminals, endpoints and tiers as plain tables, made from a hardware spec."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors
from cosim.config.loader import Document, KeyPath
from cosim.config.schema_hardware import HardwareSpec
from cosim.system.endpoints import Endpoint
from cosim.system.findings import FiguresOf, hardware_findings, unreachable_routers
from cosim.system.memory import memory_figures
from cosim.system.networks import LINK, Gateway, Network, build_gateways, build_networks, system_links
from cosim.system.routes import Routes
from cosim.system.tiers import Tier, build_tiers, package_places, tier_problems

__all__ = ["LINK", "TERMINAL", "System", "hardware_findings", "unreachable_routers"]

TERMINAL = np.dtype([("router", np.int32), ("endpoint", np.int32), ("port", np.int32)])
"""A place where flits enter and leave a network: port ``port`` of an endpoint, at a router."""


@dataclass(frozen=True)
class System:
    """A system of one or several network levels.

    Networks are ordered by level name and instance, endpoints by router, node and name; terminals likewise, then by
    port: the order of keys in the file has no influence. Links are in the order of the networks, then of their
    topology.
    """

    spec: HardwareSpec
    networks: tuple[Network, ...]
    gateways: tuple[Gateway, ...]
    links: npt.NDArray[np.void]
    terminals: npt.NDArray[np.void]
    endpoints: tuple[Endpoint, ...]
    tiers: tuple[Tier, ...]

    @classmethod
    def build(
        cls,
        spec: HardwareSpec,
        document: Document | None = None,
        path: KeyPath = (),
        *,
        figures_of: FiguresOf = memory_figures,
    ) -> System:
        """Build the system of ``spec``.

        Args:
            spec: a valid hardware spec.
            document: where it was read from, at ``path``; places the errors.
            figures_of: looks up what a memory node offers.

        Raises:
            ConfigErrors: all that :func:`hardware_findings` finds; tiers that do not reach every chiplet.
        """
        findings = hardware_findings(spec, document or Document({}), path, figures_of=figures_of)
        if findings:
            raise ConfigErrors(findings)
        networks = build_networks(spec)
        places = sorted(
            (network.first_router + int(network.graph.node_router[node]), node, name, network.index)
            for network in networks
            for name, endpoint in spec.endpoints.items()
            if network.level_name in endpoint.at
            and (endpoint.instances is None or network.instance in endpoint.instances)
            for node in endpoint.at[network.level_name].indices(len(network.graph.node_router))
        )
        endpoints: list[Endpoint] = []
        terminals: list[tuple[int, int, int]] = []
        for index, (router, node, name, number) in enumerate(places):
            endpoint, network = spec.endpoints[name], networks[number]
            first = len(terminals)
            terminals += [(router, index, port) for port in range(endpoint.ports)]
            endpoints.append(
                Endpoint(
                    index=index,
                    name=name,
                    kind=endpoint.kind,
                    network=number,
                    router=router,
                    place=str(node) if len(networks) == 1 else f"{network.label}:{node}",
                    terminals=tuple(range(first, len(terminals))),
                    spec=endpoint,
                    memory=figures_of(endpoint.memory) if endpoint.memory else None,
                )
            )
        gateways = build_gateways(spec, networks)
        tiers = build_tiers(spec, networks, gateways, endpoints)
        problems = list(tier_problems(tiers, endpoints))
        if problems:
            known = document or Document({})
            raise ConfigErrors([known.error((*path, *where), expected, got) for where, expected, got in problems])
        return cls(
            spec=spec,
            networks=networks,
            gateways=gateways,
            links=system_links(networks),
            terminals=np.array(terminals, dtype=TERMINAL),
            endpoints=tuple(endpoints),
            tiers=tiers,
        )

    @property
    def router_count(self) -> int:
        """Routers of all networks."""
        return self.networks[-1].routers.stop

    @cached_property
    def routes(self) -> Routes:
        """The way from every router to every other."""
        return Routes.of(self.networks, self.gateways, [endpoint.router for endpoint in self.endpoints])

    @cached_property
    def near_memories(self) -> dict[int, int]:
        """Compute endpoints stacked with a memory → that memory, by endpoint index."""
        at = {(place.place, place.name): place.index for place in self.memory_endpoints}
        return {
            place.index: at[place.place, place.spec.near_memory.on]
            for place in self.compute_endpoints
            if place.spec.near_memory is not None
        }

    def network_of(self, endpoint: Endpoint) -> Network:
        """The network that an endpoint is attached to."""
        return self.networks[endpoint.network]

    def network_at(self, router: int) -> Network:
        """The network of a router of the system."""
        return next(network for network in self.networks if router in network.routers)

    @cached_property
    def broadcast_ways(self) -> tuple[str, ...]:
        """Message classes in which a message to several endpoints is sent once; those of every level that has any."""
        specs = (level.message_classes.broadcast for level in self.spec.levels.values())
        return next((spec.ways for spec in specs if spec is not None), ())

    @property
    def compute_endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that run experts."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint.kind == "compute")

    @property
    def memory_endpoints(self) -> tuple[Endpoint, ...]:
        """The memory nodes."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint.kind == "memory")

    @property
    def control_endpoints(self) -> tuple[Endpoint, ...]:
        """The control chiplets."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint.kind == "control")

    @property
    def endpoint_terminals(self) -> tuple[tuple[int, ...], ...]:
        """Terminals of every endpoint, by endpoint index."""
        return tuple(endpoint.terminals for endpoint in self.endpoints)

    @cached_property
    def package_places(self) -> list[tuple[int, int]]:
        """Place (x, y) in the package, the level at the root, of every endpoint."""
        return package_places(self.networks, self.gateways, self.endpoints)

    @property
    def home_tier(self) -> Tier:
        """The tier of the highest rank, which holds every expert's home; ``ValueError`` where there is no tier."""
        if not self.tiers:
            raise ValueError("the system has no memory tier to hold expert weights")
        return max(self.tiers, key=lambda tier: tier.rank)

    def tier(self, name: str) -> Tier:
        """The tier called ``name``; ``KeyError`` where there is none."""
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise KeyError(name)
