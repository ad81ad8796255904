"""From routing to tasks and back to stage times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import Experiment, noc, trace, workload
from cosim.config.errors import ConfigErrors
from cosim.system import System, load_system, model
from cosim.workload.groups import token_groups, token_homes
from cosim.workload.stages import STAGES

SYSTEM: System = load_system("package-4x4")
CHIPLETS = np.array([place.index for place in SYSTEM.compute_endpoints], dtype=np.int32)
SMALL = ["seeds=[1]", "workload.batches=1", "workload.layers=0-1"]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 200), st.integers(1, 8), st.integers(0, 10**6))
def test_groups_hold_every_filled_slot_once(tokens: int, slots: int, seed: int) -> None:
    ids = np.random.default_rng(seed).integers(-1, 20, size=(tokens, slots))
    homes = token_homes(tokens, CHIPLETS)
    groups = token_groups(ids, homes, 3, 256)
    assert groups["tokens"].sum() == np.count_nonzero(ids >= 0)
    assert (groups["bytes"] == groups["tokens"].astype(np.int64) * 256).all()
    assert len(np.unique(groups[["expert", "source"]])) == len(groups)
    for group in groups[:: max(1, len(groups) // 7)]:
        here = (ids == group["expert"]) & (homes == group["source"])[:, None]
        assert group["tokens"] == np.count_nonzero(here)


@pytest.mark.parametrize("rung", ["link", "link+command", "flit+rate", "flit"])
@pytest.mark.parametrize("scope", ["routed", "moe"])
@pytest.mark.parametrize("policy", ["static", "popularity_prefetch"])
def test_stages_add_up_for_every_group_and_layer(rung: str, scope: str, policy: str) -> None:
    run = Experiment.load("quickstart", [*SMALL, f"workload.scope={scope}", f"policies=[{policy}]"]).run(policy, rung)
    for frame in (run.layers, run.groups):
        stages = frame[[f"{stage}_fs" for stage in STAGES]]
        assert (stages >= 0).all(axis=None)
        assert (stages.sum(axis=1) == frame["total_fs"]).all()
    slowest = run.groups.groupby(["batch", "layer"])["total_fs"].max()
    assert (run.layers.set_index(["batch", "layer"])["total_fs"] == slowest).all()
    # nobody computes for nothing and nothing is read twice: one read or one prefetch per replica in use
    used = run.groups.drop_duplicates(["batch", "layer", "replica"])
    moved = run.layers["bytes_weight"].sum()
    assert moved == used["fetch_bytes"].sum()
    assert (used["fetch_bytes"] > 0).all() or policy != "static"
    combines = (run.layers["combine_fs"] > 0).all()
    assert combines == (scope == "moe")
    assert ((run.layers["gate_fs"] > 0).all()) == (scope == "moe")


def test_shared_experts_run_for_every_token() -> None:
    overrides = [*SMALL, "workload.model=deepseek-v2-lite", "workload.layers=0", "workload.scope=moe"]
    overrides += ["workload.batch_tokens=4", "policies=[static]", "workload.mode=random"]
    run = Experiment.load("quickstart", overrides).run("static", "link")
    shared = run.groups[run.groups["expert"] == 64]
    assert shared["tokens"].sum() == 4
    assert (shared["source"] == shared["chiplet"]).all()
    assert (shared["dispatch_fs"] == 0).all()
    assert set(shared["fetch_bytes"]) == {model("deepseek-v2-lite").shared_bytes}


def test_packets_carry_the_bytes_of_the_tokens_that_travel() -> None:
    recorded = trace.load("sample")
    rows = np.arange(64)
    frame = workload.packets(recorded, "own-byte-moe", SYSTEM, layer=2, tokens=rows)
    assert list(frame.columns) == ["create_cycle", "src", "dst", "size_flits"]
    assert (frame["src"] != frame["dst"]).all()
    assert frame["size_flits"].between(1, 16).all()
    chiplet = recorded.ids[rows, 2] * 16 // 64
    travelling = chiplet != (np.arange(64) % 16)[:, None]
    flits = int(frame["size_flits"].sum())
    assert 64 * flits >= 256 * np.count_nonzero(travelling) + 8 * len(frame)
    assert 64 * (flits - len(frame)) < 256 * np.count_nonzero(travelling) + 8 * len(frame)
    back = workload.packets(recorded, "own-byte-moe", SYSTEM, layer=2, tokens=rows, phase="gather")
    there = frame.groupby(["src", "dst"])["size_flits"].sum()
    assert (back.groupby(["dst", "src"])["size_flits"].sum().to_numpy() == there.to_numpy()).all()
    timed = noc.Network({"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "dor", "num_vcs": 4}).run_packets(
        frame
    )
    assert isinstance(timed, pd.DataFrame)
    assert (timed["eject_cycle"] > timed["create_cycle"]).all()


def test_packets_refuse_what_they_cannot_serve() -> None:
    recorded = trace.load("sample")
    with pytest.raises(ConfigErrors, match="a MoE layer from 0 to 7"):
        workload.packets(recorded, "own-byte-moe", SYSTEM, layer=8)
    with pytest.raises(ConfigErrors, match="did you mean 'gather'"):
        workload.packets(recorded, "own-byte-moe", SYSTEM, phase="gathr")
    with pytest.raises(ValueError, match="experts"):
        workload.packets(recorded, "mixtral-8x7b", SYSTEM)
