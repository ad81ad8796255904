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
from cosim.run.broadcast import broadcast_steps
from cosim.run.memory_channel import MemoryChannel
from cosim.run.network_columns import end_terminals, flit_graph, link_tables, packet_payloads, ways

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cosim.policy.residency import BroadcastOrder, CopyOrder, WriteOrder
    from cosim.system import System
    from cosim.system.networks import Gateway, Network

__all__ = ["COMPUTE", "DECISION", "FETCH", "REVOKE", "RUNG_KNOBS", "STREAM", "Machine", "build_machine", "single_task"]

FETCH = int(TaskKind.fetch)
REVOKE = int(TaskKind.revoke)
COMPUTE = int(TaskKind.compute)
DECISION = int(TaskKind.decision)
STREAM = int(TaskKind.stream)
_COPY = int(TaskKind.copy)
_DELAY = int(TaskKind.delay)

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
    "group": np.int32,
}
_UNSET = ("source", "destination", "stream", "key", "group")
_TERMS = ("source_queueing", "router", "link", "serialisation", "contention", "session_wait", "retry", "gateway")
_NONE = np.empty(0, dtype=np.int64)


def single_task(
    kind: int, **fields: int
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Columns of one task without dependencies, as ``Engine.submit`` takes them."""
    values = {**dict.fromkeys(_COLUMNS, 0), **dict.fromkeys(_UNSET, -1), "kind": kind, **fields}
    return {name: np.array([values[name]], dtype=dtype) for name, dtype in _COLUMNS.items()}, _NONE, _NONE


def clock(frequency_hz: Fraction) -> Clock:
    """The core's clock of an exact frequency."""
    return Clock(frequency_hz.numerator, frequency_hz.denominator)


@dataclass
class Machine:
    """One engine and where its nodes are.

    networks: engine node of each flit network of the system, or of the one network of reserved links.
    gateways: engine nodes of each gateway, up and down; none on reserved links.
    nodes: engine node of each endpoint, -1 for endpoints without one (control), int32, shape (endpoints,).
    classes: message class name → number.
    near_paths: compute endpoint stacked with a memory → engine node of the path between them.
    """

    system: System
    rung: str
    engine: Engine
    networks: tuple[int, ...]
    gateways: tuple[tuple[int, int], ...]
    nodes: npt.NDArray[np.int32]
    classes: dict[str, int]
    compute_endpoints: npt.NDArray[np.int32]
    channels: dict[int, MemoryChannel]
    near_paths: dict[int, int]

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

    def flit_statistics(self, network: int) -> dict[str, Any]:
        """Counters of one flit network, by its position in the system."""
        found = dict(self.engine.flit_network_statistics(self.networks[network]))
        for key in ("classes", "journeys"):
            rows = list(found[key])
            # a level without broadcasts in a system that has them elsewhere
            found[key] = rows + [dict.fromkeys(rows[0], 0)] * (len(self.classes) - len(rows))
        return found

    def link_statistics(self) -> dict[str, Any]:
        """Counters of the network of reserved links; links of gateways follow those of the networks."""
        return dict(self.engine.link_network_statistics(self.networks[0]))

    def gateway_statistics(self, gateway: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Counters of a gateway's directions, up and down."""
        up, down = self.gateways[gateway]
        return dict(self.engine.gateway_statistics(up)), dict(self.engine.gateway_statistics(down))

    def memory_statistics(self, endpoint: int) -> dict[str, Any]:
        """Counters of one memory endpoint."""
        node = int(self.nodes[endpoint])
        if self.memory_kind == "command":
            return dict(self.engine.memory_statistics(node))
        return dict(self.engine.rate_memory_statistics(node))

    def compute_statistics(self, endpoint: int) -> dict[str, Any]:
        """Counters of one compute endpoint."""
        return dict(self.engine.compute_statistics(int(self.nodes[endpoint])))

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
        return self._submit_before_decision(copy, effective_fs, decision_key)

    def submit_write(self, order: WriteOrder, effective_fs: int, decision_key: int) -> int:
        """Has a memory write a region over, and a decision behind it; returns the task that writes.

        The memory makes the bytes itself: they cross no link, and its banks write them between what else it does.
        """
        erase, _, _ = single_task(
            _COPY,
            message_class=self.classes["prefetch"],
            destination=int(self.nodes[order.memory]),
            bytes=order.bytes,
            to_address=order.address,
        )
        return self._submit_before_decision(erase, effective_fs, decision_key)

    def _submit_before_decision(self, task: dict[str, npt.NDArray[Any]], effective_fs: int, decision_key: int) -> int:
        done, _, _ = single_task(DECISION, key=decision_key)
        columns = {name: np.concatenate([task[name], done[name]]) for name in task}
        zero, one = np.array([0], dtype=np.int64), np.array([1], dtype=np.int64)
        return int(self.engine.submit(columns, zero, one, effective_fs))

    def submit_broadcast(self, order: BroadcastOrder, effective_fs: int, first_key: int) -> tuple[int, list[int]]:
        """Starts the copies of a broadcast; behind the last of them a decision for each, ``first_key`` + its replica.

        Returns the task that ends with the last copy, and the copies themselves.
        """
        steps = broadcast_steps(self.system.routes, order)
        copies, members = len(steps.bytes), len(order.copies)
        kind = np.concatenate([np.full(copies, _COPY), [_DELAY], np.full(members, DECISION)])
        columns = {name: np.full(len(kind), -1 if name in _UNSET else 0, dtype) for name, dtype in _COLUMNS.items()}
        columns["kind"][:] = kind
        columns["message_class"][:copies] = self.classes["prefetch"]
        columns["source"][:copies] = self.nodes[steps.source]
        columns["destination"][:copies] = self.nodes[steps.destination]
        for name in ("bytes", "address", "to_address"):
            columns[name][:copies] = getattr(steps, name)
        columns["key"][copies + 1 :] = [first_key + copy.replica for copy in order.copies]
        joined = np.arange(copies, dtype=np.int64)
        told = copies + 1 + np.arange(members, dtype=np.int64)
        before = np.concatenate([steps.before, joined, np.full(members, copies, dtype=np.int64)])
        after = np.concatenate([steps.after, np.full(copies, copies, dtype=np.int64), told])
        base = int(self.engine.submit(columns, before, after, effective_fs))
        return base + copies, list(range(base, base + copies))

    def group(self, endpoints: Sequence[int]) -> int:
        """The number of a set of compute endpoints, for the column `group` of a stream or a transfer.

        A stream (`TaskKind.stream`) reads weights once, at its memory endpoint `source`, and brings them to all of the
        group, tile by tile: in the message class `multicast` or `session`, which the level's `broadcast` must have, as
        multicasts or over a session, in another as a message to each; to the endpoint that the memory is stacked with
        over their path. Each endpoint needs one compute task of the same submission whose `stream` it is.

        Raises:
            ValueError: endpoints that do not compute, of several networks or with tiles of different sizes; more than
                64 of them.
        """
        places = [self.system.endpoints[endpoint] for endpoint in endpoints]
        if any(place.spec.compute is None for place in places):
            raise ValueError("a group is a set of compute endpoints")
        if len({place.network for place in places}) > 1:
            raise ValueError("a group lies in one network: " + ", ".join(place.label for place in places))
        if len({place.spec.tile for place in places}) > 1:
            raise ValueError("the endpoints of a group have tiles of one size")
        if len(places) > 64:
            raise ValueError(f"a group has at most 64 endpoints, not {len(places)}")
        return int(self.engine.add_group([int(self.nodes[endpoint]) for endpoint in endpoints]))

    def link_bytes(self) -> int:
        """Bytes that crossed links, headers and padding included where there are flits; gateways are no links."""
        if self.network_kind == "flit":
            carried = ("link_vc_flits", "link_session_flits")
            return sum(
                int(self.flit_statistics(network.index)[flits].sum()) * network.level.flit_width
                for network in self.system.networks
                for flits in carried
            )
        return int(
            self.link_statistics()["link_class_bytes"].reshape(-1, len(self.classes))[: len(self.system.links)].sum()
        )

    def near_memory_bytes(self) -> int:
        """Bytes that went from memories straight to the compute endpoints that they are stacked with."""
        return sum(int(self.engine.near_path_statistics(node)["moved_bytes"]) for node in self.near_paths.values())

    def router_bytes(self) -> int:
        """Bytes of flits that left a router, ejection included; on flit networks."""
        return sum(
            int(self.flit_statistics(network.index)["flit_hops"]) * network.level.flit_width
            for network in self.system.networks
        )

    def figures(self) -> dict[str, int]:
        """Exact counts of the run, by name with unit."""
        figures = {"simulated_fs": self.now_fs, "engine_instants": int(self.engine.instants)}
        if self.network_kind == "flit":
            figures.update(self._flit_figures())
        else:
            figures["link_hops"] = int(self.link_statistics()["hop_events"])
        memories = [self.memory_statistics(place.index) for place in self.system.memory_endpoints]
        for name in ("read_bytes", "written_bytes", "cancelled_bytes"):
            figures[f"dram_{name}"] = sum(int(memory[name]) for memory in memories)
        if self.near_paths:
            figures["near_memory_bytes"] = self.near_memory_bytes()
        computes = [self.compute_statistics(place.index) for place in self.system.compute_endpoints]
        figures["compute_busy_cycles"] = sum(int(compute["busy_cycles"]) for compute in computes)
        figures["wasted_prefetch_bytes"] = sum(int(compute["wasted_bytes"]) for compute in computes)
        return figures

    def _flit_figures(self) -> dict[str, int]:
        """Of one level in its cycles; of several per level, and the whole ways' terms in fs."""
        networks = self.system.networks
        statistics = [self.flit_statistics(network.index) for network in networks]
        figures = {"flit_hops": sum(int(one["flit_hops"]) for one in statistics)}
        several = len(networks) > 1
        for level in sorted(self.system.spec.levels) if several else ():
            figures[f"flit_hops_{level}"] = sum(
                int(one["flit_hops"])
                for network, one in zip(networks, statistics, strict=True)
                if network.level_name == level
            )
        sessions = "session" in self.classes
        retries = any(level.retry is not None for level in self.system.spec.levels.values())
        absent = {"session_wait": not sessions, "retry": not retries}
        terms = ("latency", *(term for term in _TERMS[:-1] if not absent.get(term, False)))
        if sessions:
            figures["session_flit_hops"] = sum(int(one["session_flit_hops"]) for one in statistics)
        for number, name in enumerate(self.classes):
            if not several:
                sums = statistics[0]["classes"][number]
                figures[f"packets_{name}"] = int(sums["packets"])
                figures.update({f"{term}_{name}_cycles": int(sums[f"{term}_cycles"]) for term in terms})
                continue
            journeys = [one["journeys"][number] for one in statistics]
            figures[f"packets_{name}"] = sum(int(one["packets"]) for one in journeys)
            for term in (*terms, "gateway"):
                figures[f"{term}_{name}_fs"] = sum(int(one[f"{term}_fs"]) for one in journeys)
            if name not in MESSAGE_CLASSES:
                continue  # broadcasts stay in one network
            passed = [self.gateway_statistics(gateway.index) for gateway in self.system.gateways]
            figures[f"gateway_{name}_bytes"] = sum(
                int(way["forwarded_bytes"][number]) for both in passed for way in both
            )
        return figures

    def memory_joules(self) -> float | None:
        """Energy of all memory endpoints; ``None`` where one has no figures.

        Bytes read and written times the tier's ``access_energy`` where it has one, else the standard's energies of the
        commands that were issued, of which there are none where memory is a rate.
        """
        per_byte = {tier.on: tier.access_energy for tier in self.system.spec.tiers.values() if tier.access_energy}
        parts: list[float | None] = []
        for place in self.system.memory_endpoints:
            if place.name in per_byte:
                moved = self.memory_statistics(place.index)
                parts.append(float((moved["read_bytes"] + moved["written_bytes"]) * per_byte[place.name]))
                continue
            if self.memory_kind != "command":
                return None
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
        if self.network_kind == "flit":
            found = [(network.label, self.flit_statistics(network.index)) for network in self.system.networks]
        else:
            found = [("links", self.link_statistics())]
        for label, network in found:
            if network["messages_in_flight"]:
                problems.append(f"network {label}: {network['messages_in_flight']} messages are still under way")
            if network["conservation_error"]:
                problems.append(f"network {label}: {network['conservation_error']}")
        if self.network_kind == "flit":
            problems += self._term_errors([statistics for _, statistics in found])
        for gateway in self.system.gateways if self.gateways else ():
            for way, passed in zip(("up", "down"), self.gateway_statistics(gateway.index), strict=True):
                if passed["open_messages"]:
                    problems.append(
                        f"gateway {gateway.label} {way}: {passed['open_messages']} messages have not passed"
                    )
                if passed["conservation_error"]:
                    problems.append(f"gateway {gateway.label} {way}: {passed['conservation_error']}")
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

    def _term_errors(self, networks: list[dict[str, Any]]) -> list[str]:
        """Law: the terms of the latencies sum to them exactly, over all networks."""
        errors = []
        for number, name in enumerate(self.classes):
            journeys = [network["journeys"][number] for network in networks]
            latency = sum(int(one["latency_fs"]) for one in journeys)
            terms = sum(int(one[f"{term}_fs"]) for one in journeys for term in _TERMS)
            if latency != terms:
                errors.append(f"latencies of class {name}: {latency} fs, their terms {terms} fs")
        return errors


class ConservationError(RuntimeError):
    """Something was lost or invented: a fault of the simulator, never of the input."""


def build_machine(system: System, rung: str, *, seed: int = 1, journal: bool = False, skipping: bool = True) -> Machine:
    """The system at one rung, empty at time zero.

    Args:
        seed: of the draws of random routings.
        journal: memories show their commands to the engine's journal.
        skipping: move a system that repeats itself on by whole periods; the same results for less work.
    """
    network_kind, memory_kind = RUNG_KNOBS[rung]
    engine = Engine()
    engine.skipping = skipping
    classes = {name: number for number, name in enumerate(MESSAGE_CLASSES)}
    for name in system.broadcast_ways:
        classes[name] = len(classes)
    # node ids follow the order of additions: the task graph, endpoints, gateways, networks, near-memory paths
    attached = [place.index for place in (*system.compute_endpoints, *system.memory_endpoints)]
    nodes = np.full(len(system.endpoints), -1, dtype=np.int32)
    nodes[attached] = 1 + np.arange(len(attached), dtype=np.int32)
    first = 1 + len(attached)
    gateways: tuple[tuple[int, int], ...] = ()
    if network_kind == "flit":
        gateways = tuple((first + 2 * g.index, first + 2 * g.index + 1) for g in system.gateways)
        first += 2 * len(gateways)
        networks = tuple(first + network.index for network in system.networks)
    else:
        networks = (first,)
    stacked = system.near_memories
    near_paths = {compute: networks[-1] + 1 + number for number, compute in enumerate(stacked)}
    readers = {memory: compute for compute, memory in stacked.items()}
    network_of = {place.index: networks[place.network if network_kind == "flit" else 0] for place in system.endpoints}
    for place in system.compute_endpoints:
        spec = place.spec
        assert spec.tile is not None
        assert spec.expert_buffer is not None
        engine.add_compute(
            clock=clock(system.network_of(place).level.clock),
            tile_bytes=spec.tile,
            buffer_tiles=spec.expert_buffer // spec.tile,
            grant_latency_cycles=spec.grant_latency,
        )
    routers = np.array([place.router for place in system.endpoints], dtype=np.int32)
    payloads = packet_payloads(system, routers)[:, routers[attached]].min(axis=1)
    channels = {}
    of_kind: dict[str, MemoryChannel] = {}  # reading a standard takes longer than a layer
    for place in system.memory_endpoints:
        assert place.memory is not None
        assert place.spec.memory is not None
        assert place.spec.read_return_slots is not None
        channels[place.index] = of_kind.setdefault(place.name, MemoryChannel(place.spec.memory))
        latency_fs = _fs(place.spec.grant_latency / system.network_of(place).level.clock)
        reader = readers.get(place.index)
        near = {} if reader is None else {"near_reader": int(nodes[reader]), "near_path": near_paths[reader]}
        if memory_kind == "rate":
            engine.add_rate_memory(
                clock=clock(system.network_of(place).level.clock),
                bytes_per_second=int(place.memory.peak_Bps),
                latency_fs=_fs(channels[place.index].idle_read_latency_s),
                grant_latency_fs=latency_fs,
                copy_chunk_bytes=4096,
                network=network_of[place.index],
                **near,
            )
        else:
            channel = channels[place.index].core
            channel.log_commands = journal
            engine.add_memory(
                clock=clock(channels[place.index].tick_hz),
                channels=place.spec.memory.channels,
                read_return_slots=place.spec.read_return_slots,
                packet_payload_bytes=int(payloads[place.index]),
                grant_latency_fs=latency_fs,
                network=network_of[place.index],
                channel=channel,
                address_map=channels[place.index].address_map,
                **near,
            )
    if network_kind == "flit":
        for gateway in system.gateways:
            for way in (0, 1):
                _add_gateway(engine, system, gateway, way, networks, list(MESSAGE_CLASSES))
        for network in system.networks:
            _add_flit_network(engine, system, network, nodes, gateways, seed)
    else:
        engine.add_link_network(
            **link_tables(system),
            endpoint_node=nodes[attached].tolist(),
            endpoint_router=[system.endpoints[endpoint].router for endpoint in attached],
            chunks_per_message=20,
            hop_latency_fs=0,
            message_classes=len(classes),
            unicast_classes=len(MESSAGE_CLASSES),
        )
    for compute in stacked:
        path = system.endpoints[compute].spec.near_memory
        assert path is not None
        engine.add_near_path(bytes_per_second=int(path.bandwidth), latency_fs=path.latency)
    return Machine(
        system,
        rung,
        engine,
        networks,
        gateways,
        nodes,
        classes,
        np.array([place.index for place in system.compute_endpoints], dtype=np.int32),
        channels,
        near_paths,
    )


def _add_gateway(
    engine: Engine, system: System, gateway: Gateway, way: int, networks: tuple[int, ...], classes: list[str]
) -> None:
    """One direction of a gateway: up (0) or down (1)."""
    ends = (gateway.networks[way], gateway.networks[1 - way])
    from_level, to_level = (system.networks[end].level for end in ends)
    held = gateway.spec.buffer.by_class()
    engine.add_gateway(
        name=f"{gateway.label} {('up', 'down')[way]}",
        clock=clock(to_level.clock),
        from_clock=clock(from_level.clock),
        from_network=networks[ends[0]],
        to_network=networks[ends[1]],
        from_flit_bytes=from_level.flit_width,
        from_header_bytes=from_level.header_bytes,
        to_flit_bytes=to_level.flit_width,
        to_header_bytes=to_level.header_bytes,
        synchroniser_cycles=gateway.spec.synchroniser_cycles,
        grant_latency_cycles=gateway.spec.grant_latency,
        buffer_bytes=[held[name] for name in classes],
    )


def _add_flit_network(
    engine: Engine,
    system: System,
    network: Network,
    nodes: npt.NDArray[np.int32],
    gateways: tuple[tuple[int, int], ...],
    seed: int,
) -> None:
    level = network.level
    broadcast = level.message_classes.broadcast
    of_endpoint, of_gateway, _ = end_terminals(system, network)
    ends = [(int(nodes[e]), system.endpoints[e].router, t, 0) for e, t in of_endpoint.items() if nodes[e] >= 0]
    takers: list[tuple[int, Gateway, int]] = []
    rows = []
    for index, terminals in of_gateway.items():
        gateway = system.gateways[index]
        end = gateway.networks.index(network.index)
        # the direction that comes from here and the one that leads here share the terminals
        for way in (0, 1):
            ends.append((gateways[index][way], gateway.routers[end], terminals, int(way == 1 and end == 0)))
        other = system.networks[gateway.networks[1 - end]].level
        rows.append((gateways[index][end], clock(other.clock), gateway.spec.synchroniser_cycles))
        takers.append((len(takers), gateway, end))
    extra: dict[str, Any] = {}
    if gateways:
        node_router = np.full(int(nodes.max()) + 1, -1, dtype=np.int32)
        for place in system.endpoints:
            if nodes[place.index] >= 0:
                node_router[nodes[place.index]] = place.router
        towards, payloads = ways(system, network, [router for _, router, _, _ in ends], node_router, takers)
        extra = {
            "legs": network.legs,
            "descends": [descends for _, _, _, descends in ends],
            "gateways": rows,
            "nodes": len(node_router),
            "gateway_towards": towards,
            "payload_towards": payloads,
        }
    engine.add_flit_network(
        graph=flit_graph(system, network, seed),
        clock=clock(level.clock),
        flit_bytes=level.flit_width,
        header_bytes=level.header_bytes,
        max_packet_flits=level.max_packet_flits,
        message_classes=len(MESSAGE_CLASSES) + (0 if broadcast is None else len(broadcast.ways)),
        endpoint_node=[node for node, _, _, _ in ends],
        endpoint_terminals=[terminals for _, _, terminals, _ in ends],
        name=network.label,
        **extra,
    )


def _fs(seconds: Fraction) -> int:
    exact = Fraction(seconds) * 10**15
    return -(-exact.numerator // exact.denominator)
