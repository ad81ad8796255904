"""`cosim xval astra-sim`: files, log and comparison against what ASTRA-sim printed, and against a slow model of it.

The model follows `Link.cpp`, `HardwareResource.cc` and `Workload.cc` of ASTRA-sim 518bd513: whole cycles, messages that
travel whole, links that serve one at a time in the order of arrival, NPUs that send one message at a time. It and
`tests/reference/astra_sim` agree to the cycle.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections import defaultdict, deque
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from cosim_adapters.astra_sim import (
    AstraNetwork,
    compare_messages,
    export_messages,
    export_network,
    paths,
    read_arrivals,
    run_astra_sim,
)
from cosim_adapters.chakra import COMM_RECV, COMM_SEND, message_nodes, read_nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.cli.xval import xval
from cosim.config.errors import ConfigErrors
from cosim.run.placing import system_links
from cosim.system import System, load_system

PS = 1000  # femtoseconds of one of its cycles
RECORDED = Path(__file__).parents[1] / "reference" / "astra_sim"


def star(chiplets: int) -> dict[str, Any]:
    links = [{"between": [chiplet, chiplets]} for chiplet in range(chiplets)]
    return {"kind": "graph", "routers": chiplets + 1, "links": links, "nodes": list(range(chiplets))}


LEVELS = {
    "Ring": lambda n: {"topology": {"kind": "ring", "routers": n}, "routing": "dateline"},
    "FullyConnected": lambda n: {"topology": {"kind": "fully_connected", "routers": n}, "routing": "direct"},
    "Switch": lambda n: {"topology": star(n), "routing": "up_down"},
}


def system_of(kind: str, chiplets: int, **level: Any) -> System:
    keys = {"num_vcs": 6, "vc_buf_size": 8, "flit_width": "32 B", "clock": "1 GHz", "link_latency": 5, **level}
    expert = {"compute": {"rate": "1 TFLOP/s", "efficiency": 1}, "tile": "4 KiB", "expert_buffer": "16 KiB"}
    memory = {"memory": {"preset": "HBM2_2000", "channels": 1, "refresh": "none"}, "read_return_slots": 16}
    return load_system(
        {
            "levels": {"package": {**LEVELS[kind](chiplets), **keys}},
            "endpoints": {
                "expert": {"at": {"package": list(range(chiplets))}, "ports": 1, **expert},
                "memory": {"at": {"package": [0]}, "ports": 1, "allow_bottleneck": True, **memory},
            },
            "tiers": {"hbm": {"on": "memory", "capacity": "64 MiB"}},
        }
    )


def slow_astra(messages: pd.DataFrame, network: AstraNetwork) -> tuple[list[int], list[int]]:
    """Arrival of each message and end of each NPU, in cycles of a picosecond."""
    rows = messages[["src", "dst", "bytes"]].to_numpy().tolist()
    queues: dict[int, deque[int]] = defaultdict(deque)
    for tag, (src, _, _) in enumerate(rows):
        queues[src].append(tag)
    ways = [paths(network.topology, network.npus, src, dst) for src, dst, _ in rows]
    serial = [Fraction(size * 10**12, network.bandwidth_Bps) for _, _, size in rows]
    latency = Fraction(network.latency_fs, PS)
    events: list[tuple[int, int, str, Any]] = []
    number = 0

    def at(time: int, kind: str, what: Any) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (time, number, kind, what))

    busy: set[tuple[int, int]] = set()
    waiting: dict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)

    def start(link: tuple[int, int], tag: int, hop: int, now: int) -> None:
        busy.add(link)
        at(now + int(latency + serial[tag]), "arrive", (tag, hop + 1))
        at(now + int(serial[tag]), "free", link)

    def send(tag: int, hop: int, now: int) -> None:
        link = (ways[tag][hop], ways[tag][hop + 1])
        if link in busy:
            waiting[link].append((tag, hop))
        else:
            start(link, tag, hop, now)

    arrived, finished = [-1] * len(rows), [0] * network.npus
    for source in sorted(queues):
        send(queues[source].popleft(), 0, 0)
    while events:
        now, _, kind, what = heapq.heappop(events)
        if kind == "free":
            busy.discard(what)
            if waiting[what]:
                start(what, *waiting[what].popleft(), now)
            continue
        tag, hop = what
        src, dst, _ = rows[tag]
        if hop + 1 < len(ways[tag]):
            send(tag, hop, now)
            continue
        arrived[tag] = now
        finished[src], finished[dst] = max(finished[src], now), max(finished[dst], now)
        if queues[src]:
            send(queues[src].popleft(), 0, now)
    return arrived, finished


def log_of(messages: pd.DataFrame, network: AstraNetwork) -> str:
    """What ASTRA-sim prints and logs of it, in the layout of `Workload::call` and `Workload::report`."""
    arrived, finished = slow_astra(messages, network)
    lines = []
    for tag, (src, dst, tick) in enumerate(zip(messages["src"], messages["dst"], arrived, strict=True)):
        for npu, kind, number in ((src, "send", COMM_SEND), (dst, "recv", COMM_RECV)):
            lines.append(
                f"[2026-01-01 00:00:00.000] [workload] [debug] callback,sys->id={npu}, tick={tick}, node->id=0, "
                f"node->name={kind}_{tag}, node->type={number}"
            )
    lines += [
        f"[2026-01-01 00:00:00.000] [workload] [info] sys[{npu}] finished, {tick} cycles, exposed communication {tick} "
        "cycles."
        for npu, tick in enumerate(finished)
    ]
    return "\n".join(lines) + "\n"


def stand_in(folder: Path, body: str) -> Path:
    """An executable in ASTRA-sim's place; its options are in `options`."""
    program = folder / "AstraSim_Analytical_Congestion_Aware"
    program.write_text(
        f"#!{sys.executable}\nimport sys\noptions = dict(one[2:].split('=', 1) for one in sys.argv[1:])\n{body}\n"
    )
    program.chmod(0o755)
    return program


def between(system: System, rows: list[tuple[int, int, int]]) -> pd.DataFrame:
    places = [place.index for place in system.compute_endpoints]
    return pd.DataFrame(
        [(places[a], places[b], size) for a, b, size in rows], columns=["source", "destination", "bytes"]
    )


def replay(folder: Path, system: System, sent: pd.DataFrame) -> Path:
    """A stand-in that prints what the slow model says of these messages."""
    links = system_links(system)
    router = {place.index: place.router for place in system.compute_endpoints}
    messages = pd.DataFrame(
        {"src": sent["source"].map(router), "dst": sent["destination"].map(router), "bytes": sent["bytes"]}
    )
    pairs = set(zip(messages["src"], messages["dst"], strict=True))
    text = log_of(messages, export_network(system, links, pairs))
    (folder / "recorded.txt").write_text(text)
    body = f"print(open({str(folder / 'recorded.txt')!r}).read())\nopen(options['network-configuration'])"
    return stand_in(folder, body)


@settings(max_examples=8)
@given(st.data())
def test_messages_arrive_as_on_the_slow_model(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    topology = data.draw(st.sampled_from(sorted(LEVELS)))
    chiplets = data.draw(st.integers(4, 7))
    system = system_of(topology, chiplets, link_latency=data.draw(st.sampled_from([1, 7, 300])))
    ends = st.tuples(st.integers(0, chiplets - 1), st.integers(1, chiplets - 1), st.integers(1, 5000))
    drawn = data.draw(st.lists(ends, min_size=1, max_size=16))
    # sizes that are powers of two and a little: no two sums of them are alike, so no two messages meet at an instant;
    # which of two that do goes first is another matter
    rows = [(a, (a + by) % chiplets, size + (1 << (13 + n))) for n, (a, by, size) in enumerate(drawn)]
    sent = between(system, rows)
    folder = tmp_path_factory.mktemp("astra")
    found = compare_messages(system, "dispatch", sent, replay(folder, system, sent), folder / "run", 60)
    assert found.network == AstraNetwork(topology, chiplets, 32 * 10**9, found.network.latency_fs)
    assert found.same == len(rows)
    assert found.link_ns <= found.cosim_ns


@pytest.mark.parametrize("topology", sorted(LEVELS))
def test_messages_arrive_as_on_astra_sim(tmp_path: Path, topology: str) -> None:
    system = system_of(topology, 6, link_latency=20)
    recorded = pd.read_csv(RECORDED / f"{topology}.csv")
    program = stand_in(tmp_path, f"print(open({str(RECORDED / f'{topology}.txt')!r}).read())")
    sent = between(system, list(recorded[["src", "dst", "bytes"]].itertuples(index=False, name=None)))
    found = compare_messages(system, "dispatch", sent, program, tmp_path / "run", 60)
    assert found.same == len(recorded)
    assert found.messages["astra_sim_ns"].tolist() == recorded["astra_sim_ns"].tolist()
    arrived, finished = slow_astra(recorded, found.network)
    assert [tick / 1000 for tick in arrived] == recorded["astra_sim_ns"].tolist()
    ends = read_arrivals((RECORDED / f"{topology}.txt").read_text(), messages=len(recorded), npus=6).finished_ns
    assert [tick / 1000 for tick in finished] == ends.tolist()


def test_the_files_are_those_that_astra_sim_reads(tmp_path: Path) -> None:
    system = system_of("Ring", 5)
    network = export_network(system, system_links(system), {(0, 2), (2, 0)})
    messages = pd.DataFrame({"src": [0, 2, 0], "dst": [2, 0, 1], "bytes": [100, 7, 64]})
    export_messages(messages, network, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"messages.{npu}.et" for npu in range(5)),
        "memory.json",
        "network.yml",
        "system.json",
    }
    # its GB/s are GiB/s (NetworkFunction.cpp): 32 GB/s are 29.8 of them, and a cycle is a picosecond
    assert (tmp_path / "network.yml").read_text() == (
        "topology: [ Ring ]\nnpus_count: [ 5 ]\nbandwidth: [ 0.029802322387695312 ]  # GiB per 10^9 cycles\n"
        "latency: [ 5000.0 ]  # cycles\n"
    )
    assert json.loads((tmp_path / "system.json").read_text())["trace-enabled"] == 1
    nodes = read_nodes(tmp_path / "messages.0.et")
    assert [(node.name, node.type) for node in nodes] == [
        ("send_0", COMM_SEND),
        ("recv_1", COMM_RECV),
        ("send_2", COMM_SEND),
    ]
    assert nodes[1].attributes == {"is_cpu_op": False, "comm_src": 2, "comm_dst": 0, "comm_tag": 1, "comm_size": 7}
    assert read_nodes(tmp_path / "messages.3.et") == []


def test_what_its_network_cannot_be_is_refused() -> None:
    def refusal(system: System, pairs: set[tuple[int, int]]) -> str:
        with pytest.raises(ConfigErrors) as found:
            export_network(system, system_links(system), pairs)
        return str(found.value)

    mesh = system_of("Ring", 4, topology={"kind": "mesh", "shape": [3, 3]}, routing="dor")
    assert "system.levels.package.topology: expected a ring, fully_connected, or a graph" in refusal(mesh, set())
    uneven = star(4)
    uneven["links"][0]["latency"] = 9
    assert "expected links of one latency, got 2 of them" in refusal(system_of("Switch", 4, topology=uneven), {(0, 1)})
    other = system_of("Ring", 6, routing="up_down", topology={
        "kind": "graph", "routers": 6, "links": [{"between": [a, (a + 1) % 6]} for a in range(6)],
    })  # fmt: skip
    # up*/down* turns nowhere below the root: some pairs go the long way
    every = {(a, b) for a in range(6) for b in range(6) if a != b}
    assert "system.levels.package.routing: expected ASTRA-sim's way from" in refusal(other, every)
    with pytest.raises(ConfigErrors, match="one to itself"):
        message_nodes(pd.DataFrame({"src": [1], "dst": [1], "bytes": [4]}), npus=2)
    with pytest.raises(ConfigErrors, match="at least 1 byte"):
        message_nodes(pd.DataFrame({"src": [1], "dst": [0], "bytes": [0]}), npus=2)


def test_a_log_that_is_none_is_refused() -> None:
    network = AstraNetwork("Ring", 4, 10**9, 0)
    messages = pd.DataFrame({"src": [0, 1], "dst": [1, 3], "bytes": [100, 200]})
    text = log_of(messages, network)
    good = read_arrivals(text, messages=2, npus=4)
    assert good.message_ns.tolist() == [100, 400]  # 100 B over a link, then 200 B over two, of 1 GB/s
    assert good.finished_ns.tolist() == [100, 400, 0, 400]
    for broken, told in (
        ("", "got nothing"),
        ("BEGIN Configuration File\nPacket latency average = 3", "got 2 lines, the last 'Packet latency average = 3'"),
        (text.replace("sys[3] finished", "sys[3] waits"), "expected 4 NPUs that finish, got none of 3"),
        (text.replace("recv_1,", "recv_x,"), "an arrival of each of 2 messages in the log .*got none of 1"),
    ):
        with pytest.raises(ValueError, match=told):
            read_arrivals(broken, messages=2, npus=4)


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    network = AstraNetwork("Ring", 4, 10**9, 0)
    export_messages(pd.DataFrame({"src": [0], "dst": [1], "bytes": [100]}), network, tmp_path)
    program = stand_in(
        tmp_path,
        "print('noise\\n' * 9 + '[2026] [workload] [critical] workload file: messages.0.et does not exist')\n"
        "sys.exit(1)",
    )
    with pytest.raises(ValueError, match=r"ended with 1: .*messages\.0\.et does not exist$"):
        run_astra_sim(program, tmp_path, 60)
    with pytest.raises(ValueError, match="ended with 3: it printed nothing"):
        run_astra_sim(stand_in(tmp_path, "sys.exit(3)"), tmp_path, 60)
    # what an earlier run has logged is not taken for this one's; a full log's parts are read in order
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.log").write_text("old")
    parts = "for n, t in (('.2', 'a'), ('.1', 'b'), ('', 'c')):\n    open(f'log/log{n}.log', 'w').write(t)"
    assert run_astra_sim(stand_in(tmp_path, f"print('console')\n{parts}"), tmp_path, 60) == "console\nabc"


# -- the command

RING = [
    "-o",
    "system.levels.package.topology={kind: ring, routers: 16}",
    "-o",
    "system.levels.package.routing=dateline",
    "-o",
    "system.levels.package.num_vcs=6",
    "-o",
    "workload.batch_tokens=8",
]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(xval, ["astra-sim", "quickstart", *arguments])


def test_the_command_prints_one_table_and_keeps_the_files(tmp_path: Path) -> None:
    # the stand-in does what the binary does: it reads the execution traces and simulates them
    here = Path(__file__).parent
    program = stand_in(
        tmp_path,
        f"sys.path.insert(0, {str(here)!r})\nimport re, pandas as pd, pathlib\n"
        "from cosim_adapters.chakra import COMM_SEND, read_nodes\nfrom test_astra_sim import AstraNetwork, log_of\n"
        "text = open(options['network-configuration']).read()\n"
        "name, npus, rate, latency = re.findall(r'\\[ (.*?) \\]', text)\n"
        "network = AstraNetwork(name, int(npus), round(float(rate) * 1000 * 2**30), round(float(latency) * 1000))\n"
        "prefix = options['workload-configuration']\n"
        "graphs = [read_nodes(pathlib.Path(f'{prefix}.{npu}.et')) for npu in range(int(npus))]\n"
        "nodes = [node.attributes for graph in graphs for node in graph if node.type == COMM_SEND]\n"
        "keys = {'src': 'comm_src', 'dst': 'comm_dst', 'bytes': 'comm_size', 'tag': 'comm_tag'}\n"
        "frame = pd.DataFrame([{key: one[name] for key, name in keys.items()} for one in nodes]).sort_values('tag')\n"
        "pathlib.Path('log').mkdir(exist_ok=True)\n"
        "open('log/log.log', 'w').write(log_of(frame, network))",
    )
    out = tmp_path / "out"
    result = call(*RING, "--astra-sim", str(program), "--policy", "hot_replication", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "Ring of 16, links of 64 GB/s and 2 ns" in result.output
    table = pd.read_csv(out / "xval.csv").set_index("phase")
    for phase in ("dispatch", "gather"):
        row = table.loc[phase]
        # many messages of one size meet at one instant, and links serve them in another order
        assert row["cosim_ns"] == pytest.approx(row["astra_sim_ns"], rel=0.1)
        assert row["link_ns"] < row["cosim_ns"]  # a chiplet has more than one message under way
        assert row["flit_ns"] > row["link_ns"]
        kept = pd.read_csv(out / f"{phase}.csv")
        assert len(kept) == row["messages"]
        assert kept["astra_sim_ns"].max() == row["astra_sim_ns"]
        assert (out / phase / "printed.txt").is_file()


def test_the_command_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASTRA_SIM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no ASTRA-sim here: name its binary" in call(*RING).output
    assert "expected the ASTRA-sim binary, got no executable file" in call(*RING, "--astra-sim", "none").output
    program = stand_in(tmp_path, "print('something else')")
    assert call("--astra-sim", str(program)).exit_code != 0  # a mesh
    other = call(*RING, "--astra-sim", str(program))
    assert other.exit_code != 0
    assert "expected lines 'sys[0] finished" in str(other.exception or other.output)
    script = tmp_path / "text"
    script.write_text("no program")
    script.chmod(0o755)
    assert "cannot be run" in call(*RING, "--astra-sim", str(script)).output
    assert "expected a batch from 0 to 7" in call(*RING, "--astra-sim", str(program), "--batch", "8").output
    wrong = call(*RING, "--astra-sim", str(program), "--policy", "statik")
    assert "did you mean 'static'?" in str(wrong.exception)
    slow = call(*RING, "--astra-sim", str(stand_in(tmp_path, "import time\ntime.sleep(60)")), "--timeout", "1")
    assert "did not end within 1 s" in slow.output


def test_numbers_of_devices_on_the_way() -> None:
    assert paths("Ring", 6, 1, 4) == [1, 2, 3, 4]  # a tie goes upwards
    assert paths("Ring", 6, 1, 5) == [1, 0, 5]
    assert paths("Switch", 6, 1, 5) == [1, 6, 5]
    assert np.all(np.diff([len(paths("Ring", 9, 0, d)) for d in range(1, 5)]) == 1)
