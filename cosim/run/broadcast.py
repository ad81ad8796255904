"""A broadcast as steps of copies: who passes which bytes on to whom, along a tree of near neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cosim.policy.residency import BroadcastOrder
    from cosim.system.routes import Routes

__all__ = ["FAN_OUT", "BroadcastSteps", "broadcast_steps", "broadcast_tree"]

IntArray = npt.NDArray[np.int64]

FAN_OUT = 2
"""Endpoints that one passes a chunk on to. A port sends to one after the other, so more would slow the stream."""


@dataclass(frozen=True, eq=False)
class BroadcastSteps:
    """Copies between memory endpoints, int64, shape (copies,), and which of them (before) another (after) waits for."""

    source: IntArray
    destination: IntArray
    address: IntArray
    to_address: IntArray
    bytes: IntArray
    before: IntArray
    after: IntArray


def broadcast_tree(hops: npt.NDArray[np.integer], fan_out: int = FAN_OUT) -> IntArray:
    """The member that each gets the weights from; the first one is the root and its own.

    The nearest member joins next, at the one it is nearest to that has fewer than ``fan_out`` children, among equals
    the one fewest steps behind the root, then the first.

    Args:
        hops: links from each member (row) to each other, shape (members, members).
    """
    count = len(hops)
    parent = np.zeros(count, dtype=np.int64)
    depth = np.zeros(count, dtype=np.int64)
    children = np.zeros(count, dtype=np.int64)
    joined = np.zeros(count, dtype=bool)
    joined[0] = True
    far = np.int64(1) << 40
    for _ in range(count - 1):
        cost = (hops.astype(np.int64) * count + depth[:, None]) * count + np.arange(count)[:, None]
        cost = np.where((joined & (children < fan_out))[:, None] & ~joined[None, :], cost, far)
        at, new = divmod(int(np.argmin(cost)), count)
        parent[new], depth[new] = at, depth[at] + 1
        children[at] += 1
        joined[new] = True
    return parent


def broadcast_steps(routes: Routes, order: BroadcastOrder) -> BroadcastSteps:
    """The copies of a broadcast: of each part of the expert, to every endpoint that does not hold it.

    With chunks a copy waits for the same chunk at the endpoint that it is read from; without, all are read at the part.
    """
    columns: dict[str, list[int]] = {name: [] for name in BroadcastSteps.__dataclass_fields__}
    for memory, address, offset, size in order.parts:
        targets = [copy for copy in order.copies if copy.to_memory != memory]
        at = np.array([memory, *(copy.to_memory for copy in targets)], dtype=np.int64)
        first = [address, *(copy.to_address + offset for copy in targets)]
        chunk = order.chunk_bytes or size
        if order.chunk_bytes:
            routers = routes.router[at]
            parent = broadcast_tree(routes.hops[np.ix_(routers, routers)])
        else:
            parent = np.zeros(len(at), dtype=np.int64)
        starts = range(0, size, chunk)
        base = len(columns["bytes"])
        for member in range(1, len(at)):
            giver = int(parent[member])
            for number, start in enumerate(starts):
                columns["source"].append(int(at[giver]))
                columns["destination"].append(int(at[member]))
                columns["address"].append(first[giver] + start)
                columns["to_address"].append(first[member] + start)
                columns["bytes"].append(min(chunk, size - start))
                if giver:
                    columns["before"].append(base + (giver - 1) * len(starts) + number)
                    columns["after"].append(base + (member - 1) * len(starts) + number)
    return BroadcastSteps(**{name: np.array(values, dtype=np.int64) for name, values in columns.items()})
