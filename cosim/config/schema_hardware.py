"""A system: network levels, what is attached to them, memory tiers and energies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from cosim.config import units
from cosim.config.errors import did_you_mean, one_of
from cosim.config.loader import KeyPath, walk
from cosim.config.quantities import (
    BareOrBytes,
    ByteCount,
    BytesPerSecond,
    Energy,
    EnergyPerBit,
    EnergyPerByte,
    EnergyPerOperation,
    Femtoseconds,
    OperationRate,
    Power,
)
from cosim.config.schema_network import MESSAGE_CLASSES, LevelSpec
from cosim.config.schema_topology import LEVEL_TOPOLOGIES
from cosim.config.spec import IndexSet, Indices, Items, Name, Problem, Spec, duplicates, refuse

__all__ = [
    "ComputeSpec",
    "EndpointSpec",
    "EnergySpec",
    "GatewaySpec",
    "HardwareSpec",
    "MemorySpec",
    "NearMemorySpec",
    "PowerCapSpec",
    "TierSpec",
]

Positive = Annotated[int, Field(ge=1)]
Cycles = Annotated[int, Field(ge=0)]


class ComputeSpec(Spec):
    """Operations per second of an endpoint (a multiply-accumulate is two) and the share of it that is reached."""

    rate: OperationRate
    efficiency: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]

    def effective_rate(self) -> Fraction:
        """Operations per second that are reached; the decimal text of ``efficiency`` taken exactly."""
        return self.rate * Fraction(repr(self.efficiency))


def _address_map(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise refuse("the name of an address map, or a list of address fields", repr(value))


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class MemorySpec(Spec):
    """A memory node's standard, its channels and their controller.

    Keys and defaults are those of ``mem.Memory``; timings count memory clocks.
    """

    preset: Annotated[str, Field(min_length=1)]
    organisation: Annotated[str, Field(min_length=1)] | None = None
    standard_file: Annotated[str, Field(min_length=1)] | None = None
    channels: Annotated[int, Field(ge=1, le=4096)]
    values: Literal["standard", "ramulator2.1"] = "standard"
    refresh: Literal["none", "all_bank", "per_bank", "same_bank"] = "none"
    postponed_refreshes: Annotated[int, Field(ge=0)] = 0
    page_policy: Literal["open", "closed", "timeout"] = "open"
    page_timeout: Annotated[int, Field(ge=0, le=1 << 24)] | None = None
    scheduler: Literal["frfcfs"] = "frfcfs"
    age_cap: Annotated[int, Field(ge=0, le=1 << 20)] | None = None
    read_queue: Annotated[int, Field(ge=1, le=4096)] = 32
    write_queue: Annotated[int, Field(ge=1, le=4096)] = 32
    write_low_watermark: Share = 0.2
    write_high_watermark: Share = 0.8
    coalesce_writes: bool | None = None
    address_map: Annotated[
        str | tuple[str, ...],
        PlainValidator(_address_map),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = "RoBaSiCoBgPcCh"
    timing: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """The keys as ``mem.Memory`` takes them; those that are not given are left out."""
        return self.model_dump(exclude_none=True)


class NearMemorySpec(Spec):
    """The memory that a compute endpoint is stacked with: the endpoint ``on`` at the same router.

    What is read there for that compute endpoint takes a path of its own (through-silicon vias, hybrid bonds) of
    ``bandwidth``, and is there ``latency`` behind its last byte; everything else goes through the network.
    """

    on: Name
    bandwidth: BytesPerSecond
    latency: Femtoseconds


class EndpointSpec(Spec):
    """One kind of endpoint and the routers it sits at, one endpoint on each.

    In a level of several instances it sits at those routers of each of ``instances``, which are all where not given.
    With ``compute`` it runs experts, with ``memory`` it holds weights, with neither it is a control chiplet.
    """

    at: dict[Name, Indices]
    instances: Indices | None = None
    ports: Positive = 1
    compute: ComputeSpec | None = None
    tile: ByteCount | None = None
    expert_buffer: ByteCount | None = None
    near_memory: NearMemorySpec | None = None
    memory: MemorySpec | None = None
    read_return_slots: Positive | None = None
    grant_latency: Cycles = 1
    bandwidth: BytesPerSecond | None = None
    allow_bottleneck: bool = False

    @property
    def kind(self) -> Literal["compute", "memory", "control"]:
        """What the endpoint is."""
        return "compute" if self.compute else "memory" if self.memory else "control"

    def problems(self) -> Iterator[Problem]:
        given = {key: value for key in type(self).model_fields if (value := getattr(self, key)) is not None}
        yield from _endpoint_problems(given, self.tile, self.expert_buffer)

    @classmethod
    def salvage(cls, value: Mapping[str, Any]) -> Iterator[Problem]:
        given = {key: part for key, part in value.items() if part is not None}
        yield from _endpoint_problems(
            given, _salvaged_bytes(given.get("tile")), _salvaged_bytes(given.get("expert_buffer"))
        )


def _endpoint_problems(given: Mapping[str, Any], tile: int | None, buffer: int | None) -> Iterator[Problem]:
    """What is wrong with the keys ``given`` of an endpoint together."""
    if "compute" in given and "memory" in given:
        yield Problem(("memory",), "compute or memory", "both", "make two endpoints that sit at the same routers")
    if isinstance(given.get("at"), Mapping) and len(given["at"]) != 1:
        yield Problem(("at",), "one level with its routers", f"{len(given['at'])} levels")
    for owner, key in (("compute", "tile"), ("compute", "expert_buffer"), ("memory", "read_return_slots")):
        if owner in given and key not in given:
            yield Problem((), f"the key {key!r} beside {owner!r}", "no such key")
        if owner not in given and key in given:
            yield Problem((key,), f"no {key!r} without {owner!r}, which alone reads it", "it")
    if "near_memory" in given and "compute" not in given:
        yield Problem(("near_memory",), "no 'near_memory' without 'compute', which alone reads it", "it")
    if tile is not None and buffer is not None and tile > buffer:
        shown = [units.format_quantity(size, units.BYTES) for size in (buffer, tile)]
        yield Problem(("tile",), f"at most the expert_buffer of {shown[0]}", shown[1])
    if "memory" in given and "bandwidth" in given:
        yield Problem(("bandwidth",), "no declared bandwidth: a memory's follows from its preset and channels", "one")


def _salvaged_bytes(value: Any) -> int | None:
    try:
        return int(units.parse_quantity(value, units.BYTES))
    except units.UnitError:
        return None


class TierSpec(Spec):
    """A memory tier: the endpoints that carry it and the bytes of it on each of them.

    Attributes:
        rank: 0 for the tier nearest to compute, then upwards; homes lie in the tier of the highest rank. Needed where
            there are several tiers.
        group: which chiplets an endpoint of the tier serves: all of the package, those of its quadrant (a quarter of a
            package mesh), or those at its own router of the package.
        striping: what one replica's bytes are spread over: all banks of an endpoint's ``tier``, or one ``bank``.
        activation_reserve, metadata_reserve: bytes on each endpoint that are kept from weights.
        access_energy: per byte read or written, in place of the energies of the memory standard.
    """

    on: Name
    capacity: ByteCount
    rank: Annotated[int, Field(ge=0, le=255)] | None = None
    group: Literal["package", "quadrant", "chiplet"] = "package"
    striping: Literal["tier", "bank"] = "tier"
    activation_reserve: BareOrBytes = 0
    metadata_reserve: BareOrBytes = 0
    access_energy: EnergyPerByte | None = None

    @property
    def weight_bytes(self) -> int:
        """Bytes on each endpoint that weights may take."""
        return self.capacity - self.activation_reserve - self.metadata_reserve

    def problems(self) -> Iterator[Problem]:
        reserved = self.activation_reserve + self.metadata_reserve
        if reserved >= self.capacity:
            shown = units.format_quantity(self.capacity, units.BYTES)
            yield Problem(
                ("activation_reserve",),
                f"reserves below the tier's capacity of {shown}",
                units.format_quantity(reserved, units.BYTES),
            )


class EnergySpec(Spec):
    """Energy per bit and link traversal, per bit through a router, and per operation (half a multiply-accumulate).

    ``near_memory``: per bit over the path between stacked memory and compute. ``migration_control``: of directory and
    control for one copy of a replica, ``gate``: for one token group, beside what either moves (the terms E_mig and
    E_gate of Eq. 18 of seed 000, which gives no figures); none where not given.
    """

    link: EnergyPerBit
    router: EnergyPerBit | None = None
    near_memory: EnergyPerBit | None = None
    operation: EnergyPerOperation
    migration_control: Energy | None = None
    gate: Energy | None = None


class PowerCapSpec(Spec):
    """A cap on the system's mean power, held window by window (seed 000, section 4.5, after RAPL; it gives no figures).

    A window of ``window_batches`` that took more energy than ``limit`` times its length makes the next one slow:
    compute endpoints then work at ``throttled_rate`` of their rate.
    """

    limit: Power
    throttled_rate: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    window_batches: Annotated[int, Field(ge=1)] = 1

    @property
    def exact_rate(self) -> Fraction:
        """The decimal text of ``throttled_rate`` taken exactly."""
        return Fraction(repr(self.throttled_rate))


class GatewayBufferSpec(Spec):
    """Bytes of a gateway's buffer in either direction, per message class."""

    token: ByteCount
    weight: ByteCount
    prefetch: ByteCount

    def by_class(self) -> dict[str, int]:
        """Class → bytes, in the order of the message classes."""
        return {name: getattr(self, name) for name in MESSAGE_CLASSES}


class GatewaySpec(Spec):
    """Endpoints of two levels that pass packets on: ``between: [lower, upper]``, the upper one nearer to the root.

    Every instance of the lower level has one gateway at each of its routers ``at``; in order (by instance, then by
    router) they are joined to the routers of the upper level: one each, or one for all gateways of an instance. Where
    the upper level has several instances, the lower ones are shared out to them in equal blocks.

    Attributes:
        ports: terminals at either end, by level; 1 where not given.
        buffer: per message class and direction.
        synchroniser_cycles: of the receiving clock, on top of the next edge, for all that crosses.
        grant_latency: cycles of the level that packets go on to, from the reservation of room to its grant's leaving.
        bandwidth: declared, of one direction; the ports of both ends must carry it unless ``allow_bottleneck``.
    """

    between: Annotated[Items[Name], Field(min_length=2, max_length=2)]
    at: dict[Name, Indices]
    ports: dict[Name, Positive] = Field(default_factory=dict)
    buffer: GatewayBufferSpec
    synchroniser_cycles: Annotated[int, Field(ge=0, le=1000)]
    grant_latency: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    bandwidth: BytesPerSecond | None = None
    allow_bottleneck: bool = False

    @property
    def lower(self) -> str:
        """The level that is further from the root."""
        return self.between[0]

    @property
    def upper(self) -> str:
        """The level that is nearer to the root."""
        return self.between[1]

    def ports_at(self, level: str) -> int:
        """Terminals at the end in ``level``."""
        return self.ports.get(level, 1)

    def problems(self) -> Iterator[Problem]:
        if self.lower == self.upper:
            yield Problem(("between",), "two different levels", f"{self.lower!r} twice")
            return
        for level in self.between:
            if level not in self.at:
                yield Problem(("at",), f"routers of level {level!r}", "none")
        for key in ("at", "ports"):
            for level in getattr(self, key):
                if level not in self.between:
                    hint = did_you_mean(level, self.between)
                    yield Problem((key, level), one_of(self.between), repr(level), hint)
        if self.allow_bottleneck and self.bandwidth is None:
            yield Problem(("allow_bottleneck",), "none without a bandwidth, against which ports are held", "it")


class HardwareSpec(Spec):
    """A system. ``name`` is for tables only; a file that is referred to by name fills it in."""

    name: str | None = None
    levels: Annotated[dict[Name, LevelSpec], Field(min_length=1)]
    endpoints: Annotated[dict[Name, EndpointSpec], Field(min_length=1)]
    gateways: dict[Name, GatewaySpec] = Field(default_factory=dict)
    tiers: dict[Name, TierSpec] = Field(default_factory=dict)
    energy: EnergySpec | None = None
    power_cap: PowerCapSpec | None = None
    assumed: Items[str] = ()

    def problems(self) -> Iterator[Problem]:
        counts: dict[str, int | None] = {
            name: len(level.topology.node_routers()) for name, level in self.levels.items()
        }
        instances = {name: level.count for name, level in self.levels.items()}
        places = [
            (name, level, routers)
            for name, endpoint in self.endpoints.items()
            for level, routers in endpoint.at.items()
        ]
        memories = [name for name, endpoint in self.endpoints.items() if endpoint.memory]
        yield from _place_problems(counts, places)
        yield from _near_memory_problems(self.endpoints, counts)
        yield from _instance_problems(self.endpoints, instances)
        known = True
        for problem in _gateway_place_problems(counts, self.gateways):
            known = False
            yield problem
        if known:
            yield from _tree_problems(instances, self.gateways)
        yield from _tier_problems({name: tier.on for name, tier in self.tiers.items()}, list(self.endpoints), memories)
        yield from _rank_problems(self.tiers)
        yield from _broadcast_problems(self.levels)
        yield from _assumed_problems(self.assumed, {".".join(map(str, path)) for path in _key_paths(self)})

    @classmethod
    def salvage(cls, value: Mapping[str, Any]) -> Iterator[Problem]:
        levels, endpoints, tiers = (_mapping(value.get(key)) for key in ("levels", "endpoints", "tiers"))
        counts = {name: _salvaged_count(level) for name, level in levels.items()}
        places = []
        for name, endpoint in endpoints.items():
            for level, routers in _mapping(_mapping(endpoint).get("at")).items():
                try:
                    places.append((name, level, IndexSet.parse(routers)))
                except PydanticCustomError:
                    continue
        memories = [name for name, endpoint in endpoints.items() if "memory" in _mapping(endpoint)]
        if counts:
            yield from _place_problems(counts, places)
        ons = {name: _mapping(tier).get("on") for name, tier in tiers.items()}
        if endpoints:
            yield from _tier_problems(
                {name: on for name, on in ons.items() if isinstance(on, str)}, list(endpoints), memories
            )
        assumed = value.get("assumed")
        if isinstance(assumed, list) and all(isinstance(key, str) for key in assumed):
            keys = {".".join(map(str, path)) for path, _ in walk(dict(value)) if path}
            optional = {
                key
                for schema in (LevelSpec, EndpointSpec, MemorySpec, TierSpec, EnergySpec)
                for key in schema.model_fields
            }
            yield from _assumed_problems(tuple(assumed), keys | optional)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _salvaged_count(level: Any) -> int | None:
    """Nodes of a level whose topology is valid by itself."""
    try:
        topology = LEVEL_TOPOLOGIES.build(_mapping(level).get("topology"))
    except (PydanticCustomError, ValidationError):
        return None
    return len(topology.node_routers())


def _instance_problems(endpoints: Mapping[str, EndpointSpec], counts: Mapping[str, int]) -> Iterator[Problem]:
    for name, endpoint in endpoints.items():
        count = counts.get(next(iter(endpoint.at)), 1)
        wanted = endpoint.instances
        if wanted is None:
            continue
        if count == 1:
            yield Problem(
                ("endpoints", name, "instances"), "no such key: its level is one network (no 'count' above 1)", "it"
            )
        elif wanted.last is not None and wanted.last >= count:
            yield Problem(
                ("endpoints", name, "instances"),
                f"instances of level {next(iter(endpoint.at))!r}, which has 0 to {count - 1}",
                f"instance {wanted.last}",
            )


def _near_memory_problems(endpoints: Mapping[str, EndpointSpec], counts: Mapping[str, int | None]) -> Iterator[Problem]:
    """A stacked memory that is none, is not at every router of its compute endpoint, or is stacked with two of them."""
    takers: dict[str, str] = {}
    for name, endpoint in endpoints.items():
        if endpoint.near_memory is None:
            continue
        on = endpoint.near_memory.on
        where: KeyPath = ("endpoints", name, "near_memory", "on")
        memories = [other for other, spec in endpoints.items() if spec.memory]
        if on not in memories:
            yield Problem(where, one_of(memories) + " (an endpoint with memory)", repr(on), did_you_mean(on, memories))
            continue
        if on in takers:
            yield Problem(where, f"a memory of its own: {on!r} is stacked with {takers[on]!r}", repr(on))
            continue
        takers[on] = name
        level = next(iter(endpoint.at))
        count, wanted, held = counts.get(level), endpoint.at[level], endpoints[on].at.get(level)
        if count is None or any(at.last is not None and at.last >= count for at in (wanted, held) if at is not None):
            continue
        apart = set(wanted.indices(count)) - set(held.indices(count) if held is not None else ())
        if endpoints[on].instances not in (None, endpoint.instances):
            yield Problem(where, f"a memory in every instance in which {name!r} is", repr(on))
        elif apart:
            yield Problem(
                where, f"a memory at every router of {name!r}", f"{on!r}, of which router {min(apart)} has none"
            )


def _gateway_place_problems(counts: Mapping[str, int | None], gateways: Mapping[str, GatewaySpec]) -> Iterator[Problem]:
    for name, gateway in gateways.items():
        for position, level in enumerate(gateway.between):
            where: KeyPath = ("gateways", name, "between", position)
            if level not in counts:
                yield Problem(where, one_of(list(counts)) + " (a level)", repr(level), did_you_mean(level, counts))
                continue
            count, routers = counts[level], gateway.at.get(level)
            if count is None or routers is None or routers.last is None or routers.last < count:
                continue
            yield Problem(
                ("gateways", name, "at", level),
                f"routers of level {level!r}, which has 0 to {count - 1}",
                f"router {routers.last}",
            )


def _tree_problems(counts: Mapping[str, int], gateways: Mapping[str, GatewaySpec]) -> Iterator[Problem]:
    """Levels must form a tree: one root that is one network, every other level under exactly one upper level."""
    above: dict[str, str] = {}
    for name, gateway in gateways.items():
        other = above.setdefault(gateway.lower, gateway.upper)
        if other != gateway.upper:
            yield Problem(
                ("gateways", name, "between"),
                f"level {gateway.lower!r} under one level, {other!r}",
                f"{gateway.upper!r} as well",
                "levels form a tree: two ways between two levels could make them wait for each other",
            )
            return
    for start in above:
        seen, level = {start}, start
        while level in above:
            level = above[level]
            if level in seen:
                yield Problem(("gateways",), "levels that form a tree", f"a cycle over {', '.join(sorted(seen))}")
                return
            seen.add(level)
    roots = [level for level in counts if level not in above]
    root = roots[0]
    used = {gateway.upper for gateway in gateways.values()}
    if len(roots) > 1:
        root = next((level for level in roots if level in used), roots[0])
        for level in roots:
            if level != root:
                yield Problem(
                    ("levels", level),
                    "a gateway that joins it to the other levels",
                    "none",
                    f"write gateways: {{NAME: {{between: [{level}, {root}], ...}}}}",
                )
    if counts[root] > 1:
        yield Problem(
            ("levels", root, "count"),
            "one network at the root of the levels",
            f"{counts[root]} of them, which nothing joins",
        )


def _place_problems(counts: Mapping[str, int | None], places: list[tuple[str, str, IndexSet]]) -> Iterator[Problem]:
    for name, level, routers in places:
        where: KeyPath = ("endpoints", name, "at", level)
        if level not in counts:
            yield Problem(where, one_of(list(counts)) + " (a level)", repr(level), did_you_mean(level, counts))
            continue
        count = counts[level]
        if count is None or routers.ranges is None or routers.ranges[-1][1] < count:
            continue
        outside = [f"{first}-{last}" if first < last else f"{first}" for first, last in routers.beyond(count)]
        yield Problem(where, f"routers of level {level!r}, which has 0 to {count - 1}", f"router {', '.join(outside)}")


def _tier_problems(tiers: Mapping[str, str], endpoints: list[str], memories: list[str]) -> Iterator[Problem]:
    for name, on in tiers.items():
        if on not in memories:
            yield Problem(
                ("tiers", name, "on"),
                f"an endpoint with memory ({', '.join(memories) or 'there is none'})",
                f"{on!r}, which has no memory" if on in endpoints else repr(on),
                did_you_mean(on, memories),
            )


def _broadcast_problems(levels: Mapping[str, LevelSpec]) -> Iterator[Problem]:
    """Levels that broadcast in other ways than the first one that does: message classes are those of the system."""
    ways = {
        name: level.message_classes.broadcast.ways for name, level in levels.items() if level.message_classes.broadcast
    }
    for name, own in ways.items():
        first = next(iter(ways))
        if own != ways[first]:
            expected = f"the ways of level {first!r}, {' and '.join(ways[first])}: a system has one set of classes"
            yield Problem(("levels", name, "message_classes", "broadcast"), expected, " and ".join(own))


def _rank_problems(tiers: Mapping[str, TierSpec]) -> Iterator[Problem]:
    """Several tiers must say which is nearer; each rank once."""
    seen: dict[int, str] = {}
    for name, tier in sorted(tiers.items()) if len(tiers) > 1 else ():
        if tier.rank is None:
            yield Problem(
                ("tiers", name), "the key 'rank' (0 is nearest to compute), as there are several tiers", "none"
            )
        elif tier.rank in seen:
            yield Problem(
                ("tiers", name, "rank"), f"a rank other than that of tier {seen[tier.rank]!r}", str(tier.rank)
            )
        else:
            seen[tier.rank] = name
    energies: dict[str, TierSpec] = {}
    for name, tier in sorted(tiers.items()):
        other = energies.setdefault(tier.on, tier)
        if other.access_energy != tier.access_energy:
            yield Problem(
                ("tiers", name, "access_energy"), f"one access_energy for all tiers on {tier.on!r}", "another one"
            )


def _assumed_problems(assumed: tuple[str, ...], known: set[str]) -> Iterator[Problem]:
    for position in duplicates(assumed):
        yield Problem(("assumed", position), "each key once", f"{assumed[position]!r} again")
    for position, key in enumerate(assumed):
        if not any(path == key or path.endswith("." + key) for path in known):
            ends = {".".join(path.split(".")[start:]) for path in known for start in range(path.count(".") + 1)}
            yield Problem(
                ("assumed", position),
                "a key of this file, or its last parts",
                repr(key),
                did_you_mean(key, sorted(ends)),
            )


def _key_paths(spec: Spec, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every key that has a value, except those of ``assumed`` and ``name`` at the top."""
    for key in type(spec).model_fields:
        if not path and key in ("assumed", "name"):
            continue
        value = getattr(spec, key)
        if value is None:
            continue
        yield (*path, key)
        if isinstance(value, Spec):
            yield from _key_paths(value, (*path, key))
        elif isinstance(value, dict):
            for name, below in value.items():
                yield (*path, key, name)
                if isinstance(below, Spec):
                    yield from _key_paths(below, (*path, key, name))
