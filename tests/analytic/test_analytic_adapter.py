"""From the shipped package to plain rates and routes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.analytic.adapter import MemoryAccess, analytic_system, memory_access
from cosim.config import load_hardware
from cosim.config.schema_hardware import MemorySpec
from cosim.system.memory import MemoryFigures
from cosim.system.system import System


def package(*options: str) -> System:
    loaded = load_hardware("package-4x4", options)
    return System.build(loaded.spec, loaded.document)


def test_rates_of_the_package() -> None:
    got = analytic_system(package())
    assert got.endpoints == 21
    assert got.link_count == 48
    # 64 B flits at 1 GHz; pipeline 1 + 1 + 1 + 1 and links of 2 cycles.
    assert set(got.link_bandwidth_Bps) == {64e9}
    np.testing.assert_allclose(got.link_latency_s, 6e-9)
    assert sorted(set(got.compute_flops)) == [0.0, 4e12]
    assert sorted(set(got.memory_bandwidth_Bps)) == [0.0, 64e9]
    assert sorted(set(got.memory_banks)) == [0, 4]
    assert sorted(set(got.memory_tier)) == ["", "hbm"]


def test_latency_of_a_read_is_activation_plus_column_access() -> None:
    spec = MemorySpec(preset="HBM2_2000", channels=2)
    # nRCDRD 14 and nCL 14 at 1 GHz.
    assert memory_access(spec) == MemoryAccess(latency_s=28e-9, banks=4, tier="hbm")


def test_router_delays_enter_the_hop() -> None:
    got = analytic_system(package("levels.package.routing_delay=3"))
    np.testing.assert_allclose(got.link_latency_s, 8e-9)


def test_endpoints_of_one_router_are_no_link_apart() -> None:
    system = package()
    got = analytic_system(system)
    for a in system.endpoints:
        for b in system.endpoints:
            x, y = (abs(a.router % 4 - b.router % 4), abs(a.router // 4 - b.router // 4))
            assert got.route_hops[a.index * got.endpoints + b.index] == x + y


@settings(max_examples=20)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_routes_are_minimal_and_go_dimension_by_dimension(shape: list[int], data: st.DataObject) -> None:
    level = {
        "topology": {"kind": "mesh", "shape": shape},
        "routing": "dor",
        "num_vcs": 4,
        "vc_buf_size": 4,
        "flit_width": "64 B",
        "clock": "1 GHz",
        "max_packet_flits": 4,
        "header_bytes": "8 B",
    }
    loaded = load_hardware({"levels": {"n": level}, "endpoints": {"c": {"at": {"n": "all"}}}})
    system = System.build(loaded.spec, loaded.document)
    got = analytic_system(system)
    source, target = (data.draw(st.integers(0, system.router_count - 1)) for _ in range(2))
    pair = source * got.endpoints + target
    links = system.links[got.routes.links[got.routes.offsets[pair] : got.routes.offsets[pair + 1]]]
    hops = [(int(link["source"]), int(link["target"])) for link in links]
    assert [a for a, _ in hops[1:]] == [b for _, b in hops[:-1]]
    assert not hops or (hops[0][0], hops[-1][1]) == (source, target)
    steps = [abs(b - a) for a, b in hops]
    assert steps == sorted(steps)
    strides = np.cumprod([1, *shape])
    assert len(hops) == sum(abs(source // s % n - target // s % n) for s, n in zip(strides, shape, strict=False))


def test_memory_figures_can_come_from_elsewhere() -> None:
    loaded = load_hardware("package-4x4")
    figures = MemoryFigures(Fraction(10**9), 2**31, 32)
    system = System.build(loaded.spec, loaded.document, figures_of=lambda spec: figures)
    got = analytic_system(system, access_of=lambda spec: MemoryAccess(1e-8, 1, "sram"))
    assert max(got.memory_bandwidth_Bps) == 1e9
    assert max(got.memory_latency_s) == 1e-8
