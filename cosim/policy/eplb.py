"""DeepSeek's Expert Parallelism Load Balancer, and a policy that places by it.

The algorithm is that of github.com/deepseek-ai/EPLB: expert groups are packed onto nodes, redundant replicas are
given to the experts with the most load per replica, and replicas are packed onto devices, the heaviest first into the
lightest pack that still has room. Where groups do not divide by nodes, one node takes everything (its global policy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import in_turn
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel
from cosim.policy.room import Room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Eplb", "rebalance_experts"]

IntArray = npt.NDArray[np.int64]


def _packed(weight: npt.NDArray[np.float64], packs: int) -> tuple[IntArray, IntArray]:
    """Items into packs of equal count, heaviest first, each to the lightest pack with room.

    Returns pack and rank in the pack of every item, int64, shape (items,).
    """
    most = len(weight) // packs
    pack, rank = np.empty(len(weight), dtype=np.int64), np.empty(len(weight), dtype=np.int64)
    if most == 1:
        return np.arange(len(weight), dtype=np.int64), np.zeros(len(weight), dtype=np.int64)
    load, count = [0.0] * packs, [0] * packs
    for item in np.argsort(-weight, kind="stable").tolist():
        chosen = min((p for p in range(packs) if count[p] < most), key=lambda p: (load[p], p))
        pack[item], rank[item] = chosen, count[chosen]
        load[chosen] += float(weight[item])
        count[chosen] += 1
    return pack, rank


def _replicated(weight: npt.NDArray[np.float64], replicas: int) -> tuple[IntArray, IntArray]:
    """Expert of every replica, and replicas of every expert: each further one to the most load per replica."""
    experts = len(weight)
    of_replica = np.arange(replicas, dtype=np.int64)
    count = np.ones(experts, dtype=np.int64)
    for replica in range(experts, replicas):
        chosen = int(np.argmax(weight / count))
        of_replica[replica] = chosen
        count[chosen] += 1
    return of_replica, count


def rebalance_experts(
    weight: npt.ArrayLike, num_replicas: int, num_groups: int, num_nodes: int, num_gpus: int
) -> tuple[IntArray, IntArray]:
    """Which expert every physical replica is, in the order of the devices.

    Args:
        weight: load of every expert, shape (layers, experts).
        num_replicas: physical experts, a multiple of ``num_gpus``.
        num_groups: groups of experts.
        num_nodes: nodes; groups stay inside one where ``num_groups`` is a multiple of it.
        num_gpus: devices, a multiple of ``num_nodes``.

    Returns:
        (experts of the replicas, int64, shape (layers, num_replicas); replicas of the experts, int64, shape
        (layers, experts)).

    Raises:
        ValueError: counts that do not divide each other.
    """
    loads = np.asarray(weight, dtype=np.float64)
    layers, experts = loads.shape
    if num_groups % num_nodes:
        num_groups = num_nodes = 1
    for what, whole, part in (
        ("experts", experts, num_groups),
        ("num_gpus", num_gpus, num_nodes),
        ("num_replicas", num_replicas, num_gpus),
    ):
        if whole % part:
            raise ValueError(f"{what}: expected a multiple of {part}, got {whole}")
    if num_replicas < experts:
        raise ValueError(f"num_replicas: expected at least the {experts} experts, got {num_replicas}")
    size, per_node = experts // num_groups, experts // num_nodes
    placed = np.empty((layers, num_replicas), dtype=np.int64)
    counts = np.empty((layers, experts), dtype=np.int64)
    for layer in range(layers):
        groups = loads[layer].reshape(num_groups, size).sum(axis=1)
        node, rank = _packed(groups, num_nodes)
        first = (node * (num_groups // num_nodes) + rank) * size
        expert_at = np.empty(experts, dtype=np.int64)  # experts in the order of their nodes
        expert_at[(first[:, np.newaxis] + np.arange(size)).ravel()] = np.arange(experts)
        on_node, gpus = num_replicas // num_nodes, num_gpus // num_nodes
        for number in range(num_nodes):
            here = expert_at[number * per_node : (number + 1) * per_node]
            of_replica, count = _replicated(loads[layer, here], on_node)
            pack, place = _packed((loads[layer, here] / count)[of_replica], gpus)
            position = number * on_node + pack * (on_node // gpus) + place
            placed[layer, position] = here[of_replica]
            counts[layer, here] = count
    return placed, counts


class Eplb(Policy):
    """Redundant experts by DeepSeek's balancer on the profile; a replica's share of the tokens is dealt out in turn.

    The first replica of an expert is its home; further ones lie in the nearest tier with room. Two of one expert on one
    chiplet are one.
    """

    name = "eplb"

    class Params(Policy.Params):
        """``replica_budget``: bytes of all replicas over those of one copy; whole replicas per chiplet are made of it.

        ``groups``, ``nodes``: of the balancer; by default its global policy.
        """

        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 1.3
        groups: Annotated[int, Field(ge=1)] = 1
        nodes: Annotated[int, Field(ge=1)] = 1

    params: Params

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        super().__init__(params)
        self.replica_budget = self.params.replica_budget

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        chiplets = [endpoint.index for endpoint in system.compute_endpoints]
        self.max_replicas = len(chiplets)
        each = max(int(self.params.replica_budget * model.experts) // len(chiplets), -(-model.experts // len(chiplets)))
        replicas = each * len(chiplets)
        running = set(profile.running)
        homes = [home for home in expert_parallel(system, model).replicas if home.layer not in running]
        placed, _ = rebalance_experts(profile.counts, replicas, self.params.groups, self.params.nodes, len(chiplets))
        room = Room(system, model)
        made: list[PlacedReplica] = list(homes)
        copies: list[tuple[int, int, int, int]] = []
        home_tier = [system.home_tier.name]
        for layer in profile.running:
            seen: dict[int, set[int]] = {}
            for position, expert in enumerate(placed[layer].tolist()):
                chiplet = chiplets[position // each]
                if expert not in seen:
                    seen[expert] = {chiplet}
                    home = room.replica(layer, expert, chiplet, home_tier)
                    made.append(home or PlacedReplica(layer, expert, chiplet, *_refused_at(system, chiplet)))
                elif chiplet not in seen[expert]:
                    seen[expert].add(chiplet)
                    copies.append((-int(profile.counts[layer, expert]), layer, expert, chiplet))
        most = int((self.params.replica_budget - 1) * model.experts * len(running))
        for _, layer, expert, chiplet in sorted(copies)[:most]:
            copy = room.replica(layer, expert, chiplet)
            if copy is not None:
                made.append(copy)
        return Placement(made)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return in_turn(groups, directory)


def _refused_at(system: System, chiplet: int) -> tuple[int, str]:
    """Where a home without room is asked for, so that the keeper refuses it with its figures."""
    tier = system.home_tier
    return tier.serving(chiplet)[0], tier.name
