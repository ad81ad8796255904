"""BookSim2's configuration keys as a network and its traffic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cosim.config.errors import Problems
from cosim_adapters.booksim2 import ROUTING, SAME_NAME, TRAFFIC

__all__ = ["from_booksim2"]

# BookSim2's defaults that a run's file may leave out, of the keys that are read here
DEFAULTS: dict[str, Any] = {
    "num_vcs": 16,
    "vc_buf_size": 8,
    "routing_delay": 1,
    "vc_alloc_delay": 1,
    "sw_alloc_delay": 1,
    "st_prepare_delay": 0,
    "st_final_delay": 1,
    "credit_delay": 0,
    "vc_allocator": "islip",
    "sw_allocator": "islip",
    "priority": "none",
    "speculative": 0,
    "wait_for_tail_credit": 0,
    "packet_size": 1,
    "use_noc_latency": 1,
    "traffic": "uniform",
    "seed": 1,
}
# BookSim2's topology and routing_function -> ours
ROUTINGS = {theirs: routing for (_, routing), theirs in ROUTING.items()} | {("mesh", "dim_order"): "dor"}
PATTERNS = {theirs: ours for ours, theirs in TRAFFIC.items()}
ALLOCATORS = ("vc_allocator", "sw_allocator")


def _pattern(traffic: str) -> str | dict[str, Any]:
    hotspot = re.fullmatch(r"hotspot\(\{+([\d,]+)\}(?:,\{([\d,]+)\}\})?\)", traffic)
    if hotspot is None:
        return PATTERNS.get(traffic, traffic)
    # `hotspot({a,b},{..})` with single braces keeps node a alone, as BookSim2 reads it
    nodes = [int(node) for node in hotspot[1].split(",")]
    listed: dict[str, Any] = {"kind": "hotspot", "nodes": nodes}
    if hotspot[2]:
        listed["weights"] = [int(weight) for weight in hotspot[2].split(",")]
    return listed


def _allocators(given: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """`islip(2)` as islip and alloc_iters, `separable_input_first(matrix)` as that and arb_type."""
    keys: dict[str, Any] = {}
    for key in ALLOCATORS:
        name, _, parameter = str(given[key]).removesuffix(")").partition("(")
        keys[key] = name
        if name == "islip":
            reads, value = "alloc_iters", int(parameter) if parameter.isdigit() else parameter or 1
        else:
            reads, value = "arb_type", parameter or "round_robin"
        if keys.setdefault(reads, value) != value:
            problems.add(key, f"the {reads} of vc_allocator, {keys[reads]}", str(given[key]))
    return keys


def from_booksim2(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A BookSim2 configuration (commit 28f43299) in the keys of `noc.Network` and of `Network.run_traffic`.

    Args:
        parameters: BookSim2's keys; those left out have its defaults. `topology` (mesh, torus, fattree), `k` and `n`
            are required, the routing's name may carry the topology (`dor_mesh`). `injection_rate` counts flits
            (`injection_rate_uses_flits=1`). Of the windows, give `warmup_cycles` and `measure_cycles` (sample_period x
            warmup_periods, and x the periods measured). `alloc_iters` and `arb_type` are passed over, as there:
            its routers read a parameter of the name, `islip(2)`, `separable_input_first(matrix)`.

    Returns:
        The network, in BookSim2-compatible mode, and the arguments of `run_traffic`.

    Raises:
        ConfigErrors: a topology and routing function that have no counterpart here.
    """
    given = {**DEFAULTS, **parameters}
    topology, k, n = str(given["topology"]), int(given["k"]), int(given["n"])
    function = str(given.get("routing_function", given.get("routing"))).removesuffix(f"_{topology}")
    problems = Problems()
    routing = ROUTINGS.get((topology, function))
    if routing is None:
        known = ", ".join(f"{a} with {b}" for a, b in ROUTINGS)
        problems.add("routing_function", f"one of {known}", f"{topology} with {function}")
    problems.raise_if_any()
    graph: dict[str, Any] = {"kind": topology, "shape": [k] * n}
    if topology == "fattree":
        graph = {"kind": "fat_tree", "k": k, "n": n}
    network: dict[str, Any] = {"topology": graph, "routing": routing, "compat": "booksim2"}
    network.update({key: given[key] if key == "priority" else int(given[key]) for key in SAME_NAME})
    network.update(_allocators(given, problems))
    problems.raise_if_any()
    network.update({key: bool(int(given[key])) for key in ("speculative", "wait_for_tail_credit")})
    # its layouts give torus links 2 cycles, those of mesh and fat tree 1
    network["link_latency"] = 2 if topology == "torus" and int(given["use_noc_latency"]) else 1
    traffic: dict[str, Any] = {
        "pattern": _pattern(str(given["traffic"])),
        "injection_rate": float(given["injection_rate"]),
        "packet_size_flits": int(given["packet_size"]),
        "seed": int(given["seed"]),
    }
    traffic.update({key: int(given[key]) for key in ("warmup_cycles", "measure_cycles") if key in given})
    return network, traffic
