"""What is wrong with a system beyond the keys of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.loader import Document, KeyPath
from cosim.config.schema_hardware import EndpointSpec, GatewaySpec, HardwareSpec, MemorySpec
from cosim.config.schema_network import MOST_INPUT_VCS, LevelSpec
from cosim.config.units import BANDWIDTH, BYTES, FREQUENCY, format_quantity
from cosim.system.level_graph import LevelGraph, level_links
from cosim.system.memory import MemoryFigures, memory_figures
from cosim.system.networks import class_rows, gateway_pairs

__all__ = ["FiguresOf", "hardware_findings", "unreachable_routers"]

FiguresOf = Callable[[MemorySpec], MemoryFigures]


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

    A topology that is not connected, gateways whose ends do not fit together, whose buffers hold no packet or whose
    levels have too few VCs, an unknown memory preset or timing, ports that cannot carry what is behind them (unless
    ``allow_bottleneck``), and a tier larger than the memory it is on.
    """
    found: list[ConfigError] = []
    for name, gateway in spec.gateways.items():
        found.extend(_gateway_errors(spec, gateway, document, (*path, "gateways", name)))
    for name in sorted({gateway.lower for gateway in spec.gateways.values()}):
        found.extend(_leg_errors(spec.levels[name], document, (*path, "levels", name)))
    lower = {gateway.lower for gateway in spec.gateways.values()}
    for name in spec.levels:
        found.extend(_graph_errors(spec, name, name in lower, document, (*path, "levels", name)))
    figures: dict[str, MemoryFigures] = {}
    for name, endpoint in spec.endpoints.items():
        where: KeyPath = (*path, "endpoints", name)
        if endpoint.memory is not None:
            channels = endpoint.memory.channels
            if channels & (channels - 1):
                near = 1 << channels.bit_length()
                found.append(
                    document.error(
                        (*where, "memory", "channels"),
                        "a power of two, since the channel is bits of the address",
                        str(channels),
                        f"{near // 2} or {near}",
                    )
                )
            try:
                figures[name] = figures_of(endpoint.memory)
            except ValueError as problem:
                found.extend(_memory_errors(problem, document, (*where, "memory")))
                continue
        level = spec.levels[next(iter(endpoint.at))]
        stacked = [other.near_memory for other in spec.endpoints.values() if other.near_memory is not None]
        path_Bps = max((near.bandwidth for near in stacked if near.on == name), default=Fraction(0))
        found.extend(_port_errors(endpoint, level, figures.get(name), path_Bps, document, where))
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
    endpoint: EndpointSpec,
    level: LevelSpec,
    memory: MemoryFigures | None,
    path_Bps: Fraction,
    document: Document,
    where: KeyPath,
) -> list[ConfigError]:
    """Ports that do not carry what is behind them; a memory's path to what it is stacked with carries it too."""
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
    if max(ports_Bps, path_Bps) >= needed or endpoint.allow_bottleneck:
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


def _gateway_routers(spec: HardwareSpec, gateway: GatewaySpec, level: str) -> Iterator[int]:
    """Routers of one instance of ``level`` with a gateway, once for each."""
    pairs = gateway_pairs(spec, gateway)
    if isinstance(pairs, str):
        return
    lower = spec.levels[gateway.lower].count
    for instance, low, high in pairs:
        if level == gateway.lower and instance == 0:
            yield low
        elif level == gateway.upper and instance < lower // spec.levels[level].count:
            yield high


def _gateway_errors(
    spec: HardwareSpec, gateway: GatewaySpec, document: Document, where: KeyPath
) -> Iterator[ConfigError]:
    pairs = gateway_pairs(spec, gateway)
    if isinstance(pairs, str):
        count = len(gateway.at[gateway.upper].indices(len(spec.levels[gateway.upper].topology.node_routers())))
        yield document.error((*where, "at", gateway.upper), pairs, f"{count} routers")
    packets = {name: spec.levels[name].max_packet_flits * spec.levels[name].flit_width for name in gateway.between}
    name = max(packets, key=lambda level: packets[level])
    for message_class, held in gateway.buffer.by_class().items():
        if held < packets[name]:
            yield document.error(
                (*where, "buffer", message_class),
                f"room for a packet of level {name!r}, {format_quantity(packets[name], BYTES)}",
                format_quantity(held, BYTES),
            )
    if gateway.bandwidth is None or gateway.allow_bottleneck:
        return
    for name in gateway.between:
        level = spec.levels[name]
        one = level.flit_width * level.clock
        if gateway.ports_at(name) * one < gateway.bandwidth:
            yield document.error(
                (*where, "bandwidth"),
                f"ports that carry its declared bandwidth of {format_quantity(gateway.bandwidth, BANDWIDTH)}",
                f"{gateway.ports_at(name)} of {format_quantity(level.flit_width, BYTES)} at "
                f"{format_quantity(level.clock, FREQUENCY)} in level {name!r}: "
                f"{format_quantity(gateway.ports_at(name) * one, BANDWIDTH)}",
                f"{-(-gateway.bandwidth // one)} ports would do, or write 'allow_bottleneck: true'",
            )


def _leg_errors(level: LevelSpec, document: Document, where: KeyPath) -> Iterator[ConfigError]:
    """Under a gateway every class needs VCs for what leaves and others for what comes from above."""
    for name, spec in level.message_classes.by_name().items():
        if len(spec.vcs) < 2:
            given = document.get((*where, "message_classes")) is not None
            yield document.error(
                (*where, "message_classes", name, "vcs") if given else (*where, "num_vcs"),
                f"two VCs for class {name!r} in a level with a gateway to an upper one: the first half for packets "
                "that start here, the rest for those that come from above, so that neither waits for the other",
                f"VC {spec.vcs[0]} alone",
                None if given else "write message_classes with six VCs or more",
            )
    broadcast = level.message_classes.broadcast
    if broadcast is not None and len(broadcast.vcs) == 1:
        yield document.error(
            (*where, "message_classes", "broadcast", "vcs"),
            "two VCs for broadcasts in a level with a gateway to an upper one, parted like those of the other classes",
            f"VC {broadcast.vcs[0]} alone",
        )


def _graph_errors(
    spec: HardwareSpec, name: str, under_gateway: bool, document: Document, where: KeyPath
) -> list[ConfigError]:
    """A level whose routers do not reach each other, whose routing does not fit, or whose routers are too large."""
    level = spec.levels[name]
    try:
        graph = LevelGraph.of(level, class_rows(level, 2 if under_gateway else 1))
    except ConfigErrors as problem:
        return [
            document.error((*where, "routing"), error.expected, error.got, error.suggestion) for error in problem.errors
        ]
    except ValueError as problem:
        links = list(level_links(level))
        apart = unreachable_routers(level.topology.router_count(), links)
        if not apart:
            return [document.error((*where, "routing"), f"a level that {level.routing_name} can route", str(problem))]
        shown = ", ".join(map(str, apart[:8])) + (" ..." if len(apart) > 8 else "")
        expected, got = "a topology whose routers all reach each other", f"router {shown} apart from router 0"
        return [document.error((*where, "topology"), expected, got)]
    return _router_errors(spec, name, graph, document, where)


def _router_errors(
    spec: HardwareSpec, name: str, graph: LevelGraph, document: Document, where: KeyPath
) -> list[ConfigError]:
    """Routers with more input VCs (ports × VCs) than the network core holds."""
    level = spec.levels[name]
    terminals = [0] * graph.routers
    for endpoint in spec.endpoints.values():
        for node in endpoint.at[name].indices(len(graph.node_router)) if name in endpoint.at else ():
            terminals[graph.node_router[node]] += endpoint.ports
    for gateway in spec.gateways.values():
        for router in _gateway_routers(spec, gateway, name):
            terminals[router] += gateway.ports_at(name)
    kept = graph.link_ports.sum(axis=1).tolist()
    router = max(range(graph.routers), key=lambda r: (kept[r] + terminals[r], -r))
    ports = kept[router] + terminals[router]
    broadcast = level.message_classes.broadcast
    forking = 0 if broadcast is None else len(broadcast.vcs)
    lanes = ports * (level.num_vcs + forking * (ports - 1))
    if ports * level.num_vcs <= MOST_INPUT_VCS < lanes:
        return [
            document.error(
                (*where, "message_classes", "broadcast", "vcs"),
                f"at most {MOST_INPUT_VCS} input VCs and branches of multicasts at a router",
                f"{lanes}: {ports} ports × ({level.num_vcs} VCs + {forking} that fork to {ports - 1} more)",
                "`session` needs no VC",
            )
        ]
    if ports * level.num_vcs <= MOST_INPUT_VCS:
        return []
    return [
        document.error(
            (*where, "num_vcs"),
            f"at most {MOST_INPUT_VCS} input VCs (ports × VCs) at a router",
            f"{ports} ports (for {kept[router]} links and {terminals[router]} terminals at router "
            f"{router}) × {level.num_vcs} VCs = {ports * level.num_vcs}",
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
