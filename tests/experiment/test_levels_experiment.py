"""The main job on a system of two levels."""

from __future__ import annotations

from pathlib import Path

from cosim import Experiment
from cosim.report.directory import metrics_json
from cosim.run.setup import Setup
from cosim.run.unit import UnitKey, run_unit
from cosim.system import load_system, open_experiment

SMALL = ["system=comoe-8x4", "seeds=[1]", "workload.batches=1", "workload.layers=0", "policies=[static]", "claims=null"]


def test_validation_of_a_package_with_chiplet_networks(tmp_path: Path) -> None:
    experiment = Experiment.load("quickstart", [*SMALL, "workload.batch_tokens=16"])
    report = experiment.validate(jobs=1)
    assert set(report.metrics["rung"]) == {"analytic", "analytic:hcrmap", "link", "flit"}
    assert metrics_json(report.metrics) == metrics_json(experiment.validate(jobs=1).metrics)
    page = report.to_html(tmp_path / "report.html").read_text()
    for level in ("chiplet", "package"):
        assert f"How busy the links of the {level} network are" in page


def test_figures_and_links_per_level() -> None:
    setup = Setup(open_experiment("quickstart", SMALL))
    result = run_unit(setup, UnitKey(policy="static", rung="flit", seed=1, replay=False))
    figures = result.figures
    assert figures["flit_hops"] == figures["flit_hops_chiplet"] + figures["flit_hops_package"]
    terms = ("source_queueing", "router", "link", "serialisation", "contention", "gateway")
    for name in ("token", "weight"):
        assert figures[f"latency_{name}_fs"] == sum(figures[f"{term}_{name}_fs"] for term in terms)
        assert figures[f"gateway_{name}_bytes"] > 0


def test_shipped_systems_cover_their_credit_loops() -> None:
    for name in ("package-4x4", "comoe-8x4"):
        for network in load_system(name).networks:
            assert network.level.link_depth_flits >= network.level.credit_loop_cycles
