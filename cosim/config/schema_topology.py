"""How the routers of a network are linked and where its nodes sit: one schema per kind of topology."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny
from pydantic_core import PydanticCustomError

from cosim.config.rows import rows_of
from cosim.config.spec import Items, Kinds, Problem, Spec, refuse

__all__ = [
    "LEVEL_TOPOLOGIES",
    "MOST_PORTS",
    "MOST_ROUTERS",
    "TOPOLOGIES",
    "CrossbarSpec",
    "FatTreeSpec",
    "FullyConnectedSpec",
    "GraphLinkSpec",
    "GraphSpec",
    "GridSpec",
    "GridWithNodesSpec",
    "LevelTopology",
    "LinkNameSpec",
    "MeshSpec",
    "MeshWithNodesSpec",
    "PodFatTreeSpec",
    "RingSpec",
    "Topology",
    "TopologySpec",
    "TorusSpec",
]

MOST_ROUTERS = 1 << 20
MOST_PORTS = 128
"""Ports of a router that the network core holds, where each has one VC."""

Positive = Annotated[int, Field(ge=1)]
Router = Annotated[int, Field(ge=0)]
Latency = Annotated[int, Field(ge=1, le=1_000_000)]
Buffer = Annotated[int, Field(ge=1, le=65536)]
Size = Annotated[int, Field(ge=1, le=MOST_ROUTERS)]
Ports = Annotated[int, Field(ge=1, le=MOST_PORTS)]


class TopologySpec(Spec):
    """How routers are linked; ``kind`` chooses the keys."""

    kind: str

    def router_count(self) -> int:
        """Number of routers."""
        raise NotImplementedError

    def port_count(self) -> int:
        """Ports of every router, for links and nodes; some may stay unconnected."""
        raise NotImplementedError

    def node_shape(self) -> tuple[int, ...]:
        """Nodes per dimension where node ids are coordinates, empty elsewhere."""
        return ()

    def node_routers(self) -> tuple[int, ...]:
        """Router of each node."""
        return tuple(range(self.router_count()))

    def problems(self) -> Iterator[Problem]:
        if self.router_count() > MOST_ROUTERS:
            yield Problem((), f"at most {MOST_ROUTERS} routers", str(self.router_count()))


class GridSpec(TopologySpec):
    """Routers on a grid: ``shape`` of them per dimension; router id = x + shape[0]·y + shape[0]·shape[1]·z ..."""

    shape: Annotated[Items[Size], Field(min_length=1, max_length=8)]

    def problems(self) -> Iterator[Problem]:
        if self.router_count() > MOST_ROUTERS:
            yield Problem(("shape",), f"at most {MOST_ROUTERS} routers", str(self.router_count()))

    def router_count(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def link_ports(self) -> int:
        """Ports that every router has for links, connected or not."""
        return 2 * len(self.shape)


class MeshSpec(GridSpec):
    """A grid whose neighbours are linked; what sits at its routers is described elsewhere."""

    kind: Literal["mesh"]


class GridWithNodesSpec(GridSpec):
    """A grid with ``concentration`` nodes at every router; node n is at router n div concentration."""

    concentration: Ports = 1

    def port_count(self) -> int:
        return self.link_ports() + self.concentration

    def node_routers(self) -> tuple[int, ...]:
        return tuple(node // self.concentration for node in range(self.router_count() * self.concentration))

    def node_shape(self) -> tuple[int, ...]:
        return self.shape if self.concentration == 1 else ()


class MeshWithNodesSpec(GridWithNodesSpec):
    """A grid with nodes whose neighbours are linked."""

    kind: Literal["mesh"]


class TorusSpec(GridWithNodesSpec):
    """A grid with nodes whose rows close to rings in every dimension."""

    kind: Literal["torus"]


class RingSpec(TopologySpec):
    """A torus of one dimension."""

    kind: Literal["ring"]
    routers: Size
    concentration: Ports = 1

    def router_count(self) -> int:
        return self.routers

    def port_count(self) -> int:
        return 2 + self.concentration

    def node_routers(self) -> tuple[int, ...]:
        return tuple(node // self.concentration for node in range(self.router_count() * self.concentration))

    def node_shape(self) -> tuple[int, ...]:
        return (self.routers,) if self.concentration == 1 else ()


class CrossbarSpec(TopologySpec):
    """One router with all nodes."""

    kind: Literal["crossbar"]
    nodes: Annotated[int, Field(ge=2, le=MOST_PORTS)]

    def router_count(self) -> int:
        return 1

    def port_count(self) -> int:
        return self.nodes

    def node_routers(self) -> tuple[int, ...]:
        return (0,) * self.nodes


class FullyConnectedSpec(TopologySpec):
    """A link from every router to every other; port p leads to router p, or p + 1 from routers up to p."""

    kind: Literal["fully_connected"]
    routers: Annotated[int, Field(ge=2, le=MOST_PORTS)]
    concentration: Ports = 1

    def router_count(self) -> int:
        return self.routers

    def port_count(self) -> int:
        return self.routers - 1 + self.concentration

    def node_routers(self) -> tuple[int, ...]:
        return tuple(node // self.concentration for node in range(self.router_count() * self.concentration))

    def node_shape(self) -> tuple[int, ...]:
        return (self.routers,) if self.concentration == 1 else ()


class FatTreeSpec(TopologySpec):
    """A k-ary n-tree as BookSim2 builds it: n levels of k^(n-1) routers, k^n nodes, k of them at a leaf router."""

    kind: Literal["fat_tree"]
    k: Annotated[int, Field(ge=2, le=32)]
    n: Annotated[int, Field(ge=1, le=8)]

    def router_count(self) -> int:
        return self.n * int(self.k ** (self.n - 1))

    def port_count(self) -> int:
        return 2 * self.k if self.n > 1 else self.k

    def node_routers(self) -> tuple[int, ...]:
        leaves = int(self.k ** (self.n - 1))
        return tuple((self.n - 1) * leaves + node // self.k for node in range(leaves * self.k))


class PodFatTreeSpec(TopologySpec):
    """Leaf, aggregation and core routers: every leaf is linked to the aggregation routers of its pod, every one of
    these to every core.

    ``leaf_links`` and ``core_links`` count the parallel links of each such pair: their bandwidth in flits per cycle.
    """

    kind: Literal["pod_fat_tree"]
    pods: Annotated[int, Field(ge=1, le=1024)]
    leaves_per_pod: Annotated[int, Field(ge=1, le=1024)]
    nodes_per_leaf: Ports
    aggregations_per_pod: Ports
    cores: Ports
    leaf_links: Ports = 1
    core_links: Ports = 1
    leaf_latency: Latency | None = None
    core_latency: Latency | None = None

    def router_count(self) -> int:
        return self.pods * (self.leaves_per_pod + self.aggregations_per_pod) + self.cores

    def port_count(self) -> int:
        leaf = self.nodes_per_leaf + self.aggregations_per_pod * self.leaf_links
        aggregation = self.leaves_per_pod * self.leaf_links + self.cores * self.core_links
        return max(leaf, aggregation, self.pods * self.aggregations_per_pod * self.core_links)

    def node_routers(self) -> tuple[int, ...]:
        nodes = self.pods * self.leaves_per_pod * self.nodes_per_leaf
        return tuple(node // self.nodes_per_leaf for node in range(nodes))


class LinkNameSpec(Spec):
    """Which link of a graph: both directions ``between`` two routers, or one ``from`` a router ``to`` another."""

    between: Items[Router] | None = None
    source: Router | None = Field(default=None, alias="from")
    to: Router | None = None

    def directions(self) -> tuple[tuple[int, int], ...]:
        """The directions that are meant, as (from, to)."""
        if self.between is not None:
            a, b = self.between
            return (a, b), (b, a)
        assert self.source is not None
        assert self.to is not None
        return ((self.source, self.to),)

    def problems(self) -> Iterator[Problem]:
        if (self.between is None) == (self.source is None and self.to is None):
            yield Problem((), "either between: [a, b] (both directions) or from: a and to: b", "both or neither")
        elif self.between is not None and len(self.between) != 2:
            yield Problem(("between",), "two routers", f"{len(self.between)} of them")
        elif self.between is None and (self.source is None or self.to is None):
            yield Problem((), "from: a and to: b", "one of them")
        elif len(set(self.directions()[0])) != 2:
            yield Problem((), "two different routers", f"router {self.directions()[0][0]} twice")


class GraphLinkSpec(LinkNameSpec):
    """A link of a graph; several of them may join the same routers."""

    latency: Latency | None = None
    buffer_flits: Buffer | None = None


class GraphSpec(TopologySpec):
    """Any graph: ``links`` (a list or a CSV file), and ``nodes``, the router of each node.

    Without ``nodes`` one sits at every router.
    """

    kind: Literal["graph"]
    routers: Size
    links: Annotated[Items[GraphLinkSpec], BeforeValidator(rows_of)] = ()
    nodes: Annotated[Items[Router], Field(min_length=1)] | None = None

    def node_routers(self) -> tuple[int, ...]:
        return tuple(range(self.routers)) if self.nodes is None else self.nodes

    def router_count(self) -> int:
        return self.routers

    def port_count(self) -> int:
        degree = [[0, 0] for _ in range(self.routers)]
        for link in self.links:
            for source, target in link.directions():
                degree[source][0] += 1
                degree[target][1] += 1
        for router in self.node_routers():
            degree[router][0] += 1
            degree[router][1] += 1
        return max(max(pair) for pair in degree)

    def problems(self) -> Iterator[Problem]:
        ends = [link.between or (link.source, link.to) for link in self.links]
        yield from _beyond(self.routers, ends, self.nodes or ())

    @classmethod
    def salvage(cls, value: Mapping[str, Any]) -> Iterator[Problem]:
        routers, links, nodes = (value.get(key) for key in ("routers", "links", "nodes"))
        if isinstance(routers, int):
            ends = []
            with contextlib.suppress(PydanticCustomError):  # a file that cannot be read is reported by itself
                links = rows_of(links)
            for link in links if isinstance(links, (list, tuple)) else ():
                between = link.get("between", (link.get("from"), link.get("to"))) if isinstance(link, Mapping) else ()
                ends.append(between if isinstance(between, (list, tuple)) else ())
            yield from _beyond(routers, ends, nodes if isinstance(nodes, (list, tuple)) else ())


def _beyond(routers: int, ends: Sequence[Sequence[Any]], nodes: Sequence[Any]) -> Iterator[Problem]:
    """Links and nodes at routers that do not exist; what is no integer is reported elsewhere."""
    below = f"a router below {routers}"
    for position, pair in enumerate(ends):
        for end in dict.fromkeys(e for e in pair if isinstance(e, int) and e >= routers):
            yield Problem(("links", position), below, f"router {end} in link {position}")
    for position, router in enumerate(nodes):
        if isinstance(router, int) and router >= routers:
            yield Problem(("nodes", position), below, f"router {router}")


_LATER = "this kind is not supported yet"
_KINDS: dict[str, type[Spec]] = {
    "mesh": MeshWithNodesSpec,
    "torus": TorusSpec,
    "ring": RingSpec,
    "crossbar": CrossbarSpec,
    "fully_connected": FullyConnectedSpec,
    "fat_tree": FatTreeSpec,
    "pod_fat_tree": PodFatTreeSpec,
    "graph": GraphSpec,
}


def _every_kind() -> Mapping[str, type[Spec] | str]:
    return {**_KINDS, "package": _LATER}


def _kinds_of_levels() -> Mapping[str, type[Spec] | str]:
    return {**_KINDS, "mesh": MeshSpec, "package": _LATER}


TOPOLOGIES = Kinds("topology", "kind", _every_kind)
LEVEL_TOPOLOGIES = Kinds("topology", "kind", _kinds_of_levels)


def _build(value: Any) -> Any:
    if not isinstance(value, (Mapping, Spec)):
        raise refuse('a mapping such as {"kind": "mesh", "shape": [8, 8]}', repr(value))
    return TOPOLOGIES.build(value)


Topology = Annotated[SerializeAsAny[TopologySpec], BeforeValidator(_build), TOPOLOGIES]
LevelTopology = Annotated[SerializeAsAny[TopologySpec], BeforeValidator(LEVEL_TOPOLOGIES.build), LEVEL_TOPOLOGIES]
