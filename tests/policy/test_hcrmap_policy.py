"""HCRMap's loops: the legal mask, Algorithm 2 against a slow model, controllers, and the network that scores edits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.policy import ActionKind, Pressure, Profile, ResidencyAction, WindowState
from cosim.policy.hcrmap import HCRMap
from cosim.policy.hcrmap.controllers import GreedyController, QController, RuleController
from cosim.policy.hcrmap.edits import FEATURES, Edit
from cosim.policy.hcrmap.q_network import QNetwork
from cosim.policy.residency import Residency
from cosim.system import System, load_system, model
from cosim.workload.groups import token_groups, token_homes

MODEL = model("own-byte-moe")
SYSTEM: System = load_system("hcrmap-table1")
CHIPLETS = np.array([place.index for place in SYSTEM.compute_endpoints], dtype=np.int32)


def pressure(seed: int | None = None, window_fs: int = 10**12) -> Pressure:
    endpoints, links = len(SYSTEM.endpoints), len(SYSTEM.links)
    if seed is None:
        return Pressure(np.zeros(endpoints), np.zeros(links), np.zeros(endpoints), np.zeros(endpoints), 0)
    draws = np.random.default_rng(seed)
    shares = [draws.random(count) for count in (endpoints, links, endpoints, endpoints)]
    return Pressure(*shares[:4], 0, draws.random(links) * shares[1], window_fs)


def profile(seed: int) -> Profile:
    counts = np.random.default_rng(seed).zipf(1.3, size=(MODEL.moe_layers, MODEL.experts)).clip(max=10**6)
    return Profile(counts.astype(np.int64), np.zeros((7, 64, 64), dtype=np.int64), 1000, (0, 1))


def made(seed: int, **params: object) -> tuple[HCRMap, Residency]:
    policy = HCRMap(params)
    residency = Residency(
        SYSTEM,
        MODEL,
        policy.place(SYSTEM, MODEL, profile(seed)),
        expert_bytes=MODEL.expert_bytes,
        alignment_bytes=4096,
        layers=(0, 1),
        max_replicas=policy.max_replicas,
        min_residency_windows=policy.min_residency_windows,
        updates_per_window=policy.updates_per_window,
        budget_bytes=int(policy.replica_budget * 2 * MODEL.layer_expert_bytes),
    )
    return policy, residency


def batch(seed: int, layer: int, tokens: int = 64) -> np.ndarray:
    skewed = np.random.default_rng(seed).zipf(1.5, size=(tokens, 4)) % MODEL.experts
    return token_groups(skewed, token_homes(tokens, CHIPLETS), layer, MODEL.activation_bytes)


def window(policy: HCRMap, residency: Residency, seed: int) -> WindowState:
    demand = np.zeros((MODEL.moe_layers, MODEL.experts), dtype=np.int64)
    for layer in (0, 1):
        groups = batch(seed, layer)
        policy.assign(groups, residency.directory(), pressure())
        np.add.at(demand, (groups["layer"], groups["expert"]), groups["tokens"])
    residency.close_window()
    return WindowState(0, 0, demand, residency.directory(), pressure(seed), (), residency.migrating)


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 10**6), start=st.sampled_from(["profile", "homes"]), stale=st.integers(1, 2))
def test_every_offered_edit_is_legal_and_the_laws_hold_over_windows(seed: int, start: str, stale: int) -> None:
    """Never above capacity, budget or R_max, age at least A_min, one update a window; the keeper refuses none of it."""
    policy, residency = made(seed, start=start, stale_windows=stale, eta=100.0, replica_budget=1.05)
    for number in range(5):
        state = window(policy, residency, seed + number)
        edits = policy.edits(state)
        assert edits[0].action is None
        for edit in edits:
            assert edit.features.shape == (len(FEATURES),)
            assert np.isfinite(edit.features).all()
        chosen = edits[seed % len(edits)]
        if chosen.action is None:
            continue
        if chosen.action.kind is not ActionKind.promote:
            rows = residency.directory().rows
            leaving = rows[rows["replica"] == chosen.action.replica]
            assert int(leaving["age_windows"][0]) >= policy.min_residency_windows
        orders, outcomes = residency.propose([chosen.action])
        assert outcomes[0].status != "refused", outcomes[0].reason
        for order in orders:
            residency.publish(order.replica)
        rows = residency.directory().rows
        assert int(rows["bytes"].sum()) <= policy.replica_budget * 2 * MODEL.layer_expert_bytes
        held = np.bincount(rows["layer"] * MODEL.experts + rows["expert"], minlength=2 * MODEL.experts)
        assert held.min() >= 1
        assert held.max() <= policy.max_replicas


def test_a_loaded_path_defers_the_copy() -> None:
    """Eq. 40: with a bound that no copy keeps, promotions are not offered; without the signal they are."""
    for signals, offered in ((["link", "bank", "load", "migration"], False), (["link", "bank", "load"], True)):
        policy, residency = made(
            1, start="homes", eta=1e-9, signals=signals, near_tiers=["sram"]
        )  # HBM and DRAM share a router
        edits = policy.edits(window(policy, residency, 1))
        assert any(e.action is not None and e.action.kind is ActionKind.promote for e in edits) == offered


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), block=st.sampled_from([0, 1, 3]))
def test_tokens_go_where_a_slow_model_of_algorithm_2_sends_them(seed: int, block: int) -> None:
    policy, residency = made(seed, block_groups=block, max_replicas=3)
    directory, groups, seen = residency.directory(), batch(seed, 0, 96), pressure(seed)
    assert np.array_equal(policy.assign(groups, directory, seen), slow_map(groups, directory, seen, block))


def slow_map(groups: np.ndarray, directory, seen: Pressure, block: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Algorithm 2 written down plainly: dictionaries, no shortcuts."""
    routes, rows = SYSTEM.routes, directory.rows
    rate = {p.index: float(p.memory.peak_Bps) for p in SYSTEM.memory_endpoints if p.memory}
    mac = {p.index: 2 / float(p.spec.compute.effective_rate()) for p in SYSTEM.compute_endpoints if p.spec.compute}
    link_rate = float(SYSTEM.networks[0].link_bandwidth_Bps)
    work, held, link = dict.fromkeys(mac, 0.0), dict.fromkeys(rate, 0.0), {}
    in_use: set[int] = set()
    size = MODEL.expert_bytes

    def ways(group, row):  # type: ignore[no-untyped-def]
        chiplet, memory = int(rows["chiplet"][row]), int(rows["memory"][row])
        found = [(routes.path(int(group["source"]), chiplet), int(group["bytes"]))]
        found.append((routes.path(chiplet, int(group["aggregator"])), int(group["bytes"])))
        if row not in in_use:
            found.append((routes.path(memory, chiplet), size))
        return found

    def book(group, row):  # type: ignore[no-untyped-def]
        chiplet, memory = int(rows["chiplet"][row]), int(rows["memory"][row])
        for path, amount in ways(group, row):
            for step in path:
                link[step] = link.get(step, 0.0) + amount
        work[chiplet] += int(group["tokens"]) * MODEL.expert_macs_per_token * mac[chiplet]
        if row not in in_use:
            in_use.add(row)
            held[memory] += size

    def cost(group, row):  # type: ignore[no-untyped-def]
        chiplet, memory = int(rows["chiplet"][row]), int(rows["memory"][row])
        own = int(group["tokens"]) * MODEL.expert_macs_per_token * mac[chiplet]
        path = 0.0
        for steps, amount in ways(group, row):
            for step in steps:
                foreground = seen.link[step] - seen.link_migration[step]
                path = max(path, (link.get(step, 0.0) + amount) / link_rate * (1 + foreground))
        stream = 0.0 if row in in_use else size / rate[memory]
        bank = held[memory] / rate[memory] * (1 + seen.bank[memory])
        return (work[chiplet] + own) * (1 + seen.compute[chiplet]) + path + bank + stream

    options = [directory.of(int(g["layer"]), int(g["expert"])).tolist() for g in groups]
    chosen = np.array([option[0] for option in options], dtype=np.int32)
    for group, option in zip(groups, options, strict=True):
        if len(option) == 1:
            book(group, option[0])
    waiting = []
    for number, option in enumerate(options):
        if len(option) > 1:
            chosen[number] = min(option, key=lambda row: (cost(groups[number], row), row))
            waiting.append(number)
            if block and len(waiting) >= block:
                for done in waiting:
                    book(groups[done], int(chosen[done]))
                waiting = []
    return chosen


def edit(kind: ActionKind, **values: float) -> Edit:
    features = dict.fromkeys(FEATURES, 0.0) | values
    return Edit(ResidencyAction(kind, 0, 0), np.array([features[name] for name in FEATURES]))


NOTHING = Edit(None, np.zeros(len(FEATURES)))


def test_the_rules_promote_what_pays_and_drop_what_is_idle_where_room_is_short() -> None:
    rules = RuleController(horizon=10)
    assert rules.choose([NOTHING, edit(ActionKind.promote, stream_saved=0.05, copy_time=0.6)], None) == 0
    assert rules.choose([NOTHING, edit(ActionKind.promote, stream_saved=0.07, copy_time=0.6)], None) == 1
    assert rules.choose([NOTHING, edit(ActionKind.evict, idle=1.0, budget_left=0.5)], None) == 0
    assert rules.choose([NOTHING, edit(ActionKind.evict, idle=1.0, budget_left=0.05)], None) == 1


def test_the_greedy_controller_takes_the_largest_gain_that_pays_for_its_copy() -> None:
    seconds = {None: 1.0, 1: 0.9, 2: 0.8, 3: 1.2}
    edits = [NOTHING]
    for expert, copy in ((1, 0.0), (2, 3.0), (3, 0.0)):
        one = edit(ActionKind.promote, copy_time=copy)
        edits.append(Edit(ResidencyAction(ActionKind.promote, 0, expert), one.features))
    greedy = GreedyController(horizon=10)
    assert greedy.choose(edits, lambda action: seconds[None if action is None else action.expert]) == 1
    assert greedy.choose(edits[:1] + edits[3:], lambda a: seconds[None if a is None else a.expert]) == 0
    with pytest.raises(ValueError, match="what_if"):
        greedy.choose(edits, None)


def test_gradients_are_those_of_finite_differences() -> None:
    draws = np.random.Generator(np.random.Philox(key=[3, 0]))
    network = QNetwork.fresh(5, 4, draws)
    features, targets = draws.normal(size=(6, 5)), draws.normal(size=6)
    gradients, loss = network.gradients(features, targets)
    for part, gradient in zip(network.weights, gradients, strict=True):
        spot = tuple(int(draws.integers(0, size)) for size in part.shape)
        part[spot] += 1e-6
        above = float(((network.values(features) - targets) ** 2).mean())
        part[spot] -= 1e-6
        assert (above - loss) / 1e-6 == pytest.approx(gradient[spot], abs=1e-4)


def test_a_checkpoint_comes_back_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    network = QNetwork.fresh(len(FEATURES), 4, np.random.Generator(np.random.Philox(key=[4, 0])))
    file = tmp_path / "q.npz"
    network.save(file, experiment="x")
    again = QNetwork.load(file, len(FEATURES))
    pairs = np.eye(len(FEATURES))
    assert again.values(pairs) == pytest.approx(network.values(pairs), rel=1e-5)
    assert QController(again).choose([NOTHING, edit(ActionKind.promote, demand=1.0)], None) in (0, 1)
    with pytest.raises(ConfigErrors, match="a checkpoint for 3 features"):
        QNetwork.load(file, 3)
    with pytest.raises(ConfigErrors, match="no file"):
        QNetwork.load(tmp_path / "none.npz", 3)
    (tmp_path / "bad.npz").write_bytes(b"not one")
    with pytest.raises(ConfigErrors, match="a checkpoint of 'cosim train'"):
        QNetwork.load(tmp_path / "bad.npz", 3)


def test_what_the_policy_has_learnt_comes_back() -> None:
    policy, residency = made(2)
    policy.edits(window(policy, residency, 2))
    state = policy.save()
    again, _ = made(2)
    again.load(state)  # as after reading it from JSON
    second = window(policy, residency, 3)
    again.assign(batch(3, 0), residency.directory(), pressure())
    again.assign(batch(3, 1), residency.directory(), pressure())
    first, other = policy.edits(second), again.edits(second)
    assert [e.action for e in first] == [e.action for e in other]
    assert all(np.array_equal(a.features, b.features) for a, b in zip(first, other, strict=True))
