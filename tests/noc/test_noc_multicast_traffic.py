"""Open-loop multicasts: sets of one node are unicasts, every delivery counts, exact without contention."""

from __future__ import annotations

from typing import Any

import pytest

from cosim.config.errors import ConfigErrors
from cosim.noc import Network

CONFIG: dict[str, Any] = {
    "topology": {"kind": "mesh", "shape": [4, 4]},
    "num_vcs": 2,
    "classes": {"unicast": {"vcs": [0]}, "multicast": {"vcs": [1], "multicast": True}},
}
SHORT: dict[str, Any] = {"warmup_cycles": 300, "measure_cycles": 2000, "packet_size_flits": 4}


def test_sets_of_one_node_are_a_permutation() -> None:
    network = Network(CONFIG)
    sets = {node: [node ^ 15] for node in range(16)}
    one = network.run_traffic(
        {"kind": "multicast", "sets": sets}, injection_rate=0.1, message_class="multicast", **SHORT
    )
    other = network.run_traffic("bit_complement", injection_rate=0.1, message_class="multicast", **SHORT)
    for key in ("packet_latency_mean_cycles", "terms", "accepted_rate", "measured_packets", "flit_hops"):
        assert getattr(one, key) == getattr(other, key)


def test_a_lone_source_reaches_all_its_nodes_in_their_own_time() -> None:
    network = Network(CONFIG)
    pattern = {"kind": "multicast", "sets": {5: list(range(16))}}
    long = {**SHORT, "measure_cycles": 40_000}
    result = network.run_traffic(pattern, injection_rate=0.02, message_class="multicast", **long)
    hops = [1 + abs(1 - node % 4) + abs(1 - node // 4) for node in range(16)]
    assert result.stable
    assert result.measured_packets % 16 == 0
    assert result.hops_mean == sum(hops) / 16
    terms = result.terms
    assert terms.router_mean_cycles == 4 * sum(hops) / 16
    assert sum(vars(terms).values()) == pytest.approx(result.packet_latency_mean_cycles, abs=1e-9)
    # a flit leaves the source once and is read 16 times
    assert result.accepted_rate == pytest.approx(16 * result.injected_rate, rel=0.05)


def test_refusals() -> None:
    network = Network(CONFIG)

    def refused(pattern: dict[str, Any], **keys: Any) -> str:
        with pytest.raises(ConfigErrors) as caught:
            network.run_traffic(pattern, injection_rate=0.1, **{"message_class": "multicast", **keys})
        return str(caught.value)

    sets = {"kind": "multicast", "sets": {0: [1, 2]}}
    assert "`multicast: true`" in refused(sets, message_class="unicast")
    assert "as {source: [nodes]}" in refused({"kind": "multicast"})
    assert "a source from 0 to 15" in refused({"kind": "multicast", "sets": {16: [1]}})
    assert "every node once" in refused({"kind": "multicast", "sets": {0: [1, 1]}})
    assert "at most 8 flits" in refused(sets, packet_size_flits=9)
