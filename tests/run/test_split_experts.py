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


def test_every_part_gets_all_tokens_and_returns_partial_sums(runs: dict[str, Any]) -> None:
    split, whole = runs["tensor_parallel"].layers, runs["static"].layers
    groups = runs["tensor_parallel"].groups
    away = groups[groups["source"] != groups["chiplet"]]
    assert len(groups) == 16 * len(runs["static"].groups)
    assert int(split["bytes_dispatch"].sum()) == int(away["bytes"].sum())
    # FP32 partial sums against the model's two-byte activations
    assert int(split["bytes_gather"].sum()) == 2 * int(split["bytes_dispatch"].sum())
    assert int(whole["bytes_gather"].sum()) == int(whole["bytes_dispatch"].sum())
    assert (split["replica_factor"] == 1).all()


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
            picks = int(layer.drop_duplicates(["batch", "source", "expert"]).groupby("batch")["tokens"].sum().iloc[0])
            operations = 3 * model.hidden * model.moe_intermediate
            rate = 4e12 * 0.8
            assert times.stages["compute"] == pytest.approx([picks * operations / 16 / rate] * 2, rel=1e-2)
            one_pass = 8 * model.hidden * 4 / 64e9  # gamma is 1 where all is spread over all
            assert times.stages["gather"] == pytest.approx([one_pass] * 2)


def test_a_run_with_split_experts_repeats() -> None:
    first, second = (experiment("tensor_parallel").run("tensor_parallel", "flit") for _ in range(2))
    pd.testing.assert_frame_equal(first.groups, second.groups)
