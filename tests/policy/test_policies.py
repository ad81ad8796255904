"""The shipped policies: never another expert, never above the budget, deterministic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.policy import Policy, Pressure, Profile, make_policy, policy_names
from cosim.policy.residency import Residency
from cosim.system import System, load_system, model
from cosim.workload.groups import token_groups, token_homes

MODEL = model("own-byte-moe")
SYSTEM: System = load_system("package-4x4")
CHIPLETS = np.array([place.index for place in SYSTEM.compute_endpoints], dtype=np.int32)


def idle() -> Pressure:
    endpoints = len(SYSTEM.endpoints)
    return Pressure(np.zeros(endpoints), np.zeros(len(SYSTEM.links)), np.zeros(endpoints), np.zeros(endpoints), 0)


def profile(seed: int) -> Profile:
    counts = np.random.default_rng(seed).zipf(1.3, size=(MODEL.moe_layers, MODEL.experts)).clip(max=10**6)
    return Profile(counts.astype(np.int64), np.zeros((7, 64, 64), dtype=np.int64), 1000)


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


@settings(deadline=None, max_examples=25)
@given(
    name=st.sampled_from(["static", "hot_replication", "popularity_prefetch"]),
    seed=st.integers(0, 1000),
    tokens=st.integers(1, 80),
    layer=st.integers(0, 7),
)
def test_every_group_goes_to_a_replica_of_its_own_expert(name: str, seed: int, tokens: int, layer: int) -> None:
    policy = make_policy(name, {})
    directory = keeper(policy, profile(seed)).directory()
    ids = np.random.default_rng(seed).integers(-1, MODEL.experts, size=(tokens, 4))
    groups = token_groups(ids, token_homes(tokens, CHIPLETS), layer, MODEL.activation_bytes)
    assert groups["tokens"].sum() == np.count_nonzero(ids >= 0)
    rows = policy.assign(groups, directory, idle())
    assert rows.dtype == np.int32
    assert rows.shape == (len(groups),)
    assert (directory.rows["expert"][rows] == groups["expert"]).all()
    assert (directory.rows["layer"][rows] == layer).all()
    assert np.array_equal(rows, policy.assign(groups, directory, idle()))


@settings(deadline=None, max_examples=10)
@given(budget=st.sampled_from([1.0, 1.1, 1.25, 2.0]), most=st.integers(1, 4), seed=st.integers(0, 50))
def test_hot_replication_stays_within_budget_and_copies_hot_experts(budget: float, most: int, seed: int) -> None:
    policy = make_policy("hot_replication", {"replica_budget": budget, "max_replicas": most})
    seen = profile(seed)
    rows = keeper(policy, seen).directory().rows
    for layer in range(MODEL.moe_layers):
        counts = np.bincount(rows["expert"][rows["layer"] == layer], minlength=MODEL.experts)
        assert counts.min() == 1
        assert counts.max() <= most
        assert counts.sum() <= budget * MODEL.experts
        copied = counts > 1
        if copied.any() and not copied.all() and most > 1:
            # nobody without a copy is hotter than the coldest expert that has one
            assert seen.counts[layer][copied].min() >= seen.counts[layer][~copied].max()


def test_unknown_names_and_parameters_are_listed_with_the_nearest_spelling() -> None:
    assert {"static", "hot_replication", "popularity_prefetch"} <= set(policy_names())
    with pytest.raises(ConfigErrors, match="did you mean 'static'"):
        make_policy("statc", {})
    with pytest.raises(ConfigErrors, match="did you mean 'max_replicas'"):
        make_policy("hot_replication", {"max_replica": 2})
    with pytest.raises(ConfigErrors) as found:
        make_policy("hot_replication", {"replica_budget": 0.5, "max_replicas": 0})
    assert len(found.value.errors) == 2
    with pytest.raises(ConfigErrors, match="no file"):
        make_policy("nowhere.py:Mine", {})


def test_a_policy_of_the_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from cosim.policy.static import Static\nclass Mine(Static):\n    name = 'mine'\nnothing = 3\n")
    assert make_policy(f"{file}:Mine", {}).name == "mine"
    for text, told in (
        ("class Mine(:\n", r"mine\.py:1:12: .*valid Python"),
        ("import nothing_there\n", "ModuleNotFoundError"),
    ):
        broken = tmp_path / "broken" / "mine.py"
        broken.parent.mkdir(exist_ok=True)
        broken.write_text(text)
        with pytest.raises(ConfigErrors, match=told):
            make_policy(f"{broken}:Mine", {})
    with pytest.raises(ConfigErrors, match="did you mean 'Mine'"):
        make_policy(f"{file}:Mne", {})
    with pytest.raises(ConfigErrors, match="a policy class"):
        make_policy(f"{file}:nothing", {})
