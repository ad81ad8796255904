"""Conservation of flits and credits, deadlock, determinism, saving and loading, and that broken laws are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_checks import check_fault_is_reported, core_network

from cosim import _core
from cosim.noc import DeadlockError, Network

MESH = {"topology": {"kind": "mesh", "shape": [4, 3]}, "num_vcs": 2, "vc_buf_size": 3}


def random_packets(seed: int, packets: int, nodes: int, last_cycle: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    draw = np.random.default_rng(seed)
    create = np.sort(draw.integers(0, last_cycle, packets))
    ends = draw.integers(0, nodes, (packets, 2))
    size = draw.integers(1, 6, packets)
    return np.column_stack([create, ends, size, np.zeros(packets, dtype=np.int64)])


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_flits_and_credits_are_conserved_in_every_cycle(seed: int) -> None:
    net = core_network(MESH)
    net.offer(random_packets(seed, 80, 12, 60))
    while (cycle := net.next_event()) != _core.NO_EVENT:
        net.step(cycle)
        assert net.verify_conservation() == ""
    assert net.idle
    assert len(net.take_arrivals()) == 80
    assert len(net.take_departures()) == 80


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), stop=st.integers(1, 80))
def test_a_saved_network_continues_identically(seed: int, stop: int) -> None:
    packets = random_packets(seed, 60, 12, 60)
    whole, first, second = core_network(MESH), core_network(MESH), core_network(MESH)
    for net in (whole, first):
        net.offer(packets)
    whole.run(_core.NO_EVENT)
    first.run(stop)
    state = first.save()
    second.load(state)
    assert second.save() == state
    for net in (first, second):
        net.run(_core.NO_EVENT)
        assert net.take_arrivals().tolist() == whole.take_arrivals().tolist() or net is second
    # both copies end in the same state, and their arrivals are those of the uninterrupted run
    assert first.save() == second.save()
    assert first.connected_counters().tolist() == whole.connected_counters().tolist()


def test_offers_during_a_run_equal_offers_before_it() -> None:
    packets = random_packets(5, 100, 12, 200)
    before, during = core_network(MESH), core_network(MESH)
    before.offer(packets)
    before.run(_core.NO_EVENT)
    for i, row in enumerate(packets):
        during.run(int(row[0]))
        during.offer(row.reshape(1, 5), i)
    during.run(_core.NO_EVENT)
    assert during.take_arrivals().tolist() == before.take_arrivals().tolist()


def test_an_offer_in_the_past_is_refused() -> None:
    net = core_network(MESH)
    net.offer(np.array([[0, 0, 1, 1, 0]]))
    net.run(_core.NO_EVENT)
    with pytest.raises(ValueError, match="create_cycle 3 is not after the last step"):
        net.offer(np.array([[3, 0, 1, 1, 0]]))


def test_time_may_pass_two_to_the_thirty() -> None:
    """Stamps are rebased: late packets see the same latencies as early ones."""
    early = random_packets(9, 50, 12, 40)
    net = Network(MESH)
    columns = ["create_cycle", "src", "dst", "size_flits"]
    late = early.copy()
    late[:, 0] += 3 * 2**33 + 7
    frame = pd.DataFrame(np.vstack([early, late])[:, :4], columns=columns)
    out = net.run_packets(frame)
    latencies = out["packet_latency_cycles"].to_numpy()
    assert latencies[:50].tolist() == net.run_packets(frame.iloc[:50])["packet_latency_cycles"].tolist()
    # the allocators' pointers differ, so single packets may, but nothing hangs or drifts
    assert abs(latencies[:50].mean() - latencies[50:].mean()) < 5


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = [
        Network(MESH).run_traffic("uniform", injection_rate=0.2, packet_size_flits=3, measure_cycles=2000, seed=seed)
        for seed in (7, 7, 8)
    ]
    apart = ("links", "link_counters", "core_bytes")
    same, again, other = ({k: v for k, v in vars(r).items() if k not in apart} for r in runs)
    assert same == again
    pd.testing.assert_frame_equal(runs[0].links, runs[1].links)
    assert same != other


def ring_of_one_vc() -> Network:
    """Four routers in a one-way ring, every packet goes three hops: a cycle of channels and one VC."""
    links = [{"from": i, "to": (i + 1) % 4} for i in range(4)]
    table = [{"router": r, "destination": n, "next_router": (r + 1) % 4} for r in range(4) for n in range(4) if r != n]
    return Network(
        {
            "topology": {"kind": "graph", "routers": 4, "links": links},
            "routing": {"table": table},
            "num_vcs": 1,
            "vc_buf_size": 4,
        }
    )


def test_a_deadlock_is_an_error_that_names_the_cycle() -> None:
    frame = pd.DataFrame(
        [(0, s, (s + 3) % 4, 16) for s in range(4) for _ in range(3)],
        columns=["create_cycle", "src", "dst", "size_flits"],
    )
    with pytest.raises(DeadlockError) as caught:
        ring_of_one_vc().run_packets(frame)
    text = str(caught.value)
    assert "cycle of " in text
    for router in range(4):
        assert f"router {router} input port" in text
    assert "waits for" in text


def test_the_same_ring_without_a_cycle_of_waits_runs() -> None:
    frame = pd.DataFrame(
        [(0, s, (s + 1) % 4, 16) for s in range(4) for _ in range(3)],
        columns=["create_cycle", "src", "dst", "size_flits"],
    )
    assert (ring_of_one_vc().run_packets(frame)["hops"] == 2).all()


def test_synthetic_traffic_finds_the_deadlock_too() -> None:
    with pytest.raises(DeadlockError, match="cycle of"):
        ring_of_one_vc().run_traffic(
            {"kind": "uniform"}, injection_rate=0.9, packet_size_flits=8, warmup_cycles=0, measure_cycles=3000,
            max_drain_cycles=0,
        )  # fmt: skip


STALLS = ["no_credit_cycles", "lost_switch_cycles", "busy_vc_cycles", "lost_vc_cycles"]


@pytest.mark.parametrize("later", [1, 2, 3, 4])
def test_a_wait_for_an_owned_vc_is_booked_at_its_output(later: int) -> None:
    """One VC: node 0's packet reaches router 1 while node 1's owns the way to router 2."""
    net = Network({"topology": {"kind": "mesh", "shape": [3]}, "num_vcs": 1, "vc_buf_size": 8})
    frame = pd.DataFrame({"create_cycle": [0, later], "src": [0, 1], "dst": [2, 2], "size_flits": [4, 4]})
    result = net.packet_run(frame)
    waits = result.links.set_index(["router", "to", "kind"])[STALLS]
    assert waits.loc[(1, 2, "link")].to_dict() == dict(zip(STALLS, [0, 0, later, 0], strict=True))
    assert waits.sum().sum() == later
    # one cycle more: at router 2 it is routed only when the packet ahead of it in its VC has left
    assert result.packets["contention_cycles"].tolist() == [later + 1, 0]


def test_waits_for_credits_and_switches_are_booked() -> None:
    net = Network({"topology": {"kind": "mesh", "shape": [3]}, "num_vcs": 1, "vc_buf_size": 8, "link_buffer_flits": 2})
    frame = pd.DataFrame({"create_cycle": [0], "src": [0], "dst": [1], "size_flits": [6]})
    waits = net.packet_run(frame).links.set_index(["router", "to", "kind"])[STALLS]
    # a slot returns after 6 cycles: flits 3 and 5 wait 4 cycles; the first also 2 for the head's routing and allocation
    assert waits.loc[(0, 1, "link")].to_dict() == dict(zip(STALLS, [10, 0, 0, 0], strict=True))
    two = Network({"topology": {"kind": "mesh", "shape": [3]}, "num_vcs": 2})
    frame = pd.DataFrame({"create_cycle": [0, 5], "src": [0, 1], "dst": [2, 2], "size_flits": [4, 4]})
    waits = two.packet_run(frame).links.set_index(["router", "to", "kind"])[STALLS].groupby(level=[0, 1, 2]).sum()
    # both own a VC of the link: two packets of four flits share it
    assert waits.loc[(1, 2, "link")]["lost_switch_cycles"] > 0
    assert waits["no_credit_cycles"].sum() == 0


FAULTY_RUN = """
from cosim.noc import Network
net = Network({"topology": {"kind": "mesh", "shape": [4, 4]}, "num_vcs": 2, "vc_buf_size": 4})
net.run_traffic("uniform", injection_rate=0.1, packet_size_flits=3, warmup_cycles=100, measure_cycles=500)
print("finished")
"""


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fault", "says"),
    [("lose_flit", "flits are lost"), ("drop_credit", "never returned")],
)
def test_a_broken_law_is_reported(fault: str, says: str) -> None:
    check_fault_is_reported(FAULTY_RUN, fault, says)
