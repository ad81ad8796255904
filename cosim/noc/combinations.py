"""A small network of every topology with every routing it takes: what is proved to be free of deadlock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cosim.config.schema_network import ROUTINGS

__all__ = ["TOPOLOGIES", "combinations"]

TOPOLOGIES: dict[str, dict[str, Any]] = {
    "mesh": {"kind": "mesh", "shape": [4, 3]},
    "torus": {"kind": "torus", "shape": [4, 5]},
    "ring": {"kind": "ring", "routers": 6},
    "crossbar": {"kind": "crossbar", "nodes": 8},
    "fully_connected": {"kind": "fully_connected", "routers": 5, "concentration": 2},
    "fat_tree": {"kind": "fat_tree", "k": 2, "n": 3},
    "pod_fat_tree": {
        "kind": "pod_fat_tree",
        "pods": 2,
        "leaves_per_pod": 2,
        "nodes_per_leaf": 2,
        "aggregations_per_pod": 2,
        "cores": 2,
        "core_links": 2,
    },
    "graph": {
        "kind": "graph",
        "routers": 5,
        "links": [
            {"between": [0, 1]},
            {"between": [0, 1]},
            {"between": [1, 2], "latency": 3},
            {"between": [2, 3]},
            {"between": [3, 4]},
            {"between": [4, 0]},
            {"between": [1, 3]},
        ],
        "nodes": [0, 1, 2, 3, 4, 4],
    },
}


def combinations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind of topology, routing and network description, for all but tables and plug-ins."""
    for kind, routings in ROUTINGS.items():
        for routing in routings:
            if routing not in ("table", "plugin"):
                yield kind, routing, {"topology": TOPOLOGIES[kind], "routing": routing, "num_vcs": 8}
