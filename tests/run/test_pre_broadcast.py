"""Pre-broadcasts in runs: their bytes are moved, their replicas serve when they are there, and nothing else changes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pandas as pd
import pytest

from cosim.policy.base import ActionKind, PreBroadcast, ResidencyAction
from cosim.run.checkpoint import load_state, record_from_json, record_to_json, save_state
from cosim.run.setup import Setup
from cosim.run.unit import UnitKey, run_unit, unit_loop
from cosim.system import open_experiment

MESSAGES = {"file": "hda-moe-hd-4x4", "dispatch": "per_chiplet", "gather": "per_chiplet"}
SIZE, NODES = 48 << 10, 16
KEY = ["batch", "layer", "expert", "source"]


def document(**changes: Any) -> dict[str, Any]:
    return {
        "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
        "workload": {
            "model": "own-byte-moe",
            "mode": "random",
            "batch_tokens": 256,
            "batches": 3,
            "layers": "0-1",
            "scope": "routed",
        },
        "system": "near-memory-4x4",
        "policies": [
            {"name": "placed", "params": MESSAGES, "label": "static"},
            {"name": "hd_moe", "params": {**MESSAGES, "pre_broadcast": "off"}, "label": "off"},
            {"name": "hd_moe", "params": {**MESSAGES, "pre_broadcast": "always", "experts": 2}, "label": "chunks"},
            {
                "name": "hd_moe",
                "params": {**MESSAGES, "pre_broadcast": "always", "experts": 2, "chunks": False},
                "label": "unicasts",
            },
        ],
        "rungs": ["link", "flit"],
        "seeds": [1],
        **changes,
    }


@lru_cache
def setup() -> Setup:
    return Setup(open_experiment(document()))


@lru_cache
def ran(policy: str, rung: str) -> Any:
    return run_unit(setup(), UnitKey(policy, rung, 1))


def broadcasts(result: Any) -> list[PreBroadcast]:
    return [a for d in result.record.layers.values() for a in d.actions if isinstance(a, PreBroadcast)]


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_off_is_the_placement(rung: str) -> None:
    off, static = ran("off", rung), ran("static", rung)
    for name in ("layers", "groups"):
        drop = ["policy"]
        pd.testing.assert_frame_equal(off.frames[name].drop(columns=drop), static.frames[name].drop(columns=drop))


@pytest.mark.parametrize("rung", ["link", "flit"])
@pytest.mark.parametrize("policy", ["chunks", "unicasts"])
def test_a_broadcast_moves_its_bytes_and_serves_the_same_experts(policy: str, rung: str) -> None:
    result, static = ran(policy, rung), ran("static", rung)
    asked = broadcasts(result)
    assert asked
    # to every node a whole expert, but for what of it lies there: all of it at one node, or its parts at several
    expected = len(asked) * (NODES - 1) * SIZE
    assert result.figures["dram_written_bytes"] == expected
    assert 0 < int(result.frames["layers"]["bytes_migration"].sum()) <= expected  # some end behind the last layer
    assert static.figures["dram_written_bytes"] == 0
    groups = result.frames["groups"]
    homes = set(static.frames["groups"]["replica"])
    late = policy == "unicasts" and rung == "flit"  # thirty times through one port
    assert (~groups["replica"].isin(homes)).any() != late
    # each (batch, layer, expert, source) has its tokens once, split or whole
    mine = groups.drop_duplicates(KEY)[[*KEY, "tokens"]].reset_index(drop=True)
    theirs = static.frames["groups"].drop_duplicates(KEY)[[*KEY, "tokens"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(mine, theirs)
    # two slots, of the experts of two layers
    assert result.frames["layers"]["replica_factor"].max() <= 1 + 2 * (NODES - 1) / (2 * 64)


def test_passing_chunks_on_sends_each_byte_over_fewer_links() -> None:
    chunks, unicasts = ran("chunks", "flit"), ran("unicasts", "flit")
    per_broadcast = [
        one.figures["router_prefetch_cycles"] / one.figures["dram_written_bytes"] for one in (chunks, unicasts)
    ]
    assert per_broadcast[0] < 0.8 * per_broadcast[1]


def test_a_run_that_is_interrupted_ends_the_same() -> None:
    key = UnitKey("chunks", "link", 1)
    loop = unit_loop(setup(), key)
    states: list[bytes] = []
    loop.between_layers = lambda running: states.append(save_state(running))
    loop.run()
    whole = ran("chunks", "link")
    assert loop.record.same_as(whole.record)
    for state in states:
        resumed = run_unit(setup(), key, prepare=lambda fresh, state=state: load_state(fresh, state))  # type: ignore[misc]
        assert resumed.figures == whole.figures
        assert resumed.record.same_as(whole.record)
        for name, frame in whole.frames.items():
            pd.testing.assert_frame_equal(frame, resumed.frames[name])


def test_decisions_go_through_json_and_replay_to_themselves() -> None:
    whole = ran("chunks", "link")
    record = record_from_json(record_to_json(whole.record))
    assert record.same_as(whole.record)
    replayed = run_unit(setup(), UnitKey("chunks", "link", 1, replay=True), record)
    assert replayed.record.same_as(record)
    assert replayed.figures == whole.figures
    # what comes in time over links comes late over flits: groups wait for the replicas that were chosen for them
    links = ran("unicasts", "link")
    elsewhere = run_unit(setup(), UnitKey("unicasts", "flit", 1, replay=True), links.record)
    assert elsewhere.record.same_as(links.record)
    assert elsewhere.figures["dram_written_bytes"] == links.figures["dram_written_bytes"]
    assert int(elsewhere.frames["groups"]["publish_wait_fs"].max()) > 0


def test_a_sample_runs_the_broadcast_before_it_too() -> None:
    record = ran("chunks", "link").record
    started = next(unit for unit, decision in record.layers.items() if any(_starts(a) for a in decision.actions))
    following = (started[0], 1) if started[1] == 0 else (started[0] + 1, 0)
    sampled = run_unit(setup(), UnitKey("chunks", "flit", 1), record, only=frozenset({following}))
    assert sampled.record.same_as(record)
    assert len(sampled.frames["layers"]) == 1
    own = [action for action in record.layers[started].actions if _starts(action)]
    of_sampled = [action for action in record.layers[following].actions if _starts(action)]
    expected = (len(own) + len(of_sampled)) * (NODES - 1) * SIZE
    assert sampled.figures["dram_written_bytes"] == expected


def _starts(action: object) -> bool:
    return isinstance(action, PreBroadcast)


def test_copies_that_fail_are_dropped_and_change_no_result() -> None:
    failing = Setup(open_experiment(document(faults={"interruption": 0.2, "checksum": 0.2, "seed": 3})))
    result = run_unit(failing, UnitKey("chunks", "link", 1))
    groups = result.frames["groups"].drop_duplicates(KEY)[[*KEY, "tokens"]].reset_index(drop=True)
    whole = ran("static", "link").frames["groups"].drop_duplicates(KEY)[[*KEY, "tokens"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(groups, whole)
    assert (
        1
        < result.frames["layers"]["replica_factor"].max()
        < ran("chunks", "link").frames["layers"]["replica_factor"].max()
    )


def test_evictions_name_what_was_broadcast_for_a_layer_that_has_run() -> None:
    record = ran("chunks", "link").record
    order = sorted(record.layers)
    live: dict[tuple[int, int], tuple[int, int]] = {}
    evicted = 0
    for unit in order:
        for action in record.layers[unit].actions:
            if isinstance(action, PreBroadcast):
                live[action.layer, action.expert] = unit
            elif isinstance(action, ResidencyAction):
                assert action.kind is ActionKind.evict
                asked = live[action.layer, action.expert]
                between = [other for other in order if asked < other < unit]
                assert any(layer == action.layer for _, layer in between)
                evicted += 1
    assert evicted
