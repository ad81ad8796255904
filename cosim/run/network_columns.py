"""The tables that the core's networks and gateways are built from."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors

if TYPE_CHECKING:
    from cosim.config.schema_network import LevelSpec
    from cosim.system import System
    from cosim.system.networks import Gateway, Network

__all__ = ["end_terminals", "flit_graph", "legs", "link_tables", "packet_payloads", "ways"]

_PIPELINE = (
    "num_vcs",
    "vc_buf_size",
    "routing_delay",
    "vc_alloc_delay",
    "sw_alloc_delay",
    "st_prepare_delay",
    "st_final_delay",
    "credit_delay",
)


def _whole(rate: Fraction, path: str) -> int:
    if rate.denominator != 1:
        raise ConfigErrors.single("flit_width × clock of whole bytes per second", f"{rate} B/s", path=path)
    return int(rate)


def link_tables(system: System) -> dict[str, Any]:
    """Arguments of ``Engine.add_link_network`` that describe the links; a gateway is a link in either direction."""
    rates: list[int] = []
    for network in system.networks:
        rate = _whole(network.link_bandwidth_Bps, f"system.levels.{network.level_name}")
        rates += [rate] * len(network.graph.source)
    for gateway in system.gateways:
        rates += [_whole(gateway.bandwidth_Bps(system.networks), f"system.gateways.{gateway.name}")] * 2
    return {
        "routers": system.router_count,
        "link_bytes_per_second": rates,
        "link_target": system.routes.target.tolist(),
        "next_link": system.routes.next_link.reshape(-1).tolist(),
    }


def legs(network: Network) -> int:
    """Sets of VCs per message class: two under a gateway, for what starts here and for what comes from above."""
    return 2 if network.above >= 0 else 1


def _class_rows(level: LevelSpec, sets: int) -> list[tuple[int, int]]:
    """(VC mask, priority) of every class and leg; of two legs the first has the larger half."""
    rows = []
    for spec in level.message_classes.by_name().values():
        half = -(-len(spec.vcs) // sets)
        rows += [(sum(1 << vc for vc in spec.vcs[leg * half : (leg + 1) * half]), spec.priority) for leg in range(sets)]
    return rows


def end_terminals(system: System, network: Network) -> tuple[dict[int, list[int]], dict[int, list[int]], list[int]]:
    """Terminals of a network: by endpoint, by gateway, and the router (numbered from 0) of each."""
    routers: list[int] = []

    def take(router: int, count: int) -> list[int]:
        numbers = list(range(len(routers), len(routers) + count))
        routers.extend([router - network.first_router] * count)
        return numbers

    endpoints = {
        place.index: take(place.router, place.spec.ports)
        for place in system.endpoints
        if place.network == network.index
    }
    gateways = {
        gateway.index: take(gateway.routers[end], gateway.spec.ports_at(network.level_name))
        for gateway in system.gateways
        for end in (0, 1)
        if gateway.networks[end] == network.index
    }
    return endpoints, gateways, routers


def flit_graph(system: System, network: Network) -> dict[str, Any]:
    """The ``graph`` of ``Engine.add_flit_network``; the ports of terminals follow those of links."""
    level, graph = network.level, network.graph
    links = np.stack(
        [
            graph.source,
            graph.from_port,
            graph.target,
            graph.to_port,
            graph.latency_cycles,
            np.full(len(graph.source), level.link_depth_flits, dtype=np.int32),
        ],
        axis=1,
    )
    _, _, routers = end_terminals(system, network)
    terminals = np.zeros((len(routers), 2), dtype=np.int32)
    taken = np.zeros(graph.routers, dtype=np.int32)
    for number, router in enumerate(routers):
        terminals[number] = (router, graph.link_ports + taken[router])
        taken[router] += 1
    following = graph.next_link[:, terminals[:, 0]]
    ports = np.where(following >= 0, graph.from_port[following], terminals[None, :, 1])
    return {
        "routers": graph.routers,
        "ports": graph.link_ports + int(taken.max(initial=1)),
        "links": links.astype(np.int32),
        "terminals": terminals,
        "classes": np.array(_class_rows(level, legs(network)), dtype=np.int32),
        "routes": np.ascontiguousarray(ports.reshape(-1), dtype=np.uint16),
        **{name: getattr(level, name) for name in _PIPELINE},
    }


def packet_payloads(system: System, sources: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Most payload of a packet from each router of ``sources`` to each router, shape (sources, routers).

    The least payload of the networks on the way: a packet is cut once, at its source.
    """
    networks = system.networks
    number_of = np.concatenate([np.full(network.graph.routers, network.index) for network in networks])
    payload = np.array([network.payload_bytes for network in networks], dtype=np.int64)
    # Levels form a tree: the way between two networks does not depend on the routers.
    between = np.zeros((len(networks), len(networks)), dtype=np.int64)
    for source in networks:
        for target in networks:
            up, down, least = source.index, target.index, min(payload[source.index], payload[target.index])
            ancestors = [down]
            while networks[ancestors[-1]].above >= 0:
                ancestors.append(networks[ancestors[-1]].above)
            while up not in ancestors:
                up = networks[up].above
                least = min(least, payload[up])
            for index in ancestors[: ancestors.index(up) + 1]:
                least = min(least, payload[index])
            between[source.index, target.index] = least
    found: npt.NDArray[np.int64] = between[number_of[sources]][:, number_of]
    return found


def ways(
    system: System,
    network: Network,
    routers: list[int],
    node_router: npt.NDArray[np.int32],
    takers: list[tuple[int, Gateway, int]],
) -> tuple[list[int], list[int]]:
    """``gateway_towards`` and ``payload_towards`` of a flit network.

    Args:
        routers: router of each end of the network, in the order of its ``endpoint_node``.
        node_router: router of each node of the engine, -1 where it has none.
        takers: the gateways that take packets on, as (position, gateway, end in this network).
    """
    sources = np.array(routers, dtype=np.int32)
    known = np.where(node_router >= 0, node_router, 0)
    crossing = system.routes.crossing[sources][:, known]
    position = np.full(len(system.routes.target) + 1, -1, dtype=np.int32)
    for number, gateway, end in takers:
        position[system.routes.first_crossing + 2 * gateway.index + end] = number
    towards = np.where((node_router >= 0)[None, :] & (crossing >= 0), position[crossing], -1)
    payloads = packet_payloads(system, sources)[:, known]
    return towards.reshape(-1).tolist(), payloads.reshape(-1).tolist()
