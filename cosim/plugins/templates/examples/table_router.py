"""Dimension order on a mesh, as a Python function: it reads only what decides it, so each answer is asked for once."""

from __future__ import annotations

from cosim.plugins import RouteRequest


def route(request: RouteRequest) -> int:
    """The output port of a head: along the lowest dimension that differs."""
    topology = request.topology
    target = topology.router_of(request.dst)
    stride = 1
    for size in topology.dims:
        here, there = request.router // stride % size, target // stride % size
        if here != there:
            step = stride if there > here else -stride
            ports = range(topology.ports)
            return next(port for port in ports if topology.neighbor(request.router, port) == request.router + step)
        stride *= size
    return topology.ejection_port(request.dst)
