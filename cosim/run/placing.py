"""A placement from an experiment: the profile part of its trace, the rates of its system, the search of a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from cosim.analytic.hda_moe import PARTIAL_SUMS
from cosim.analytic.hda_moe_equations import expert_operations
from cosim.config.errors import ConfigErrors
from cosim.link import LinkSimulator, LinkTopology
from cosim.placement.activation import activation
from cosim.placement.families import compute_balanced, expert_parallel, tensor_parallel
from cosim.placement.file import PlacementFile, whole_neurons
from cosim.placement.node_balance import NodeCosts
from cosim.placement.search import SearchOptions, expert_parallel_gamma, hybrid_search
from cosim.placement.shares import ExpertShares
from cosim.policy.placement import memory_tier, nearest_memory
from cosim.run.network_columns import link_tables
from cosim.run.setup import Setup, part_text
from cosim.system import System

__all__ = ["PlaceOptions", "node_capacity_bytes", "placement_of", "system_links"]

#: Chunks per message of the rung ``link``.
CHUNKS = 20


@dataclass(frozen=True)
class PlaceOptions:
    """What to place.

    method: tensor, expert, hybrid, node or node+link. batch_tokens: of the workload if not given. groups: of nodes, for
    hybrid. capacity: whether the memory-capacity constraint holds. running: whether node and node+link search only the
    MoE layers that the experiment runs; the others get expert parallelism.
    """

    method: str
    batch_tokens: int | None = None
    operations: str = "3hI"
    partial_sums: str = "FP32"
    groups: int | None = None
    capacity: bool = True
    running: bool = False
    search: SearchOptions = field(default_factory=SearchOptions)


def system_links(system: System) -> LinkTopology:
    """The system's links and routes, gateways included, with its compute endpoints as endpoints."""
    tables = link_tables(system)
    target = np.array(tables["link_target"], dtype=np.int64)
    source = np.full(len(target), -1, dtype=np.int64)
    source[: len(system.links)] = system.links["source"]
    for gateway in system.gateways:  # up and down, as the routes number them
        up = system.routes.first_crossing + 2 * gateway.index
        source[up], source[up + 1] = gateway.routers
    routers = int(tables["routers"])
    return LinkTopology(
        f"system of {routers} routers",
        np.array([place.router for place in system.compute_endpoints], dtype=np.int64),
        source,
        target,
        np.array(tables["link_bytes_per_second"], dtype=np.int64),
        np.array(tables["next_link"], dtype=np.int64).reshape(routers, routers),
    )


def node_capacity_bytes(system: System, layers: int) -> int:
    """Weight bytes that one compute endpoint may hold of one MoE layer: its part of the nearest memory's tier.

    The tier is shared evenly by the endpoints nearest to that memory, and by the layers.
    """
    routes, tier = system.routes, memory_tier(system)
    held: dict[int, int] = {}
    for place in system.compute_endpoints:
        memory = nearest_memory(system, routes, held, place.index)
        held[memory] = held.get(memory, 0) + 1
    capacity = next(item.capacity_bytes for item in system.tiers if item.name == tier)
    return capacity // max(held.values()) // layers


def placement_of(
    setup: Setup, options: PlaceOptions, progress: Callable[[int, int], None] | None = None
) -> PlacementFile:
    """Computes a placement.

    Raises:
        ConfigErrors: no profile to place on, a capacity that cannot hold the model (both figures), groups that do not
            divide the nodes or are given to a method that has none, and whatever the search refuses.
    """
    model, system = setup.model, setup.system
    nodes = len(system.compute_endpoints)
    if (options.groups is None) == (options.method == "hybrid"):
        raise ConfigErrors.single(
            "--groups with the method 'hybrid', which alone reads it",
            "none" if options.groups is None else f"--groups {options.groups} with {options.method!r}",
            path="groups",
        )
    layers = min(model.moe_layers, setup.trace.layers)
    if layers < model.moe_layers and options.method not in ("tensor", "expert"):
        raise ConfigErrors.single(
            f"a trace of all {model.moe_layers} MoE layers", f"{layers} in {setup.spec.trace.title}", path="trace"
        )
    tokens = options.batch_tokens if options.batch_tokens is not None else setup.spec.workload.batch_tokens
    report: list[str] = []
    if options.method == "tensor":
        placed = tensor_parallel(model.moe_layers, model.experts, nodes)
    elif options.method == "expert":
        placed = expert_parallel(model.moe_layers, model.experts, nodes)
    else:
        ids = setup.trace.ids[setup.parts.profile]
        if not len(ids):
            raise ConfigErrors.single("a profile part to place on", "profile: none", path="trace.profile")
        found = [activation(ids[:, layer], model.experts) for layer in range(model.moe_layers)]
        if options.method == "hybrid":
            placed = compute_balanced(found, nodes, int(options.groups or 0))
        else:
            costs, token_bytes = _costs(setup, options, tokens)
            simulator = LinkSimulator(system_links(system), CHUNKS)
            gamma = float(
                np.mean(
                    [
                        expert_parallel_gamma(
                            layer, nodes, costs.traffic_s, token_bytes, simulator, seed=options.search.seed
                        )
                        for layer in (found[0], found[-1])
                    ]
                )
            )
            costs = NodeCosts(
                costs.compute_s,
                costs.traffic_s,
                gamma,
                costs.passes,
                costs.weight_bytes,
                costs.capacity_bytes,
            )
            numbers = setup.layers if options.running else range(model.moe_layers)
            chosen = {number: found[number] for number in numbers}
            searched = hybrid_search(chosen, nodes, costs, token_bytes, simulator, options.search, progress)
            shares = expert_parallel(model.moe_layers, model.experts, nodes).shares.copy()
            shares[list(numbers)] = searched.placement.physical().shares
            placed, report = ExpertShares(shares, source=searched.placement.source), list(searched.report)
            report.insert(0, f"first gamma {gamma:.3f}, from expert parallelism under drawn maps")
            if len(chosen) < model.moe_layers:
                report.append(f"the other {model.moe_layers - len(chosen)} layers: expert parallelism")
    return PlacementFile(
        model.name or "model",
        model.moe_intermediate,
        _neurons(placed, model.moe_intermediate),
        {
            "command": "cosim place search",
            **asdict(options),
            "batch_tokens": tokens,
            "experiment": setup.spec.name or "experiment",
            "trace": setup.spec.trace.title,
            "profile": part_text(setup.spec.trace.profile),
            "system": setup.spec.system.name or "system",
        },
        report,
    )


def _costs(setup: Setup, options: PlaceOptions, tokens: int) -> tuple[NodeCosts, int]:
    """Costs of a node, and activation bytes of the batch's tokens."""
    model, system = setup.model, setup.system
    rates = {place.spec.compute.effective_rate() for place in system.compute_endpoints if place.spec.compute}
    if len(rates) != 1:
        raise ConfigErrors.single("compute endpoints of one rate", f"{len(rates)} rates", path="system.endpoints")
    rate = float(rates.pop())
    ports = {place.spec.ports for place in system.compute_endpoints}
    slowest = min(system.network_of(place).link_bandwidth_Bps for place in system.compute_endpoints)
    bandwidth = float(slowest * min(ports))
    operations = expert_operations(model.hidden, model.moe_intermediate, options.operations)
    token_bytes = tokens * model.hidden * PARTIAL_SUMS[options.partial_sums]
    capacity = node_capacity_bytes(system, model.moe_layers) if options.capacity else None
    costs = NodeCosts(tokens * operations / rate, token_bytes / bandwidth, 1.0, 2.0, model.expert_bytes, capacity)
    return costs, token_bytes


def _neurons(placed: ExpertShares, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.stack([whole_neurons(layer, width) for layer in placed.shares])
