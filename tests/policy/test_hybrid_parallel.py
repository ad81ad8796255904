"""Policies that split experts, the parts that the keeper of replicas accepts, and placement files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.placement.file import PlacementFile, load_placement, whole_neurons, write_placement
from cosim.policy import Directory, ExpertPart, PlacedReplica, Placement, Profile, make_policy
from cosim.policy.base import ActionKind, ResidencyAction
from cosim.policy.residency import Residency
from cosim.system import System, load_system
from cosim.system.models import model as find_model
from cosim.workload.groups import first_tokens, token_groups, token_homes
from cosim.workload.legs import legs_of, returned_bytes

MODEL = find_model("own-byte-moe")
WIDTH = MODEL.moe_intermediate
NOTHING = Profile(np.zeros((1, 1), dtype=np.int64), np.zeros((0, 1, 1), dtype=np.int64), 0)
SIZE = 4096 * 12


@pytest.fixture(scope="module")
def system() -> System:
    return load_system("package-4x4")


def residency(system: System, placement: Placement, **changes: Any) -> Residency:
    arguments: dict[str, Any] = {
        "expert_bytes": SIZE,
        "alignment_bytes": 4096,
        "layers": [0],
        "max_replicas": 1,
        "budget_bytes": 1 << 60,
        "burst_bytes": 64,
    }
    return Residency(system, MODEL, placement, **{**arguments, **changes})


def halves(system: System, *neurons: int) -> Placement:
    """Every expert in parts at the first chiplets."""
    chiplets = [place.index for place in system.compute_endpoints]
    memory, tier = system.memory_endpoints[0].index, system.tiers[0].name
    parts = [ExpertPart(chiplets[c], memory, tier, count) for c, count in enumerate(neurons)]
    return Placement([PlacedReplica.split(0, expert, parts) for expert in range(MODEL.experts)])


def test_parts_are_rows_and_the_first_stands_for_all(system: System) -> None:
    third = WIDTH // 3
    held = residency(system, halves(system, third, WIDTH - third))
    directory = held.directory()
    assert len(directory.of(0, 3)) == 1
    lead = int(directory.of(0, 3)[0])
    rows = directory.rows[directory.parts(lead)]
    assert rows["neurons"].tolist() == [third, WIDTH - third]
    assert rows["part_of"].tolist() == [rows["replica"][0]] * 2
    assert all(size % 64 == 0 for size in rows["bytes"].tolist())
    assert 0 <= int(rows["bytes"].sum()) - SIZE < 2 * 64
    assert held.replica_factor() == 1.0
    assert len(directory.layer(0)) == MODEL.experts


@pytest.mark.parametrize(
    ("neurons", "text"),
    [
        ((WIDTH - 1, 2), f"expected parts of {WIDTH} neurons together, got {WIDTH + 1}"),
        ((WIDTH, 0), "expected parts of at least one neuron, got 0 at endpoint"),
    ],
)
def test_parts_must_add_up(system: System, neurons: tuple[int, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        residency(system, halves(system, *neurons))


def test_parts_stand_at_different_chiplets(system: System) -> None:
    one = halves(system, WIDTH // 2, WIDTH - WIDTH // 2).replicas[0]
    twice = PlacedReplica.split(0, 0, [one.parts[0], one.parts[0].__class__(*vars(one.parts[0]).values())])
    with pytest.raises(ValueError, match="its parts at different endpoints"):
        residency(system, Placement([twice]))


def test_a_split_expert_is_not_copied(system: System) -> None:
    held = residency(system, halves(system, WIDTH // 2, WIDTH - WIDTH // 2), max_replicas=3)
    other = system.compute_endpoints[5].index
    memory, tier = system.memory_endpoints[0].index, system.tiers[0].name
    orders, outcomes = held.propose([ResidencyAction(ActionKind.promote, 0, 2, other, memory, tier)])
    assert orders == []
    assert outcomes[0].status == "refused"
    assert "there is no whole replica to copy" in outcomes[0].reason


def test_capacity_counts_parts(system: System) -> None:
    with pytest.raises(ValueError, match=r"experts that fit its .* too many, with experts of"):
        residency(system, halves(system, WIDTH // 2, WIDTH - WIDTH // 2), expert_bytes=200 << 20)


@pytest.mark.parametrize("name", ["tensor_parallel", "expert_parallel"])
def test_rules_place_every_expert_whole(system: System, name: str) -> None:
    placement = make_policy(name, {}).place(system, MODEL, NOTHING)
    assert len(placement.replicas) == MODEL.moe_layers * MODEL.experts
    chiplets = len(system.compute_endpoints)
    first = placement.replicas[0]
    assert len(first.parts) == (chiplets if name == "tensor_parallel" else 0)
    held = residency(system, placement)
    assert held.replica_factor() == pytest.approx(1.0)


def test_expert_parallel_splits_over_blocks_when_chiplets_outnumber_experts(system: System) -> None:
    mixtral = find_model("mixtral-8x7b")
    placed = make_policy("expert_parallel", {}).place(system, mixtral, NOTHING).replicas[3]
    assert [part.neurons for part in placed.parts] == [7168, 7168]
    assert len({part.chiplet for part in placed.parts}) == 2


@given(st.integers(1, 6), st.integers(6, 500), st.integers(0, 2**31))
@settings(max_examples=60)
def test_whole_neurons_keep_every_holder_and_the_sum(nodes: int, width: int, seed: int) -> None:
    draws = np.random.default_rng(seed)
    shares = draws.dirichlet(np.full(nodes, 0.2), 3)
    shares[shares < 0.01] = 0
    shares /= shares.sum(axis=1, keepdims=True)
    found = whole_neurons(shares, width)
    assert (found.sum(axis=1) == width).all()
    assert ((found > 0) == (shares > 0)).all()
    assert np.abs(found - shares * width).max() <= nodes


def test_more_holders_than_neurons() -> None:
    with pytest.raises(ValueError, match="at most 2 holders of an expert with 2 neurons, got 3"):
        whole_neurons(np.full((1, 3), 1 / 3), 2)


def small_file() -> PlacementFile:
    neurons = np.array([[[3, 1], [0, 4]], [[4, 0], [2, 2]]])
    return PlacementFile("tiny", 4, neurons, {"command": "cosim place", "method": "node"}, ["layer 0: x", "layer 1: y"])


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    digest = write_placement(small_file(), tmp_path / "p.json")
    read = load_placement(tmp_path / "p.json")
    assert read.neurons.tolist() == small_file().neurons.tolist()
    assert (read.model, read.width, read.report) == ("tiny", 4, ["layer 0: x", "layer 1: y"])
    assert read.shares.shares[0, 0].tolist() == [0.75, 0.25]
    assert json.loads((tmp_path / "p.json").read_text())["sha256"] == digest
    assert write_placement(small_file(), tmp_path / "q.json") == digest


def rewritten(path: Path, change: Any, *, sign: bool = True) -> Path:
    """The small file after a change, signed again or not."""
    import hashlib

    write_placement(small_file(), path)
    document = json.loads(path.read_text())
    change(document)
    if sign:
        digest = document.pop("sha256")
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        document["sha256"] = hashlib.sha256(text.encode()).hexdigest() if digest else digest
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("change", "sign", "text"),
    [
        (lambda d: d["layers"][1][0].append([1, 3]), False, "sha256: expected the hash of the file's content"),
        (
            lambda d: d["layers"][1][0].append([1, 3]),
            True,
            "layer 1, expert 0: expected parts of 4 neurons together, got 7",
        ),
        (lambda d: d["layers"][0][0].__setitem__(0, [2, 3]), True, r"layer 0, expert 0: expected parts \[node below 2"),
        (lambda d: d["layers"][0].pop(), True, "layer 0: expected 2 experts, got 1"),
        (lambda d: d.update(schema=9), True, "schema: expected 1, got 9"),
        (lambda d: d.pop("report"), True, "report: expected this key, got none"),
        (lambda d: d.update(repot=[]), True, "did you mean 'report'"),
    ],
)
def test_bad_files(tmp_path: Path, change: Any, sign: bool, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load_placement(rewritten(tmp_path / "p.json", change, sign=sign))


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_file_that_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(ValueError, match="JSON"):
        load_placement(tmp_path / "p.json")


def test_a_file_of_another_model_or_size(system: System, tmp_path: Path) -> None:
    write_placement(small_file(), tmp_path / "p.json")
    policy = make_policy("placed", {"file": str(tmp_path / "p.json")})
    with pytest.raises(ValueError, match="compute endpoints") as caught:
        policy.place(system, MODEL, NOTHING)
    text = str(caught.value)
    assert f"expected {MODEL.moe_layers} MoE layers, got 2" in text
    assert "expected 16 compute endpoints, as the system has, got 2" in text
    with pytest.raises(ValueError, match="no_such_file"):
        make_policy("placed", {"file": "no_such_file.json"}).place(system, MODEL, NOTHING)
    with pytest.raises(ValueError, match="file"):
        make_policy("placed", {})


@given(st.integers(0, 2**31))
@settings(max_examples=40)
def test_first_tokens_against_a_loop(seed: int) -> None:
    draws = np.random.default_rng(seed)
    tokens, experts, slots = int(draws.integers(1, 12)), 5, int(draws.integers(1, 4))
    ids = np.stack([draws.choice(experts, slots, replace=False) for _ in range(tokens)])
    ids[draws.random(ids.shape) < 0.1] = -1
    homes = token_homes(tokens, np.array([2, 4, 7], dtype=np.int32))
    groups = token_groups(ids, homes, 0, 8)
    places = {expert: draws.choice(4, int(draws.integers(1, 4)), replace=False) for expert in range(experts)}
    legs = [(g, int(c)) for g, group in enumerate(groups) for c in places[int(group["expert"])]]
    leg_group = np.array([g for g, _ in legs], dtype=np.int64)
    leg_chiplet = np.array([c for _, c in legs], dtype=np.int32)
    if not len(groups):
        return
    found = first_tokens(ids, homes, groups, leg_group, leg_chiplet)
    for chiplet in range(4):
        touched = sum(any(e >= 0 and chiplet in places[e] for e in row) for row in ids.tolist())
        assert found[leg_chiplet == chiplet].sum() == touched
    assert (found <= groups["tokens"][leg_group]).all()


def test_legs_of_whole_and_split_replicas(system: System) -> None:
    held = residency(system, halves(system, 1, WIDTH - 1))
    directory: Directory = held.directory()
    lead = directory.of(0, 1)[0]
    legs, rows = legs_of(np.array([lead, lead], dtype=np.int32), directory)
    assert legs.tolist() == [0, 0, 1, 1]
    assert rows.tolist() == [*directory.parts(int(lead))] * 2
    ids = np.array([[1], [1]])
    groups = token_groups(ids, token_homes(2, np.array([0, 1], dtype=np.int32)), 0, MODEL.activation_bytes)[legs]
    back = returned_bytes(groups, directory.rows[rows], MODEL, 4)
    assert back.tolist() == [MODEL.hidden * 4] * 4
