"""Every topology with every routing it takes: delivered, minimal where promised, exact at zero load, all links used."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.config.schema_network import ROUTINGS
from cosim.noc import Network
from cosim.noc.combinations import TOPOLOGIES, combinations

COMBINATIONS = [(kind, routing) for kind, routing, _ in combinations()]


def network(kind: str, routing: str, **keys: Any) -> Network:
    return Network({"topology": TOPOLOGIES[kind], "routing": routing, "num_vcs": 8, "vc_buf_size": 4, **keys})


def every_pair(nodes: int, size_flits: int = 3, apart: int = 300) -> pd.DataFrame:
    pairs = [(a, b) for a in range(nodes) for b in range(nodes)]
    return pd.DataFrame(
        {
            "create_cycle": [apart * i for i in range(len(pairs))],
            "src": [a for a, _ in pairs],
            "dst": [b for _, b in pairs],
            "size_flits": size_flits,
        }
    )


def distances(net: Network) -> np.ndarray[Any, Any]:
    """Fewest routers on a way between two nodes."""
    links = net.spec.links
    routers = net.routers
    hops = np.full((routers, routers), 10**6)
    np.fill_diagonal(hops, 1)
    for link in links:
        hops[link.from_router, link.to_router] = 2
    for via in range(routers):
        hops = np.minimum(hops, hops[:, via : via + 1] + hops[via : via + 1, :] - 1)
    at = [terminal.router for terminal in net.spec.terminals]
    return hops[np.ix_(at, at)]


def test_every_kind_has_a_case() -> None:
    assert set(TOPOLOGIES) == set(ROUTINGS)


@pytest.mark.parametrize(("kind", "routing"), COMBINATIONS)
def test_lone_packets_take_shortest_ways_at_the_formula(kind: str, routing: str) -> None:
    net = network(kind, routing, vc_buf_size=16)
    out = net.run_packets(every_pair(net.nodes))
    shortest = distances(net)[out["src"], out["dst"]]
    if routing == "up_down" and kind in ("torus", "ring", "graph", "mesh"):
        assert (out["hops"] >= shortest).all()
    else:
        assert out["hops"].tolist() == shortest.tolist()
    assert (out["contention_cycles"] == 0).all()
    assert (out["packet_latency_cycles"] == 4 * out["hops"] + out["link_cycles"] + 2).all()


@pytest.mark.parametrize(("kind", "routing"), COMBINATIONS)
def test_no_packet_is_lost_under_load(kind: str, routing: str) -> None:
    net = network(kind, routing)
    r = net.run_traffic(
        "uniform", injection_rate=0.5, packet_size_flits=6, warmup_cycles=0, measure_cycles=2000, seed=2
    )
    assert r.undrained_packets == 0
    used = r.links.query("kind == 'link'").groupby(["router", "port"])["flits"].sum()
    if routing not in ("up_down", "layered_shortest_path"):
        assert (used > 0).all()


@pytest.mark.parametrize(("kind", "routing"), COMBINATIONS)
def test_classes_keep_to_their_vcs(kind: str, routing: str) -> None:
    classes = {"a": {"vcs": [0, 2, 4, 6]}, "b": {"vcs": [1, 3, 5, 7]}}
    net = network(kind, routing, classes=classes)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "create_cycle": np.arange(400) // 4,
            "src": rng.integers(0, net.nodes, 400),
            "dst": rng.integers(0, net.nodes, 400),
            "size_flits": rng.integers(1, 7, 400),
            "message_class": "b",
        }
    )
    links = net.packet_run(frame).links
    assert links.query("message_class == 'a'")["flits"].sum() == 0
    assert links.query("message_class == 'b'")["flits"].sum() > 0


@pytest.mark.parametrize(("kind", "routing"), COMBINATIONS)
def test_every_shipped_combination_is_deadlock_free(kind: str, routing: str) -> None:
    for classes in ({}, {"a": {"vcs": [0, 2, 4, 6]}, "b": {"vcs": [1, 3, 5, 7]}}):
        check = network(kind, routing, classes=classes).check_deadlock()
        assert check.deadlock_free, str(check)
        assert check.proof == ("escape" if routing == "min_adaptive" else "acyclic")


def test_a_cycle_of_waits_is_named() -> None:
    """A ring whose packets all go one way on one VC: each link waits for the next."""
    ring = {"kind": "graph", "routers": 4, "links": [{"from": i, "to": (i + 1) % 4} for i in range(4)]}
    table = [{"router": r, "destination": n, "next_router": (r + 1) % 4} for r in range(4) for n in range(4) if r != n]
    check = Network({"topology": ring, "routing": {"table": table}, "num_vcs": 1}).check_deadlock()
    assert not check.deadlock_free
    assert sorted(check.cycle) == [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 0, 0)]
    assert "may deadlock" in str(check)
    # each waits for the next
    for (_, to, _), (start, _, _) in zip(check.cycle, check.cycle[1:] + check.cycle[:1], strict=True):
        assert to == start


def test_compatible_min_adaptive_is_dimension_order() -> None:
    """BookSim2's set of outputs keeps the first of the productive ports, so nothing turns off dimension order."""
    check = network("mesh", "min_adaptive", compat="booksim2").check_deadlock()
    assert check.proof == "acyclic"
    frame = every_pair(12)
    links = network("mesh", "min_adaptive", compat="booksim2").packet_run(frame).links
    dor = network("mesh", "dor", compat="booksim2").packet_run(frame).links
    ports = ["router", "port"]
    assert links.groupby(ports)["flits"].sum().equals(dor.groupby(ports)["flits"].sum())


def test_overlapping_halves_of_an_odd_number_of_vcs() -> None:
    """BookSim2's classes share the middle VC of three: dependencies close a cycle over it."""
    check = network("torus", "dateline_booksim", num_vcs=3).check_deadlock()
    assert check.proof == "none"
    assert 1 in {vc for _, _, vc in check.cycle}
    assert network("torus", "dateline", num_vcs=3).check_deadlock().deadlock_free


def test_mean_hops_are_exact() -> None:
    """Uniform pairs, the source included: 1 + 2 k/4 on an even torus; 1, 3, 5 in the tree by common ancestor."""
    torus = Network({"topology": {"kind": "torus", "shape": [8, 8]}})
    assert torus.run_packets(every_pair(64, 1, 90))["hops"].mean() == 5
    tree = Network({"topology": {"kind": "fat_tree", "k": 4, "n": 3}})
    assert tree.run_packets(every_pair(64, 1, 90))["hops"].mean() == 4.375
    assert (tree.nodes, tree.routers) == (64, 48)


def test_links_of_a_k_ary_n_tree() -> None:
    net = Network({"topology": {"kind": "fat_tree", "k": 3, "n": 3}})
    pairs = Counter((link.from_router, link.to_router) for link in net.spec.links)
    assert set(pairs.values()) == {1}
    assert len(pairs) == 2 * 2 * 27
    for (a, b), _ in pairs.items():
        assert abs(a // 9 - b // 9) == 1
        assert (b, a) in pairs


def test_seed_002_fat_tree_has_full_bisection() -> None:
    """4 pods of 4 leaves with 2 endpoints, 2 aggregation routers a pod, 4 cores: 8 links leave a pod of 8 nodes."""
    net = Network(
        {
            "topology": {
                "kind": "pod_fat_tree", "pods": 4, "leaves_per_pod": 4, "nodes_per_leaf": 2, "aggregations_per_pod": 2,
                "cores": 4,
            }
        }
    )  # fmt: skip
    assert (net.nodes, net.routers) == (32, 28)
    up = [link for link in net.spec.links if 16 <= link.from_router < 18 and link.to_router >= 24]
    assert len(up) == 8
    r = net.run_traffic(
        {"kind": "hotspot", "nodes": list(range(8, 16))}, injection_rate=0.2, measure_cycles=3000, warmup_cycles=500
    )
    assert r.stable


def test_bandwidth_of_a_level_is_its_number_of_links() -> None:
    def accepted(core_links: int) -> float:
        topology = {
            "kind": "pod_fat_tree", "pods": 2, "leaves_per_pod": 1, "nodes_per_leaf": 4, "aggregations_per_pod": 1,
            "cores": 1, "leaf_links": 4, "core_links": core_links,
        }  # fmt: skip
        frame = pd.DataFrame(
            {"create_cycle": 0, "src": np.repeat(range(4), 100), "dst": np.tile(range(4, 8), 100), "size_flits": 4}
        )
        net = Network({"topology": topology, "vc_buf_size": 16})
        return 1600 / float(net.packet_run(frame).makespan_cycles)

    one, two, four = accepted(1), accepted(2), accepted(4)
    # chance spreads the packets over parallel links unevenly
    assert 0.9 < one <= 1
    assert 1.4 < two <= 2
    assert 2.2 < four <= 4


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_random_graphs_route_without_deadlock(data: st.DataObject) -> None:
    routers = data.draw(st.integers(2, 9))
    tree = [{"between": [i, data.draw(st.integers(0, i - 1))]} for i in range(1, routers)]
    more = data.draw(
        st.lists(
            st.tuples(st.integers(0, routers - 1), st.integers(0, routers - 1)).filter(lambda p: p[0] != p[1]),
            max_size=8,
        )
    )
    links = tree + [{"between": list(pair), "latency": 1 + i % 3} for i, pair in enumerate(more)]
    routing = data.draw(st.sampled_from(["up_down", "layered_shortest_path"]))
    net = Network({"topology": {"kind": "graph", "routers": routers, "links": links}, "routing": routing, "num_vcs": 4})
    assert net.check_deadlock().proof == "acyclic"
    r = net.run_traffic("uniform", injection_rate=0.6, packet_size_flits=5, warmup_cycles=0, measure_cycles=300)
    assert r.undrained_packets == 0


def test_failed_links_are_gone_around() -> None:
    topology = {"kind": "mesh", "shape": [3, 3]}
    net = Network({"topology": topology, "routing": "up_down", "failed_links": [{"between": [4, 5]}]})
    assert not {(4, 5), (5, 4)} & {(link.from_router, link.to_router) for link in net.spec.links}
    assert net.check_deadlock().deadlock_free
    assert len(net.run_packets(every_pair(9))) == 81
    tree = {
        "topology": TOPOLOGIES["pod_fat_tree"],
        "failed_links": [{"between": [0, 4]}, {"from": 4, "to": 8, "link": 1}],
    }
    assert len(Network(tree).run_packets(every_pair(8))) == 64


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"routing": "dateline"}, "expected one of dor, odd_even"),
        ({"topology": TOPOLOGIES["torus"], "routing": "dor"}, "one of dateline, dateline_booksim"),
        ({"topology": TOPOLOGIES["torus"], "num_vcs": 1}, "at least 2 VCs of every message class"),
        ({"topology": {"kind": "mesh", "shape": [3, 3, 3]}, "routing": "odd_even", "num_vcs": 2}, "two dimensions"),
        ({"failed_links": [{"between": [0, 1]}]}, "ways around failed links, got 'dor'"),
        ({"failed_links": [{"between": [0, 9]}], "routing": "up_down"}, "one of the 0 links from router 0 to router 9"),
        ({"failed_links": [{"from": 0, "to": 1}, {"from": 0, "to": 4}], "routing": "up_down"}, "does not reach node"),
        ({"routing": {"name": "up_down", "root": 16}}, "a router below 16"),
        ({"routing": {"name": "dor", "root": 1}}, "up_down alone reads it"),
        ({"topology": {"kind": "fat_tree", "k": 4}}, "the key 'n'"),
        ({"topology": {"kind": "crossbar", "nodes": 65}, "num_vcs": 2}, "65 ports x 2 VCs = 130"),
        ({"link_latency": [1, 2], "topology": TOPOLOGIES["ring"]}, "one integer"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        Network({"topology": {"kind": "mesh", "shape": [4, 4]}, **keys})
    assert says in str(caught.value)


def test_too_few_vcs_for_the_layers_of_shortest_ways() -> None:
    keys = {"topology": TOPOLOGIES["torus"], "routing": "layered_shortest_path"}
    with pytest.raises(ConfigErrors, match="layers, a VC of every message class each; a class has 1"):
        Network({**keys, "num_vcs": 1})


def test_links_and_routes_from_files(tmp_path: Path) -> None:
    links = tmp_path / "links.csv"
    links.write_text("from,to,latency\n0,1,2\n1,2,\n2,0,5\n")
    routes = tmp_path / "routes.csv"
    routes.write_text("router,destination,next_router\n0,1,1\n0,2,1\n1,2,2\n1,0,2\n2,0,0\n2,1,0\n")
    net = Network(
        {
            "topology": {"kind": "graph", "routers": 3, "links": str(links)},
            "routing": {"table": str(routes)},
            "link_latency": 7,
        }
    )
    assert [link.latency for link in net.spec.links] == [2, 7, 5]
    out = net.run_packets(every_pair(3, 1))
    assert out["hops"].tolist() == [1, 2, 3, 3, 1, 2, 2, 3, 1]
    links.write_text("from,to\n0,1\n1,9\n2,x\n")
    with pytest.raises(ConfigErrors) as caught:
        Network({"topology": {"kind": "graph", "routers": 3, "links": str(links)}})
    assert "links: expected a router below 3, got router 9 in link 1" in str(caught.value)
    assert "links.2.to: expected an integer, got 'x'" in str(caught.value)
    with pytest.raises(ConfigErrors, match="a CSV file that can be read"):
        Network({"topology": {"kind": "graph", "routers": 3, "links": str(tmp_path / "none.csv")}})
