"""The journal of links and banks, and the trace file that is made of it."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from small_system import Bench, line

from cosim import Experiment
from cosim.config.errors import ConfigErrors
from cosim.report.timeline import Arrow, Slice, Timeline, Track, trace_json_gz
from cosim.run.machine import build_machine
from cosim.run.timeline import TimelineRequest
from cosim.system.loading import load_system

KIB = 1024


def busy_bench(rung: str, journal: int) -> Bench:
    """Tokens and weights that cross each other on a line of four routers, memories at both ends."""
    bench = Bench(build_machine(load_system(line(4, (0, 3))), rung, journal=True))
    if journal:
        bench.machine.engine.keep_journal(journal)
    bench.used_fetch(0, 2, 8 * KIB)
    bench.used_fetch(3, 1, 4 * KIB, address=64 * KIB)
    bench.transfer(1, 2, 3000)
    bench.transfer(2, 1, 700)
    bench.copy(0, 3, 4 * KIB)
    bench.run()
    return bench


@pytest.mark.parametrize("rung", ["link", "link+command", "flit+rate", "flit"])
def test_nothing_depends_on_being_watched(rung: str) -> None:
    assert busy_bench(rung, 0).records == busy_bench(rung, 10_000).records == busy_bench(rung, 7).records


def test_every_flit_of_a_link_is_in_the_journal_once() -> None:
    machine = busy_bench("flit", 10_000).machine
    links = machine.engine.journal()["links"]
    counted = machine.flit_statistics(0)["link_vc_flits"].reshape(-1, 4).sum(axis=1)
    inside = links["link"] < len(counted)
    assert np.array_equal(np.bincount(links["link"][inside], links["flits"][inside]), counted)
    # what is injected at a terminal leaves over links: no packet of these ends where it starts
    assert links["flits"][~inside].sum() == sum(one["flits"] for one in machine.flit_statistics(0)["classes"])
    assert (links["end_fs"] - links["begin_fs"] >= links["flits"] * 1_000_000).all()
    for link in np.unique(links["link"]):  # a VC holds one packet at a time
        for vc in range(4):
            own = (links["link"] == link) & (links["vc"] == vc)
            order = np.argsort(links["begin_fs"][own])
            assert (links["begin_fs"][own][order][1:] >= links["end_fs"][own][order][:-1]).all()


def test_every_burst_of_a_memory_is_in_the_journal_once() -> None:
    machine = busy_bench("flit", 10_000).machine
    banks = machine.engine.journal()["banks"]
    for place in machine.system.memory_endpoints:
        own = banks["memory"] == machine.nodes[place.index]
        statistics = machine.memory_statistics(place.index)
        moved = banks["bursts"][own].sum() * 32
        assert moved == statistics["read_bytes"] + statistics["written_bytes"]
        reads = sum(row[5] + row[6] for row in statistics["banks"])
        assert banks["bursts"][own].sum() == reads
    column = banks["bursts"] > 0
    assert (banks["task"][column] >= 0).all()
    assert (banks["task"][~column] == -1).all()


def test_a_full_journal_counts_what_it_leaves_out() -> None:
    whole, short = (busy_bench("flit", limit).machine.engine.journal() for limit in (10_000, 7))
    entries = [len(one["links"]["task"]) + len(one["banks"]["task"]) for one in (whole, short)]
    assert entries[1] == 7
    assert whole["left_out"] == 0
    assert short["left_out"] >= entries[0] - 7  # a row whose first burst is left out is counted burst by burst


def check_trace_events(document: dict[str, Any]) -> None:
    """The rules of the trace-event format that a viewer relies on."""
    assert document["displayTimeUnit"] in ("ms", "ns")
    named: set[tuple[str, int, int]] = set()
    processes = {event["pid"] for event in document["traceEvents"]}
    threads: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    flows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in document["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            named.add((event["name"], event["pid"], event["tid"]))
        elif event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["tid"] not in processes  # else it counts as a process's main thread
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        else:
            assert event["ph"] in ("s", "t", "f")
            flows[event["id"]].append(event)
    for process, thread in threads:
        assert ("thread_name", process, thread) in named
        assert ("process_name", process, 0) in named
    for slices in threads.values():  # those of one thread lie beside or within each other
        ends: list[float] = []
        for begin, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while ends and ends[-1] <= begin + 1e-9:
                ends.pop()
            assert not ends or end <= ends[-1] + 1e-9
            ends.append(end)
    for steps in flows.values():
        assert [step["ph"] for step in steps] == ["s", *["t"] * (len(steps) - 2), "f"]
        assert all(a["ts"] <= b["ts"] for a, b in itertools.pairwise(steps))
        for step in steps:  # an arrow hangs on the slice that encloses its instant
            begins = {begin for begin, _ in threads[step["pid"], step["tid"]]}
            assert step["ts"] in begins


def test_a_layer_of_the_quickstart_as_a_trace_file() -> None:
    experiment = Experiment.load("quickstart", ["workload.layers=0-1", "workload.batches=1"])
    timeline = experiment.timeline(["static"], "flit", TimelineRequest(layer=1))
    data = trace_json_gz(timeline)
    assert data == trace_json_gz(timeline)
    document = json.loads(gzip.decompress(data))
    check_trace_events(document)
    assert document["otherData"]["recorded"] == [{"batch": 0, "layer": 1}]
    assert document["otherData"]["units"][0]["left_out"] == 0
    tracks = {
        event["args"]["name"]
        for event in document["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    assert "package (0, 0) → (1, 0)" in tracks
    assert any(name.startswith("memory@1 ch0 pc0 bank") for name in tracks)
    assert "expert@0" in tracks
    arrows = {arrow.name.split(" of ")[0].split(" to ")[0] for arrow in timeline.arrows}
    assert arrows == {"tokens", "weights", "bank", "outputs"}
    # every token group's slice is there, and its chiplet has worked on it
    run = experiment.run("static", "flit")
    groups = run.groups[(run.groups["seed"] == 1) & (run.groups["layer"] == 1)]
    whole = [item for item in timeline.slices if "chiplet" in item.args]
    assert sorted(item.args["tokens"] for item in whole) == sorted(groups["tokens"])
    assert {item.end_fs - item.begin_fs for item in whole} == set(groups["total_fs"] - groups["gate_fs"])


def test_a_place_that_is_not_there() -> None:
    experiment = Experiment.load("quickstart", ["workload.layers=0-1", "workload.batches=1"])
    with pytest.raises(ConfigErrors, match="one of the layers 0 to 1"):
        experiment.timeline(["static"], "flit", TimelineRequest(layer=5))
    with pytest.raises(ConfigErrors, match="a batch, 0 to 0"):
        experiment.check_timeline(TimelineRequest(batch=1))  # before anything runs


def test_slices_that_overlap_get_rows_of_their_own() -> None:
    track = Track("links", 0, "a → b")
    first = Slice(track, 0, 4_000_000, "p")
    slices = (
        first,
        Slice(track, 1_000_000, 6_000_000, "q"),
        Slice(track, 4_000_000, 5_000_000, "r"),
        Slice(track, 0, 3_000_000, "head of p", part_of=first),
        Slice(track, 2_000_000, 3_000_000, "lies within p and q, is part of neither"),
    )
    document = json.loads(gzip.decompress(trace_json_gz(Timeline(slices, (Arrow("x", (first, slices[2])),), {}))))
    check_trace_events(document)
    rows = {event["name"]: event["tid"] for event in document["traceEvents"] if event["ph"] == "X"}
    assert rows == {"p": 2, "q": 3, "r": 2, "head of p": 2, "lies within p and q, is part of neither": 4}
    names = [event["args"]["name"] for event in document["traceEvents"] if event["name"] == "thread_name"]
    assert names == ["a → b", "a → b +1", "a → b +2"]
