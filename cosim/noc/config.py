"""What a network is: its keys, their meaning and limits.

The keys keep BookSim2's names and meanings. Delays are cycles, sizes are flits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from cosim.noc.problems import Problems

__all__ = ["GraphLink", "MessageClass", "NetworkConfig", "Topology"]

TOPOLOGY_KEYS: dict[str, tuple[str, ...]] = {
    "mesh": ("kind", "shape", "concentration"),
    "graph": ("kind", "routers", "links", "nodes"),
}
ROUTINGS: dict[str, tuple[str, ...]] = {"mesh": ("dor", "table"), "graph": ("table",)}
ALLOCATORS = ("islip",)
COMPATS = ("none", "booksim2")
MOST_VCS = 32
MOST_INPUT_VCS = 64


@dataclass(frozen=True)
class MessageClass:
    """A message class: its own VCs; of two classes waiting at one source the larger priority sends first."""

    name: str
    vcs: tuple[int, ...]
    priority: int = 0


@dataclass(frozen=True)
class GraphLink:
    """One direction of a channel of a graph."""

    source: int
    dest: int
    latency: int
    buffer_flits: int


@dataclass(frozen=True)
class Topology:
    """Routers, links and nodes.

    kind `mesh`: `shape` routers per dimension, `concentration` nodes per router.
    kind `graph`: `routers`, `links`, and `nodes`, the router of each node.
    """

    kind: str
    shape: tuple[int, ...] = ()
    concentration: int = 1
    routers: int = 0
    links: tuple[GraphLink, ...] = ()
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class NetworkConfig:
    """A checked network description; build one with `NetworkConfig.from_dict`."""

    topology: Topology
    routing: str = "dor"
    routing_table: tuple[Mapping[str, int], ...] = ()
    num_vcs: int = 4
    vc_buf_size: int = 8
    routing_delay: int = 1
    vc_alloc_delay: int = 1
    sw_alloc_delay: int = 1
    st_prepare_delay: int = 0
    st_final_delay: int = 1
    credit_delay: int = 1
    link_latency: tuple[int, ...] = (1,)
    link_buffer_flits: int = 8
    vc_allocator: str = "islip"
    sw_allocator: str = "islip"
    alloc_iters: int = 1
    speculative: bool = False
    wait_for_tail_credit: bool = False
    compat: str = "none"
    classes: tuple[MessageClass, ...] = field(default=())

    @property
    def pipeline_cycles(self) -> int:
        """Depth of a router: R + V + S + X."""
        switch = self.st_prepare_delay + self.st_final_delay
        return self.routing_delay + self.vc_alloc_delay + self.sw_alloc_delay + switch

    @staticmethod
    def keys() -> tuple[str, ...]:
        """The keys of a network description."""
        return tuple(f.name for f in fields(NetworkConfig) if f.name != "routing_table")

    @staticmethod
    def from_dict(description: Mapping[str, Any], path: str = "network") -> NetworkConfig:
        """Check a description and complete it.

        Args:
            description: the keys of `NetworkConfig.keys()`; `topology` is required, the others default to the
                values of this class (`link_buffer_flits` to `vc_buf_size`).
            path: what to call the description in errors.

        Raises:
            ConfigErrors: every unknown key, impossible value and wrong combination, one a line.
        """
        return _Reader(description, path).read()


class _Reader:
    def __init__(self, description: Mapping[str, Any], path: str) -> None:
        self.given = description
        self.path = path
        self.problems = Problems()

    def read(self) -> NetworkConfig:
        problems, path = self.problems, self.path
        if not isinstance(self.given, Mapping):
            problems.add(path, "a mapping of keys to values", repr(self.given))
            problems.raise_if_any()
        problems.unknown_keys(path, self.given, NetworkConfig.keys())
        num_vcs = self._integer("num_vcs", 4, 1, MOST_VCS)
        vc_buf_size = self._integer("vc_buf_size", 8, 1, 65536)
        delays = {
            "routing_delay": self._integer("routing_delay", 1, 0, 100_000),
            "vc_alloc_delay": self._integer("vc_alloc_delay", 1, 1, 100_000),
            "sw_alloc_delay": self._integer("sw_alloc_delay", 1, 1, 100_000),
            "st_prepare_delay": self._integer("st_prepare_delay", 0, 0, 100_000),
            "st_final_delay": self._integer("st_final_delay", 1, 0, 100_000),
            "credit_delay": self._integer("credit_delay", 1, 0, 100_000),
        }
        if delays["st_prepare_delay"] == 0 and delays["st_final_delay"] == 0:
            problems.add(f"{path}.st_final_delay", "a switch traversal (st_prepare_delay + st_final_delay) >= 1", "0")
        buffer_flits = self._integer("link_buffer_flits", vc_buf_size or 1, 1, 65536)
        topology = self._topology(vc_buf_size or 1, buffer_flits or 1)
        latency = self._link_latency(topology)
        routing, table = self._routing(topology)
        for key in ("vc_allocator", "sw_allocator"):
            problems.choice(f"{path}.{key}", self.given.get(key, "islip"), ALLOCATORS)
        self._only("alloc_iters", 1, "islip runs one iteration")
        self._only("speculative", False, "speculative switch allocation is not supported")
        self._only("wait_for_tail_credit", False, "an output VC is released when the tail wins the switch")
        compat = problems.choice(f"{path}.compat", self.given.get("compat", "none"), COMPATS)
        classes = self._classes(num_vcs)
        if topology is not None and num_vcs is not None:
            self._ports(topology, num_vcs)
        problems.raise_if_any()
        assert topology is not None
        return NetworkConfig(
            topology=topology,
            routing=routing or "",
            routing_table=table,
            num_vcs=num_vcs or 0,
            vc_buf_size=vc_buf_size or 0,
            link_latency=latency,
            link_buffer_flits=buffer_flits or 0,
            compat=compat or "",
            classes=classes,
            routing_delay=delays["routing_delay"] or 0,
            vc_alloc_delay=delays["vc_alloc_delay"] or 0,
            sw_alloc_delay=delays["sw_alloc_delay"] or 0,
            st_prepare_delay=delays["st_prepare_delay"] or 0,
            st_final_delay=delays["st_final_delay"] or 0,
            credit_delay=delays["credit_delay"] or 0,
        )

    def _integer(self, key: str, default: int, least: int, most: int) -> int | None:
        return self.problems.integer(f"{self.path}.{key}", self.given.get(key, default), least, most)

    def _only(self, key: str, value: int | bool, why: str) -> None:
        if key in self.given and (self.given[key] != value or isinstance(self.given[key], str)):
            self.problems.add(f"{self.path}.{key}", f"{str(value).lower()} ({why})", repr(self.given[key]))

    def _topology(self, vc_buf_size: int, buffer_flits: int) -> Topology | None:
        path, problems = f"{self.path}.topology", self.problems
        if "topology" not in self.given:
            problems.add(path, 'a topology such as {"kind": "mesh", "shape": [8, 8]}', "none")
            return None
        given = self.given["topology"]
        if not isinstance(given, Mapping):
            problems.add(path, 'a mapping such as {"kind": "mesh", "shape": [8, 8]}', repr(given))
            return None
        kind = problems.choice(f"{path}.kind", given.get("kind"), TOPOLOGY_KEYS)
        if kind is None:
            return None
        problems.unknown_keys(path, given, TOPOLOGY_KEYS[kind])
        if kind == "mesh":
            return self._mesh(given, path)
        return self._graph(given, path, buffer_flits)

    def _mesh(self, given: Mapping[str, Any], path: str) -> Topology | None:
        shape = given.get("shape")
        if not isinstance(shape, Sequence) or isinstance(shape, str) or not shape:
            self.problems.add(f"{path}.shape", "routers per dimension such as [8, 8]", repr(shape))
            return None
        sizes = [self.problems.integer(f"{path}.shape.{i}", k, 1, 1 << 20) for i, k in enumerate(shape)]
        concentration = self.problems.integer(f"{path}.concentration", given.get("concentration", 1), 1, 64)
        if None in sizes or concentration is None:
            return None
        routers = 1
        for k in sizes:
            routers *= k or 1
        if routers > 1 << 20:
            self.problems.add(f"{path}.shape", f"at most {1 << 20} routers", str(routers))
            return None
        return Topology("mesh", tuple(k or 1 for k in sizes), concentration, routers)

    def _graph(self, given: Mapping[str, Any], path: str, buffer_flits: int) -> Topology | None:
        problems = self.problems
        routers = problems.integer(f"{path}.routers", given.get("routers"), 1, 1 << 20)
        links = given.get("links", ())
        if not isinstance(links, Sequence) or isinstance(links, str):
            problems.add(f"{path}.links", "a list of links", repr(links))
            return None
        if routers is None:
            return None
        found: list[GraphLink] = []
        for i, link in enumerate(links):
            found.extend(self._graph_link(link, f"{path}.links.{i}", routers, buffer_flits))
        nodes = given.get("nodes", list(range(routers)))
        if not isinstance(nodes, Sequence) or isinstance(nodes, str) or not nodes:
            problems.add(f"{path}.nodes", "the router of each node", repr(nodes))
            return None
        places = [problems.integer(f"{path}.nodes.{i}", r, 0, routers - 1) for i, r in enumerate(nodes)]
        return Topology("graph", (), 1, routers, tuple(found), tuple(p or 0 for p in places))

    def _graph_link(self, link: object, path: str, routers: int, buffer_flits: int) -> list[GraphLink]:
        problems = self.problems
        if not isinstance(link, Mapping):
            problems.add(path, "{between: [a, b]} or {from: a, to: b}", repr(link))
            return []
        problems.unknown_keys(path, link, ("between", "from", "to", "latency", "buffer_flits"))
        both = "between" in link
        if both == ("from" in link or "to" in link):
            problems.add(path, "either between: [a, b] (both directions) or from: a and to: b", repr(dict(link)))
            return []
        ends = link["between"] if both else [link.get("from"), link.get("to")]
        if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
            problems.add(f"{path}.between", "two routers", repr(ends))
            return []
        names = (f"{path}.between.0", f"{path}.between.1") if both else (f"{path}.from", f"{path}.to")
        a, b = (problems.integer(name, end, 0, routers - 1) for name, end in zip(names, ends, strict=True))
        default = self.given.get("link_latency", 1)
        default = default if isinstance(default, int) else 1
        latency = problems.integer(f"{path}.latency", link.get("latency", default), 1, 1_000_000)
        buffers = problems.integer(f"{path}.buffer_flits", link.get("buffer_flits", buffer_flits), 1, 65536)
        if a is None or b is None or latency is None or buffers is None:
            return []
        if a == b:
            problems.add(path, "two different routers", f"router {a} twice")
            return []
        one = GraphLink(a, b, latency, buffers)
        return [one, GraphLink(b, a, latency, buffers)] if both else [one]

    def _link_latency(self, topology: Topology | None) -> tuple[int, ...]:
        path, value = f"{self.path}.link_latency", self.given.get("link_latency", 1)
        if isinstance(value, Sequence) and not isinstance(value, str):
            if topology is not None and (topology.kind == "graph" or len(value) != len(topology.shape)):
                self.problems.add(path, "one integer, or one per dimension of a mesh", repr(value))
            found = [self.problems.integer(f"{path}.{i}", v, 1, 1_000_000) for i, v in enumerate(value)]
            return tuple(v or 1 for v in found)
        latency = self.problems.integer(path, value, 1, 1_000_000) or 1
        return (latency,) * (len(topology.shape) if topology is not None and topology.shape else 1)

    def _routing(self, topology: Topology | None) -> tuple[str | None, tuple[Mapping[str, int], ...]]:
        path = f"{self.path}.routing"
        allowed = ROUTINGS[topology.kind] if topology is not None else ("dor", "table")
        value = self.given.get("routing", allowed[0] if allowed[0] != "table" else None)
        if isinstance(value, Mapping):
            self.problems.unknown_keys(path, value, ("table",))
            return "table", self._table(value.get("table"), f"{path}.table")
        if value == "table" or value is None:
            self.problems.add(path, '{"table": file or rows of router, destination, next_router}', repr(value))
            return None, ()
        return self.problems.choice(path, value, allowed), ()

    def _table(self, value: object, path: str) -> tuple[Mapping[str, int], ...]:
        if isinstance(value, str):
            import pandas as pd

            try:
                frame = pd.read_csv(value)
            except OSError as error:
                self.problems.add(path, "a CSV file that can be read", f"{value!r} ({error.strerror or error})")
                return ()
            rows: object = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
        else:
            rows = value
        if not isinstance(rows, Sequence) or isinstance(rows, str):
            self.problems.add(path, "a CSV file or a list of rows", repr(value))
            return ()
        found = []
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                self.problems.add(f"{path}.{i}", "router, destination and next_router", repr(row))
                continue
            self.problems.unknown_keys(f"{path}.{i}", row, ("router", "destination", "next_router", "link"))
            entry = {}
            for key in ("router", "destination", "next_router"):
                number = self.problems.integer(f"{path}.{i}.{key}", row.get(key), 0)
                entry[key] = number if number is not None else 0
            if "link" in row:
                entry["link"] = self.problems.integer(f"{path}.{i}.link", row["link"], 0) or 0
            found.append(entry)
        return tuple(found)

    def _classes(self, num_vcs: int | None) -> tuple[MessageClass, ...]:
        path, given = f"{self.path}.classes", self.given.get("classes", {})
        if not isinstance(given, Mapping):
            self.problems.add(path, "name: {vcs: [..], priority: n} for each class", repr(given))
            return ()
        owner: dict[int, str] = {}
        found = []
        for name, value in given.items():
            here = f"{path}.{name}"
            if not isinstance(value, Mapping):
                self.problems.add(here, "vcs and priority", repr(value))
                continue
            self.problems.unknown_keys(here, value, ("vcs", "priority"))
            vcs = value.get("vcs")
            if not isinstance(vcs, Sequence) or isinstance(vcs, str) or not vcs:
                self.problems.add(f"{here}.vcs", "a list of VCs", repr(vcs))
                continue
            mine = [
                self.problems.integer(f"{here}.vcs.{i}", v, 0, (num_vcs or MOST_VCS) - 1) for i, v in enumerate(vcs)
            ]
            for v in mine:
                if v is not None and v in owner:
                    self.problems.add(f"{here}.vcs", "VCs that no other class uses", f"VC {v}, of {owner[v]!r}")
                elif v is not None:
                    owner[v] = str(name)
            priority = self.problems.integer(f"{here}.priority", value.get("priority", 0), -(1 << 30), 1 << 30)
            found.append(MessageClass(str(name), tuple(v or 0 for v in mine), priority or 0))
        return tuple(found)

    def _ports(self, topology: Topology, num_vcs: int) -> None:
        ports = ports_of(topology)
        if ports * num_vcs > MOST_INPUT_VCS:
            self.problems.add(
                f"{self.path}.num_vcs",
                f"at most {MOST_INPUT_VCS} input VCs (ports x VCs) per router",
                f"{ports} ports x {num_vcs} VCs = {ports * num_vcs}",
            )


def ports_of(topology: Topology) -> int:
    """Ports of the largest router."""
    if topology.kind == "mesh":
        return 2 * len(topology.shape) + topology.concentration
    degree = [[0, 0] for _ in range(topology.routers)]
    for link in topology.links:
        degree[link.source][0] += 1
        degree[link.dest][1] += 1
    for router in topology.nodes:
        degree[router][0] += 1
        degree[router][1] += 1
    return max(max(pair) for pair in degree)
