"""From a checked network description to the core's graph and routes."""

from __future__ import annotations

from collections import defaultdict

from cosim import _core
from cosim.noc.config import NetworkConfig, ports_of
from cosim.noc.problems import Problems

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
    for message_class in config.classes:
        spec.add_class(sum(1 << vc for vc in message_class.vcs), message_class.priority)
    if config.topology.kind == "mesh":
        spec.build_mesh(
            list(config.topology.shape),
            config.topology.concentration,
            list(config.link_latency),
            config.link_buffer_flits,
        )
    else:
        _build_graph(spec, config)
    if config.routing == "table":
        _set_table(spec, config)
    problems = Problems()
    for sentence in spec.problems():
        problems.add("network", "a network that can be built", sentence)
    problems.raise_if_any()
    return spec


def _build_graph(spec: _core.NetworkSpec, config: NetworkConfig) -> None:
    topology = config.topology
    outputs = [0] * topology.routers
    inputs = [0] * topology.routers
    links = []
    for link in topology.links:
        links.append(
            _core.LinkSpec(
                link.source, outputs[link.source], link.dest, inputs[link.dest], link.latency, link.buffer_flits
            )
        )
        outputs[link.source] += 1
        inputs[link.dest] += 1
    terminals = []
    for router in topology.nodes:
        port = max(outputs[router], inputs[router])
        terminals.append(_core.TerminalSpec(router, port))
        outputs[router] = inputs[router] = port + 1
    spec.routers = topology.routers
    spec.ports = max(ports_of(topology), *outputs)
    spec.links = links
    spec.terminals = terminals


def _set_table(spec: _core.NetworkSpec, config: NetworkConfig) -> None:
    problems = Problems()
    path = "network.routing.table"
    terminals = spec.terminals
    ports: dict[tuple[int, int], list[int]] = defaultdict(list)
    for link in spec.links:
        ports[link.from_router, link.to_router].append(link.from_port)
    routes: dict[tuple[int, int], int] = {}
    for i, row in enumerate(config.routing_table):
        router, node, following = row["router"], row["destination"], row["next_router"]
        if router >= spec.routers or node >= len(terminals):
            problems.add(
                f"{path}.{i}",
                f"a router below {spec.routers} and a node below {len(terminals)}",
                f"router {router}, destination {node}",
            )
            continue
        parallel = ports[router, following]
        which = row.get("link", 0)
        if which >= len(parallel):
            problems.add(
                f"{path}.{i}",
                f"one of the {len(parallel)} links from router {router} to router {following}",
                f"link {which}",
            )
            continue
        if (router, node) in routes:
            problems.add(
                f"{path}.{i}", "one route per router and destination", f"router {router}, destination {node} again"
            )
        routes[router, node] = parallel[which]
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
    spec.set_routes(entries, [(1 << config.num_vcs) - 1])
