"""From token groups and their replicas to the tasks of one layer.

A layer becomes, for every token group, a dispatch to the chiplet of its replica and a gather back to its aggregator;
for every replica in use, one fetch of the expert's weights and one compute job that starts when all its groups have
arrived and works through the weights tile by tile; and one decision behind the last of them. Where the weights of a
replica are read once for its chiplet and its helpers, their fetches are one stream. Tokens that are already
where they are needed are not sent. Scope ``moe`` adds the gate before the routing, the shared experts as replicas at
every token's own chiplet, and a combine at every aggregator behind its last gather.
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
    from collections.abc import Callable, Mapping

__all__ = ["LayerTasks", "SharedReads", "WorkRates", "lower_layer"]

TRANSFER = int(TaskKind.transfer)
FETCH = int(TaskKind.fetch)
COMPUTE = int(TaskKind.compute)
DECISION = int(TaskKind.decision)
STREAM = int(TaskKind.stream)


@dataclass(frozen=True)
class WorkRates:
    """How long things compute.

    cycles_per_mac: cycles of the endpoint's clock per multiply-accumulate (two operations), exact, per endpoint.
    expert_bytes, shared_bytes: weights of one routed expert, and of a layer's shared experts, in whole bursts.
    experts: routed experts of a layer; the shared experts stand under this number.
    neurons: of a routed expert's hidden layer.
    expert_macs, shared_macs, gate_macs, combine_macs: multiply-accumulates of one token.
    """

    cycles_per_mac: Mapping[int, Fraction]
    experts: int
    neurons: int
    expert_bytes: int
    shared_bytes: int
    expert_macs: int
    shared_macs: int
    gate_macs: int
    combine_macs: int

    def cycles(self, endpoint: int, macs: int) -> int:
        """Whole cycles for ``macs`` multiply-accumulates, at least one."""
        exact = self.cycles_per_mac[endpoint] * macs
        return max(1, -(-exact.numerator // exact.denominator))

    def macs_of(self, expert: int) -> int:
        """Multiply-accumulates of one token in an expert, shared ones included."""
        return self.shared_macs if expert == self.experts else self.expert_macs

    def macs(self, expert: int, tokens: int, neurons: int) -> int:
        """Multiply-accumulates of tokens in a part of an expert's hidden layer, rounded up."""
        return -(-self.macs_of(expert) * tokens * neurons // self.neurons)


@dataclass(frozen=True)
class SharedReads:
    """That weights of a replica are read once for all endpoints that work on it.

    message_class: name of the class that brings them there. group_of: engine group of a set of endpoints. network_of:
    where given, network of every endpoint: a stream then waits until all tokens are dispatched that start or end in its
    network.
    """

    message_class: str
    group_of: Callable[[list[int]], int]
    network_of: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class LayerTasks:
    """Columns for the engine, and which task does what for which group.

    columns: one array per task field, tasks in the order fetch or stream, compute (per row in use), dispatch, gather,
        combine, decision. Streams come first, those of the most tokens before others.
    before, after: dependencies as task indices.
    replica_rows: directory row per replica in use, int32, shape (replicas,).
    fetch_of_replica: task that brings the weights, int64, shape (replicas,); a stream is that of several.
    replica_of_group: index into ``replica_rows``, int32, shape (groups,).
    dispatch_of_group, gather_of_group: task index, -1 where the tokens need not travel, int64, shape (groups,).
    combine_of_group: task index, -1 in scope ``routed``, int64, shape (groups,).
    The first fetch has index 0, the first compute ``fetches``.
    """

    columns: dict[str, npt.NDArray[np.generic]]
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    replica_rows: npt.NDArray[np.int32]
    fetch_of_replica: npt.NDArray[np.int64]
    replica_of_group: npt.NDArray[np.int32]
    dispatch_of_group: npt.NDArray[np.int64]
    gather_of_group: npt.NDArray[np.int64]
    combine_of_group: npt.NDArray[np.int64]
    tokens_of_replica: npt.NDArray[np.int64]

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.columns["kind"])

    @property
    def fetches(self) -> int:
        """Number of tasks that bring weights."""
        return int(self.fetch_of_replica.max()) + 1

    @property
    def streams(self) -> list[list[int]]:
        """Of every stream, in their order, the rows of ``replica_rows`` that it serves."""
        kinds = self.columns["kind"][: self.fetches]
        return [np.flatnonzero(self.fetch_of_replica == task).tolist() for task in np.flatnonzero(kinds == STREAM)]


def lower_layer(
    groups: npt.NDArray[np.void],
    assigned: npt.NDArray[np.int32],
    directory: Directory,
    rates: WorkRates,
    nodes: npt.NDArray[np.int32],
    classes: Mapping[str, int],
    decision_key: int,
    *,
    combine: bool = False,
    gather_bytes: npt.NDArray[np.int64] | None = None,
    waits: Mapping[int, int] | None = None,
    summed_tokens: npt.NDArray[np.int64] | None = None,
    shared_reads: SharedReads | None = None,
) -> LayerTasks:
    """Tasks of one layer.

    Args:
        groups: rows of :data:`cosim.workload.groups.GROUPS`; each token of an aggregator is in one group per expert, or
            in one per part of an expert that is split.
        assigned: directory row per group, of a whole replica or of a part.
        directory: published replicas.
        rates: compute time and weight sizes.
        nodes: engine node of each endpoint.
        classes: message class name → number; ``token`` and ``weight`` are used.
        decision_key: handed back when the layer is done.
        combine: whether aggregators sum up what their tokens' experts return (scope ``moe``).
        gather_bytes: what comes back of each group; as much as was sent if not given.
        summed_tokens: where a chiplet adds up what its experts return for one token before it sends the sum: of each
            group the tokens that no earlier group brings to its chiplet. There is then one gather per chiplet and
            aggregator, behind the last of their computations.
        waits: replica identity → task of an earlier submission that its fetch and its groups' dispatches wait for.
        shared_reads: of replicas that several endpoints work on; if not given, each reads for itself.
    """
    rows = directory.rows
    replica_rows, replica_of_group = np.unique(assigned, return_inverse=True)
    replica_of_group = replica_of_group.reshape(-1)
    replicas = len(replica_rows)
    chiplets = rows["chiplet"][replica_rows].astype(np.int64)
    tokens_of_replica = np.zeros(replicas, dtype=np.int64)
    np.add.at(tokens_of_replica, replica_of_group, groups["tokens"].astype(np.int64))

    target = chiplets[replica_of_group]
    dispatched = np.flatnonzero(groups["source"] != target)
    gathered = np.flatnonzero(groups["aggregator"] != target)
    returned_bytes = (groups["bytes"] if gather_bytes is None else gather_bytes).astype(np.int64)
    gather_of_gathered = np.arange(len(gathered))
    sent_back = gathered
    if summed_tokens is not None and len(gathered):
        sums = target[gathered] * (int(groups["aggregator"].max()) + 1) + groups["aggregator"][gathered]
        _, first, gather_of_gathered = np.unique(sums, return_index=True, return_inverse=True)
        gather_of_gathered = gather_of_gathered.reshape(-1)
        each = returned_bytes[gathered] // groups["tokens"][gathered]  # of one token
        sent_back = gathered[first]
        returned_bytes = returned_bytes.copy()
        returned_bytes[sent_back] = np.bincount(
            gather_of_gathered, weights=each * summed_tokens[gathered], minlength=len(first)
        ).astype(np.int64)
    aggregators, aggregator_of_group = np.unique(groups["aggregator"], return_inverse=True)
    aggregator_of_group = aggregator_of_group.reshape(-1)
    fetch_of_replica = _fetches(rows["replica"][replica_rows], tokens_of_replica, shared_reads is not None)
    fetches = int(fetch_of_replica.max()) + 1
    first_dispatch = fetches + replicas
    first_gather = first_dispatch + len(dispatched)
    first_combine = first_gather + len(sent_back)
    decision = first_combine + (len(aggregators) if combine else 0)
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

    kind[:fetches] = FETCH
    source[fetch_of_replica] = nodes[rows["memory"][replica_rows]]
    destination[fetch_of_replica] = nodes[chiplets]
    size[fetch_of_replica] = rows["bytes"][replica_rows]
    address[fetch_of_replica] = rows["address"][replica_rows]
    key[fetch_of_replica] = rows["replica"][replica_rows]
    message_class[:fetches] = classes["weight"]
    group = np.full(count, -1, dtype=np.int32)
    if shared_reads is not None:
        for task in np.flatnonzero(np.bincount(fetch_of_replica) > 1).tolist():
            kind[task], destination[task], key[task] = STREAM, -1, -1
            message_class[task] = classes[shared_reads.message_class]
            group[task] = shared_reads.group_of(chiplets[fetch_of_replica == task].tolist())

    compute = slice(fetches, first_dispatch)
    kind[compute] = COMPUTE
    source[compute] = nodes[chiplets]
    destination[compute] = nodes[chiplets]
    stream[compute] = fetch_of_replica
    experts = rows["expert"][replica_rows].tolist()
    neurons = rows["neurons"][replica_rows].tolist()
    cycles[compute] = [
        rates.cycles(chiplet, rates.macs(expert, tokens, part))
        for chiplet, expert, tokens, part in zip(
            chiplets.tolist(), experts, tokens_of_replica.tolist(), neurons, strict=True
        )
    ]

    sent = slice(first_dispatch, first_gather)
    kind[sent] = TRANSFER
    source[sent] = nodes[groups["source"][dispatched]]
    destination[sent] = nodes[target[dispatched]]
    size[sent] = groups["bytes"][dispatched]

    back = slice(first_gather, first_combine)
    kind[back] = TRANSFER
    source[back] = nodes[target[sent_back]]
    destination[back] = nodes[groups["aggregator"][sent_back]]
    size[back] = returned_bytes[sent_back]

    if combine:
        summed = slice(first_combine, decision)
        kind[summed] = COMPUTE
        source[summed] = destination[summed] = nodes[aggregators]
        # every (token, expert) pair is one term of the sum
        pairs = np.zeros(len(aggregators), dtype=np.int64)
        np.add.at(pairs, aggregator_of_group, groups["tokens"].astype(np.int64))
        cycles[summed] = [
            rates.cycles(aggregator, rates.combine_macs * terms)
            for aggregator, terms in zip(aggregators.tolist(), pairs.tolist(), strict=True)
        ]

    kind[decision] = DECISION
    key[decision] = decision_key

    dispatch_of_group = np.full(len(groups), -1, dtype=np.int64)
    dispatch_of_group[dispatched] = first_dispatch + np.arange(len(dispatched))
    gather_of_group = np.full(len(groups), -1, dtype=np.int64)
    gather_of_group[gathered] = first_gather + gather_of_gathered
    combine_of_group = np.full(len(groups), -1, dtype=np.int64)
    computing = fetches + replica_of_group.astype(np.int64)
    returned = np.where(gather_of_group >= 0, gather_of_group, computing)

    edges = [
        (dispatch_of_group[dispatched], computing[dispatched]),  # tokens → compute
        (computing[gathered], gather_of_group[gathered]),  # compute → gather
    ]
    if combine:
        combine_of_group = first_combine + aggregator_of_group.astype(np.int64)
        edges.append((returned, combine_of_group))  # every return → combine
        edges.append((np.arange(first_combine, decision), np.full(len(aggregators), decision)))
    else:
        edges.append((returned, np.full(len(groups), decision)))
    if shared_reads is not None and shared_reads.network_of is not None:
        network = shared_reads.network_of
        ends = network[groups["source"][dispatched]], network[target[dispatched]]
        for stream_task in np.flatnonzero(kind[:fetches] == STREAM).tolist():
            here = network[chiplets[fetch_of_replica == stream_task][0]]
            sent_first = dispatch_of_group[dispatched][(ends[0] == here) | (ends[1] == here)]
            edges.append((sent_first, np.full(len(sent_first), stream_task)))
    for position, row in enumerate(replica_rows):
        task = (waits or {}).get(int(rows["replica"][row]))
        if task is not None:
            held = np.array(
                [
                    fetch_of_replica[position],
                    *dispatch_of_group[(replica_of_group == position) & (dispatch_of_group >= 0)],
                ]
            )
            edges.append((np.full(len(held), -2 - task), held))
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
            "group": group,
        },
        before=np.concatenate([before for before, _ in edges]).astype(np.int64),
        after=np.concatenate([after for _, after in edges]).astype(np.int64),
        replica_rows=replica_rows.astype(np.int32),
        fetch_of_replica=fetch_of_replica,
        replica_of_group=replica_of_group.astype(np.int32),
        dispatch_of_group=dispatch_of_group,
        gather_of_group=gather_of_group,
        combine_of_group=combine_of_group,
        tokens_of_replica=tokens_of_replica,
    )


def _fetches(identity: npt.NDArray[np.integer], tokens: npt.NDArray[np.int64], shared: bool) -> npt.NDArray[np.int64]:
    """Fetch of every row in use: one each; where reads are shared, one for all rows of a replica, these first."""
    if not shared:
        return np.arange(len(identity), dtype=np.int64)
    first: dict[int, int] = {}
    for position, replica in enumerate(identity.tolist()):
        first.setdefault(replica, position)
    total = {replica: int(tokens[identity == replica].sum()) for replica in first}
    several = {replica: int((identity == replica).sum()) > 1 for replica in first}
    order = sorted(
        first, key=lambda replica: (0, -total[replica], first[replica]) if several[replica] else (1, 0, first[replica])
    )
    task = {replica: number for number, replica in enumerate(order)}
    return np.array([task[replica] for replica in identity.tolist()], dtype=np.int64)
