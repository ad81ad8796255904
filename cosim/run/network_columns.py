"""The tables that the core's two networks are built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cosim.config.errors import ConfigErrors
from cosim.system.routes import Routes

if TYPE_CHECKING:
    from cosim.system import System

__all__ = ["flit_graph", "link_tables"]

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


def link_tables(system: System) -> dict[str, Any]:
    """Arguments of ``Engine.add_link_network`` that describe the links."""
    rate = system.link_bandwidth_Bps
    if rate.denominator != 1:
        raise ConfigErrors.single(
            "flit_width × clock of whole bytes per second", f"{rate} B/s", path=f"system.levels.{system.level_name}"
        )
    return {
        "routers": system.router_count,
        "link_bytes_per_second": [int(rate)] * len(system.links),
        "link_target": system.links["target"].tolist(),
        "next_link": Routes.of(system).next_link.reshape(-1).tolist(),
    }


def flit_graph(system: System) -> dict[str, Any]:
    """The ``graph`` of ``Engine.add_flit_network``.

    Ports: 2d leads to +1 in dimension d, 2d + 1 to -1, then one per terminal of the router.
    """
    level, routes = system.level, Routes.of(system)
    directions = 2 * routes.coordinates.shape[1]
    links = np.zeros((len(system.links), 6), dtype=np.int32)
    links[:, 0] = system.links["source"]
    links[:, 1] = routes.direction
    links[:, 2] = system.links["target"]
    links[:, 3] = routes.direction ^ 1
    links[:, 4] = system.links["latency_cycles"]
    links[:, 5] = level.link_depth_flits
    terminals = np.zeros((len(system.terminals), 2), dtype=np.int32)
    taken = np.zeros(system.router_count, dtype=np.int32)
    for number, router in enumerate(system.terminals["router"].tolist()):
        terminals[number] = (router, directions + taken[router])
        taken[router] += 1
    following = routes.next_link[:, terminals[:, 0]]
    ports = np.where(following >= 0, routes.direction[following], terminals[None, :, 1])
    classes = [(sum(1 << vc for vc in spec.vcs), spec.priority) for spec in level.message_classes.by_name().values()]
    return {
        "routers": system.router_count,
        "ports": directions + int(taken.max(initial=1)),
        "links": links,
        "terminals": terminals,
        "classes": np.array(classes, dtype=np.int32),
        "routes": np.ascontiguousarray(ports.reshape(-1), dtype=np.uint16),
        **{name: getattr(level, name) for name in _PIPELINE},
    }
