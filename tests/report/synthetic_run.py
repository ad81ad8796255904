"""Made-up run contents with the shape of a small package study, for the tests of what shows them.

Nothing here is simulated: numbers are drawn from a seeded generator so that every figure has something to show.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from cosim.report.contents import (
    RUNG_ORDER,
    STAGES,
    STALLS,
    Figure,
    Law,
    RunContents,
    RunInfo,
)

POLICIES = ("static", "hot_replication", "popularity_prefetch")
MEMORY_ROUTERS = (1, 7, 8, 14)
_STAGE_NS = {
    "gate": 300,
    "dispatch": 2600,
    "queue": 5200,
    "memory": 21000,
    "compute": 7000,
    "gather": 1900,
    "combine": 500,
    "publish_wait": 0,
}
_POLICY_FACTOR = {"static": 1.0, "hot_replication": 0.79, "popularity_prefetch": 0.86}
_RUNG_FACTOR = {
    "analytic": 0.62,
    "analytic:hcrmap": 1.21,
    "link": 0.9,
    "link+command": 0.95,
    "flit+rate": 0.93,
    "flit": 1.0,
}


def contents(
    policies: tuple[str, ...] = POLICIES,
    rungs: tuple[str, ...] = RUNG_ORDER,
    seeds: tuple[int, ...] = (1, 2, 3),
    batches: int = 8,
    layers: int = 8,
    side: int = 4,
    seed: int = 7,
    slowdown: float = 1.0,
    with_claims: bool = True,
    wrap: bool = False,
) -> RunContents:
    """Contents of a `side`×`side` mesh package, a torus with `wrap`; `slowdown` scales every latency."""
    rng = np.random.default_rng(seed)
    frame = _layers(rng, policies, rungs, seeds, batches, layers, slowdown)
    detailed = tuple(rung for rung in rungs if not rung.startswith("analytic"))
    return RunContents(
        info=_info(policies, rungs, seeds),
        metrics=_metrics(frame, policies, rungs),
        layers=frame,
        links=_links(rng, policies, detailed, seeds, side, wrap),
        banks=_banks(rng, policies, detailed, seeds),
        chiplets=_chiplets(rng, policies, rungs, seeds, side),
        experts=_experts(rng, policies, detailed, seeds, layers),
        claims=CLAIMS if with_claims else [],
    )


def _info(policies: tuple[str, ...], rungs: tuple[str, ...], seeds: tuple[int, ...]) -> RunInfo:
    figures = []
    for rung in rungs:
        if rung.startswith("flit"):
            figures.append(Figure(rung, "flit_hops", 23_418_116, "1"))
        if rung in ("flit", "link+command"):
            figures.append(Figure(rung, "dram_bytes", 268_435_456, "B"))
    return RunInfo(
        name="quickstart",
        description="Do replicas of hot experts pay off on a 4×4 package?",
        model="own-byte-moe",
        trace="recorded",
        trace_name="sample",
        profile="requests 0-63",
        evaluate="requests 64-127",
        scope="routed",
        policies=policies,
        rungs=rungs,
        seeds=seeds,
        balance_definition="busy time of the busiest expert chiplet / mean busy time of all expert chiplets, per "
        "layer, then the mean over (seed, batch, layer) units",
        system={
            "name": "package-4x4",
            "package": "mesh 4×4, dor, 4 VCs × 8 flits, 64 B flits at 1 GHz",
            "expert": "12 chiplets, 4 TFLOP/s at 0.8, 256 KiB expert buffer",
            "memory": "4 × HBM2_2000, 2 channels each",
        },
        assumed={
            "compute.rate": "4 TFLOP/s",
            "compute.efficiency": "0.8",
            "tile": "16 KiB",
            "expert_buffer": "256 KiB",
            "link_latency": "2",
        },
        figures=tuple(figures),
        laws=(
            Law("conservation of flits", "23,418,116 flit-hops; injected = ejected at all 16 destinations"),
            Law("conservation of memory requests", "asked = served + forwarded + cancelled on 8 channels"),
            Law("credits", "every credit returned"),
        ),
        warnings=("the analytic model of seed 003 has no term for refresh; its memory stage is a lower bound",),
    )


def _layers(rng, policies, rungs, seeds, batches, layers, slowdown) -> pd.DataFrame:
    units = [(s, b, la) for s in seeds for b in range(batches) for la in range(layers)]
    shared = {unit: rng.lognormal(0, 0.22, len(STAGES)) for unit in units}
    rows = []
    for policy in policies:
        for rung in rungs:
            for unit in units:
                noise = shared[unit] * rng.lognormal(0, 0.0 if rung.startswith("analytic") else 0.03, len(STAGES))
                row: dict[str, object] = dict(zip(("seed", "batch", "layer"), unit, strict=True))
                row |= {"policy": policy, "rung": rung}
                factor = _POLICY_FACTOR.get(policy, 1.0) ** (0.5 if rung.startswith("analytic") else 1.0)
                factor *= _RUNG_FACTOR[rung] * slowdown
                parts = {
                    stage: int(ns * 1e6 * factor * float(noise[i])) for i, (stage, ns) in enumerate(_STAGE_NS.items())
                }
                if policy == "hot_replication":
                    parts["publish_wait"] = int(400e6 * float(noise[7]))
                row |= {f"{stage}_fs": value for stage, value in parts.items()}
                row["total_fs"] = sum(parts.values())
                row["bytes_dispatch"] = int(65_536 * noise[1])
                row["bytes_weight"] = int(4_194_304 * noise[3])
                row["bytes_combine"] = int(65_536 * noise[5])
                rows.append(row)
    return pd.DataFrame(rows)


def _metrics(layers: pd.DataFrame, policies, rungs) -> pd.DataFrame:
    rows = []

    def add(policy, rung, metric, unit, value, low=np.nan, high=np.nan, n=0) -> None:
        rows.append(
            {
                "policy": policy,
                "rung": rung,
                "metric": metric,
                "unit": unit,
                "value": value,
                "ci_low": low,
                "ci_high": high,
                "n": n,
            }
        )

    means = {}
    for policy in policies:
        for rung in rungs:
            part = layers[(layers["policy"] == policy) & (layers["rung"] == rung)]
            ns = part["total_fs"].to_numpy() / 1e6
            n = len(ns)
            means[policy, rung] = ns.mean()
            spread = 1.96 * ns.std() / np.sqrt(n)
            add(policy, rung, "layer_latency_mean", "ns", ns.mean(), ns.mean() - spread, ns.mean() + spread, n)
            for name, q, needed in (("p50", 0.5, 40), ("p95", 0.95, 400), ("p99", 0.99, 2000)):
                value = np.quantile(ns, q) if n >= needed else np.nan
                add(policy, rung, f"layer_latency_{name}", "ns", value, n=n)
            for name in ("dispatch", "weight", "combine"):
                add(policy, rung, f"bytes_{name}", "B", float(part[f"bytes_{name}"].sum()), n=n)
            add(policy, rung, "balance", "1", 1.9 if policy == "static" else 1.31, n=n)
            add(policy, rung, "replica_factor", "1", 1.3 if policy == "hot_replication" else 1.0, n=n)
            add(policy, rung, "energy", "J", ns.mean() * 2.1e-7, n=n)
    for policy in policies if "flit" in rungs else ():
        errors = {rung: means[policy, rung] / means[policy, "flit"] - 1 for rung in rungs if rung != "flit"}
        for rung, error in errors.items():
            add(policy, rung, "error_against_flit", "1", error, error - 0.01, error + 0.01, 24)
            add(policy, rung, "error_abs_against_flit", "1", abs(error) + 0.02, abs(error), abs(error) + 0.04, 24)
            here, there = (layers[(layers["policy"] == policy) & (layers["rung"] == r)] for r in (rung, "flit"))
            for stage in STAGES:
                gap = (here[f"{stage}_fs"].mean() - there[f"{stage}_fs"].mean()) / 1e6
                add(policy, rung, f"stage_{stage}_error_against_flit", "ns", gap, gap - 30, gap + 30, n=24)
        if {"link+command", "flit+rate", "link"} <= set(errors):
            parts = {"network": errors["link+command"], "memory": errors["flit+rate"]}
            parts["interaction"] = errors["link"] - sum(parts.values())
            for name, error in parts.items():
                add(policy, "link", f"error_from_{name}", "1", error, error - 0.01, error + 0.01, 24)
    if "flit" in rungs and len(policies) > 1:
        for rung in rungs:
            if rung != "flit":
                add("all", rung, "rank_agreement", "1", 1.0 if rung != "link" else 0.333, n=len(policies))
                add("all", rung, "same_order", "1", float(rung != "link"), n=len(policies))
    add(policies[-1], rungs[-1], "prefetch_wasted_bytes", "B", 1_230_000.0, n=3)
    return pd.DataFrame(rows)


def _links(rng, policies, rungs, seeds, side, wrap) -> pd.DataFrame:
    pairs = []
    for y in range(side):
        for x in range(side):
            for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                if wrap or (0 <= x + dx < side and 0 <= y + dy < side):
                    pairs.append((x, y, (x + dx) % side, (y + dy) % side))
    hot = rng.beta(1.2, 3.0, len(pairs))
    rows = []
    for policy in policies:
        for rung in rungs:
            for seed in seeds:
                for link, (sx, sy, dx, dy) in enumerate(pairs):
                    for share, name in ((0.15, "activation"), (0.75, "weight"), (0.1, "result")):
                        load = min(0.97, hot[link] * _POLICY_FACTOR.get(policy, 1.0) * float(rng.uniform(0.9, 1.1)))
                        busy = int(load * share * 1_000_000)
                        stalls = [int(busy * load * f) for f in (0.5, 0.3, 0.1)] if rung.startswith("flit") else [0] * 3
                        rows.append(
                            {
                                "policy": policy,
                                "rung": rung,
                                "seed": seed,
                                "level": "package",
                                "link": link,
                                "src_router": sx + side * sy,
                                "src_x": sx,
                                "src_y": sy,
                                "dst_router": dx + side * dy,
                                "dst_x": dx,
                                "dst_y": dy,
                                "message_class": name,
                                "flits": busy,
                                "bytes": busy * 64,
                                "busy_cycles": busy,
                                "observed_cycles": 1_000_000,
                                **{f"stall_{c}_cycles": v for c, v in zip(STALLS, stalls, strict=True)},
                            }
                        )
    return pd.DataFrame(rows)


def _banks(rng, policies, rungs, seeds) -> pd.DataFrame:
    hot = rng.beta(2, 4, (4, 2, 2, 4, 4))
    rows = []
    for policy in policies:
        for rung in (r for r in rungs if r in ("flit", "link+command")):
            for seed in seeds:
                for place, load in np.ndenumerate(hot):
                    endpoint, channel, pseudo, group, bank = (int(v) for v in place)
                    busy = int(load * 400_000 * _POLICY_FACTOR.get(policy, 1.0))
                    reads = busy // 8
                    rows.append(
                        {
                            "policy": policy,
                            "rung": rung,
                            "seed": seed,
                            "endpoint": f"memory@{MEMORY_ROUTERS[endpoint]}",
                            "channel": channel,
                            "pseudo_channel": pseudo,
                            "bank_group": group,
                            "bank": bank,
                            "bytes": reads * 32,
                            "reads": reads,
                            "writes": 0,
                            "activates": reads // 20,
                            "row_hits": reads - reads // 20,
                            "row_misses": reads // 50,
                            "row_conflicts": reads // 20 - reads // 50,
                            "busy_cycles": busy,
                            "observed_cycles": 500_000,
                        }
                    )
    return pd.DataFrame(rows)


def _chiplets(rng, policies, rungs, seeds, side) -> pd.DataFrame:
    load = rng.beta(2, 3, side * side)
    rows = []
    for policy in policies:
        for rung in rungs:
            for seed in seeds:
                for router in range(side * side):
                    for kind in ("compute", "memory") if router in MEMORY_ROUTERS else ("compute",):
                        busy = int(load[router] * (1e12 if kind == "compute" else 7e11))
                        rows.append(
                            {
                                "policy": policy,
                                "rung": rung,
                                "seed": seed,
                                "endpoint": f"{'memory' if kind == 'memory' else 'expert'}@{router}",
                                "kind": kind,
                                "router": router,
                                "x": router % side,
                                "y": router // side,
                                "busy_fs": busy,
                                "observed_fs": 1_000_000_000_000,
                                "tokens": 0 if kind == "memory" else busy // 10**9,
                                "macs": 0 if kind == "memory" else busy // 10**3,
                            }
                        )
    return pd.DataFrame(rows)


def _experts(rng, policies, rungs, seeds, layers) -> pd.DataFrame:
    rows = []
    for policy in policies:
        for rung in rungs:
            for seed in seeds:
                for layer in range(layers):
                    for expert in range(8):
                        tokens = int(rng.integers(1, 400) / (expert + 1)) + 1
                        rows.append(
                            {
                                "policy": policy,
                                "rung": rung,
                                "seed": seed,
                                "layer": layer,
                                "expert": expert,
                                "endpoint": f"expert@{expert + 2}",
                                "groups": 8,
                                "tokens": tokens,
                                "queue_fs": tokens * 10**8,
                                "memory_fs": 8 * 21 * 10**9,
                                "compute_fs": tokens * 3 * 10**8,
                            }
                        )
    return pd.DataFrame(rows)


def _claim(name, kind, statement, published, tolerance, unit, rungs, verdict, reason, needs=()):
    return {
        "id": name,
        "scope": "routed",
        "statement": statement,
        "kind": kind,
        "source": "seed 003, abstract",
        "published": published,
        "tolerance": tolerance,
        "unit": unit,
        "rungs": rungs,
        "verdict": verdict,
        "reason": reason,
        "needs": list(needs),
    }


def _entry(value, low=None, high=None, n=24):
    return {"value": value, "ci_low": low, "ci_high": high, "n": n}


CLAIMS = [
    _claim(
        "replica-p95-cut",
        "ratio",
        "Replicas of hot experts cut the P95 layer latency by 67 % against static placement.",
        0.67,
        {"relative": 0.1},
        "1",
        {"analytic": _entry(0.655), "link": _entry(0.31, 0.28, 0.335), "flit": _entry(0.241, 0.219, 0.266)},
        "refuted",
        "the whole 95 % interval [0.219, 0.266] lies outside 0.67 ± 10 %",
    ),
    _claim(
        "replica-factor",
        "value",
        "The budget holds 1.3 copies of an expert on average.",
        1.3,
        0.1,
        "x",
        {"analytic": _entry(1.3), "link": _entry(1.3, 1.29, 1.31), "flit": _entry(1.3, 1.29, 1.31)},
        "confirmed",
        "the whole 95 % interval [1.29, 1.31] lies in 1.3 ± 10 %",
    ),
    _claim(
        "replication-beats-static",
        "order",
        "Hot replication has a lower mean layer latency than static placement.",
        {"lowest_first": ["hot_replication", "static"]},
        None,
        "rank",
        {"analytic": _entry(1.0), "link": _entry(1.0), "flit": _entry(0.998)},
        "confirmed",
        "paired bootstrap P = 0.998 ≥ 0.95",
    ),
    _claim(
        "prefetch-hides-memory",
        "ratio",
        "Prefetch hides half of the memory stage.",
        0.5,
        {"relative": 0.2},
        "1",
        {"analytic": _entry(0.5), "link": _entry(0.43, 0.36, 0.51), "flit": _entry(0.41, 0.33, 0.49)},
        "inconclusive",
        "the 95 % interval [0.33, 0.49] crosses the edge 0.4 of 0.5 ± 20 %",
    ),
    _claim(
        "energy-per-token",
        "value",
        "A token costs 41 mJ.",
        41,
        {"relative": 0.1},
        "mJ",
        {},
        "not_testable",
        "the paper's energy figures of its links are not printed",
        ["energy per bit of the die-to-die link"],
    ),
    _claim(
        "gain-grows-with-skew",
        "trend",
        "The gain of replication grows with the skew of the routing.",
        {"x": "Zipf exponent", "from": 0.5, "to": 2.0, "expect": "increasing"},
        None,
        "sign",
        {"flit": _entry(0.61)},
        "inconclusive",
        "bootstrap P = 0.61 of a rising Theil–Sen slope",
    ),
]
