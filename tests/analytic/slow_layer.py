"""Equations 5 to 18 of seed 000 and the terms of seed 003, one unit at a time, as plain loops over requests."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
from analytic_line import TinyModel

from cosim.analytic import AnalyticSystem


def links(system: AnalyticSystem, source: int, target: int) -> list[int]:
    pair = source * system.endpoints + target
    return list(system.routes.links[system.routes.offsets[pair] : system.routes.offsets[pair + 1]])


def hcrmap(rows: pd.DataFrame, system: AnalyticSystem, model: TinyModel) -> dict[str, float]:
    """Stages of Eq. 15 with the default readings, T_net, T_bank, and the total of Eq. 14 as 'eq14'."""
    bandwidth, fixed = system.link_bandwidth_Bps, system.link_latency_s
    groups = rows.to_dict("records")
    replicas = {(g["chiplet"], g["expert"]): g for g in groups}

    def route(load: float, path: list[int]) -> float:
        return sum(fixed[u] + load / bandwidth[u] for u in path)

    load = {name: defaultdict(float) for name in ("disp", "gath", "mem")}
    longest = defaultdict(float)
    for g in groups:
        for name, path in (
            ("disp", links(system, g["source"], g["chiplet"])),
            ("gath", links(system, g["chiplet"], g["aggregator"])),
        ):
            longest[name] = max(longest[name], route(g["bytes"], path))
            for u in path:
                load[name][u] += g["bytes"]
    bank = defaultdict(float)
    for (chiplet, _), g in replicas.items():
        if g["fetch_bytes"]:
            path = links(system, g["memory_node"], chiplet)
            longest["mem"] = max(longest["mem"], route(g["fetch_bytes"], path))
            bank[g["memory_node"]] += g["fetch_bytes"]
            for u in path:
                load["mem"][u] += g["fetch_bytes"]
    total = defaultdict(float)
    for name in load:
        for u, value in load[name].items():
            total[u] += value

    def busiest(loads: dict[int, float], only: list[int] | None = None) -> float:
        return max([value / bandwidth[u] for u, value in loads.items() if only is None or u in only], default=0.0)

    banks = {
        node: system.memory_latency_s[node] + load / system.memory_bandwidth_Bps[node] for node, load in bank.items()
    }
    compute, busy, waited = {}, defaultdict(float), {}
    for chiplet, expert in sorted(replicas):
        tokens = sum(g["tokens"] for g in groups if (g["chiplet"], g["expert"]) == (chiplet, expert))
        rate = system.compute_flops[chiplet] / 2 * system.compute_efficiency[chiplet]
        compute[chiplet, expert] = tokens * model.expert_macs_per_token / rate
        waited[chiplet, expert] = busy[chiplet]
        busy[chiplet] += compute[chiplet, expert]
    answer = {
        "dispatch": max(busiest(load["disp"]), longest["disp"]),
        "gather": max(busiest(load["gath"]), longest["gath"]),
        "memory": max(max(banks.values(), default=0.0), busiest(load["mem"]), longest["mem"]),
        "compute": max(compute.values()),
        "queue": max(busy.values()) - max(compute.values()),
        "net": max(busiest(total), longest["disp"], longest["gath"], longest["mem"]),
        "bank": max(banks.values(), default=0.0),
    }
    answer["total"] = answer["dispatch"] + answer["queue"] + max(answer["compute"], answer["memory"]) + answer["gather"]
    finish = []
    for g in groups:
        key = (g["chiplet"], g["expert"])
        there, back = links(system, g["source"], g["chiplet"]), links(system, g["chiplet"], g["aggregator"])
        memory = 0.0
        if g["fetch_bytes"]:
            path = links(system, g["memory_node"], g["chiplet"])
            memory = max(banks[g["memory_node"]], busiest(load["mem"], path), route(g["fetch_bytes"], path))
        finish.append(
            max(busiest(load["disp"], there), route(g["bytes"], there))
            + waited[key]
            + memory
            + compute[key]
            + max(busiest(load["gath"], back), route(g["bytes"], back))
        )
    answer["eq14"] = max(finish)
    return answer


def comoe(rows: pd.DataFrame, system: AnalyticSystem, model: TinyModel) -> dict[str, float]:
    """Stages of the physical reading of seed 003 with its default parameters."""
    groups = rows.to_dict("records")
    replicas = {(g["chiplet"], g["expert"]): g for g in groups}

    def fixed(source: int, target: int) -> float:
        return sum(system.link_latency_s[u] for u in links(system, source, target))

    def transfer(moves: list[tuple[int, int, int]]) -> float:
        out, into = defaultdict(float), defaultdict(float)
        for source, target, load in moves:
            if source != target:
                out[source] += load
                into[target] += load
        ports = [load / system.port_bandwidth_Bps[e] for side in (out, into) for e, load in side.items()]
        return max(fixed(source, target) for source, target, _ in moves) + max(ports, default=0.0)

    work = defaultdict(float)
    for g in groups:
        work[g["chiplet"]] += g["tokens"] * model.expert_macs_per_token
    answer = {
        "dispatch": transfer([(g["source"], g["chiplet"], g["bytes"]) for g in groups]),
        "gather": transfer([(g["chiplet"], g["aggregator"], g["bytes"]) for g in groups]),
        "compute": max(load / (system.compute_flops[c] / 2 * system.compute_efficiency[c]) for c, load in work.items()),
        "memory": 0.0,
    }
    reads = [(g["memory_node"], g["chiplet"], g["fetch_bytes"]) for g in replicas.values() if g["fetch_bytes"]]
    if reads:
        drain, port = defaultdict(float), defaultdict(float)
        for node, chiplet, load in reads:
            drain[node] += load
            if node != chiplet:
                port["out", node] += load
                port["in", chiplet] += load
        slowest = max(
            [load / system.memory_bandwidth_Bps[node] for node, load in drain.items()]
            + [load / system.port_bandwidth_Bps[e] for (_, e), load in port.items()]
        )
        answer["memory"] = max(system.memory_latency_s[n] + fixed(n, c) for n, c, _ in reads) + slowest
    answer["total"] = answer["dispatch"] + answer["compute"] + answer["memory"] + answer["gather"]
    return answer
