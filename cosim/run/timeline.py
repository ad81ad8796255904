"""A few layers of a run, event by event: token groups, chiplets, links and banks, for a trace viewer.

The unit is simulated again from its start and left when the wanted layers are over; nothing simulated depends on being
watched. On reserved links a slice is one chunk of a message; at rate level a memory is one track.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cosim import _core
from cosim.config.errors import ConfigErrors
from cosim.report.timeline import Arrow, Slice, Timeline, Track
from cosim.run.loop import LayerResult, RunLoop
from cosim.run.machine import Machine
from cosim.run.network_columns import end_terminals
from cosim.run.setup import Setup
from cosim.run.unit import UnitKey, unit_loop
from cosim.system.networks import Network
from cosim.workload.lowering import LayerTasks

__all__ = ["TimelineRequest", "record_timeline", "recorded_positions"]

_Columns = Mapping[str, npt.NDArray[np.int64]]
_ROW = {"RD": "read", "RDA": "read", "WR": "write", "WRA": "write"}


@dataclass(frozen=True)
class TimelineRequest:
    """What to record: ``layers`` layers from (``batch``, ``layer``) on, at most ``limit`` uses of links and banks each.

    ``layer`` is a MoE layer that runs; the first one if not given.
    """

    batch: int = 0
    layer: int | None = None
    layers: int = 1
    limit: int = 200_000


class _EnoughError(Exception):
    """The wanted layers are over."""


@dataclass
class _Seen:
    """One recorded layer."""

    result: LayerResult
    tasks: LayerTasks
    base: int
    records: _Columns


@dataclass
class _Watch:
    """Turns the journal on for the wanted layers, and stops the run behind them."""

    loop: RunLoop
    first: int
    last: int
    limit: int
    seen: list[_Seen] = field(default_factory=list)

    def start(self) -> None:
        self.loop.layer_over = self._take
        self.loop.between_layers = self._between
        if self.first == 0:
            self.loop.machine.engine.keep_journal(self.limit)

    def _take(self, result: LayerResult, tasks: LayerTasks, base: int, records: _Columns) -> None:
        if self.loop.position >= self.first:
            self.seen.append(_Seen(result, tasks, base, records))

    def _between(self, loop: RunLoop) -> None:
        if loop.position == self.first:
            loop.machine.engine.keep_journal(self.limit)
        if loop.position == self.last + 1:
            raise _EnoughError


def recorded_positions(setup: Setup, request: TimelineRequest) -> tuple[int, int]:
    """The first and last of the layers that are asked for, counted over all batches.

    Raises:
        ConfigErrors: a batch or layer that the experiment does not run.
    """
    layers, batches = setup.layers, setup.spec.workload.batches
    layer = layers[0] if request.layer is None else request.layer
    if layer not in layers:
        raise ConfigErrors.single(f"one of the layers {layers[0]} to {layers[-1]} that run", str(layer), path="trace")
    if not 0 <= request.batch < batches:
        raise ConfigErrors.single(f"a batch, 0 to {batches - 1}", str(request.batch), path="trace")
    first = request.batch * len(layers) + layers.index(layer)
    return first, min(first + request.layers, batches * len(layers)) - 1


def record_timeline(setup: Setup, keys: Sequence[UnitKey], request: TimelineRequest) -> Timeline:
    """The wanted layers of each unit, one group of tracks beside the other.

    Raises:
        ConfigErrors: a batch or layer that the experiment does not run.
    """
    layers = setup.layers
    first, last = recorded_positions(setup, request)
    slices: list[Slice] = []
    arrows: list[Arrow] = []
    units = []
    for key in keys:
        loop = unit_loop(setup, key, journal=True)
        watch = _Watch(loop, first, last, request.limit)
        watch.start()
        with contextlib.suppress(_EnoughError):
            loop.run()
        journal = loop.machine.engine.journal()
        drawn = _Drawing(f"{key.policy} at {key.rung}, seed {key.seed}", loop.machine, watch.seen, journal)
        slices += drawn.slices
        arrows += drawn.arrows
        units.append(
            {
                "policy": key.policy,
                "rung": key.rung,
                "seed": key.seed,
                "link_uses": len(journal["links"]["task"]),
                "bank_uses": len(journal["banks"]["task"]),
                "left_out": int(journal["left_out"]),
            }
        )
    facts = {
        "recorded": [
            {"batch": one // len(layers), "layer": layers[one % len(layers)]} for one in range(first, last + 1)
        ],
        "units": units,
        "limit": request.limit,
        "not_recorded": "ejection channels, gateways, credits; earlier and later layers",
    }
    return Timeline(tuple(slices), tuple(arrows), facts)


class _Drawing:
    """Slices and arrows of one unit."""

    def __init__(self, title: str, machine: Machine, seen: Sequence[_Seen], journal: Mapping[str, Any]) -> None:
        self.slices: list[Slice] = []
        self.arrows: list[Arrow] = []
        self._title = title
        self._machine = machine
        self._labels = {place.index: place.label for place in machine.system.endpoints}
        self._of_task: dict[int, str] = {}
        by_link = self._by_task(self._links(journal["links"], seen))
        by_bank = self._by_task(self._banks(journal["banks"]))
        for layer in seen:
            self._layer(layer, by_link, by_bank)

    def _add(
        self,
        group: str,
        position: int,
        name: str,
        begin: int,
        end: int,
        text: str,
        part_of: Slice | None = None,
        **args: Any,
    ) -> Slice:
        item = Slice(Track(f"{self._title}: {group}", position, name), begin, end, text, args, part_of)
        self.slices.append(item)
        return item

    @staticmethod
    def _by_task(found: Iterator[tuple[int, Slice]]) -> dict[int, list[Slice]]:
        by_task: dict[int, list[Slice]] = defaultdict(list)
        for task, item in found:
            by_task[task].append(item)
        return by_task

    # -- links and banks

    def _name_tasks(self, seen: Sequence[_Seen]) -> None:
        for layer in seen:
            tasks, base = layer.tasks, layer.base
            experts = layer.result.groups["expert"].tolist()
            for group, expert in enumerate(experts):
                fetch = int(tasks.fetch_of_replica[tasks.replica_of_group[group]])
                self._of_task[base + fetch] = f"weights of expert {expert}"
                for column, text in (
                    (tasks.dispatch_of_group, f"tokens to expert {expert}"),
                    (tasks.gather_of_group, f"outputs of expert {expert}"),
                ):
                    if column[group] >= 0:
                        self._of_task[base + int(column[group])] = text

    def _links(self, uses: Mapping[str, npt.NDArray[Any]], seen: Sequence[_Seen]) -> Iterator[tuple[int, Slice]]:
        self._name_tasks(seen)
        names = self._link_names()
        columns = ("begin_fs", "end_fs", "task", "network", "link", "vc", "flits")
        rows = zip(*(uses[name].tolist() for name in columns), strict=True)
        for begin, end, task, network, link, vc, flits in rows:
            position, name = names[network, link]
            text = self._of_task.get(task, "prefetch, copy or another layer")
            args = {"task": task, "vc": vc, "flits": flits} if flits else {"task": task}
            yield task, self._add("links", position, name, begin, end, text, **args)

    def _link_names(self) -> dict[tuple[int, int], tuple[int, str]]:
        """(engine node, link) → position and name: links of every network, then what endpoints inject into it."""
        machine, system = self._machine, self._machine.system
        names: dict[tuple[int, int], tuple[int, str]] = {}
        position = 0
        for network in system.networks:
            node = machine.networks[network.index if machine.network_kind == "flit" else 0]
            graph = network.graph
            offset = 0 if machine.network_kind == "flit" else network.first_link
            for link, (a, b) in enumerate(zip(graph.source.tolist(), graph.target.tolist(), strict=True)):
                names[node, offset + link] = (
                    position,
                    f"{network.label} {self._router(network, a)} → {self._router(network, b)}",
                )
                position += 1
        if machine.network_kind == "flit":
            for network in system.networks:
                endpoints, gateways, _ = end_terminals(system, network)
                ends = [(self._labels[index], terminals) for index, terminals in endpoints.items()]
                ends += [(system.gateways[index].label, terminals) for index, terminals in gateways.items()]
                for label, terminals in ends:
                    for port, terminal in enumerate(terminals):
                        text = f"{label} → {network.label}" + (f" port {port}" if len(terminals) > 1 else "")
                        names[machine.networks[network.index], len(network.graph.source) + terminal] = (position, text)
                        position += 1
        else:
            for gateway in system.gateways:
                for way, arrow in enumerate(("up", "down")):
                    names[machine.networks[0], len(system.links) + 2 * gateway.index + way] = (
                        position,
                        f"{gateway.label} {arrow}",
                    )
                    position += 1
        return names

    @staticmethod
    def _router(network: Network, number: int) -> str:
        if not network.graph.placed:
            return str(number)
        x, y = network.xy(network.first_router + number)
        return f"({x}, {y})"

    def _banks(self, uses: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[int, Slice]]:
        machine = self._machine
        place_of = {int(machine.nodes[place.index]): place for place in machine.system.memory_endpoints}
        names = (
            "begin_fs",
            "last_fs",
            "task",
            "memory",
            "channel",
            "pseudo_channel",
            "bank",
            "row",
            "bursts",
            "command",
        )
        rows = list(zip(*(uses[name].tolist() for name in names), strict=True))
        ends = self._bank_ends(uses)
        for (begin, _, task, memory, channel, pseudo_channel, bank, row, bursts, command), end in zip(
            rows, ends, strict=True
        ):
            place = place_of[memory]
            owner = self._of_task.get(task, "prefetch, copy or another layer")
            if channel < 0:
                text = f"{'write' if command else 'read'}: {owner}"
                yield task, self._add("memory", place.index << 32, place.label, begin, end, text, task=task)
                continue
            code = _core.MEM_COMMANDS[command]
            lane = channel * 64 + pseudo_channel
            where = f"{place.label} ch{channel} pc{pseudo_channel}"
            position = (place.index << 32) + (lane << 16) + bank + 1
            track = f"{where} bank {bank}" if bank >= 0 else f"{where} all banks"
            if code in _ROW:
                item = self._add(
                    "memory", position, track, begin, end, f"{_ROW[code]} {owner}", task=task, row=row, bursts=bursts
                )
                yield task, item
            else:
                self._add("memory", position, track, begin, end, code, row=row)

    def _bank_ends(self, uses: Mapping[str, npt.NDArray[Any]]) -> list[int]:
        """End of every use: its last command and one burst on the bus, but not beyond the next command of its bank."""
        machine = self._machine
        burst = {}
        for place in machine.system.memory_endpoints:
            assert place.memory is not None
            assert place.spec.memory is not None
            channel = machine.channels[place.index]
            lanes = place.spec.memory.channels * channel.memory.standard.organisation.pseudo_channels
            burst[int(machine.nodes[place.index])] = int(
                Fraction(place.memory.access_bytes * lanes) / Fraction(place.memory.peak_Bps) * 10**15
            )
        columns = [uses[name] for name in ("memory", "channel", "pseudo_channel", "bank", "begin_fs")]
        order = np.lexsort(columns[::-1])
        last = uses["last_fs"]
        if machine.memory_kind == "rate":
            return [int(end) for end in last]
        ends = [int(last[use]) + burst[int(uses["memory"][use])] for use in range(len(last))]
        for use, following in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
            if all(column[use] == column[following] for column in columns[:4]):
                ends[use] = min(ends[use], max(int(columns[4][following]), int(last[use])))
        return ends

    # -- token groups and chiplets

    def _layer(self, layer: _Seen, by_link: dict[int, list[Slice]], by_bank: dict[int, list[Slice]]) -> None:
        result, tasks, base = layer.result, layer.tasks, layer.base
        row = {task: position for position, task in enumerate(layer.records["task"].tolist())}
        replicas = len(tasks.replica_rows)
        computing: dict[int, Slice] = {}
        groups_of: dict[int, list[int]] = defaultdict(list)
        for group, replica in enumerate(tasks.replica_of_group.tolist()):
            groups_of[replica].append(group)
        for replica in range(replicas):
            record = {name: int(values[row[base + tasks.fetches + replica]]) for name, values in layer.records.items()}
            group = groups_of[replica][0]
            chiplet, expert = int(result.replicas["chiplet"][group]), int(result.groups["expert"][group])
            computing[replica] = self._add(
                "chiplets",
                chiplet,
                self._labels[chiplet],
                record["start_fs"],
                record["end_fs"],
                f"layer {result.layer} expert {expert}",
                tokens=int(tasks.tokens_of_replica[replica]),
                waited_for_weights_fs=record["stalled_fs"],
                task=record["task"],
            )
        fetched: set[int] = set()
        for group, replica in enumerate(tasks.replica_of_group.tolist()):
            whole = self._group(result, group)
            compute = computing[replica]
            expert = int(result.groups["expert"][group])
            sent, back = int(tasks.dispatch_of_group[group]), int(tasks.gather_of_group[group])
            ways = [(f"tokens to expert {expert}", by_link.get(base + sent, []) if sent >= 0 else [], compute)]
            if replica not in fetched:
                fetched.add(replica)
                fetch = base + int(tasks.fetch_of_replica[replica])
                ways.append((f"weights of expert {expert}", by_link.get(fetch, []), compute))
                for bank in _first_of_tracks(by_bank.get(fetch, [])):
                    if bank.begin_fs >= whole.begin_fs:
                        self.arrows.append(Arrow(f"bank of expert {expert}", (whole, bank)))
            for name, passed, target in ways:
                steps = [one for one in _first_of_tracks(passed) if whole.begin_fs <= one.begin_fs <= target.begin_fs]
                self.arrows.append(Arrow(name, (whole, *steps, target)))
            if back >= 0:
                steps = [
                    one for one in _first_of_tracks(by_link.get(base + back, [])) if one.begin_fs >= compute.begin_fs
                ]
                if steps:
                    self.arrows.append(Arrow(f"outputs of expert {expert}", (compute, *steps)))

    def _group(self, result: LayerResult, group: int) -> Slice:
        """A token group on the track of its source, its stages in it."""
        stage = {name: int(values[group]) for name, values in result.stages.items()}
        source, expert = int(result.groups["source"][group]), int(result.groups["expert"][group])
        effective = result.start_fs + stage["gate"]
        released = effective + stage["publish_wait"]
        arrived = released + stage["dispatch"]
        returned = stage["end"] - stage["combine"]
        computed = returned - stage["gather"]

        where = ("token groups", source, self._labels[source])
        whole = self._add(
            *where,
            effective,
            stage["end"],
            f"layer {result.layer} expert {expert}",
            batch=result.batch,
            tokens=int(result.groups["tokens"][group]),
            bytes=int(result.groups["bytes"][group]),
            chiplet=self._labels[int(result.replicas["chiplet"][group])],
            queue_fs=stage["queue"],
            memory_fs=stage["memory"],
            compute_fs=stage["compute"],
        )
        for name, begin, end in (
            ("publish wait", effective, released),
            ("dispatch", released, arrived),
            ("queue, memory, compute", arrived, computed),
            ("gather", computed, returned),
            ("combine", returned, stage["end"]),
        ):
            if end > begin:
                self._add(*where, begin, end, name, whole)
        return whole


def _first_of_tracks(slices: Sequence[Slice]) -> list[Slice]:
    """The first slice on each track, earliest first."""
    first: dict[Track, Slice] = {}
    for item in sorted(slices, key=lambda one: one.begin_fs):
        first.setdefault(item.track, item)
    return list(first.values())
