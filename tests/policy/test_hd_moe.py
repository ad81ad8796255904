"""HD-MoE's online part: what a broadcast costs, which experts it is worth, who gets the tokens, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.policy import Directory, PreBroadcast, Profile, make_policy
from cosim.policy.base import ActionKind, GateState, Pressure, ResidencyAction, RoutedEvent
from cosim.policy.broadcast_cost import BroadcastCost
from cosim.policy.expert_priority import LoadPrediction, by_priority
from cosim.policy.hardware_aware_gating import HDAMoE
from cosim.policy.hd_moe import HDMoE
from cosim.policy.residency import BroadcastOrder, Residency
from cosim.policy.token_dispatch import BatchTokens, dispatched
from cosim.run.broadcast import FAN_OUT, broadcast_steps, broadcast_tree
from cosim.system import load_system, model
from cosim.workload.groups import token_groups, token_homes

MODEL = model("own-byte-moe")
SYSTEM = load_system("near-memory-4x4")
NODES = np.array([place.index for place in SYSTEM.compute_endpoints], dtype=np.int32)
SEEN = Profile(np.ones((8, 64), dtype=np.int64), np.zeros((7, 64, 64), dtype=np.int64), 100, (0, 1))
IDLE = Pressure(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), 0)
SIZE = 48 << 10


def hd_moe(**params: object) -> HDMoE:
    policy = make_policy("hd_moe", {"file": "hda-moe-hd-4x4", **params})
    assert isinstance(policy, HDMoE)
    return policy


def keeper(policy: HDMoE, **changes: Any) -> Residency:
    placed = policy.place(SYSTEM, MODEL, SEEN)
    arguments: dict[str, Any] = {
        "expert_bytes": SIZE,
        "alignment_bytes": 32 << 10,
        "layers": [0, 1],
        "max_replicas": policy.max_replicas,
        "budget_bytes": int(policy.replica_budget * 2 * MODEL.experts * SIZE),
        "burst_bytes": 128,
    }
    return Residency(SYSTEM, MODEL, placed, **{**arguments, **changes})


def everywhere(held: Residency, expert: int, layer: int = 0, chunk: int = 0) -> BroadcastOrder:
    order = held.broadcast(PreBroadcast(layer, expert, chunk))
    assert isinstance(order, BroadcastOrder)
    return order


# -- the cost of a broadcast


@settings(deadline=None, max_examples=60)
@given(st.integers(1_000, 10**9), st.integers(1, 8), st.integers(2, 100), st.floats(1e-9, 1e-6))
def test_no_chunk_is_cheaper_than_the_best(size: int, experts: int, nodes: int, alpha_s: float) -> None:
    cost = BroadcastCost(size, 50e9, nodes, alpha_s)

    def pipelined(chunk: float) -> float:
        steps = 2 * nodes**0.5
        return alpha_s * (steps + size / chunk) + experts / 50e9 * (size + chunk * steps)

    chunks = np.geomspace(1, size, 400)
    assert cost.seconds(experts) <= min(map(pipelined, chunks)) * (1 + 1e-9)
    chunk = cost.chunk_bytes(experts)
    if 1 < chunk < size:
        assert pipelined(chunk) == pytest.approx(cost.seconds(experts), rel=1e-2)


def test_a_window_covers_as_many_as_fit() -> None:
    cost = BroadcastCost(SIZE, 50e9, 32, 1e-7)
    # W / BW = 0.983 us, 2 alpha sqrt(32) = 1.131 us, 2 sqrt(2 sqrt(32) alpha W / BW) = 2.109 us
    assert cost.seconds(1) == pytest.approx(4.2236e-6, rel=1e-3)
    assert cost.affordable(4.2e-6, 5) == 0
    assert cost.affordable(4.3e-6, 5) == 1
    assert cost.affordable(1.0, 5) == 5
    assert cost.affordable(1.0, 0) == 0
    assert all(a < b for a, b in pairwise(cost.seconds(k) for k in range(1, 9)))


# -- prediction and priority


def test_loads_are_predicted_from_the_layer_before_and_add_up() -> None:
    transitions = np.zeros((1, 3, 3), dtype=np.int64)
    transitions[0, 0] = [1, 3, 0]
    prediction = LoadPrediction(np.array([[4, 4, 0], [1, 1, 2]]), transitions)
    # expert 0 is followed as the profile saw it, expert 2, which it never saw, by the layer's loads
    found = prediction.ahead(0, np.array([8, 0, 4]), 1)
    np.testing.assert_allclose(found, [2 + 1, 6 + 1, 2])
    np.testing.assert_allclose(prediction.ahead(1, np.array([4, 4, 4]), 0), [6, 6, 0])
    prediction.see(0, np.array([0, 0, 5]))
    np.testing.assert_allclose(prediction.ahead(1, np.array([4, 4, 4]), 0), [0, 0, 12])
    other = LoadPrediction(np.zeros((2, 3), dtype=np.int64), transitions)
    other.load(json.loads(json.dumps(prediction.save())))
    np.testing.assert_allclose(other.ahead(1, np.array([4, 4, 4]), 0), [0, 0, 12])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_priorities_against_looking_again_each_time(seed: int, most: int) -> None:
    draws = np.random.default_rng(seed)
    experts, nodes = 9, 4
    predicted = draws.integers(0, 20, experts).astype(np.float64)
    shares = np.zeros((experts, nodes))
    for expert in range(experts):
        on = draws.choice(nodes, draws.integers(1, 3), replace=False)
        shares[expert, on] = 1 / len(on)
    rates = draws.uniform(1, 2, nodes)
    left = set(range(experts))
    expected: list[int] = []
    for _ in range(most):
        loads = [sum(predicted[i] * shares[i, c] * rates[c] for i in left) for c in range(nodes)]
        busiest = max(range(nodes), key=lambda c: loads[c])
        priority = {i: predicted[i] * shares[i, busiest] for i in sorted(left)}
        best = max(priority, key=lambda i: priority[i], default=-1)
        if best < 0 or priority[best] == 0:
            break
        expected.append(best)
        left.remove(best)
    assert by_priority(predicted, shares, rates, most) == expected


# -- dispatch


HOT = (3, 40)


@pytest.fixture(scope="module")
def replicated() -> Directory:
    """Two experts of layer 0 are everywhere."""
    held = keeper(hd_moe(experts=3))
    for expert in HOT:
        for copy in everywhere(held, expert).copies:
            held.publish(copy.replica)
    return held.directory()


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), tokens=st.integers(1, 70))
def test_tokens_go_to_the_least_loaded_node_that_they_touch(replicated: Directory, seed: int, tokens: int) -> None:
    draws = np.random.default_rng(seed)
    directory, hot = replicated, HOT
    ids = np.array([draws.choice(64, 4, replace=False) for _ in range(tokens)])
    ids[ids == hot[0]] = -1
    ids[:, 0] = hot[0]
    ids[draws.random((tokens, 4)) < 0.1] = -1
    homes = token_homes(tokens, NODES)
    groups = token_groups(ids, homes, 0, MODEL.activation_bytes)
    seconds = np.zeros(len(SYSTEM.endpoints))
    seconds[NODES] = 1.0
    rows = directory.rows
    chosen = dispatched(groups, directory, BatchTokens(ids, homes), seconds, MODEL.moe_intermediate)
    assert (rows["expert"][chosen] == groups["expert"]).all()
    again = dispatched(groups, directory, BatchTokens(ids, homes), seconds, MODEL.moe_intermediate)
    assert (chosen == again).all()
    # loads and touched nodes by walking through the tokens
    load = dict.fromkeys(NODES.tolist(), 0.0)
    touched = {token: {int(homes[token])} for token in range(tokens)}
    for token in range(tokens):
        for expert in ids[token]:
            if expert < 0 or expert in hot:
                continue
            for part in directory.parts(int(directory.of(0, int(expert))[0])):
                load[int(rows["chiplet"][part])] += int(rows["neurons"][part]) / MODEL.moe_intermediate
                touched[token].add(int(rows["chiplet"][part]))
    for number in sorted(range(len(groups)), key=lambda n: (-int(groups["tokens"][n]), n)):
        if int(groups["expert"][number]) not in hot:
            continue
        members = [
            t for t in range(tokens) if homes[t] == groups["source"][number] and groups["expert"][number] in ids[t]
        ]
        common = set.intersection(*(touched[t] for t in members))
        at = int(rows["chiplet"][chosen[number]])
        assert at in common
        assert load[at] == pytest.approx(min(load[node] for node in common))
        load[at] += len(members)


def test_without_replicas_every_group_goes_home() -> None:
    policy = hd_moe()
    directory = keeper(policy).directory()
    ids = np.array([[0, 1], [2, 3]])
    homes = token_homes(2, NODES)
    groups = token_groups(ids, homes, 0, MODEL.activation_bytes)
    found = policy.assign(groups, directory, IDLE)
    assert found.tolist() == [int(directory.of(0, expert)[0]) for expert in groups["expert"]]


# -- the policy


def event(held: Residency, layer: int, time_fs: int, ids: np.ndarray[Any, Any], busy: int = 0) -> RoutedEvent:
    homes = token_homes(len(ids), NODES)
    groups = token_groups(ids, homes, layer, MODEL.activation_bytes)
    following = 1 - layer
    pressure = replace(IDLE, migration_bytes=busy)
    return RoutedEvent(time_fs, 0, layer, following, 0, groups, held.directory(), pressure, (), (), ids, homes)


IDS = np.array([[7, expert] for expert in range(8, 24)])


def test_the_rule_broadcasts_what_the_window_covers() -> None:
    us = 10**9
    policy = hd_moe(experts=4, chunks=False)
    held = keeper(policy)
    cost = BroadcastCost(MODEL.expert_bytes, 50e9, 16, 1e-7)
    assert policy.on_routed(event(held, 0, 0, IDS)) == []  # it has seen no window yet
    window = int(cost.seconds(2) * 1e15) + us // 100
    found = policy.on_routed(event(held, 1, window, IDS))
    assert [type(action) for action in found] == [PreBroadcast, PreBroadcast]
    assert all(isinstance(action, PreBroadcast) and action.layer == 0 for action in found)
    assert isinstance(found[0], PreBroadcast)
    assert found[0].expert == 7
    short = hd_moe(experts=4)
    short.place(SYSTEM, MODEL, SEEN)
    short.on_routed(event(held, 0, 0, IDS))
    assert short.on_routed(event(held, 1, int(cost.seconds(1) * 0.99e15), IDS)) == []


def test_slots_are_not_given_twice_and_come_back_behind_the_layer() -> None:
    policy = hd_moe(pre_broadcast="always", experts=1)
    held = keeper(policy)
    (asked,) = policy.on_routed(event(held, 0, 0, IDS))
    assert isinstance(asked, PreBroadcast)
    order = held.broadcast(asked)
    assert isinstance(order, BroadcastOrder)
    assert policy.on_routed(event(held, 1, 10, IDS, busy=1)) == []  # under way
    for copy in order.copies:
        held.publish(copy.replica)
    assert policy.on_routed(event(held, 0, 20, IDS)) == []  # of layer 1, which has not run since
    assert policy.on_routed(event(held, 1, 30, IDS)) == []  # it serves this layer
    state = json.loads(json.dumps(policy.save()))
    actions = policy.on_routed(event(held, 0, 40, IDS))
    evicted = [action for action in actions if isinstance(action, ResidencyAction)]
    assert [action.replica for action in evicted] == [copy.replica for copy in order.copies]
    assert all(action.kind is ActionKind.evict and action.layer == 1 for action in evicted)
    assert isinstance(actions[-1], PreBroadcast)
    other = hd_moe(pre_broadcast="always", experts=1)
    other.place(SYSTEM, MODEL, SEEN)
    other.load(state)
    assert other.on_routed(event(held, 0, 40, IDS)) == actions


def test_off_asks_for_nothing() -> None:
    policy = hd_moe(pre_broadcast="off")
    held = keeper(policy)
    assert (policy.max_replicas, policy.replica_budget) == (1, 1.0)
    assert list(policy.on_routed(event(held, 0, 0, IDS))) == []


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"pre_broadcast": "sometimes"}, "cost_aware"),
        ({"experts": 0}, "greater than or equal to 1"),
        ({"alpha": 1e-7}, "a time"),
        ({"chunk": True}, "chunks"),
    ],
)
def test_wrong_parameters(params: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigErrors, match=text):
        hd_moe(**params)


# -- what the keeper of replicas allows


def split_and_whole(directory: Directory) -> tuple[int, int]:
    """An expert of layer 1 in parts, and one that is whole."""
    parts = {expert: len(directory.parts(int(directory.of(1, expert)[0]))) for expert in range(64)}
    return max(parts, key=lambda e: parts[e]), min(parts, key=lambda e: parts[e])


def test_a_broadcast_is_to_all_or_none() -> None:
    policy = hd_moe(experts=2)
    held = keeper(policy)
    split, whole = split_and_whole(held.directory())
    order = everywhere(held, whole, 1)
    home = held.directory().rows[held.directory().of(1, whole)[0]]
    assert sorted(c.action.chiplet for c in order.copies) == sorted(set(NODES.tolist()) - {int(home["chiplet"])})
    assert len(everywhere(held, split, 1).copies) == len(NODES)
    used = {key: allocator.used_bytes for key, allocator in held.allocators.items()}
    refused = held.broadcast(PreBroadcast(1, whole))
    assert refused == "every endpoint has a whole replica of it"
    held._budget_bytes = held._held_bytes() + 14 * SIZE
    assert "exceed the budget" in str(held.broadcast(PreBroadcast(1, whole + 1)))
    assert used == {key: allocator.used_bytes for key, allocator in held.allocators.items()}
    for copy in order.copies:
        held.publish(copy.replica)
    assert len(held.directory().of(1, whole)) == len(NODES)
    few = keeper(policy, max_replicas=3)
    assert "of at most 3" in str(few.broadcast(PreBroadcast(1, whole)))
    assert few.next_identity == keeper(policy).next_identity


def test_a_broadcast_without_room_takes_nothing() -> None:
    policy = hd_moe(experts=2)
    held = keeper(policy)
    last = max(key for key in held.allocators)
    allocator = held.allocators[last]
    while allocator.take(32 << 10) is not None:
        pass
    before = {key: one.used_bytes for key, one in held.allocators.items()}
    identity = held.next_identity
    assert "0 B free in tier dram" in str(held.broadcast(PreBroadcast(0, 5)))
    assert before == {key: one.used_bytes for key, one in held.allocators.items()}
    assert held.next_identity == identity
    assert held.pending == {}
    assert (held.directory().rows["in_flight"] == 0).all()
    # what was recorded elsewhere takes its identities all the same, so that later ones mean the same
    held.broadcast(PreBroadcast(0, 5), recorded=True)
    assert held.next_identity == identity + len(NODES) - 1


# -- the tree


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 40), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_a_tree_reaches_everyone(members: int, fan_out: int, seed: int) -> None:
    at = np.random.default_rng(seed).integers(0, 8, (members, 2))
    hops = np.abs(at[:, None] - at[None]).sum(axis=2)
    parent = broadcast_tree(hops, fan_out)
    assert parent[0] == 0
    assert np.bincount(parent[1:], minlength=members).max() <= fan_out
    for member in range(members):
        way = [member]
        while way[-1]:
            way.append(int(parent[way[-1]]))
            assert len(way) <= members


@pytest.mark.parametrize("chunk", [0, 5000, 1 << 20])
@pytest.mark.parametrize("which", [0, 1])
def test_every_byte_comes_once_to_everyone_behind_its_giver(chunk: int, which: int) -> None:
    held = keeper(hd_moe())
    expert = split_and_whole(held.directory())[which]
    lead = int(held.directory().of(1, expert)[0])
    parts = held.directory().rows[held.directory().parts(lead)]
    order = everywhere(held, expert, 1, chunk)
    assert order.chunk_bytes == -(-chunk // 128) * 128
    steps = broadcast_steps(SYSTEM.routes, order)
    assert (steps.address % 128 == 0).all()
    assert (steps.to_address % 128 == 0).all()
    waits = dict(zip(steps.after.tolist(), steps.before.tolist(), strict=True))
    own = {int(row["memory"]): int(row["bytes"]) for row in parts}
    for copy in order.copies:
        mine = np.flatnonzero((steps.destination == copy.to_memory) & (steps.to_address >= copy.to_address))
        mine = mine[steps.to_address[mine] < copy.to_address + SIZE]
        filled = sorted((int(steps.to_address[i]) - copy.to_address, int(steps.bytes[i])) for i in mine)
        assert sum(size for _, size in filled) == SIZE - own.get(copy.to_memory, 0)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(filled))
    home = {(int(row["memory"]), int(row["address"])): int(row["bytes"]) for row in parts}
    senders: dict[int, set[int]] = {}
    for i in range(len(steps.bytes)):
        giver = int(steps.source[i])
        senders.setdefault(giver, set()).add(int(steps.destination[i]))
        if i in waits:  # it passes on what it was given: the same bytes, from where they were written
            before = waits[i]
            assert int(steps.destination[before]) == giver
            assert int(steps.to_address[before]) == int(steps.address[i])
            assert int(steps.bytes[before]) == int(steps.bytes[i])
        else:
            assert any(
                giver == memory and address <= int(steps.address[i]) < address + size
                for (memory, address), size in home.items()
            )
    if chunk:
        assert max(map(len, senders.values())) <= FAN_OUT * len(parts)


# -- the gate beside it


def test_a_gate_sees_what_has_been_broadcast_where_the_token_is() -> None:
    policy = make_policy("hda_moe", {"file": "hda-moe-hd-4x4", "experts": 3, "r_comp": -1e6, "r_comm": -0.5})
    assert isinstance(policy, HDAMoE)
    held = keeper(policy)
    for copy in everywhere(held, HOT[0]).copies:
        held.publish(copy.replica)
    directory = held.directory()
    rows = directory.rows
    draws = np.random.default_rng(5)
    scores = draws.random((12, 64))
    recorded = np.argsort(-scores, axis=1)[:, :4]
    state = GateState(0, 0, recorded, token_homes(12, NODES), directory, IDLE)
    adjusted = policy.gate(scores, state)
    nodes = {
        expert: {int(rows["chiplet"][p]) for lead in directory.of(0, expert) for p in directory.parts(int(lead))}
        for expert in range(64)
    }
    seconds = dict.fromkeys(NODES.tolist(), 0.0)
    each = 2 * MODEL.expert_macs_per_token / 5e12
    for expert in recorded.ravel().tolist():
        replicas = directory.of(0, expert)
        for lead in replicas:
            for part in directory.parts(int(lead)):
                share = int(rows["neurons"][part]) / MODEL.moe_intermediate / len(replicas)
                seconds[int(rows["chiplet"][part])] += share * each
    for token in range(12):
        best = nodes[int(np.argmax(scores[token]))]
        for expert in range(64):
            copied = expert == HOT[0]
            compute = (min if copied else max)(seconds[node] for node in nodes[expert])
            beyond = 0 if copied else len(nodes[expert] - best)
            expected = scores[token, expert] - 1e6 * compute - 0.5 * beyond
            assert adjusted[token, expert] == pytest.approx(expected)
