"""From the shipped package to plain rates and routes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.analytic.adapter import MemoryAccess, analytic_system, dimension_order, memory_access
from cosim.config import load_hardware
from cosim.config.schema_hardware import MemorySpec
from cosim.config.schema_network import MeshSpec, TopologySpec
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


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_dimension_order_routes_are_minimal_and_ordered(shape: list[int], data: st.DataObject) -> None:
    mesh = MeshSpec(kind="mesh", shape=tuple(shape))
    source = data.draw(st.integers(0, mesh.router_count() - 1))
    target = data.draw(st.integers(0, mesh.router_count() - 1))
    hops = dimension_order(mesh, source, target)
    links = set(mesh.links())
    assert all(hop in links for hop in hops)
    assert [a for a, _ in hops[1:]] == [b for _, b in hops[:-1]]
    assert not hops or (hops[0][0], hops[-1][1]) == (source, target)
    steps = [abs(b - a) for a, b in hops]
    assert steps == sorted(steps)
    strides = np.cumprod([1, *shape])
    distance = sum(abs(source // s % n - target // s % n) for s, n in zip(strides, shape, strict=False))
    assert len(hops) == distance


def test_other_topologies_are_refused() -> None:
    class Ring(TopologySpec):
        pass

    with pytest.raises(ValueError, match="not 'ring'"):
        dimension_order(Ring(kind="ring"), 0, 1)


def test_memory_figures_can_come_from_elsewhere() -> None:
    loaded = load_hardware("package-4x4")
    figures = MemoryFigures(Fraction(10**9), 2**31, 32)
    system = System.build(loaded.spec, loaded.document, figures_of=lambda spec: figures)
    got = analytic_system(system, access_of=lambda spec: MemoryAccess(1e-8, 1, "sram"))
    assert max(got.memory_bandwidth_Bps) == 1e9
    assert max(got.memory_latency_s) == 1e-8
