"""A lone packet's latency is exact for every distance, size and pipeline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.noc import Network

MESH8: dict[str, Any] = {"topology": {"kind": "mesh", "shape": [8, 8]}}
MEASURED = {
    "mesh R1V1S1X1 1flit": (MESH8, 1),
    "mesh R1V1S1X1 4flit": (MESH8, 4),
    "mesh R0V1S1X1 (lookahead) 1flit": ({**MESH8, "routing_delay": 0}, 1),
    "mesh R0V1S1X1 speculative": ({**MESH8, "routing_delay": 0, "speculative": True}, 1),
    "mesh R1V1S1X1 speculative": ({**MESH8, "speculative": True}, 1),
    "mesh R2V1S1X1+1 (st_prepare 1)": ({**MESH8, "routing_delay": 2, "st_prepare_delay": 1}, 1),
    "mesh st_final 2": ({**MESH8, "st_final_delay": 2}, 1),
    "mesh credit_delay 4": ({**MESH8, "credit_delay": 4}, 1),
}


def lone_packets(pairs: list[tuple[int, int]], size_flits: int) -> pd.DataFrame:
    """One packet at a time, far enough apart that none meets another."""
    return pd.DataFrame(
        {
            "create_cycle": [1000 * i for i in range(len(pairs))],
            "src": [a for a, _ in pairs],
            "dst": [b for _, b in pairs],
            "size_flits": size_flits,
        }
    )


def measured_latencies(reference: Path, title: str) -> dict[int, int]:
    for line in (reference / "zero_load_checks.txt").read_text().splitlines():
        if line.startswith(title + "  "):
            found = re.findall(r"d(\d+):(\d+)/(\d+)", line)
            return {int(d): int(simulated) for d, simulated, _ in found}
    raise AssertionError(f"{title!r} is not in zero_load_checks.txt")


@pytest.mark.parametrize("compat", ["none", "booksim2"])
@pytest.mark.parametrize("title", MEASURED)
def test_distances_measured_on_booksim2(reference: Path, title: str, compat: str) -> None:
    config, size = MEASURED[title]
    expected = measured_latencies(reference, title)
    assert len(expected) == 14
    # node 0 to every node: distances 0 to 14 over and over
    out = Network({**config, "compat": compat}).run_packets(lone_packets([(0, b) for b in range(64)], size))
    distance = out["dst"] % 8 + out["dst"] // 8
    for d, latency in zip(distance, out["network_latency_cycles"], strict=True):
        assert latency == expected.get(d, latency)
    assert out["hops"].tolist() == (distance + 1).tolist()
    assert (out["contention_cycles"] == 0).all()


OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "torus noc_latency=1 (L=2)": ({"topology": {"kind": "torus", "shape": [8, 8]}, "link_latency": 2}, 1),
    "torus noc_latency=1 4flit": ({"topology": {"kind": "torus", "shape": [8, 8]}, "link_latency": 2}, 4),
    "torus noc_latency=0 (L=1)": ({"topology": {"kind": "torus", "shape": [8, 8]}}, 1),
    "fattree k4n3": ({"topology": {"kind": "fat_tree", "k": 4, "n": 3}}, 1),
    "fattree k4n3 4flit": ({"topology": {"kind": "fat_tree", "k": 4, "n": 3}}, 4),
    "mesh min_adapt": ({**MESH8, "routing": "min_adaptive"}, 1),
}


@pytest.mark.parametrize("compat", ["none", "booksim2"])
@pytest.mark.parametrize("title", OTHERS)
def test_other_topologies_and_routings_measured_on_booksim2(reference: Path, title: str, compat: str) -> None:
    config, size = OTHERS[title]
    if config["topology"]["kind"] == "torus":
        config = {**config, "routing": "dateline_booksim" if compat == "booksim2" else "dateline"}
    expected = measured_latencies(reference, title)
    out = Network({**config, "compat": compat}).run_packets(lone_packets([(0, b) for b in range(64)], size))
    assert set(expected) <= set(out["hops"] - 1)
    for hops, latency in zip(out["hops"], out["network_latency_cycles"], strict=True):
        assert latency == expected.get(hops - 1, latency)
    assert (out["contention_cycles"] == 0).all()


def test_unequal_link_latencies_of_a_line() -> None:
    """BookSim2's anynet: four routers in a line, links of 1, 8 and 1 cycles: 7, 12, 24, 29 cycles from node 0."""
    table = [
        {"router": r, "destination": n, "next_router": r + (1 if n > r else -1)}
        for r in range(4)
        for n in range(4)
        if n != r
    ]
    links = [{"between": [i, i + 1], "latency": latency} for i, latency in enumerate((1, 8, 1))]
    net = Network({"topology": {"kind": "graph", "routers": 4, "links": links}, "routing": {"table": table}})
    out = net.run_packets(lone_packets([(0, b) for b in range(4)], 1))
    assert out["network_latency_cycles"].tolist() == [7, 12, 24, 29]


@settings(deadline=None, max_examples=25)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    delays=st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 3)),
    latencies=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    credit_delay=st.integers(0, 4),
    size=st.integers(1, 6),
    concentration=st.integers(1, 2),
    compat=st.sampled_from(["none", "booksim2"]),
)
def test_the_formula_holds_for_every_pipeline(
    shape: list[int],
    delays: tuple[int, int, int, int, int],
    latencies: list[int],
    credit_delay: int,
    size: int,
    concentration: int,
    compat: str,
) -> None:
    r, v, s, prepare, final = delays
    config = {
        "topology": {"kind": "mesh", "shape": shape, "concentration": concentration},
        "routing_delay": r,
        "vc_alloc_delay": v,
        "sw_alloc_delay": s,
        "st_prepare_delay": prepare,
        "st_final_delay": final,
        "credit_delay": credit_delay,
        "link_latency": latencies[: len(shape)],
        # the buffer covers the credit loop, so that a lone packet streams
        "vc_buf_size": 64,
        "num_vcs": 2,
        "compat": compat,
    }
    net = Network(config)
    nodes = list(range(net.nodes))
    out = net.run_packets(lone_packets([(nodes[0], b) for b in nodes] + [(nodes[-1], b) for b in nodes], size))
    # compat sends one batch at a time through a switch, which delays the flits behind a head when traversal is long
    exact = compat == "none" or prepare + final == 1 or size == 1
    for row in out.itertuples():
        routers = [row.src // concentration, row.dst // concentration]
        hops, links, stride = 1, 0, 1
        for d, k in enumerate(shape):
            moves = abs(routers[0] // stride % k - routers[1] // stride % k)
            hops += moves
            links += moves * latencies[d]
            stride *= k
        expected = hops * (r + v + s + prepare + final) + links + 3 + size - 1
        assert row.hops == hops
        assert net.zero_load_latency_cycles(hops, links, size) == expected
        if exact:
            assert row.network_latency_cycles == expected
            assert row.contention_cycles == 0
        else:
            assert row.network_latency_cycles >= expected
