"""Throughput laws: the credit loop, the bubble between packets of a VC, one flit per port and cycle."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.noc import Network


def back_to_back(packets: int, size_flits: int, src: int = 0, dst: int = 1) -> pd.DataFrame:
    return pd.DataFrame({"create_cycle": [0] * packets, "src": src, "dst": dst, "size_flits": size_flits})


@given(
    buffer=st.integers(1, 12),
    latency=st.integers(1, 4),
    credit_delay=st.integers(0, 3),
    traversal=st.integers(1, 3),
    size=st.integers(1, 120),
)
def test_credit_loop(buffer: int, latency: int, credit_delay: int, traversal: int, size: int) -> None:
    """A slot is reused X + 2L + 2 + credit_delay cycles after it was taken (BookSim2 measured: 6, 5 and 8)."""
    net = Network(
        {
            "topology": {"kind": "mesh", "shape": [2]},
            "num_vcs": 1,
            "vc_buf_size": 64,  # source and ejection buffers never limit
            "link_buffer_flits": buffer,
            "link_latency": latency,
            "credit_delay": credit_delay,
            "st_final_delay": traversal,
        }
    )
    loop = traversal + 2 * latency + 2 + credit_delay
    stalls = max(0, loop - buffer) * ((size - 1) // buffer)
    out = net.run_packets(back_to_back(1, size))
    # the first `buffer` flits of the second router wait for the head's routing and VC allocation
    head_wait = 2
    expected = net.zero_load_latency_cycles(2, latency, size)
    latency_cycles = int(out["network_latency_cycles"].iloc[0])
    assert expected + stalls <= latency_cycles <= expected + stalls + head_wait * ((size - 1) // buffer > 0)


@pytest.mark.parametrize(("routing", "allocation"), [(1, 1), (0, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 16])
def test_one_vc_serves_a_packet_every_n_plus_r_plus_v_cycles(size: int, routing: int, allocation: int) -> None:
    """BookSim2 measured n / (n + R + V): 0.3333, 0.5, 0.6, 0.6667, 0.714, 0.8, 0.889 for R = V = 1."""
    net = Network(
        {
            "topology": {"kind": "mesh", "shape": [2]},
            "num_vcs": 1,
            "vc_buf_size": 64,
            "routing_delay": routing,
            "vc_alloc_delay": allocation,
        }
    )
    out = net.run_packets(back_to_back(60, size))
    periods = set(out["eject_cycle"].diff().iloc[20:])
    assert periods == {size + routing + allocation}


@pytest.mark.parametrize(("size", "period"), [(1, 9), (4, 12), (16, 24)])
def test_a_vc_that_waits_for_its_tail_credit(size: int, period: int) -> None:
    """BookSim2 measured 0.111, 0.333 and 0.667 flits a cycle: n / (n + R + V + credit loop), here R + V = 2, loop 6."""
    config = {"topology": {"kind": "mesh", "shape": [2]}, "num_vcs": 1, "vc_buf_size": 16, "wait_for_tail_credit": True}
    out = Network(config).run_packets(back_to_back(40, size))
    assert set(out["eject_cycle"].diff().iloc[20:]) == {period}


def test_ejection_takes_one_flit_per_cycle() -> None:
    net = Network({"topology": {"kind": "mesh", "shape": [4, 4]}})
    frame = pd.concat([back_to_back(20, 3, src=s, dst=5) for s in range(16)], ignore_index=True)
    result = net.packet_run(frame)
    ejection = result.links.query("kind == 'ejection' and to == 5")
    assert ejection["flits"].sum() == 16 * 20 * 3
    # 960 flits over one port; it is never idle once the first flit has come
    first = 7
    assert result.makespan_cycles >= first + 16 * 20 * 3 - 1
    assert result.makespan_cycles <= first + 16 * 20 * 3 + 8


def test_parallel_vcs_fill_a_link() -> None:
    """Four VCs hide the bubble between one-flit packets: the injection port sends a flit in every cycle."""
    out = Network({"topology": {"kind": "mesh", "shape": [2]}, "num_vcs": 4}).run_packets(back_to_back(400, 1))
    assert set(out["eject_cycle"].diff().iloc[100:]) == {1}


def test_a_node_sends_one_flit_per_cycle_over_all_classes() -> None:
    config = {
        "topology": {"kind": "mesh", "shape": [2]},
        "classes": {"token": {"vcs": [0, 1], "priority": 1}, "weight": {"vcs": [2, 3]}},
    }
    frame = pd.concat(
        [back_to_back(30, 4).assign(message_class=name) for name in ("weight", "token")], ignore_index=True
    )
    out = Network(config).run_packets(frame)
    token, weight = (out[out["message_class"] == name] for name in ("token", "weight"))
    assert out["eject_cycle"].max() >= 7 + 2 * 30 * 4
    # the class of higher priority is not slowed down by the other one
    alone = Network(config).run_packets(frame[frame["message_class"] == "token"])
    assert token["inject_cycle"].tolist() == alone["inject_cycle"].tolist()
    assert weight["eject_cycle"].max() > token["eject_cycle"].max()
