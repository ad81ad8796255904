"""Minimal adaptive routing with an escape VC on a mesh, as a Python class that is asked for every head."""

from __future__ import annotations

from cosim.plugins import RouteRequest, Topology, stateless


@stateless
class AdaptiveRouter:
    """Of the ways that bring the packet nearer, the one with the most free slots first.

    Dimension order alone uses the lowest VC of a class: the escape of a packet that cannot adapt.

    Args:
        topology: the network.
        bias_flits: free slots by which another way must be better than dimension order.
    """

    def __init__(self, topology: Topology, bias_flits: int = 0) -> None:
        if topology.kind != "mesh":
            raise ValueError(f"expected a mesh, got a {topology.kind}")
        for class_id in range(topology.classes):
            if topology.class_vcs(class_id).bit_count() < 2:
                raise ValueError(f"message class {class_id} has one VC, expected one for escape and more to adapt on")
        self.topology = topology
        self.bias_flits = bias_flits

    def route(self, request: RouteRequest) -> list[tuple[int, int, int]]:
        """Candidates as (port, VC mask, priority)."""
        topology = self.topology
        target = topology.router_of(request.dst)
        vcs = topology.class_vcs(request.class_id)
        if request.router == target:
            return [(topology.ejection_port(request.dst), vcs, 0)]
        escape = vcs & -vcs
        adaptive = [vc for vc in range(topology.num_vcs) if (vcs & ~escape) >> vc & 1]
        ways: list[tuple[int, int]] = []
        stride = 1
        for size in topology.dims:
            here, there = request.router // stride % size, target // stride % size
            if here != there:
                step = stride if there > here else -stride
                ports = range(topology.ports)
                port = next(p for p in ports if topology.neighbor(request.router, p) == request.router + step)
                slots = sum(request.credits(port, vc) for vc in adaptive)
                ways.append((slots + (0 if ways else self.bias_flits), port))
            stride *= size
        first = ways[0][1]
        ways.sort(key=lambda way: -way[0])
        return [*((port, vcs & ~escape, i) for i, (_, port) in enumerate(ways)), (first, escape, len(ways))]
