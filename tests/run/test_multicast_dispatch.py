"""Dispatch by multicast: the same tokens at the same replicas, each out of its chiplet once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import Experiment
from cosim.config.errors import ConfigErrors
from cosim.run.loop import LayerResult
from cosim.run.unit import UnitKey, run_unit, unit_loop
from cosim.workload.groups import token_groups, token_homes, token_legs
from cosim.workload.lowering import LayerTasks
from cosim.workload.multicast import multicasts

CLASSES = (
    "token: {vcs: [0], priority: 2, waits_for: [weight]}, weight: {vcs: [1, 2], priority: 1}, "
    "prefetch: {vcs: [3], priority: 0}"
)


def experiment(dispatch: str, *more: str) -> Experiment:
    return Experiment.load(
        "quickstart",
        [
            "workload.batches=2",
            "workload.layers=0-1",
            "rungs=[link, flit]",
            "analytic=[]",
            "claims=null",
            "seeds=[1]",
            "system.levels.package.num_vcs=5",
            "system.levels.package.max_packet_flits=8",  # a whole packet in a VC
            f"system.levels.package.message_classes={{{CLASSES}, broadcast: {{vcs: [4]}}}}",
            f"policies=[{{name: comoe, params: {{dispatch: {dispatch}, window_batches: 1, resident: none}}}}]",
            *more,
        ],
    )


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_every_job_has_its_tokens_before_it_starts_and_every_token_leaves_once(rung: str) -> None:
    made = experiment("multicast")
    loop = unit_loop(made.setup, UnitKey("comoe", rung, 1))
    size = made.setup.model.activation_bytes
    seen = []

    def layer_over(
        result: LayerResult, tasks: LayerTasks, base: int, records: dict[str, npt.NDArray[np.int64]]
    ) -> None:
        seen.append(result.layer)
        rows = made.setup.batches(1)[result.batch]
        homes = token_homes(len(rows), loop.machine.compute_endpoints)
        out = 0
        for token in range(len(rows)):
            experts = loop.inputs.ids[rows[token], result.layer]
            held = (result.groups["source"] == homes[token]) & np.isin(result.groups["expert"], experts)
            out += len(set(result.replicas["chiplet"][held].tolist()) - {int(homes[token])}) > 0
        assert tasks.dispatch_bytes == out * size
        end = records["end_fs"][np.searchsorted(records["task"], base + np.arange(tasks.tasks))]
        ready = records["ready_fs"][np.searchsorted(records["task"], base + np.arange(tasks.tasks))]
        for group, dispatch in enumerate(tasks.dispatch_of_group.tolist()):
            local = result.groups["source"][group] == result.replicas["chiplet"][group]
            assert (dispatch < 0) == local
            if dispatch >= 0:
                assert ready[tasks.fetches + tasks.replica_of_group[group]] >= end[dispatch]

    loop.layer_over = layer_over  # type: ignore[assignment]
    loop.run()
    assert seen == [0, 1, 0, 1]


def test_it_brings_the_same_tokens_with_fewer_bytes() -> None:
    plain, once = experiment("unicast").run("comoe", "flit"), experiment("multicast").run("comoe", "flit")
    columns = ["batch", "layer", "expert", "source", "tokens"]
    assert once.groups[columns].equals(plain.groups[columns])
    assert int(once.layers["bytes_dispatch"].sum()) < int(plain.layers["bytes_dispatch"].sum())
    assert once.figures[1]["packets_multicast"] > 0
    assert plain.figures[1]["packets_multicast"] == 0
    stages = [name for name in once.layers if name.endswith("_fs") and name != "total_fs"]
    assert once.layers[stages].sum(axis=1).tolist() == once.layers["total_fs"].tolist()


def test_tenants_share_no_multicast() -> None:
    shared = "isolation={tenants: {first: {requests: 64-79}, second: {requests: 80-127}}}"
    alone = run_unit(experiment("multicast").setup, UnitKey("comoe", "link", 1))
    apart = run_unit(experiment("multicast", shared).setup, UnitKey("comoe", "link", 1))
    assert int(apart.frames["layers"]["bytes_dispatch"].sum()) == int(alone.frames["layers"]["bytes_dispatch"].sum())
    assert int(apart.frames["groups"]["tokens"].sum()) == int(alone.frames["groups"]["tokens"].sum())


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 4), st.integers(2, 5))
def test_messages_bring_every_token_to_every_chiplet_that_wants_it(
    seed: int, tokens: int, slots: int, chiplets: int
) -> None:
    drawn = np.random.default_rng(seed)
    ids = np.stack([drawn.permutation(8)[:slots] for _ in range(tokens)])
    homes = token_homes(tokens, np.arange(chiplets, dtype=np.int32))
    groups = token_groups(ids, homes, 0, 4)
    place = drawn.integers(0, chiplets, 8).astype(np.int32)  # of each expert
    legs = np.arange(len(groups))
    there = place[groups["expert"]]
    found = multicasts(*token_legs(ids, homes, groups, legs), there, homes, None, "multicast", lambda ends: 0)
    delivered: dict[tuple[int, int], int] = {}
    for source, targets, count in zip(found.source, found.targets, found.tokens, strict=True):
        assert source not in targets
        assert len(set(targets)) == len(targets)
        for target in targets:
            delivered[source, target] = delivered.get((source, target), 0) + count
    wanted: dict[tuple[int, int], int] = {}
    for token in range(tokens):
        for target in set(place[ids[token]].tolist()) - {int(homes[token])}:
            at = (int(homes[token]), target)
            wanted[at] = wanted.get(at, 0) + 1
    assert delivered == wanted
    assert len(set(zip(found.source, found.targets, strict=True))) == len(found.source)
    for message, leg in found.pairs.tolist():
        assert found.source[message] == groups["source"][leg]
        assert int(there[leg]) in found.targets[message]


def test_a_network_without_the_class_is_refused() -> None:
    with pytest.raises(ConfigErrors, match=r"message_classes\.broadcast\.vcs"):
        experiment(
            "multicast", f"system.levels.package.message_classes={{{CLASSES}}}", "system.levels.package.num_vcs=4"
        ).check()
