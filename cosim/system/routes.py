"""Routes over a whole system: the link taken next, the gateways on the way, and how far endpoints are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.system.networks import Gateway, Network

__all__ = ["Routes"]

Table = npt.NDArray[np.int32]

_FAR = 1 << 30
"""Hops where there is no way."""


@dataclass(frozen=True)
class Routes:
    """The deterministic routes of one system, from every router to every other.

    Links are those of the networks in their order; behind them two for each gateway, ``first_crossing + 2 · gateway``
    up and one more down. Inside a network the routes are those of its level. Between networks a packet takes, of the
    gateways that lead on, the one with the fewest links in total; among equals the first.

    Attributes:
        next_link: int32 ``[router, destination router]``, link taken next, -1 on the diagonal and towards routers
            without a node, where no way leads.
        hops: int32 ``[router, destination router]``, links on the way, gateways included; 2^30 or more without a way.
        crossing: int32 ``[router, destination router]``, the next link of a gateway on the way, -1 inside a network.
        target: int32 ``[link]``, router at its end.
        first_crossing: number of the first link of a gateway.
        router: int32 ``[endpoint]``.
    """

    next_link: Table
    hops: Table
    crossing: Table
    target: Table
    first_crossing: int
    router: Table

    @classmethod
    def of(cls, networks: Sequence[Network], gateways: Sequence[Gateway], routers: Sequence[int]) -> Routes:
        """The routes of ``networks`` joined by ``gateways``; ``routers`` are those of the endpoints.

        Raises:
            ValueError: routes that do not arrive.
        """
        count = networks[-1].routers.stop
        first_crossing = networks[-1].links.stop
        target = np.zeros(first_crossing + 2 * len(gateways), dtype=np.int32)
        next_link = np.full((count, count), -1, dtype=np.int32)
        hops = np.full((count, count), _FAR, dtype=np.int32)
        for network in networks:
            own = network.graph.next_link
            here = slice(network.routers.start, network.routers.stop)
            target[network.links] = network.graph.target + network.first_router
            next_link[here, here] = np.where(own >= 0, own + network.first_link, -1)
            hops[here, here] = _hops(own, network.graph.target)
        for gateway in gateways:
            up = first_crossing + 2 * gateway.index
            target[up], target[up + 1] = gateway.routers[1], gateway.routers[0]
        crossing = np.full((count, count), -1, dtype=np.int32)
        for network in networks:
            _extend(network, networks, gateways, first_crossing, hops, next_link, crossing)
        if len({gateway.networks for gateway in gateways}) < len(gateways):
            _hops(next_link, target)  # routers on a way may prefer another gateway than its start: it must still arrive
        return cls(next_link, hops, crossing, target, first_crossing, np.array(routers, dtype=np.int32))

    def between(self, source: int, destination: int) -> int:
        """Links between two endpoints, by endpoint index."""
        return int(self.hops[self.router[source], self.router[destination]])

    def path(self, source: int, destination: int) -> list[int]:
        """Links from one endpoint to another, in order, those of gateways included."""
        here, there = int(self.router[source]), int(self.router[destination])
        links = []
        while here != there:
            links.append(int(self.next_link[here, there]))
            here = int(self.target[links[-1]])
        return links


def _hops(next_link: Table, target: Table) -> Table:
    """Links from every router to every other along the routes of one network."""
    count = len(next_link)
    hops = np.zeros((count, count), dtype=np.int32)
    at = np.broadcast_to(np.arange(count)[:, None], (count, count)).copy()
    there = np.broadcast_to(np.arange(count)[None, :], (count, count))
    led_to = np.any(next_link >= 0, axis=0, keepdims=True)  # no way leads to routers without a node
    for _ in range(count):
        under_way = (at != there) & led_to
        if not under_way.any():
            return np.where(led_to | (at == there), hops, _FAR).astype(np.int32)
        hops += under_way
        taken = next_link[at[under_way], there[under_way]]
        at[under_way] = target[taken]
    lost = (at != there) & led_to
    if lost.any():
        source, destination = np.argwhere(lost)[0]
        raise ValueError(f"the route from router {source} to router {destination} does not arrive")
    return hops


def _extend(
    start: Network,
    networks: Sequence[Network],
    gateways: Sequence[Gateway],
    first_crossing: int,
    hops: Table,
    next_link: Table,
    crossing: Table,
) -> None:
    """Routes from every router to those of ``start``, network by network away from it: levels form a tree."""
    there = slice(start.routers.start, start.routers.stop)
    reached = {start.index}
    frontier = [start.index]
    while frontier:
        near = frontier.pop(0)
        ways: dict[int, list[tuple[int, int, int]]] = {}  # next network → (link, router there, router here)
        for gateway in gateways:
            for end in (0, 1):
                other = gateway.networks[1 - end]
                if gateway.networks[end] == near and other not in reached:
                    link = first_crossing + 2 * gateway.index + (0 if end == 1 else 1)
                    ways.setdefault(other, []).append((link, gateway.routers[1 - end], gateway.routers[end]))
        for other, leads in ways.items():
            network = networks[other]
            rows = slice(network.routers.start, network.routers.stop)
            total = np.stack([hops[rows, [a]] + 1 + hops[[b], there] for _, a, b in leads])
            best = np.argmin(total, axis=0)
            hops[rows, there] = np.take_along_axis(total, best[None], axis=0)[0]
            links = np.array([link for link, _, _ in leads], dtype=np.int32)
            exits = np.array([a for _, a, _ in leads], dtype=np.int32)[best]
            crossing[rows, there] = np.where(hops[rows, there] < _FAR, links[best], -1)
            at = np.arange(network.routers.start, network.routers.stop)[:, None]
            inside = next_link[np.broadcast_to(at, exits.shape), exits]
            known = hops[rows, there] < _FAR
            next_link[rows, there] = np.where(known, np.where(at == exits, links[best], inside), -1)
            reached.add(other)
            frontier.append(other)
