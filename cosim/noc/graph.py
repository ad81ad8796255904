"""From a checked network description to the core's graph and routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import copy

from cosim import _core
from cosim.config.errors import ConfigErrors, Problems
from cosim.config.schema_network import FailedLinkSpec, NetworkConfig, NetworkSpec, TableRowSpec
from cosim.config.schema_sessions import SessionsSpec
from cosim.config.schema_topology import (
    CrossbarSpec,
    FatTreeSpec,
    FullyConnectedSpec,
    GraphSpec,
    GridSpec,
    GridWithNodesSpec,
    PodFatTreeSpec,
    RingSpec,
)
from cosim.noc.network_plugins import NetworkPlugins

__all__ = [
    "build_spec",
    "build_topology",
    "routing_seed",
    "set_pipeline",
    "set_routing",
    "set_sessions",
    "states",
    "unrouted_spec",
]

PIPELINE = (
    "num_vcs", "vc_buf_size", "routing_delay", "vc_alloc_delay", "sw_alloc_delay", "st_prepare_delay",
    "st_final_delay", "credit_delay", "wait_for_tail_credit",
)  # fmt: skip
# keys of a network that its core takes as they are


def build_spec(config: NetworkConfig, plugins: NetworkPlugins | None = None) -> _core.NetworkSpec:
    """The core's description of `config`, with the plug-ins that it names.

    Raises:
        ConfigErrors: a route table that misses a router-destination pair or names a link that does not exist, a routing
            that does not serve this graph.
    """
    (_, spec), *later = states(config, unrouted_spec(config))
    for cycle, state in later:
        spec.add_route_change(cycle, state)
    if plugins is not None:
        plugins.give_to(spec, config)
    problems = Problems()
    for sentence in spec.problems():
        problems.add("network", "a network that can be built", sentence)
    problems.raise_if_any()
    return spec


def unrouted_spec(config: NetworkConfig) -> _core.NetworkSpec:
    """The core's description of `config` with all of its links and without routes."""
    spec = _core.NetworkSpec()
    set_pipeline(spec, config)
    spec.compat_booksim2 = config.compat == "booksim2"
    for message_class in config.classes.values():
        vcs = sum(1 << vc for vc in message_class.vcs)
        spec.add_class(
            vcs, message_class.priority, message_class.multicast, message_class.session, message_class.reduction
        )
    if config.has_sessions:
        set_sessions(spec, config.sessions or SessionsSpec())
    if config.retry is not None:
        spec.set_retry(**config.retry.model_dump())
    build_topology(spec, config)
    if (unit := config.reduction_unit) is not None:
        spec.set_reduction(**unit.model_dump())
    return spec


def set_pipeline(spec: _core.NetworkSpec, config: NetworkSpec) -> None:
    """Gives ``spec`` the router pipeline of ``config``: VCs, buffers, delays, allocators."""
    for key in PIPELINE:
        setattr(spec, key, getattr(config, key))
    spec.set_allocation(
        vc=getattr(_core.AllocatorKind, config.vc_allocator.name),
        sw=getattr(_core.AllocatorKind, config.sw_allocator.name),
        arbiter=getattr(_core.ArbiterKind, config.arb_type),
        iterations=config.alloc_iters,
        age_priority=config.priority == "age",
        speculative=config.speculative,
    )


def set_sessions(spec: _core.NetworkSpec, sessions: SessionsSpec) -> None:
    """Gives ``spec`` what its sessions cost."""
    spec.set_sessions(
        setup_cycles=sessions.setup_cycles,
        teardown_cycles=sessions.teardown_cycles,
        segment_delay=sessions.segment_delay,
        max_session_cycles=sessions.max_session_cycles,
        idle_cycles=sessions.idle_cycles,
        max_waiting=-1 if sessions.max_waiting is None else sessions.max_waiting,
    )


def build_topology(spec: _core.NetworkSpec, config: NetworkSpec) -> None:
    """Adds the routers, links and nodes of ``config`` to ``spec``."""
    topology, depth = config.topology, config.link_depth_flits
    latency = config.longest_link_cycles
    if isinstance(topology, GridSpec):
        per_dimension = config.link_latency
        if isinstance(per_dimension, int):
            per_dimension = (latency,) * len(topology.shape)
        wraps = topology.kind == "torus"
        concentration = topology.concentration if isinstance(topology, GridWithNodesSpec) else 1
        spec.build_grid(list(topology.shape), wraps, concentration, list(per_dimension), depth)
    elif isinstance(topology, RingSpec):
        spec.build_grid([topology.routers], True, topology.concentration, [latency], depth)
    elif isinstance(topology, CrossbarSpec):
        spec.build_crossbar(topology.nodes)
    elif isinstance(topology, FullyConnectedSpec):
        spec.build_fully_connected(topology.routers, topology.concentration, latency, depth)
    elif isinstance(topology, FatTreeSpec):
        spec.build_fat_tree(topology.k, topology.n, latency, depth)
    elif isinstance(topology, PodFatTreeSpec):
        spec.build_pod_fat_tree(
            topology.pods, topology.leaves_per_pod, topology.nodes_per_leaf, topology.aggregations_per_pod,
            topology.cores, topology.leaf_links, topology.core_links, topology.leaf_latency or latency,
            topology.core_latency or latency, depth,
        )  # fmt: skip
    else:
        assert isinstance(topology, GraphSpec)
        _build_graph(spec, topology, latency, depth)


def _failures(spec: _core.NetworkSpec, failed: Sequence[FailedLinkSpec]) -> dict[int, set[int]]:
    """Cycle → the links that fail then, by their position; those that never work at cycle 0."""
    problems = Problems()
    ways: dict[tuple[int, int], list[int]] = defaultdict(list)
    links = list(spec.links)
    for i, link in enumerate(links):
        ways[link.from_router, link.to_router].append(i)
    gone: dict[int, set[int]] = defaultdict(set)
    for position, name in enumerate(failed):
        for source, target in name.directions():
            parallel = ways[source, target]
            if not parallel or (name.link is not None and name.link >= len(parallel)):
                problems.add(
                    f"network.failed_links.{position}",
                    f"one of the {len(parallel)} links from router {source} to router {target}",
                    "another" if name.link is None else f"link {name.link}",
                )
                continue
            gone[name.at_cycle or 0].update(parallel if name.link is None else [parallel[name.link]])
    problems.raise_if_any()
    return gone


def states(config: NetworkConfig, spec: _core.NetworkSpec) -> list[tuple[int, _core.NetworkSpec]]:
    """What `spec` is from which cycle on, as its links fail; `spec` itself, of all links of `config`, is not changed.

    Raises:
        ConfigErrors: a failed link that does not exist, a network in which a node cannot be reached any more.
    """
    failures = _failures(spec, config.failed_links)
    links = list(spec.links)
    found = []
    gone: set[int] = set()
    for cycle in sorted({0, *failures}):
        gone |= failures.get(cycle, set())
        state = copy(spec)
        if gone:
            state.links = [link for i, link in enumerate(links) if i not in gone]
        if config.router.plugin is None:
            try:
                set_routing(state, config)
            except ValueError as problem:
                since = f" from cycle {cycle} on" if cycle else ""
                expected = f"a network that {config.routing_name} can route{since}"
                raise ConfigErrors.single(expected, str(problem), path="network") from None
        found.append((cycle, state))
    return found


def set_routing(spec: _core.NetworkSpec, config: NetworkSpec) -> None:
    """Routes ``spec`` as ``config`` says: a table, or a function of the core with the seed of a run of seed 1.

    Raises:
        ConfigErrors: a route table that misses a router-destination pair or names a link that does not exist.
        ValueError: a node that cannot be reached, or too few VCs for layers of shortest ways.
    """
    name = config.routing_name
    if config.routing is not None and config.routing.table is not None:
        _set_table(spec, config.routing.table)
    elif name == "dor":
        spec.route_dimension_order()
    elif name in ("direct", "up_down"):  # where every router is linked to every other the way is the link
        spec.route_up_down((config.routing.root if config.routing is not None else None) or 0)
    elif name == "layered_shortest_path":
        spec.route_layered_shortest()
    else:
        spec.set_routing_function(getattr(_core.RoutingKind, name), routing_seed(1))


def routing_seed(seed: int) -> int:
    """The seed of routing draws for the seed of a run: apart from those of sources, BookSim2's low bits kept."""
    return seed + (1 << 40) & (1 << 64) - 1


def _build_graph(spec: _core.NetworkSpec, topology: GraphSpec, latency: int, depth: int) -> None:
    outputs = [0] * topology.routers
    inputs = [0] * topology.routers
    links = []
    for link in topology.links:
        for source, target in link.directions():
            links.append(
                _core.LinkSpec(
                    source, outputs[source], target, inputs[target], link.latency or latency,
                    link.buffer_flits or depth,
                )
            )  # fmt: skip
            outputs[source] += 1
            inputs[target] += 1
    terminals = []
    for router in topology.node_routers():
        port = max(outputs[router], inputs[router])
        terminals.append(_core.TerminalSpec(router, port))
        outputs[router] = inputs[router] = port + 1
    spec.routers = topology.routers
    spec.ports = max(topology.port_count(), *outputs)
    spec.links = links
    spec.terminals = terminals


def _set_table(spec: _core.NetworkSpec, rows: Sequence[TableRowSpec]) -> None:
    problems = Problems()
    path = "network.routing.table"
    terminals = spec.terminals
    ports: dict[tuple[int, int], list[int]] = defaultdict(list)
    for link in spec.links:
        ports[link.from_router, link.to_router].append(link.from_port)
    routes: dict[tuple[int, int], int] = {}
    for i, row in enumerate(rows):
        if row.router >= spec.routers or row.destination >= len(terminals):
            problems.add(
                f"{path}.{i}",
                f"a router below {spec.routers} and a node below {len(terminals)}",
                f"router {row.router}, destination {row.destination}",
            )
            continue
        parallel = ports[row.router, row.next_router]
        if row.link >= len(parallel):
            problems.add(
                f"{path}.{i}",
                f"one of the {len(parallel)} links from router {row.router} to router {row.next_router}",
                f"link {row.link}",
            )
            continue
        if (row.router, row.destination) in routes:
            problems.add(
                f"{path}.{i}",
                "one route per router and destination",
                f"router {row.router}, destination {row.destination} again",
            )
        routes[row.router, row.destination] = parallel[row.link]
    for node, terminal in enumerate(terminals):
        if (terminal.router, node) in routes:
            problems.add(path, f"no route at router {terminal.router} to its own node {node}", "one")
        routes[terminal.router, node] = terminal.port
    missing = [(r, n) for r in range(spec.routers) for n in range(len(terminals)) if (r, n) not in routes]
    for router, node in missing[:8]:
        problems.add(path, f"a route at router {router} to node {node}", "none")
    if len(missing) > 8:
        problems.add(path, "a route for every router and destination", f"{len(missing) - 8} more are missing")
    problems.raise_if_any()
    entries = [routes[r, n] for r in range(spec.routers) for n in range(len(terminals))]
    spec.set_routes(entries, [(1 << spec.num_vcs) - 1])
