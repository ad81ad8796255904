"""The tables that the core's networks and gateways are built from."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors
from cosim.system.level_graph import flit_network
from cosim.system.networks import class_rows

if TYPE_CHECKING:
    from cosim._core import NetworkSpec
    from cosim.system import System
    from cosim.system.networks import Gateway, Network

__all__ = ["end_terminals", "flit_graph", "link_tables", "packet_payloads", "ways"]


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


def flit_graph(system: System, network: Network, seed: int) -> NetworkSpec:
    """The ``graph`` of ``Engine.add_flit_network``; ``seed`` is that of a random routing's draws."""
    _, _, routers = end_terminals(system, network)
    return flit_network(
        network.level, network.graph, routers, class_rows(network.level, network.legs), seed, network.index
    )


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
