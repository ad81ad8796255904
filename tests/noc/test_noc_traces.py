"""Finite traces: every packet completes in the cycle in which BookSim2 completes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cosim.noc import Network

MESH4: dict[str, Any] = {"topology": {"kind": "mesh", "shape": [4, 4]}}
MESH8: dict[str, Any] = {"topology": {"kind": "mesh", "shape": [8, 8]}}
# with draws in BookSim2's order; its torus links are 2 cycles long by default (use_noc_latency=1)
TORUS: dict[str, Any] = {"routing": "dateline_booksim", "compat": "booksim2", "link_latency": 2}
TORUS4: dict[str, Any] = {"topology": {"kind": "torus", "shape": [4, 4]}, **TORUS}
TORUS8: dict[str, Any] = {"topology": {"kind": "torus", "shape": [8, 8]}, **TORUS}
FAT_TREE: dict[str, Any] = {"topology": {"kind": "fat_tree", "k": 4, "n": 3}, "compat": "booksim2"}


def read_completions(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = pd.read_csv(path)
    return rows[["create_cycle", "src", "dst", "size_flits"]], rows


def read_trace(path: Path, size_flits: int) -> pd.DataFrame:
    rows = pd.read_csv(path, sep=r"\s+", header=None, names=["delay", "src", "dst", "type"])
    return pd.DataFrame(
        {"create_cycle": rows["delay"].cumsum(), "src": rows["src"], "dst": rows["dst"], "size_flits": size_flits}
    )


@pytest.mark.parametrize(
    ("name", "config", "vcs", "makespan"),
    [
        ("small16_mesh4_vc4", MESH4, 4, 224),
        ("small16_mesh4_vc1", MESH4, 1, 238),
        ("dense16_mesh4_vc2", MESH4, 2, 155),
        ("a2a16_mesh4_p4_ring", MESH4, 4, 111),
        ("a2a16_torus4_p4_ring", TORUS4, 4, 102),
    ],
)
def test_every_packet_completes_when_booksim2_says(
    reference: Path, name: str, config: dict[str, Any], vcs: int, makespan: int
) -> None:
    packets, expected = read_completions(reference / "traces" / f"{name}_completion.csv")
    out = Network({**config, "num_vcs": vcs}).run_packets(packets)
    assert out["eject_cycle"].tolist() == expected["completion_cycle"].tolist()
    assert out["packet_latency_cycles"].tolist() == expected["packet_latency"].tolist()
    assert out["network_latency_cycles"].tolist() == expected["network_latency"].tolist()
    assert out["eject_cycle"].max() == makespan


@pytest.mark.parametrize(
    ("name", "config", "makespan", "packet_latency", "network_latency", "hops"),
    [
        ("a2a16_mesh4_p4_ring", MESH4, 111, 66.0042, 38.0042, 3.66667),
        ("a2a64_mesh8_p4_ring", MESH8, 730, 357.527, 159.132, 6.33333),
        ("a2a64_mesh8_p4_xor", MESH8, 775, 340.285, 150.371, 6.33333),
        ("a2a64_torus8_p4_xor", TORUS8, 594, 267.614, 108.467, 5.06349),
        ("a2a64_ft4x3_p4_xor", FAT_TREE, 453, 222.516, 71.8185, 4.42857),
    ],
)
def test_all_to_all_makespans_and_means(
    reference: Path,
    name: str,
    config: dict[str, Any],
    makespan: int,
    packet_latency: float,
    network_latency: float,
    hops: float,
) -> None:
    result = Network({**config, "num_vcs": 4}).packet_run(read_trace(reference / "traces" / f"{name}.tr", 4))
    out = result.packets
    assert result.makespan_cycles == makespan
    # BookSim2 prints six significant digits
    assert out["packet_latency_cycles"].mean() == pytest.approx(packet_latency, rel=2e-6)
    assert out["network_latency_cycles"].mean() == pytest.approx(network_latency, rel=4e-6)
    assert out["hops"].mean() == pytest.approx(hops, rel=1e-5)
    assert result.flit_hops == 4 * out["hops"].sum() == result.links["flits"].sum()
