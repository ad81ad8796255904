"""No token reads weights that are half written, harmed, of another expert or version, whatever fails in any order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import Experiment
from cosim.policy import ActionKind, ResidencyAction
from cosim.policy.placement import expert_parallel
from cosim.policy.residency import Residency, WriteOrder
from cosim.policy.weight_store import ConsistencyError
from cosim.system import System, load_system, model

MODEL = model("own-byte-moe")
SYSTEM: System = load_system("package-4x4")
COMPUTES = [place.index for place in SYSTEM.compute_endpoints]
MEMORIES = [place.index for place in SYSTEM.memory_endpoints]


def keeper() -> Residency:
    return Residency(
        SYSTEM,
        MODEL,
        expert_parallel(SYSTEM, MODEL),
        expert_bytes=MODEL.expert_bytes,
        alignment_bytes=4096,
        layers=[0],
        max_replicas=4,
        budget_bytes=3 * MODEL.experts * MODEL.expert_bytes,
    )


def promote(expert: int, chiplet: int, memory: int = MEMORIES[0]) -> ResidencyAction:
    return ResidencyAction(ActionKind.promote, 0, expert, chiplet, memory, "hbm")


def other(residency: Residency, expert: int, number: int = 0) -> int:
    held = {int(residency.directory().rows["chiplet"][row]) for row in residency.directory().of(0, expert)}
    return [chiplet for chiplet in COMPUTES if chiplet not in held][number]


def stage(residency: Residency, expert: int, *, whole: bool = True, intact: bool = True) -> str:
    """A next version is written at once, soundly or not."""
    orders = residency.stage(0, expert)
    if isinstance(orders, str):
        return orders
    for order in orders:
        residency.written(order.replica, whole=whole, intact=intact)
    return ""


def used_bytes(residency: Residency) -> int:
    return sum(allocator.used_bytes for allocator in residency.allocators.values())


def test_a_harmed_copy_is_dropped_and_the_old_replicas_go_on() -> None:
    residency = keeper()
    before = used_bytes(residency)
    (order,), _ = residency.propose([promote(3, other(residency, 3))])
    outcome = residency.publish(order.replica, intact=False)
    assert (outcome.status, outcome.reason) == ("refused", "its checksum is wrong")
    assert len(residency.directory().of(0, 3)) == 1
    assert used_bytes(residency) == before
    assert residency.directory().rows["in_flight"].max() == 0


def test_an_interrupted_copy_gives_its_region_back() -> None:
    residency = keeper()
    before = used_bytes(residency)
    (order,), _ = residency.propose([promote(3, other(residency, 3))])
    assert residency.interrupt(order.replica).reason == "its copy was interrupted"
    assert used_bytes(residency) == before
    (again,), _ = residency.propose([promote(3, other(residency, 3))])  # and may be asked for again
    assert residency.publish(again.replica).status == "done"


def test_the_checker_sees_what_is_half_written_and_what_is_gone() -> None:
    residency = keeper()
    (order,), _ = residency.propose([promote(3, other(residency, 3))])
    with pytest.raises(ConsistencyError, match="it has been reclaimed"):
        residency.check_reads([order.replica])  # not in the directory yet
    row = residency.directory(with_pending=True).rows[-1]
    residency._rows[order.replica] = row.copy()  # published before its time: what the law guards against
    with pytest.raises(ConsistencyError, match="it is half written"):
        residency.check_reads([order.replica])
    residency._rows[0]["version"] = 7
    with pytest.raises(ConsistencyError, match="it holds version 0 instead of 7"):
        residency.check_reads([0])
    residency._rows[1]["address"] = residency._rows[2]["address"]
    residency._rows[1]["memory"] = residency._rows[2]["memory"]
    with pytest.raises(ConsistencyError, match="it holds expert 2 of layer 0"):
        residency.check_reads([1])


def test_a_hot_upgrade_with_tokens_in_flight() -> None:
    residency = keeper()
    old = int(residency.directory().rows["replica"][residency.directory().of(0, 5)[0]])
    residency.use([old], 1)
    assert stage(residency, 5) == ""
    assert residency.directory().of(0, 5).tolist() == [5]  # still the old one
    assert residency.upgrade(0, 5) == ""
    row = residency.directory().rows[residency.directory().of(0, 5)[0]]
    assert (int(row["version"]), int(row["in_flight"])) == (1, 0)
    residency.check_reads([old, int(row["replica"])])  # the token in flight ends on what it began with
    used = used_bytes(residency)
    residency.use([old], -1)
    assert used_bytes(residency) == used  # kept for a return
    assert residency.confirm(0, 5) == ""
    assert used_bytes(residency) < used
    with pytest.raises(ConsistencyError):
        residency.check_reads([old])
    (action,) = [ResidencyAction(ActionKind.evict, 0, 5, replica=int(row["replica"]))]
    assert residency.propose([action])[1][0].reason == "it is the expert's home"


def test_a_return_to_the_version_before() -> None:
    residency = keeper()
    old = residency.directory().of(0, 5).tolist()
    before = used_bytes(residency)
    stage(residency, 5)
    residency.upgrade(0, 5)
    new = int(residency.directory().rows["replica"][residency.directory().of(0, 5)[0]])
    residency.use([new], 1)
    assert residency.roll_back(0, 5) == ""
    assert residency.directory().of(0, 5).tolist() == old
    residency.check_reads([new, 5])
    residency.use([new], -1)
    assert used_bytes(residency) == before
    assert residency.roll_back(0, 5) == "no version to go back to"


def test_a_harmed_next_version_is_never_published() -> None:
    residency = keeper()
    before = used_bytes(residency)
    assert residency.upgrade(0, 5) == "nothing is staged"
    stage(residency, 5, intact=False)
    assert stage(residency, 5) == "an upgrade of it is under way"
    assert residency.upgrade(0, 5) == "a checksum of its next version is wrong"
    stage(residency, 5, whole=False)
    assert residency.upgrade(0, 5) == "its next version was not written to its end"
    (order,) = residency.stage(0, 5)
    assert isinstance(order, WriteOrder)
    assert residency.upgrade(0, 5) == "its next version is being written"
    residency.drop_staged(0, 5)
    assert used_bytes(residency) > before  # the write goes on
    residency.written(order.replica)
    assert residency.directory().rows["version"].max() == 0
    assert used_bytes(residency) == before


def test_a_copy_of_the_old_version_is_not_published_after_an_upgrade() -> None:
    residency = keeper()
    (order,), _ = residency.propose([promote(5, other(residency, 5))])
    stage(residency, 5)
    residency.upgrade(0, 5)
    assert residency.publish(order.replica).reason == "another version has been published meanwhile"
    residency.check_reads(residency.directory().rows["replica"].tolist())


KINDS = (
    "promote",
    "publish",
    "harm",
    "interrupt",
    "evict",
    "stage",
    "harmed",
    "begin",
    "written",
    "drop",
    "upgrade",
    "back",
    "confirm",
    "use",
    "end",
)
STEPS = st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.integers(0, 3))


@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, max_size=40))
def test_no_order_of_events_lets_a_token_read_what_it_must_not(steps: list[tuple[str, int, int]]) -> None:
    residency = keeper()
    flying: list[int] = []
    for step, expert, number in steps:
        pending = sorted(residency.pending)
        if step == "promote":
            residency.propose([promote(expert, other(residency, expert, number), MEMORIES[number])])
        elif step in ("publish", "harm") and pending:
            residency.publish(pending[number % len(pending)], intact=step == "publish")
        elif step == "interrupt" and pending:
            residency.interrupt(pending[number % len(pending)])
        elif step == "evict":
            rows = residency.directory().of(0, expert)
            identity = int(residency.directory().rows["replica"][rows[number % len(rows)]])
            residency.propose([ResidencyAction(ActionKind.evict, 0, expert, replica=identity)])
        elif step in ("stage", "harmed"):
            stage(residency, expert, intact=step == "stage")
        elif step == "begin":
            residency.stage(0, expert)
        elif step == "written" and residency.writing:
            residency.written(sorted(residency.writing)[number % len(residency.writing)], whole=number != 3)
        elif step == "drop" and (0, expert) in residency.upgrades()[0]:
            residency.drop_staged(0, expert)
        elif step == "upgrade":
            residency.upgrade(0, expert)
        elif step == "back":
            residency.roll_back(0, expert)
        elif step == "confirm":
            residency.confirm(0, expert)
        elif step == "use":
            rows = residency.directory().of(0, expert)
            row = residency.directory().rows[rows[number % len(rows)]]
            flying.append(int(row["replica"]))
            residency.use([flying[-1]], 1)
        elif step == "end" and flying:
            residency.use([flying.pop(number % len(flying))], -1)
        # every token in flight still has the weights it began with, every published replica is fit to be read
        residency.check_reads(flying)
        directory = residency.directory()
        residency.check_reads(directory.rows["replica"].tolist())
        versions = {e: {int(directory.rows["version"][row]) for row in directory.of(0, e)} for e in range(4)}
        assert all(len(found) == 1 for found in versions.values())  # of one expert, one version
        assert directory.rows["in_flight"].min() >= 0
    regions = sorted(
        (int(row["memory"]), int(row["address"]), int(row["bytes"])) for row in np.concatenate(residency.rows())
    )
    regions += [(order.to_memory, order.to_address, order.bytes) for order in residency.pending.values()]
    for memory in MEMORIES:
        held = sorted((address, size) for at, address, size in regions if at == memory)
        assert all(first + size <= second for (first, size), (second, _) in pairwise(held))


SMALL = [
    "seeds=[1]",
    "workload.batches=4",
    "workload.layers=0-1",
    "workload.batch_tokens=16",
    "rungs=[link]",
    "analytic=[]",
    "claims=null",
    "policies=[popularity_prefetch, {name: hot_replication, params: {window_batches: 1}}]",
]


def test_nobody_copies_or_moves_an_expert_that_is_being_upgraded() -> None:
    residency = keeper()
    stage(residency, 5)
    for upgraded in (False, True):
        if upgraded:
            residency.upgrade(0, 5)
        orders, (outcome,) = residency.propose([promote(5, other(residency, 5))])
        assert (orders, outcome.reason) == ([], "an upgrade of its expert is under way")
    residency.confirm(0, 5)
    assert residency.propose([promote(5, other(residency, 5))])[1][0].status == "deferred"


def test_in_a_replay_a_copy_of_the_version_before_may_come_after_the_next() -> None:
    residency = keeper()
    (order,), _ = residency.propose([promote(5, other(residency, 5))])
    (home,) = residency.replicas_of(0, 5)
    written = residency.stage(0, 5, replicas=(home, order.replica))
    assert not isinstance(written, str)
    assert residency.upgrade(0, 5, recorded=True) == ""  # not even written
    assert residency.publish(order.replica).status == "done"
    residency.check_reads([order.replica])  # for the tokens that were sent there; nobody else is
    assert residency.replicas_of(0, 5) == tuple(one.replica for one in written)
    for one in written:
        residency.written(one.replica)
    residency.check_reads(residency.replicas_of(0, 5))
    residency.roll_back(0, 5)
    assert residency.replicas_of(0, 5) == (home, order.replica)


def test_injected_faults_cost_time_and_change_no_result() -> None:
    sound = Experiment.load("quickstart", SMALL)
    faulty = Experiment.load(
        "quickstart", [*SMALL, "faults={prefetch: 0.5, interruption: 0.4, checksum: 0.4, seed: 3}"]
    )
    for policy in ("popularity_prefetch", "hot_replication"):
        one, two = sound.run(policy, "link"), faulty.run(policy, "link")
        pairs = ["batch", "layer", "expert", "source", "tokens"]
        mine, theirs = (run.groups[pairs].sort_values(pairs).reset_index(drop=True) for run in (one, two))
        assert mine.equals(theirs)  # the same tokens in the same experts
        assert faulty.run(policy, "link").layers.equals(two.layers)
    assert faulty.run("popularity_prefetch", "link").layers["bytes_prefetch"].sum() < (
        sound.run("popularity_prefetch", "link").layers["bytes_prefetch"].sum()
    )
    assert two.layers["replica_factor"].iloc[-1] < one.layers["replica_factor"].iloc[-1]
