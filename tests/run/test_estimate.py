"""What is told before a run against what the run then counts: work, not time, which depends on the machine."""

from __future__ import annotations

from typing import Any

import pytest

from cosim.experiment import Experiment


def experiment(system: str, *policies: Any, rungs: tuple[str, ...], batches: int = 2) -> Experiment:
    return Experiment.load(
        {
            "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
            "workload": {
                "model": "own-byte-moe",
                "mode": "decode",
                "batch_tokens": 32,
                "batches": batches,
                "layers": "3",
                "scope": "routed",
            },
            "system": system,
            "policies": list(policies),
            "rungs": list(rungs),
            "seeds": [1],
        }
    )


@pytest.mark.parametrize("system", ["3d-moe-stack", "3d-moe-device", "package-4x4"])
def test_hops_on_reserved_links_include_those_of_tokens(system: str) -> None:
    """Where every tile reads its own memory all of them are: twenty chunks a message, there and back."""
    loaded = experiment(system, "static", rungs=("link",))
    told = loaded.estimate()
    counted = loaded.run("static", "link").figures[1]["link_hops"]
    assert told.link_hops == pytest.approx(counted, rel=0.2)
    assert told.flit_hops == 0


def test_a_rung_that_may_be_replayed_counts_twice() -> None:
    alone = experiment("3d-moe-stack", "static", rungs=("link", "flit")).estimate()
    windows = {"name": "periodic_replication", "params": {"window_batches": 1}}
    replayed = experiment("3d-moe-stack", windows, rungs=("link", "flit")).estimate()
    assert replayed.link_hops == 2 * alone.link_hops
    assert replayed.flit_hops == alone.flit_hops
    assert experiment("3d-moe-stack", windows, rungs=("link",)).estimate().link_hops == alone.link_hops


def test_many_endpoints_and_units_take_time_by_themselves() -> None:
    few = experiment("3d-moe-stack", "static", rungs=("link",)).estimate()
    many = experiment("3d-moe-device", "static", rungs=("link",)).estimate()
    assert many.seconds > few.seconds + 0.2
    assert few.seconds > 4
