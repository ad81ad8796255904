"""Systems of two levels: worked by hand to the cycle, and the laws over gateways.

Beyond the rules of the micro-suite: what crosses a gateway is seen at the receiver's first edge strictly after it plus
``synchroniser_cycles`` (here 1) of the receiver; a packet asks the gateway for room, whose grant leaves one cycle of
the far side later; flits that have been read are handed on one cycle of the far side after they are seen. A lone packet
of f flits over two routers takes 8 + L + 3 + f - 1 cycles; L is 1 in a chiplet (0.5 ns a cycle) and 2 in the package
(1 ns).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixed_run import digest
from small_system import NS, Bench
from two_levels import CORE0, CORE1, FAR0, HOST, MEMORY, package, package_bench, submit_random

from cosim._core import Clock, Engine, LivelockError, TaskKind
from cosim.config.errors import ConfigErrors
from cosim.run.machine import RUNG_KNOBS, build_machine, single_task
from cosim.run.network_columns import flit_graph
from cosim.system.loading import load_system

HERE = Path(__file__).parent


# ---- by hand


def test_one_transfer_over_three_networks_of_two_clocks_and_widths() -> None:
    bench = package_bench()
    task = bench.transfer(CORE0, CORE1, 64)
    record = bench.run()[task]
    # Seen 0.5, asked: the gateway sees it at 1 + 1, its grant leaves at 3 and is seen at 3.5 + 0.5. Two flits: head
    # read at 4 + 12 / 2 = 10, tail at 10.5; both are seen at 12, a flit of the package is whole, its network has it at
    # 13. It asks: seen at 14, granted 14.5, seen at 16, read at 29. Seen by the second gateway at 30, by the chiplet at
    # 30.5, read at 30.5 + 13 / 2.
    assert record["end_fs"] == 37 * NS
    figures = bench.machine.figures()
    assert {name: figures[f"{name}_token_fs"] / NS for name in ("latency", "router", "link", "serialisation")} == {
        "latency": 33,  # from 4 on
        "router": 4 + 8 + 4,
        "link": 2 + 5 + 2,
        "serialisation": 0.5,
    }
    assert figures["gateway_token_fs"] == 7.5 * NS  # 10 to 16, 29 to 30.5
    assert figures["contention_token_fs"] == figures["source_queueing_token_fs"] == 0
    assert figures["gateway_token_bytes"] == 128
    # one package flit, two of each chiplet, two routers each
    assert (figures["flit_hops_package"], figures["flit_hops_chiplet"]) == (2, 8)


@pytest.mark.parametrize(("buffer", "end"), [("256 B", 31), ("128 B", 40)])
def test_a_full_gateway_holds_the_next_packet_back(buffer: str, end: int) -> None:
    bench = package_bench(buffer=buffer)
    task = bench.transfer(CORE0, HOST, 256)
    # Two packets of 128 B. The first: granted as above, its four flits read at 10, 10.5, 11, 11.5 and seen at 12, 12,
    # 13, 13; in the package from 13 on, its two flits leave at 13 and 14.
    # With room for both, the second follows six cycles behind (one VC: 4 flits + R + V): read at 13 to 14.5, seen at 15
    # and 16, in the package at 16. There it comes one cycle too early for the one VC of its class, which serves a
    # packet every 2 + R + V = 4 cycles: 4 behind the first, which is read at 13 + 13 + 1.
    # With room for one, it is granted when the first has left: seen at 15, grant leaves at 16, seen at 17; read at 23
    # to 24.5, seen at 25 and 26, in the package at 26, read at 40.
    assert bench.run()[task]["end_fs"] == end * NS
    up, _ = bench.machine.gateway_statistics(0)
    assert up["most_used_bytes"].tolist() == [128 if end == 40 else 256, 0, 0]


def test_classes_do_not_wait_for_each_other() -> None:
    alone = package_bench(buffer="128 B")
    task = alone.transfer(CORE0, HOST, 128, message_class=1)
    expected = alone.run()[task]["end_fs"]
    bench = package_bench(buffer="128 B")
    tokens = bench.transfer(CORE0, HOST, 128 * 40)
    weights = bench.transfer(CORE0, HOST, 128, message_class=1)
    records = bench.run()
    assert records[tokens]["end_fs"] > 300 * NS
    # it shares links: at most the four flits of a packet go before its own, at either width
    assert expected <= records[weights]["end_fs"] <= expected + 4 * NS


def test_inside_a_chiplet_gateways_play_no_part() -> None:
    bench = package_bench()
    task = bench.transfer(CORE0, FAR0, 64)
    assert bench.run()[task]["end_fs"] == (1 + 8 + 1 + 3 + 1) * NS // 2


def test_a_fetch_through_a_gateway_keeps_the_rate_of_its_slowest_part() -> None:
    bench = package_bench(buffer="4 KiB")
    sizes = (64 * 1024, 128 * 1024)
    ends = []
    for size in sizes:
        bench = package_bench(buffer="4 KiB")
        fetch = bench.fetch(MEMORY, CORE0, size)
        bench.compute(CORE0, 1, stream=fetch)
        bench.run()
        ends.append(bench.end_ns(fetch))
    # two pseudo-channels of 16 GB/s each behind links of 64 GB/s; the map fills a row of one before the other
    rate = (sizes[1] - sizes[0]) / (ends[1] - ends[0])
    assert 7 < rate <= 32


def test_reserved_links_of_two_levels() -> None:
    bench = package_bench("link")
    task = bench.transfer(CORE0, HOST, 20)
    # 20 chunks of a byte: chiplet link, gateway and package link at 64 GB/s each, 15,625 fs a chunk and link
    assert bench.run()[task]["end_fs"] == 1 + (20 + 3 - 1) * 15_625


# ---- laws


def state(bench: Bench) -> dict[str, Any]:
    machine = bench.machine
    flits = machine.network_kind == "flit"
    return {
        "records": [[task, *bench.records[task].values()] for task in sorted(bench.records)],
        "figures": machine.figures(),
        "gateways": [
            {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in way.items()}
            for gateway in (machine.system.gateways if flits else ())
            for way in machine.gateway_statistics(gateway.index)
        ],
    }


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_order_of_nodes_and_a_second_run(rung: str) -> None:
    def run(order: list[int] | None = None) -> str:
        bench = package_bench(rung, buffer="256 B")
        if order is not None:
            bench.machine.engine.set_order(order)
        submit_random(bench, 3)
        bench.run()
        return digest(state(bench))

    expected = run()
    assert run() == expected
    count = package_bench(rung).machine.engine.nodes
    assert run(list(range(count))[::-1]) == expected
    assert run(np.random.default_rng(1).permutation(count).tolist()) == expected


@pytest.mark.parametrize("rung", RUNG_KNOBS)
def test_saved_loaded_and_resumed(rung: str) -> None:
    def started() -> Bench:
        bench = package_bench(rung, buffer="256 B")
        submit_random(bench, 5)
        for k in range(6):
            wait = bench.delay((k + 1) * 70 * NS)
            bench.add(TaskKind.decision, key=k, after=[wait])
        bench.submit()
        return bench

    whole = started()
    whole.run()
    bench = started()
    while bench.machine.engine.run(drain=True)[0] != "idle":
        bench.collect()
        other = package_bench(rung, buffer="256 B")
        other.machine.engine.load(bench.machine.engine.save())
        other.records = bench.records
        bench = other
    bench.collect()
    bench.machine.check_conservation()
    assert digest(state(bench)) == digest(state(whole))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("buffer", ["128 B", "1 KiB"])
def test_heavy_traffic_through_small_gateways_ends(seed: int, buffer: str) -> None:
    bench = package_bench(buffer=buffer, synchroniser_cycles=seed % 3, top={"clock": f"{700 + 300 * seed} MHz"})
    submit_random(bench, seed, transfers=80)
    bench.run()  # checks conservation and that the terms of every latency sum
    figures = bench.machine.figures()
    for name in ("token", "weight"):
        terms = ("source_queueing", "router", "link", "serialisation", "contention", "gateway")
        assert figures[f"latency_{name}_fs"] == sum(figures[f"{term}_{name}_fs"] for term in terms)
        assert all(figures[f"{term}_{name}_fs"] >= 0 for term in terms)


# ---- three levels


def test_three_levels() -> None:
    data = package()
    data["levels"]["tile"] = {**data["levels"]["chiplet"], "count": 4, "clock": "1.5 GHz", "flit_width": "16 B"}
    data["endpoints"]["core"]["at"] = {"tile": "all"}
    data["gateways"]["down"] = {
        **data["gateways"]["d2d"],
        "between": ["tile", "chiplet"],
        "at": {"tile": 0, "chiplet": "all"},
    }
    system = load_system(data)
    assert [network.label for network in system.networks[:3]] == ["chiplet[0]", "chiplet[1]", "package"]
    assert [network.above for network in system.networks] == [2, 2, -1, 0, 0, 1, 1]
    for rung in RUNG_KNOBS:
        bench = Bench(build_machine(system, rung))
        cores = [place.index for place in system.compute_endpoints if place.name == "core"]
        draw = np.random.default_rng(2)
        for _ in range(60):
            source, destination = draw.choice(cores, 2, replace=False).tolist()
            bench.transfer(source, destination, int(draw.integers(1, 500)), message_class=int(draw.integers(0, 3)))
        bench.run()


# ---- refusals


def refused(change: Any, **options: Any) -> str:
    data = package(**options)
    change(data)
    with pytest.raises(ConfigErrors) as caught:
        load_system(data)
    return "\n".join(f"{error.path}: expected {error.expected}, got {error.got}" for error in caught.value.errors)


def test_buffer_smaller_than_a_packet() -> None:
    text = refused(lambda data: None, buffer="127 B")
    assert "gateways.d2d.buffer.token: expected room for a packet of level 'chiplet', 128 B, got 127 B" in text


def test_routers_that_do_not_pair_up() -> None:
    text = refused(lambda data: data["gateways"]["d2d"]["at"].update(package=0))
    assert text == (
        "gateways.d2d.at.package: expected 2 routers of 'package', one for each of 2 × 1 gateways, got 1 routers"
    )


def test_ports_that_do_not_carry_the_bandwidth() -> None:
    text = refused(lambda data: data["gateways"]["d2d"].update(bandwidth="65 GB/s"))
    assert text.count("gateways.d2d.bandwidth: expected ports that carry its declared bandwidth of 65 GB/s") == 2
    assert "1 of 32 B at 2 GHz in level 'chiplet': 64 GB/s" in text


def test_one_vc_for_both_legs() -> None:
    text = refused(lambda data: data["levels"]["chiplet"].update(message_classes=None, num_vcs=4))
    assert "levels.chiplet.num_vcs: expected two VCs for class 'token'" in text


# ---- no silent hang


def test_packets_that_go_round_in_circles() -> None:
    system = load_system(package())
    network = system.networks[-1]
    graph = flit_graph(system, network, 1)
    entries, vc_sets = graph.routes
    host = 1  # its terminal, at router 1: routers send everything for it to each other
    assert graph.terminals[host].router == 1
    entries[1 * len(graph.terminals) + host] = 1
    graph.set_routes(entries, vc_sets)
    engine = Engine()
    for _ in range(2):
        engine.add_compute(clock=Clock(10**9, 1), tile_bytes=64, buffer_tiles=1, grant_latency_cycles=1)
    engine.add_flit_network(
        graph=graph,
        clock=Clock(10**9, 1),
        flit_bytes=64,
        header_bytes=0,
        max_packet_flits=2,
        message_classes=3,
        endpoint_node=[1, 2],
        endpoint_terminals=[[0], [host]],
        name="package",
        livelock_cycles=500,
    )
    engine.submit(*single_task(int(TaskKind.transfer), source=1, destination=2, bytes=64), 0)
    with pytest.raises(LivelockError, match=r"network package .*none read in 500 cycles in which something moved"):
        engine.run()


@pytest.mark.faults
def test_a_lost_grant_is_a_deadlock_that_names_the_gateway() -> None:
    program = """
from two_levels import *
bench = package_bench(buffer="256 B")
submit_random(bench, 1)
bench.run()
"""
    environment = {**os.environ}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *(os.path.abspath(path) for path in sys.path if path)])
    found = {}
    for fault in ("none", "lose_room"):
        found[fault] = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "COSIM_FAULT": fault},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert found["none"].returncode == 0, found["none"].stderr
    assert found["lose_room"].returncode != 0
    assert re.search(r"DeadlockError: deadlock.*gateway d2d\[\d\] (up|down)", found["lose_room"].stderr, re.DOTALL)
