"""From a checked network description to the core's graph and routes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from cosim import _core
from cosim.config.errors import Problems
from cosim.config.schema_network import NetworkConfig
from cosim.config.schema_topology import GraphSpec, MeshWithNodesSpec

__all__ = ["build_spec"]


def build_spec(config: NetworkConfig) -> _core.NetworkSpec:
    """The core's description of `config`.

    Raises:
        ConfigErrors: a route table that misses a router-destination pair or names a link that does not exist.
    """
    spec = _core.NetworkSpec()
    for key in (
        "num_vcs", "vc_buf_size", "routing_delay", "vc_alloc_delay", "sw_alloc_delay", "st_prepare_delay",
        "st_final_delay", "credit_delay",
    ):  # fmt: skip
        setattr(spec, key, getattr(config, key))
    spec.compat_booksim2 = config.compat == "booksim2"
    for message_class in config.classes.values():
        spec.add_class(sum(1 << vc for vc in message_class.vcs), message_class.priority)
    _build_topology(spec, config)
    if config.routing is not None and config.routing.table is not None:
        _set_table(spec, config.routing.table)
    problems = Problems()
    for sentence in spec.problems():
        problems.add("network", "a network that can be built", sentence)
    problems.raise_if_any()
    return spec


def _build_topology(spec: _core.NetworkSpec, config: NetworkConfig) -> None:
    topology, depth = config.topology, config.link_depth_flits
    if isinstance(topology, MeshWithNodesSpec):
        latency = config.link_latency
        per_dimension = [latency] * len(topology.shape) if isinstance(latency, int) else list(latency)
        spec.build_mesh(list(topology.shape), topology.concentration, per_dimension, depth)
    elif isinstance(topology, GraphSpec):
        _build_graph(spec, topology, config.longest_link_cycles, depth)


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


def _set_table(spec: _core.NetworkSpec, rows: Any) -> None:
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
