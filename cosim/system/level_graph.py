"""The graph and the routes of one network level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.config.schema_network import LevelSpec

__all__ = ["LevelGraph"]


@dataclass(frozen=True)
class LevelGraph:
    """Routers, directed links and deterministic routes of a level; all instances share them.

    Attributes:
        routers: how many.
        link_ports: ports of every router for links, connected or not; those of terminals follow.
        source, target, latency_cycles: int32 ``[link]``.
        from_port, to_port: int32 ``[link]``, port at the source and at the target.
        next_link: int32 ``[router, destination router]``, link taken next, -1 on the diagonal.
        xy: int64 ``[router, 2]``, where a drawing puts the router.
    """

    routers: int
    link_ports: int
    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    latency_cycles: npt.NDArray[np.int32]
    from_port: npt.NDArray[np.int32]
    to_port: npt.NDArray[np.int32]
    next_link: npt.NDArray[np.int32]
    xy: npt.NDArray[np.int64]

    @classmethod
    def of(cls, level: LevelSpec) -> LevelGraph:
        """Dimension order on a mesh: the first dimension in which router and destination differ goes first.

        Port 2d leads upwards in dimension d, 2d + 1 downwards.
        """
        shape = tuple(level.topology.shape)
        routers = level.topology.router_count()
        links = np.array(list(level.topology.links()), dtype=np.int32).reshape(-1, 2)
        source, target = links[:, 0].copy(), links[:, 1].copy()
        coordinates = np.stack(np.unravel_index(np.arange(routers), shape, order="F"), axis=1).astype(np.int64)
        steps = coordinates[target] - coordinates[source]
        dimension = np.argmax(np.abs(steps), axis=1)
        backwards = steps[np.arange(len(steps)), dimension] < 0
        port = (2 * dimension + backwards).astype(np.int32)

        link_at = np.full((routers, 2 * len(shape)), -1, dtype=np.int32)
        link_at[source, port] = np.arange(len(port))
        next_link = np.full((routers, routers), -1, dtype=np.int32)
        for d in reversed(range(len(shape))):  # a lower dimension overrides a higher one
            along = coordinates[:, d]
            up, down = along[None, :] > along[:, None], along[None, :] < along[:, None]
            next_link = np.where(up, link_at[:, 2 * d][:, None], next_link)
            next_link = np.where(down, link_at[:, 2 * d + 1][:, None], next_link)
        # Further dimensions lie side by side along the second one.
        xy = np.zeros((routers, 2), dtype=np.int64)
        xy[:, 0] = coordinates[:, 0]
        xy[:, 1] = np.arange(routers) // shape[0]
        latency = np.full(len(links), level.link_latency, dtype=np.int32)
        return cls(routers, 2 * len(shape), source, target, latency, port, port ^ 1, next_link, xy)
