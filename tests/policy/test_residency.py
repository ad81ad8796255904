"""The keeper of the replicas: legality with reasons, and the steps prepare → publish → reclaim."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.policy import ActionKind, PlacedReplica, Placement, ResidencyAction
from cosim.policy.placement import expert_parallel
from cosim.policy.residency import RegionAllocator, Residency
from cosim.system import System, load_system, model

MODEL = model("own-byte-moe")
SIZE = MODEL.expert_bytes


@pytest.fixture(scope="module")
def system() -> System:
    return load_system("package-4x4")


def keeper(system: System, *, max_replicas: int = 2, budget: float = 1.25) -> Residency:
    return Residency(
        system,
        MODEL,
        expert_parallel(system, MODEL),
        expert_bytes=SIZE,
        alignment_bytes=4096,
        layers=[0, 1],
        max_replicas=max_replicas,
        budget_bytes=int(budget * 2 * MODEL.experts * SIZE),
    )


def promote(expert: int, chiplet: int, memory: int, layer: int = 0) -> ResidencyAction:
    return ResidencyAction(ActionKind.promote, layer, expert, chiplet, memory, "hbm")


def chiplet_other_than(system: System, residency: Residency, expert: int) -> int:
    directory = residency.directory()
    home = int(directory.rows["chiplet"][directory.of(0, expert)[0]])
    return next(place.index for place in system.compute_endpoints if place.index != home)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 5000), st.booleans()), max_size=60))
def test_regions_never_overlap_and_come_back(steps: list[tuple[int, bool]]) -> None:
    allocator = RegionAllocator(1 << 16, 64)
    held: list[tuple[int, int]] = []
    for size, give_back in steps:
        if give_back and held:
            allocator.give_back(*held.pop(size % len(held)))
            continue
        address = allocator.take(size)
        if address is None:
            continue
        assert address % 64 == 0
        assert address + size <= 1 << 16
        assert all(address + size <= other or other + length <= address for other, length in held)
        held.append((address, size))
    for region in held:
        allocator.give_back(*region)
    assert allocator.used_bytes == 0
    assert allocator.take(1 << 16) == 0


def test_a_copy_is_usable_only_after_its_publication(system: System) -> None:
    residency = keeper(system)
    chiplet = chiplet_other_than(system, residency, 5)
    memory = system.memory_endpoints[0].index
    orders, outcomes = residency.propose([promote(5, chiplet, memory)])
    assert [outcome.status for outcome in outcomes] == ["deferred"]
    assert len(residency.directory().of(0, 5)) == 1
    assert residency.migrating_bytes == SIZE
    assert residency.publish(orders[0].replica).status == "done"
    rows = residency.directory().rows[residency.directory().of(0, 5)]
    assert rows["chiplet"].tolist()[1] == chiplet
    assert rows["address"][1] == orders[0].to_address
    assert residency.migrating_bytes == 0


def test_an_evicted_replica_is_reclaimed_when_its_last_group_is_through(system: System) -> None:
    residency = keeper(system)
    chiplet = chiplet_other_than(system, residency, 5)
    memory = system.memory_endpoints[0].index
    (order,), _ = residency.propose([promote(5, chiplet, memory)])
    residency.publish(order.replica)
    used = residency.tier_used(len(system.endpoints))[memory]
    residency.use([order.replica], 1)
    _, outcomes = residency.propose([ResidencyAction(ActionKind.evict, 0, 5, replica=order.replica)])
    assert outcomes[0].status == "done"
    assert len(residency.directory().of(0, 5)) == 1
    assert residency.tier_used(len(system.endpoints))[memory] == used
    residency.use([order.replica], -1)
    assert residency.tier_used(len(system.endpoints))[memory] < used


def test_refusals_say_why(system: System) -> None:
    residency = keeper(system, budget=1.0)
    memory = system.memory_endpoints[0].index
    chiplet = chiplet_other_than(system, residency, 5)
    home = residency.directory().rows[residency.directory().of(0, 5)[0]]
    control = next(place.index for place in system.endpoints if place.kind == "control")
    wishes = [
        promote(5, chiplet, memory),
        promote(5, int(home["chiplet"]), memory),
        promote(5, control, memory),
        promote(5, chiplet, chiplet),
        promote(99, chiplet, memory),
        ResidencyAction(ActionKind.evict, 0, 5, replica=int(home["replica"])),
        ResidencyAction(ActionKind.evict, 0, 5, replica=10_000),
        ResidencyAction(ActionKind.demote, 0, 5, replica=int(home["replica"])),
    ]
    orders, outcomes = residency.propose(wishes)
    assert not orders
    assert [outcome.status for outcome in outcomes] == ["refused"] * len(wishes)
    reasons = [outcome.reason for outcome in outcomes]
    assert "exceed the budget" in reasons[0]
    assert "has a replica of it already" in reasons[1]
    assert "does not compute" in reasons[2]
    assert "no replica to copy" in reasons[4]
    assert "home" in reasons[5]
    assert "no replica 10000" in reasons[6]
    assert "home" in reasons[7]
    wide = keeper(system, max_replicas=1, budget=4.0)
    assert "of at most 1" in wide.propose([promote(5, chiplet, memory)])[1][0].reason
    assert "carries no tier" in keeper(system, budget=4.0).propose([promote(5, chiplet, chiplet)])[1][0].reason


def test_a_placement_that_misses_an_expert_or_does_not_fit_lists_every_error(system: System) -> None:
    whole = expert_parallel(system, MODEL).replicas
    arguments = {
        "expert_bytes": SIZE,
        "alignment_bytes": 4096,
        "layers": [0],
        "max_replicas": 1,
        "budget_bytes": 1 << 60,
    }
    missing = [replica for replica in whole if replica.expert not in (3, 7)]
    with pytest.raises(ConfigErrors, match=r"a replica of every expert, got none of 2: 3, 7"):
        Residency(system, MODEL, Placement(missing), **arguments)
    wrong = [*whole, PlacedReplica(0, 1, 2, 2, "sram"), PlacedReplica(0, 900, 0, 2, "hbm")]
    with pytest.raises(ConfigErrors) as found:
        Residency(system, MODEL, Placement(wrong), **arguments)
    assert len(found.value.errors) == 2
    with pytest.raises(ConfigErrors, match="too many") as found:
        Residency(system, MODEL, Placement(whole), **{**arguments, "expert_bytes": 200 << 20})
    text = str(found.value)
    assert f"{1 << 30} B" in text  # the tier's capacity and what was asked for, both
    assert "experts of 209715200 B" in text


def test_shared_experts_stand_at_every_chiplet_once_per_memory(system: System) -> None:
    residency = Residency(
        system,
        MODEL,
        expert_parallel(system, MODEL),
        expert_bytes=SIZE,
        alignment_bytes=4096,
        layers=[0],
        max_replicas=1,
        budget_bytes=MODEL.experts * SIZE,
        shared_bytes=65536,
    )
    rows = residency.directory().rows
    shared = rows[rows["expert"] == MODEL.experts]
    assert sorted(shared["chiplet"].tolist()) == [place.index for place in system.compute_endpoints]
    assert len(np.unique(shared[["memory", "address"]])) == len(np.unique(shared["memory"]))
    assert residency.replica_factor() == 1.0


# -- tiers


def tiered(*, least_windows: int = 0, updates: int = 0, budget: float = 1.25) -> tuple[System, Residency]:
    """The 3.5D package with experts of 24 KiB, three tiers."""
    system = load_system("hcrmap-table1")
    made = Residency(
        system,
        MODEL,
        expert_parallel(system, MODEL),
        expert_bytes=SIZE,
        alignment_bytes=4096,
        layers=[0],
        max_replicas=3,
        budget_bytes=int(budget * MODEL.experts * SIZE),
        min_residency_windows=least_windows,
        updates_per_window=updates,
    )
    return system, made


def wish(system: System, kind: ActionKind, expert: int, place: int, tier: str, replica: int = -1) -> ResidencyAction:
    memory = system.tier(tier).serving(place)[0]
    return ResidencyAction(kind, 0, expert, place, memory, tier, replica)


def test_a_replica_moves_down_the_tiers() -> None:
    system, residency = tiered()
    home = residency.directory().rows[residency.directory().of(0, 5)[0]]
    chiplet = int(home["chiplet"])
    orders, _ = residency.propose([wish(system, ActionKind.promote, 5, chiplet, "sram")])  # nearer, at its own chiplet
    residency.publish(orders[0].replica)
    near = orders[0].replica
    _, refused = residency.propose([wish(system, ActionKind.promote, 5, chiplet, "hbm")])
    assert "has a replica of it already" in refused[0].reason
    down, outcomes = residency.propose([wish(system, ActionKind.demote, 5, chiplet, "hbm", near)])
    assert outcomes[0].status == "deferred"
    assert near in residency.directory().rows["replica"]  # until its copy is there
    _, again = residency.propose([wish(system, ActionKind.demote, 5, chiplet, "hbm", near)])
    assert "on its way" in again[0].reason
    residency.publish(down[0].replica)
    rows = residency.directory().rows[residency.directory().of(0, 5)]
    assert [system.tiers[tier].name for tier in rows["tier"]] == ["dram", "hbm"]
    assert residency.allocators[[t.name for t in system.tiers].index("sram"), orders[0].to_memory].used_bytes == 0
    _, upwards = residency.propose([wish(system, ActionKind.demote, 5, chiplet, "sram", down[0].replica)])
    assert "not farther" in upwards[0].reason
    _, at_home = residency.propose([wish(system, ActionKind.demote, 5, chiplet, "dram", int(home["replica"]))])
    assert "home" in at_home[0].reason


def test_a_memory_outside_the_group_is_refused() -> None:
    system, residency = tiered()
    chiplet = int(residency.directory().rows[residency.directory().of(0, 5)[0]]["chiplet"])
    far = next(e for e in system.tier("sram").endpoints if e not in system.tier("sram").serving(chiplet))
    _, outcomes = residency.propose([ResidencyAction(ActionKind.promote, 0, 5, chiplet, far, "sram")])
    assert "does not serve" in outcomes[0].reason


def test_a_young_replica_stays_and_a_window_has_one_update() -> None:
    system, residency = tiered(least_windows=2, updates=1)
    chiplet = chiplet_other_than(system, residency, 5)
    both = [wish(system, ActionKind.promote, expert, chiplet, "hbm") for expert in (5, 6)]
    orders, outcomes = residency.propose(both)
    assert [outcome.status for outcome in outcomes] == ["deferred", "refused"]
    assert "at most 1 updates" in outcomes[1].reason
    residency.publish(orders[0].replica)
    leave = ResidencyAction(ActionKind.evict, 0, 5, replica=orders[0].replica)
    for age in range(2):
        _, outcomes = residency.propose([leave])
        assert f"its age is {age} windows, of at least 2" in outcomes[0].reason
        residency.close_window()
    _, outcomes = residency.propose([leave])
    assert outcomes[0].status == "done"
