"""One network level: topology, routing, router pipeline, links and message classes.

Keys and meanings are BookSim2's (``num_vcs``, ``vc_buf_size``, ``routing_delay`` ...); delays count router cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from cosim.config.errors import did_you_mean, one_of
from cosim.config.loader import Document
from cosim.config.quantities import BareOrBytes, ByteCount, Frequency
from cosim.config.rows import rows_of
from cosim.config.schema_reduction import ReductionSpec
from cosim.config.schema_retry import MOST_FLIT_BITS, LevelRetrySpec, RetrySpec
from cosim.config.schema_sessions import SessionsSpec
from cosim.config.schema_topology import MOST_PORTS, LevelTopology, LinkNameSpec, Topology
from cosim.config.spec import Items, Name, Problem, ShortSpec, Spec, duplicates, refuse
from cosim.config.validate import validate

__all__ = [
    "BROADCAST_CLASSES",
    "BULK_CLASSES",
    "MESSAGE_CLASSES",
    "MOST_INPUT_VCS",
    "ROUTINGS",
    "ClassSpec",
    "FailedLinkSpec",
    "LevelRoutingSpec",
    "LevelSpec",
    "MessageClassSpec",
    "MessageClasses",
    "NetworkConfig",
    "NetworkSpec",
    "RoutingSpec",
    "TableRowSpec",
    "default_message_classes",
]

Delay = Annotated[int, Field(ge=0, le=100_000)]
AllocatorDelay = Annotated[int, Field(ge=1, le=100_000)]
VcCount = Annotated[int, Field(ge=1, le=32)]
Buffer = Annotated[int, Field(ge=1, le=65536)]
Index = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]

MESSAGE_CLASSES = ("token", "weight", "prefetch")

BULK_CLASSES = ("weight", "prefetch")
"""Those of :data:`MESSAGE_CLASSES` that carry long streams; ``bulk_vc`` is about their VCs."""

BROADCAST_CLASSES = ("multicast", "session")
"""Message classes that a level with ``broadcast`` has beside :data:`MESSAGE_CLASSES`, in this order."""


ROUTINGS: dict[str, tuple[str, ...]] = {
    "mesh": ("dor", "odd_even", "west_first", "min_adaptive", "up_down", "layered_shortest_path", "table", "plugin"),
    "torus": ("dateline", "dateline_booksim", "up_down", "layered_shortest_path", "table", "plugin"),
    "ring": ("dateline", "dateline_booksim", "up_down", "layered_shortest_path", "table", "plugin"),
    "crossbar": ("direct", "table", "plugin"),
    "fully_connected": ("direct", "table", "plugin"),
    "fat_tree": ("nca", "up_down", "table", "plugin"),
    "pod_fat_tree": ("nca", "up_down", "table", "plugin"),
    "graph": ("up_down", "layered_shortest_path", "table", "plugin"),
}
"""Kind of topology → the routings it takes; the first is the default."""

SURVIVES_FAILURES = ("nca", "up_down", "layered_shortest_path", "table")
"""Routings that find ways around failed links."""

FINDS_NEW_WAYS = ("up_down", "layered_shortest_path")
"""Routings that are computed anew for what is left when links fail at a cycle."""

ONE_WAY = ("dor", "direct", "up_down", "layered_shortest_path", "table")
"""Routings with one way per router and destination, as multicasts and sessions need them."""

HALVES_ITS_VCS = ("dateline", "dateline_booksim", "min_adaptive")
"""Routings that part the VCs of every message class in two."""

OF_BUILT_IN_ROUTERS = (
    "routing", "routing_delay", "vc_alloc_delay", "sw_alloc_delay", "st_prepare_delay", "st_final_delay",
    "link_buffer_flits", "vc_allocator", "sw_allocator", "alloc_iters", "arb_type", "priority", "speculative",
    "wait_for_tail_credit", "compat",
)  # fmt: skip
"""Keys of a network that its built-in routers read and a router model does not."""

MOST_INPUT_VCS = MOST_PORTS
"""Input VCs (ports × VCs) of a router that the network core holds."""


class TableRowSpec(Spec):
    """At ``router``, packets for node ``destination`` go to ``next_router``, over ``link`` of parallel ones."""

    router: Index
    destination: Index
    next_router: Index
    link: Index = 0


class PluggableSpec(ShortSpec):
    """One of a few by name, in a file also just the name, or a plug-in: ``{"plugin": .., "params": {..}}``.

    ``plugin`` is a path (``.so``, ``.c``) or an entry point; ``params`` are what it gets.
    """

    name: str
    plugin: Any = None
    params: dict[Name, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping) and "plugin" in value:
            return {"name": "plugin", **value}
        return value

    @model_serializer
    def _short(self) -> Any:
        return self.name if self.plugin is None else self._plugin_short()

    def _plugin_short(self) -> dict[str, Any]:
        named = self.plugin if isinstance(self.plugin, str) else str(getattr(self.plugin, "__name__", self.plugin))
        return {"plugin": named, "params": self.params} if self.params else {"plugin": named}

    def problems(self) -> Iterator[Problem]:
        if (self.name == "plugin") != (self.plugin is not None):
            yield Problem((), '{"plugin": path or entry point, "params": {..}}', repr(self.name))
        if self.plugin is None and self.params:
            yield Problem(("params",), "a plugin that they are for", "params alone")


class AllocatorSpec(PluggableSpec):
    """What matches the requests of a router's stage with what they ask for."""

    name: Literal["islip", "separable_input_first", "separable_output_first", "plugin"]


class LevelAllocatorSpec(AllocatorSpec):
    """The allocator of a system's level: no plug-in."""

    name: Literal["islip", "separable_input_first", "separable_output_first"]
    plugin: None = None


class RouterSpec(PluggableSpec):
    """The routers: input-queued ones with virtual channels (BookSim2's name ``iq``), or a model of the user's."""

    name: Literal["iq", "plugin"]


class RoutingSpec(PluggableSpec):
    """A routing by name, in a file also just the name; ``table`` is a CSV file or a list of rows.

    ``root`` is the router that up*/down* routes of a graph are ordered from. ``plugin`` is a path (``.so``, ``.c``,
    ``file.py:name``) or an entry point; ``params`` are what it gets.
    """

    name: Literal[
        "dor", "dateline", "dateline_booksim", "nca", "odd_even", "west_first", "min_adaptive", "direct", "up_down",
        "layered_shortest_path", "table", "plugin",
    ]  # fmt: skip
    table: Annotated[Items[TableRowSpec], BeforeValidator(rows_of)] | None = None
    root: Index | None = None

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping):
            short = next((key for key in ("table", "plugin") if key in value), None)
            return value if short is None else {"name": short, **value}
        # a routing of this process, from Python
        return {"name": "plugin", "plugin": value} if callable(value) else value

    @model_serializer
    def _short(self) -> Any:
        if self.plugin is not None:
            return self._plugin_short()
        if self.table is not None:
            return {"table": [row.model_dump() for row in self.table]}
        return self.name if self.root is None else {"name": self.name, "root": self.root}

    def problems(self) -> Iterator[Problem]:
        if (self.name == "table") != (self.table is not None):
            yield Problem((), '{"table": file or rows of router, destination, next_router}', repr(self.name))
        if self.root is not None and self.name != "up_down":
            yield Problem(("root",), "no root: up_down alone reads it", str(self.root))
        yield from super().problems()


class LevelRoutingSpec(RoutingSpec):
    """The routing of a system's level: any but those that serve comparisons with BookSim2, and plug-ins."""

    name: Literal[
        "dor", "dateline", "nca", "odd_even", "west_first", "min_adaptive", "direct", "up_down",
        "layered_shortest_path", "table",
    ]  # fmt: skip
    plugin: None = None


def _latencies(value: Any) -> int | tuple[int, ...]:
    """One latency, or one per dimension."""
    several = isinstance(value, (list, tuple))
    for latency in value if several else (value,):
        if isinstance(latency, bool) or not isinstance(latency, int) or not 1 <= latency <= 1_000_000:
            raise refuse("an integer from 1 to 1000000, or one per dimension", repr(value))
    return tuple(value) if several else value


LinkLatency = Annotated[
    int | tuple[int, ...],
    PlainValidator(_latencies),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "integer"}}]}),
]


class NetworkSpec(Spec):
    """A network: its graph, its routing, the router pipeline and the links."""

    topology: Topology
    routing: RoutingSpec | None = None
    num_vcs: VcCount = 4
    vc_buf_size: Buffer = 8
    routing_delay: Delay = 1
    vc_alloc_delay: AllocatorDelay = 1
    sw_alloc_delay: AllocatorDelay = 1
    st_prepare_delay: Delay = 0
    st_final_delay: Delay = 1
    credit_delay: Delay = 1
    link_latency: LinkLatency = 1
    link_buffer_flits: Buffer | None = None
    vc_allocator: AllocatorSpec = AllocatorSpec(name="islip")
    sw_allocator: AllocatorSpec = AllocatorSpec(name="islip")
    alloc_iters: Annotated[int, Field(ge=1, le=64)] = 1
    arb_type: Literal["round_robin", "matrix"] = "round_robin"
    priority: Literal["none", "age"] = "none"
    speculative: bool = False
    wait_for_tail_credit: bool = False

    @property
    def routing_name(self) -> str:
        """The routing: what is given, else the default of the topology."""
        return ROUTINGS[self.topology.kind][0] if self.routing is None else self.routing.name

    @property
    def link_depth_flits(self) -> int:
        """Flits that each VC holds at the far end of a link: ``link_buffer_flits``, else ``vc_buf_size``."""
        return self.vc_buf_size if self.link_buffer_flits is None else self.link_buffer_flits

    @property
    def pipeline_cycles(self) -> int:
        """Depth of a router: R + V + S + X, or R + max(V, S) + X where heads ask for the switch speculatively."""
        switch = self.st_prepare_delay + self.st_final_delay
        vc, sw = self.vc_alloc_delay, self.sw_alloc_delay
        return self.routing_delay + (max(vc, sw) if self.speculative else vc + sw) + switch

    @property
    def longest_link_cycles(self) -> int:
        """The largest ``link_latency``."""
        return self.link_latency if isinstance(self.link_latency, int) else max(self.link_latency)

    @property
    def credit_loop_cycles(self) -> int:
        """Cycles from a flit's leave to the reuse of its buffer: X + 2·link_latency + 2 + credit_delay.

        X is the switch traversal, st_prepare_delay + st_final_delay. Measured on BookSim2 (28f43299); a VC with fewer
        flits of buffer carries at most buffer / loop flits a cycle.
        """
        return self.st_prepare_delay + self.st_final_delay + 2 * self.longest_link_cycles + 2 + self.credit_delay

    def routing_problems(self) -> Iterator[Problem]:
        """A routing that this topology does not take, or a root that it does not have."""
        allowed = self.routings()
        name = self.routing_name
        if name not in allowed:
            yield Problem(("routing",), one_of(allowed), repr(name), did_you_mean(name, allowed))
        if len(getattr(self.topology, "shape", (0, 0))) != 2 and name in ("odd_even", "west_first"):
            yield Problem(("routing",), f"a mesh of two dimensions for {name}", "another")
        root = self.routing.root if self.routing is not None else None
        if root is not None and root >= self.topology.router_count():
            yield Problem(("routing", "root"), f"a router below {self.topology.router_count()}", str(root))

    def allocation_problems(self) -> Iterator[Problem]:
        """Keys of allocation that the chosen allocators never read, or that do not go together."""
        used = {self.vc_allocator.name, self.sw_allocator.name}
        if self.alloc_iters > 1 and "islip" not in used:
            yield Problem(
                ("alloc_iters",), "1: no allocator here is islip, which alone reads it", str(self.alloc_iters)
            )
        if self.arb_type != "round_robin" and not any(name.startswith("separable") for name in used):
            yield Problem(("arb_type",), "a separable allocator, which alone reads it", repr(self.arb_type))
        if self.speculative and self.vc_alloc_delay > self.sw_alloc_delay:
            yield Problem(
                ("vc_alloc_delay",),
                f"at most sw_alloc_delay = {self.sw_alloc_delay} with speculative: a flit leaves with the VC that its "
                "head wins beside the switch",
                str(self.vc_alloc_delay),
            )

    def routings(self) -> tuple[str, ...]:
        """The routings that the topology takes."""
        return ROUTINGS[self.topology.kind]

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.st_prepare_delay + self.st_final_delay == 0:
            yield Problem(("st_final_delay",), "st_prepare_delay + st_final_delay of at least 1", "0")
        yield from self.routing_problems()
        yield from self.allocation_problems()
        if isinstance(self.link_latency, tuple):
            dimensions = len(getattr(self.topology, "shape", ()))
            if len(self.link_latency) != dimensions:
                yield Problem(
                    ("link_latency",),
                    f"one integer, or one per dimension ({dimensions})" if dimensions else "one integer",
                    f"{len(self.link_latency)} of them",
                )


class MessageClassSpec(Spec):
    """The virtual channels of a class, its priority (higher first) and the classes its messages may wait for."""

    vcs: Annotated[Items[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    priority: int = 0
    waits_for: Items[Literal["token", "weight", "prefetch"]] = ()

    def problems(self) -> Iterator[Problem]:
        for key in ("vcs", "waits_for"):
            values = getattr(self, key)
            for position in duplicates(values):
                yield Problem((key, position), "each of them once", f"{values[position]!r} again")


class BroadcastClassSpec(Spec):
    """How messages to several endpoints of a level can travel: as multicasts on ``vcs``, over a ``session`` of links.

    With both, each message says which. Sessions of a system wait for their links, however many do: a weight that is
    refused would never come.
    """

    vcs: Items[Annotated[int, Field(ge=0)]] = ()
    priority: int = 0
    session: SessionsSpec | None = None

    def problems(self) -> Iterator[Problem]:
        if not self.vcs and self.session is None:
            yield Problem((), "`vcs` (multicasts), `session` (what sessions cost) or both", "none")
        for position in duplicates(self.vcs):
            yield Problem(("vcs", position), "each of them once", f"{self.vcs[position]!r} again")
        limit = None if self.session is None else self.session.max_waiting
        if limit is not None:
            yield Problem(("session", "max_waiting"), "no limit: sessions of a system wait", str(limit))
        if not self.vcs and self.priority != 0:
            yield Problem(("priority",), "no priority: sessions are granted in order", str(self.priority))

    @property
    def vcs_by_way(self) -> dict[str, tuple[int, ...]]:
        """VCs of the ways that there are, of :data:`BROADCAST_CLASSES`: each is a message class."""
        ways = {"multicast": tuple(self.vcs)} if self.vcs else {}
        return ways if self.session is None else {**ways, "session": ()}

    @property
    def ways(self) -> tuple[str, ...]:
        """The message classes in which a message to several endpoints is sent once."""
        return tuple(self.vcs_by_way)


class MessageClasses(Spec):
    """The classes of messages that a level carries.

    ``broadcast`` has the classes ``multicast`` and ``session``; in the others a message to several is one to each.
    """

    token: MessageClassSpec
    weight: MessageClassSpec
    prefetch: MessageClassSpec
    broadcast: BroadcastClassSpec | None = None

    def by_name(self) -> dict[str, MessageClassSpec]:
        """Class name → its spec, in the order of :data:`MESSAGE_CLASSES`."""
        return {name: getattr(self, name) for name in MESSAGE_CLASSES}

    def problems(self) -> Iterator[Problem]:
        classes = self.by_name()
        reachable: dict[str, set[str]] = {}
        for name in classes:
            seen: set[str] = set()
            stack: list[str] = list(classes[name].waits_for)
            while stack:
                other = stack.pop()
                if other not in seen:
                    seen.add(other)
                    stack.extend(classes[other].waits_for)
            reachable[name] = seen
        reported: set[frozenset[str]] = set()
        for name, seen in reachable.items():
            if name in seen:
                cycle = frozenset(other for other in seen if name in reachable[other])
                if cycle not in reported:
                    reported.add(cycle)
                    members = [other for other in MESSAGE_CLASSES if other in cycle]
                    yield Problem(
                        (name, "waits_for"),
                        "a graph of waits without a cycle",
                        "a cycle over " + ", ".join(members),
                    )
        shared_with = () if self.broadcast is None else self.broadcast.vcs
        for name, spec in classes.items():
            both = sorted(set(spec.vcs) & set(shared_with))
            if both:
                got = f"the shared VCs {', '.join(map(str, both))}"
                yield Problem(("broadcast", "vcs"), f"VCs that {name!r} does not use", got)
        names = list(classes)
        for position, name in enumerate(names):
            for other in names[position + 1 :]:
                shared = sorted(set(classes[name].vcs) & set(classes[other].vcs))
                if shared:
                    waits = other in reachable[name] or name in reachable[other]
                    yield Problem(
                        (name, "vcs"),
                        f"VCs that {other!r} does not use" + (": one waits for the other" if waits else ""),
                        f"the shared VCs {', '.join(map(str, shared))}",
                    )


def default_message_classes(num_vcs: int, least: int = 1) -> dict[str, Any]:
    """The classes of a level that names none, for at least three times ``least`` VCs, which each of them needs.

    The last ``least`` VCs are for ``prefetch`` (and copies between memories); ``token`` and ``weight`` share out the
    rest in equal parts, ``weight`` getting the odd one. Tokens hold their buffers until weights come: hence the wait.
    Priorities fall from token over weight to prefetch.
    """
    needed = least * len(MESSAGE_CLASSES)
    if num_vcs < needed:
        raise ValueError(f"the default message classes need {needed} VCs, not {num_vcs}")
    rest = num_vcs - least
    split = rest // 2
    return {
        "token": {"vcs": list(range(split)), "priority": 2, "waits_for": ["weight"]},
        "weight": {"vcs": list(range(split, rest)), "priority": 1, "waits_for": []},
        "prefetch": {"vcs": list(range(rest, num_vcs)), "priority": 0, "waits_for": []},
    }


class LevelSpec(NetworkSpec):
    """A network level of a system: a network with a flit width, a clock, packet rules and message classes.

    With ``count`` the level is that many networks of this description, called instances.
    """

    count: Annotated[int, Field(ge=1, le=65536)] = 1
    topology: LevelTopology
    routing: LevelRoutingSpec
    num_vcs: VcCount
    vc_buf_size: Buffer
    vc_allocator: LevelAllocatorSpec = LevelAllocatorSpec(name="islip")
    sw_allocator: LevelAllocatorSpec = LevelAllocatorSpec(name="islip")
    link_latency: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    flit_width: ByteCount
    clock: Frequency
    max_packet_flits: Positive = 16
    header_bytes: BareOrBytes = 8
    bulk_vc: Literal["static", "dynamic"] = "dynamic"
    message_classes: MessageClasses
    retry: LevelRetrySpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _derive_classes(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("message_classes") is not None:
            return value
        num_vcs: Any = value.get("num_vcs")
        # Too few VCs are reported by `problems`; classes on the VCs they need let the other checks go on.
        routing: Any = value.get("routing")
        name = routing.get("name") if isinstance(routing, Mapping) else getattr(routing, "name", routing)
        least = 2 if isinstance(name, str) and name in HALVES_ITS_VCS else 1
        needed = least * len(MESSAGE_CLASSES)
        enough = type(num_vcs) is int and num_vcs >= needed
        derived = default_message_classes(num_vcs if enough else needed, least)
        return {**value, "message_classes": derived}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler.resolve_ref_schema(handler(schema))
        described["required"] = [key for key in described["required"] if key != "message_classes"]  # derived
        return described

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from self._class_problems()
        if self.retry is not None:
            yield from self._retry_problems()
        if self.bulk_vc == "static" and self.routing_name == "min_adaptive":
            yield Problem(("bulk_vc",), "'dynamic': min_adaptive chooses VCs by load", repr(self.bulk_vc))
        if self.header_bytes >= self.max_packet_flits * self.flit_width:
            yield Problem(
                ("header_bytes",),
                f"less than a packet's {self.max_packet_flits * self.flit_width} bytes",
                f"{self.header_bytes} bytes",
            )

    def _retry_problems(self) -> Iterator[Problem]:
        if 8 * self.flit_width > MOST_FLIT_BITS:
            expected = f"a flit_width of at most {MOST_FLIT_BITS // 8} bytes beside it"
            yield Problem(("retry",), expected, f"{self.flit_width} bytes")
        if self.message_classes.broadcast is not None:
            yield Problem(("retry",), "none beside a broadcast class", "one")

    @property
    def least_vcs(self) -> int:
        """VCs that the routing needs of every message class; layers of shortest ways are counted on the graph."""
        return 2 if self.routing_name in HALVES_ITS_VCS else 1

    def routings(self) -> tuple[str, ...]:
        known = LevelRoutingSpec.model_fields["name"].annotation
        return tuple(name for name in super().routings() if name in get_args(known))

    def _class_problems(self) -> Iterator[Problem]:
        least = self.least_vcs
        needed = least * len(MESSAGE_CLASSES)
        if self.num_vcs < needed and self.message_classes == MessageClasses.model_validate(
            default_message_classes(needed, least)
        ):
            each = "one" if least == 1 else f"{least} ({self.routing_name} parts them)"
            yield Problem(
                ("num_vcs",),
                f"at least {needed} VCs, {each} for each of the message classes {', '.join(MESSAGE_CLASSES)}",
                str(self.num_vcs),
                "or write message_classes out" if least == 1 else None,
            )
            return
        for name, spec in self.message_classes.by_name().items():
            if len(spec.vcs) < least:
                yield Problem(
                    ("message_classes", name, "vcs"),
                    f"at least {least} VCs ({self.routing_name} parts them)",
                    str(len(spec.vcs)),
                )
        broadcast = self.message_classes.broadcast
        of_broadcast = {} if broadcast is None else {"broadcast": broadcast.vcs}
        vcs_of = {name: spec.vcs for name, spec in self.message_classes.by_name().items()} | of_broadcast
        for name, vcs in vcs_of.items():
            for position, vc in enumerate(vcs):
                if vc >= self.num_vcs:
                    yield Problem(
                        ("message_classes", name, "vcs", position),
                        f"a VC below num_vcs = {self.num_vcs}",
                        str(vc),
                    )
        if broadcast is None:
            return
        if self.routing_name not in ONE_WAY:
            expected = f"{one_of(ONE_WAY)}: broadcasts need one way per router and destination"
            yield Problem(("routing",), expected, repr(self.routing_name))
        depth = min(self.vc_buf_size, self.link_depth_flits)
        if broadcast.vcs and self.max_packet_flits > depth:
            expected = f"at most {depth}, the smallest VC (multicast is virtual cut-through)"
            yield Problem(("max_packet_flits",), expected, str(self.max_packet_flits))


class ClassSpec(Spec):
    """A message class: its own VCs; of two classes waiting at one source the larger priority sends first.

    A packet of a ``multicast`` class may have several destinations. One of a ``session`` class has a set of them and
    uses no VC: its links leave packet mode for it. Packets of a ``reduction`` class may be summed on their way.
    """

    vcs: Items[Annotated[int, Field(ge=0)]] = ()
    priority: Annotated[int, Field(ge=-(1 << 30), le=1 << 30)] = 0
    multicast: bool = False
    session: bool = False
    reduction: bool = False

    def problems(self) -> Iterator[Problem]:
        if self.reduction and (self.session or self.multicast):
            other = "session" if self.session else "multicast"
            yield Problem(("reduction",), f"one of {other} and reduction", "both")
        if not self.session and not self.vcs:
            yield Problem(("vcs",), "at least 1 of them", "none")
        if self.session and self.vcs:
            yield Problem(("vcs",), "no VC: a session class uses none", str(list(self.vcs)))
        if self.session and self.multicast:
            yield Problem(("multicast",), "one of multicast and session", "both")
        if self.session and self.priority != 0:
            yield Problem(("priority",), "no priority: sessions are granted in order", str(self.priority))


class FailedLinkSpec(LinkNameSpec):
    """A link that does not work: all parallel ones, or the one of number ``link``; from ``at_cycle`` on, or never."""

    link: Index | None = None
    at_cycle: Annotated[int, Field(ge=1, le=1 << 60)] | None = None


class NetworkConfig(NetworkSpec):
    """A network by itself, as ``noc.Network`` takes it."""

    router: RouterSpec = RouterSpec(name="iq")
    compat: Literal["none", "booksim2"] = "none"
    classes: dict[Name, ClassSpec] = Field(default_factory=dict)
    sessions: SessionsSpec | None = None
    reduction: ReductionSpec | None = None
    retry: RetrySpec | None = None
    failed_links: Items[FailedLinkSpec] = ()

    @staticmethod
    def from_dict(description: Mapping[str, Any], path: str = "network") -> NetworkConfig:
        """Check a description and complete it.

        Args:
            description: the keys of this schema; ``topology`` is required.
            path: what to call the description in errors.

        Raises:
            ConfigErrors: every unknown key, impossible value and wrong combination, one a line.
        """
        return validate(NetworkConfig, Document({path: description}), (path,))

    def _unread_problems(self) -> Iterator[Problem]:
        """Keys of the built-in routers, which a router model never reads."""
        for key in OF_BUILT_IN_ROUTERS:
            default = NetworkConfig.model_fields[key].get_default(call_default_factory=True)
            if key == "routing" and self.routing is not None:
                default = RoutingSpec.model_validate({"name": self.routings()[0]})
            if getattr(self, key) != default:
                yield Problem((key,), "no such key beside a router model, which does not read it", "one")
        for name, spec in self.classes.items():
            if spec.multicast:
                yield Problem(("classes", name, "multicast"), "false: router models know no multicast", "true")
            if spec.reduction:
                yield Problem(("classes", name, "reduction"), "false: router models know no reduction", "true")

    def _change_problems(self) -> Iterator[Problem]:
        """What does not go with links that fail at a cycle."""
        position = next(i for i, failed in enumerate(self.failed_links) if failed.at_cycle is not None)
        where = ("failed_links", position, "at_cycle")
        if self.router.plugin is not None:
            yield Problem(where, "none beside a router model, which routes by itself", "one")
        elif self.routing_name not in FINDS_NEW_WAYS:
            yield Problem(
                where, f"{one_of(FINDS_NEW_WAYS)} routing, which finds new ways then", repr(self.routing_name)
            )
        for name, spec in self.classes.items():
            if spec.multicast or spec.session or spec.reduction:
                yield Problem(where, f"none beside class {name!r}, whose trees are planned before", "one")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the message classes, in the order of their numbers."""
        return tuple(self.classes)

    @property
    def has_sessions(self) -> bool:
        """Whether a class is a session class."""
        return any(spec.session for spec in self.classes.values())

    @property
    def has_reductions(self) -> bool:
        """Whether a class is a reduction class."""
        return any(spec.reduction for spec in self.classes.values())

    @property
    def reduction_unit(self) -> ReductionSpec | None:
        """The reduction unit of every router; none without a reduction class."""
        return (self.reduction or ReductionSpec()) if self.has_reductions else None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.router.plugin is not None:
            yield from self._unread_problems()
        owner: dict[int, str] = {}
        for name, spec in self.classes.items():
            for position, vc in enumerate(spec.vcs):
                where = ("classes", name, "vcs", position)
                if vc >= self.num_vcs:
                    yield Problem(where, f"a VC from 0 to {self.num_vcs - 1}", str(vc))
                elif vc in owner:
                    yield Problem(where, "VCs that no other class uses", f"VC {vc}, of {owner[vc]!r}")
                owner.setdefault(vc, name)
        if self.sessions is not None and not self.has_sessions:
            yield Problem(("sessions",), "a class with `session: true` that reads this", "none")
        if self.reduction is not None and not self.has_reductions:
            yield Problem(("reduction",), "a class with `reduction: true` that reads this", "none")
        if self.classes and all(spec.session for spec in self.classes.values()):
            yield Problem(("classes",), "a class of packets beside session classes", "none")
        packets = [spec for spec in self.classes.values() if not spec.session]
        least = min((len(spec.vcs) for spec in packets), default=self.num_vcs)
        if self.routing_name in HALVES_ITS_VCS and least < 2 and self.router.plugin is None:
            yield Problem(
                ("classes",) if self.classes else ("num_vcs",),
                f"at least 2 VCs of every message class ({self.routing_name} parts them)",
                str(least),
            )
        if self.failed_links and self.routing_name not in SURVIVES_FAILURES and self.router.plugin is None:
            allowed = [name for name in ROUTINGS[self.topology.kind] if name in SURVIVES_FAILURES]
            yield Problem(
                ("routing",), f"{one_of(allowed)}, which know ways around failed links", repr(self.routing_name)
            )
        if any(failed.at_cycle is not None for failed in self.failed_links):
            yield from self._change_problems()
        unit = self.reduction_unit
        ports = self.topology.port_count() + (0 if unit is None else unit.ports)
        if ports * self.num_vcs > MOST_INPUT_VCS:
            yield Problem(
                ("num_vcs",),
                f"at most {MOST_INPUT_VCS} input VCs (ports x VCs) per router",
                f"{ports} ports x {self.num_vcs} VCs = {ports * self.num_vcs}",
            )
