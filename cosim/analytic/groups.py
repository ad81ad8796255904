"""The token groups of one layer as arrays: units, replicas, requests and the load they put on links."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.analytic.system import AnalyticSystem, FloatArray, IntArray

#: Columns of the decisions frame, one row per token group.
#: bytes: activation bytes dispatched; chiplet: the endpoint that executes; memory_node: the endpoint
#: the weights are read from, -1 for none; fetch_bytes: weight bytes read for this replica in this
#: layer and batch, the same figure in every group of the replica.
COLUMNS = (
    "seed",
    "batch",
    "layer",
    "expert",
    "source",
    "aggregator",
    "tokens",
    "bytes",
    "chiplet",
    "memory_node",
    "fetch_bytes",
)

#: Columns that decisions may have besides. share: part of the expert that the chiplet executes, 1 where it is missing;
#: an expert that is split over chiplets has one row per chiplet and group. first_tokens: tokens of the group that no
#: earlier group of the same source and layer brings to the same chiplet, so that their sum counts every token once.
OPTIONAL_COLUMNS = ("share", "first_tokens")


@dataclass(frozen=True)
class LayerGroups:
    """Token groups of one layer, sorted by (seed, batch, chiplet, expert, source, aggregator).

    Group arrays have one entry per group, replica arrays one per (unit, chiplet, expert).
    """

    units: pd.DataFrame
    unit: IntArray
    replica: IntArray
    dispatch_pair: IntArray
    gather_pair: IntArray
    tokens: IntArray
    bytes: IntArray
    replica_unit: IntArray
    replica_expert: IntArray
    replica_chiplet: IntArray
    replica_tokens: IntArray
    replica_groups: IntArray
    replica_memory: IntArray
    replica_fetch_bytes: IntArray
    replica_share: FloatArray
    first_tokens: IntArray | None

    @property
    def unit_count(self) -> int:
        """Number of (seed, batch) units."""
        return len(self.units)

    def fetching(self) -> IntArray:
        """Indices of the replicas that read weights."""
        return np.flatnonzero(self.replica_fetch_bytes > 0)


def layer_groups(decisions: pd.DataFrame, system: AnalyticSystem) -> LayerGroups:
    """Check and index the decisions of one layer.

    Raises ValueError listing every missing column, every figure outside its range, and groups of one
    replica that disagree about where or how much is fetched.
    """
    problems = []
    for name in COLUMNS:
        if name not in decisions.columns:
            near = difflib.get_close_matches(name, [str(c) for c in decisions.columns], n=1)
            problems.append(f"decisions: column {name!r} is missing" + (f"; found {near[0]!r}" if near else ""))
        elif not pd.api.types.is_integer_dtype(decisions[name]):
            problems.append(f"decisions: column {name!r} must hold integers, got {decisions[name].dtype}")
    if problems:
        raise ValueError("\n".join(problems))
    if decisions.empty:
        raise ValueError("decisions: no token groups")
    layers = np.unique(decisions["layer"].to_numpy())
    if len(layers) != 1:
        raise ValueError(f"decisions: expected one layer, got {layers.tolist()}")
    rows = decisions.loc[:, list(COLUMNS)].astype(np.int64)
    further = [name for name in OPTIONAL_COLUMNS if name in decisions.columns]
    rows[further] = decisions[further]
    rows = rows.sort_values(["seed", "batch", "chiplet", "expert", "source", "aggregator"], kind="stable")
    column = {name: rows[name].to_numpy() for name in COLUMNS}
    _check(column, system)
    share = rows["share"].to_numpy(dtype=np.float64) if "share" in further else np.ones(len(rows))
    if not bool(((share > 0) & (share <= 1)).all()):
        raise ValueError("decisions: share must be above 0 and at most 1")
    first_tokens = rows["first_tokens"].to_numpy(dtype=np.int64) if "first_tokens" in further else None
    if first_tokens is not None and bool(((first_tokens < 0) | (first_tokens > column["tokens"])).any()):
        raise ValueError("decisions: first_tokens must be between 0 and tokens")

    units = rows.loc[:, ["seed", "batch"]].drop_duplicates().reset_index(drop=True)
    unit = _ordinal(column["seed"], column["batch"])
    replica = _ordinal(column["seed"], column["batch"], column["chiplet"], column["expert"])
    first = np.flatnonzero(np.diff(replica, prepend=-1))
    held = {name: column[name] for name in ("memory_node", "fetch_bytes")} | {"share": share}
    for name, values in held.items():
        differs = np.flatnonzero(values != values[first][replica])
        if len(differs):
            row = rows.iloc[int(differs[0])]
            raise ValueError(
                f"decisions: groups of layer {row['layer']} expert {row['expert']} on chiplet {row['chiplet']} "
                f"(seed {row['seed']}, batch {row['batch']}) disagree about {name}; "
                "one replica is fetched once, from one place"
            )
    count = len(first)
    n = system.endpoints
    return LayerGroups(
        units=units,
        unit=unit,
        replica=replica,
        dispatch_pair=column["source"] * n + column["chiplet"],
        gather_pair=column["chiplet"] * n + column["aggregator"],
        tokens=column["tokens"],
        bytes=column["bytes"],
        replica_unit=unit[first],
        replica_expert=column["expert"][first],
        replica_chiplet=column["chiplet"][first],
        replica_tokens=_sum(replica, column["tokens"], count),
        replica_groups=np.bincount(replica, minlength=count).astype(np.int64),
        replica_memory=column["memory_node"][first],
        replica_fetch_bytes=column["fetch_bytes"][first],
        replica_share=share[first],
        first_tokens=first_tokens,
    )


def link_load(system: AnalyticSystem, units: int, unit: IntArray, pair: IntArray, load: FloatArray) -> FloatArray:
    """Eq. 5 of seed 000: bytes over each directed link, shape (units, links).

    Each request sends ``load`` bytes along the route of ``pair`` in ``unit``.
    """
    row, link = system.routes.expand(pair)
    flat = np.bincount(unit[row] * system.link_count + link, weights=load[row], minlength=units * system.link_count)
    return flat.astype(np.float64).reshape(units, system.link_count)


def path_maximum(system: AnalyticSystem, unit: IntArray, pair: IntArray, per_link: FloatArray) -> FloatArray:
    """Largest entry of ``per_link[unit]`` on the route of each request; 0 for an empty route."""
    row, link = system.routes.expand(pair)
    largest = np.zeros(len(pair))
    np.maximum.at(largest, row, per_link[unit[row], link])
    return largest


def unit_maximum(units: int, unit: IntArray, values: FloatArray) -> FloatArray:
    """Largest value of each unit; 0 for a unit without one."""
    largest = np.zeros(units)
    np.maximum.at(largest, unit, values)
    return largest


def _sum(index: IntArray, values: IntArray, count: int) -> IntArray:
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, index, values)
    return total


def _ordinal(*keys: IntArray) -> IntArray:
    """Number of the run of equal keys that each row of sorted keys belongs to."""
    change = np.zeros(len(keys[0]), dtype=bool)
    for key in keys:
        change[1:] |= key[1:] != key[:-1]
    return np.cumsum(change, dtype=np.int64)


def _check(column: dict[str, IntArray], system: AnalyticSystem) -> None:
    problems = []
    n = system.endpoints
    for name, low in (("source", 0), ("aggregator", 0), ("chiplet", 0), ("memory_node", -1)):
        bad = np.unique(column[name][(column[name] < low) | (column[name] >= n)])
        if len(bad):
            problems.append(f"decisions: {name} {bad.tolist()} outside {low} .. {n - 1} (the system has {n} endpoints)")
    for name, low in (("tokens", 1), ("bytes", 0), ("fetch_bytes", 0)):
        if bool((column[name] < low).any()):
            problems.append(f"decisions: {name} must be at least {low}, got {int(column[name].min())}")
    if not problems:
        idle = np.unique(column["chiplet"][system.compute_flops[column["chiplet"]] <= 0])
        if len(idle):
            problems.append(f"decisions: chiplet {idle.tolist()} cannot compute in this system")
        fetch = column["fetch_bytes"] > 0
        if bool((column["memory_node"][fetch] < 0).any()):
            problems.append("decisions: fetch_bytes above 0 with memory_node -1: weights come from nowhere")
        else:
            nodes = column["memory_node"][fetch]
            empty = np.unique(nodes[system.memory_bandwidth_Bps[nodes] <= 0])
            if len(empty):
                problems.append(f"decisions: memory_node {empty.tolist()} holds no memory in this system")
    if problems:
        raise ValueError("\n".join(problems))
