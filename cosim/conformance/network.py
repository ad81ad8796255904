"""The checks of the plug-ins of a network, each on a network of the user's or an 8x8 mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from cosim import _core, noc
from cosim.config.schema_network import OF_BUILT_IN_ROUTERS
from cosim.conformance.request import CheckFailed, CheckRequest, NotApplicable

__all__ = ["ARBITERS", "ROUTERS", "ROUTING"]

INSTANCES = 1000
SPACING_CYCLES = 64
LOADS = (0.05, 0.2, 0.6)
"""Offered flits per node and cycle of the short runs: idle, busy, and past what most routings carry."""
SOAK_RATE = 0.2


KEYS = {"routing": ("routing",), "arbiters": ("vc_allocator", "sw_allocator"), "routers": ("router",)}
"""Kind of plug-in → the keys of a network in whose place it is put."""


def _network(request: CheckRequest) -> noc.Network:
    plugin = {"plugin": request.reference, "params": dict(request.params)}
    unread = OF_BUILT_IN_ROUTERS if request.kind == "routers" else ()
    base = {key: value for key, value in request.base.items() if key not in unread}
    return noc.Network({**base, **dict.fromkeys(KEYS[request.kind], plugin)})


def _load(request: CheckRequest) -> str:
    d = _network(request).plugins[KEYS[request.kind][0]]
    return f"{d.name} {d.version}, {d.origin}, ABI {d.abi}, capabilities: {', '.join(d.caps) or 'none'}"


def _create(request: CheckRequest) -> str:
    spec = _network(request).spec
    for _ in range(INSTANCES):
        _core.FlitNetwork(spec)  # makes an instance and lets go of it
    return f"{INSTANCES} instances made and destroyed"


def _reachability(request: CheckRequest) -> str:
    network = _network(request)
    nodes = network.nodes
    pairs = [(src, (src + shift) % nodes) for shift in range(nodes) for src in range(nodes)]
    frame = pd.DataFrame(pairs, columns=["src", "dst"])
    # a packet of every source at a time, to as many destinations
    frame["create_cycle"] = np.arange(len(frame)) // nodes * SPACING_CYCLES
    frame["size_flits"] = 1
    if network.config.classes:
        first = next(iter(network.config.classes))
        frame["message_class"] = first
    done = network.run_packets(frame)
    return f"{len(done)} pairs of nodes reach each other, over at most {int(done['hops'].max())} routers"


def _run(network: noc.Network, rate: float, seed: int = 1, packets: int | None = None) -> noc.TrafficResult:
    classes = network.config.classes
    cycles = 2000 if packets is None else max(1000, round(packets / (rate * network.nodes)))
    return network.run_traffic(
        "uniform",
        injection_rate=rate,
        packet_size_flits=1 if packets is not None else 4,
        warmup_cycles=0,
        measure_cycles=cycles,
        max_drain_cycles=20_000,
        seed=seed,
        message_class=next(iter(classes)) if classes else None,
    )


def _bounds(request: CheckRequest) -> str:
    """Ports, VCs and ejection are checked at every answer, flits and credits at the end of every run."""
    network = _network(request)
    hops = [_run(network, rate).hops_mean for rate in LOADS]
    means = ", ".join(f"{h:.3f}" for h in hops)
    return f"every answer legal, every flit accounted for; mean hops {means} at loads {', '.join(map(str, LOADS))}"


def _determinism(request: CheckRequest) -> str:
    first, second = (_comparable(_run(_network(request), LOADS[1], seed=7)) for _ in range(2))
    if first != second:
        different = [key for key in first if first[key] != second[key]]
        raise CheckFailed(f"two runs of one seed differ in {', '.join(different)}")
    return "two runs of one seed are equal, answers that hold always held"


def _comparable(result: noc.TrafficResult) -> dict[str, Any]:
    found = {key: value for key, value in vars(result).items() if key not in ("links", "link_counters")}
    return {**found, "links": result.links.to_csv()}


def _deadlock(request: CheckRequest) -> str:
    network = _network(request)
    plugin = network.routing_plugin
    assert plugin is not None
    found = network.check_deadlock()
    if not found.deadlock_free:
        raise CheckFailed(str(found))
    if "pure" in plugin.description.caps:
        return str(found)
    return f"{found}; as it answers in an empty network: runs watch for deadlocks besides"


def _save_load(request: CheckRequest) -> str:
    network = _network(request)
    rng = np.random.default_rng(5)
    count = 40 * network.nodes
    rows = np.zeros((count, 5), dtype=np.int64)
    rows[:, 0] = np.sort(rng.integers(0, 200, count))
    rows[:, 1:3] = rng.integers(0, network.nodes, (count, 2))
    rows[:, 3] = 3
    whole, half, resumed = (_core.FlitNetwork(network.spec) for _ in range(3))
    for each in (whole, half):
        each.offer(rows)
    half.run(100)
    before = half.take_arrivals()
    try:
        saved = half.save()
    except RuntimeError as error:
        raise NotApplicable(str(error)) from None
    resumed.load(saved)
    for each in (whole, resumed):
        each.run(_core.NO_EVENT)
        if each.failure:
            raise CheckFailed(each.failure)
        if not each.idle:
            raise CheckFailed(f"packets are left: {each.wait_for_cycle()}")
    arrivals = np.concatenate([before, resumed.take_arrivals()])
    if not np.array_equal(whole.take_arrivals(), arrivals):
        raise CheckFailed("a run that was saved and resumed differs from one that was not interrupted")
    return f"a run of {count} packets, saved at cycle 100 and resumed, is the same"


def _soak(request: CheckRequest) -> str:
    result = _run(_network(request), SOAK_RATE, seed=11, packets=request.packets)
    state = "all delivered" if result.undrained_packets == 0 else f"{result.undrained_packets} not within the drain"
    cost = result.routing_cost
    calls = f", {cost.calls} calls for {cost.heads} heads" if cost is not None else ""
    if result.router_calls is not None:
        calls = f", {result.router_calls} calls for {result.flit_hops} flit-hops"
    total = result.measured_packets + result.undrained_packets
    return f"{total} packets, {state}{calls}"


Checks = dict[str, Callable[[CheckRequest], str]]
"""Name → check; each returns what it found, or raises."""

_RUNS: Checks = {
    "load": _load,
    "create": _create,
    "reachability": _reachability,
    "bounds": _bounds,
    "determinism": _determinism,
}
ROUTING: Checks = {**_RUNS, "deadlock": _deadlock, "save_load": _save_load, "soak": _soak}
ARBITERS: Checks = {**_RUNS, "save_load": _save_load, "soak": _soak}
ROUTERS: Checks = ARBITERS
