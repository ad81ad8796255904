"""What a model does outside its experts, against the published sizes of whole models, and a run of scope `model`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from cosim.config.errors import ConfigErrors
from cosim.config.schema_experiment import FullModelSpec
from cosim.experiment import Experiment
from cosim.system import model
from cosim.system.backbone import attention_work, backbone_work, dense_work, head_work

FULL = FullModelSpec(context_tokens=1024, efficiency=0.5)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("deepseek-v2-lite", 15.7),  # arXiv 2405.04434, appendix B
        ("deepseek-v2", 236),  # arXiv 2405.04434
        ("deepseek-v3", 671),  # arXiv 2412.19437
        ("deepseek-moe-16b", 16.4),  # arXiv 2401.06066
        ("mixtral-8x7b", 46.7),  # arXiv 2401.04088 rounds to 47; Mistral's announcement says 46.7
        ("mixtral-8x22b", 141),  # Mistral's announcement
        ("dbrx", 132),  # Databricks' announcement
        ("qwen1.5-moe-a2.7b", 14.3),  # Qwen's announcement
    ],
)
def test_parts_add_up_to_the_published_size_of_the_model(name: str, billions: float) -> None:
    """Attention, dense layers, experts, head and an embedding as large as it; gates, norms and biases are below 1 %."""
    one = model(name)
    weights = sum(backbone_work(one, FULL, layer).weight_bytes for layer in range(one.moe_layers))
    params = weights // one.bytes_per_weight + one.hidden * (one.vocab or 0)
    params += one.moe_layers * (one.experts * one.expert_params + one.shared_params)
    assert params / 1e9 == pytest.approx(billions, rel=0.01)


def test_context_and_work_of_a_token() -> None:
    """Mixtral: 8 heads of 128 keys and values of 2 B; 32 heads times 128, twice, per token attended to."""
    one = attention_work(model("mixtral-8x7b"), 100)
    assert one.context_bytes == 100 * 2 * 8 * 128 * 2
    assert one.macs == 4096 * 128 * 48 + 4096 * 4096 + 2 * 32 * 128 * 100
    latent = attention_work(model("deepseek-v2-lite"), 10)
    assert latent.context_bytes == 10 * (512 + 64) * 2
    assert latent.macs - attention_work(model("deepseek-v2-lite"), 0).macs == 10 * 16 * (2 * 128 + 64)


def test_dense_layers_stand_before_the_first_moe_layer_and_the_head_with_the_last() -> None:
    one = model("deepseek-v3")
    attention, dense = attention_work(one, 1024), dense_work(one)
    first, second, last = (backbone_work(one, FULL, layer) for layer in (0, 1, one.moe_layers - 1))
    assert first.macs == 4 * attention.macs + 3 * dense.macs
    assert second == attention
    assert last == attention + head_work(one)


def experiment(**changes: Any) -> dict[str, Any]:
    workload = {
        "model": "mixtral-8x7b",
        "mode": "random",
        "batch_tokens": 16,
        "batches": 1,
        "layers": "0",
        "scope": "model",
        "full_model": {"context_tokens": 64, "efficiency": 0.5},
    }
    return {
        "trace": {
            "zipf_markov": {"requests": 4, "positions": 8, "alpha": 0.5, "rho": 0.5, "seed": 1},
            "profile": "none",
            "evaluate": "all",
        },
        "workload": {**workload, **changes},
        "system": "hcrmap-table1",
        "policies": ["static"],
        "rungs": ["link"],
        "seeds": [1],
    }


def test_a_run_of_scope_model_takes_at_least_its_roofline() -> None:
    """The stage `gate` covers reading weights and context at the DRAM's peak, and the work at the stated efficiency."""
    run = Experiment.load(experiment()).run("static", "link")
    one = model("mixtral-8x7b")
    work = backbone_work(one, FullModelSpec(context_tokens=64, efficiency=0.5), 0)
    read = work.weight_bytes + 16 * work.context_bytes
    slowest = max(read / 409.6e9, 2 * work.macs * 16 / (16 * 8.192e12 * 0.5))
    gate = float(run.layers["gate_fs"].iloc[0]) * 1e-15
    assert slowest < gate < 1.2 * slowest
    assert int(run.layers["bytes_weight"].iloc[0]) >= read


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"full_model": None}, "the key 'full_model' beside scope 'model'"),
        ({"scope": "moe"}, "none with scope 'moe': only scope model reads it"),
        ({"model": "olmoe-1b-7b"}, "a model with the key 'vocab'"),
    ],
)
def test_what_scope_model_needs(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigErrors, match=text):
        Experiment.load(experiment(**changes))


def test_efficiency_is_taken_as_written() -> None:
    assert FullModelSpec(context_tokens=1, efficiency=0.3).exact_efficiency == Fraction(3, 10)
