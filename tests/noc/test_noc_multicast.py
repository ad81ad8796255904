"""Multicasts: the core against the slow model, their exact zero-load times, links and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_checks import check_fault_is_reported, check_terms, draw_pipeline, flits_sent
from reference_multicast import Multicast, MulticastReference
from reference_router import mesh

from cosim._core import DeadlockError
from cosim.config.errors import ConfigErrors
from cosim.noc import Network

CLASSES = {"unicast": {"vcs": [0]}, "multicast": {"vcs": [1], "multicast": True}}
TERMS = ["source_queueing", "router", "link", "serialisation", "contention"]


def config(shape: list[int], **keys: Any) -> dict[str, Any]:
    return {"topology": {"kind": "mesh", "shape": shape}, "num_vcs": 2, "classes": CLASSES, **keys}


def frame_of(packets: list[Multicast]) -> pd.DataFrame:
    """Packets of the multicast class by their sets, the others by their one node."""
    return pd.DataFrame(
        {
            "create_cycle": [p.create for p in packets],
            "src": [p.source for p in packets],
            "dst": [p.dests[0] if p.message_class == 0 else -1 for p in packets],
            "size_flits": [p.size for p in packets],
            "message_class": [p.message_class for p in packets],
            "dst_set": pd.Series([None if p.message_class == 0 else list(p.dests) for p in packets], dtype=object),
        }
    )


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_every_delivery_is_that_of_the_slow_model(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    nodes = int(np.prod(shape))
    depth, source_depth = data.draw(st.integers(3, 6)), data.draw(st.integers(3, 6))
    pipeline = draw_pipeline(data)
    # one VC for unicasts and two for multicasts, where the branches of both fit 64 lanes
    vcs = [[0], [1, 2]] if len(shape) == 1 else [[0], [1]]
    node = st.integers(0, nodes - 1)
    packets = []
    for _ in range(data.draw(st.integers(1, 40))):
        message_class = data.draw(st.integers(0, 1))
        most = nodes if message_class else 1
        dests = tuple(sorted(data.draw(st.sets(node, min_size=1, max_size=most))))
        packets.append(
            Multicast(
                data.draw(st.integers(0, 30)),
                data.draw(node),
                -1,
                data.draw(st.integers(1, 3)),
                message_class,
                dests=dests,
            )
        )
    buffers = {"vc_buf_size": source_depth, "link_buffer_flits": depth}
    classes = {"unicast": {"vcs": vcs[0]}, "multicast": {"vcs": vcs[1], "multicast": True}}
    keys: dict[str, Any] = {"num_vcs": sum(map(len, vcs)), "classes": classes, **buffers, **pipeline}
    network = Network({"topology": {"kind": "mesh", "shape": shape}, **keys})
    result = network.packet_run(frame_of(packets))

    model = MulticastReference(
        **mesh(shape, [1] * len(shape), depth),  # type: ignore[arg-type]
        vcs=sum(map(len, vcs)), buffer_flits=source_depth, class_vcs=vcs, **pipeline,
    )  # fmt: skip
    model.multicast_vcs = tuple(vcs[1])
    model.run(packets)  # type: ignore[arg-type]

    assert result.packets["inject_cycle"].tolist() == [p.inject for p in packets]
    assert result.packets["eject_cycle"].tolist() == [p.eject for p in packets]
    expected = [
        (row, dest, *p.reached[dest]) for row, p in enumerate(packets) if p.message_class == 1 for dest in p.dests
    ]
    columns = result.deliveries[["row", "dst", "eject_cycle", "hops"]]
    assert [tuple(row) for row in columns.to_numpy().tolist()] == expected
    for frame in (result.packets, result.deliveries):
        check_terms(frame, TERMS)
    assert flits_sent(result.links) == dict(model.link_flits)


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_a_set_of_one_node_is_a_unicast(data: st.DataObject) -> None:
    node = st.integers(0, 8)
    rows = data.draw(st.lists(st.tuples(st.integers(0, 20), node, node, st.integers(1, 5)), min_size=1, max_size=40))
    frame = pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits"])
    sets = frame.drop(columns="dst").assign(dst_set=pd.Series([[dst] for dst in frame["dst"]], dtype=object))
    keys = {"routing_delay": data.draw(st.integers(0, 2)), "vc_buf_size": 5}
    one = Network(config([3, 3], **keys)).packet_run(frame.assign(message_class="multicast"))
    other = Network(config([3, 3], **keys)).packet_run(sets.assign(message_class="multicast"))
    plain = {name: {**spec, "multicast": False} for name, spec in CLASSES.items()}
    third = Network(config([3, 3], **keys, classes=plain)).packet_run(frame.assign(message_class="multicast"))
    times = ["inject_cycle", "eject_cycle", "hops", *(f"{term}_cycles" for term in TERMS)]
    pd.testing.assert_frame_equal(one.packets[times], other.packets[times])
    pd.testing.assert_frame_equal(one.packets[times], third.packets[times])
    pd.testing.assert_frame_equal(one.links, other.links)
    pd.testing.assert_frame_equal(one.links, third.links)


def test_without_contention_every_node_is_reached_as_by_a_unicast_and_every_tree_edge_is_used_once() -> None:
    network = Network(config([4, 4], link_latency=2))
    for source in range(16):
        row = {"create_cycle": [0], "src": [source], "size_flits": [7], "message_class": ["multicast"]}
        result = network.packet_run(pd.DataFrame({**row, "dst_set": [list(range(16))]}))
        for _, delivery in result.deliveries.iterrows():
            hops = 1 + abs(source % 4 - delivery["dst"] % 4) + abs(source // 4 - delivery["dst"] // 4)
            assert delivery["hops"] == hops
            assert delivery["eject_cycle"] == network.zero_load_latency_cycles(hops, 2 * (hops - 1), 7)
        links = result.links[result.links["flits"] > 0]
        assert (links["flits"] == 7).all()
        assert links["kind"].value_counts().to_dict() == {"link": 15, "ejection": 16}
        assert result.packets["eject_cycle"].iloc[0] == result.deliveries["eject_cycle"].max()


ONE_WAY_RING = {
    "topology": {"kind": "ring", "routers": 4},
    "routing": {
        "table": [
            {"router": r, "destination": d, "next_router": (r + 1) % 4} for r in range(4) for d in range(4) if r != d
        ]
    },
    "num_vcs": 2,
    "vc_buf_size": 4,
    "classes": CLASSES,
}


def test_the_dependency_check_covers_the_multicast_class() -> None:
    assert Network(config([3, 3])).check_deadlock().deadlock_free
    check = Network(ONE_WAY_RING).check_deadlock()
    assert not check.deadlock_free
    assert check.cycle


def test_a_deadlock_among_branches_names_them() -> None:
    frame = pd.DataFrame({"create_cycle": 0, "src": [0, 1, 2, 3] * 6, "size_flits": 4, "message_class": "multicast"})
    frame["dst_set"] = pd.Series([[0, 1, 2, 3]] * len(frame))
    with pytest.raises(DeadlockError, match="cycle of 4 waiting VCs") as caught:
        Network(ONE_WAY_RING).run_packets(frame)
    assert "VC 1 branch to port 0 waits for a credit of output port 0 VC 1, held by router" in str(caught.value)


FAULTY_RUN = """
import pandas as pd
from cosim.noc import Network

classes = {"unicast": {"vcs": [0]}, "multicast": {"vcs": [1], "multicast": True}}
network = Network({"topology": {"kind": "mesh", "shape": [3, 3]}, "num_vcs": 2, "classes": classes})
frame = pd.DataFrame({"create_cycle": 0, "src": range(9), "size_flits": 4, "message_class": "multicast"})
frame["dst_set"] = pd.Series([list(range(9))] * 9)
network.run_packets(frame)
print("finished")
"""


@pytest.mark.faults
@pytest.mark.parametrize(("fault", "says"), [("lose_flit", "copied by branches"), ("drop_credit", "a credit of")])
def test_a_law_broken_among_branches_is_reported(fault: str, says: str) -> None:
    check_fault_is_reported(FAULTY_RUN, fault, says)


def refusal(frame: dict[str, Any], **keys: Any) -> str:
    base = {"create_cycle": [0], "src": [0], "size_flits": [1], "message_class": ["multicast"]}
    with pytest.raises(ConfigErrors) as caught:
        Network(config([3, 3], **keys)).run_packets(pd.DataFrame({**base, **frame}))
    return str(caught.value)


def test_refusals_name_what_is_wrong() -> None:
    text = refusal({"dst_set": [[1, 2]], "size_flits": [9]})
    assert "at most 8 flits" in text
    assert "9 in row 0" in text
    text = refusal({"dst_set": [[1, 2]], "message_class": ["unicast"]})
    assert "multicast" in text
    assert "unicast in row 0" in text
    assert "node 1 twice" in refusal({"dst_set": [[1, 1]]})
    assert "nodes from 0 to 8" in refusal({"dst_set": [[9]]})
    assert "an empty set" in refusal({"dst_set": [[]]})
    assert "-1 or nothing" in refusal({"dst_set": [[1, 2]], "dst": [3]})
    assert "there is no column 'dst'" in refusal({"dst_set": [None]})
    with pytest.raises(ConfigErrors, match="at most 128 are supported"):
        Network(config([3, 3], num_vcs=6, classes={"m": {"vcs": [0, 1, 2, 3, 4, 5], "multicast": True}}))
    with pytest.raises(ConfigErrors, match="one way per router"):
        Network(config([3, 3], routing="west_first"))
    with pytest.raises(ConfigErrors, match="compat none"):
        Network(config([3, 3], compat="booksim2"))


def test_routes_that_meet_again_are_no_tree() -> None:
    """A ring of four routers: node 3 is reached by routers 1 and 2, node 2 by router 3."""
    links = [{"between": [a, b]} for a, b in ((0, 1), (1, 2), (2, 3), (3, 0))]
    ways = {(0, 1): 1, (0, 2): 3, (0, 3): 1, (1, 3): 2, (2, 3): 3, (3, 2): 2}
    ways |= {(1, 0): 0, (2, 0): 1, (3, 0): 0, (1, 2): 2, (2, 1): 1, (3, 1): 0}
    table = [{"router": r, "destination": d, "next_router": way} for (r, d), way in ways.items()]
    graph = {"topology": {"kind": "graph", "routers": 4, "links": links}, "routing": {"table": table}, "num_vcs": 2}
    frame = {"create_cycle": [0], "src": [0], "size_flits": [1], "message_class": ["multicast"], "dst_set": [[2, 3]]}
    with pytest.raises(ConfigErrors, match="are no tree"):
        Network({**graph, "classes": CLASSES}).run_packets(pd.DataFrame(frame))
