"""Sessions of links: the core against the slow model, hand-worked times, disjoint links, bounds, refusals."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_checks import check_fault_is_reported, check_terms, draw_pipeline
from reference_multicast import Multicast
from reference_router import mesh
from reference_sessions import REFUSED, SessionReference

from cosim.config.errors import ConfigErrors
from cosim.noc import Network

CLASSES: dict[str, Any] = {"packets": {"vcs": [0, 1]}, "cmn": {"session": True}}
TERMS = ["source_queueing", "router", "link", "serialisation", "contention", "session_wait"]
COSTS = {"setup_cycles": 3, "teardown_cycles": 2, "segment_delay": 1, "max_session_cycles": 200}


def config(shape: list[int], sessions: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    costs = {**COSTS, **(sessions or {})}
    return {"topology": {"kind": "mesh", "shape": shape}, "num_vcs": 2, "classes": CLASSES, "sessions": costs, **keys}


def frame_of(rows: list[tuple[int, int, Any, int, str]]) -> pd.DataFrame:
    """Rows (create, src, dst or list of nodes, size, class)."""
    sets = [list(to) if not isinstance(to, int) else None for _, _, to, _, _ in rows]
    return pd.DataFrame(
        {
            "create_cycle": [row[0] for row in rows],
            "src": [row[1] for row in rows],
            "dst": [row[2] if isinstance(row[2], int) else -1 for row in rows],
            "size_flits": [row[3] for row in rows],
            "message_class": [row[4] for row in rows],
            "dst_set": pd.Series(sets, dtype=object),
        }
    )


def check_laws(result: Any, longest: int) -> None:
    """Terms add up, sessions that overlap in time share nothing, none holds its links too long, flits are conserved."""
    for frame in (result.packets[result.packets["eject_cycle"] >= 0], result.deliveries):
        check_terms(frame, TERMS)
    sessions = result.sessions.to_dict("records")
    for s in sessions:
        assert s["ask_cycle"] <= s["grant_cycle"] <= s["detach_cycle"] <= s["return_cycle"]
        assert s["return_cycle"] - s["detach_cycle"] <= longest
    for a, b in combinations(sessions, 2):
        if a["grant_cycle"] <= b["return_cycle"] and b["grant_cycle"] <= a["return_cycle"]:
            assert not set(a["links"]) & set(b["links"])
            assert not set(a["dst_set"]) & set(b["dst_set"])
            assert a["source"] != b["source"]
    streamed = result.deliveries.groupby("row").size() if len(result.deliveries) else pd.Series(dtype=int)
    rows = result.packets
    for row, nodes in streamed.items():
        assert nodes == len(rows["dst_set"].iloc[row])
    cmn = rows[(rows["message_class"] == "cmn") & (rows["eject_cycle"] >= 0)]
    assert sum(s["flits"] for s in sessions) == cmn["size_flits"].sum()


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_every_packet_is_that_of_the_slow_model(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([[3], [2, 2], [3, 2], [3, 3]]))
    nodes = int(np.prod(shape))
    node = st.integers(0, nodes - 1)
    pipeline = draw_pipeline(data, most_credit_delay=1)
    latency = data.draw(st.integers(1, 3))
    costs = {
        "setup_cycles": data.draw(st.integers(0, 4)),
        "teardown_cycles": data.draw(st.integers(0, 3)),
        "segment_delay": data.draw(st.integers(0, 2)),
        "max_session_cycles": data.draw(st.integers(40, 60)),
        "idle_cycles": data.draw(st.sampled_from([0, 0, 5])),
        "max_waiting": data.draw(st.sampled_from([None, None, 0, 1])),
    }
    rows = []
    for _ in range(data.draw(st.integers(1, 30))):
        kind = data.draw(st.sampled_from(["packets", "packets", "multicast", "cmn"]))
        dests = data.draw(node) if kind == "packets" else sorted(data.draw(st.sets(node, min_size=1, max_size=nodes)))
        size = data.draw(st.integers(1, 4 if kind != "cmn" else 12))
        rows.append((data.draw(st.integers(0, 60)), data.draw(node), dests, size, kind))
    classes = {"packets": {"vcs": [0]}, "multicast": {"vcs": [1], "multicast": True}, "cmn": {"session": True}}
    keys: dict[str, Any] = {"classes": classes, "vc_buf_size": 4, "link_latency": latency, **pipeline}
    result = Network(config(shape, costs, **keys)).packet_run(frame_of(rows))
    check_laws(result, costs["max_session_cycles"])

    numbers = {name: i for i, name in enumerate(classes)}
    packets = [
        Multicast(create, source, -1, size, numbers[kind], dests=(to,) if isinstance(to, int) else tuple(to))
        for create, source, to, size, kind in rows
    ]
    model = SessionReference(
        **mesh(shape, [latency] * len(shape), 4),  # type: ignore[arg-type]
        vcs=2, buffer_flits=4, class_vcs=[[0], [1], []], **pipeline,
    )  # fmt: skip
    model.multicast_vcs, model.session_class = (1,), 2
    model.setup, model.teardown = costs["setup_cycles"], costs["teardown_cycles"]
    model.segment, model.longest = costs["segment_delay"], costs["max_session_cycles"]
    model.idle, model.max_waiting = costs["idle_cycles"], costs["max_waiting"]
    model.run(packets)
    expected = [-1 if p.eject == REFUSED else p.eject for p in packets]
    assert result.packets["eject_cycle"].tolist() == expected
    assert result.packets["inject_cycle"].tolist() == [p.inject for p in packets]
    sent = result.packets["eject_cycle"] >= 0
    waits = [model.waits[i] for i in range(len(packets)) if sent.iloc[i]]
    assert result.packets["session_wait_cycles"][sent].tolist() == waits
    reached = [
        (row, dest, *p.reached[dest])
        for row, p in enumerate(packets)
        if p.message_class != 0 and p.eject != REFUSED
        for dest in p.dests
    ]
    columns = result.deliveries[["row", "dst", "eject_cycle", "hops"]]
    assert [tuple(row) for row in columns.to_numpy().tolist()] == reached
    ended = [(s.node, s.asked, s.granted, s.detached, s.ends_at, len(s.sent), s.flits) for s in model.ended]
    names = ["source", "ask_cycle", "grant_cycle", "detach_cycle", "return_cycle", "packets", "flits"]
    found = [tuple(row) for row in result.sessions[names].to_numpy().tolist()]
    # the model stops with the last arrival, when some sessions have not returned their links yet
    assert set(ended) <= set(found)
    assert len(found) == len(ended) + len(model.running)


def test_a_session_in_an_empty_network_by_hand() -> None:
    """Node 0 of a row of four streams 10 flits to nodes 1 and 3 over links of two cycles.

    The links are empty at 5, set-up takes 3: flits leave in 8 to 17. Node 3 is 4 routers of 1 cycle and 3 links away:
    17 + 4 + 6 + 3 = 30; node 1: 17 + 2 + 2 + 3 = 24. Tear-down: the links return at 32.
    """
    result = Network(config([4], link_latency=2)).packet_run(frame_of([(5, 0, [1, 3], 10, "cmn")]))
    assert result.deliveries[["dst", "inject_cycle", "eject_cycle", "hops"]].to_numpy().tolist() == [
        [1, 8, 24, 2],
        [3, 8, 30, 4],
    ]
    terms = result.deliveries[[f"{term}_cycles" for term in TERMS]].to_numpy().tolist()
    assert terms == [[0, 2, 5, 9, 0, 3], [0, 4, 9, 9, 0, 3]]
    session = result.sessions.iloc[0]
    assert session[["ask_cycle", "grant_cycle", "detach_cycle", "return_cycle", "packets", "flits"]].tolist() == [
        5, 5, 5, 32, 1, 10,
    ]  # fmt: skip
    assert session["links"] == Network(config([4])).session_links(0, [1, 3]) == [(0, 0), (1, 0), (2, 0)]
    links = result.links[result.links["session_flits"] > 0]
    assert links[["router", "session_flits", "detached_cycles"]].to_numpy().tolist() == [[r, 10, 27] for r in (0, 1, 2)]
    assert result.session_flit_hops == 10 * (3 + 2)
    assert result.flit_hops == 0


def test_packets_drain_first_and_wait_at_their_source_by_hand() -> None:
    """Three routers in a row, links of one cycle. Packet A, 0 -> 2, four flits, leaves at 0; B, 0 -> 2, waits.

    A's head enters router 0 at 2, wins its switch at 4, is sent at 5 (S - 1 + X = 1) and is at router 1 at 7; its tail
    wins at 7 and at router 1 at 12 (head there 7, wins at 9, tail at 12), sent at 13, off the last link at 15. The
    session asked at 1, its links are empty at 15, flits leave in 18 to 22, node 2 reads the last at 22 + 3 + 2 + 3 = 30
    and the links return at 32. B, held since 4, when it became the first, leaves at 32.
    """
    rows = [(0, 0, 2, 4, "packets"), (0, 0, 2, 1, "packets"), (1, 0, [2], 5, "cmn"), (4, 2, 0, 1, "packets")]
    result = Network(config([3])).packet_run(frame_of(rows))
    assert result.packets["inject_cycle"].tolist() == [0, 32, 18, 4]
    assert result.sessions[["ask_cycle", "grant_cycle", "detach_cycle", "return_cycle"]].to_numpy().tolist() == [
        [1, 1, 15, 32]
    ]
    assert result.packets["eject_cycle"].tolist()[2] == 30
    assert result.packets["session_wait_cycles"].tolist() == [0, 28, 17, 0]
    assert result.packets["source_queueing_cycles"].tolist() == [0, 4, 0, 0]
    # the way back is another link: the last packet is not held
    assert result.packets["packet_latency_cycles"].iloc[3] == 3 * 4 + 2 + 3


def test_a_source_streams_on_and_returns_its_links_in_time() -> None:
    """Ten packets of 10 flits at once: as many as fit `max_session_cycles` share a session, then others may use it."""
    rows = [(0, 0, [1], 10, "cmn") for _ in range(10)]
    network = Network(config([2], {"max_session_cycles": 50}))
    result = network.packet_run(frame_of(rows))
    # set-up 3, way 2 + 1 + 3 = 6, tear-down 2: four packets: 3 + 39 + 6 + 2 = 50
    assert result.sessions["packets"].tolist() == [4, 4, 2]
    assert result.sessions["return_cycle"].tolist() == [50, 101, 132]
    assert result.sessions["ask_cycle"].tolist() == [0, 51, 102]
    inject = [*range(3, 43, 10), *range(54, 94, 10), 105, 115]
    assert result.packets["inject_cycle"].tolist() == inject
    check_laws(result, 50)


def test_an_idle_session_waits_for_the_next_packet() -> None:
    rows = [(0, 0, [1], 4, "cmn"), (12, 0, [1], 4, "cmn")]
    kept = Network(config([2], {"idle_cycles": 6})).packet_run(frame_of(rows))
    assert kept.packets["inject_cycle"].tolist() == [3, 12]
    assert len(kept.sessions) == 1
    gone = Network(config([2], {"idle_cycles": 4})).packet_run(frame_of(rows))
    # the first leaves in 3 to 6 and is read at 12; free until 7 + 4 = 11: back at 14; the next asks at 15
    assert gone.sessions["return_cycle"].tolist()[0] == 14
    assert gone.packets["inject_cycle"].tolist() == [3, 18]


def test_disjoint_sessions_run_at_once_and_an_earlier_one_is_not_overtaken() -> None:
    """On a row of six, 0-1 runs; 0-2's second session and 2-4 want what others have; 4-5 is free."""
    rows = [(0, 0, [2], 20, "cmn"), (1, 1, [3], 20, "cmn"), (2, 2, [4], 20, "cmn"), (3, 4, [5], 20, "cmn")]
    result = Network(config([6])).packet_run(frame_of(rows))
    by_source = result.sessions.set_index("source")["grant_cycle"]
    back = result.sessions.set_index("source")["return_cycle"]
    assert by_source[0] == 0
    assert by_source[4] == 3
    assert by_source[1] == back[0] + 1
    # 2-4 clashes with 1-3, which waits before it, on the link 2-3
    assert by_source[2] == back[1] + 1
    check_laws(result, 200)


def test_what_may_not_wait_is_refused_and_counted() -> None:
    rows = [(0, 0, [3], 20, "cmn"), (1, 1, [2], 5, "cmn"), (2, 1, [3], 5, "cmn"), (90, 1, [3], 5, "cmn")]
    result = Network(config([4], {"max_waiting": 0})).packet_run(frame_of(rows))
    assert result.refused_packets == 2
    assert result.packets["eject_cycle"].tolist()[1:3] == [-1, -1]
    assert result.packets["packet_latency_cycles"].tolist()[1:3] == [-1, -1]
    assert (result.packets["eject_cycle"].iloc[[0, 3]] > 0).all()
    queued = Network(config([4], {"max_waiting": 1})).packet_run(frame_of(rows))
    assert queued.refused_packets == 0


def test_packets_pass_between_two_sessions() -> None:
    """Sessions of two sources ask for one link again and again; every held packet leaves between two of them."""
    rows: list[tuple[int, int, Any, int, str]] = [(0, source, [2], 10, "cmn") for source in (0, 1) for _ in range(6)]
    rows += [(1, 1, 2, 1, "packets") for _ in range(6)]
    result = Network(config([3], {"max_session_cycles": 29})).packet_run(frame_of(rows))
    sessions = result.sessions["return_cycle"].tolist()
    packets = result.packets[result.packets["message_class"] == "packets"]["inject_cycle"].tolist()
    assert len(sessions) == 12
    assert packets == sessions[:6]


def test_a_network_without_sessions_is_what_it_was() -> None:
    """A session class that nothing uses changes no packet."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "create_cycle": np.sort(rng.integers(0, 200, 300)),
            "src": rng.integers(0, 9, 300),
            "dst": rng.integers(0, 9, 300),
            "size_flits": rng.integers(1, 5, 300),
        }
    )
    plain = Network({"topology": {"kind": "mesh", "shape": [3, 3]}, "num_vcs": 2}).run_packets(frame)
    beside = Network(config([3, 3])).run_packets(frame.assign(message_class="packets"))
    pd.testing.assert_frame_equal(plain, beside.drop(columns="message_class"))


FAULTY_RUN = """
import pandas as pd
from cosim.noc import Network

classes = {"packets": {"vcs": [0]}, "cmn": {"session": True}}
network = Network({"topology": {"kind": "mesh", "shape": [4, 4]}, "num_vcs": 1, "classes": classes})
rows = [(i, i % 16, [(i + 5) % 16, (i + 10) % 16], 20) for i in range(60)]
frame = pd.DataFrame(rows, columns=["create_cycle", "src", "dst_set", "size_flits"])
network.run_packets(frame.assign(message_class="cmn"))
print("finished")
"""


@pytest.mark.faults
@pytest.mark.parametrize(("fault", "says"), [("share_link", "to two sessions"), ("lose_flit", "flits of sessions")])
def test_a_broken_law_of_sessions_is_reported(fault: str, says: str) -> None:
    check_fault_is_reported(FAULTY_RUN, fault, says)


def refusal(rows: list[tuple[int, int, Any, int, str]], **keys: Any) -> str:
    with pytest.raises(ConfigErrors) as caught:
        Network(config([3], **keys)).run_packets(frame_of(rows))
    return str(caught.value)


def test_refusals_name_what_is_wrong() -> None:
    assert "at most 188 flits, what sessions.max_session_cycles leaves" in refusal([(0, 0, [2], 189, "cmn")])
    assert "at most 0 flits" in refusal([(0, 0, [2], 1, "cmn")], sessions={"max_session_cycles": 9})
    assert "a list of nodes for a row of the session class cmn" in refusal([(0, 0, 2, 1, "cmn")])
    assert "'cmn' for a row with a dst_set" in refusal([(0, 0, [2], 1, "packets")])
    with pytest.raises(ConfigErrors, match="no VC: a session class uses none"):
        Network(config([3], classes={"p": {"vcs": [0]}, "c": {"session": True, "vcs": [1]}}))
    with pytest.raises(ConfigErrors, match="one of multicast and session"):
        Network(config([3], classes={"p": {"vcs": [0]}, "c": {"session": True, "multicast": True}}))
    with pytest.raises(ConfigErrors, match="a class of packets beside session classes"):
        Network(config([3], classes={"c": {"session": True}}))
    with pytest.raises(ConfigErrors, match="a class with `session: true`"):
        Network(config([3], classes={"p": {"vcs": [0]}}))
    with pytest.raises(ConfigErrors, match="one way per router"):
        Network(config([3, 3], routing="west_first"))
    with pytest.raises(ConfigErrors, match="compat none"):
        Network(config([3], compat="booksim2"))
    with pytest.raises(ConfigErrors, match="sessions are for lists of packets"):
        Network(config([3])).run_traffic("uniform", injection_rate=0.1, message_class="cmn")
    with pytest.raises(ValueError, match="names node 1 twice"):
        Network(config([3])).session_links(0, [1, 1])
