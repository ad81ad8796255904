"""From token groups and their replicas to the tasks of one layer.

A layer becomes, for every token group, a dispatch to the chiplet of its replica and a gather back to its aggregator;
for every replica in use, one fetch of the expert's weights and one compute job that starts when all its groups have
arrived and works through the weights tile by tile; and one decision behind the last of them. Where the weights of a
replica are read once for its chiplet and its helpers, their fetches are one stream. Tokens that are already
where they are needed are not sent. Tokens may be sent once to a chiplet that several of their experts are on, behind
an all-to-all that tells it what comes; where every chiplet holds every token, a ring all-reduce stands in the place of
dispatch and gather. Scope ``moe`` adds the gate before the routing, the shared experts as replicas at every token's own
chiplet, and a combine at every aggregator behind its last gather, or before the all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim._core import TaskKind
from cosim.policy.directory import Directory
from cosim.workload.admission import QueueQuotas, holds
from cosim.workload.collectives import AllReduce, GroupReduce, Metadata, RingSteps, ring_steps
from cosim.workload.multicast import Multicasts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LayerTasks", "SharedReads", "WorkRates", "lower_layer"]

TRANSFER = int(TaskKind.transfer)
FETCH = int(TaskKind.fetch)
COMPUTE = int(TaskKind.compute)
DECISION = int(TaskKind.decision)
STREAM = int(TaskKind.stream)
DELAY = int(TaskKind.delay)

Edges = list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]


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
        each = self.cycles_per_mac[endpoint]
        return max(1, -(-each.numerator * macs // each.denominator))

    def slowed(self, rate: Fraction) -> WorkRates:
        """The same work at a share of every endpoint's rate."""
        return replace(self, cycles_per_mac={at: each / rate for at, each in self.cycles_per_mac.items()})

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
        combine, metadata or all-reduce, decision. Streams come first, those of the most tokens before others.
    before, after: dependencies as task indices.
    replica_rows: directory row per replica in use, int32, shape (replicas,).
    fetch_of_replica: task that brings the weights, int64, shape (replicas,); a stream is that of several.
    replica_of_group: index into ``replica_rows``, int32, shape (groups,).
    dispatch_of_group, gather_of_group: task index, -1 where the tokens need not travel, int64, shape (groups,). Several
        groups may share one. Of an all-reduce, the delay without length that ends it at the group's chiplet.
    sent_of_group: task that is ready when the group's outputs set out, -1 where they do not, int64, shape (groups,):
        the gather, or the start of the all-reduce at the group's chiplet.
    combine_of_group: task index, -1 in scope ``routed``, int64, shape (groups,).
    dispatch_bytes, gather_bytes: of all messages before and behind the computations.
    combines_first: whether the combine stands before the gather, an all-reduce.
    announced: whether dispatches wait for metadata, or are shared by several groups each.
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
    sent_of_group: npt.NDArray[np.int64]
    combine_of_group: npt.NDArray[np.int64]
    tokens_of_replica: npt.NDArray[np.int64]
    dispatch_bytes: int
    gather_bytes: int
    combines_first: bool = False
    announced: bool = False

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
    sent_tokens: npt.NDArray[np.int64] | None = None,
    metadata: Metadata | None = None,
    all_reduce: AllReduce | None = None,
    group_reduce: GroupReduce | None = None,
    shared_reads: SharedReads | None = None,
    quotas: QueueQuotas | None = None,
    multicast: Multicasts | None = None,
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
            aggregator, behind the last of their computations, of the widest numbers that are in it.
        sent_tokens: where a token is sent once to a chiplet however many of its experts are there: the same counts.
            There is then one dispatch per source and chiplet, before all of their computations.
        metadata: what endpoints tell each other first. A dispatch waits until its source has been told by all.
        all_reduce: where every chiplet holds every token before and after the layer, so that no group has a way to go:
            the collective that sums what the chiplets computed.
        group_reduce: where the parts of a split expert sum up among themselves, and one of them returns the sums.
        waits: replica identity → task of an earlier submission that its fetch and its groups' dispatches wait for.
        shared_reads: of replicas that several endpoints work on; if not given, each reads for itself.
        quotas: how many tokens of each tenant a chiplet holds at a time. Not where groups share their dispatches or
            endpoints their reads: what one chiplet holds back would keep another waiting.
        multicast: the messages in the place of the dispatches of single groups.
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
    ring_of_group = np.full(len(groups), -1, dtype=np.int64) if group_reduce is None else group_reduce.ring_of_group
    in_ring = ring_of_group >= 0
    goes_home = groups["aggregator"] != target
    if group_reduce is not None:
        goes_home &= ~in_ring | group_reduce.returns
    gathered = np.flatnonzero(goes_home)
    returned_bytes = (groups["bytes"] if gather_bytes is None else gather_bytes).astype(np.int64)
    out = _messages(groups, dispatched, groups["source"], target, groups["bytes"].astype(np.int64), sent_tokens)
    home = _messages(groups, gathered, target, groups["aggregator"], returned_bytes, summed_tokens)
    ring = None if all_reduce is None else ring_steps(all_reduce.order, all_reduce.size_bytes)
    if ring is not None and (len(dispatched) or len(gathered) or metadata is not None):
        raise ValueError("an all-reduce stands in the place of dispatch and gather: every token is at every chiplet")
    aggregators, aggregator_of_group = np.unique(groups["aggregator"], return_inverse=True)
    aggregator_of_group = aggregator_of_group.reshape(-1)
    fetch_of_replica = _fetches(rows["replica"][replica_rows], tokens_of_replica, shared_reads is not None)
    fetches = int(fetch_of_replica.max()) + 1
    first_dispatch = fetches + replicas
    arrivals = _Arrivals.of(out, dispatched, first_dispatch, multicast, groups)
    first_gather = first_dispatch + arrivals.tasks
    first_combine = first_gather + len(home.size_bytes)
    first_collective = first_combine + (len(aggregators) if combine else 0)
    collective = _collective(first_collective, metadata, ring)
    collectives = [collective]
    decision = first_collective + len(collective.kind)
    for among in () if group_reduce is None else group_reduce.rings:
        collectives.append(_ring(decision, ring_steps(among.order, among.size_bytes)))
        decision += len(collectives[-1].kind)
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

    if multicast is None:
        sent = slice(first_dispatch, first_gather)
        kind[sent] = TRANSFER
        source[sent] = nodes[groups["source"][out.first]]
        destination[sent] = nodes[target[out.first]]
        size[sent] = out.size_bytes
    else:
        kind[first_dispatch : first_gather - arrivals.joins] = TRANSFER
        kind[first_gather - arrivals.joins : first_gather] = DELAY
        token_bytes = int((groups["bytes"] // groups["tokens"]).max(initial=0))
        for number, targets in enumerate(multicast.targets):
            task = first_dispatch + number
            source[task] = nodes[multicast.source[number]]
            size[task] = multicast.tokens[number] * token_bytes
            if len(targets) == 1:
                destination[task] = nodes[targets[0]]
            else:
                group[task] = multicast.group_of(list(targets))
                message_class[task] = classes[multicast.message_class]

    back = slice(first_gather, first_combine)
    kind[back] = TRANSFER
    source[back] = nodes[target[home.first]]
    destination[back] = nodes[groups["aggregator"][home.first]]
    size[back] = home.size_bytes

    if combine:
        combines = slice(first_combine, first_collective)
        kind[combines] = COMPUTE
        source[combines] = destination[combines] = nodes[aggregators]
        # every (token, expert) pair is one term of the sum
        pairs = np.zeros(len(aggregators), dtype=np.int64)
        np.add.at(pairs, aggregator_of_group, groups["tokens"].astype(np.int64))
        cycles[combines] = [
            rates.cycles(aggregator, rates.combine_macs * terms)
            for aggregator, terms in zip(aggregators.tolist(), pairs.tolist(), strict=True)
        ]

    at = first_collective
    for each in collectives:
        extra = slice(at, at + len(each.kind))
        kind[extra] = each.kind
        moved = each.kind == TRANSFER
        source[extra][moved] = nodes[each.source[moved]]
        destination[extra][moved] = nodes[each.destination[moved]]
        size[extra] = each.size_bytes
        at = extra.stop

    kind[decision] = DECISION
    key[decision] = decision_key

    dispatch_of_group = np.full(len(groups), -1, dtype=np.int64)
    dispatch_of_group[dispatched] = arrivals.task_of_travelling
    computing = fetches + replica_of_group.astype(np.int64)
    summed, joined = computing.copy(), np.full(len(groups), -1, dtype=np.int64)
    gather_of_group = np.full(len(groups), -1, dtype=np.int64)
    for number, one in enumerate(collectives[1:]):
        mine = np.flatnonzero(ring_of_group == number)
        joined[mine], summed[mine] = one.of_endpoint(target[mine]), one.end_of_endpoint(target[mine])
    gather_of_group[in_ring] = summed[in_ring]
    gather_of_group[gathered] = first_gather + home.message
    sent_of_group = np.where(in_ring, joined, gather_of_group)
    combine_of_group = np.full(len(groups), -1, dtype=np.int64)
    returned = np.where(gather_of_group >= 0, gather_of_group, computing)

    edges: Edges = [
        (dispatch_of_group[dispatched], computing[dispatched]),  # tokens → compute
        (computing[in_ring], joined[in_ring]),  # compute → all-reduce of its group
        (summed[gathered], gather_of_group[gathered]),  # compute, or the end of that → gather
        *(edge for each in collectives for edge in each.edges),
        *arrivals.edges,
    ]
    if metadata is not None and len(out.first):
        told = collective.of_endpoint(groups["source"][out.first])
        edges.append((told, first_dispatch + np.arange(len(out.first), dtype=np.int64)))
    if combine:
        combine_of_group = first_combine + aggregator_of_group.astype(np.int64)
        edges.append((returned, combine_of_group))  # every return → combine
        returned = combine_of_group
    if all_reduce is not None:
        sent_of_group, gather_of_group = collective.of_endpoint(target), collective.end_of_endpoint(target)
        edges.append((returned, sent_of_group))
        edges.append((collective.ends, np.full(len(collective.ends), decision)))
    else:
        finished = np.unique(returned) if combine else returned
        edges.append((finished, np.full(len(finished), decision)))
    if shared_reads is not None and shared_reads.network_of is not None:
        network = shared_reads.network_of
        ends = network[groups["source"][dispatched]], network[target[dispatched]]
        for stream_task in np.flatnonzero(kind[:fetches] == STREAM).tolist():
            here = network[chiplets[fetch_of_replica == stream_task][0]]
            sent_first = dispatch_of_group[dispatched][(ends[0] == here) | (ends[1] == here)]
            edges.append((sent_first, np.full(len(sent_first), stream_task)))
    if quotas is not None:
        if any(shared is not None for shared in (sent_tokens, all_reduce, shared_reads, multicast)):
            raise ValueError("queue quotas hold back the dispatch of one group, at one chiplet, and its own read")
        held_back = holds(quotas, replica_of_group, groups, chiplets, rows["bytes"][replica_rows])
        for earlier, job, tenant in held_back.tokens.tolist():
            mine = (replica_of_group == job) & (groups["tenant"] == tenant)
            sent_out = dispatch_of_group[mine]
            waiting = np.where(sent_out >= 0, sent_out, fetches + job)  # those that are there already, with their job
            edges.append((np.full(len(waiting), fetches + earlier), waiting))
        for earlier, job in held_back.weights.tolist():
            edges.append((np.array([fetches + earlier]), fetch_of_replica[[job]]))
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
        sent_of_group=sent_of_group,
        combine_of_group=combine_of_group,
        tokens_of_replica=tokens_of_replica,
        dispatch_bytes=int(size[first_dispatch:first_gather].sum())
        + (0 if metadata is None else int(collective.size_bytes.sum())),
        gather_bytes=int(home.size_bytes.sum())
        + (0 if ring is None else int(collective.size_bytes.sum()))
        + sum(int(one.size_bytes.sum()) for one in collectives[1:]),
        combines_first=all_reduce is not None,
        announced=metadata is not None or multicast is not None,
    )


@dataclass(frozen=True, eq=False)
class _Messages:
    """Messages that token groups share: which one each group is in, the first group of each, and bytes."""

    message: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]


def _messages(
    groups: npt.NDArray[np.void],
    travelling: npt.NDArray[np.int64],
    near: npt.NDArray[np.integer],
    far: npt.NDArray[np.integer],
    size_bytes: npt.NDArray[np.int64],
    once: npt.NDArray[np.int64] | None,
) -> _Messages:
    """One message per group, or with ``once``, tokens of each that no other group counts, one per pair of ends (and
    tenant)."""
    if once is None or not len(travelling):
        return _Messages(np.arange(len(travelling), dtype=np.int64), travelling, size_bytes[travelling])
    pairs = near[travelling].astype(np.int64) * (int(far.max()) + 1) + far[travelling]
    pairs = pairs * (int(groups["tenant"].max()) + 1) + groups["tenant"][travelling]
    _, first, message = np.unique(pairs, return_index=True, return_inverse=True)
    message = message.reshape(-1)
    each = np.zeros(len(first), dtype=np.int64)  # of one token
    np.maximum.at(each, message, size_bytes[travelling] // groups["tokens"][travelling])
    tokens = np.bincount(message, weights=once[travelling], minlength=len(first)).astype(np.int64)
    return _Messages(message.astype(np.int64), travelling[first], each * tokens)


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """Tasks with which tokens arrive: messages, and behind them a delay without length where a group's come in several.

    task_of_travelling: of each group that travels, the task that ends when its last token is there.
    """

    tasks: int
    joins: int
    task_of_travelling: npt.NDArray[np.int64]
    edges: Edges

    @classmethod
    def of(
        cls,
        out: _Messages,
        travelling: npt.NDArray[np.int64],
        first: int,
        multicast: Multicasts | None,
        groups: npt.NDArray[np.void],
    ) -> _Arrivals:
        """Tasks from index ``first`` on."""
        if multicast is None:
            return cls(len(out.size_bytes), 0, first + out.message, [])
        messages = len(multicast.targets)
        carriers: list[list[int]] = [[] for _ in range(len(groups))]
        for message, leg in multicast.pairs.tolist():
            carriers[leg].append(first + message)
        task = np.zeros(len(travelling), dtype=np.int64)
        edges: Edges = []
        joins = 0
        for number, leg in enumerate(travelling.tolist()):
            task[number] = carriers[leg][0]
            if len(carriers[leg]) > 1:
                task[number] = first + messages + joins
                joins += 1
                edges.append((np.array(carriers[leg]), np.full(len(carriers[leg]), task[number])))
        return cls(messages + joins, joins, task, edges)


@dataclass(frozen=True, eq=False)
class _Collective:
    """Tasks of a collective: transfers between endpoints, and delays without length that join them at an endpoint.

    joins, ends: endpoint → delay that starts it (of an all-reduce) or ends it (of metadata), and that ends an
    all-reduce, as task indices; -1 elsewhere.
    """

    kind: npt.NDArray[np.uint8]
    source: npt.NDArray[np.int64]
    destination: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    edges: Edges
    join_at: npt.NDArray[np.int64]
    end_at: npt.NDArray[np.int64]

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Delays that end an all-reduce."""
        return self.end_at[self.end_at >= 0]

    def of_endpoint(self, endpoints: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """The joining delay of each endpoint."""
        found: npt.NDArray[np.int64] = self.join_at[endpoints]
        return found

    def end_of_endpoint(self, endpoints: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """The ending delay of each endpoint."""
        found: npt.NDArray[np.int64] = self.end_at[endpoints]
        return found


_NONE = np.zeros(0, dtype=np.int64)


def _collective(first: int, metadata: Metadata | None, ring: RingSteps | None) -> _Collective:
    """The tasks of a layer's collective, from index ``first`` on."""
    if metadata is not None:
        return _all_to_all(first, metadata)
    if ring is not None:
        return _ring(first, ring)
    return _Collective(_NONE.astype(np.uint8), _NONE, _NONE, _NONE, [], _NONE, _NONE)


def _all_to_all(first: int, metadata: Metadata) -> _Collective:
    members = metadata.endpoints
    count = len(members)
    source, target = np.nonzero(~np.eye(count, dtype=bool))
    # in each round a member turns to the next one farther on, so that not all begin with the same one
    order = np.lexsort((source, (target - source) % count))
    source, target = source[order], target[order]
    messages = np.arange(len(source), dtype=np.int64)
    told = len(source) + np.arange(count, dtype=np.int64)
    join_at = np.full(int(members.max()) + 1, -1, dtype=np.int64)
    join_at[members] = first + told
    return _Collective(
        np.concatenate([np.full(len(source), TRANSFER), np.full(count, DELAY)]).astype(np.uint8),
        np.concatenate([members[source], np.full(count, -1)]),
        np.concatenate([members[target], np.full(count, -1)]),
        np.concatenate([metadata.size_bytes[target], np.zeros(count, dtype=np.int64)]),
        [(first + messages, first + told[target])],
        join_at,
        np.full(len(join_at), -1, dtype=np.int64),
    )


def _ring(first: int, ring: RingSteps) -> _Collective:
    count, messages = ring.members, len(ring.source)
    order = ring.source[:count]
    place = np.arange(count, dtype=np.int64)
    join, end = first + place, first + count + messages + place
    sent = first + count
    edges: Edges = [(sent + ring.before, sent + ring.after)]
    for at in range(count):
        own, last = ring.reducing(at), ring.arriving(at)
        edges.append((np.full(len(own), join[at]), sent + own))
        edges.append((sent + last, np.full(len(last), end[at])))
        edges.append((join[at : at + 1], end[at : at + 1]))
    join_at = np.full(int(order.max()) + 1, -1, dtype=np.int64)
    end_at = join_at.copy()
    join_at[order], end_at[order] = join, end
    delay, none = np.full(count, DELAY), np.full(count, -1)
    return _Collective(
        np.concatenate([delay, np.full(messages, TRANSFER), delay]).astype(np.uint8),
        np.concatenate([none, ring.source, none]),
        np.concatenate([none, ring.destination, none]),
        np.concatenate([np.zeros(count), ring.size_bytes, np.zeros(count)]).astype(np.int64),
        edges,
        join_at,
        end_at,
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
