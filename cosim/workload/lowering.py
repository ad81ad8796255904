"""From token groups and their replicas to the tasks of one layer.

One layer of scope ``routed`` becomes, for every token group, a dispatch to the chiplet of its replica and a gather back
to its aggregator; for every replica in use, one fetch of the expert's weights and one compute job that starts when all
its groups have arrived and works through the weights tile by tile; and one decision behind the last gather. Tokens that
are already where they are needed are not sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim._core import TaskKind
from cosim.policy.directory import Directory

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LayerTasks", "WorkRates", "lower_layer"]

TRANSFER = int(TaskKind.transfer)
FETCH = int(TaskKind.fetch)
COMPUTE = int(TaskKind.compute)
DECISION = int(TaskKind.decision)


@dataclass(frozen=True)
class WorkRates:
    """How long an expert computes.

    cycles_per_token: cycles of the endpoint's clock that one token takes in one expert, exact, per endpoint.
    expert_bytes: weights of one expert, a whole number of bursts.
    """

    cycles_per_token: Mapping[int, Fraction]
    expert_bytes: int

    def cycles(self, endpoint: int, tokens: int) -> int:
        """Whole cycles for ``tokens`` tokens, at least one."""
        exact = self.cycles_per_token[endpoint] * tokens
        return max(1, -(-exact.numerator // exact.denominator))


@dataclass(frozen=True)
class LayerTasks:
    """Columns for the engine, and which task does what for which group.

    columns: one array per task field, tasks in the order fetch, compute (both per replica in use), dispatch, gather,
        decision.
    before, after: dependencies as task indices.
    replica_rows: directory row per replica in use, int32, shape (replicas,).
    replica_of_group: index into ``replica_rows``, int32, shape (groups,).
    dispatch_of_group, gather_of_group: task index, -1 where the tokens need not travel, int64, shape (groups,).
    fetches: index of the first fetch is 0; of the first compute is ``len(replica_rows)``.
    """

    columns: dict[str, npt.NDArray[np.generic]]
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    replica_rows: npt.NDArray[np.int32]
    replica_of_group: npt.NDArray[np.int32]
    dispatch_of_group: npt.NDArray[np.int64]
    gather_of_group: npt.NDArray[np.int64]
    tokens_of_replica: npt.NDArray[np.int64]

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.columns["kind"])


def lower_layer(
    groups: npt.NDArray[np.void],
    assigned: npt.NDArray[np.int32],
    directory: Directory,
    rates: WorkRates,
    nodes: npt.NDArray[np.int32],
    classes: Mapping[str, int],
    decision_key: int,
) -> LayerTasks:
    """Tasks of one layer.

    Args:
        groups: rows of :data:`cosim.workload.groups.GROUPS`.
        assigned: directory row per group.
        directory: published replicas.
        rates: compute time and weight size.
        nodes: engine node of each endpoint.
        classes: message class name → number; ``token`` and ``weight`` are used.
        decision_key: handed back when the layer is done.
    """
    rows = directory.rows
    replica_rows, replica_of_group = np.unique(assigned, return_inverse=True)
    replicas = len(replica_rows)
    chiplets = rows["chiplet"][replica_rows].astype(np.int64)
    tokens_of_replica = np.zeros(replicas, dtype=np.int64)
    np.add.at(tokens_of_replica, replica_of_group, groups["tokens"].astype(np.int64))

    target = chiplets[replica_of_group]
    dispatched = np.flatnonzero(groups["source"] != target)
    gathered = np.flatnonzero(groups["aggregator"] != target)
    first_dispatch = 2 * replicas
    first_gather = first_dispatch + len(dispatched)
    decision = first_gather + len(gathered)
    count = decision + 1

    kind = np.empty(count, dtype=np.uint8)
    source = np.full(count, -1, dtype=np.int32)
    destination = np.full(count, -1, dtype=np.int32)
    size = np.zeros(count, dtype=np.int64)
    address = np.zeros(count, dtype=np.int64)
    cycles = np.zeros(count, dtype=np.int64)
    stream = np.full(count, -1, dtype=np.int64)
    key = np.full(count, -1, dtype=np.int64)
    message_class = np.full(count, classes["token"], dtype=np.uint8)

    fetch = slice(0, replicas)
    kind[fetch] = FETCH
    source[fetch] = nodes[rows["memory"][replica_rows]]
    destination[fetch] = nodes[chiplets]
    size[fetch] = rates.expert_bytes
    address[fetch] = rows["address"][replica_rows]
    key[fetch] = rows["replica"][replica_rows]
    message_class[fetch] = classes["weight"]

    compute = slice(replicas, 2 * replicas)
    kind[compute] = COMPUTE
    source[compute] = nodes[chiplets]
    destination[compute] = nodes[chiplets]
    stream[compute] = np.arange(replicas)
    cycles[compute] = [rates.cycles(int(c), int(n)) for c, n in zip(chiplets, tokens_of_replica, strict=True)]

    sent = slice(first_dispatch, first_gather)
    kind[sent] = TRANSFER
    source[sent] = nodes[groups["source"][dispatched]]
    destination[sent] = nodes[target[dispatched]]
    size[sent] = groups["bytes"][dispatched]

    back = slice(first_gather, decision)
    kind[back] = TRANSFER
    source[back] = nodes[target[gathered]]
    destination[back] = nodes[groups["aggregator"][gathered]]
    size[back] = groups["bytes"][gathered]

    kind[decision] = DECISION
    key[decision] = decision_key

    dispatch_of_group = np.full(len(groups), -1, dtype=np.int64)
    dispatch_of_group[dispatched] = first_dispatch + np.arange(len(dispatched))
    gather_of_group = np.full(len(groups), -1, dtype=np.int64)
    gather_of_group[gathered] = first_gather + np.arange(len(gathered))

    computing = replicas + replica_of_group.astype(np.int64)
    before = np.concatenate(
        [
            dispatch_of_group[dispatched],  # tokens → compute
            computing[gathered],  # compute → gather
            gather_of_group[gathered],  # gather → layer done
            np.arange(replicas, 2 * replicas),  # compute → layer done
        ]
    )
    after = np.concatenate(
        [
            computing[dispatched],
            gather_of_group[gathered],
            np.full(len(gathered), decision),
            np.full(replicas, decision),
        ]
    )
    return LayerTasks(
        columns={
            "kind": kind,
            "message_class": message_class,
            "source": source,
            "destination": destination,
            "bytes": size,
            "address": address,
            "cycles": cycles,
            "stream": stream,
            "key": key,
        },
        before=before.astype(np.int64),
        after=after.astype(np.int64),
        replica_rows=replica_rows.astype(np.int32),
        replica_of_group=replica_of_group.astype(np.int32),
        dispatch_of_group=dispatch_of_group,
        gather_of_group=gather_of_group,
        tokens_of_replica=tokens_of_replica,
    )
