"""Tiers of a system: ranks, groups, banks, reserves, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from cosim.config.errors import ConfigErrors
from cosim.policy.placement import memory_tier, nearest_memory
from cosim.policy.residency import RegionAllocator
from cosim.system import load_system, open_experiment
from cosim.system.tiers import bank_table, banks_are_ranges

MIB = 1 << 20


def experiment(**changes: Any) -> dict[str, Any]:
    return {
        "trace": {"file": "sample", "profile": "none", "evaluate": "all"},
        "workload": {
            "model": "deepseek-v2-lite",
            "mode": "random",
            "batch_tokens": 8,
            "batches": 1,
            "layers": "0",
            "scope": "routed",
        },
        "system": "hcrmap-table1",
        "policies": ["static"],
        "rungs": ["link"],
        "seeds": [1],
        **changes,
    }


def test_the_package_of_table_1() -> None:
    """HCRMap, Table 1: 16 + 4 chiplets, 256 GB/s, and the capacity and bandwidth of its tiers."""
    system = load_system("hcrmap-table1")
    assert len(system.compute_endpoints) == 16
    assert {place.router for place in system.memory_endpoints if place.name == "hbm"} == {1, 7, 8, 14}
    assert system.networks[0].link_bandwidth_Bps == 256 * 10**9
    peak = {}
    for tier in system.tiers:
        peak[tier.name] = sum(float(system.endpoints[e].memory.peak_Bps) for e in tier.endpoints) / 1e9  # type: ignore[union-attr]
    assert peak["dram"] == pytest.approx(409.6)
    assert peak["hbm"] == pytest.approx(460.8)
    assert peak["sram"] == pytest.approx(4 * 2000)  # of each of the four groups
    banks = {system.endpoints[t.endpoints[0]].memory.banks * len(t.endpoints) for t in system.tiers}  # type: ignore[union-attr]
    assert banks == {16, 32, 64}
    assert system.spec.tiers["hbm"].capacity * 4 == 8 * 1024 * MIB
    assert system.spec.tiers["dram"].capacity * 4 == 32 * 1024 * MIB


def test_homes_lie_in_the_tier_of_the_highest_rank_and_quadrants_serve_their_own() -> None:
    system = load_system("hcrmap-table1")
    assert memory_tier(system) == "dram"
    sram = system.tier("sram")
    assert sram.capacity_bytes == 63 * MIB
    for endpoint, served in zip(sram.endpoints, sram.served, strict=True):
        x, y = divmod(system.endpoints[endpoint].router, 4)[::-1]
        assert sorted(system.endpoints[c].router for c in served) == sorted(
            4 * v + u for u in range(4) for v in range(4) if (u // 2, v // 2) == (x // 2, y // 2)
        )
    chiplet = system.compute_endpoints[0].index
    near = nearest_memory(system, system.routes, {}, chiplet, "sram")
    assert system.endpoints[near].router == 5
    assert len(system.tier("hbm").serving(chiplet)) == 4


def test_one_replica_in_one_bank_is_refused_with_the_table() -> None:
    with pytest.raises(ConfigErrors) as found:
        open_experiment(experiment(), ["system.tiers.sram.striping=bank"])
    text = str(found.value)
    assert "system.tiers.sram.striping" in text
    assert "experts of 16.5 MiB" in text
    assert "sram: 16 banks of 4 MiB, 0 experts in a bank, 3 striped over an endpoint" in text
    assert "hbm: 8 banks of 256 MiB, 15 experts in a bank" in text
    with pytest.raises(ConfigErrors, match="address_map of 'hbm' that starts with the fields of a bank"):
        open_experiment(experiment(), ["system.tiers.hbm.striping=bank"])
    open_experiment(
        experiment(), ["system.tiers.hbm.striping=bank", "system.endpoints.hbm.memory.address_map=ChPcRoBaSiCoBg"]
    )


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("tiers.hbm.rank=0", "a rank other than that of tier 'hbm'"),
        ("tiers.hbm.rank=null", "the key 'rank'"),
        ("tiers.dram.group=chiplet", "an endpoint of 'dram', the tier of homes, for every chiplet"),
        ("tiers.sram.activation_reserve=64 MiB", "reserves below the tier's capacity of 64 MiB"),
        ("endpoints.chiplet.at={package: 0-3}", "a chiplet in the group of every endpoint"),
    ],
)
def test_tiers_that_cannot_be(option: str, text: str) -> None:
    with pytest.raises(ConfigErrors, match=text):
        load_system("hcrmap-table1", [option])


def test_a_region_in_a_bank_crosses_no_border() -> None:
    regions = RegionAllocator(1024, 64, bank_bytes=256)
    taken = [regions.take(192) for _ in range(4)]
    assert taken == [0, 256, 512, 768]
    assert regions.take(192) is None
    assert regions.take(64) == 192
    for address, size in ((0, 192), (192, 64), (256, 192), (512, 192), (768, 192)):
        regions.give_back(address, size)
    assert regions.state() == ([(0, 1024)], 0)


def test_which_address_maps_tell_banks_apart() -> None:
    pseudo_channels = ("channel", "pseudo_channel")
    assert banks_are_ranges("ChPcRoBaSiCoBg", pseudo_channels)
    assert not banks_are_ranges("RoBaSiCoBgPcCh", pseudo_channels)
    assert banks_are_ranges(("co0", "ro0", "pc0", "ch0"), pseudo_channels)
    assert not banks_are_ranges(("co0", "pc0", "ro0", "ch0"), pseudo_channels)
    assert (
        bank_table(3, [("a", 2, 6, 12)])
        == "experts of 3 B; a: 2 banks of 6 B, 2 experts in a bank, 4 striped over an endpoint"
    )
