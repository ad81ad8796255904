"""The roofline of a GPU by hand: the longer of arithmetic and bytes, at data-sheet rates."""

from __future__ import annotations

import pytest
from analytic_line import SMALL, TinyModel, decisions, line_system

from cosim.analytic.roofline_gpu import GPUS, RooflineGpu
from cosim.config.errors import ConfigErrors
from cosim.config.schema_experiment import FullModelSpec
from cosim.system import model
from cosim.system.backbone import backbone_work

SYSTEM, TINY = line_system(), TinyModel()
A100 = 312e12 * 0.869 / 2  # multiply-accumulates per second


def test_routed_experts_are_read_once_and_worked_on_at_the_stated_rates() -> None:
    got = RooflineGpu().layer_times(SMALL, SYSTEM, TINY)
    experts = SMALL["expert"].nunique()
    assert got.stages["memory"].tolist() == pytest.approx([experts * TINY.expert_bytes / 2.039e12])
    assert got.stages["compute"].tolist() == pytest.approx([SMALL["tokens"].sum() * TINY.expert_macs_per_token / A100])
    assert got.total.tolist() == pytest.approx([max(got.stages["memory"][0], got.stages["compute"][0])])


def test_decisions_do_not_matter_and_replicas_are_no_second_read() -> None:
    one = decisions((0, 0, 0, 0, 1, 10, 1, 2, 60), (0, 0, 1, 0, 3, 10, 1, 2, 60))
    two = decisions((0, 0, 0, 0, 1, 10, 0, 2, 60), (0, 0, 1, 0, 3, 10, 1, 2, 60))
    times = [RooflineGpu().layer_times(rows, SYSTEM, TINY).total.tolist() for rows in (one, two)]
    assert times[0] == times[1]


def test_gpus_add_their_rates_and_efficiency_scales_the_bandwidth() -> None:
    base = RooflineGpu().layer_times(SMALL, SYSTEM, TINY)
    eight = RooflineGpu.with_parameters({"gpus": 8}).layer_times(SMALL, SYSTEM, TINY)
    half = RooflineGpu.with_parameters({"memory_efficiency": 0.5}).layer_times(SMALL, SYSTEM, TINY)
    other = RooflineGpu.with_parameters({"gpu": "H100-SXM"}).layer_times(SMALL, SYSTEM, TINY)
    assert eight.total[0] == pytest.approx(base.total[0] / 8)
    assert half.stages["memory"][0] == pytest.approx(2 * base.stages["memory"][0])
    assert other.stages["memory"][0] == pytest.approx(base.stages["memory"][0] * 2.039 / 3.35)
    assert GPUS["H100-SXM"].flops * GPUS["H100-SXM"].compute_efficiency == pytest.approx(794.5e12, rel=1e-3)


def test_a_whole_model_adds_what_precedes_the_gate_and_the_shared_experts() -> None:
    lite = model("deepseek-v2-lite")
    rows = decisions((0, 0, 0, 0, 12, 10, 1, 2, 60))
    got = RooflineGpu.with_parameters({"context_tokens": 512, "top_k": 4}).layer_times(rows, SYSTEM, lite)
    work = backbone_work(lite, FullModelSpec(context_tokens=512, efficiency=1.0), int(rows["layer"].iloc[0]))
    tokens = 12 / 4
    before = max(tokens * work.macs / A100, (work.weight_bytes + tokens * work.context_bytes) / 2.039e12)
    read = (lite.expert_bytes + lite.shared_bytes) / 2.039e12
    assert got.total.tolist() == pytest.approx([before + read])  # three tokens do not fill its arithmetic


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ConfigErrors, match="context_tokens"):
        RooflineGpu.with_parameters({"top_k": 4})
    with pytest.raises(ConfigErrors, match="A100-80GB-SXM"):
        RooflineGpu.with_parameters({"gpu": "A100"})
    with pytest.raises(ConfigErrors, match="attention"):
        RooflineGpu.with_parameters({"context_tokens": 8}).layer_times(SMALL, SYSTEM, TINY)
