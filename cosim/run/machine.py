"""A system built for one rung of the ladder: the engine with its nodes, and the figures they keep.

The rung chooses the network (``link``: reserved links, ``flit``: flits) and the memory (``rate``, ``command``);
everything else is the same at every rung.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cosim._core import Clock, Engine, TaskKind
from cosim.config.schema_network import MESSAGE_CLASSES
from cosim.policy.base import Pressure
from cosim.run.memory_channel import MemoryChannel
from cosim.run.network_columns import flit_graph, link_tables

if TYPE_CHECKING:
    from cosim.policy.residency import CopyOrder, Residency
    from cosim.system import System

__all__ = ["COMPUTE", "DECISION", "FETCH", "REVOKE", "RUNG_KNOBS", "Machine", "build_machine", "single_task"]

FETCH = int(TaskKind.fetch)
REVOKE = int(TaskKind.revoke)
COMPUTE = int(TaskKind.compute)
DECISION = int(TaskKind.decision)
_COPY = int(TaskKind.copy)

RUNG_KNOBS = {
    "link": ("link", "rate"),
    "link+command": ("link", "command"),
    "flit+rate": ("flit", "rate"),
    "flit": ("flit", "command"),
}
"""Rung → (network, memory)."""

_COLUMNS: dict[str, Any] = {
    "kind": np.uint8,
    "message_class": np.uint8,
    "prefetch": np.uint8,
    "source": np.int32,
    "destination": np.int32,
    "bytes": np.int64,
    "address": np.int64,
    "to_address": np.int64,
    "cycles": np.int64,
    "stream": np.int64,
    "key": np.int64,
}
_NONE = np.empty(0, dtype=np.int64)


def single_task(
    kind: int, **fields: int
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Columns of one task without dependencies, as ``Engine.submit`` takes them."""
    defaults = {"source": -1, "destination": -1, "stream": -1, "key": -1}
    values = {**dict.fromkeys(_COLUMNS, 0), **defaults, "kind": kind, **fields}
    return {name: np.array([values[name]], dtype=dtype) for name, dtype in _COLUMNS.items()}, _NONE, _NONE


def clock(frequency_hz: Fraction) -> Clock:
    """The core's clock of an exact frequency."""
    return Clock(frequency_hz.numerator, frequency_hz.denominator)


@dataclass
class Machine:
    """One engine and where its nodes are.

    nodes: engine node of each endpoint, -1 for endpoints without one (control), int32, shape (endpoints,).
    classes: message class name → number.
    """

    system: System
    rung: str
    engine: Engine
    network: int
    nodes: npt.NDArray[np.int32]
    classes: dict[str, int]
    compute_endpoints: npt.NDArray[np.int32]
    channels: dict[int, MemoryChannel]

    @property
    def network_kind(self) -> str:
        """``link`` or ``flit``."""
        return RUNG_KNOBS[self.rung][0]

    @property
    def memory_kind(self) -> str:
        """``rate`` or ``command``."""
        return RUNG_KNOBS[self.rung][1]

    @property
    def now_fs(self) -> int:
        """The engine's time."""
        return int(self.engine.now_fs)

    def network_statistics(self) -> dict[str, Any]:
        """Counters of the network node."""
        if self.network_kind == "flit":
            return dict(self.engine.flit_network_statistics(self.network))
        return dict(self.engine.link_network_statistics(self.network))

    def memory_statistics(self, endpoint: int) -> dict[str, Any]:
        """Counters of one memory endpoint."""
        node = int(self.nodes[endpoint])
        if self.memory_kind == "command":
            return dict(self.engine.memory_statistics(node))
        return dict(self.engine.rate_memory_statistics(node))

    def compute_statistics(self, endpoint: int) -> dict[str, Any]:
        """Counters of one compute endpoint."""
        return dict(self.engine.compute_statistics(int(self.nodes[endpoint])))

    def pressure(self, residency: Residency) -> Pressure:
        """Shares of the time since the start of the run."""
        endpoints = len(self.nodes)
        compute, bank = np.zeros(endpoints), np.zeros(endpoints)
        elapsed_fs = self.now_fs
        links = len(self.system.links)
        link = np.zeros(links)
        if elapsed_fs > 0:
            level = self.system.level
            elapsed_cycles = float(Fraction(elapsed_fs, 10**15) * level.clock)
            for place in self.system.compute_endpoints:
                compute[place.index] = self.compute_statistics(place.index)["busy_cycles"] / elapsed_cycles
            for place in self.system.memory_endpoints:
                assert place.memory is not None
                peak = float(place.memory.peak_Bps) * elapsed_fs / 1e15
                bank[place.index] = self.memory_statistics(place.index)["read_bytes"] / peak
            statistics = self.network_statistics()
            if self.network_kind == "flit":
                flits = statistics["link_vc_flits"].reshape(links, level.num_vcs).sum(axis=1)
                link = flits / elapsed_cycles
            else:
                link = statistics["link_busy_fs"] / elapsed_fs
        return Pressure(compute, link, bank, residency.tier_used(endpoints), residency.migrating_bytes)

    def submit_copy(self, order: CopyOrder, effective_fs: int, decision_key: int) -> int:
        """Starts a copy and a decision behind it; returns the copy's task."""
        copy, _, _ = single_task(
            _COPY,
            message_class=self.classes["prefetch"],
            source=int(self.nodes[order.from_memory]),
            destination=int(self.nodes[order.to_memory]),
            bytes=order.bytes,
            address=order.from_address,
            to_address=order.to_address,
        )
        done, _, _ = single_task(DECISION, key=decision_key)
        columns = {name: np.concatenate([copy[name], done[name]]) for name in copy}
        zero, one = np.array([0], dtype=np.int64), np.array([1], dtype=np.int64)
        return int(self.engine.submit(columns, zero, one, effective_fs))

    def link_bytes(self) -> int:
        """Bytes that crossed links, headers and padding included where there are flits."""
        statistics = self.network_statistics()
        if self.network_kind == "flit":
            return int(statistics["link_vc_flits"].sum()) * self.system.level.flit_width
        return int(statistics["link_class_bytes"].sum())

    def figures(self) -> dict[str, int]:
        """Exact counts of the run, by name with unit."""
        statistics = self.network_statistics()
        figures = {"simulated_fs": self.now_fs, "engine_instants": int(self.engine.instants)}
        if self.network_kind == "flit":
            figures["flit_hops"] = int(statistics["flit_hops"])
            for name, sums in zip(self.classes, statistics["classes"], strict=True):
                figures[f"packets_{name}"] = int(sums["packets"])
                for term in ("latency", "source_queueing", "router", "link", "serialisation", "contention"):
                    figures[f"{term}_{name}_cycles"] = int(sums[f"{term}_cycles"])
        else:
            figures["link_hops"] = int(statistics["hop_events"])
        memories = [self.memory_statistics(place.index) for place in self.system.memory_endpoints]
        for name in ("read_bytes", "written_bytes", "cancelled_bytes"):
            figures[f"dram_{name}"] = sum(int(memory[name]) for memory in memories)
        computes = [self.compute_statistics(place.index) for place in self.system.compute_endpoints]
        figures["compute_busy_cycles"] = sum(int(compute["busy_cycles"]) for compute in computes)
        figures["wasted_prefetch_bytes"] = sum(int(compute["wasted_bytes"]) for compute in computes)
        return figures

    def memory_joules(self) -> float | None:
        """Energy of all memory endpoints; ``None`` where memory is a rate or a standard has no figures."""
        if self.memory_kind != "command":
            return None
        parts = []
        for place in self.system.memory_endpoints:
            channel = self.channels[place.index]
            ticks = int(Fraction(self.now_fs, 10**15) * channel.tick_hz)
            parts.append(channel.joules(dict(self.engine.memory_totals(int(self.nodes[place.index]))), ticks))
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def check_conservation(self) -> None:
        """Law: injected = delivered, asked = served + cancelled, every buffer and credit is home again.

        Raises:
            ConservationError: naming what is missing where.
        """
        problems = []
        network = self.network_statistics()
        if network["messages_in_flight"]:
            problems.append(f"network: {network['messages_in_flight']} messages are still under way")
        if network["conservation_error"]:
            problems.append(f"network: {network['conservation_error']}")
        for place in self.system.memory_endpoints:
            statistics = self.memory_statistics(place.index)
            if statistics.get("conservation_error"):
                problems.append(f"{place.label}: {statistics['conservation_error']}")
        for place in self.system.compute_endpoints:
            statistics = self.compute_statistics(place.index)
            if statistics["unfinished"] or statistics["free_tiles"] != statistics["buffer_tiles"]:
                problems.append(
                    f"{place.label}: {statistics['unfinished']} streams or jobs left, "
                    f"{statistics['free_tiles']} of {statistics['buffer_tiles']} tiles free"
                )
        if problems:
            raise ConservationError("conservation is broken\n  " + "\n  ".join(problems))


class ConservationError(RuntimeError):
    """Something was lost or invented: a fault of the simulator, never of the input."""


def build_machine(system: System, rung: str) -> Machine:
    """The system at one rung, empty at time zero."""
    network_kind, memory_kind = RUNG_KNOBS[rung]
    engine = Engine()
    level = system.level
    level_clock = clock(level.clock)
    classes = {name: number for number, name in enumerate(MESSAGE_CLASSES)}
    # node ids follow the order of additions; node 0 is the task graph
    attached = [place.index for place in (*system.compute_endpoints, *system.memory_endpoints)]
    nodes = np.full(len(system.endpoints), -1, dtype=np.int32)
    nodes[attached] = 1 + np.arange(len(attached), dtype=np.int32)
    network_node = 1 + len(attached)
    for place in system.compute_endpoints:
        spec = place.spec
        assert spec.tile is not None
        assert spec.expert_buffer is not None
        engine.add_compute(
            clock=level_clock,
            tile_bytes=spec.tile,
            buffer_tiles=spec.expert_buffer // spec.tile,
            grant_latency_cycles=spec.grant_latency,
        )
    payload = level.max_packet_flits * level.flit_width - level.header_bytes
    channels = {}
    for place in system.memory_endpoints:
        assert place.memory is not None
        assert place.spec.memory is not None
        assert place.spec.read_return_slots is not None
        channels[place.index] = MemoryChannel(place.spec.memory)
        latency_fs = _fs(place.spec.grant_latency / level.clock)
        if memory_kind == "rate":
            engine.add_rate_memory(
                clock=level_clock,
                bytes_per_second=int(place.memory.peak_Bps),
                latency_fs=_fs(channels[place.index].idle_read_latency_s),
                grant_latency_fs=latency_fs,
                copy_chunk_bytes=4096,
                network=network_node,
            )
        else:
            engine.add_memory(
                clock=clock(channels[place.index].tick_hz),
                channels=place.spec.memory.channels,
                read_return_slots=place.spec.read_return_slots,
                packet_payload_bytes=payload,
                grant_latency_fs=latency_fs,
                network=network_node,
                channel=channels[place.index].core,
                address_map=channels[place.index].address_map,
            )
    if network_kind == "flit":
        engine.add_flit_network(
            graph=flit_graph(system),
            clock=level_clock,
            flit_bytes=level.flit_width,
            header_bytes=level.header_bytes,
            max_packet_flits=level.max_packet_flits,
            message_classes=len(classes),
            endpoint_node=nodes[attached].tolist(),
            endpoint_terminals=[list(system.endpoints[endpoint].terminals) for endpoint in attached],
        )
    else:
        engine.add_link_network(
            **link_tables(system),
            endpoint_node=nodes[attached].tolist(),
            endpoint_router=[system.endpoints[endpoint].router for endpoint in attached],
            chunks_per_message=20,
            hop_latency_fs=0,
            message_classes=len(classes),
        )
    return Machine(
        system,
        rung,
        engine,
        network_node,
        nodes,
        classes,
        np.array([place.index for place in system.compute_endpoints], dtype=np.int32),
        channels,
    )


def _fs(seconds: Fraction) -> int:
    exact = Fraction(seconds) * 10**15
    return -(-exact.numerator // exact.denominator)
