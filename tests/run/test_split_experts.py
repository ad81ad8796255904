"""Experts split over chiplets run at every rung: parts of weights, all tokens to every part, partial sums back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from cosim.analytic import HDAMoE, analytic_system
from cosim.experiment import Experiment
from cosim.system import load_system
from cosim.system.models import model as find_model
from cosim.validate.compare import layer_balance


def experiment(*policies: Any) -> Experiment:
    return Experiment.load(
        {
            "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
            "workload": {
                "model": "own-byte-moe",
                "mode": "decode",
                "batch_tokens": 8,
                "batches": 2,
                "layers": "0-1",
                "scope": "routed",
            },
            "system": "package-4x4",
            "policies": list(policies),
            "rungs": ["link", "flit"],
            "seeds": [1],
        }
    )


@pytest.fixture(scope="module", params=["link", "link+command", "flit+rate", "flit"])
def runs(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Whole and split placements at one rung; conservation is checked by the run itself."""
    loaded = experiment("static", "tensor_parallel", "expert_parallel")
    return {policy: loaded.run(policy, request.param) for policy in ("static", "tensor_parallel", "expert_parallel")}


def test_all_the_work_is_done_once(runs: dict[str, Any]) -> None:
    whole = {key: frame.groups for key, frame in runs.items()}
    tokens = whole["static"].groupby(["batch", "layer", "expert"])["tokens"].sum()
    for groups in whole.values():
        work = (groups["tokens"] * groups["share"]).groupby([groups["batch"], groups["layer"], groups["expert"]]).sum()
        np.testing.assert_allclose(work.to_numpy(), tokens.to_numpy(), rtol=1e-9)


def test_a_part_brings_its_share_of_the_weights(runs: dict[str, Any]) -> None:
    held = {}
    for policy, run in runs.items():
        replicas = run.groups.drop_duplicates(["batch", "layer", "expert", "chiplet"])
        held[policy] = replicas.groupby(["batch", "layer", "expert"])["fetch_bytes"].sum()
        assert held[policy].min() > 0
    # split weights are rounded up to whole bursts of 32 B a part
    extra = held["tensor_parallel"] - held["static"]
    assert extra.min() >= 0
    assert extra.max() < 16 * 32


def test_every_part_has_all_tokens_and_a_ring_sums_them(runs: dict[str, Any]) -> None:
    split, whole = runs["tensor_parallel"].layers, runs["static"].layers
    groups = runs["tensor_parallel"].groups
    assert (groups["source"] == groups["chiplet"]).all()
    used = runs["static"].groups.drop_duplicates(["batch", "layer", "expert"])
    assert len(groups) == 16 * len(used)
    assert (split["bytes_dispatch"] == 0).all()
    # 30 steps in which all move a slice of the FP32 partial sums of eight tokens
    assert (split["bytes_gather"] == 30 * 8 * 128 * 4).all()
    assert int(whole["bytes_gather"].sum()) == int(whole["bytes_dispatch"].sum())
    assert (split["replica_factor"] == 1).all()


def test_parts_of_a_split_expert_return_partial_sums() -> None:
    """EP of 16 chiplets and eight experts gives each to two: tokens go to both, FP32 sums come back from both."""
    overrides = {"model": "mixtral-8x7b", "mode": "random", "batch_tokens": 2, "layers": "0", "scope": "routed"}
    loaded = Experiment.load(
        {
            "trace": {
                "zipf_markov": {"requests": 4, "positions": 4, "alpha": 0.5, "rho": 0.5, "seed": 1},
                "profile": {"requests": "0-1"},
                "evaluate": {"requests": "2-3"},
            },
            "workload": {**overrides, "batches": 1, "residency": "layer_window"},
            "system": "package-4x4",
            "policies": ["expert_parallel"],
            "rungs": ["link"],
            "seeds": [1],
        }
    )
    run = loaded.run("expert_parallel", "link")
    away = run.groups[run.groups["source"] != run.groups["chiplet"]]
    assert (run.groups["share"] == 0.5).all()
    assert int(run.layers["bytes_dispatch"].sum()) == int(away["bytes"].sum())
    assert int(run.layers["bytes_gather"].sum()) == 2 * int(away["bytes"].sum())


def test_balance_follows_shares(runs: dict[str, Any]) -> None:
    chiplets = sorted(runs["tensor_parallel"].groups["chiplet"].unique())
    assert len(chiplets) == 16
    even = layer_balance(runs["tensor_parallel"].groups, chiplets, 1)
    np.testing.assert_allclose(even["balance"], 1.0, rtol=1e-9)
    assert layer_balance(runs["static"].groups, chiplets, 1)["balance"].max() < 0.9


def test_a_token_counts_once_per_chiplet(runs: dict[str, Any]) -> None:
    for policy, run in runs.items():
        touched = run.groups.groupby(["batch", "layer", "chiplet"])["first_tokens"].sum()
        assert touched.max() <= 8
        if policy == "tensor_parallel":  # every token touches every chiplet
            assert (touched == 8).all()


def test_the_paper_s_model_reads_the_same_decisions(runs: dict[str, Any]) -> None:
    system, model = analytic_system(load_system("package-4x4")), find_model("own-byte-moe")
    for policy, run in runs.items():
        groups: pd.DataFrame = run.groups
        layer = groups[groups["layer"] == 1]
        times = HDAMoE.with_parameters({"gamma": 5.0}).layer_times(layer, system, model)
        if policy == "tensor_parallel":
            picks = int(layer.drop_duplicates(["batch", "expert"]).groupby("batch")["tokens"].sum().iloc[0])
            operations = 3 * model.hidden * model.moe_intermediate
            rate = 4e12 * 0.8
            assert times.stages["compute"] == pytest.approx([picks * operations / 16 / rate] * 2, rel=1e-2)
            one_pass = 8 * model.hidden * 4 / 64e9  # gamma is 1 where all is spread over all
            assert times.stages["gather"] == pytest.approx([one_pass] * 2)


def test_a_run_with_split_experts_repeats() -> None:
    first, second = (experiment("tensor_parallel").run("tensor_parallel", "flit") for _ in range(2))
    pd.testing.assert_frame_equal(first.groups, second.groups)
