"""The baselines of HCRMap: published cases, worked examples, legality and determinism on the 3.5D package."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.policy import Policy, Pressure, Profile, make_policy
from cosim.policy.fixed_replica import spread_copies
from cosim.policy.hydra import annealed
from cosim.policy.moentwine import er_mapping, shadow_step
from cosim.policy.pimoe import throttle_split
from cosim.policy.residency import Residency
from cosim.system import System, load_system, model
from cosim.workload.groups import token_groups, token_homes

MODEL = model("own-byte-moe")
SYSTEM: System = load_system("hcrmap-table1")
CHIPLETS = np.array([place.index for place in SYSTEM.compute_endpoints], dtype=np.int32)
NAMES = ["fixed_replica", "eplb", "hydra", "moentwine", "pimoe", "hcrmap"]


def idle() -> Pressure:
    endpoints = len(SYSTEM.endpoints)
    return Pressure(np.zeros(endpoints), np.zeros(len(SYSTEM.links)), np.zeros(endpoints), np.zeros(endpoints), 0)


def profile(seed: int) -> Profile:
    counts = np.random.default_rng(seed).zipf(1.3, size=(MODEL.moe_layers, MODEL.experts)).clip(max=10**6)
    pairs = np.ones((MODEL.moe_layers - 1, MODEL.experts, MODEL.experts), dtype=np.int64)
    return Profile(counts.astype(np.int64), pairs, 1000)


def keeper(policy: Policy, seen: Profile) -> Residency:
    return Residency(
        SYSTEM,
        MODEL,
        policy.place(SYSTEM, MODEL, seen),
        expert_bytes=MODEL.expert_bytes,
        alignment_bytes=4096,
        layers=range(MODEL.moe_layers),
        max_replicas=policy.max_replicas,
        budget_bytes=int(policy.replica_budget * MODEL.moe_layers * MODEL.layer_expert_bytes),
    )


@settings(deadline=None, max_examples=15)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 1000), tokens=st.integers(1, 80), layer=st.integers(0, 7))
def test_never_another_expert_and_the_same_twice(name: str, seed: int, tokens: int, layer: int) -> None:
    policies = [make_policy(name, {}) for _ in range(2)]
    directories = [keeper(policy, profile(seed)).directory() for policy in policies]  # refuses what exceeds a tier
    assert np.array_equal(directories[0].rows, directories[1].rows)
    rows = directories[0].rows
    replicas = np.bincount(rows["layer"] * MODEL.experts + rows["expert"])
    assert replicas.min() >= 1
    assert replicas.max() <= policies[0].max_replicas
    assert len(rows) <= policies[0].replica_budget * MODEL.moe_layers * MODEL.experts
    ids = np.random.default_rng(seed).integers(-1, MODEL.experts, size=(tokens, 4))
    groups = token_groups(ids, token_homes(tokens, CHIPLETS), layer, MODEL.activation_bytes)
    chosen = [policy.assign(groups, d, idle()) for policy, d in zip(policies, directories, strict=True)]
    assert np.array_equal(chosen[0], chosen[1])
    assert chosen[0].dtype == np.int32
    assert (rows["expert"][chosen[0]] == groups["expert"]).all()
    assert (rows["layer"][chosen[0]] == layer).all()


def test_copies_go_to_the_most_load_per_replica_at_the_least_loaded_chiplet() -> None:
    demand = np.array([100, 60, 10, 10])
    given = spread_copies(demand, {0: 0, 1: 1, 2: 2, 3: 3}, [0, 1, 2, 3], copies=3, most=2)
    # 100 → two of 50, at chiplet 2 (10, the first of the least loaded); then 60 at chiplet 3; then 10 of expert 2
    assert given == [(0, 2), (1, 3), (2, 1)]


def test_annealing_brings_popular_experts_to_the_middle() -> None:
    generator = np.random.Generator(np.random.Philox(key=[1, 0]))
    popularity = np.array([0.1, 0.2, 0.7])
    slots = annealed(popularity, np.array([3.0, 2.0, 1.0]), 500, 0.1, generator)
    assert slots.tolist() == [0, 1, 2]
    assert sorted(annealed(popularity[::-1].copy(), np.array([3.0, 2.0, 1.0, 9.0]), 500, 0.1, generator)) == [0, 1, 2]


def test_entwined_groups_put_one_device_of_each_into_every_block() -> None:
    """ER-Mapping: on 4 x 4 with 2 x 2 blocks every full token domain is compact."""
    group = er_mapping((4, 4), (2, 2))
    for y in (0, 2):
        for x in (0, 2):
            assert sorted(group[y : y + 2, x : x + 2].ravel().tolist()) == [0, 1, 2, 3]
    members = np.argwhere(group == 0)
    assert members.tolist() == [[0, 0], [0, 2], [2, 0], [2, 2]]  # two hops apart
    with pytest.raises(ValueError, match="tiles"):
        er_mapping((4, 4), (3, 2))


def test_a_shadow_goes_to_the_nearest_device_that_stays_below_the_peak() -> None:
    chiplets = [int(c) for c in CHIPLETS]
    load = np.array([90.0, 10.0, 70.0])
    places = {0: [chiplets[0]], 1: [chiplets[1]], 2: [chiplets[4]]}
    slots = {chiplet: int(chiplet in (chiplets[1], chiplets[4], chiplets[5])) for chiplet in chiplets}
    step = shadow_step(load, places, slots, SYSTEM.routes, trigger=1.1, most=2)
    assert step == (0, chiplets[1])  # one hop, 10 + 45 < 90; the device below is as near, but 70 + 45 is not
    assert shadow_step(load, places, dict.fromkeys(chiplets, 0), SYSTEM.routes, 1.1, 2) is None
    assert shadow_step(np.array([90.0]), {0: [chiplets[0]]}, slots, SYSTEM.routes, 100.0, 2) is None


def test_the_hottest_leave_the_memory_side_until_it_is_no_longer_slower() -> None:
    tokens = np.array([1.0, 8.0, 2.0, 4.0])
    cold = throttle_split(tokens, np.array([1.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0]), most_cold=4)
    assert cold.tolist() == [True, False, True, False]
    none = throttle_split(tokens, np.zeros(4), np.ones(4), most_cold=1)
    assert none.tolist() == [True, False, False, False]  # room for one only
