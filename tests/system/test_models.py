# ruff: noqa: E501
"""Model presets against the published sizes they were checked with, and user model files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from cosim.config import ConfigErrors
from cosim.system import model, model_names

TABLE = Path(__file__).parents[1] / "reference" / "system" / "models.csv"
ROWS = list(csv.DictReader(line for line in TABLE.read_text().splitlines() if not line.startswith("#")))


def test_every_row_is_a_preset() -> None:
    assert {row["model"] for row in ROWS} <= set(model_names())


@pytest.mark.parametrize("row", ROWS, ids=[row["model"] for row in ROWS])
def test_preset_has_the_published_figures(row: dict[str, str]) -> None:
    spec = model(row["model"])
    assert (spec.layers, spec.moe_layers) == (int(row["layers"]), int(row["moe_layers"]))
    assert (spec.hidden, spec.moe_intermediate) == (int(row["hidden"]), int(row["moe_intermediate"]))
    assert (spec.experts, spec.top_k) == (int(row["routed_experts"]), int(row["top_k"]))
    assert spec.shared_experts == int(row["shared_experts"])
    assert spec.shared_intermediate == int(row["shared_intermediate_total"])
    assert spec.dense_intermediate == int(row["dense_intermediate"])
    assert spec.routed_scaling == float(row["routed_scaling"])
    assert spec.norm_topk_prob == row["norm_topk_prob"].startswith("yes")
    assert spec.expert_params == int(row["expert_params"])
    assert spec.expert_bytes == int(row["expert_bytes_fp16"])
    assert spec.layer_expert_bytes == int(row["routed_bytes_per_moe_layer_fp16"])
    assert spec.expert_macs_per_token == int(row["macs_per_token_per_expert"])
    assert 2 * spec.top_k * spec.expert_macs_per_token == int(row["routed_flops_per_token_per_moe_layer"])
    assert 2 * spec.shared_macs_per_token == int(row["shared_flops_per_token_per_moe_layer"])
    assert spec.activation_bytes == int(row["token_activation_bytes_fp16"])
    assert len(spec.moe_layer_indices) == spec.moe_layers
    assert spec.moe_layer_indices[-1] < spec.layers
    billions = spec.moe_layers * spec.experts * spec.expert_params / 1e9
    assert billions == pytest.approx(float(row["all_routed_params_B"]), abs=0.006)


def test_own_model() -> None:
    spec = model("own-byte-moe")
    assert (spec.layers, spec.moe_layers, spec.experts, spec.top_k) == (8, 8, 64, 4)
    assert spec.expert_bytes == 3 * 128 * 64 * 2
    assert spec.activation_bytes == 256
    assert spec.gate_macs_per_token == 128 * 64


OWN: dict[str, Any] = {
    "layers": 4,
    "moe_layers": 3,
    "first_moe_layer": 1,
    "hidden": 8,
    "moe_intermediate": 16,
    "matrices_per_expert": 2,
    "experts": 8,
    "top_k": 2,
    "gating": "softmax",
    "norm_topk_prob": False,
    "bytes_per_weight": 1,
}


def test_user_model() -> None:
    spec = model(OWN)
    assert (spec.expert_bytes, spec.activation_bytes, list(spec.moe_layer_indices)) == (256, 16, [1, 2, 3])
    assert model(spec) is spec


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"top_k": 9}, "top_k: expected at most the 8 experts, got 9"),
        ({"moe_layers": 4}, "moe_layers: expected MoE layers within the 4 layers, got 4 from layer 1, 1 apart: the last is 4"),
        ({"shared_experts": 1}, "shared_intermediate: expected shared_experts and shared_intermediate both zero or neither, got 1 and 0"),
        ({"group_limit": {"n_group": 3, "topk_group": 1}}, "group_limit.n_group: expected a divisor of the 8 experts, got 3"),
        ({"group_limit": {"n_group": 2, "topk_group": 3}}, "group_limit.topk_group: expected at most n_group = 2, got 3"),
        ({"matrices_per_expert": 4}, "matrices_per_expert: expected one of 2, 3, got 4"),
        ({"hidden": 0}, "hidden: expected a number of at least 1, got 0"),
        ({"norm_topk_prob": "yes"}, "norm_topk_prob: expected true or false, got 'yes'"),
    ],
)  # fmt: skip
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        model({**OWN, **changes})
    assert str(caught.value) == message
