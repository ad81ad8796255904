"""In-network reductions: the core against the slow model, exact times, links, loads, laws and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_checks import check_fault_is_reported, check_terms, core_network, draw_pipeline, flits_sent
from reference_reduction import Part, ReductionReference
from reference_router import mesh

from cosim import _core
from cosim.config.errors import ConfigErrors
from cosim.noc import Network

CLASSES = {"unicast": {"vcs": [0]}, "sum": {"vcs": [1], "reduction": True}}
TERMS = ["source_queueing", "router", "link", "serialisation", "contention", "reduction_wait"]


def config(shape: list[int], **keys: Any) -> dict[str, Any]:
    return {"topology": {"kind": "mesh", "shape": shape}, "num_vcs": 2, "classes": CLASSES, **keys}


def frame_of(packets: list[Part]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "create_cycle": [p.create for p in packets],
            "src": [p.source for p in packets],
            "dst": [p.dest for p in packets],
            "size_flits": [p.size for p in packets],
            "message_class": [p.message_class for p in packets],
            "reduction": [-1 if p.reduction is None else p.reduction for p in packets],
        }
    )


def sums(rows: list[tuple[int, int, int, int, int | str]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits", "reduction"])
    return frame.assign(message_class="sum")


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_every_contribution_arrives_as_in_the_slow_model(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    nodes = int(np.prod(shape))
    pipeline = draw_pipeline(data)
    depth, source_depth = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    unit = {"ports": data.draw(st.integers(1, 2)), "combine_delay": data.draw(st.integers(1, 3))}
    vcs = data.draw(st.sampled_from([[[0], [1]], [[0], [1, 2]]]))
    node, cycle, size = st.integers(0, nodes - 1), st.integers(0, 30), st.integers(1, 4)
    packets: list[Part] = []
    for name in range(data.draw(st.integers(1, 6))):
        dest, flits = data.draw(node), data.draw(size)
        for source in sorted(data.draw(st.sets(node, min_size=1))):
            packets.append(Part(data.draw(cycle), source, dest, flits, 1, reduction=name))
    for _ in range(data.draw(st.integers(0, 15))):
        packets.append(
            Part(data.draw(cycle), data.draw(node), data.draw(node), data.draw(size), data.draw(st.integers(0, 1)))
        )
    packets = data.draw(st.permutations(packets))
    keys: dict[str, Any] = {
        "num_vcs": sum(map(len, vcs)), "vc_buf_size": source_depth, "link_buffer_flits": depth, "reduction": unit,
        "classes": {"unicast": {"vcs": vcs[0]}, "sum": {"vcs": vcs[1], "reduction": True}}, **pipeline,
    }  # fmt: skip
    result = Network({"topology": {"kind": "mesh", "shape": shape}, **keys}).packet_run(frame_of(packets))

    graph = mesh(shape, [1] * len(shape), depth)
    graph["ports"] = 2 * len(shape) + 1 + unit["ports"]
    model = ReductionReference(
        **graph, vcs=sum(map(len, vcs)), buffer_flits=source_depth, class_vcs=vcs, **pipeline,  # type: ignore[arg-type]
    )  # fmt: skip
    model.unit_ports, model.combine_delay = unit["ports"], unit["combine_delay"]
    model.start(packets)
    model.run(list(packets))

    assert result.packets["inject_cycle"].tolist() == [p.inject for p in packets]
    assert result.packets["eject_cycle"].tolist() == [p.eject for p in packets]
    check_terms(result.packets, TERMS)
    assert flits_sent(result.links) == dict(model.link_flits)


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_a_reduction_of_one_source_is_a_unicast(data: st.DataObject) -> None:
    node = st.integers(0, 8)
    rows = data.draw(st.lists(st.tuples(st.integers(0, 20), node, node, st.integers(1, 9)), min_size=1, max_size=40))
    frame = pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits"]).assign(message_class="sum")
    one = Network(config([3, 3])).packet_run(frame)
    other = Network(config([3, 3])).packet_run(frame.assign(reduction=range(len(frame))))
    plain = {name: {**spec, "reduction": False} for name, spec in CLASSES.items()}
    third = Network(config([3, 3], classes=plain)).packet_run(frame)
    times = ["inject_cycle", "eject_cycle", "hops", *(f"{term}_cycles" for term in TERMS)]
    pd.testing.assert_frame_equal(one.packets[times], other.packets[times])
    pd.testing.assert_frame_equal(one.packets[times], third.packets[times])


def test_two_ways_that_join_take_both_legs_and_the_unit() -> None:
    """Nodes 0 and 2 of a row send to 1, whose router sums: two routers to the unit, the delay, one to the node."""
    row: dict[str, Any] = {
        "topology": {"kind": "mesh", "shape": [3, 1]}, "num_vcs": 2, "link_latency": 3,
        "classes": {"sum": {"vcs": [0, 1], "reduction": True}},
    }  # fmt: skip
    for delay, size in ((1, 1), (1, 5), (4, 5)):
        network = Network({**row, "reduction": {"combine_delay": delay}})
        out = network.packet_run(sums([(0, 0, 1, size, 0), (0, 2, 1, size, 0)]))
        to_unit = network.zero_load_latency_cycles(2, 3, 1)
        to_node = network.zero_load_latency_cycles(1, 0, 1)
        # one unit port reads both in turn; a tail far behind its head finds route and VC there
        ahead = 0 if size == 1 else 2
        assert out.packets["eject_cycle"].tolist() == [to_unit + delay + to_node + 2 * size - 1 - ahead] * 2
        # the tails are read at to_unit + 2 * size - 2 and - 1; the sum's tail must leave to_node before the end
        left = to_unit + delay + 2 * size - 1 - ahead
        waits = [max(0, left - (to_unit + 2 * size - behind)) for behind in (1, 2)]
        assert sorted(out.packets["reduction_wait_cycles"]) == waits
        assert out.reductions is not None
        assert out.reductions["joins"].tolist() == [[1]]
        both = Network({**row, "reduction": {"ports": 2, "combine_delay": delay}})
        out = both.packet_run(sums([(0, 0, 1, size, "a"), (0, 2, 1, size, "a")]))
        assert out.packets["eject_cycle"].tolist() == [to_unit + delay + to_node + size - 1] * 2
        assert (out.packets["reduction_wait_cycles"] == delay).all()
        assert (out.packets["contention_cycles"] == 0).all()


def test_every_link_of_the_tree_carries_a_sum_once_and_the_destination_reads_one() -> None:
    network = Network(config([4, 4]))
    for dest in (0, 5, 15):
        out = network.packet_run(sums([(0, source, dest, 6, 0) for source in range(16)]))
        used = out.links[out.links["flits"] > 0]
        links = used[used["kind"] == "link"]
        assert len(links) == 15  # a tree over 16 routers
        assert (links["flits"] == 6).all()
        read = used[used["kind"] == "ejection"]
        assert read[["to", "flits"]].to_numpy().tolist() == [[dest, 6]]
        gathered = network.packet_run(sums([(0, source, dest, 6, source) for source in range(16)]))
        assert gathered.links[gathered.links["kind"] == "ejection"]["flits"].sum() == 16 * 6
        assert out.makespan_cycles < gathered.makespan_cycles
        assert out.reduction_units is not None
        # every router but the corners where a way begins joins some: parts - sums + 1 = sources
        assert out.reduction_units["parts"].sum() - out.reduction_units["sums"].sum() + 1 == 16
        assert out.reduction_units["most_open"].max() == 1


@pytest.mark.parametrize("topology", [
    {"kind": "torus", "shape": [3, 3]}, {"kind": "fat_tree", "k": 2, "n": 3}, {"kind": "fully_connected", "routers": 4},
    {"kind": "mesh", "shape": [2, 2], "concentration": 2}, {"kind": "graph", "routers": 4, "links": [
        {"between": [0, 1]}, {"between": [1, 2]}, {"between": [2, 3]}, {"between": [3, 0]}, {"between": [3, 0]}]},
])  # fmt: skip
def test_other_topologies_reduce_and_are_proved_free_of_deadlock(topology: dict[str, Any]) -> None:
    routing = "direct" if topology["kind"] == "fully_connected" else "up_down"
    network = Network(config([], topology=topology, routing=routing))
    assert network.check_deadlock().deadlock_free
    draw = np.random.default_rng(1)
    rows: list[tuple[int, int, int, int, int | str]] = []
    for name in range(60):
        dest, size, create = int(draw.integers(network.nodes)), int(draw.integers(1, 12)), int(draw.integers(200))
        members = draw.permutation(network.nodes)[: draw.integers(1, network.nodes + 1)]
        rows += [(create, int(source), dest, size, name) for source in members]
    out = network.packet_run(sums(rows))
    assert (out.packets["eject_cycle"] > 0).all()
    check_terms(out.packets, TERMS)


def test_reductions_as_traffic() -> None:
    network = Network(config([4, 4], reduction={"ports": 2}))
    pattern = {"kind": "reduction", "sets": {0: [1, 2, 3, 5, 6, 7], 15: [8, 9, 10, 14]}}
    arguments: dict[str, Any] = {
        "packet_size_flits": 4,
        "message_class": "sum",
        "warmup_cycles": 200,
        "measure_cycles": 4000,
    }
    r = network.run_traffic(pattern, injection_rate=0.1, **arguments)
    assert r.stable
    assert r.injected_rate == pytest.approx(r.offered_rate, rel=0.05)
    assert r.offered_rate == pytest.approx(0.1 * 10 / 16, rel=0.1)
    assert r.accepted_rate == pytest.approx(0.1 * 2 / 16, rel=0.1)
    assert sum(vars(r.terms).values()) == pytest.approx(r.packet_latency_mean_cycles)
    assert r.terms.reduction_wait_mean_cycles > 0
    # a node that is far behind ends what has begun and gives back the rest
    over = network.run_traffic(pattern, injection_rate=3.9, max_drain_cycles=0, **arguments)
    assert not over.stable


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32), stop=st.integers(1, 150))
def test_a_saved_network_goes_on_identically(seed: int, stop: int) -> None:
    draw = np.random.default_rng(seed)
    description = config([3, 3], reduction={"ports": 2})
    whole, first, second = (core_network(description) for _ in range(3))
    tag = 0
    for _ in range(20):
        members = draw.permutation(9)[: draw.integers(1, 10)]
        dest, size = draw.integers(9), draw.integers(1, 6)
        rows = np.array([[draw.integers(60), source, dest, size, 1] for source in members])
        for net in (whole, first):
            net.offer_reduction(rows, tag)
        tag += len(rows)
    whole.run(_core.NO_EVENT)
    first.run(stop)
    state = first.save()
    second.load(state)
    assert second.save() == state
    for net in (first, second):
        net.run(_core.NO_EVENT)
        assert net.idle
        assert net.verify_conservation() == ""
    assert first.save() == second.save()
    assert len(whole.take_arrivals()) == tag


FAULTY_RUN = """
import pandas as pd
from cosim.noc import Network
rows = [(i, s, 4, 3, i) for i in range(20) for s in range(9)]
frame = pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits", "reduction"])
classes = {"sum": {"vcs": [0, 1, 2, 3], "reduction": True}}
Network({"topology": {"kind": "mesh", "shape": [3, 3]}, "classes": classes}).run_packets(frame)
print("finished")
"""


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fault", "says"), [("lose_part", "did not bring the sum of all contributions"), ("lose_flit", "flits are lost")]
)
def test_a_broken_law_of_reductions_is_reported(fault: str, says: str) -> None:
    check_fault_is_reported(FAULTY_RUN, fault, says)


def refusal(rows: list[tuple[int, int, int, int, int | str]], **columns: Any) -> str:
    with pytest.raises(ConfigErrors) as caught:
        Network(config([3, 1])).run_packets(sums(rows).assign(**columns))
    return str(caught.value)


def test_refusals_name_what_is_wrong() -> None:
    assert "1, as in row 0 of reduction 'a'" in refusal([(0, 0, 1, 1, "a"), (0, 2, 0, 1, "a")])
    assert "4, as in row 0 of reduction 0" in refusal([(0, 0, 1, 4, 0), (0, 2, 1, 3, 0)])
    assert "each source once in reduction 0" in refusal([(0, 0, 1, 4, 0), (0, 0, 1, 4, 0)])
    assert "'sum' for a row with a reduction" in refusal([(0, 0, 1, 4, 0)], message_class="unicast")
    assert "at most 65536 flits in a reduction" in refusal([(0, 0, 1, 70_000, 0)])
    with pytest.raises(ConfigErrors, match="one of multicast and reduction"):
        Network(config([3], classes={"s": {"vcs": [0], "reduction": True, "multicast": True}}))
    with pytest.raises(ConfigErrors, match="a class with `reduction: true` that reads this"):
        Network({"topology": {"kind": "mesh", "shape": [3]}, "reduction": {"ports": 1}})
    with pytest.raises(ConfigErrors, match="one way per router and destination"):
        Network(config([3, 3], routing="odd_even"))
    with pytest.raises(ConfigErrors, match="without session classes and links with retry"):
        Network(config([3, 3], retry={"bit_error_rate": 1e-6, "flit_bits": 64}))
    net = Network(config([3]))
    shared = {"kind": "reduction", "sets": {0: [1, 2], 2: [1]}}
    with pytest.raises(ConfigErrors, match="node 1 sends for node 0"):
        net.run_traffic(shared, injection_rate=0.1, message_class="sum")
    pattern = {"kind": "reduction", "sets": {0: [1, 2]}}
    with pytest.raises(ConfigErrors, match="a class with `reduction: true` for this pattern"):
        net.run_traffic(pattern, injection_rate=0.1, message_class="unicast")
