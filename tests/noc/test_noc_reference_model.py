"""The core against the slow reference model, packet by packet, on random networks and packets."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_router import Link, Packet, Reference, mesh

from cosim.noc import Network


@st.composite
def pipelines(draw: st.DrawFn) -> dict[str, int]:
    return {
        "num_vcs": draw(st.integers(1, 4)),
        "vc_buf_size": draw(st.integers(1, 9)),
        "routing_delay": draw(st.integers(0, 3)),
        "vc_alloc_delay": draw(st.integers(1, 2)),
        "sw_alloc_delay": draw(st.integers(1, 2)),
        "st_final_delay": draw(st.integers(1, 3)),
        "credit_delay": draw(st.integers(0, 3)),
    }


@st.composite
def allocations(draw: st.DrawFn) -> dict[str, Any]:
    names = st.sampled_from(["islip", "separable_input_first", "separable_output_first"])
    keys: dict[str, Any] = {
        "vc_allocator": draw(names),
        "sw_allocator": draw(names),
        "priority": draw(st.sampled_from(["none", "age"])),
        "speculative": draw(st.booleans()),
        "wait_for_tail_credit": draw(st.booleans()),
    }
    used = {keys["vc_allocator"], keys["sw_allocator"]}
    if "islip" in used:
        keys["alloc_iters"] = draw(st.integers(1, 3))
    if used != {"islip"}:
        keys["arb_type"] = draw(st.sampled_from(["round_robin", "matrix"]))
    return keys


def packet_lists(nodes: int, classes: int) -> st.SearchStrategy[list[Packet]]:
    node = st.integers(0, nodes - 1)
    one = st.builds(Packet, st.integers(0, 40), node, node, st.integers(1, 6), st.integers(0, classes - 1))
    return st.lists(one, min_size=1, max_size=60)


def reference_arguments(pipeline: dict[str, int]) -> dict[str, int]:
    return {
        "vcs": pipeline["num_vcs"],
        "buffer_flits": pipeline["vc_buf_size"],
        "routing_delay": pipeline["routing_delay"],
        "vc_alloc_delay": pipeline["vc_alloc_delay"],
        "sw_alloc_delay": pipeline["sw_alloc_delay"],
        "traversal": pipeline["st_final_delay"],
        "credit_delay": pipeline["credit_delay"],
    }


def allocation_arguments(keys: dict[str, Any]) -> dict[str, Any]:
    taken = ("vc_allocator", "sw_allocator", "alloc_iters", "speculative", "wait_for_tail_credit")
    return {
        **{key: keys[key] for key in taken if key in keys},
        "matrix": keys.get("arb_type") == "matrix",
        "oldest_first": keys["priority"] == "age",
    }


def frame_of(packets: list[Packet]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "create_cycle": [p.create for p in packets],
            "src": [p.source for p in packets],
            "dst": [p.dest for p in packets],
            "size_flits": [p.size for p in packets],
            "message_class": [p.message_class for p in packets],
        }
    )


def assert_same(config: dict[str, Any], model: Reference, packets: list[Packet]) -> None:
    out = Network(config).run_packets(frame_of(packets))
    model.run(packets)
    assert out["inject_cycle"].tolist() == [p.inject for p in packets]
    assert out["eject_cycle"].tolist() == [p.eject for p in packets]
    assert out["hops"].tolist() == [p.hops for p in packets]
    terms = ["source_queueing", "router", "link", "serialisation", "contention"]
    assert (out[[f"{t}_cycles" for t in terms]].sum(axis=1) == out["packet_latency_cycles"]).all()
    assert (out["contention_cycles"] >= 0).all()


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_mesh(data: st.DataObject) -> None:
    pipeline = data.draw(pipelines())
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    latencies = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=2))[: len(shape)]
    depth = data.draw(st.integers(1, 9))
    nodes = 1
    for k in shape:
        nodes *= k
    packets = data.draw(packet_lists(nodes, 1))
    config = {
        **pipeline,
        "topology": {"kind": "mesh", "shape": shape},
        "link_latency": latencies,
        "link_buffer_flits": depth,
    }
    model = Reference(**mesh(shape, latencies, depth), **reference_arguments(pipeline))  # type: ignore[arg-type]
    assert_same(config, model, packets)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_allocators_speculation_and_tail_credits(data: st.DataObject) -> None:
    keys = data.draw(allocations())
    pipeline = data.draw(pipelines())
    if keys["speculative"]:
        pipeline["vc_alloc_delay"] = min(pipeline["vc_alloc_delay"], pipeline["sw_alloc_delay"])
    split = data.draw(st.sampled_from([None, [[0], [1, 2, 3]]]))
    if split is not None:
        pipeline["num_vcs"] = 4
    packets = data.draw(packet_lists(6, 1 if split is None else 2))
    config: dict[str, Any] = {**pipeline, **keys, "topology": {"kind": "mesh", "shape": [3, 2]}}
    if split is not None:
        config["classes"] = {f"c{i}": {"vcs": vcs} for i, vcs in enumerate(split)}
    model = Reference(
        **mesh([3, 2], [1, 1], pipeline["vc_buf_size"]),  # type: ignore[arg-type]
        **reference_arguments(pipeline),
        **allocation_arguments(keys),
        class_vcs=split,
    )
    assert_same(config, model, packets)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_message_classes(data: st.DataObject) -> None:
    pipeline = {**data.draw(pipelines()), "num_vcs": 4}
    split = data.draw(st.sampled_from([[[0, 1], [2, 3]], [[3], [0, 1, 2]], [[0], [1], [2, 3]]]))
    priorities = data.draw(st.lists(st.integers(0, 2), min_size=len(split), max_size=len(split)))
    packets = data.draw(packet_lists(6, len(split)))
    config = {
        **pipeline,
        "topology": {"kind": "mesh", "shape": [3, 2]},
        "classes": {f"c{i}": {"vcs": vcs, "priority": priorities[i]} for i, vcs in enumerate(split)},
    }
    model = Reference(
        **mesh([3, 2], [1, 1], pipeline["vc_buf_size"]),  # type: ignore[arg-type]
        **reference_arguments(pipeline),
        class_vcs=split,
        priorities=priorities,
    )
    assert_same(config, model, packets)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_graph_with_parallel_links_and_shared_routers(data: st.DataObject) -> None:
    """A line of routers 0-1-2 with two parallel links between 0 and 1, two nodes on router 2, own latencies."""
    pipeline = data.draw(pipelines())
    latencies = data.draw(st.lists(st.integers(1, 12), min_size=3, max_size=3))
    depths = data.draw(st.lists(st.integers(1, 12), min_size=3, max_size=3))
    packets = data.draw(packet_lists(4, 1))
    ends = [(0, 1), (0, 1), (1, 2)]
    links = [
        {"between": list(pair), "latency": latency, "buffer_flits": depth}
        for pair, latency, depth in zip(ends, latencies, depths, strict=True)
    ]
    # nodes 0 on router 0, 1 on router 1, 2 and 3 on router 2; node 3 uses the second of the parallel links
    table = [
        {"router": 0, "destination": 1, "next_router": 1},
        {"router": 0, "destination": 2, "next_router": 1},
        {"router": 0, "destination": 3, "next_router": 1, "link": 1},
        {"router": 1, "destination": 0, "next_router": 0, "link": 1},
        {"router": 1, "destination": 2, "next_router": 2},
        {"router": 1, "destination": 3, "next_router": 2},
        {"router": 2, "destination": 0, "next_router": 1},
        {"router": 2, "destination": 1, "next_router": 1},
    ]
    config = {
        **pipeline,
        "topology": {"kind": "graph", "routers": 3, "links": links, "nodes": [0, 1, 2, 2]},
        "routing": {"table": table},
    }
    # ports in the order of the links: router 0: 0, 1, node 2; router 1: 0, 1 (to 0), 2 (to 2), node 3; router 2: ...
    places = [(0, 2), (1, 3), (2, 1), (2, 2)]
    wires = []
    for (a, pa, b, pb), latency, depth in zip(
        [(0, 0, 1, 0), (0, 1, 1, 1), (1, 2, 2, 0)], latencies, depths, strict=True
    ):
        wires += [Link(a, pa, b, pb, latency, depth), Link(b, pb, a, pa, latency, depth)]
    routes = {
        (0, 0): 2, (0, 1): 0, (0, 2): 0, (0, 3): 1,
        (1, 0): 1, (1, 1): 3, (1, 2): 2, (1, 3): 2,
        (2, 0): 0, (2, 1): 0, (2, 2): 1, (2, 3): 2,
    }  # fmt: skip
    model = Reference(3, 4, wires, places, lambda r, d: routes[r, d], **reference_arguments(pipeline))
    assert_same(config, model, packets)


def test_the_reference_model_sees_a_wrong_schedule() -> None:
    """The comparison can fail: another credit delay gives other cycles."""
    packets = [Packet(0, 0, 3, 9) for _ in range(8)]
    config = {"topology": {"kind": "mesh", "shape": [4]}, "num_vcs": 1, "vc_buf_size": 2, "credit_delay": 2}
    out = Network(config).run_packets(frame_of(packets))
    model = Reference(**mesh([4], [1], 2), vcs=1, buffer_flits=2, credit_delay=1)  # type: ignore[arg-type]
    model.run(packets)
    with pytest.raises(AssertionError):
        assert out["eject_cycle"].tolist() == [p.eject for p in packets]
