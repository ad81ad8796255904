"""The networks of a system and the gateways between them, as plain tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from cosim.config.schema_hardware import GatewaySpec, HardwareSpec
from cosim.config.schema_network import BULK_CLASSES, LevelSpec
from cosim.system.level_graph import ClassRow, LevelGraph

__all__ = [
    "LINK",
    "Gateway",
    "Network",
    "build_gateways",
    "build_networks",
    "class_rows",
    "gateway_pairs",
    "system_links",
]

LINK = np.dtype([("source", np.int32), ("target", np.int32), ("latency_cycles", np.int32), ("network", np.int32)])
"""A directed link between two routers of one network."""


@dataclass(frozen=True)
class Network:
    """One instance of a level. Routers, links and terminals are numbered over the whole system.

    Attributes:
        index: position in ``System.networks``.
        level_name, instance: which level, which of its ``count``.
        level: its keys.
        graph: its routers and routes, numbered from 0.
        first_router, first_link: where its numbers start.
        above: network nearer to the root, -1 at the root.
    """

    index: int
    level_name: str
    instance: int
    level: LevelSpec
    graph: LevelGraph
    first_router: int
    first_link: int
    above: int

    @property
    def label(self) -> str:
        """``level`` or, of several instances, ``level[instance]``."""
        return f"{self.level_name}[{self.instance}]" if self.level.count > 1 else self.level_name

    @property
    def legs(self) -> int:
        """Sets of VCs per message class: two under a gateway, for what starts here and for what comes from above."""
        return 2 if self.above >= 0 else 1

    @property
    def routers(self) -> range:
        """Its routers."""
        return range(self.first_router, self.first_router + self.graph.routers)

    @property
    def links(self) -> slice:
        """Its links."""
        return slice(self.first_link, self.first_link + len(self.graph.source))

    @property
    def link_bandwidth_Bps(self) -> Fraction:
        """Bytes per second of a link in one direction: one flit a cycle."""
        return self.level.flit_width * self.level.clock

    @property
    def payload_bytes(self) -> int:
        """Payload of a full packet."""
        return self.level.max_packet_flits * self.level.flit_width - self.level.header_bytes

    def xy(self, router: int) -> tuple[int, int]:
        """Where a drawing of the level puts a router of the system: instances lie in rows, one place apart."""
        width, height = (int(size) + 2 for size in self.graph.xy.max(axis=0))
        columns = int(np.ceil(np.sqrt(self.level.count)))
        x, y = self.graph.xy[router - self.first_router].tolist()
        return x + self.instance % columns * width, y + self.instance // columns * height


@dataclass(frozen=True)
class Gateway:
    """One gateway: the ends of a crossing, by network and router of the system.

    Attributes:
        index: position in ``System.gateways``.
        name, spec: its key and its keys.
        networks: lower and upper network.
        routers: the router at either end.
    """

    index: int
    name: str
    spec: GatewaySpec
    networks: tuple[int, int]
    routers: tuple[int, int]

    @property
    def label(self) -> str:
        """``name[index]``: what reports call it."""
        return f"{self.name}[{self.index}]"

    def bandwidth_Bps(self, networks: tuple[Network, ...]) -> Fraction:
        """Bytes per second that the ports of both ends carry in one direction."""
        ends = (networks[index] for index in self.networks)
        return min(self.spec.ports_at(end.level_name) * end.link_bandwidth_Bps for end in ends)


def class_rows(level: LevelSpec, legs: int) -> list[ClassRow]:
    """Every class and leg; of two legs the first has the larger half."""
    rows: list[ClassRow] = []

    def add(vcs: Sequence[int], priority: int, kind: str) -> None:
        half = -(-len(vcs) // legs)
        static = kind in BULK_CLASSES and level.bulk_vc == "static"
        for leg in range(legs):
            mask = sum(1 << vc for vc in vcs[leg * half : (leg + 1) * half])
            rows.append((mask, priority, kind == "multicast", kind == "session", static))

    for name, spec in level.message_classes.by_name().items():
        add(spec.vcs, spec.priority, name)
    broadcast = level.message_classes.broadcast
    if broadcast is not None:
        for way, vcs in broadcast.vcs_by_way.items():
            add(vcs, broadcast.priority if vcs else 0, way)
    return rows


def build_networks(spec: HardwareSpec) -> tuple[Network, ...]:
    """Every instance of every level; levels by name, so that the order of keys has no influence."""
    above = {gateway.lower: gateway.upper for gateway in spec.gateways.values()}
    first: dict[str, int] = {}
    total = 0
    for name in sorted(spec.levels):
        first[name] = total
        total += spec.levels[name].count
    networks: list[Network] = []
    router = link = 0
    for name in sorted(spec.levels):
        level = spec.levels[name]
        graph = LevelGraph.of(level, class_rows(level, 2 if name in above else 1))
        for instance in range(level.count):
            parent = -1
            if name in above:
                upper = spec.levels[above[name]]
                parent = first[above[name]] + instance // (level.count // upper.count)
            networks.append(Network(len(networks), name, instance, level, graph, router, link, parent))
            router += graph.routers
            link += len(graph.source)
    return tuple(networks)


def gateway_pairs(spec: HardwareSpec, gateway: GatewaySpec) -> list[tuple[int, int, int]] | str:
    """(lower instance, lower router, upper router) of every gateway of a key; else what does not fit, in words."""
    lower, upper = spec.levels[gateway.lower], spec.levels[gateway.upper]
    if lower.count % upper.count:
        return f"{lower.count} instances of {gateway.lower!r}, a multiple of the {upper.count} of {gateway.upper!r}"
    low, high = (
        [nodes[node] for node in gateway.at[name].indices(len(nodes))]
        for name, nodes in (
            (gateway.lower, lower.topology.node_routers()),
            (gateway.upper, upper.topology.node_routers()),
        )
    )
    block = lower.count // upper.count
    if len(high) not in (block * len(low), block):
        return f"{block * len(low)} routers of {gateway.upper!r}, one for each of {block} × {len(low)} gateways" + (
            f", or {block}, one for each instance of {gateway.lower!r}" if len(low) > 1 else ""
        )
    shared = len(low) if len(high) == block else 1
    found = []
    for instance in range(lower.count):
        for position, router in enumerate(low):
            number = instance % block * len(low) + position
            found.append((instance, router, high[number // shared]))
    return found


def build_gateways(spec: HardwareSpec, networks: tuple[Network, ...]) -> tuple[Gateway, ...]:
    """Every gateway, by name, lower instance and router."""
    place = {(network.level_name, network.instance): network for network in networks}
    found: list[Gateway] = []
    for name, gateway in sorted(spec.gateways.items()):
        pairs = gateway_pairs(spec, gateway)
        assert not isinstance(pairs, str)
        for instance, low, high in pairs:
            lower = place[gateway.lower, instance]
            upper = networks[lower.above]
            found.append(
                Gateway(
                    len(found),
                    name,
                    gateway,
                    (lower.index, upper.index),
                    (lower.first_router + low, upper.first_router + high),
                )
            )
    return tuple(found)


def system_links(networks: tuple[Network, ...]) -> npt.NDArray[np.void]:
    """All links of all networks; see ``LINK``."""
    parts = []
    for network in networks:
        part = np.zeros(len(network.graph.source), dtype=LINK)
        part["source"] = network.graph.source + network.first_router
        part["target"] = network.graph.target + network.first_router
        part["latency_cycles"] = network.graph.latency_cycles
        part["network"] = network.index
        parts.append(part)
    return np.concatenate(parts)
