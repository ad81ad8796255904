"""Placements that no program has to search: tensor and expert parallelism, and the compute-balanced hybrid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosim.config.errors import ConfigErrors
from cosim.placement.activation import Activation
from cosim.placement.shares import ExpertShares, FloatArray

__all__ = ["compute_balanced", "expert_parallel", "tensor_parallel"]


def tensor_parallel(layers: int, experts: int, nodes: int) -> ExpertShares:
    """Every expert in equal shares on every node."""
    return ExpertShares(np.full((layers, experts, nodes), 1.0 / nodes), source="tensor_parallel")


def expert_parallel(layers: int, experts: int, nodes: int) -> ExpertShares:
    """Whole experts in blocks of nodes; with more nodes than experts each expert is split evenly over its block.

    Where the numbers do not divide, the first blocks hold one more, as in HD-MoE's baseline.
    """
    shares = np.zeros((experts, nodes))
    if nodes >= experts:
        ends = _ends(nodes, experts)
        for expert in range(experts):
            first, last = ends[expert], ends[expert + 1]
            shares[expert, first:last] = 1.0 / (last - first)
    else:
        ends = _ends(experts, nodes)
        for node in range(nodes):
            shares[ends[node] : ends[node + 1], node] = 1.0
    return ExpertShares(np.broadcast_to(shares, (layers, experts, nodes)).copy(), source="expert_parallel")


def compute_balanced(activations: Sequence[Activation], nodes: int, groups: int) -> ExpertShares:
    """The compute-balanced hybrid of tensor and expert parallelism: whole experts to groups of nodes, split inside.

    Experts go to the group with the least load so far, the hottest first (longest processing time), then single moves
    and swaps lower the most loaded group until none does; inside a group every expert is split evenly. Topology is not
    looked at. HD-MoE's baseline uses 8 groups for DeepSeek-V2-Lite and 2 for Mixtral on 32 nodes.

    Raises ConfigErrors where the nodes do not divide into the groups.
    """
    if groups < 1 or nodes % groups:
        raise ConfigErrors.single(f"groups of equal size from {nodes} nodes", f"{groups} groups", path="groups")
    width = nodes // groups
    layers = []
    for found in activations:
        group_of = _balanced(found.expert, groups)
        shares = np.zeros((found.experts, nodes))
        for expert, group in enumerate(group_of):
            shares[expert, group * width : (group + 1) * width] = 1.0 / width
        layers.append(shares)
    return ExpertShares(np.stack(layers), source="compute_balanced")


def _balanced(load: FloatArray, groups: int) -> list[int]:
    """Group of each expert."""
    order = sorted(range(len(load)), key=lambda expert: (-load[expert], expert))
    total = [0.0] * groups
    group_of = [0] * len(load)
    for expert in order:
        target = min(range(groups), key=lambda group: (total[group], group))
        group_of[expert] = target
        total[target] += float(load[expert])
    while True:
        worst = max(range(groups), key=lambda group: (total[group], -group))
        best: tuple[float, int, int, int] | None = None
        for expert in range(len(load)):
            if group_of[expert] != worst:
                continue
            for group in range(groups):
                if group == worst:
                    continue
                others = [-1, *(other for other in range(len(load)) if group_of[other] == group)]
                for other in others:
                    gain = float(load[expert]) - (float(load[other]) if other >= 0 else 0.0)
                    peak = max(total[worst] - gain, total[group] + gain)
                    if gain > 0 and peak < total[worst] * (1 - 1e-12) and (best is None or peak < best[0]):
                        best = (peak, expert, group, other)
        if best is None:
            return group_of
        _, expert, group, other = best
        moved = float(load[expert]) - (float(load[other]) if other >= 0 else 0.0)
        total[worst] -= moved
        total[group] += moved
        group_of[expert] = group
        if other >= 0:
            group_of[other] = worst


def _ends(items: int, parts: int) -> list[int]:
    """Where each of ``parts`` blocks begins, and the end of the last."""
    each, more = divmod(items, parts)
    return [part * each + min(part, more) for part in range(parts + 1)]
