"""Descriptions of networks, traffic and packets: everything wrong is said at once, nothing is repaired."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from cosim.config.errors import ConfigErrors
from cosim.noc import Network, NetworkConfig
from cosim.noc.patterns import read_pattern

MESH: dict[str, Any] = {"topology": {"kind": "mesh", "shape": [4, 4]}}


def problems_of(description: Any) -> str:
    with pytest.raises(ConfigErrors) as caught:
        Network(description)
    return str(caught.value)


def test_every_problem_is_listed_with_the_nearest_spelling() -> None:
    text = problems_of(
        {
            "topology": {"kind": "mesh", "shape": [8, 0], "concentraton": 2},
            "num_vc": 4,
            "vc_buf_size": -1,
            "routing": "door",
            "credit_delay": "fast",
        }
    )
    assert len(text.splitlines()) == 6
    assert "network.num_vc: " in text
    assert "did you mean 'num_vcs'?" in text
    assert "did you mean 'concentration'?" in text
    assert "network.topology.shape.1: expected a number of at least 1, got 0" in text
    assert "network.vc_buf_size: expected a number of at least 1, got -1" in text
    assert "did you mean 'dor'?" in text
    assert "network.credit_delay: expected an integer, got 'fast'" in text


SEPARABLE = {"vc_allocator": "separable_input_first", "sw_allocator": "separable_output_first"}
MULTICAST = {"one": {"vcs": [0, 1]}, "many": {"vcs": [2], "multicast": True}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"topology": {"kind": "mesh"}}, "the key 'shape'"),
        ({"topology": "mesh"}, "a mapping such as"),
        ({"topology": {"kind": "messh", "shape": [2]}}, "did you mean 'mesh'?"),
        ({"topology": {"kind": "mesh", "shape": [4, 4], "k": 4}}, "the unknown key 'k'"),
        ({"num_vcs": 33}, "at most 32"),
        ({"num_vcs": 26}, "5 ports x 26 VCs = 130"),
        ({"num_vcs": True}, "expected an integer, got true"),
        ({"num_vcs": 4.0}, "got 4.0"),
        ({"vc_alloc_delay": 0}, "at least 1"),
        ({"st_final_delay": 0}, "st_prepare_delay + st_final_delay"),
        ({"link_latency": 0}, "from 1 to"),
        ({"link_latency": [1, 2, 3]}, "one per dimension"),
        ({"vc_allocator": "isslip"}, "did you mean 'islip'?"),
        ({"alloc_iters": 0}, "at least 1"),
        ({**SEPARABLE, "alloc_iters": 2}, "network.alloc_iters: expected 1: no allocator here is islip"),
        ({"arb_type": "matrix"}, "a separable allocator, which alone reads it"),
        ({**SEPARABLE, "arb_type": "tree"}, "round_robin"),
        ({"priority": "agee"}, "did you mean 'age'?"),
        ({"speculative": True, "vc_alloc_delay": 2}, "network.vc_alloc_delay: expected at most sw_alloc_delay = 1"),
        ({"num_vcs": 3, "classes": MULTICAST, "speculative": True}, "a multicast class goes with islip"),
        ({"num_vcs": 3, "classes": MULTICAST, "wait_for_tail_credit": True}, "a multicast class goes with islip"),
        ({"routing": {"tabel": []}}, "did you mean 'table'?"),
        ({"compat": "booksim"}, "did you mean 'booksim2'?"),
        ({"classes": {"a": {"vcs": [0]}, "b": {"vcs": [0, 1]}}}, "VC 0, of 'a'"),
        ({"classes": {"a": {"vcs": [4]}}}, "from 0 to 3"),
        ({"classes": {"a": {"vcs": []}}}, "at least 1 of them"),
    ],
)
def test_what_is_impossible_is_refused(change: dict[str, Any], says: str) -> None:
    assert says in problems_of({**MESH, **change})


def test_a_missing_topology_is_said() -> None:
    assert "network: expected the key 'topology', got no such key" in problems_of({})
    assert "a mapping of keys to values" in problems_of([1, 2])


def test_graphs_say_what_is_wrong() -> None:
    text = problems_of(
        {
            "topology": {
                "kind": "graph",
                "routers": 2,
                "links": [
                    {"between": [0, 2]},
                    {"from": 0, "to": 0},
                    {"from": 0, "between": [0, 1]},
                    7,
                    {"between": [0]},
                ],
                "nodes": [0, 5],
            },
            "routing": {"table": [{"router": 0, "destination": 1}]},
        }
    )
    for part in (
        "links.0",
        "links.1",
        "links.2",
        "links.3",
        "links.4.between",
        "nodes.1",
        "table.0",
    ):
        assert f"network.{'topology.' if part[0] in 'ln' else 'routing.'}{part}: " in text


def test_route_tables_must_be_complete_and_possible() -> None:
    graph = {"kind": "graph", "routers": 2, "links": [{"between": [0, 1]}]}
    complete = [{"router": 0, "destination": 1, "next_router": 1}, {"router": 1, "destination": 0, "next_router": 0}]
    assert Network({"topology": graph, "routing": {"table": complete}}).nodes == 2
    assert "a route at router 1 to node 0" in problems_of({"topology": graph, "routing": {"table": complete[:1]}})
    twice = [*complete, complete[0]]
    assert "router 0, destination 1 again" in problems_of({"topology": graph, "routing": {"table": twice}})
    parallel = [{**complete[0], "link": 1}, complete[1]]
    assert "one of the 1 links from router 0 to router 1" in problems_of(
        {"topology": graph, "routing": {"table": parallel}}
    )


def test_defaults_are_those_of_the_documentation() -> None:
    config = NetworkConfig.from_dict(MESH)
    assert (config.num_vcs, config.vc_buf_size, config.routing_name, config.pipeline_cycles) == (4, 8, "dor", 4)
    assert (config.link_latency, config.link_depth_flits, config.compat) == (1, 8, "none")


def test_traffic_arguments_are_checked_together() -> None:
    with pytest.raises(ConfigErrors) as caught:
        Network(MESH).run_traffic("unifrom", injection_rate=2.0, packet_size_flits=0, seed=-1, measure_cycles=0)
    text = str(caught.value)
    for part in ("did you mean 'uniform'?", "injection_rate", "packet_size_flits", "seed", "measure_cycles"):
        assert part in text


def test_frames_are_checked_together() -> None:
    good = {"create_cycle": [0], "src": [1], "dst": [2], "size_flits": [1]}
    net = Network(MESH)

    def says(frame: dict[str, list[Any]]) -> str:
        with pytest.raises(ConfigErrors) as caught:
            net.run_packets(pd.DataFrame(frame))
        return str(caught.value)

    text = says({"create_cycle": [-1], "src": [16], "dst": [2], "size_flits": [0]})
    assert len(text.splitlines()) == 3
    assert "packets.size_flits: expected a size of at least 1 flit, got 0 in row 0" in text
    assert "a column 'src'" in says({k: v for k, v in good.items() if k != "src"})
    assert "integers" in says({**good, "src": [0.5]})
    assert "got object" in says({**good, "src": [None]}) or "a value in every row" in says({**good, "src": [None]})
    assert "integers" in says({**good, "dst": ["x"]})
    assert "a list of nodes" in says({**good, "dst_set": ["1 2"]})
    assert "result of the run" in says({**good, "hops": [1]})
    assert "message_class" in says({**good, "message_class": [1]})


def test_an_empty_frame_is_an_empty_result() -> None:
    empty = pd.DataFrame({"create_cycle": [], "src": [], "dst": [], "size_flits": []}, dtype="int64")
    out = Network(MESH).run_packets(empty)
    assert len(out) == 0
    assert "eject_cycle" in out.columns


def test_the_frame_that_comes_in_is_not_changed() -> None:
    frame = pd.DataFrame({"create_cycle": [0], "src": [1], "dst": [2], "size_flits": [1], "note": ["kept"]}, index=[7])
    copy = frame.copy()
    out = Network(MESH).run_packets(frame)
    pd.testing.assert_frame_equal(frame, copy)
    assert out.index.tolist() == [7]
    assert out["note"].tolist() == ["kept"]


@pytest.mark.parametrize(
    ("pattern", "node", "dest"),
    [
        ("transpose", 1 + 8 * 2, 2 + 8 * 1),
        ("tornado", 6 + 8 * 1, 1 + 8 * 4),
        ("neighbor", 7 + 8 * 2, 0 + 8 * 3),
        ("shuffle", 0b101100, 0b011001),
        ("bit_complement", 0b101100, 0b010011),
        ("bit_reversal", 0b101100, 0b001101),
    ],
)
def test_permutations(pattern: str, node: int, dest: int) -> None:
    to = read_pattern(pattern, 64, [8, 8]).permutation
    assert to[node] == dest
    assert sorted(to) == list(range(64))


@pytest.mark.parametrize(
    ("pattern", "nodes", "shape", "says"),
    [
        ("transpose", 8, [8], "an even number"),
        ("shuffle", 12, [4, 3], "a power of two"),
        ("tornado", 16, [], "one node per router"),
        ({"kind": "hotspot"}, 16, [4, 4], "list of hotspot nodes"),
        ({"kind": "hotspot", "nodes": [16]}, 16, [4, 4], "from 0 to 15"),
        ({"kind": "hotspot", "nodes": [1], "weights": [1, 2]}, 16, [4, 4], "one weight per hotspot node"),
        ({"kind": "uniform", "nodes": [1]}, 16, [4, 4], "the unknown key 'nodes'"),
    ],
)
def test_patterns_a_network_cannot_carry(pattern: Any, nodes: int, shape: list[int], says: str) -> None:
    with pytest.raises(ConfigErrors, match=says):
        read_pattern(pattern, nodes, shape)


def test_hotspot_weights_share_out_the_traffic() -> None:
    r = Network(MESH).run_traffic(
        {"kind": "hotspot", "nodes": [3, 9], "weights": [3, 1]}, injection_rate=0.02, measure_cycles=20_000
    )
    got = r.links.query("kind == 'ejection'").groupby("to")["flits"].sum()
    assert got[got > 0].index.tolist() == [3, 9]
    assert got[3] / got[9] == pytest.approx(3, rel=0.1)
