"""Who sums up what where the parts of split experts all-reduce among themselves before outputs are returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.workload.collectives import AllReduce, GroupReduce, ring_order
from cosim.workload.groups import first_tokens

if TYPE_CHECKING:
    from cosim.policy.directory import Directory
    from cosim.system.routes import Routes

__all__ = ["group_reduce"]


def group_reduce(
    ids: npt.NDArray[np.integer],
    homes: npt.NDArray[np.int32],
    groups: npt.NDArray[np.void],
    leg_group: npt.NDArray[np.int64],
    leg_row: npt.NDArray[np.int32],
    directory: Directory,
    routes: Routes,
    tenants: npt.NDArray[np.int16] | None = None,
    *,
    sum_bytes: int,
    merged: bool,
) -> GroupReduce:
    """One ring for every set of endpoints that holds the parts of some expert in use.

    A ring carries the partial sums of all tokens of its experts, of a token with several of them once where ``merged``.
    The sums of a token are returned by the member that is nearest to its aggregator, the first among equals.

    Args:
        ids, homes, tenants: as of :func:`cosim.workload.groups.token_groups`; groups: what it returned for them.
        leg_group, leg_row: as of :func:`cosim.workload.legs.legs_of`.
        sum_bytes: partial sums of one token.

    Returns:
        ``ring_of_group`` and ``returns`` have an entry per leg.
    """
    rows = directory.rows
    ring_of_leg = np.full(len(leg_group), -1, dtype=np.int64)
    returns = np.zeros(len(leg_group), dtype=bool)
    sets: dict[tuple[int, ...], int] = {}
    of_replica: dict[int, int] = {}
    leads = np.flatnonzero(rows["replica"][leg_row] == rows["part_of"][leg_row])
    for row in np.unique(leg_row[leads]).tolist():
        members = sorted(int(rows["chiplet"][part]) for part in directory.parts(row))
        if len(members) > 1:
            of_replica[int(rows["replica"][row])] = sets.setdefault(tuple(members), len(sets))
    nearest: dict[tuple[int, int], int] = {}
    ring_members = list(sets)
    for leg, (group, row) in enumerate(zip(leg_group.tolist(), leg_row.tolist(), strict=True)):
        ring = of_replica.get(int(rows["part_of"][row]), -1)
        if ring < 0:
            continue
        ring_of_leg[leg] = ring
        key = ring, int(groups["aggregator"][group])
        if key not in nearest:
            nearest[key] = min(ring_members[ring], key=lambda member: (routes.between(member, key[1]), member))
        returns[leg] = nearest[key] == int(rows["chiplet"][row])
    once = leads[ring_of_leg[leads] >= 0]  # of each token group in a ring its first leg
    if merged:
        counted = first_tokens(ids, homes, groups, leg_group[once], ring_of_leg[once].astype(np.int32), tenants)
    else:
        counted = groups["tokens"][leg_group[once]].astype(np.int64)
    tokens = np.bincount(ring_of_leg[once], weights=counted, minlength=len(sets)).astype(np.int64)
    rings = []
    for ring, members_of_ring in enumerate(ring_members):
        at = np.array(members_of_ring, dtype=np.int64)
        routers = routes.router[at]
        order = at[ring_order(routes.hops[np.ix_(routers, routers)])]
        rings.append(AllReduce(order, max(int(tokens[ring]) * sum_bytes, len(at))))
    return GroupReduce(rings, ring_of_leg, returns)
