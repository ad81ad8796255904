"""BookSim2's batch runs without random draws: every node sends a given number of packets back to back."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from cosim.noc import Network, PacketResult
from cosim.noc.patterns import read_pattern


def run_batch(config: dict[str, Any], pattern: str | dict[str, Any], size_flits: int, packets: int) -> PacketResult:
    net = Network(config)
    shape = net.config.topology.node_shape()
    destinations = read_pattern(pattern, net.nodes, shape)
    to = list(destinations.permutation) or [destinations.nodes[0]] * net.nodes
    # a batch source creates a packet in every cycle
    rows = [(k, node, to[node], size_flits) for node in range(net.nodes) for k in range(packets)]
    return net.packet_run(pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits"]))


HOTSPOT = {"kind": "hotspot", "nodes": [0]}


@pytest.mark.parametrize(
    ("k", "pattern", "size", "packets", "duration", "packet_latency", "network_latency"),
    [
        (8, "transpose", 1, 100, 759, 205.548, 179.635),
        (8, "transpose", 4, 100, 2856, 883.857, 226.31),
        (8, "bit_complement", 4, 100, 2679, 1312.71, 374.567),
        (8, "tornado", 4, 100, 2723, 1058.78, 353.854),
        (4, "transpose", 4, 50, 635, 197.72, 84.4375),
        (8, "neighbor", 1, 1, 78, 24.5, 24.5),
        (8, "transpose", 4, 1, 83, 37.4375, 37.4375),
        (8, HOTSPOT, 1, 10, 647, 322.0, 322.0),
        (8, HOTSPOT, 4, 10, 2567, 1288.09, 1274.59),
    ],
)
def test_batch_durations_and_latencies(
    k: int,
    pattern: str | dict[str, Any],
    size: int,
    packets: int,
    duration: int,
    packet_latency: float,
    network_latency: float,
) -> None:
    result = run_batch({"topology": {"kind": "mesh", "shape": [k, k]}}, pattern, size, packets)
    assert result.makespan_cycles + 1 == duration
    # BookSim2 prints six significant digits
    assert result.packets["packet_latency_cycles"].mean() == pytest.approx(packet_latency, rel=4e-6)
    assert result.packets["network_latency_cycles"].mean() == pytest.approx(network_latency, rel=4e-6)


def test_a_torus_batch_without_ties() -> None:
    """Tornado moves three of eight on a ring: no tie to draw for. Links of 2 cycles, BookSim2's default."""
    torus = {"topology": {"kind": "torus", "shape": [8, 8]}, "routing": "dateline_booksim", "link_latency": 2}
    result = run_batch(torus, "tornado", 4, 100)
    assert result.makespan_cycles + 1 == 4235
    assert result.packets["packet_latency_cycles"].mean() == pytest.approx(1757.4, rel=4e-5)
    assert result.packets["network_latency_cycles"].mean() == pytest.approx(355.267, rel=4e-6)
