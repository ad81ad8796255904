"""Where a layer's time went: the stages of every token group, from the engine's task records.

Per group, in femtoseconds, adding up to its end minus the layer's start:

- ``gate``: from the layer's start to the instant at which the policy's decision takes effect: the gate's work in scopes
  ``moe`` and ``model``, in the latter also what precedes it outside the experts, and the declared cost of the decision.
- ``publish_wait``: waiting for a replica that is not published yet (only when recorded decisions are replayed), or for
  room within the tenant's queue quota at the chiplet.
- ``dispatch``: its activations on their way to the replica's chiplet, and the metadata before them.
- ``queue``: waiting there for the other groups of the same replica, and while the chiplet worked on other replicas,
  before or, where they return together, behind its own.
- ``memory``: waiting for weights, before the first tile and between tiles, with the chiplet free for it.
- ``compute``: the replica's work on all its tokens.
- ``gather``: its outputs on their way to the aggregator, or the all-reduce that sums them.
- ``combine``: from then until the weighted sum of its tokens is done there, before an all-reduce at its own chiplet;
  none in scope ``routed``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cosim.workload.lowering import LayerTasks

__all__ = ["STAGES", "group_stages"]

STAGES = ("gate", "dispatch", "queue", "memory", "compute", "gather", "combine", "publish_wait")


def group_stages(
    tasks: LayerTasks,
    records: dict[str, npt.NDArray[np.int64]],
    base: int,
    start_fs: int,
    effective_fs: int,
) -> dict[str, npt.NDArray[np.int64]]:
    """Stage times and end of every group, int64 femtoseconds, shape (groups,); keys are STAGES and ``end``.

    Args:
        tasks: the layer as it was lowered.
        records: columns of the finished tasks, task ids ascending and complete for this layer.
        base: id of the layer's first task.
        start_fs: when the layer began.
        effective_fs: when its tasks took effect.
    """
    row = np.searchsorted(records["task"], base + np.arange(tasks.tasks))
    ready, start, end = (records[name][row] for name in ("ready_fs", "start_fs", "end_fs"))
    waited, stalled = records["waited_fs"][row], records["stalled_fs"][row]

    groups = len(tasks.replica_of_group)
    fetch = tasks.fetch_of_replica[tasks.replica_of_group]
    compute = tasks.fetches + tasks.replica_of_group.astype(np.int64)
    travelled = tasks.dispatch_of_group >= 0
    # a group starts when its replica is there: at once, or behind the copy it waits for
    released = ready[fetch].copy()
    if not tasks.announced:
        released[travelled] = ready[tasks.dispatch_of_group[travelled]]
    arrived = np.where(travelled, end[tasks.dispatch_of_group], released)
    computed = end[compute]
    comes_back, combined = tasks.gather_of_group >= 0, tasks.combine_of_group >= 0
    summing = np.zeros(groups, dtype=np.int64)
    if tasks.combines_first:
        summing = np.where(combined, end[tasks.combine_of_group] - ready[tasks.combine_of_group], 0)
    sent = np.where(comes_back, ready[tasks.sent_of_group] - summing, computed)
    returned = np.where(comes_back, end[tasks.gather_of_group], computed)
    if not tasks.combines_first:
        summing = np.where(combined, end[tasks.combine_of_group] - returned, 0)
    gathering = returned - sent - (summing if tasks.combines_first else 0)
    finished = returned + (0 if tasks.combines_first else summing)
    return {
        "gate": np.full(groups, effective_fs - start_fs, dtype=np.int64),
        "dispatch": arrived - released,
        "queue": ready[compute] - arrived + waited[compute] + sent - computed,
        "memory": start[compute] - ready[compute] - waited[compute] + stalled[compute],
        "compute": computed - start[compute] - stalled[compute],
        "gather": gathering,
        "combine": summing,
        "publish_wait": released - effective_fs,
        "end": finished,
    }
