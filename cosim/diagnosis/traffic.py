"""What a placement makes of the steps: load of ranks, bytes of pairs, links and memories, and which of them binds.

As the simulator lowers a layer: token i waits at rank i modulo the ranks; its activations go to a replica of every
expert it needs and as many bytes come back; every replica in use reads its weights once a step from its memory. The
replicas of an expert take tokens in turn, as serving engines do. The times are lower bounds, each resource by itself:
bytes over bandwidth, operations over rate; no waiting, no latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.diagnosis.imbalance import rank_imbalance
from cosim.diagnosis.steps import Steps
from cosim.policy.placement import nearest_memory

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["RESOURCES", "Loads", "Pipes", "loads_of", "pipes_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
RESOURCES = ("compute", "memory", "link", "port")


@dataclass(frozen=True, eq=False)
class Pipes:
    """A system as capacities, ranks being its compute endpoints in order.

    Attributes:
        ranks, links, memories: their names.
        operations_per_s: per rank.
        link_Bps, port_Bps, memory_Bps: capacities of links, of a rank's ports (in and out alike), of memories.
        ways: which links a pair uses, bool, shape (ranks, ranks, links).
        weight_ways: which links a rank's weights use, bool, shape (ranks, links).
        memory_of: memory of a rank's weights, shape (ranks,).
        near: ranks whose weights do not pass their port.
    """

    ranks: tuple[str, ...]
    links: tuple[str, ...]
    memories: tuple[str, ...]
    operations_per_s: FloatArray
    link_Bps: FloatArray
    port_Bps: FloatArray
    memory_Bps: FloatArray
    ways: npt.NDArray[np.bool_]
    weight_ways: npt.NDArray[np.bool_]
    memory_of: IntArray
    near: npt.NDArray[np.bool_]


def pipes_of(system: System) -> Pipes:
    """The capacities of a system and the ways of its routes."""
    places, routes = system.compute_endpoints, system.routes
    names, capacity = [], []
    for network in system.networks:
        for a, b in zip(network.graph.source.tolist(), network.graph.target.tolist(), strict=True):
            names.append(f"{network.label} {a} → {b}")
            capacity.append(float(network.link_bandwidth_Bps))
    for gateway in system.gateways:
        names += [f"{gateway.label} up", f"{gateway.label} down"]
        capacity += [float(gateway.bandwidth_Bps(system.networks))] * 2
    ways = np.zeros((len(places), len(places), len(names)), dtype=np.bool_)
    for i, a in enumerate(places):
        for j, b in enumerate(places):
            ways[i, j, routes.path(a.index, b.index)] = True
    memories = system.memory_endpoints
    number = {place.index: position for position, place in enumerate(memories)}
    held: dict[int, int] = {}
    weight_ways = np.zeros((len(places), len(names)), dtype=np.bool_)
    memory_of, near = [], []
    for i, place in enumerate(places):
        memory = nearest_memory(system, routes, held, place.index)
        held[memory] = held.get(memory, 0) + 1
        memory_of.append(number[memory])
        near.append(system.near_memories.get(place.index) == memory)
        if not near[-1]:
            weight_ways[i, routes.path(memory, place.index)] = True
    rates = [float(place.spec.compute.effective_rate()) for place in places if place.spec.compute is not None]
    return Pipes(
        tuple(place.label for place in places),
        tuple(names),
        tuple(place.label for place in memories),
        np.array(rates),
        np.array(capacity),
        np.array([float(place.spec.ports * system.network_of(place).link_bandwidth_Bps) for place in places]),
        np.array([float(place.memory.peak_Bps) for place in memories if place.memory is not None]),
        ways,
        weight_ways,
        np.array(memory_of, dtype=np.int64),
        np.array(near),
    )


@dataclass(frozen=True, eq=False)
class Loads:
    """What one placement does, over all steps and layers.

    Attributes:
        imbalance: busiest rank over mean in tokens, mean over steps and layers.
        pair_bytes: from rank to rank, mean of a step and layer, shape (ranks, ranks); dispatch and gather.
        link_bytes: of every link, weights included, mean of a step and layer.
        memory_bytes: of every memory, mean of a step and layer.
        seconds: resource → time of its busiest member, mean over steps and layers.
        bound_s: mean of the largest of them.
        bound_by: resource → share of the steps and layers in which it is the largest.
    """

    imbalance: float
    pair_bytes: FloatArray
    link_bytes: FloatArray
    memory_bytes: FloatArray
    seconds: dict[str, float]
    bound_s: float
    bound_by: dict[str, float]


def loads_of(steps: Steps, ranks_of: Sequence[Sequence[Sequence[int]]], pipes: Pipes, model: ModelSpec) -> Loads:
    """Sends every token of every step where the placement has its experts.

    Args:
        ranks_of: layer → expert → the ranks that hold it.
    """
    ranks = len(pipes.ranks)
    most = max(len(found) for layer in ranks_of for found in layer)
    table = np.array([[list(found) + [-1] * (most - len(found)) for found in layer] for layer in ranks_of])
    copies = np.array([[len(found) for found in layer] for layer in ranks_of])
    token = np.arange(steps.tokens)
    home = token % ranks
    pair_sum = np.zeros((ranks, ranks))
    link_sum, memory_sum = np.zeros(len(pipes.links)), np.zeros(len(pipes.memories))
    time_sum = np.zeros(len(RESOURCES))
    bound_sum, uneven = 0.0, 0.0
    first = np.zeros(len(RESOURCES), dtype=np.int64)
    flat_ways = pipes.ways.reshape(ranks * ranks, -1).astype(np.float64)
    for step in range(steps.count):
        for layer in range(steps.layers):
            ids = steps.ids[step, :, layer, :]
            row, slot = np.nonzero(ids >= 0)
            experts = ids[row, slot]
            target = table[layer, experts, row % copies[layer, experts]]
            tokens = np.bincount(target, minlength=ranks)
            sent = np.bincount(home[row] * ranks + target, minlength=ranks * ranks).reshape(ranks, ranks)
            np.fill_diagonal(sent, 0)
            pair = (sent + sent.T) * float(model.activation_bytes)
            used = np.unique(target * steps.experts + experts) // steps.experts
            weights = np.bincount(used, minlength=ranks) * float(model.expert_bytes)
            link = pair.reshape(-1) @ flat_ways + weights @ pipes.weight_ways
            memory = np.bincount(pipes.memory_of, weights, minlength=len(pipes.memories))
            inwards = pair.sum(axis=0) + np.where(pipes.near, 0.0, weights)
            times = np.array(
                [
                    (tokens * 2.0 * model.expert_macs_per_token / pipes.operations_per_s).max(),
                    (memory / pipes.memory_Bps).max(),
                    (link / pipes.link_Bps).max(initial=0.0),
                    (np.maximum(inwards, pair.sum(axis=1)) / pipes.port_Bps).max(),
                ]
            )
            pair_sum += pair
            link_sum += link
            memory_sum += memory
            time_sum += times
            bound_sum += float(times.max())
            first[int(np.argmax(times))] += 1
            uneven += float(rank_imbalance(tokens.astype(np.int64)))
    count = steps.count * steps.layers
    return Loads(
        uneven / count,
        pair_sum / count,
        link_sum / count,
        memory_sum / count,
        dict(zip(RESOURCES, (time_sum / count).tolist(), strict=True)),
        bound_sum / count,
        dict(zip(RESOURCES, (first / count).tolist(), strict=True)),
    )
