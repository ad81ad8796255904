"""Several tenants on one system: nobody gets beyond its bounds, and nothing of one is left for another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import Experiment
from cosim.config.errors import ConfigErrors
from cosim.policy.tenants import TenantLedger, TenantLimits
from cosim.run.checkpoint import load_state, save_state
from cosim.run.loop import LayerResult, RunLoop
from cosim.run.unit import UnitKey, run_unit, unit_loop
from cosim.workload.admission import QueueQuotas, holds
from cosim.workload.groups import GROUPS, first_tokens, token_groups, token_homes
from cosim.workload.lowering import LayerTasks

EXPERT_BYTES = 49152  # of own-byte-moe


def experiment(policies: str, first: str = "", second: str = "", scrub: bool = True, *more: str) -> Experiment:
    return Experiment.load(
        "quickstart",
        [
            "workload.batches=4",
            "workload.layers=0-1",
            "rungs=[link, flit]",
            "analytic=[]",
            "claims=null",
            "seeds=[1]",
            f"policies=[{policies}]",
            f"isolation={{scrub: {str(scrub).lower()}, tenants: "
            f"{{first: {{requests: 64-79{first}}}, second: {{requests: 80-127{second}}}}}}}",
            *more,
        ],
    )


REPLICATION = "{name: hot_replication, params: {window_batches: 1, replica_budget: 1.5}}"


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_copies_stay_within_the_quota_of_who_pays_for_them(rung: str) -> None:
    free = experiment(REPLICATION).run("hot_replication", rung)
    most = 2 * EXPERT_BYTES
    bound = experiment(REPLICATION, f", replica_bytes: {most} B", f", replica_bytes: {most} B")
    held = bound.run("hot_replication", rung)
    books = held.tenants.groupby("tenant")
    assert books["peak_replica_bytes"].max().le(most).all()
    assert held.tenants["peak_replica_bytes"].max() > 0
    assert free.tenants["peak_replica_bytes"].max() > most
    assert free.tenants["refused_copies"].max() == 0
    assert books["refused_copies"].max().sum() > 0
    assert int(held.layers["bytes_migration"].sum()) < int(free.layers["bytes_migration"].sum())
    for run in (free, held):
        # what the tenants had is what the groups had, and the last tenant ends with the layer
        tokens = run.groups.groupby(["batch", "layer", "tenant"])["tokens"].sum()
        assert tokens.tolist() == run.tenants.loc[run.tenants["tokens"] > 0, "tokens"].tolist()
        last = run.tenants.groupby(["batch", "layer"])["total_fs"].max()
        assert last.tolist() == run.layers["total_fs"].tolist()


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_what_is_given_back_is_written_over_first(rung: str) -> None:
    kept = experiment(REPLICATION, scrub=False)
    done = experiment(REPLICATION)
    reclaimed: dict[int, int] = {}

    def watch(loop: RunLoop) -> None:
        give_back = loop.residency.scrubbed

        def counted(replica: int) -> None:
            reclaimed[replica] = loop.residency.scrubbing[replica][1].bytes
            give_back(replica)

        loop.residency.scrubbed = counted  # type: ignore[method-assign]

    key = UnitKey("hot_replication", rung, 1)
    plain = run_unit(kept.setup, key)
    written = run_unit(done.setup, key, prepare=watch)
    assert "bytes_scrub" not in plain.frames["layers"]
    assert reclaimed  # copies that the window's load no longer asked for
    scrubbed = sum(reclaimed.values())
    assert 0 < int(written.frames["layers"]["bytes_scrub"].sum()) <= scrubbed
    # every byte in the banks was copied there or written over what had been there
    copied = sum(size for _, size in _published(done, rung))
    assert written.figures["dram_written_bytes"] == copied + scrubbed


def _published(made: Experiment, rung: str) -> list[tuple[int, int]]:
    loop = unit_loop(made.setup, UnitKey("hot_replication", rung, 1))
    found: list[tuple[int, int]] = []
    publish = loop.residency.publish

    def seen(replica: int, *, intact: bool = True) -> Any:
        found.append((replica, loop.residency.pending[replica].bytes))
        return publish(replica, intact=intact)

    loop.residency.publish = seen  # type: ignore[method-assign]
    loop.run()
    return found


def test_prefetches_stay_within_their_credits() -> None:
    pages = "popularity_prefetch"
    bound = experiment(pages, ", prefetch_pages: 1", ", prefetch_pages: 2")
    loop = unit_loop(bound.setup, UnitKey(pages, "link", 1))
    most = [0, 0]

    def count(running: RunLoop) -> None:
        books = running.residency.tenants
        assert books is not None
        for tenant in (0, 1):
            most[tenant] = max(most[tenant], sum(books.prefetch_of(number) == tenant for number in running.prefetches))

    loop.between_layers = count
    results = loop.run()
    assert most[0] <= 1
    assert most[1] == 2
    assert results[-1].tenants[1].refused_prefetches > 0
    free = experiment(pages).run(pages, "link")
    assert sum(r.bytes_by_class["prefetch"] for r in results) < int(free.layers["bytes_prefetch"].sum())


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_a_chiplet_never_holds_more_tokens_of_a_tenant_than_its_quota(rung: str) -> None:
    quota = 3
    bound = experiment("static", "", f", queue_tokens: {quota}")
    free = experiment("static")
    held, unbound = _most_held(bound, rung), _most_held(free, rung)
    for (tenant, largest), most in held.items():
        assert tenant == 0 or most <= max(quota, largest)
    assert max(most for (tenant, _), most in unbound.items() if tenant == 1) > quota
    slower, faster = bound.run("static", rung), free.run("static", rung)
    columns = ["layer", "expert", "source", "tenant", "tokens"]
    assert slower.groups[columns].equals(faster.groups[columns])  # the same work, later
    assert int(slower.layers["total_fs"].sum()) > int(faster.layers["total_fs"].sum())
    assert slower.tenants.groupby("tenant")["held_fs"].sum().gt(0).tolist() == [False, True]
    assert faster.tenants["held_fs"].sum() == 0


def _most_held(made: Experiment, rung: str) -> dict[tuple[int, int], int]:
    """Most tokens of a tenant that were under way to a chiplet or waited there, by tenant and the largest job's."""
    loop = unit_loop(made.setup, UnitKey("static", rung, 1))
    most: dict[tuple[int, int], int] = {}

    def layer_over(
        result: LayerResult, tasks: LayerTasks, base: int, records: dict[str, npt.NDArray[np.int64]]
    ) -> None:
        for tenant in (0, 1):
            for chiplet in np.unique(result.replicas["chiplet"]).tolist():
                mine = np.flatnonzero((result.groups["tenant"] == tenant) & (result.replicas["chiplet"] == chiplet))
                steps: list[tuple[int, int]] = []
                jobs = tasks.replica_of_group[mine]
                for group in mine.tolist():
                    sent, job = int(tasks.dispatch_of_group[group]), tasks.fetches + int(tasks.replica_of_group[group])
                    from_fs = records["ready_fs"][np.searchsorted(records["task"], base + (sent if sent >= 0 else job))]
                    to_fs = records["end_fs"][np.searchsorted(records["task"], base + job)]
                    count = int(result.groups["tokens"][group])
                    steps += [(int(from_fs), count), (int(to_fs), -count)]
                held = peak = 0
                for _, change in sorted(steps, key=lambda step: (step[0], step[1])):
                    held += change
                    peak = max(peak, held)
                largest = max((int(result.groups["tokens"][mine[jobs == j]].sum()) for j in jobs), default=0)
                most[tenant, largest] = max(most.get((tenant, largest), 0), peak)

    loop.layer_over = layer_over  # type: ignore[assignment]
    loop.run()
    return most


def test_a_run_with_tenants_goes_on_from_any_layer() -> None:
    made = experiment(REPLICATION, f", replica_bytes: {EXPERT_BYTES} B")
    key = UnitKey("hot_replication", "link", 1)
    whole = run_unit(made.setup, key)
    states: list[bytes] = []

    def keep(loop: RunLoop) -> None:
        loop.between_layers = lambda running: states.append(save_state(running))

    run_unit(made.setup, key, prepare=keep)
    for state in (states[3], states[5]):
        again = run_unit(made.setup, key, prepare=lambda loop, state=state: load_state(loop, state))
        for name in ("layers", "tenants", "groups"):
            assert again.frames[name].equals(whole.frames[name])


def test_a_replay_has_the_same_groups_and_payers() -> None:
    made = experiment(REPLICATION, f", replica_bytes: {2 * EXPERT_BYTES} B")
    first = run_unit(made.setup, UnitKey("hot_replication", "link", 1))
    again = run_unit(made.setup, UnitKey("hot_replication", "flit", 1), first.record)
    columns = ["batch", "layer", "expert", "tenant", "tokens", "replica"]
    assert again.frames["groups"][columns].equals(first.frames["groups"][columns])
    assert again.frames["tenants"]["tokens"].equals(first.frames["tenants"]["tokens"])


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_groups_hold_tokens_of_one_tenant_and_together_those_of_all(data: st.DataObject) -> None:
    tokens, slots, chiplets = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 3), st.integers(1, 4)))
    seed = data.draw(st.integers(0, 2**32 - 1))
    drawn = np.random.default_rng(seed)
    ids = np.stack([drawn.permutation(8)[:slots] for _ in range(tokens)])
    tenants = drawn.integers(0, 3, tokens).astype(np.int16)
    homes = token_homes(tokens, np.arange(chiplets, dtype=np.int32))
    groups = token_groups(ids, homes, 2, 4, tenants)
    wanted = {}
    for token in range(tokens):
        for expert in ids[token].tolist():
            at = (expert, int(homes[token]), int(tenants[token]))
            wanted[at] = wanted.get(at, 0) + 1
    found = {(int(g["expert"]), int(g["source"]), int(g["tenant"])): int(g["tokens"]) for g in groups}
    assert found == wanted
    # every token counts once at a chiplet, whoever owns it
    legs = np.arange(len(groups))
    there = np.zeros(len(groups), dtype=np.int32)
    assert int(first_tokens(ids, homes, groups, legs, there, tenants).sum()) == tokens
    alone = token_groups(ids, homes, 2, 4)
    merged = {(expert, source): 0 for expert, source, _ in found}
    for (expert, source, _), count in found.items():
        merged[expert, source] += count
    assert {(int(g["expert"]), int(g["source"])): int(g["tokens"]) for g in alone} == merged


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_holds_bound_what_is_there_and_wait_for_earlier_jobs_only(data: st.DataObject) -> None:
    jobs = data.draw(st.integers(1, 10))
    chiplets = np.array(data.draw(st.lists(st.integers(0, 2), min_size=jobs, max_size=jobs)))
    size = np.array(data.draw(st.lists(st.integers(1, 5), min_size=jobs, max_size=jobs)))
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, jobs - 1), st.integers(0, 1), st.integers(1, 6)), min_size=1, max_size=20)
    )
    groups = np.zeros(len(rows), dtype=GROUPS)
    groups["tenant"] = [tenant for _, tenant, _ in rows]
    groups["tokens"] = [tokens for _, _, tokens in rows]
    job = np.array([number for number, _, _ in rows])
    most = data.draw(st.integers(1, 10))
    quotas = QueueQuotas([None, most], dict.fromkeys(range(3), 6), dict.fromkeys(range(3), 1))
    found = holds(quotas, job, groups, chiplets, size)
    assert all(a < b and chiplets[a] == chiplets[b] for a, b, _ in found.tokens.tolist())
    assert all(tenant == 1 for _, _, tenant in found.tokens.tolist())
    assert {(a, b) for a, b in found.weights.tolist()} <= {(a, b) for a, b, _ in found.tokens.tolist()}
    # whatever jobs end first: those that may be there together are within the quota
    owed = {number: {a for a, b, _ in found.tokens.tolist() if b == number} for number in range(jobs)}
    tokens = {n: int(groups["tokens"][(job == n) & (groups["tenant"] == 1)].sum()) for n in range(jobs)}
    order = data.draw(st.permutations(list(range(jobs))))
    over: set[int] = set()
    while len(over) < jobs:
        there = [n for n in range(jobs) if n not in over and owed[n] <= over]
        for chiplet in range(3):
            held = [tokens[n] for n in there if chiplets[n] == chiplet and tokens[n]]
            assert sum(held) <= max(most, max(held, default=0)) or len(held) == 1
        over.add(next(n for n in order if n in there))


def test_the_payer_is_who_used_an_expert_most() -> None:
    books = TenantLedger(TenantLimits(["a", "b"], [None, 10], [None, 0], [None, None]), 1, 4)
    groups = np.zeros(3, dtype=GROUPS)
    groups["expert"], groups["tenant"], groups["tokens"] = [0, 0, 1], [0, 1, 1], [2, 3, 9]
    books.see(groups)
    assert [books.payer(0, expert) for expert in range(4)] == [1, 1, 1, 1]
    groups["tokens"] = [5, 1, 0]
    books.see(groups)
    assert books.payer(0, 0) == 0
    assert books.copy_problem(0, 1, 8) == ""
    books.charge(7, 0, 1, 8)
    assert books.copy_problem(0, 1, 8) == "16 B of copies exceed the quota of 10 B of tenant b"
    assert books.prefetch_problem(0, 1, {}) == "tenant b has its 0 pages under way or waiting"
    books.release(7)
    assert books.held_bytes(1) == 0
    assert books.refused == {"copies": [0, 1], "prefetches": [0, 1]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("isolation.tenants.second.requests=72-127", "requests that are not those of tenant 'first', '64-79'"),
        ("isolation.tenants.second.requests=80-100", "none for 27 of them, the first is request 101"),
        ("policies=[{name: expert_parallel, params: {dispatch: per_chiplet}}]", "beside queue_tokens"),
    ],
)
def test_what_does_not_go_together_is_refused(change: str, says: str) -> None:
    with pytest.raises(ConfigErrors, match=says):
        experiment("static", "", ", queue_tokens: 4", True, change).check()
