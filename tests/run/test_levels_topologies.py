"""Gateways between levels of tori, trees and rings, and levels whose links flip bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_system import Bench
from two_levels import package

from cosim.config.errors import ConfigErrors
from cosim.run.machine import RUNG_KNOBS, build_machine
from cosim.system.loading import load_system

TERMS = ("source_queueing", "router", "link", "serialisation", "contention", "gateway")
TORUS = {"topology": {"kind": "torus", "shape": [3, 3]}, "routing": "dateline"}
TREE = {"topology": {"kind": "fat_tree", "k": 2, "n": 2}, "routing": "nca"}
PODS = {
    "topology": {
        "kind": "pod_fat_tree", "pods": 2, "leaves_per_pod": 1, "nodes_per_leaf": 2, "aggregations_per_pod": 1,
        "cores": 1,
    },
    "routing": "up_down",
}  # fmt: skip
RING = {"topology": {"kind": "ring", "routers": 4}, "routing": "dateline"}
# two VCs a class where a routing parts them; chiplets carry a leg to the gateway and one from it
BELOW = {"token": {"vcs": [0, 1, 2, 3]}, "weight": {"vcs": [4, 5, 6, 7]}, "prefetch": {"vcs": [8, 9, 10, 11]}}
ABOVE = {"token": {"vcs": [0, 1]}, "weight": {"vcs": [2, 3]}, "prefetch": {"vcs": [4, 5]}}


def system_of(chiplet: dict[str, Any], top: dict[str, Any], cores: list[int], gateway: int, outside: int) -> Any:
    """Two chiplets with ``cores``, gateways at their router ``gateway`` and at package routers 0 and ``outside``."""
    data = package(
        chiplet={"num_vcs": 12, "message_classes": BELOW, **chiplet},
        top={"num_vcs": 6, "message_classes": ABOVE, **top},
    )
    data["gateways"]["d2d"]["at"] = {"chiplet": gateway, "package": [0, outside]}
    data["endpoints"]["core"]["at"] = {"chiplet": cores}
    data["endpoints"]["host"]["at"] = {"package": outside}
    return load_system(data)


def transfers(bench: Bench, seed: int, count: int) -> dict[str, int]:
    places = [p.index for p in bench.machine.system.compute_endpoints]
    draw = np.random.default_rng(seed)
    for _ in range(count):
        source, destination = draw.choice(places, 2, replace=False).tolist()
        bench.transfer(source, destination, int(draw.integers(1, 900)), message_class=int(draw.integers(0, 2)))
    bench.run()  # checks conservation
    return {name: int(value) for name, value in bench.machine.figures().items()}


@pytest.mark.parametrize(
    ("chiplet", "top", "cores", "gateway", "outside"),
    [
        (TORUS, RING, [0, 1, 5, 8], 4, 2),
        (RING, TORUS, [0, 1, 2], 3, 8),
        (TREE, TORUS, [2, 3], 2, 5),
        (TORUS, TREE, [0, 7], 4, 3),
        (PODS, RING, [0, 1], 1, 3),
    ],
    ids=["ring of tori", "torus of rings", "torus of trees", "tree of tori", "ring of pods"],
)
def test_gateways_between_any_topologies(
    chiplet: dict[str, Any], top: dict[str, Any], cores: list[int], gateway: int, outside: int
) -> None:
    system = system_of(chiplet, top, cores, gateway, outside)
    for rung in RUNG_KNOBS:
        figures = transfers(Bench(build_machine(system, rung)), 3, 60)
        if rung != "flit":
            continue
        for name in ("token", "weight"):
            assert figures[f"latency_{name}_fs"] == sum(figures[f"{term}_{name}_fs"] for term in TERMS)
            assert all(figures[f"{term}_{name}_fs"] >= 0 for term in TERMS)
            assert figures[f"gateway_{name}_bytes"] > 0


def test_links_of_a_level_that_flip_bits_cost_a_term_of_their_own() -> None:
    retry = {"bit_error_rate": 1e-4, "nack_delay": 3}
    flat = package()
    flat["levels"] = {"package": {**flat["levels"]["package"], "topology": {"kind": "mesh", "shape": [4]}}}
    flat["endpoints"]["core"]["at"] = {"package": [2, 3]}
    del flat["gateways"]
    plain = transfers(Bench(build_machine(load_system(flat), "flit")), 5, 40)
    assert not any(name.startswith("retry") for name in plain)
    flat["levels"]["package"]["retry"] = retry
    runs = [transfers(Bench(build_machine(load_system(flat), "flit", seed=seed)), 5, 40) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert runs[0]["flit_hops"] == plain["flit_hops"]
    for name in ("token", "weight"):
        terms = ("source_queueing", "router", "link", "serialisation", "contention", "retry")
        assert runs[0][f"latency_{name}_cycles"] == sum(runs[0][f"{term}_{name}_cycles"] for term in terms)
    assert runs[0]["retry_token_cycles"] + runs[0]["retry_weight_cycles"] > 0
    levels = system_of({**TORUS, "retry": retry}, {**RING, "retry": retry}, [0, 1, 5, 8], 4, 2)
    several = transfers(Bench(build_machine(levels, "flit")), 3, 60)
    for name in ("token", "weight"):
        assert several[f"latency_{name}_fs"] == sum(several[f"{term}_{name}_fs"] for term in (*TERMS, "retry"))
        assert several[f"retry_{name}_fs"] > 0


def test_what_retry_does_not_go_with() -> None:
    with pytest.raises(ConfigErrors, match="flit_bits"):
        load_system(package(top={"retry": {"bit_error_rate": 1e-6, "flit_bits": 512}}))
    classes = {**BELOW, "broadcast": {"vcs": [12]}}
    data = package(top={"num_vcs": 13, "message_classes": classes, "retry": {"bit_error_rate": 1e-6}})
    with pytest.raises(ConfigErrors, match="none beside a broadcast class"):
        load_system(data)
