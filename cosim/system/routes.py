"""Routes over a system's links: the link taken next, and how far endpoints are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.system.system import System

__all__ = ["Routes"]


@dataclass(frozen=True)
class Routes:
    """The deterministic routes of one system.

    Attributes:
        next_link: int32 ``[router, destination router]``, directed link taken next, -1 on the diagonal.
        hops: int32 ``[router, destination router]``, links on the way.
        direction: int32 ``[link]``, 2d for a link upwards in dimension d, 2d + 1 for one downwards.
        coordinates: int32 ``[router, dimension]``.
        router: int32 ``[endpoint]``.
    """

    next_link: npt.NDArray[np.int32]
    hops: npt.NDArray[np.int32]
    direction: npt.NDArray[np.int32]
    coordinates: npt.NDArray[np.int32]
    router: npt.NDArray[np.int32]

    @classmethod
    def of(cls, system: System) -> Routes:
        """Dimension order on a mesh: the first dimension in which router and destination differ goes first."""
        shape: tuple[int, ...] = system.level.topology.shape
        routers = system.router_count
        place = np.arange(routers)
        coordinates = np.stack(np.unravel_index(place, shape, order="F"), axis=1).astype(np.int32)
        steps = coordinates[system.links["target"]] - coordinates[system.links["source"]]
        dimension = np.argmax(np.abs(steps), axis=1)
        backwards = steps[np.arange(len(steps)), dimension] < 0
        direction = (2 * dimension + backwards).astype(np.int32)

        link_at = np.full((routers, 2 * len(shape)), -1, dtype=np.int32)
        link_at[system.links["source"], direction] = np.arange(len(direction))
        next_link = np.full((routers, routers), -1, dtype=np.int32)
        for d in reversed(range(len(shape))):  # a lower dimension overrides a higher one
            along = coordinates[:, d]
            up, down = along[None, :] > along[:, None], along[None, :] < along[:, None]
            next_link = np.where(up, link_at[:, 2 * d][:, None], next_link)
            next_link = np.where(down, link_at[:, 2 * d + 1][:, None], next_link)
        hops = np.abs(coordinates[:, None, :] - coordinates[None, :, :]).sum(axis=2).astype(np.int32)
        router = np.array([endpoint.router for endpoint in system.endpoints], dtype=np.int32)
        return cls(next_link, hops, direction, coordinates, router)

    def between(self, source: int, destination: int) -> int:
        """Links between two endpoints, by endpoint index."""
        return int(self.hops[self.router[source], self.router[destination]])

    def path(self, source: int, destination: int, system: System) -> list[int]:
        """Links from one endpoint to another, in order."""
        here, there = int(self.router[source]), int(self.router[destination])
        links = []
        while here != there:
            links.append(int(self.next_link[here, there]))
            here = int(system.links["target"][links[-1]])
        return links
