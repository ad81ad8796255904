"""Routing plug-ins in the network: from C and from Python, against the built-in routing, and when they misbehave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cosim import noc
from cosim.config import ConfigErrors
from cosim.plugins import PluginError, RouteRequest, compile_c, stateless

MESH = {"topology": {"kind": "mesh", "shape": [4, 4]}, "num_vcs": 4}
TRAFFIC: dict[str, Any] = {
    "injection_rate": 0.3,
    "packet_size_flits": 3,
    "warmup_cycles": 200,
    "measure_cycles": 800,
    "seed": 5,
}


def traffic(routing: object, **keys: Any) -> noc.TrafficResult:
    return noc.Network({**MESH, **keys, "routing": routing}).run_traffic("uniform", **TRAFFIC)


def same(a: noc.TrafficResult, b: noc.TrafficResult) -> bool:
    """Whether two runs agree in all but what the routing cost and where a head's wait for a VC is booked."""
    left, right = vars(a).copy(), vars(b).copy()
    booked = ["flits", "no_credit_cycles", "lost_switch_cycles"]
    links = [r.links.groupby(["router", "port"])[booked].sum() for r in (a, b)]
    for r in (left, right):
        for key in ("links", "link_counters", "routing_cost", "core_bytes"):
            r.pop(key, None)
    return left == right and links[0].equals(links[1])


def dimension_order(request: RouteRequest) -> int:
    topology = request.topology
    target = topology.router_of(request.dst)
    x, y = request.router % 4, request.router // 4
    if x != target % 4:
        return 0 if target % 4 > x else 1
    if y != target // 4:
        return 2 if target // 4 > y else 3
    return topology.ejection_port(request.dst)


def test_a_numba_cfunc_is_dimension_order() -> None:
    numba = pytest.importorskip("numba")
    words = numba.types.CPointer(numba.types.uint32)

    @numba.cfunc(numba.types.int32(numba.types.voidptr, words, numba.types.voidptr, words, numba.types.uint32))  # type: ignore[untyped-decorator]
    def route(instance: Any, request: Any, view: Any, out: Any, cap: Any) -> int:
        asked = numba.carray(request, 10)  # struct_size, node, in_port, in_vc, src, dst, …
        node, dst = asked[1], asked[5]
        first = numba.carray(out, 4)  # port, priority, the two halves of vc_mask
        if node % 4 != dst % 4:
            first[0] = 0 if dst % 4 > node % 4 else 1
        elif node != dst:
            first[0] = 2 if dst > node else 3
        else:
            first[0] = 4
        first[1], first[2], first[3] = 0, 0xFFFFFFFF, 0xFFFFFFFF
        return 1

    assert same(traffic("dor"), traffic({"plugin": route}))


def test_a_table_in_c_and_a_function_in_python_are_dimension_order(examples: Path) -> None:
    own = traffic("dor")
    for routing in (
        {"plugin": str(examples / "table_router.c")},
        {"plugin": compile_c(examples / "table_router.c")},
        {"plugin": f"{examples / 'table_router.py'}:route"},
        dimension_order,
    ):
        result = traffic(routing)
        assert same(own, result)
        assert result.routing_cost is not None
        # every (router, input port, destination) is asked for once, and again at its 2nd, 4th, 8th ... use
        assert 0 < result.routing_cost.calls < result.routing_cost.heads
    assert own.routing_cost is None


def test_adaptive_in_c_and_in_python_are_one_routing(examples: Path) -> None:
    c = traffic({"plugin": str(examples / "adaptive_router.c"), "params": {"bias_flits": 2}})
    python = traffic({"plugin": f"{examples / 'adaptive_router.py'}:AdaptiveRouter", "params": {"bias_flits": 2}})
    assert same(c, python)
    assert c.routing_cost is not None
    assert python.routing_cost is not None
    assert c.routing_cost.calls == c.routing_cost.heads  # it looks at credits: asked for every head
    # in Python the ejection looks at none, so that its answers are kept
    assert python.routing_cost.calls < python.routing_cost.heads == c.routing_cost.heads
    assert not same(c, traffic("dor"))
    assert c.hops_mean == pytest.approx(traffic("dor").hops_mean)  # minimal all the same


def test_a_cycle_of_waits_is_found_and_named(examples: Path) -> None:
    network = noc.Network(
        {
            "topology": {"kind": "mesh", "shape": [2, 2]},
            "num_vcs": 1,
            "vc_buf_size": 2,
            "routing": {"plugin": str(examples / "deadlock_router.c")},
        }
    )
    around = pd.DataFrame({"create_cycle": 0, "src": [0, 1, 3, 2], "dst": [3, 2, 0, 1], "size_flits": 16})
    with pytest.raises(noc.DeadlockError, match="cycle of 8 waiting VCs"):
        network.run_packets(around)


def lying(request: RouteRequest) -> int:
    return 17


def backwards(request: RouteRequest) -> int:
    return request.topology.ejection_port(request.router)


def unconnected(request: RouteRequest) -> int:
    return 3


def foreign_vc(request: RouteRequest) -> list[tuple[int, int]]:
    return [(dimension_order(request), 1 << 9)]


def raising(request: RouteRequest) -> int:
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize(
    ("routing", "text"),
    [
        (lying, r"'lying'.*port 17, expected a port below 5.*router \d+.*packet \d+.*cycle \d+"),
        (backwards, r"'backwards'.*ejects at endpoint \d+, expected endpoint \d+"),
        (unconnected, r"'unconnected'.*port 3, which has no link"),
        (foreign_vc, r"'foreign_vc'.*VC mask 512, expected VCs of the 4 there are"),
        (raising, r"'raising' raised ZeroDivisionError: on purpose"),
    ],
)
def test_what_does_not_exist_ends_the_run_with_an_error(routing: Callable[..., Any], text: str) -> None:
    with pytest.raises(PluginError, match=text):
        traffic(routing)


def test_an_answer_that_was_to_hold_and_changes_is_an_error() -> None:
    class Turning:
        def __init__(self, topology: object) -> None:
            self.turn = 0

        def route(self, request: RouteRequest) -> int:
            self.turn += 1
            port = dimension_order(request)
            return port if port == 4 or self.turn < 500 else (0 if request.router % 4 < 3 else 1)

    with pytest.raises(PluginError, match="changed an answer that it had said holds always"):
        traffic(Turning)


def test_one_that_never_lets_go_is_a_deadlock() -> None:
    @stateless
    def stalling(request: RouteRequest) -> int | None:
        return None if request.router == 5 else dimension_order(request)

    with pytest.raises(noc.DeadlockError, match="held back by the routing function"):
        traffic(stalling)


def test_draws_repeat_with_the_seed() -> None:
    def one_of_two(request: RouteRequest) -> list[tuple[int, int]]:
        # a coin per packet and router: x first or y first, on VCs of its own so that no cycle of waits closes
        first = dimension_order(request)
        target = request.topology.router_of(request.dst)
        down = target // 4 - request.router // 4
        if first < 2 and down and request.rand % 2 and request.hops == 0:
            return [(2 if down > 0 else 3, 0b1100), (first, 0b0011)]
        return [(first, 0b0011)]

    results = [traffic(one_of_two) for _ in range(2)]
    assert same(*results)
    assert results[0].routing_cost == results[1].routing_cost


def test_unknown_names_and_parameters(examples: Path) -> None:
    with pytest.raises(ConfigErrors, match=r"params\.bias_flit: expected 'bias_flits'.*did you mean 'bias_flits'"):
        noc.Network({**MESH, "routing": {"plugin": str(examples / "adaptive_router.c"), "params": {"bias_flit": 1}}})
    with pytest.raises(ConfigErrors, match=r"params\.bias_flits: expected an integer as its default, 0, got 'two'"):
        noc.Network(
            {**MESH, "routing": {"plugin": str(examples / "adaptive_router.c"), "params": {"bias_flits": "two"}}}
        )
    with pytest.raises(ConfigErrors, match="'nowhere'"):
        noc.Network({**MESH, "routing": {"plugin": "nowhere"}})
    with pytest.raises(ConfigErrors, match="which does not exist"):
        noc.Network({**MESH, "routing": {"plugin": "./nowhere.so"}})
    with pytest.raises(PluginError, match="is of kind memory, expected kind routing"):
        noc.Network({**MESH, "routing": {"plugin": str(examples / "fixed_memory.c")}})
    with pytest.raises(PluginError, match="the C compiler refuses this plug-in"):
        noc.Network({**MESH, "routing": {"plugin": compile_c("int x = ;\n")}})
    ring = {"kind": "graph", "routers": 3, "links": [{"between": [0, 1]}, {"between": [1, 2]}, {"between": [2, 0]}]}
    with pytest.raises(ConfigErrors, match=r"routing\.plugin: .*expected a mesh of at most 8 dimensions, got a graph"):
        traffic({"plugin": str(examples / "adaptive_router.c")}, topology=ring)


MINIMAL = """
#include <cosim/plugin/cosim_router.h>
static int32_t create(const cosim_topology *t, const char *p, void **self, char *err, size_t cap) {
  (void)t; (void)p; (void)self; (void)err; (void)cap;
  return COSIM_OK;
}
static void destroy(void *self) { (void)self; }
static int32_t route(void *self, const cosim_route_req *q, const cosim_router_view *v, cosim_candidate *out,
                     uint32_t n) {
  (void)self; (void)q; (void)v; (void)out; (void)n;
  return %(returns)s;
}
static const cosim_router_v1 table = {
    .abi = %(abi)s, .struct_size = %(size)s, .name = "minimal", .version = "1", .create = create, .destroy = destroy,
    .route = %(route)s};
const cosim_router_v1 *cosim_router_entry(uint32_t abi) { return %(entry)s; }
"""
GOOD = {
    "abi": "COSIM_ROUTER_ABI",
    "size": "sizeof table",
    "route": "route",
    "entry": "abi ? &table : NULL",
    "returns": "0",
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"abi": "(COSIM_ROUTER_ABI + (1u << 16))"}, r"compiled with version 2\.0 of cosim_router\.h, expected 1\.x"),
        ({"size": "24"}, "is 24 bytes, too short for create, destroy, route"),
        ({"route": "(void *)0 ? route : 0"}, "has no route"),
        ({"entry": "abi == 3 ? &table : NULL"}, r"does not serve version 1\.0"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(change: dict[str, str], text: str) -> None:
    source = MINIMAL % {**GOOD, **change}
    with pytest.raises(PluginError, match=text):
        noc.Network({**MESH, "routing": {"plugin": compile_c(source, flags=("-Wno-unused-function",))}})


def test_a_negative_answer_ends_the_run(examples: Path) -> None:
    source = MINIMAL % {**GOOD, "returns": "COSIM_E_INTERNAL"}
    with pytest.raises(PluginError, match=r"'minimal': route returned the error -4 \(router"):
        traffic({"plugin": compile_c(source)})
