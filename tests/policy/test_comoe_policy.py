"""CoMoE-Chip's policies: never another expert, never above capacity, credits, determinism, every switch."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.policy import Policy, Prefetch, Pressure, Profile, Revoke, make_policy
from cosim.policy.base import ActionKind, PrefetchState, ResidencyAction, RoutedEvent, WindowState
from cosim.policy.directory import NEAR_MEMORY
from cosim.policy.residency import Residency
from cosim.policy.resident_pages import page_slots
from cosim.system import System, load_system, model
from cosim.workload.groups import token_groups, token_homes

MODEL = model("comoe-chip").model_copy(update={"moe_layers": 3, "layers": 3})
SYSTEM: System = load_system("comoe-package", ["tiers.pages.capacity=48 MiB"])  # 12 pages a chiplet: 4 of each layer
CHIPLETS = np.array([place.index for place in SYSTEM.compute_endpoints], dtype=np.int32)
LAYERS = 3
SWITCHES = [
    {},
    {"transition_graph": False},
    {"bounded_replicas": False},
    {"congestion_map": False},
    {"credits": False},
    {"two_timescales": False},
    {"sub_batches": 1, "gain": "popularity", "reduction": False},
]


def pressure(link: float = 0.0) -> Pressure:
    endpoints = len(SYSTEM.endpoints)
    links = np.full(len(SYSTEM.links), link)
    return Pressure(np.zeros(endpoints), links, np.zeros(endpoints), np.zeros(endpoints), 0)


def routing(seed: int, tokens: int = 64) -> np.ndarray:
    """ids of three layers: expert e is followed by e + 1, most of the time."""
    generator = np.random.default_rng(seed)
    weight = np.arange(1, 65) ** -1.1
    first = np.stack([generator.choice(64, 2, replace=False, p=weight / weight.sum()) for _ in range(tokens)])
    ids = [first]
    for _ in range(LAYERS - 1):
        kept = generator.random((tokens, 1)) < 0.9
        other = np.stack([generator.choice(64, 2, replace=False) for _ in range(tokens)])
        ids.append(np.where(kept, (ids[-1] + 1) % 64, other))
    return np.stack(ids, axis=1)


def profile(seed: int) -> Profile:
    ids = routing(seed, 400)
    counts = np.stack([np.bincount(ids[:, layer].ravel(), minlength=64) for layer in range(LAYERS)])
    transitions = np.zeros((LAYERS - 1, 64, 64), dtype=np.int64)
    for layer in range(LAYERS - 1):
        for one in range(2):
            for two in range(2):
                np.add.at(transitions[layer], (ids[:, layer, one], ids[:, layer + 1, two]), 1)
    return Profile(counts.astype(np.int64), transitions, 400)


def keeper(policy: Policy, seen: Profile) -> Residency:
    return Residency(
        SYSTEM,
        MODEL,
        policy.place(SYSTEM, MODEL, seen),
        expert_bytes=MODEL.expert_bytes,
        alignment_bytes=4096,
        layers=range(LAYERS),
        max_replicas=policy.max_replicas,
        budget_bytes=int(policy.replica_budget * LAYERS * 64 * MODEL.expert_bytes),
    )


def event(ids: np.ndarray, layer: int, residency: Residency, held: list[PrefetchState], link: float) -> RoutedEvent:
    groups = token_groups(ids[:, layer], token_homes(len(ids), CHIPLETS), layer, MODEL.activation_bytes)
    following = layer + 1 if layer + 1 < LAYERS else 0
    batch = 0 if layer + 1 < LAYERS else 1
    return RoutedEvent(
        0, 0, layer, following, batch, groups, residency.directory(), pressure(link), held, (), ids[:, layer]
    )


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(SWITCHES), st.integers(0, 200), st.integers(1, 64), st.sampled_from([0.0, 0.5, 0.99]))
def test_groups_go_to_replicas_of_their_own_expert(
    params: dict[str, object], seed: int, tokens: int, link: float
) -> None:
    policy = make_policy("comoe", params)
    residency = keeper(policy, profile(seed))
    ids = routing(seed + 1, tokens)
    for layer in range(LAYERS):
        routed = event(ids, layer, residency, [], link)
        policy.on_routed(routed)
        rows = policy.assign(routed.groups, routed.directory, routed.pressure)
        table = routed.directory.rows
        assert rows.dtype == np.int32
        assert (table["expert"][rows] == routed.groups["expert"]).all()
        assert (table["layer"][rows] == layer).all()
        assert np.array_equal(rows, policy.assign(routed.groups, routed.directory, routed.pressure))
        if link > 0.95:  # overload: the static directory
            homes = {e: int(table["chiplet"][routed.directory.of(layer, e)[0]]) for e in range(64)}
            assert [homes[e] for e in routed.groups["expert"].tolist()] == table["chiplet"][rows].tolist()


@pytest.mark.parametrize("name", ["static", "hot_replication", "transition_prefetch", "comoe"])
def test_pages_stay_within_the_capacity_that_all_policies_share(name: str) -> None:
    policy = make_policy(name, {"resident": "profile"})
    rows = keeper(policy, profile(3)).directory().rows
    near = rows[rows["executes_at"] == NEAR_MEMORY]
    per_chiplet = np.bincount(near["chiplet"] * LAYERS + near["layer"])
    slots = page_slots(SYSTEM, MODEL)
    assert slots is not None
    assert slots.per_layer == 4
    assert per_chiplet.max() == 4
    assert len(near) == 4 * 8 * LAYERS  # and all of it is used
    homes = rows[rows["executes_at"] != NEAR_MEMORY]
    assert len(homes) == 64 * LAYERS


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 100), st.integers(1, 3))
def test_prefetches_keep_their_credits(seed: int, pages: int) -> None:
    policy = make_policy("comoe", {"pages_per_chiplet": pages})
    residency = keeper(policy, profile(seed))
    ids = routing(seed + 1)
    held: list[PrefetchState] = []
    for layer in range(LAYERS):
        routed = event(ids, layer, residency, held, 0.0)
        actions = policy.on_routed(routed)
        revoked = {action.prefetch for action in actions if isinstance(action, Revoke)}
        wanted = set(routed.groups["expert"].tolist())
        assert revoked == {state.prefetch for state in held if state.expert not in wanted}
        held = []
        for action in actions:
            if isinstance(action, Prefetch):
                assert action.layer == layer + 1
                rows = routed.directory.of(action.layer, action.expert)
                assert not (routed.directory.rows["executes_at"][rows] == NEAR_MEMORY).any()
                assert action.chiplet in routed.directory.rows["chiplet"][rows]
                held.append(PrefetchState(len(held), 0, action.layer, action.expert, action.chiplet))
        given = np.bincount([state.chiplet for state in held] or [0])
        assert given.max(initial=0) <= pages
    assert not held  # behind the last layer of a batch nothing is predicted


def test_credits_off_is_more_and_in_the_class_of_loads() -> None:
    found = {}
    for params in ({}, {"credits": False}):
        policy = make_policy("comoe", params)
        residency = keeper(policy, profile(1))
        found[policy.prefetch_class] = len(policy.on_routed(event(routing(2), 0, residency, [], 0.0)))
    assert found["weight"] > found["prefetch"] > 0


def test_overload_freezes_prefetch_and_copies() -> None:
    policy = make_policy("comoe", {})
    residency = keeper(policy, profile(1))
    held = [PrefetchState(7, 0, 0, 63, int(CHIPLETS[0]))]
    ids = np.zeros((8, LAYERS, 2), dtype=np.int64)
    assert list(policy.on_routed(event(ids, 0, residency, held, 0.99))) == [Revoke(7)]
    assert list(policy.on_window(window(residency, np.ones((LAYERS, 64)), 0.99))) == []


def test_overload_sends_tokens_to_the_chiplets_of_the_static_directory() -> None:
    policy = make_policy("comoe", {"resident": "none"})
    residency = keeper(policy, profile(1))
    ids = np.zeros((32, LAYERS, 2), dtype=np.int64)  # one expert wanted by all
    ids[:, :, 1] = 1
    other = int(CHIPLETS[-1])
    wish = ResidencyAction(ActionKind.promote, 0, 0, other, SYSTEM.near_memories[other], "pages")
    (order,), _ = residency.propose([wish])
    residency.publish(order.replica)
    directory = residency.directory()
    chosen = {}
    for link in (0.1, 0.99):
        routed = event(ids, 0, residency, [], link)
        policy.on_routed(routed)
        rows = policy.assign(routed.groups, directory, routed.pressure)
        chosen[link] = set(directory.rows["chiplet"][rows[routed.groups["expert"] == 0]].tolist())
    home = int(directory.rows["chiplet"][directory.of(0, 0)[0]])
    assert chosen[0.99] == {home}
    assert other in chosen[0.1]


def window(residency: Residency, demand: np.ndarray, link: float = 0.0) -> WindowState:
    return WindowState(0, 0, demand.astype(np.int64), residency.directory(), pressure(link), (), residency.migrating)


def test_the_mapping_spreads_what_has_a_choice_and_sub_batches_prevent_herding() -> None:
    loads = {}
    for sub_batches in (1, 8):
        policy = make_policy("comoe", {"sub_batches": sub_batches, "credit_slack": 100.0})
        residency = keeper(policy, profile(1))
        for expert in range(3):  # three experts with pages everywhere
            held = {int(row["chiplet"]) for row in residency.directory().rows[residency.directory().of(0, expert)]}
            for chiplet in [c for c in CHIPLETS.tolist() if c not in held]:
                evicted = next(
                    row
                    for row in residency.directory().rows
                    if row["executes_at"] == NEAR_MEMORY
                    and row["layer"] == 0
                    and row["chiplet"] == chiplet
                    and row["expert"] >= 3
                )
                add_page(residency, 0, expert, chiplet, int(evicted["replica"]))
        ids = np.tile([[0, 1], [1, 2], [2, 0]], (40, 1))[:, None].repeat(LAYERS, axis=1)
        routed = event(ids, 0, residency, [], 0.0)
        policy.on_routed(routed)
        rows = policy.assign(routed.groups, routed.directory, routed.pressure)
        loads[sub_batches] = np.bincount(
            routed.directory.rows["chiplet"][rows], weights=routed.groups["tokens"], minlength=CHIPLETS.max() + 1
        ).max()
    assert loads[8] < loads[1]


def add_page(residency: Residency, layer: int, expert: int, chiplet: int, instead: int) -> None:

    slots = page_slots(SYSTEM, MODEL)
    assert slots is not None
    residency._max_replicas = 20  # a test of the mapping, not of the bound
    orders, outcomes = residency.propose(
        [
            ResidencyAction(ActionKind.evict, layer, 0, replica=instead),
            ResidencyAction(ActionKind.promote, layer, expert, chiplet, slots.memory[chiplet], slots.tier),
        ]
    )
    assert [outcome.status for outcome in outcomes] == ["done", "deferred"], outcomes
    for order in orders:
        residency.publish(order.replica)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 100), st.booleans())
def test_copies_are_legal_bounded_and_leased(seed: int, two_timescales: bool) -> None:
    policy = make_policy("comoe", {"two_timescales": two_timescales, "window_batches": 4, "lease_windows": 1})
    residency = keeper(policy, profile(seed))
    generator = np.random.default_rng(seed)
    for number in range(3):
        demand = generator.permuted(profile(seed + number).counts, axis=1)
        actions = policy.on_window(window(residency, demand))
        if number == 0 and two_timescales:
            assert not actions  # every page is younger than its lease
        orders, outcomes = residency.propose(actions)
        assert {outcome.status for outcome in outcomes} <= {"done", "deferred"}, outcomes
        promoted = [action.layer for action in actions if action.kind is ActionKind.promote]
        assert all(promoted.count(layer) <= (2 if two_timescales else 8) for layer in range(LAYERS))
        for order in orders:
            residency.publish(order.replica)
        rows = residency.directory().rows
        near = rows[rows["executes_at"] == NEAR_MEMORY]
        assert np.bincount(near["chiplet"] * LAYERS + near["layer"]).max() <= 4
        copies = np.bincount(near["layer"] * 64 + near["expert"])
        assert copies.max() <= 4
        residency.close_window()


def test_hysteresis_keeps_what_gains_little_less() -> None:
    changed = {}
    for hysteresis in (0.0, 5.0):
        policy = make_policy("comoe", {"hysteresis": hysteresis, "lease_windows": 0, "migrations_per_layer": 8})
        residency = keeper(policy, profile(4))
        generator = np.random.default_rng(0)
        demand = profile(4).counts * generator.uniform(0.7, 1.3, (LAYERS, 64))
        changed[hysteresis] = len(policy.on_window(window(residency, demand)))
    assert changed[0.0] > changed[5.0]


def test_a_cold_but_determined_successor_gets_a_page() -> None:
    """Section 3.1: an expert that is not hot, but follows a frequent one for certain."""
    counts = np.ones((LAYERS, 64), dtype=np.int64)
    counts[0, 0] = 640
    transitions = np.zeros((LAYERS - 1, 64, 64), dtype=np.int64)
    transitions[0, 0, 63] = 640
    hits = {}
    for gain in ("popularity", "popularity+transition"):
        policy = make_policy("comoe", {"gain": gain, "resident": "none", "lease_windows": 0, "migrations_per_layer": 1})
        residency = keeper(policy, Profile(counts, transitions, 700))
        demand = np.zeros((LAYERS, 64))
        demand[0, 0], demand[1, 5] = 640, 32
        first = next(action for action in policy.on_window(window(residency, demand)) if action.layer == 1)
        hits[gain] = first.expert
    assert hits == {"popularity": 5, "popularity+transition": 63}


@pytest.mark.parametrize("name", ["comoe", "transition_prefetch"])
def test_what_is_saved_goes_on_the_same(name: str) -> None:
    one, other = make_policy(name, {}), make_policy(name, {})
    residency = keeper(one, profile(1))
    keeper(other, profile(1))
    for batch in range(4):
        ids = routing(batch)
        for layer in range(LAYERS):
            routed = event(ids, layer, residency, [], 0.0)
            if batch >= 2:
                assert list(other.on_routed(routed)) == list(one.on_routed(routed))
            else:
                one.on_routed(routed)
        if batch == 1:
            other.load(json.loads(json.dumps(one.save())))


def test_the_graph_of_the_paper_takes_what_the_paper_says() -> None:
    policy = make_policy("comoe", {})
    seen = Profile(np.zeros((32, 64), dtype=np.int64), np.zeros((31, 64, 64), dtype=np.int64), 0)
    policy.place(SYSTEM, model("comoe-chip").model_copy(update={"moe_intermediate": 64}), seen)
    assert 2 * 64 * 1024 <= policy.state_bytes < 300 * 1024  # type: ignore[attr-defined]


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(ConfigErrors, match="did you mean 'credits'"):
        make_policy("comoe", {"credit": True})
    with pytest.raises(ConfigErrors, match="no window_batches beside it"):
        make_policy("hot_replication", {"resident": "profile", "window_batches": 2})
