"""What is written for engines and simulators is read back, and says what the placement or the packets said."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from cosim_adapters import address_traces, chakra, packet_traces
from cosim_adapters.replica_maps import FORMS, eplb_arrays, read_map, slot_map, write_map
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import trace, workload
from cosim.config.errors import ConfigErrors
from cosim.policy.directory import PlacedReplica, Placement
from cosim.trace import RoutingTrace
from cosim.trace.assemble import read_physical_map
from cosim.trace.options import ReadOptions

CHIPLETS = (4, 7)


def placement(*extra: tuple[int, int, int]) -> Placement:
    """Two layers of 4 experts, two on each of the endpoints 4 and 7, and extra (layer, expert, chiplet)."""
    homes = [(layer, expert, CHIPLETS[expert // 2]) for layer in range(2) for expert in range(4)]
    return Placement([PlacedReplica(*where, 0, "hbm") for where in (*homes, *extra)])


EVEN = ((0, 3, 4), (0, 0, 7), (1, 1, 4), (1, 1, 7))


def test_slots_of_a_placement() -> None:
    table = slot_map(placement(*EVEN), CHIPLETS, layers=2, experts=4)
    assert table.tolist() == [[0, 1, 3, 2, 3, 0], [0, 1, 1, 2, 3, 1]]
    places, counts = eplb_arrays(table, 4)
    assert counts.tolist() == [[2, 1, 1, 2], [1, 3, 1, 1]]
    assert places[0].tolist() == [[0, 5, -1], [1, -1, -1], [3, -1, -1], [2, 4, -1]]
    assert places[1].tolist() == [[0, -1, -1], [1, 2, 5], [3, -1, -1], [4, -1, -1]]


def test_uneven_ranks() -> None:
    uneven = placement((0, 3, 4))
    with pytest.raises(ConfigErrors) as caught:
        slot_map(uneven, CHIPLETS, layers=2, experts=4)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("layer 0, rank 1: expected 3 replicas, as on the fullest rank")
    assert slot_map(uneven, CHIPLETS, layers=2, experts=4, fill="repeat").tolist() == [
        [0, 1, 3, 2, 3, 2],
        [0, 1, 0, 2, 3, 2],
    ]
    with pytest.raises(ConfigErrors, match="did you mean 'repeat'"):
        slot_map(uneven, CHIPLETS, layers=2, experts=4, fill="repaet")


def test_placements_no_engine_can_serve() -> None:
    with pytest.raises(ConfigErrors, match="layer 1: expected a replica of every expert, got none of 3"):
        slot_map(Placement(placement().replicas[:-1]), CHIPLETS, layers=2, experts=4, fill="repeat")
    with pytest.raises(ConfigErrors, match=r"expected a rank's endpoint \(4, 7\), got 9"):
        slot_map(placement((0, 0, 9)), CHIPLETS, layers=2, experts=4)


@pytest.mark.parametrize("form", FORMS)
def test_maps_are_read_back(form: str, tmp_path: Path) -> None:
    table = slot_map(placement(*EVEN), CHIPLETS, layers=2, experts=4)
    path = tmp_path / "map"
    write_map(path, form, table, experts=4, layer_map=[3, 4])
    found, layers = read_map(path)
    if form == "sglang":  # rows for the three dense layers before
        assert found[:3].tolist() == [[0, 1, 2, 3, 0, 1]] * 3
        assert found.shape == (5, 6)
        found = found[3:]
    assert np.array_equal(found, table)
    assert layers == ([3, 4] if form == "trtllm" else list(range(5 if form == "sglang" else 2)))
    if form == "vllm":
        assert np.array_equal(read_physical_map(path, ReadOptions()), table)
        with np.load(path) as held:
            assert set(held) == {"physical_to_logical_map", "logical_to_physical_map", "logical_replica_count"}
    if form == "trtllm":
        assert yaml.safe_load(path.read_text()) == {
            "num_slots": 6,
            "initial_global_assignments": {3: table[0].tolist(), 4: table[1].tolist()},
            "layer_updates_per_iter": 0,
        }
    if form == "sglang":
        assert list(json.loads(path.read_text())) == ["physical_to_logical_map"]


def test_the_eplb_readme_case(tmp_path: Path) -> None:
    """phy2log of the example in DeepSeek EPLB's README (d52c72d): its replica counts, and back through the file."""
    table = np.array(
        [[5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1], [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1]],
        dtype=np.int32,
    )
    places, counts = eplb_arrays(table, 12)
    assert counts[0].tolist() == [1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1]
    assert counts[1].tolist() == [1, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1, 1]
    for layer in range(2):
        for expert in range(12):
            mine = places[layer, expert][places[layer, expert] >= 0]
            assert (table[layer, mine] == expert).all()
    write_map(tmp_path / "t.npz", "eplb", table, experts=12)
    assert np.array_equal(read_map(tmp_path / "t.npz")[0], table)


def test_maps_that_are_refused(tmp_path: Path) -> None:
    table = np.array([[0, 1]], np.int32)
    with pytest.raises(ConfigErrors, match="did you mean 'sglang'"):
        write_map(tmp_path / "t", "sglan", table, experts=2)
    with pytest.raises(ConfigErrors, match="experts 0 to 0"):
        write_map(tmp_path / "t", "vllm", table, experts=1)
    (tmp_path / "t.yaml").write_text("num_slots: 3\ninitial_global_assignments: {0: [1, 2]}\n")
    with pytest.raises(trace.TraceError, match="num_slots is 3, the rows have 2 slots"):
        read_map(tmp_path / "t.yaml")


# ---- packets


def test_packets_of_a_layer_as_a_workload(sample: RoutingTrace, tmp_path: Path) -> None:
    packets = workload.packets(
        sample, model="own-byte-moe", system="package-4x4", layer=0, tokens=np.arange(0, 256), create_cycle=5
    )
    option = packet_traces.write_workload(packets, tmp_path / "t.tr")
    assert option.startswith(f"trace({{{tmp_path / 't.tr'}}},{{")
    assert not (tmp_path / "t.tr").read_bytes().endswith(b"\n")
    again = packet_traces.read_workload(option)
    assert np.array_equal(again.to_numpy(), packets[list(again.columns)].to_numpy())


@given(
    rows=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), min_size=1)
)
@settings(deadline=None, max_examples=40)
def test_any_packets(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]]) -> None:
    frame = pd.DataFrame(sorted(rows, key=lambda row: row[0]), columns=["create_cycle", "src", "dst", "size_flits"])
    option = packet_traces.write_workload(frame, tmp_path_factory.mktemp("w") / "t.tr")
    assert np.array_equal(packet_traces.read_workload(option).to_numpy(), frame.to_numpy())


def test_packets_out_of_order(tmp_path: Path) -> None:
    frame = pd.DataFrame({"create_cycle": [5, 9, 3], "src": [0, 1, 0], "dst": [1, 0, 1], "size_flits": [1, 1, 1]})
    with pytest.raises(ConfigErrors, match="row 2 of source 0 is earlier than the one before"):
        packet_traces.write_workload(frame, tmp_path / "t.tr")
    with pytest.raises(ConfigErrors, match="no size_flits"):
        packet_traces.write_workload(frame.drop(columns="size_flits"), tmp_path / "t.tr")
    (tmp_path / "t.tr").write_text("0 0 1 0\n")  # BookSim2 would read a damaged record after the newline
    with pytest.raises(ConfigErrors, match=r"t\.tr:2: expected delay src dst type"):
        packet_traces.read_workload(f"trace({{{tmp_path / 't.tr'}}},{{1}},-1,0,1.0)")


# ---- addresses


REQUESTS = pd.DataFrame(
    {"op": ["R", "W", "R"], "address": [64, 4096, 100], "arrive_cycle": [7, 0, 9], "size_bytes": [128, 64, 32]}
)


def test_addresses(tmp_path: Path) -> None:
    assert address_traces.write_addresses(REQUESTS, tmp_path / "t", "dramsim3", burst_bytes=64) == 5
    assert (tmp_path / "t").read_text().splitlines() == [
        "0x1000 WRITE 0",
        "0x40 READ 7",
        "0x80 READ 7",
        "0x40 READ 9",  # bytes 100 to 131 lie in two bursts
        "0x80 READ 9",
    ]
    found = address_traces.read_addresses(tmp_path / "t", "dramsim3")
    assert found["address"].tolist() == [4096, 64, 128, 64, 128]
    assert found["op"].tolist() == ["W", "R", "R", "R", "R"]
    assert found["arrive_cycle"].tolist() == [0, 7, 7, 9, 9]
    address_traces.write_addresses(REQUESTS, tmp_path / "t", "ramulator2", burst_bytes=64)
    assert (tmp_path / "t").read_text().splitlines()[:2] == ["ST 0x1000", "LD 0x40"]
    assert address_traces.read_addresses(tmp_path / "t", "ramulator2")["address"].tolist() == [4096, 64, 128, 64, 128]


def test_addresses_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match="no arrive_cycle"):
        address_traces.write_addresses(
            REQUESTS.drop(columns="arrive_cycle"), tmp_path / "t", "dramsim3", burst_bytes=64
        )
    with pytest.raises(ConfigErrors, match="did you mean 'dramsim3'"):
        address_traces.write_addresses(REQUESTS, tmp_path / "t", "dramsim", burst_bytes=64)
    (tmp_path / "t").write_text("0x40 READ 7\n0x40 FETCH 7\n")
    with pytest.raises(ConfigErrors, match=r"t:2: expected a request of dramsim3"):
        address_traces.read_addresses(tmp_path / "t", "dramsim3")


# ---- Chakra


def test_chakra_graphs(tmp_path: Path) -> None:
    messages = pd.DataFrame({"src": [0, 1, 1], "dst": [1, 1, 0], "tokens": [3, 2, 1], "expert": [5, 5, 2]})
    graphs = chakra.layer_nodes(messages, npus=2, operations_per_token=1000, bytes_per_token=64)
    paths = chakra.write_nodes(graphs, tmp_path / "et", "layer0")
    assert [path.name for path in paths] == ["layer0.0.et", "layer0.1.et"]
    assert [chakra.read_nodes(path) for path in paths] == graphs
    nodes = {node.name: node for graph in graphs for node in graph}
    expert = nodes["expert_5"]
    assert expert.attributes == {"is_cpu_op": False, "num_ops": 5000, "tensor_size": 320}
    assert [graphs[1][dep].name for dep in expert.data_deps] == ["dispatch_recv_0"]
    back = nodes["gather_send_3"]
    assert back.attributes == {"is_cpu_op": False, "comm_src": 1, "comm_dst": 0, "comm_tag": 3, "comm_size": 192}
    assert [graphs[1][dep].name for dep in back.data_deps] == ["expert_5"]
    ends: dict[str, list[Any]] = {"send": [], "recv": []}
    for node in nodes.values():
        for kind, found in ends.items():
            if f"_{kind}_" in node.name:
                found.append((node.attributes["comm_tag"], node.attributes["comm_size"]))
    assert sorted(ends["send"]) == sorted(ends["recv"])
    with pytest.raises(ConfigErrors, match="chiplets 0 to 0"):
        chakra.layer_nodes(messages, npus=1, operations_per_token=1, bytes_per_token=1)


def test_chakra_is_what_the_protobuf_library_writes(tmp_path: Path) -> None:
    """`tests/reference/traces/chakra.0.et` was written with Chakra's own schema: read, and written again alike."""
    file = Path(__file__).parents[1] / "reference" / "traces" / "chakra.0.et"
    nodes = chakra.read_nodes(file)
    plain = {"is_cpu_op": False}
    assert nodes == [
        chakra.Node(
            0,
            "dispatch_send_7",
            chakra.COMM_SEND,
            (),
            {**plain, "comm_src": 0, "comm_dst": 3, "comm_tag": 7, "comm_size": 3 << 33},
        ),
        chakra.Node(1, "expert_5", chakra.COMP, (0, 200), {**plain, "num_ops": 123_456_789_012, "tensor_size": 4096}),
        chakra.Node(
            200,
            "gather_recv_9",
            chakra.COMM_RECV,
            (1,),
            {**plain, "comm_src": 3, "comm_dst": 0, "comm_tag": 9, "comm_size": 1},
        ),
    ]
    (path,) = chakra.write_nodes([nodes], tmp_path, "t")
    assert path.read_bytes() == file.read_bytes()


def test_chakra_bytes(tmp_path: Path) -> None:
    """The wire format of a file with one node, byte by byte: lengths as varints, proto3 field numbers and kinds."""
    node = chakra.Node(300, "n", chakra.COMP, (1, 200), {"is_cpu_op": False, "num_ops": -1, "comm_tag": 2})
    chakra.write_nodes([[node]], tmp_path, "t")
    attributes = (
        b"\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x00"
        b"\x52\x14\x0a\x07num_ops\x48" + b"\xff" * 9 + b"\x01" + b"\x52\x0c\x0a\x08comm_tag\x38\x02"
    )
    body = b"\x08\xac\x02\x12\x01n\x18\x04\x2a\x03\x01\xc8\x01" + attributes
    expected = b"\x07\x0a\x050.0.4" + bytes([len(body)]) + body
    assert (tmp_path / "t.0.et").read_bytes() == expected
    assert chakra.read_nodes(tmp_path / "t.0.et") == [node]


@given(data=st.binary(max_size=80))
@settings(deadline=None, max_examples=100)
def test_any_bytes_as_chakra(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("c") / "t.et"
    path.write_bytes(b"\x07\x0a\x050.0.4" + data)
    with contextlib.suppress(ConfigErrors):
        chakra.read_nodes(path)


# ---- cosim place


@pytest.mark.parametrize("form", FORMS)
def test_place(form: str, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from cosim.cli.place_engine import engine as place

    asked = ["sample", str(tmp_path / "out"), "--model=own-byte-moe", "--system=package-4x4", f"--to={form}"]
    run = CliRunner().invoke(place, [*asked, "--param", "replica_budget=1.5"])
    assert isinstance(run.exception, ConfigErrors)
    assert "replicas, as on the fullest rank" in str(run.exception)
    run = CliRunner().invoke(place, [*asked, "--param", "replica_budget=1.5", "--fill", "repeat"])
    assert run.exit_code == 0, run.output
    table, _ = read_map(tmp_path / "out")
    assert table.shape[0] == 8
    assert all(set(row.tolist()) == set(range(64)) for row in table)
    assert f"8 layers, 16 ranks of {table.shape[1] // 16} slots, 768 replicas of 512 experts" in run.output
    hottest = int(np.bincount(trace.load("sample").ids[:, 0].reshape(-1), minlength=64).argmax())
    assert np.count_nonzero(table[0] == hottest) > 1
