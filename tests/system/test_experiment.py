# ruff: noqa: E501
"""Opening an experiment: its system built, what does not fit refused with both figures, everything at once."""

from __future__ import annotations

import pytest

from cosim.config import ConfigErrors
from cosim.config.errors import ConfigError
from cosim.config.load import Parts
from cosim.system import open_experiment


def refusals(*options: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        open_experiment("quickstart", options)
    return [str(error).split("': ", 1)[-1].split(".yaml:")[-1] for error in caught.value.errors]


def test_quickstart() -> None:
    experiment = open_experiment("quickstart")
    assert experiment.spec.workload.batches == 8
    assert len(experiment.system.memory_endpoints) == 4
    assert experiment.document.data["seeds"] == [1, 2, 3]


def test_an_expert_larger_than_its_tier_names_both_figures() -> None:
    # one Mixtral expert has 3 x 4096 x 14336 weights of 2 bytes
    assert refusals("workload.model=mixtral-8x7b", "system.tiers.hbm.capacity=300 MiB") == [
        "system.tiers.hbm.capacity: expected room for an expert of mixtral-8x7b, 336 MiB, got 300 MiB in the largest tier"
        " 'hbm'"
    ]


def test_a_system_that_cannot_run_experts() -> None:
    found = refusals("system.tiers={}", "system.endpoints={control: {at: {package: 0}}}", "system.assumed=[]")
    assert [text.split("system", 1)[1] for text in found] == [
        ".endpoints: expected an endpoint with compute, got none",
        ".endpoints: expected an endpoint with memory, got none",
        ": expected at least one tier to hold the experts, got none",
    ]


def test_unknown_components() -> None:
    assert refusals("analytic=[comoo, hcrmap]") == [
        "analytic.0: expected one of comoe, comoe_reconstructed, hcrmap, hda_moe, roofline_gpu, got 'comoo'; did you mean 'comoe'?"
    ]


def test_unknown_policy_and_wrong_parameters() -> None:
    options = [
        "policies=[statc, {name: hot_replication, params: {budgte: 1.3}}]",
        "analytic=[{name: hcrmap, params: {nothing: 1}}]",
    ]
    found = refusals(*options)
    assert found[0].startswith("policies.0: expected one of comoe, ")
    assert "tensor_parallel" in found[0]
    assert "got 'statc'; did you mean 'static'?" in found[0]
    assert found[1].startswith("policies.1.params.budgte: expected one of the keys")
    assert "the unknown key 'budgte'" in found[1]
    assert found[2].startswith("analytic.0.params.nothing: expected a parameter of the model")
    assert len(found) == 3


def test_findings_of_schema_hardware_fit_and_names_come_together() -> None:
    found = refusals(
        "workload.mode=decod",
        "system.endpoints.memory.memory.channels=4",
        "analytic=[comoo]",
        "workload.model.moe_intermediate=100000000",
    )
    assert sorted(text.split(": expected ")[0].split(" ")[-1] for text in found) == [
        "analytic.0",
        "system.endpoints.memory.memory",
        "system.tiers.hbm.capacity",
        "workload.mode",
    ]


def test_further_checks_of_the_caller() -> None:
    def check(parts: Parts) -> list[ConfigError]:
        assert parts.system is not None
        assert parts.model is not None
        return [parts.document.error(("seeds",), "luck", "none")]

    with pytest.raises(ConfigErrors, match=r"quickstart\.yaml:11:11: seeds: expected luck, got none"):
        open_experiment("quickstart", checks=[check])


def test_routers_with_too_many_input_vcs() -> None:
    # a router of a 2-D mesh has ports for four links; router 1 carries an expert and a memory
    assert refusals("system.levels.package.num_vcs=22") == [
        "system.levels.package.num_vcs: expected at most 128 input VCs (ports × VCs) at a router, got 6 ports (for 4 links and"
        " 2 terminals at router 1) × 22 VCs = 132"
    ]
