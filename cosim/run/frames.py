"""A finished run as plain frames; columns as the report fixes them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.run.domains import DomainCounts
from cosim.run.loop import LayerResult
from cosim.workload.gating import GateCounts
from cosim.workload.stages import STAGES

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.run.machine import Machine
    from cosim.system import System
    from cosim.system.networks import Network

__all__ = ["bank_rows", "chiplet_rows", "expert_rows", "group_rows", "layer_rows", "link_rows"]


def _floor_plan(system: System) -> dict[int, tuple[int, int]]:
    """Place of every endpoint: the levels one below the other, each as its own drawing has it."""
    below = 0
    first: dict[str, int] = {}
    for name in sorted(system.spec.levels):
        first[name] = below
        last = [network.xy(r)[1] for network in system.networks if network.level_name == name for r in network.routers]
        below += max(last) + 2
    places = {}
    for place in system.endpoints:
        network = system.network_of(place)
        x, y = network.xy(place.router)
        places[place.index] = (x, y + first[network.level_name])
    return places


def layer_rows(results: Sequence[LayerResult]) -> pd.DataFrame:
    """One row per (batch, layer): stages of the critical group, total, and bytes that moved by class."""
    rows = []
    for result in results:
        critical = result.critical()
        rows.append(
            {
                "batch": result.batch,
                "layer": result.layer,
                **{f"{stage}_fs": critical[stage] for stage in (*STAGES, "total")},
                **{f"bytes_{name}": moved for name, moved in result.bytes_by_class.items()},
                "replica_factor": result.replica_factor,
                **({} if result.energy_J is None else {"energy_J": result.energy_J}),
                **({} if result.gate is None else _shares(result.gate)),
                **({} if result.domains is None else _domains(result.domains)),
                **({} if result.throttled is None else {"throttled": float(result.throttled)}),
            }
        )
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def _shares(gate: GateCounts) -> dict[str, float]:
    return {"changed_choices": gate.changed / gate.choices, "top1_retention": gate.kept_top1 / gate.tokens}


def _domains(counts: DomainCounts) -> dict[str, float]:
    return {
        "domains": float(counts.domains),
        "domain_cores": float(counts.largest_cores),
        "domain_shared_links": float(counts.shared_links),
    }


def group_rows(results: Sequence[LayerResult], seed: int, neurons: int) -> pd.DataFrame:
    """One row per token group, or part of one: what was decided, what it had to fetch, and its own stage times.

    ``neurons`` is the width of a whole expert's hidden layer, by which ``share`` is counted. ``tenant``: number of the
    tenant whose tokens they are, where several share the system.
    """
    parts = []
    for result in results:
        groups, replicas = result.groups, result.replicas
        part = pd.DataFrame(
            {
                "seed": np.int64(seed),
                "batch": np.int64(result.batch),
                "layer": groups["layer"].astype(np.int64),
                "expert": groups["expert"].astype(np.int64),
                "source": groups["source"].astype(np.int64),
                "aggregator": groups["aggregator"].astype(np.int64),
                "tokens": groups["tokens"].astype(np.int64),
                "bytes": groups["bytes"].astype(np.int64),
                **({"tenant": groups["tenant"].astype(np.int64)} if result.tenants else {}),
                "replica": replicas["replica"].astype(np.int64),
                "chiplet": replicas["chiplet"].astype(np.int64),
                "memory_node": replicas["memory"].astype(np.int64),
                "share": replicas["neurons"] / neurons,
                "first_tokens": result.first_tokens,
                "fetch_bytes": result.fetch_bytes.astype(np.int64),
                "resident_fraction": result.resident_fraction,
                **{f"{stage}_fs": result.stages[stage] for stage in STAGES},
                "total_fs": result.stages["end"] - result.start_fs,
            }
        )
        parts.append(part)
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return frame


def chiplet_rows(machine: Machine, results: Sequence[LayerResult], model: ModelSpec) -> pd.DataFrame:
    """One row per endpoint: how long it worked, and on how many tokens."""
    system = machine.system
    plan = _floor_plan(system)
    tokens = np.zeros(len(system.endpoints), dtype=np.int64)
    macs = np.zeros(len(system.endpoints), dtype=np.int64)
    for result in results:
        count = result.groups["tokens"].astype(np.int64)
        shared = result.groups["expert"] == model.experts
        work = count * np.where(
            shared,
            model.shared_macs_per_token,
            model.expert_macs_per_token * result.replicas["neurons"].astype(np.int64) // model.moe_intermediate,
        )
        np.add.at(tokens, result.replicas["chiplet"], count)
        np.add.at(macs, result.replicas["chiplet"], work)
    rows = []
    for place in system.endpoints:
        if place.kind == "compute":
            busy = (
                Fraction(machine.compute_statistics(place.index)["busy_cycles"]) / system.network_of(place).level.clock
            )
            busy_fs = int(busy * 10**15)
        elif place.kind == "memory":
            read = machine.memory_statistics(place.index)
            assert place.memory is not None
            served = int(read["read_bytes"]) + int(read["written_bytes"])
            busy_fs = int(Fraction(served) / place.memory.peak_Bps * 10**15)
        else:
            busy_fs = 0
        x, y = plan[place.index]
        rows.append(
            {
                "endpoint": place.label,
                "kind": place.kind,
                "router": place.router,
                "x": x,
                "y": y,
                "busy_fs": busy_fs,
                "observed_fs": machine.now_fs,
                "tokens": int(tokens[place.index]),
                "macs": int(macs[place.index]),
            }
        )
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def expert_rows(groups: pd.DataFrame, system: System) -> pd.DataFrame:
    """One row per (layer, expert, chiplet): groups, tokens, and the time its groups spent in three stages."""
    summed: pd.DataFrame = (
        groups.groupby(["layer", "expert", "chiplet"], sort=True)
        .agg(
            groups=("tokens", "size"),
            tokens=("tokens", "sum"),
            queue_fs=("queue_fs", "sum"),
            memory_fs=("memory_fs", "sum"),
            compute_fs=("compute_fs", "sum"),
        )
        .reset_index()
    )
    names = {place.index: place.label for place in system.endpoints}
    summed["endpoint"] = summed.pop("chiplet").map(names)
    return summed


def _of_flits(machine: Machine, network: Network) -> dict[str, dict[str, npt.NDArray[np.int64]]]:
    """Columns of every class on a flit network: those of its VCs."""
    level = network.level
    statistics = machine.flit_statistics(network.index)
    counters = {
        column: statistics[key].reshape(-1, level.num_vcs)
        for column, key in (
            ("flits", "link_vc_flits"),
            ("stall_no_credit_cycles", "link_vc_no_credit_cycles"),
            ("stall_lost_arbitration_cycles", "link_vc_lost_arbitration_cycles"),
            ("stall_busy_vc_cycles", "link_vc_busy_vc_cycles"),
        )
    }
    by_class = {}
    for name, spec in level.message_classes.by_name().items():
        of_class = {column: values[:, list(spec.vcs)].sum(axis=1) for column, values in counters.items()}
        of_class["bytes"] = of_class["flits"] * level.flit_width
        of_class["busy_cycles"] = of_class["flits"]
        by_class[name] = of_class
    broadcast = level.message_classes.broadcast
    for way, of_way in () if broadcast is None else broadcast.vcs_by_way.items():
        vcs = list(of_way)
        of_class = {column: values[:, vcs].sum(axis=1) for column, values in counters.items()}
        if way == "session":
            of_class["flits"] = of_class["flits"] + statistics["link_session_flits"]
        of_class["bytes"] = of_class["flits"] * level.flit_width
        of_class["busy_cycles"] = of_class["flits"]
        by_class[way] = of_class
    return by_class


def _reserved(machine: Machine, network: Network) -> dict[str, dict[str, npt.NDArray[np.int64]]]:
    """Columns of every class on reserved links."""
    carried = machine.link_statistics()["link_class_bytes"].reshape(-1, len(machine.classes))[network.links]
    zero = np.zeros(len(carried), dtype=np.int64)
    return {
        name: {
            "flits": zero,
            "bytes": carried[:, number],
            "busy_cycles": -(-carried[:, number] // network.level.flit_width),
            **{f"stall_{cause}_cycles": zero for cause in ("no_credit", "lost_arbitration", "busy_vc")},
        }
        for name, number in machine.classes.items()
    }


def link_rows(machine: Machine) -> pd.DataFrame:
    """One row per directed link and message class; routers and links are numbered through the instances of a level.

    On the flit network a class owns its VCs, so its flits and stalls are those of its VCs. On reserved links there are
    no flits and no stalls; ``busy_cycles`` are cycles of the level's clock that reservations take.
    """
    system = machine.system
    parts: list[pd.DataFrame] = []
    first_of_level: dict[str, tuple[int, int]] = {}
    for network in system.networks:
        level = network.level
        links = len(network.graph.source)
        observed = int(Fraction(machine.now_fs, 10**15) * level.clock)
        by_class = _of_flits(machine, network) if machine.network_kind == "flit" else _reserved(machine, network)
        first_router, first_link = first_of_level.setdefault(
            network.level_name, (network.first_router, network.first_link)
        )
        sources = network.graph.source.astype(np.int64) + network.first_router
        targets = network.graph.target.astype(np.int64) + network.first_router
        places = np.array(
            [[*network.xy(a), *network.xy(b)] for a, b in zip(sources.tolist(), targets.tolist(), strict=True)],
            dtype=np.int64,
        ).reshape(-1, 4)
        if not network.graph.placed:
            places[:] = -1
        for name, columns in by_class.items():
            part = pd.DataFrame(
                {
                    "level": network.level_name,
                    "link": np.arange(links) + network.first_link - first_link,
                    "message_class": name,
                    "src_router": sources - first_router,
                    "src_x": places[:, 0],
                    "src_y": places[:, 1],
                    "dst_router": targets - first_router,
                    "dst_x": places[:, 2],
                    "dst_y": places[:, 3],
                    "observed_cycles": observed,
                }
            )
            for column, values in columns.items():
                part[column] = values.astype(np.int64)
            parts.append(part)
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return frame


_BANK = (
    "channel",
    "pseudo_channel",
    "bank_group",
    "bank",
    "bytes",
    "reads",
    "writes",
    "activates",
    "precharges",
    "refreshes",
    "row_hits",
    "row_misses",
    "row_conflicts",
    "busy_ticks",
)


def bank_rows(machine: Machine) -> pd.DataFrame:
    """One row per bank of every memory endpoint at command level; empty where memory is a rate.

    Bank groups of higher stack ids follow those of lower ones. Cycles are CK.
    """
    nothing: pd.DataFrame = pd.DataFrame()
    if machine.memory_kind != "command":
        return nothing
    banks, slots, observed, labels = [], [], [], []
    for place in machine.system.memory_endpoints:
        statistics = machine.memory_statistics(place.index)
        banks.append(np.asarray(statistics["banks"], dtype=np.int64).reshape(-1, len(_BANK)))
        count = len(banks[-1])
        slots.append(np.full(count, machine.channels[place.index].slots_per_cycle, dtype=np.int64))
        observed.append(np.full(count, statistics["last_tick"], dtype=np.int64))
        labels += [place.label] * count
    table, per_cycle = np.concatenate(banks), np.concatenate(slots)
    columns = {name: table[:, number] for number, name in enumerate(_BANK)}
    frame: pd.DataFrame = pd.DataFrame(
        {
            "endpoint": labels,
            **{name: columns[name] for name in _BANK if name not in ("busy_ticks", "precharges", "refreshes")},
            "busy_cycles": columns["busy_ticks"] // per_cycle,
            "observed_cycles": np.concatenate(observed) // per_cycle,
        }
    )
    return frame
