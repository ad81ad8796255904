"""One network level: topology, routing, router pipeline, links and message classes.

Keys and meanings are BookSim2's (``num_vcs``, ``vc_buf_size``, ``routing_delay`` ...); delays count router cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializeAsAny,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from cosim.config.quantities import BareOrBytes, ByteCount, Frequency
from cosim.config.spec import Items, Kinds, Problem, ShortSpec, Spec, duplicates

__all__ = [
    "MESSAGE_CLASSES",
    "LevelSpec",
    "MeshSpec",
    "MessageClassSpec",
    "MessageClasses",
    "NetworkSpec",
    "RoutingSpec",
    "TopologySpec",
    "default_message_classes",
]

Delay = Annotated[int, Field(ge=0, le=100_000)]
AllocatorDelay = Annotated[int, Field(ge=1, le=100_000)]
Positive = Annotated[int, Field(ge=1)]

MESSAGE_CLASSES = ("token", "weight", "prefetch")


class TopologySpec(Spec):
    """How routers are linked; ``kind`` chooses the keys."""

    kind: str

    def router_count(self) -> int:
        """Number of routers."""
        raise NotImplementedError

    def link_ports(self) -> int:
        """Ports that every router has for links, connected or not."""
        raise NotImplementedError

    def links(self) -> Iterator[tuple[int, int]]:
        """Every directed link as (from router, to router), in a fixed order."""
        raise NotImplementedError


class MeshSpec(TopologySpec):
    """``shape`` gives the routers per dimension; router id = x + shape[0]·y + shape[0]·shape[1]·z ..."""

    kind: Literal["mesh"]
    shape: Annotated[Items[Positive], Field(min_length=1, max_length=8)]

    def problems(self) -> Iterator[Problem]:
        if self.router_count() > 2**20:
            yield Problem(("shape",), "at most 1048576 routers", str(self.router_count()))

    def router_count(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def link_ports(self) -> int:
        return 2 * len(self.shape)

    def links(self) -> Iterator[tuple[int, int]]:
        for router in range(self.router_count()):
            stride = 1
            for size in self.shape:
                place = router // stride % size
                if place + 1 < size:
                    yield router, router + stride
                if place > 0:
                    yield router, router - stride
                stride *= size


_LATER = "this kind is not supported yet"

TOPOLOGIES = Kinds(
    "topology",
    "kind",
    lambda: {"mesh": MeshSpec, "torus": _LATER, "fat_tree": _LATER, "graph": _LATER, "package": _LATER},
)

Topology = Annotated[SerializeAsAny[TopologySpec], BeforeValidator(TOPOLOGIES.build), TOPOLOGIES]


class RoutingSpec(ShortSpec):
    """A routing by name; in a file also just the name."""

    name: Literal["dor"]

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_serializer
    def _short(self) -> str:
        return self.name


class NetworkSpec(Spec):
    """The router pipeline and its links."""

    topology: Topology
    routing: RoutingSpec
    num_vcs: Annotated[int, Field(ge=1, le=32)]
    vc_buf_size: Annotated[int, Field(ge=1, le=65536)]
    routing_delay: Delay = 1
    vc_alloc_delay: AllocatorDelay = 1
    sw_alloc_delay: AllocatorDelay = 1
    st_prepare_delay: Delay = 0
    st_final_delay: Delay = 1
    credit_delay: Delay = 1
    link_latency: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    link_buffer_flits: Annotated[int, Field(ge=1, le=65536)] | None = None
    vc_allocator: Literal["islip"] = "islip"
    sw_allocator: Literal["islip"] = "islip"
    alloc_iters: Literal[1] = 1

    @property
    def link_depth_flits(self) -> int:
        """Flits that each VC holds at the far end of a link: ``link_buffer_flits``, else ``vc_buf_size``."""
        return self.vc_buf_size if self.link_buffer_flits is None else self.link_buffer_flits

    @property
    def credit_loop_cycles(self) -> int:
        """Cycles from a flit's leave to the reuse of its buffer: X + 2·link_latency + 2 + credit_delay.

        X is the switch traversal, st_prepare_delay + st_final_delay. Measured on BookSim2 (28f43299); a VC with fewer
        flits of buffer carries at most buffer / loop flits a cycle.
        """
        return self.st_prepare_delay + self.st_final_delay + 2 * self.link_latency + 2 + self.credit_delay

    def problems(self) -> Iterator[Problem]:
        if self.st_prepare_delay + self.st_final_delay == 0:
            yield Problem(("st_final_delay",), "st_prepare_delay + st_final_delay of at least 1", "0")


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


class MessageClasses(Spec):
    """The classes of messages that a level carries."""

    token: MessageClassSpec
    weight: MessageClassSpec
    prefetch: MessageClassSpec

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


def default_message_classes(num_vcs: int) -> dict[str, Any]:
    """The classes of a level that names none, for at least three VCs.

    The last VC is for ``prefetch`` (and copies between memories); ``token`` and ``weight`` share out the rest in equal
    parts, ``weight`` getting the odd one. Tokens hold their buffers until weights come: hence the wait. Priorities fall
    from token over weight to prefetch.
    """
    if num_vcs < len(MESSAGE_CLASSES):
        raise ValueError(f"the default message classes need {len(MESSAGE_CLASSES)} VCs, not {num_vcs}")
    split = (num_vcs - 1) // 2
    return {
        "token": {"vcs": list(range(split)), "priority": 2, "waits_for": ["weight"]},
        "weight": {"vcs": list(range(split, num_vcs - 1)), "priority": 1, "waits_for": []},
        "prefetch": {"vcs": [num_vcs - 1], "priority": 0, "waits_for": []},
    }


class LevelSpec(NetworkSpec):
    """A network level of a system: a network with a flit width, a clock, packet rules and message classes."""

    flit_width: ByteCount
    clock: Frequency
    max_packet_flits: Positive = 16
    header_bytes: BareOrBytes = 8
    message_classes: MessageClasses

    @model_validator(mode="before")
    @classmethod
    def _derive_classes(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("message_classes") is not None:
            return value
        num_vcs: Any = value.get("num_vcs")
        # Too few VCs are reported by `problems`; three classes on VC 0..2 let the other checks go on.
        enough = type(num_vcs) is int and num_vcs >= len(MESSAGE_CLASSES)
        derived = default_message_classes(num_vcs if enough else len(MESSAGE_CLASSES))
        return {**value, "message_classes": derived}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler.resolve_ref_schema(handler(schema))
        described["required"] = [key for key in described["required"] if key != "message_classes"]  # derived
        return described

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from self._class_problems()
        if self.header_bytes >= self.max_packet_flits * self.flit_width:
            yield Problem(
                ("header_bytes",),
                f"less than a packet's {self.max_packet_flits * self.flit_width} bytes",
                f"{self.header_bytes} bytes",
            )

    def _class_problems(self) -> Iterator[Problem]:
        needed = len(MESSAGE_CLASSES)
        if self.num_vcs < needed and self.message_classes == MessageClasses.model_validate(
            default_message_classes(needed)
        ):
            yield Problem(
                ("num_vcs",),
                f"at least {needed} VCs, one for each of the message classes {', '.join(MESSAGE_CLASSES)}",
                str(self.num_vcs),
                "or write message_classes out",
            )
            return
        for name, spec in self.message_classes.by_name().items():
            for position, vc in enumerate(spec.vcs):
                if vc >= self.num_vcs:
                    yield Problem(
                        ("message_classes", name, "vcs", position),
                        f"a VC below num_vcs = {self.num_vcs}",
                        str(vc),
                    )
