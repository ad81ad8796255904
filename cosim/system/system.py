"""A built system: routers, links, terminals, endpoints and tiers as plain tables, made from a hardware spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.loader import Document, KeyPath
from cosim.config.schema_hardware import EndpointSpec, HardwareSpec, MemorySpec
from cosim.config.schema_network import MOST_INPUT_VCS, LevelSpec
from cosim.config.units import BANDWIDTH, BYTES, FREQUENCY, format_quantity
from cosim.system.memory import MemoryFigures, memory_figures

__all__ = ["LINK", "TERMINAL", "Endpoint", "System", "Tier", "hardware_findings", "unreachable_routers"]

LINK = np.dtype([("source", np.int32), ("target", np.int32), ("latency_cycles", np.int32)])
"""A directed link between two routers."""

TERMINAL = np.dtype([("router", np.int32), ("endpoint", np.int32), ("port", np.int32)])
"""A place where flits enter and leave the network: port ``port`` of an endpoint, at a router."""

FiguresOf = Callable[[MemorySpec], MemoryFigures]


@dataclass(frozen=True)
class Endpoint:
    """One endpoint.

    Attributes:
        index: position in ``System.endpoints``.
        name: its key in the hardware file; endpoints of one key differ by router.
        kind: compute, memory or control.
        router: the router it is attached to.
        terminals: its ports' positions in ``System.terminals``.
        spec: its keys.
        memory: peak bandwidth and capacity, for kind memory.
    """

    index: int
    name: str
    kind: Literal["compute", "memory", "control"]
    router: int
    terminals: tuple[int, ...]
    spec: EndpointSpec
    memory: MemoryFigures | None

    @property
    def label(self) -> str:
        """``name@router``: what tables and errors call it."""
        return f"{self.name}@{self.router}"


@dataclass(frozen=True)
class Tier:
    """A memory tier: the endpoints that carry it, and its bytes on each of them."""

    name: str
    endpoints: tuple[int, ...]
    capacity_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes on all its endpoints together."""
        return self.capacity_bytes * len(self.endpoints)


@dataclass(frozen=True)
class System:
    """A system of one network level.

    Endpoints are ordered by router, then by name; terminals likewise, then by port: the order of keys in the file has
    no influence. Links are in the order of the topology.
    """

    spec: HardwareSpec
    level_name: str
    level: LevelSpec
    router_count: int
    links: npt.NDArray[np.void]
    terminals: npt.NDArray[np.void]
    endpoints: tuple[Endpoint, ...]
    tiers: tuple[Tier, ...]

    @classmethod
    def build(
        cls,
        spec: HardwareSpec,
        document: Document | None = None,
        path: KeyPath = (),
        *,
        figures_of: FiguresOf = memory_figures,
    ) -> System:
        """Build the system of ``spec``.

        Args:
            spec: a valid hardware spec.
            document: where it was read from, at ``path``; places the errors.
            figures_of: looks up what a memory node offers.

        Raises:
            ConfigErrors: all that :func:`hardware_findings` finds.
        """
        findings = hardware_findings(spec, document or Document({}), path, figures_of=figures_of)
        if findings:
            raise ConfigErrors(findings)
        (level_name, level), *_ = spec.levels.items()
        topology = level.topology
        links = np.array([(a, b, level.link_latency) for a, b in topology.links()], dtype=LINK)
        places = sorted(
            (router, name)
            for name, endpoint in spec.endpoints.items()
            for router in endpoint.at[level_name].indices(topology.router_count())
        )
        endpoints: list[Endpoint] = []
        terminals: list[tuple[int, int, int]] = []
        for index, (router, name) in enumerate(places):
            endpoint = spec.endpoints[name]
            first = len(terminals)
            terminals += [(router, index, port) for port in range(endpoint.ports)]
            endpoints.append(
                Endpoint(
                    index=index,
                    name=name,
                    kind=endpoint.kind,
                    router=router,
                    terminals=tuple(range(first, len(terminals))),
                    spec=endpoint,
                    memory=figures_of(endpoint.memory) if endpoint.memory else None,
                )
            )
        tiers = tuple(
            Tier(name, tuple(place.index for place in endpoints if place.name == tier.on), tier.capacity)
            for name, tier in sorted(spec.tiers.items())
        )
        return cls(
            spec=spec,
            level_name=level_name,
            level=level,
            router_count=topology.router_count(),
            links=links,
            terminals=np.array(terminals, dtype=TERMINAL),
            endpoints=tuple(endpoints),
            tiers=tiers,
        )

    @property
    def link_bandwidth_Bps(self) -> Fraction:
        """Bytes per second of a link in one direction: one flit a cycle."""
        return self.level.flit_width * self.level.clock

    @property
    def compute_endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that run experts."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint.kind == "compute")

    @property
    def memory_endpoints(self) -> tuple[Endpoint, ...]:
        """The memory nodes."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint.kind == "memory")

    @property
    def control_endpoints(self) -> tuple[Endpoint, ...]:
        """The control chiplets."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint.kind == "control")

    @property
    def endpoint_terminals(self) -> tuple[tuple[int, ...], ...]:
        """Terminals of every endpoint, by endpoint index."""
        return tuple(endpoint.terminals for endpoint in self.endpoints)

    def tier(self, name: str) -> Tier:
        """The tier called ``name``; ``KeyError`` where there is none."""
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise KeyError(name)


def unreachable_routers(router_count: int, links: list[tuple[int, int]]) -> list[int]:
    """Routers that router 0 does not reach, or that do not reach router 0, over directed ``links``."""
    forward: dict[int, list[int]] = {}
    backward: dict[int, list[int]] = {}
    for source, target in links:
        forward.setdefault(source, []).append(target)
        backward.setdefault(target, []).append(source)

    def seen_from_zero(neighbours: Mapping[int, list[int]]) -> set[int]:
        seen, stack = {0}, [0]
        while stack:
            for other in neighbours.get(stack.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        return seen

    connected = seen_from_zero(forward) & seen_from_zero(backward)
    return [router for router in range(router_count) if router not in connected]


def hardware_findings(
    spec: HardwareSpec, document: Document, path: KeyPath = (), *, figures_of: FiguresOf = memory_figures
) -> list[ConfigError]:
    """What is wrong with a system beyond its own keys.

    A topology that is not connected, an unknown memory preset or timing, ports that cannot carry what is behind them
    (unless ``allow_bottleneck``), and a tier larger than the memory it is on.
    """
    found: list[ConfigError] = []
    for name, level in spec.levels.items():
        apart = unreachable_routers(level.topology.router_count(), list(level.topology.links()))
        if apart:
            shown = ", ".join(map(str, apart[:8])) + (" ..." if len(apart) > 8 else "")
            found.append(
                document.error(
                    (*path, "levels", name, "topology"),
                    "a topology whose routers all reach each other",
                    f"router {shown} apart from router 0",
                )
            )
        found.extend(_router_errors(spec, name, document, (*path, "levels", name)))
    figures: dict[str, MemoryFigures] = {}
    for name, endpoint in spec.endpoints.items():
        where: KeyPath = (*path, "endpoints", name)
        if endpoint.memory is not None:
            try:
                figures[name] = figures_of(endpoint.memory)
            except ValueError as problem:
                found.extend(_memory_errors(problem, document, (*where, "memory")))
                continue
        level = spec.levels[next(iter(endpoint.at))]
        found.extend(_port_errors(endpoint, level, figures.get(name), document, where))
    for name, tier in spec.tiers.items():
        memory = spec.endpoints[tier.on].memory
        if tier.on in figures and memory is not None and tier.capacity > figures[tier.on].capacity_bytes:
            available = format_quantity(figures[tier.on].capacity_bytes, BYTES)
            found.append(
                document.error(
                    (*path, "tiers", name, "capacity"),
                    f"at most the {available} of {memory.channels} channels of {memory.preset} on each {tier.on!r}",
                    format_quantity(tier.capacity, BYTES),
                )
            )
    return found


def _port_errors(
    endpoint: EndpointSpec, level: LevelSpec, memory: MemoryFigures | None, document: Document, where: KeyPath
) -> list[ConfigError]:
    ports_Bps = endpoint.ports * level.flit_width * level.clock
    needed, what, key = endpoint.bandwidth, "declared bandwidth", "bandwidth"
    if memory is not None:
        assert endpoint.memory is not None
        needed, what, key = memory.peak_Bps, f"{endpoint.memory.preset} peak", "memory"
    if needed is None:
        if endpoint.allow_bottleneck:
            return [
                document.error(
                    (*where, "allow_bottleneck"), "none without a bandwidth, against which ports are held", "it"
                )
            ]
        return []
    if ports_Bps >= needed or endpoint.allow_bottleneck:
        return []
    ports = f"{endpoint.ports} port{'s' if endpoint.ports > 1 else ''}"
    return [
        document.error(
            (*where, key),
            f"ports that carry its {what} of {format_quantity(needed, BANDWIDTH)}",
            f"{ports} of {format_quantity(level.flit_width, BYTES)} at {format_quantity(level.clock, FREQUENCY)}: "
            f"{format_quantity(ports_Bps, BANDWIDTH)}",
            f"{-(-needed // (level.flit_width * level.clock))} ports would do, or write 'allow_bottleneck: true'",
        )
    ]


def _router_errors(spec: HardwareSpec, name: str, document: Document, where: KeyPath) -> list[ConfigError]:
    """Routers with more input VCs (ports × VCs) than the network core holds."""
    level = spec.levels[name]
    terminals = [0] * level.topology.router_count()
    for endpoint in spec.endpoints.values():
        for router in endpoint.at[name].indices(len(terminals)) if name in endpoint.at else ():
            terminals[router] += endpoint.ports
    ports = level.topology.link_ports() + max(terminals)
    if ports * level.num_vcs <= MOST_INPUT_VCS:
        return []
    return [
        document.error(
            (*where, "num_vcs"),
            f"at most {MOST_INPUT_VCS} input VCs (ports × VCs) at a router",
            f"{ports} ports (for {level.topology.link_ports()} links and {max(terminals)} terminals at router "
            f"{terminals.index(max(terminals))}) × {level.num_vcs} VCs = {ports * level.num_vcs}",
        )
    ]


def _memory_errors(problem: ValueError, document: Document, where: KeyPath) -> list[ConfigError]:
    """The memory room's findings, at the key of the hardware file that chose the memory."""
    if isinstance(problem, ConfigErrors):
        return [
            document.error((*where, *error.path.split(".")), error.expected, error.got, error.suggestion)
            for error in problem.errors
        ]
    found = []
    for line in str(problem).splitlines():
        room, _, rest = line.partition(": ")
        key, colon, text = rest.partition(": ")
        known = room == "memory" and bool(colon) and key in MemorySpec.model_fields
        found.append(
            document.error((*where, key) if known else where, "a memory that can be built", text if known else line)
        )
    return found
