"""A dragonfly (Kim and others, ISCA 2008): groups of routers linked all to all, one link between any two groups.

A topology is a function: it returns how many routers there are, their links, and the router of each node.
"""

from __future__ import annotations

from typing import Any


def dragonfly(groups: int = 5, routers: int = 4, nodes: int = 1, global_latency: int = 4) -> dict[str, Any]:
    """`groups` of `routers` with `nodes` each; links inside a group take a cycle, between groups `global_latency`."""
    if groups - 1 > 16 * routers:
        raise ValueError(
            f"{groups} groups need {groups - 1} links between groups from each, {routers} routers are too few"
        )
    links = []
    for group in range(groups):
        first = group * routers
        links += [
            {"between": [first + a, first + b], "latency": 1} for a in range(routers) for b in range(a + 1, routers)
        ]
        for other in range(group + 1, groups):
            # the links of a group to the others are shared out among its routers
            here, there = first + (other - 1) % routers, other * routers + group % routers
            links.append({"between": [here, there], "latency": global_latency})
    return {"routers": groups * routers, "links": links, "nodes": [n // nodes for n in range(groups * routers * nodes)]}
