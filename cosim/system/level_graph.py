"""The graph and the routes of one network level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim import _core
from cosim.config.errors import ConfigErrors
from cosim.config.schema_network import LevelSpec
from cosim.config.schema_topology import GridSpec, RingSpec
from cosim.noc.graph import build_topology, routing_seed, set_pipeline, set_routing, set_sessions

__all__ = ["ClassRow", "LevelGraph", "flit_network", "level_links"]

ClassRow = tuple[int, int, bool, bool, bool]
"""VC mask, priority, and whether the class is one of multicasts, of sessions, of static VCs."""
ClassRows = Sequence[ClassRow]

_TABLES = ("dor", "direct", "up_down", "layered_shortest_path", "table")
_STAND_INS = {"nca": "up_down", "odd_even": "dor", "west_first": "dor", "min_adaptive": "dor"}
"""Routings that choose by chance or by load → the routing whose one minimal way stands for theirs on reserved links."""


@dataclass(frozen=True)
class LevelGraph:
    """Routers, directed links and deterministic routes of a level; all instances share them.

    Links are in the order of their source router and port. Where the routing chooses by chance or by load, the routes
    are one minimal way of it: on a torus dimension order, upwards where both ways round are as long; on a tree
    up*/down*; on a mesh dimension order. Routes to a router are those to its first node.

    Attributes:
        routers: how many.
        source, target, latency_cycles: int32 ``[link]``.
        from_port, to_port: int32 ``[link]``, port at the source and at the target.
        link_ports: bool ``[router, port]``, ports kept for links: on a grid all of its 2 per dimension.
        node_router: int32 ``[node]``, router of each node, where endpoints and gateways may sit.
        first_node: int32 ``[router]``, its node of the lowest number, -1 without one.
        next_link: int32 ``[router, destination router]``, link taken next; -1 on the diagonal and towards routers
            without a node.
        xy: int64 ``[router, 2]``, where a drawing puts the router.
        placed: whether ``xy`` are its coordinates, so that a drawing of links means something.
    """

    routers: int
    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    latency_cycles: npt.NDArray[np.int32]
    from_port: npt.NDArray[np.int32]
    to_port: npt.NDArray[np.int32]
    link_ports: npt.NDArray[np.bool_]
    node_router: npt.NDArray[np.int32]
    first_node: npt.NDArray[np.int32]
    next_link: npt.NDArray[np.int32]
    xy: npt.NDArray[np.int64]
    placed: bool

    @classmethod
    def of(cls, level: LevelSpec, classes: ClassRows = ()) -> LevelGraph:
        """The graph of ``level``.

        Args:
            classes: every class; layers of shortest ways are counted against them.

        Raises:
            ValueError: too few VCs for the layers, a node that cannot be reached, a route table that does not fit.
        """
        core = _base(level, classes)
        links = np.array(
            [(k.from_router, k.to_router, k.latency, k.from_port, k.to_port) for k in core.links], dtype=np.int32
        ).reshape(-1, 5)
        source, target, latency, from_port, to_port = (links[:, column].copy() for column in range(5))
        routers = core.routers
        shape = _shape(level)
        ports = 2 * len(shape) if shape else int(max(from_port.max(initial=-1), to_port.max(initial=-1))) + 1
        link_ports = np.full((routers, ports), bool(shape), dtype=np.bool_)
        link_ports[source, from_port] = link_ports[target, to_port] = True
        link_at = np.full((routers, ports + 1), -1, dtype=np.int32)
        link_at[source, from_port] = np.arange(len(source))

        node_router = np.array(level.topology.node_routers(), dtype=np.int32)
        first_node = np.full(routers, -1, dtype=np.int32)
        first_node[node_router[::-1]] = np.arange(len(node_router), dtype=np.int32)[::-1]
        if level.routing_name == "dateline":
            next_link = _shorter_way_round(shape, link_at)
        else:
            port, _ = _ports_and_sets(level, core, first_node)
            next_link = np.where(port >= 0, np.take_along_axis(link_at, np.clip(port, 0, ports), axis=1), -1).astype(
                np.int32
            )
        np.fill_diagonal(next_link, -1)
        return cls(
            routers, source, target, latency, from_port, to_port, link_ports, node_router, first_node, next_link,
            _drawing(routers, shape), bool(shape),
        )  # fmt: skip

    def terminal_ports(self, routers: Sequence[int]) -> list[int]:
        """A port for each terminal at one of ``routers``: the lowest that no link and no terminal before it has."""
        free = [[int(port) for port in np.flatnonzero(~row)] for row in self.link_ports]
        beyond = [self.link_ports.shape[1]] * self.routers
        found = []
        for router in routers:
            if free[router]:
                found.append(free[router].pop(0))
            else:
                found.append(beyond[router])
                beyond[router] += 1
        return found


def flit_network(
    level: LevelSpec, graph: LevelGraph, routers: Sequence[int], classes: ClassRows, seed: int = 1, instance: int = 0
) -> _core.NetworkSpec:
    """The core's description of an instance of ``level`` with a terminal at each of ``routers`` (from 0).

    Args:
        classes: every class, in the order of their numbers.
        seed: of the draws of a random routing and, beside `retry.seed`, of the errors of links.
        instance: whose links have errors of their own.
    """
    core = _base(level, classes)
    if level.retry is not None:
        errors = level.retry
        core.set_retry(
            bit_error_rate=errors.bit_error_rate, flit_bits=8 * level.flit_width, crc_bits=errors.crc_bits,
            nack_delay=errors.nack_delay, seed=_mixed(errors.seed, seed, instance),
        )  # fmt: skip
    ports = graph.terminal_ports(routers)
    at = np.array(routers, dtype=np.int64)
    if level.routing_name in _TABLES:
        port, vc_set = _ports_and_sets(level, core, graph.first_node)
        entries = port[:, at] | vc_set[:, at] << 8
        entries[at, np.arange(len(at))] = np.array(ports) | vc_set[at, at] << 8
        core.set_routes(entries.reshape(-1).tolist(), core.routes[1])
    else:
        core.set_routing_function(getattr(_core.RoutingKind, level.routing_name), routing_seed(seed))
    core.terminals = [_core.TerminalSpec(router, port) for router, port in zip(routers, ports, strict=True)]
    core.ports = max(graph.link_ports.shape[1], *(port + 1 for port in ports), 1)
    return core


def _mixed(*numbers: int) -> int:
    """A seed of 64 bits from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def level_links(level: LevelSpec) -> list[tuple[int, int]]:
    """Every directed link of ``level`` as (from router, to router)."""
    return [(link.from_router, link.to_router) for link in _base(level, ()).links]


def _shape(level: LevelSpec) -> tuple[int, ...]:
    """Routers per dimension of a grid, empty for other graphs."""
    topology = level.topology
    if isinstance(topology, RingSpec):
        return (topology.routers,)
    return tuple(topology.shape) if isinstance(topology, GridSpec) else ()


def _base(level: LevelSpec, classes: ClassRows) -> _core.NetworkSpec:
    """The level as a network by itself, not routed; links in the order of router and port."""
    core = _core.NetworkSpec()
    set_pipeline(core, level)
    for row in classes:
        core.add_class(*row[:4], static_vcs=row[4])
    broadcast = level.message_classes.broadcast
    if classes and broadcast is not None and broadcast.session is not None:
        set_sessions(core, broadcast.session)
    build_topology(core, level)
    core.links = sorted(core.links, key=lambda link: (link.from_router, link.from_port))
    return core


def _ports_and_sets(
    level: LevelSpec, core: _core.NetworkSpec, first_node: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Output port and VC set from every router towards every other with a node, -1 and 0 towards those without.

    Leaves the table in ``core``.
    """
    name = level.routing_name
    if name in _STAND_INS:
        core.route_dimension_order() if _STAND_INS[name] == "dor" else core.route_up_down(0)
    else:
        set_routing(core, level)
    entries = np.array(core.routes[0], dtype=np.int32).reshape(core.routers, -1)
    node_router = np.array(level.topology.node_routers())
    if name == "table":
        apart = entries != entries[:, first_node[node_router]]
        apart[node_router, np.arange(len(node_router))] = False
        if apart.any():
            router, node = np.argwhere(apart)[0]
            raise ConfigErrors.single(
                "the same way to all nodes of a router",
                f"at router {router} another way to node {node} than to node {first_node[node_router[node]]}",
                path="routing.table",
            )
    to_router = entries[:, first_node]
    there = first_node >= 0
    return np.where(there, to_router & 0xFF, -1), np.where(there, to_router >> 8, 0)


def _shorter_way_round(shape: tuple[int, ...], link_at: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Dimension order on a torus, the shorter way round, upwards where both are as long."""
    routers = len(link_at)
    coordinates = np.stack(np.unravel_index(np.arange(routers), shape, order="F"), axis=1)
    next_link = np.full((routers, routers), -1, dtype=np.int32)
    for d in reversed(range(len(shape))):  # a lower dimension overrides a higher one
        steps = (coordinates[None, :, d] - coordinates[:, None, d]) % shape[d]
        way = np.where(2 * steps <= shape[d], link_at[:, 2 * d][:, None], link_at[:, 2 * d + 1][:, None])
        next_link = np.where(steps > 0, way, next_link)
    return next_link


def _drawing(routers: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Further dimensions lie side by side along the second one; routers without coordinates fill rows."""
    width = shape[0] if shape else int(np.ceil(np.sqrt(routers)))
    place = np.arange(routers, dtype=np.int64)
    return np.stack([place % width, place // width], axis=1)
