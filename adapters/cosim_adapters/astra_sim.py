"""Messages of a MoE layer on ASTRA-sim's congestion-aware analytical network, and its log as numbers.

Files, options and log lines are those of ASTRA-sim 518bd513 (github.com/astra-sim/astra-sim) with its binary
`AstraSim_Analytical_Congestion_Aware`: a Chakra execution trace per NPU, `system.json`, `network.yml` and `memory.json`
in; per NPU a line `sys[3] finished, 1234 cycles, …` and, with `trace-enabled`, a line per node of the workload out.
Three things of it are easily missed:

- its "GB/s" are GiB/s: `NetworkFunction.cpp` multiplies by 2^30;
- a cycle is a nanosecond, and every hop's time is cut to whole ones. Here a cycle stands for a picosecond: bandwidths
  are written a thousandth, latencies a thousand times as large, and what is cut off is of no matter;
- an NPU sends a message only when its former one has arrived (`HardwareResource::is_available`), in the order of nodes.

A hop of a message lasts latency + bytes / bandwidth, a message travels whole, and a link serves one at a time.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.config.errors import ConfigErrors, Problems
from cosim.link import LinkSimulator
from cosim.run.communication import messages_fs
from cosim.run.placing import system_links
from cosim_adapters.chakra import COMM_RECV, message_nodes, write_nodes

if TYPE_CHECKING:
    from cosim.link import LinkTopology
    from cosim.system import System

__all__ = [
    "Arrivals",
    "AstraNetwork",
    "Phase",
    "compare_messages",
    "export_messages",
    "export_network",
    "paths",
    "read_arrivals",
    "run_astra_sim",
]

WORKLOAD = "messages"
SYSTEM, NETWORK, MEMORY, LOG = "system.json", "network.yml", "memory.json", "log"
GiB = 1 << 30
CYCLES_PER_NS = 1000
SAME_NS = 1.0
"""How far apart a message may arrive and still be the same: far below what it takes on any link."""
_MESSAGE = re.compile(
    r"callback,sys->id=(\d+), tick=(\d+), node->id=\d+, node->name=(send|recv)_(\d+), node->type=(\d+)"
)
_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication -?\d+ cycles")
_PROBLEM = re.compile(r"\[(?:critical|error|Error)\]|what\(\):|[Aa]ssert")


@dataclass(frozen=True)
class AstraNetwork:
    """One dimension of ASTRA-sim's analytical network.

    Attributes:
        topology: `Ring` (both ways), `FullyConnected` or `Switch` (a link to the switch and one back for every NPU).
        npus: NPU i is router i of the system.
        bandwidth_Bps: bytes per second of a link in one direction.
        latency_fs: of a link.
    """

    topology: str
    npus: int
    bandwidth_Bps: int
    latency_fs: int

    def yaml(self) -> str:
        """The text of `network.yml`."""
        return (
            f"topology: [ {self.topology} ]\nnpus_count: [ {self.npus} ]\n"
            f"bandwidth: [ {self.bandwidth_Bps / GiB / CYCLES_PER_NS!r} ]  # GiB per 10^9 cycles\n"
            f"latency: [ {self.latency_fs / 1e6 * CYCLES_PER_NS!r} ]  # cycles\n"
        )


@dataclass(frozen=True)
class Arrivals:
    """What ASTRA-sim printed.

    Attributes:
        message_ns: when each message arrived, float64, by tag.
        finished_ns: when each NPU had nothing left to do, float64, by NPU.
    """

    message_ns: npt.NDArray[np.float64]
    finished_ns: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Phase:
    """The messages of one phase, here and there.

    Attributes:
        name: `dispatch` or `gather`.
        network: what both sent over.
        messages: src, dst (NPUs), bytes, hops, astra_sim_ns, cosim_ns (when it arrived).
        link_ns, flit_ns: the last arrival at these rungs, where a chiplet sends as its network takes them.
    """

    name: str
    network: AstraNetwork
    messages: pd.DataFrame
    link_ns: float
    flit_ns: float

    @property
    def astra_sim_ns(self) -> float:
        """ASTRA-sim's last arrival."""
        return float(self.messages["astra_sim_ns"].max())

    @property
    def cosim_ns(self) -> float:
        """Our last arrival, with messages sent as ASTRA-sim sends them."""
        return float(self.messages["cosim_ns"].max())

    @property
    def same(self) -> int:
        """Messages that arrive within `SAME_NS` of each other."""
        return int(((self.messages["cosim_ns"] - self.messages["astra_sim_ns"]).abs() <= SAME_NS).sum())


def paths(topology: str, npus: int, source: int, destination: int) -> list[int]:
    """The devices on the way of a message; a switch is device `npus`. A ring goes the shorter way, upwards at a tie."""
    if topology == "FullyConnected":
        return [source, destination]
    if topology == "Switch":
        return [source, npus, destination]
    up = (destination - source) % npus
    step = 1 if up <= npus - up else -1
    return [(source + step * hop) % npus for hop in range(min(up, npus - up) + 1)]


def export_network(system: System, links: LinkTopology, pairs: set[tuple[int, int]]) -> AstraNetwork:
    """The ASTRA-sim network that is the same as the system's one level.

    Args:
        links: the links and routes of the system, as the link rung has them.
        pairs: routers between which messages travel: those must go the same way on both.

    Raises:
        ConfigErrors: several levels, links that differ, another graph than a ring, all to all or a star around the
            last router, another way between a pair. All at once.
    """
    problems = Problems()
    if len(system.networks) > 1:
        problems.add(
            "system.levels", "a system of one network (theirs has no gateways)", f"{len(system.networks)} networks"
        )
        problems.raise_if_any()
    (network,) = system.networks
    where = f"system.levels.{network.level_name}"
    rates, latencies = set(links.bandwidth_Bps.tolist()), set(network.graph.latency_cycles.tolist())
    for name, values in (("bandwidth", rates), ("latency", latencies)):
        if len(values) != 1:
            problems.add(where, f"links of one {name}", f"{len(values)} of them")
    if len(set(links.endpoint_router.tolist())) < links.endpoints:
        problems.add("system.endpoints", "one compute endpoint at a router (theirs has one NPU there)", "several")
    ends = sorted(zip(links.source.tolist(), links.target.tolist(), strict=True))
    topology, npus = _shape(ends, links.routers)
    if not topology:
        problems.add(
            f"{where}.topology",
            "a ring, fully_connected, or a graph that is a star around its last router (ASTRA-sim's Ring, "
            "FullyConnected and Switch)",
            f"{network.level.topology.kind} of {links.routers} routers",
        )
    for source, destination in sorted(pairs) if topology else ():
        theirs = paths(topology, npus, source, destination)
        way = [source]
        while way[-1] != destination:
            way.append(int(links.target[links.next_link[way[-1], destination]]))
        if way != theirs:
            problems.add(f"{where}.routing", f"ASTRA-sim's way from {source} to {destination}, {theirs}", str(way))
            break
    problems.raise_if_any()
    latency = latencies.pop() * 10**15 / network.level.clock
    return AstraNetwork(topology, npus, rates.pop(), int(latency))


def _shape(ends: list[tuple[int, int]], routers: int) -> tuple[str, int]:
    ring = sorted((a, (a + step) % routers) for a in range(routers) for step in (1, -1))
    if ends == sorted((a, b) for a in range(routers) for b in range(routers) if a != b):
        return "FullyConnected", routers
    if ends == ring:
        return "Ring", routers
    hub = routers - 1
    if ends == sorted(pair for a in range(hub) for pair in ((a, hub), (hub, a))):
        return "Switch", hub
    return "", 0


def export_messages(messages: pd.DataFrame, network: AstraNetwork, folder: Path) -> None:
    """Writes all that one run of ASTRA-sim reads.

    Args:
        messages: src, dst (NPUs), bytes; an NPU sends them in the order of the rows, all are due at time zero.

    Raises:
        ConfigErrors: as `chakra.message_nodes`.
        OSError: the folder cannot be written.
    """
    write_nodes(message_nodes(messages, npus=network.npus), folder, WORKLOAD)
    (folder / NETWORK).write_text(network.yaml(), encoding="utf-8")
    # none of it plays a part where there are no collectives and no compute; trace-enabled logs every node
    system = {
        "scheduling-policy": "FIFO",
        "endpoint-delay": 0,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "all-reduce-implementation": ["ring"],
        "all-gather-implementation": ["ring"],
        "reduce-scatter-implementation": ["ring"],
        "all-to-all-implementation": ["ring"],
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        "boost-mode": 0,
        "roofline-enabled": 0,
        "peak-perf": 900,
        "trace-enabled": 1,
    }
    (folder / SYSTEM).write_text(json.dumps(system, indent=2) + "\n", encoding="utf-8")
    (folder / MEMORY).write_text('{"memory-type": "NO_MEMORY_EXPANSION"}\n', encoding="utf-8")


def run_astra_sim(binary: Path, folder: Path, timeout_seconds: float) -> str:
    """Runs ASTRA-sim on what `export_messages` wrote; returns what it printed and logged.

    Raises:
        OSError: the binary cannot be run.
        ValueError: it ended with an error; its last lines are quoted.
        subprocess.TimeoutExpired: it has not ended in time.
    """
    for old in (folder / LOG).glob("*.log"):
        old.unlink()
    options = {
        "workload-configuration": WORKLOAD,
        "system-configuration": SYSTEM,
        "network-configuration": NETWORK,
        "remote-memory-configuration": MEMORY,
        "logging-folder": LOG,
    }
    command = [str(binary.resolve()), *(f"--{name}={value}" for name, value in options.items())]
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=timeout_seconds, check=False
    )
    printed = ended.stdout + ended.stderr
    if ended.returncode != 0:
        lines = printed.strip().splitlines()
        told = [line for line in lines if _PROBLEM.search(line)] or lines
        raise ValueError(f"{binary} ended with {ended.returncode}: " + ("\n".join(told[-5:]) or "it printed nothing"))
    # a full log goes on in log.log, the older parts are log.1.log, log.2.log …
    parts = sorted((folder / LOG).glob("log.*.log"), key=lambda part: -int(part.name.split(".")[1]))
    logged = [
        part.read_text(encoding="utf-8", errors="replace")
        for part in (*parts, folder / LOG / "log.log")
        if part.is_file()
    ]
    return printed + "".join(logged)


def read_arrivals(printed: str, *, messages: int, npus: int) -> Arrivals:
    """When messages arrived and NPUs finished.

    Args:
        printed: what `run_astra_sim` returns.
        messages, npus: how many the run had.

    Raises:
        ValueError: no such lines (another program, another version), NPUs that did not finish, messages that did not
            arrive.
    """
    finished: dict[int, int] = {int(npu): int(tick) for npu, tick in _FINISHED.findall(printed)}
    if not finished:
        lines = printed.strip().splitlines()
        got = f"{len(lines)} lines, the last {lines[-1]!r}" if lines else "nothing"
        raise ValueError(f"expected lines 'sys[0] finished, … cycles, …' of ASTRA-sim, got {got}")
    missing = sorted(set(range(npus)) - set(finished))
    if missing:
        raise ValueError(
            f"expected {npus} NPUs that finish, got none of {_some(missing)}: sends and receives do not meet"
        )
    arrived = np.full(messages, -1, dtype=np.int64)
    for _, tick, kind, tag, number in _MESSAGE.findall(printed):
        if kind == "recv" and int(number) == COMM_RECV and int(tag) < messages:
            arrived[int(tag)] = int(tick)
    lost = np.flatnonzero(arrived < 0).tolist()
    if lost:
        raise ValueError(
            f"expected an arrival of each of {messages} messages in the log (trace-enabled), got none of {_some(lost)}"
        )
    ends = np.array([finished[npu] for npu in range(npus)], dtype=np.int64)
    return Arrivals(arrived / CYCLES_PER_NS, ends / CYCLES_PER_NS)


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (f" … ({len(numbers)})" if len(numbers) > 5 else "")


def compare_messages(
    system: System, name: str, sent: pd.DataFrame, binary: Path, folder: Path, timeout_seconds: float
) -> Phase:
    """Sends the messages of one phase on ASTRA-sim and here.

    Args:
        sent: source, destination (endpoints of the system), bytes, as `workload.packets.layer_messages` gives them.
        folder: where ASTRA-sim's files go.

    Raises:
        ConfigErrors: a system that ASTRA-sim's network cannot be, or no message at all.
        OSError, ValueError, subprocess.TimeoutExpired: as `run_astra_sim` and `read_arrivals`.
    """
    if not len(sent):
        raise ConfigErrors.single(
            "messages between chiplets", f"none in {name}: every expert is at its tokens", path=name
        )
    links = system_links(system)
    order = np.full(len(system.endpoints), -1, dtype=np.int64)
    order[[place.index for place in system.compute_endpoints]] = np.arange(links.endpoints)
    source, destination = (order[sent[end].to_numpy()] for end in ("source", "destination"))
    sizes = sent["bytes"].to_numpy(dtype=np.int64)
    routers = links.endpoint_router
    src, dst = routers[source], routers[destination]
    network = export_network(system, links, set(zip(src.tolist(), dst.tolist(), strict=True)))
    messages = pd.DataFrame({"src": src, "dst": dst, "bytes": sizes})
    export_messages(messages, network, folder)
    printed = run_astra_sim(binary, folder, timeout_seconds)
    (folder / "printed.txt").write_text(printed, encoding="utf-8")
    arrivals = read_arrivals(printed, messages=len(messages), npus=network.npus)
    likewise = LinkSimulator(links, chunks=1, hop_latency_fs=network.latency_fs, one_at_a_time=True)
    messages["hops"] = links.hops[source, destination]
    messages["astra_sim_ns"] = arrivals.message_ns
    messages["cosim_ns"] = likewise.run(source, destination, sizes).finish_fs / 1e6
    at_rungs = [messages_fs(system, rung, source, destination, sizes) / 1e6 for rung in ("link", "flit")]
    return Phase(name, network, messages, *at_rungs)
