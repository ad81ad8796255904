# ruff: noqa: E501
"""A system built from its hardware file: tables, order, and every refusal with its figures."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config import ConfigErrors, load_hardware
from cosim.config.schema_hardware import MemorySpec
from cosim.config.schema_network import LevelRoutingSpec
from cosim.config.schema_topology import GraphSpec, MeshSpec
from cosim.system.level_graph import level_links
from cosim.system.memory import MemoryFigures
from cosim.system.system import System, hardware_findings, unreachable_routers


def hbm2(spec: MemorySpec) -> MemoryFigures:
    """Two 64-bit pseudo-channels at 2 Gb/s a channel, 512 MiB."""
    if spec.preset != "HBM2_2000":
        raise ValueError(f"memory: preset: unknown preset {spec.preset!r}")
    return MemoryFigures(Fraction(32 * 10**9) * spec.channels, spec.channels * 2**29, 32)


def build(reference: str | dict[str, Any], options: list[str] | None = None) -> System:
    loaded = load_hardware(reference, options or [])
    return System.build(loaded.spec, loaded.document, figures_of=hbm2)


def refusals(*options: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        build("package-4x4", list(options))
    return [str(error).split("package-4x4.yaml")[-1] for error in caught.value.errors]


def test_package_4x4() -> None:
    system = build("package-4x4")
    assert (system.router_count, len(system.links)) == (16, 48)
    assert system.networks[0].link_bandwidth_Bps == 64 * 10**9
    assert set(system.links["latency_cycles"]) == {2}
    assert [endpoint.router for endpoint in system.compute_endpoints] == list(range(16))
    assert [endpoint.router for endpoint in system.memory_endpoints] == [1, 7, 8, 14]
    assert [endpoint.label for endpoint in system.control_endpoints] == ["control@5"]
    assert [endpoint.label for endpoint in system.endpoints[:4]] == ["expert@0", "expert@1", "memory@1", "expert@2"]
    assert [endpoint.index for endpoint in system.endpoints] == list(range(21))
    memory = system.memory_endpoints[0].memory
    assert memory is not None
    assert (memory.peak_Bps, memory.capacity_bytes) == (64 * 10**9, 2**30)
    tier = system.tier("hbm")
    assert [system.endpoints[index].kind for index in tier.endpoints] == ["memory"] * 4
    assert (tier.capacity_bytes, tier.total_bytes) == (2**30, 2**32)
    with pytest.raises(KeyError):
        system.tier("sram")


def test_terminals_are_the_ports_of_the_endpoints() -> None:
    system = build("package-4x4", ["endpoints.expert.ports=2", "endpoints.memory.ports=3"])
    assert len(system.terminals) == 16 * 2 + 4 * 3 + 1
    assert [tuple(row) for row in system.terminals[:8].tolist()] == [
        (0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1), (1, 2, 0), (1, 2, 1), (1, 2, 2), (2, 3, 0),
    ]  # fmt: skip
    for endpoint, terminals in zip(system.endpoints, system.endpoint_terminals, strict=True):
        rows = system.terminals[list(terminals)]
        assert set(rows["endpoint"]) == {endpoint.index}
        assert set(rows["router"]) == {endpoint.router}
        assert rows["port"].tolist() == list(range(endpoint.spec.ports))


def test_the_order_of_keys_does_not_matter() -> None:
    data = load_hardware("package-4x4").document.data
    turned = {**data, "endpoints": dict(reversed(list(data["endpoints"].items())))}
    one, two = build(data), build(turned)
    assert np.array_equal(one.terminals, two.terminals)
    assert [endpoint.label for endpoint in one.endpoints] == [endpoint.label for endpoint in two.endpoints]


def test_ports_that_cannot_carry_the_memory_are_refused_with_both_figures() -> None:
    assert refusals("endpoints.memory.memory.channels=4", "tiers.hbm.capacity=1 GiB") == [
        ":24:13: endpoints.memory.memory: expected ports that carry its HBM2_2000 peak of 128 GB/s, got 1 port of 64 B at"
        " 1 GHz: 64 GB/s; 2 ports would do, or write 'allow_bottleneck: true'"
    ]
    assert build("package-4x4", ["endpoints.memory.memory.channels=4", "endpoints.memory.ports=2"])
    assert build("package-4x4", ["endpoints.memory.memory.channels=4", "endpoints.memory.allow_bottleneck=true"])


def test_declared_bandwidth_is_held_against_the_ports_too() -> None:
    assert refusals("endpoints.expert.bandwidth=64.5 GB/s") == [
        "option '-o endpoints.expert.bandwidth=64.5 GB/s': endpoints.expert.bandwidth: expected ports that carry its"
        " declared bandwidth of 64.5 GB/s, got 1 port of 64 B at 1 GHz: 64 GB/s; 2 ports would do, or write"
        " 'allow_bottleneck: true'"
    ]
    assert build("package-4x4", ["endpoints.expert.bandwidth=64 GB/s"])
    assert "expected none without a bandwidth" in refusals("endpoints.control.allow_bottleneck=true")[0]


def test_tier_larger_than_its_memory() -> None:
    assert refusals("tiers.hbm.capacity=1025 MiB") == [
        "option '-o tiers.hbm.capacity=1025 MiB': tiers.hbm.capacity: expected at most the 1 GiB of 2 channels of"
        " HBM2_2000 on each 'memory', got 1025 MiB"
    ]


def test_channels_that_are_no_power_of_two() -> None:
    assert refusals("endpoints.memory.memory.channels=3", "endpoints.memory.ports=2") == [
        "option '-o endpoints.memory.memory.channels=3': endpoints.memory.memory.channels: expected a power of two,"
        " since the channel is bits of the address, got 3; 2 or 4",
    ]


def test_unknown_preset_is_placed_at_the_memory() -> None:
    assert refusals("endpoints.memory.memory.preset=HBM9") == [
        "option '-o endpoints.memory.memory.preset=HBM9': endpoints.memory.memory.preset: expected a memory that can be"
        " built, got unknown preset 'HBM9'"
    ]


def test_all_hardware_findings_at_once() -> None:
    options = ["endpoints.expert.bandwidth=1 TB/s", "tiers.hbm.capacity=2 GiB", "endpoints.memory.memory.channels=3"]
    assert len(refusals(*options)) == 4


def test_topology_that_is_not_connected() -> None:
    edges = [{"between": [a, a + 1]} for a in range(15) if a != 7]
    topology = GraphSpec.model_validate({"kind": "graph", "routers": 16, "links": edges})
    loaded = load_hardware("package-4x4")
    level = loaded.spec.levels["package"]
    routing = LevelRoutingSpec(name="up_down")
    islands = level.model_copy(update={"topology": topology, "routing": routing})
    broken = loaded.spec.model_copy(update={"levels": {"package": islands}})
    (error,) = hardware_findings(broken, loaded.document, figures_of=hbm2)
    assert error.path == "levels.package.topology"
    assert error.got == "router 8, 9, 10, 11, 12, 13, 14, 15 apart from router 0"
    assert error.line == 5


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    )
)
@settings(deadline=None, max_examples=100)
def test_connectivity_against_the_closure_of_the_adjacency_matrix(case: tuple[int, list[tuple[int, int]]]) -> None:
    count, links = case
    reach = np.eye(count, dtype=bool)
    for source, target in links:
        reach[source, target] = True
    for _ in range(count):
        reach = reach | (reach @ reach)
    expected = [router for router in range(count) if not (reach[0, router] and reach[router, 0])]
    assert unreachable_routers(count, links) == expected


@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_mesh_links_join_neighbours_both_ways(shape: list[int]) -> None:
    level = load_hardware("package-4x4").spec.levels["package"]
    mesh = MeshSpec.model_validate({"kind": "mesh", "shape": shape})
    links = level_links(level.model_copy(update={"topology": mesh}))
    assert len(links) == len(set(links))
    assert {(b, a) for a, b in links} == set(links)
    places = np.stack(np.unravel_index(np.arange(mesh.router_count()), shape, order="F"), axis=1)
    distance = np.abs(places[:, None, :] - places[None, :, :]).sum(axis=2)
    assert set(links) == {(int(a), int(b)) for a, b in np.argwhere(distance == 1)}
    assert unreachable_routers(mesh.router_count(), links) == []
