"""The tables that the core's two networks are built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cosim.system import System

__all__ = ["flit_graph", "link_tables", "next_links"]


def next_links(system: System) -> npt.NDArray[np.int32]:
    """Directed link that a route takes next, int32, shape (routers, routers); -1 on the diagonal.

    Dimension order on a mesh: the first dimension in which router and destination differ goes first.
    """
    shape = system.level.topology.shape
    routers = system.routers
    link_at = np.full((routers, len(shape), 2), -1, dtype=np.int32)
    for number, (source, target) in enumerate(system.links):
        dimension, upwards = _direction(source, target, shape)
        link_at[source, dimension, int(upwards)] = number
    place = np.arange(routers)
    table = np.full((routers, routers), -1, dtype=np.int32)
    undecided = np.ones((routers, routers), dtype=bool)
    stride = 1
    for dimension, size in enumerate(shape):
        along = place // stride % size
        for upwards in (False, True):
            chosen = (along[None, :] > along[:, None]) if upwards else (along[None, :] < along[:, None])
            chosen &= undecided
            table = np.where(chosen, link_at[:, dimension, int(upwards)][:, None], table)
        undecided &= along[None, :] == along[:, None]
        stride *= size
    return table


def _direction(source: int, target: int, shape: tuple[int, ...]) -> tuple[int, bool]:
    stride = 1
    for dimension, size in enumerate(shape):
        if source // stride % size != target // stride % size:
            return dimension, target > source
        stride *= size
    raise ValueError(f"a link from router {source} to itself")


def link_tables(system: System) -> dict[str, Any]:
    """Arguments of ``Engine.add_link_network`` that describe the links."""
    level = system.level
    rate = int(level.flit_width * level.clock)
    return {
        "routers": system.routers,
        "link_bytes_per_second": [rate] * len(system.links),
        "link_target": [target for _, target in system.links],
        "next_link": next_links(system).reshape(-1).tolist(),
    }


def flit_graph(system: System) -> dict[str, Any]:
    """The ``graph`` of ``Engine.add_flit_network``.

    Ports: 2d leads to +1 in dimension d, 2d + 1 to -1, then one per terminal of the router.
    """
    level = system.level
    shape = level.topology.shape
    directions = 2 * len(shape)
    links = np.zeros((len(system.links), 6), dtype=np.int32)
    for number, (source, target) in enumerate(system.links):
        dimension, upwards = _direction(source, target, shape)
        leaving = 2 * dimension + (0 if upwards else 1)
        links[number] = (source, leaving, target, leaving ^ 1, level.link_latency, level.vc_buf_size)
    terminals = np.zeros((len(system.terminals), 2), dtype=np.int32)
    taken = np.zeros(system.routers, dtype=np.int32)
    for number, router in enumerate(system.terminals):
        terminals[number] = (router, directions + taken[router])
        taken[router] += 1
    port_of_link = links[:, 1]
    following = next_links(system)[:, terminals[:, 0]]
    routes = np.where(following >= 0, port_of_link[following], terminals[None, :, 1])
    classes = [
        (sum(1 << vc for vc in spec.vcs), spec.priority) for spec in level.message_classes.by_name().values()
    ]
    return {
        "routers": system.routers,
        "ports": directions + int(taken.max(initial=1)),
        "links": links,
        "terminals": terminals,
        "classes": np.array(classes, dtype=np.int32),
        "routes": np.ascontiguousarray(routes.reshape(-1), dtype=np.uint16),
        **{
            name: getattr(level, name)
            for name in (
                "num_vcs",
                "vc_buf_size",
                "routing_delay",
                "vc_alloc_delay",
                "sw_alloc_delay",
                "st_prepare_delay",
                "st_final_delay",
                "credit_delay",
            )
        },
    }
