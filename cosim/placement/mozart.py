"""Offline placement of Mozart (arXiv 2603.07006): clusters by co-activation, clusters to chiplet groups of equal load.

1. Similarity of two experts is how often a token picks both over how often it picks either (Jaccard). Cluster centres
   are sampled farthest first: the hottest expert, then the one least similar to all centres so far. Experts join the
   centre they are most similar to, the closest pairs first, until a cluster is full. Clusters have equal size.
2. A binary program gives every chiplet group the same number of clusters so that the fullest group's load is least.

The paper prints neither the similarity nor the number of clusters; both are stated here, the latter is a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cosim.config.errors import ConfigErrors
from cosim.placement.shares import FloatArray, IntArray

__all__ = ["CoActivationGroups", "co_activation_groups", "farthest_point_clusters", "similarity"]


@dataclass(frozen=True, eq=False)
class CoActivationGroups:
    """Group of every expert, int64 (experts,); cluster of every expert; the program's size and how it ended.

    even: load of a group if all were equal. fullest: of the fullest group. inside: share of a token's pairs of experts
    that one group holds, in the profile.
    """

    group: IntArray
    cluster: IntArray
    binaries: int
    rows: int
    status: str
    gap: float
    nodes: int
    even: float
    fullest: float
    inside: float

    def __str__(self) -> str:
        return (
            f"{int(self.cluster.max()) + 1} clusters; program of {self.binaries} binaries, {self.rows} rows: "
            f"{self.status}, gap {self.gap:.2%}, {self.nodes} nodes; "
            f"fullest group {self.fullest / self.even:.3f} of even load; {self.inside:.1%} of co-active pairs together"
        )


def similarity(pairs: FloatArray, load: IntArray) -> FloatArray:
    """Tokens that pick both experts over those that pick either; float64 (experts, experts), 1 on the diagonal.

    Args:
        pairs: tokens that pick both, (experts, experts).
        load: tokens that pick each, (experts,).
    """
    either = load[:, None] + load[None, :] - pairs
    found = np.where(either > 0, pairs / np.maximum(either, 1), 0.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def farthest_point_clusters(near: FloatArray, load: IntArray, clusters: int) -> IntArray:
    """Clusters of equal size by farthest-point sampling; the cluster of every expert, int64 (experts,).

    Raises:
        ConfigErrors: clusters that do not divide the experts.
    """
    experts = len(near)
    if clusters < 1 or experts % clusters:
        raise ConfigErrors.single(
            f"clusters of equal size: a divisor of {experts} experts", str(clusters), path="clusters"
        )
    centres = [int(load.argmax())]
    closest = near[centres[0]].copy()
    while len(centres) < clusters:
        closest[centres] = np.inf
        centres.append(int(closest.argmin()))
        closest = np.minimum(np.where(np.isinf(closest), 1.0, np.maximum(closest, near[centres[-1]])), 1.0)
    cluster = np.full(experts, -1, dtype=np.int64)
    cluster[centres] = np.arange(clusters)
    room = np.full(clusters, experts // clusters - 1)
    offers = near[:, centres]
    order = np.lexsort(
        (np.tile(np.arange(clusters), experts), np.repeat(np.arange(experts), clusters), -offers.ravel())
    )
    for place in order.tolist():
        expert, number = divmod(place, clusters)
        if cluster[expert] < 0 and room[number]:
            cluster[expert] = number
            room[number] -= 1
    return cluster


def co_activation_groups(
    pairs: FloatArray,
    load: IntArray,
    groups: int,
    *,
    clusters_per_group: int = 4,
    gap: float = 0.0,
    node_limit: int = 1000,
) -> CoActivationGroups:
    """Groups one layer's experts.

    Args:
        pairs: tokens of the profile that pick both experts, (experts, experts).
        load: tokens that pick each, (experts,).
        groups: chiplet groups.
        clusters_per_group: clusters that each group holds.
        gap, node_limit: where HiGHS stops.

    Raises:
        ConfigErrors: groups times clusters that do not divide the experts; nothing found within the node limit.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]

    clusters = groups * clusters_per_group
    cluster = farthest_point_clusters(similarity(pairs, load), load, clusters)
    weight = np.bincount(cluster, weights=load, minlength=clusters)
    count = clusters * groups
    held = np.arange(count).reshape(clusters, groups)
    rows, low, high = [], [], []

    def row(columns: IntArray, values: FloatArray | float, least: float, most: float) -> None:
        line = np.zeros(count + 1)
        line[columns] = values
        rows.append(line)
        low.append(least)
        high.append(most)

    for number in range(clusters):
        row(held[number], 1.0, 1, 1)
    for group in range(groups):
        row(held[:, group], 1.0, clusters_per_group, clusters_per_group)
        row(np.append(held[:, group], count), np.append(weight, -1.0), -np.inf, 0)
    upper = np.append(np.ones(count), np.inf)
    for number in range(min(clusters, groups)):
        upper[held[number, number + 1 :]] = 0  # groups are alike: cluster n stands in one of the first n + 1
    answer: Any = milp(
        np.append(np.zeros(count), 1.0),
        integrality=np.append(np.ones(count), 0.0),
        bounds=Bounds(np.zeros(count + 1), upper),
        constraints=LinearConstraint(np.array(rows), np.array(low), np.array(high)),
        options={"node_limit": node_limit, "mip_rel_gap": gap},
    )
    if answer.x is None:
        raise ConfigErrors.single(
            "clusters to groups of equal load within the node limit", str(answer.message), path="mozart"
        )
    group_of = np.rint(np.asarray(answer.x)[:count].reshape(clusters, groups)).argmax(axis=1)
    group = group_of[cluster]
    total = np.bincount(group, weights=load, minlength=groups)
    same = group[:, None] == group[None, :]
    all_pairs = float(pairs.sum())
    return CoActivationGroups(
        np.asarray(group, dtype=np.int64),
        cluster,
        count,
        len(rows),
        {0: "optimal within the gap", 1: "node limit"}.get(int(answer.status), str(answer.message)),
        float(answer.mip_gap or 0.0),
        int(answer.mip_node_count or 0),
        float(load.sum()) / groups,
        float(total.max()),
        float(pairs[same].sum()) / all_pairs if all_pairs else 0.0,
    )
