"""Routers of more than 64 input VCs: schedules do not depend on how large a router is that holds them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_router import Packet, Reference, mesh
from test_noc_reference_model import (
    allocation_arguments,
    allocations,
    assert_same,
    frame_of,
    packet_lists,
    pipelines,
    reference_arguments,
)

from cosim.config.errors import ConfigErrors
from cosim.noc import Network

# 5 ports: 65, 80 and 125 input VCs
WIDE_VCS = st.sampled_from([13, 16, 25])


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_as_the_reference_model(data: st.DataObject) -> None:
    keys = data.draw(st.one_of(st.just({"priority": "none"}), allocations()))
    pipeline = {**data.draw(pipelines()), "num_vcs": data.draw(WIDE_VCS)}
    if keys.get("speculative"):
        pipeline["vc_alloc_delay"] = min(pipeline["vc_alloc_delay"], pipeline["sw_alloc_delay"])
    packets = data.draw(packet_lists(6, 1))
    config = {**pipeline, **keys, "topology": {"kind": "mesh", "shape": [3, 2]}}
    allocator = allocation_arguments(keys) if "vc_allocator" in keys else {}
    model = Reference(
        **mesh([3, 2], [1, 1], pipeline["vc_buf_size"]),  # type: ignore[arg-type]
        **reference_arguments(pipeline),
        **allocator,
    )
    assert_same(config, model, packets)


SYSTEMS: list[tuple[dict[str, Any], int]] = [
    ({"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "dor"}, 16),
    ({"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "west_first"}, 16),
    ({"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "odd_even"}, 16),
    ({"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "min_adaptive"}, 16),
    ({"topology": {"kind": "torus", "shape": [4, 4]}, "routing": "dateline"}, 16),
    ({"topology": {"kind": "fat_tree", "k": 4, "n": 2}, "routing": "nca"}, 16),
    ({"topology": {"kind": "crossbar", "nodes": 8}}, 8),
]


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_vcs_that_nobody_uses_change_nothing(data: st.DataObject) -> None:
    """A class that has the first VCs of a wide router alone is served as by a router that has no others."""
    base, nodes = data.draw(st.sampled_from(SYSTEMS))
    keys = data.draw(st.one_of(st.just({}), allocations()))
    pipeline = data.draw(pipelines())
    pipeline["num_vcs"] = data.draw(st.sampled_from([2, 4]))
    if keys.get("speculative"):
        pipeline["vc_alloc_delay"] = min(pipeline["vc_alloc_delay"], pipeline["sw_alloc_delay"])
    packets = data.draw(packet_lists(nodes, 1))
    used = {"only": {"vcs": list(range(pipeline["num_vcs"]))}}
    small = Network({**base, **pipeline, **keys, "classes": used})
    wide = Network({**base, **pipeline, **keys, "classes": used, "num_vcs": 14})
    frame = frame_of(packets)
    pd.testing.assert_frame_equal(small.run_packets(frame), wide.run_packets(frame))


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_multicasts_with_many_branches(data: st.DataObject) -> None:
    """Four forking VCs on five ports: 5 × (6 + 4 × 4) = 110 input VCs and branches; two of them: 60."""
    pipeline = {**data.draw(pipelines()), "num_vcs": 6, "vc_buf_size": 8}
    node = st.integers(0, 8)
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, 30), node, st.sets(node, min_size=1, max_size=6), st.integers(1, 6)),
                 min_size=1, max_size=25)
    )  # fmt: skip
    frame = pd.DataFrame(
        {
            "create_cycle": [row[0] for row in rows],
            "src": [row[1] for row in rows],
            "dst_set": [sorted(row[2]) for row in rows],
            "size_flits": [row[3] for row in rows],
        }
    )
    config = {"topology": {"kind": "mesh", "shape": [3, 3]}, "routing": "dor", **pipeline}
    # the second class has no traffic: its VCs fork in one network and not in the other
    few = {"m": {"vcs": [0, 1], "multicast": True}, "u": {"vcs": [2, 3, 4, 5]}}
    many = {"m": {"vcs": [0, 1], "multicast": True}, "n": {"vcs": [2, 3], "multicast": True}, "u": {"vcs": [4, 5]}}
    frame["message_class"] = "m"
    small = Network({**config, "classes": few}).packet_run(frame)
    wide = Network({**config, "classes": many}).packet_run(frame)
    pd.testing.assert_frame_equal(small.deliveries, wide.deliveries)


def test_a_crossbar_of_a_hundred_nodes() -> None:
    """More than 64 ports; every node gets what was sent to it, and zero-load latency is that of a small one."""
    config = {"topology": {"kind": "crossbar", "nodes": 100}, "num_vcs": 1, "vc_buf_size": 4}
    frame = pd.DataFrame(
        {
            "create_cycle": [0] * 100,
            "src": range(100),
            "dst": [(7 * n + 3) % 100 for n in range(100)],
            "size_flits": [3] * 100,
        }
    )
    out = Network(config).run_packets(frame)
    small = Network({**config, "topology": {"kind": "crossbar", "nodes": 4}})
    alone = small.run_packets(pd.DataFrame({"create_cycle": [0], "src": [0], "dst": [1], "size_flits": [3]}))
    assert set(out["packet_latency_cycles"]) == set(alone["packet_latency_cycles"])


def test_a_run_under_load_keeps_the_laws() -> None:
    """BookSim2's default of 16 VCs on a mesh; the run itself checks conservation."""
    config = {"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "dor", "num_vcs": 16, "vc_buf_size": 8}
    run = Network(config).run_traffic("uniform", injection_rate=0.3, packet_size_flits=2, seed=3)
    assert run.stable
    assert run.accepted_rate == pytest.approx(0.3, rel=0.05)


def test_too_wide_is_refused_with_its_figures() -> None:
    with pytest.raises(ConfigErrors, match=r"num_vcs: expected at most 128 input VCs .* got 5 ports x 32 VCs = 160"):
        Network({"topology": {"kind": "mesh", "shape": [4, 4]}, "routing": "dor", "num_vcs": 32, "vc_buf_size": 4})


def test_the_comparison_sees_a_difference() -> None:
    """VCs that are used do change a schedule."""
    base = {"topology": {"kind": "mesh", "shape": [2, 2]}, "routing": "dor", "vc_buf_size": 1}
    packets = frame_of([Packet(0, 0, 3, 5), Packet(0, 1, 3, 5), Packet(0, 0, 3, 5), Packet(0, 0, 1, 5)])
    one = Network({**base, "num_vcs": 1}).run_packets(packets)
    many = Network({**base, "num_vcs": 25}).run_packets(packets)
    assert one["eject_cycle"].tolist() != many["eject_cycle"].tolist()
