"""Negative-first adaptive routing on a mesh, as a Python class that is asked for every head on its way."""

from __future__ import annotations

from cosim.plugins import RouteRequest, Topology, stateless


@stateless
class AdaptiveRouter:
    """Moves towards lower coordinates first, in any order, then towards higher ones; the emptiest way first.

    No turn from a positive to a negative direction: no cycle of waits (Glass and Ni, ISCA 1992), whatever the VCs.

    Args:
        topology: the network.
        bias_flits: free slots by which another way must be better than the lowest dimension's.
    """

    def __init__(self, topology: Topology, bias_flits: int = 0) -> None:
        if topology.kind != "mesh":
            raise ValueError(f"expected a mesh, got a {topology.kind}")
        self.topology = topology
        self.bias_flits = bias_flits

    def route(self, request: RouteRequest) -> int | list[int]:
        """Output ports in the order of preference."""
        topology = self.topology
        target = topology.router_of(request.dst)
        if request.router == target:
            return topology.ejection_port(request.dst)
        steps: list[int] = []
        stride = 1
        for size in topology.dims:
            here, there = request.router // stride % size, target // stride % size
            if here != there:
                steps.append(stride if there > here else -stride)
            stride *= size
        open_ways = [step for step in steps if step < 0] or steps
        ports = [self._port(request.router, request.router + step) for step in open_ways]
        vcs = topology.class_vcs(request.class_id)
        slots = [sum(request.credits(port, vc) for vc in range(topology.num_vcs) if vcs >> vc & 1) for port in ports]
        slots[0] += self.bias_flits
        order = sorted(range(len(ports)), key=lambda i: -slots[i])
        return [ports[i] for i in order]

    def _port(self, router: int, neighbor: int) -> int:
        return next(p for p in range(self.topology.ports) if self.topology.neighbor(router, p) == neighbor)
