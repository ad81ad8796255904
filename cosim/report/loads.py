"""What the frames say about load: stages, links, banks, chiplets and experts of one policy at one rung.

Every function sums over seeds first and divides last, so a figure is a fraction of all observed time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from cosim.report.contents import STAGES, STALLS, RunContents

MOST_PLACES = 3
"""Chiplets of an expert that are named; more are counted."""

_DIRECTIONS = {(1, 0): "east", (-1, 0): "west", (0, 1): "south", (0, -1): "north"}


def of_run(frame: pd.DataFrame, policy: str, rung: str) -> pd.DataFrame:
    """The rows of one policy at one rung."""
    rows: pd.DataFrame = frame[(frame["policy"] == policy) & (frame["rung"] == rung)]
    return rows


@dataclass(frozen=True)
class StageMeans:
    """Mean time of each stage and of the whole layer, in fs, over `units` (seed, batch, layer) rows."""

    policy: str
    rung: str
    stages: dict[str, float]
    total: float
    units: int

    @property
    def covered(self) -> float:
        """Sum of the stages over the total: above 1 where stages overlap, below 1 where time belongs to none."""
        return sum(self.stages.values()) / self.total if self.total else 0.0

    @property
    def largest(self) -> str:
        """The stage with the largest mean."""
        return max(self.stages, key=lambda name: self.stages[name])


def stage_means(contents: RunContents, policy: str, rung: str) -> StageMeans | None:
    """Means over all units; None where the run has no rows for this policy and rung."""
    rows = of_run(contents.layers, policy, rung)
    if rows.empty:
        return None
    n = len(rows)
    # Sums of integers are exact; Python's own integers cannot overflow.
    means = {stage: sum(map(int, rows[f"{stage}_fs"])) / n for stage in STAGES}
    return StageMeans(policy, rung, means, sum(map(int, rows["total_fs"])) / n, n)


def link_loads(contents: RunContents, policy: str, rung: str) -> pd.DataFrame:
    """One row per directed link: utilisation (busy / observed cycles), stall fractions per cause, its busiest class.

    Columns: level, link, src_router, src_x, src_y, dst_router, dst_x, dst_y, flits, bytes, utilisation, stall_<cause>,
    stall, top_class, top_class_share (of the link's flits), name. Sorted by utilisation, busiest first.
    """
    rows = of_run(contents.links, policy, rung)
    place = ["level", "link", "src_router", "src_x", "src_y", "dst_router", "dst_x", "dst_y"]
    counts = ["flits", "bytes", "busy_cycles", *(f"stall_{cause}_cycles" for cause in STALLS)]
    if rows.empty:
        columns = [*place, "flits", "bytes", "utilisation", *(f"stall_{cause}" for cause in STALLS)]
        none: pd.DataFrame = pd.DataFrame(columns=[*columns, "stall", "top_class", "top_class_share", "name"])
        return none
    # A link's classes share its cycles, so the time it was observed counts once per seed.
    observed = rows.groupby([*place, "seed"], sort=True)["observed_cycles"].max().groupby(level=place).sum()
    sums = rows.groupby(place, sort=True)[counts].sum()
    by_class = rows.groupby([*place, "message_class"], sort=True)["flits"].sum().reset_index("message_class")
    top = by_class.sort_values(["flits", "message_class"], ascending=[False, True], kind="stable")
    top = top.groupby(level=place, sort=True).first()
    out = sums.assign(observed_cycles=observed)
    out["utilisation"] = _fraction(out["busy_cycles"], out["observed_cycles"])
    for cause in STALLS:
        out[f"stall_{cause}"] = _fraction(out[f"stall_{cause}_cycles"], out["observed_cycles"])
    out["stall"] = sum(out[f"stall_{cause}"] for cause in STALLS)
    out["top_class"] = top["message_class"]
    out["top_class_share"] = _fraction(top["flits"], out["flits"])
    out = out.reset_index()
    out["name"] = [
        link_name(r.level, r.src_router, r.dst_router, r.dst_x - r.src_x, r.dst_y - r.src_y)
        for r in out.itertuples(index=False)
    ]
    out = out.drop(columns=["busy_cycles", "observed_cycles", *(f"stall_{cause}_cycles" for cause in STALLS)])
    ordered: pd.DataFrame = out.sort_values(
        ["utilisation", "level", "link"], ascending=[False, True, True], ignore_index=True
    )
    return ordered


def link_name(level: str, source: int, target: int, dx: int, dy: int) -> str:
    """A link in words: its level, both routers and, between neighbours of a grid, the direction."""
    direction = _DIRECTIONS.get((dx, dy))
    return f"{level} {source}→{target}" + (f" ({direction})" if direction else "")


def _fraction(part: pd.Series[Any], whole: pd.Series[Any]) -> pd.Series[float]:
    fraction: pd.Series[float] = (part / whole.where(whole > 0)).fillna(0.0)
    return fraction


def bank_loads(contents: RunContents, policy: str, rung: str) -> pd.DataFrame:
    """One row per bank: bytes and their share of the pseudo-channel's, accesses and row results as fractions of them.

    Columns: endpoint, channel, pseudo_channel, bank_group, bank, bytes, reads, writes, activates, share, open (busy /
    observed cycles: a row was open or changing), row_hit, row_miss, row_conflict, name. Sorted by bytes, most first.
    """
    rows = of_run(contents.banks, policy, rung)
    place = ["endpoint", "channel", "pseudo_channel", "bank_group", "bank"]
    sums = ["bytes", "reads", "writes", "activates", "row_hits", "row_misses", "row_conflicts"]
    out = rows.groupby(place, sort=True)[[*sums, "busy_cycles", "observed_cycles"]].sum().reset_index()
    out["share"] = _fraction(out["bytes"], out.groupby(place[:3], sort=True)["bytes"].transform("sum"))
    out["open"] = _fraction(out["busy_cycles"], out["observed_cycles"])
    accesses = out["row_hits"] + out["row_misses"] + out["row_conflicts"]
    for singular, plural in (("row_hit", "row_hits"), ("row_miss", "row_misses"), ("row_conflict", "row_conflicts")):
        out[singular] = _fraction(out[plural], accesses)
    out["name"] = [
        f"{r.endpoint} ch{r.channel} pc{r.pseudo_channel} bg{r.bank_group} b{r.bank}"
        for r in out.itertuples(index=False)
    ]
    out = out.drop(columns=["busy_cycles", "observed_cycles", "row_hits", "row_misses", "row_conflicts"])
    ordered: pd.DataFrame = out.sort_values(["bytes", *place], ascending=[False, *[True] * 5], ignore_index=True)
    return ordered


def chiplet_loads(contents: RunContents, policy: str, rung: str) -> pd.DataFrame:
    """One row per chiplet: utilisation (busy / observed time), tokens and multiply-accumulates, busiest first."""
    rows = of_run(contents.chiplets, policy, rung)
    place = ["endpoint", "kind", "router", "x", "y"]
    out = rows.groupby(place, sort=True)[["busy_fs", "observed_fs", "tokens", "macs"]].sum().reset_index()
    out["utilisation"] = _fraction(out["busy_fs"], out["observed_fs"])
    ordered: pd.DataFrame = out.sort_values(["utilisation", "endpoint"], ascending=[False, True], ignore_index=True)
    return ordered


def expert_loads(contents: RunContents, policy: str, rung: str) -> pd.DataFrame:
    """One row per (layer, expert) over its replicas: tokens, groups, and mean times per group, slowest first.

    Columns: layer, expert, endpoints (their names, or how many where there are many), groups, tokens, queue_fs,
    memory_fs, compute_fs (means per group), busy_fs (their sum over all groups: what the row is sorted by), largest.
    """
    rows = of_run(contents.experts, policy, rung)
    parts = ["queue_fs", "memory_fs", "compute_fs"]
    keys = ["layer", "expert"]
    out = rows.groupby(keys, sort=True)[["groups", "tokens", *parts]].sum()
    out["endpoints"] = rows.groupby(keys, sort=True)["endpoint"].agg(_places)
    out["busy_fs"] = out[parts].sum(axis=1)
    out["largest"] = out[parts].idxmax(axis=1).str.removesuffix("_fs") if len(out) else pd.Series(dtype=object)
    for part in parts:
        out[part] = _fraction(out[part], out["groups"])
    out = out.reset_index()
    ordered: pd.DataFrame = out.sort_values(["busy_fs", *keys], ascending=[False, True, True], ignore_index=True)
    return ordered


def _places(names: pd.Series[Any]) -> str:
    different = sorted(set(names))
    return ", ".join(different) if len(different) <= MOST_PLACES else f"{len(different)} chiplets"


def ranking(contents: RunContents, metric: str, rung: str) -> list[tuple[str, float]]:
    """Policies with a value of `metric` at `rung`, smallest first."""
    found = []
    for policy in contents.info.policies:
        row = contents.metric(policy, rung, metric)
        if row is not None and pd.notna(row["value"]):
            found.append((policy, float(row["value"])))
    return sorted(found, key=lambda pair: pair[1])
