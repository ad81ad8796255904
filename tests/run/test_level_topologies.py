"""Levels on tori, trees, rings, crossbars and graphs: hand-worked times, routes of both rungs, laws, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_system import Bench

from cosim.config.errors import ConfigErrors
from cosim.experiment import Experiment
from cosim.noc.deadlock import check_deadlock
from cosim.run.frames import link_rows
from cosim.run.machine import build_machine
from cosim.run.network_columns import flit_graph
from cosim.system import System, load_system

TORUS = {"topology": {"kind": "torus", "shape": [4, 4]}, "routing": "dateline", "num_vcs": 6}
PODS = {
    "topology": {
        "kind": "pod_fat_tree",
        "pods": 4,
        "leaves_per_pod": 4,
        "nodes_per_leaf": 2,
        "aggregations_per_pod": 2,
        "cores": 4,
    },
    "routing": "nca",
}
TREE = {"topology": {"kind": "fat_tree", "k": 2, "n": 3}, "routing": "nca"}
# a ring of five with a chord and a sixth router behind it; two nodes at router 5
EDGES = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [1, 4], [3, 5]]
GRAPH = {
    "topology": {
        "kind": "graph",
        "routers": 6,
        "links": [{"between": edge} for edge in EDGES],
        "nodes": [0, 1, 2, 4, 5, 5],
    },
    "routing": "up_down",
}
LEVELS: dict[str, dict[str, Any]] = {
    "torus": TORUS,
    "pods": PODS,
    "tree": TREE,
    "graph": GRAPH,
    "layers": {**GRAPH, "routing": "layered_shortest_path", "num_vcs": 12},
    "ring": {"topology": {"kind": "ring", "routers": 5}, "routing": "dateline", "num_vcs": 6},
    "crossbar": {"topology": {"kind": "crossbar", "nodes": 6}, "routing": "direct"},
    "all to all": {"topology": {"kind": "fully_connected", "routers": 5}, "routing": "direct"},
    "adaptive mesh": {"topology": {"kind": "mesh", "shape": [3, 3]}, "routing": "min_adaptive", "num_vcs": 6},
    "odd-even mesh": {"topology": {"kind": "mesh", "shape": [3, 3]}, "routing": "odd_even"},
}


def hardware(level: dict[str, Any]) -> dict[str, Any]:
    """64 B flits at 1 GHz, links of two cycles, no headers: a memory at node 0, compute at every node."""
    package = {
        "num_vcs": 4,
        "vc_buf_size": 8,
        "flit_width": "64 B",
        "clock": "1 GHz",
        "link_latency": 2,
        "max_packet_flits": 4,
        "header_bytes": "0 B",
        **level,
    }
    compute = {"compute": {"rate": "1 TFLOP/s", "efficiency": 1.0}, "tile": "256 B", "expert_buffer": "1 KiB"}
    memory = {"memory": {"preset": "HBM2_2000", "channels": 1}, "read_return_slots": 64, "allow_bottleneck": True}
    return {
        "levels": {"package": package},
        "endpoints": {"core": {"at": {"package": "all"}, **compute}, "memory": {"at": {"package": 0}, **memory}},
    }


def cores(system: System) -> list[int]:
    """Endpoint of each node's compute unit, by node."""
    return [place.index for place in sorted(system.compute_endpoints, key=lambda place: int(place.place))]


def loaded_bench(name: str, rung: str, seed: int = 1) -> Bench:
    """A bench with random transfers and fetches under way."""
    system = load_system(hardware(LEVELS[name]))
    bench = Bench(build_machine(system, rung))
    draw = np.random.default_rng(seed)
    for number in range(60):
        source, destination = draw.choice(cores(system), 2, replace=False).tolist()
        bench.transfer(source, destination, int(draw.integers(1, 900)), message_class=int(draw.integers(0, 3)))
        if number % 6 == 0:
            bench.used_fetch(system.memory_endpoints[0].index, destination, 1024, address=number * 4096)
    return bench


# ---- times by hand: seen after 1 cycle, 4 a router, 2 a link, 3 at the terminals, 1 a flit behind the first


@pytest.mark.parametrize(
    ("name", "source", "destination", "size", "end"),
    [
        ("torus", 0, 3, 64, 1 + 2 * 4 + 2 + 3),  # the wrap link of its row
        ("torus", 0, 15, 256, 1 + 3 * 4 + 2 * 2 + 3 + 3),  # the wrap links of its row and its column
        ("torus", 0, 2, 64, 1 + 3 * 4 + 2 * 2 + 3),  # two either way round
        ("pods", 0, 1, 64, 1 + 4 + 3),  # one leaf
        ("pods", 0, 7, 64, 1 + 3 * 4 + 2 * 2 + 3),  # one pod
        ("pods", 0, 31, 128, 1 + 5 * 4 + 4 * 2 + 3 + 1),  # through a core
        ("tree", 0, 7, 64, 1 + 5 * 4 + 4 * 2 + 3),
        ("graph", 4, 5, 64, 1 + 4 + 3),  # both at router 5
        ("ring", 0, 4, 64, 1 + 2 * 4 + 2 + 3),
        ("crossbar", 0, 5, 64, 1 + 4 + 3),
        ("all to all", 4, 0, 64, 1 + 2 * 4 + 2 + 3),
    ],
)
def test_a_transfer_by_hand(name: str, source: int, destination: int, size: int, end: int) -> None:
    system = load_system(hardware(LEVELS[name]))
    bench = Bench(build_machine(system, "flit"))
    task = bench.transfer(cores(system)[source], cores(system)[destination], size)
    bench.run()
    assert bench.end_ns(task) == end


def test_reserved_links_take_the_wrap_links() -> None:
    system = load_system(hardware(TORUS))
    assert system.routes.between(cores(system)[0], cores(system)[15]) == 2
    bench = Bench(build_machine(system, "link"))
    task = bench.transfer(cores(system)[0], cores(system)[15], 20)
    # 20 chunks of a byte over two links of 64 GB/s, 15,625 fs each
    assert bench.run()[task]["end_fs"] == 1 + (20 + 2 - 1) * 15_625


# ---- routes


@pytest.mark.parametrize("name", LEVELS)
def test_routes_arrive_on_shortest_ways(name: str) -> None:
    system = load_system(hardware(LEVELS[name]))
    graph = system.networks[0].graph
    far = np.where(np.eye(graph.routers, dtype=bool), 0, graph.routers)
    far[graph.source, graph.target] = 1
    for middle in range(graph.routers):  # Floyd and Warshall
        far = np.minimum(far, far[:, [middle]] + far[[middle], :])
    for source in system.compute_endpoints:
        for destination in system.compute_endpoints:
            hops = system.routes.between(source.index, destination.index)
            assert hops == len(system.routes.path(source.index, destination.index))
            shortest = far[source.router, destination.router]
            assert hops == shortest or (name == "graph" and shortest < hops <= graph.routers)  # up*/down* may go round


@pytest.mark.parametrize("name", ["graph", "layers", "all to all"])
def test_both_rungs_take_the_same_links(name: str) -> None:
    system = load_system(hardware(LEVELS[name]))
    ends = cores(system)
    for source, destination in ((ends[0], ends[-1]), (ends[2], ends[-2]), (ends[-1], ends[1])):
        used = []
        for rung in ("link", "flit"):
            bench = Bench(build_machine(system, rung))
            bench.transfer(source, destination, 64)
            bench.run()
            if rung == "link":
                used.append(bench.machine.link_statistics()["link_busy_fs"] > 0)
            else:
                flits = bench.machine.flit_statistics(0)["link_vc_flits"]
                used.append(flits.reshape(-1, system.networks[0].level.num_vcs).sum(axis=1) > 0)
        assert used[0].tolist() == used[1].tolist()
        assert used[0].sum() == system.routes.between(source, destination)


@pytest.mark.parametrize("name", LEVELS)
def test_no_cycle_of_waits(name: str) -> None:
    system = load_system(hardware(LEVELS[name]))
    check = check_deadlock(flit_graph(system, system.networks[0], 1))
    assert check.deadlock_free


# ---- laws


@pytest.mark.parametrize("rung", ["link", "flit"])
@pytest.mark.parametrize("name", LEVELS)
def test_conservation_and_a_second_run(name: str, rung: str) -> None:
    first, second = loaded_bench(name, rung), loaded_bench(name, rung)
    assert first.run() == second.run()  # checks conservation
    assert first.machine.figures() == second.machine.figures()
    rows = link_rows(first.machine)
    assert (rows["src_x"] >= 0).all() == first.machine.system.networks[0].graph.placed or rows.empty
    if rung == "flit":
        router_flits = first.machine.figures()["flit_hops"]
        assert 0 <= rows["flits"].sum() < router_flits


@pytest.mark.parametrize("name", ["torus", "pods"])
def test_saved_and_loaded(name: str) -> None:
    from cosim._core import TaskKind

    def started() -> Bench:
        bench = loaded_bench(name, "flit")
        for key in range(4):
            wait = bench.delay((key + 1) * 60_000_000)
            bench.add(TaskKind.decision, key=key, after=[wait])
        bench.submit()
        return bench

    whole = started()
    whole.run()
    bench = started()
    while bench.machine.engine.run(drain=True)[0] != "idle":
        bench.collect()
        other = Bench(build_machine(bench.machine.system, "flit"))
        other.machine.engine.load(bench.machine.engine.save())
        other.records = bench.records
        bench = other
    bench.collect()
    assert bench.records == whole.records
    assert bench.machine.figures() == whole.machine.figures()


# ---- a layer of an experiment


@pytest.mark.parametrize("system", ["near-memory-torus-4x8", "near-memory-pods-32"])
def test_a_layer_of_the_sample(system: str) -> None:
    experiment = Experiment.load(
        {
            "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
            "workload": {
                "model": "own-byte-moe",
                "mode": "decode",
                "batch_tokens": 4,
                "batches": 1,
                "layers": "0",
                "scope": "routed",
            },
            "system": system,
            "policies": ["static"],
            "rungs": ["link", "flit"],
            "seeds": [1],
        }
    )
    totals = [int(experiment.run("static", rung).layers["total_fs"].sum()) for rung in ("link", "flit")]
    assert min(totals) > 0


# ---- refusals


def refused(level: dict[str, Any]) -> str:
    with pytest.raises(ConfigErrors) as caught:
        load_system(hardware(level))
    return "\n".join(f"{error.path}: expected {error.expected}, got {error.got}" for error in caught.value.errors)


def test_too_few_vcs_for_two_dateline_classes() -> None:
    assert "levels.package.num_vcs: expected at least 6 VCs, 2 (dateline parts them) for each" in refused(
        {**TORUS, "num_vcs": 5}
    )
    classes = {"token": {"vcs": [0, 1]}, "weight": {"vcs": [2, 3]}, "prefetch": {"vcs": [4]}}
    assert "levels.package.message_classes.prefetch.vcs: expected at least 2 VCs (dateline parts them), got 1" in (
        refused({**TORUS, "message_classes": classes})
    )


def test_a_routing_of_another_topology() -> None:
    text = refused({**TORUS, "routing": "dor"})
    assert "levels.package.routing: expected one of dateline, up_down, layered_shortest_path, table, got 'dor'" in text
    assert "levels.package.routing" in refused({**TORUS, "routing": "dateline_booksim"})


def test_too_few_vcs_for_layers() -> None:
    ring = {"topology": {"kind": "ring", "routers": 6}, "routing": "layered_shortest_path", "num_vcs": 3}
    assert "levels.package.routing: expected a level that layered_shortest_path can route" in refused(ring)


def test_a_graph_in_two_pieces() -> None:
    links = [{"between": [0, 1]}, {"between": [2, 3]}]
    text = refused({"topology": {"kind": "graph", "routers": 4, "links": links}, "routing": "up_down"})
    assert "levels.package.topology: expected a topology whose routers all reach each other" in text
    assert "router 2, 3 apart from router 0" in text
