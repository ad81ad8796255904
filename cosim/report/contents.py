"""The contents of one run: plain frames with fixed columns, and the facts that describe them.

The frames are the border between the simulation and everything that shows its results. Their columns are fixed here,
checked when a `RunContents` is made, and written in this order with these types.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import pandas as pd

Kind = Literal["text", "count", "real"]

STAGES = ("gate", "dispatch", "queue", "memory", "compute", "gather", "combine", "publish_wait")
"""Stages of a layer, in the order in which a token group passes them; each is timed on its own."""

STALLS = ("no_credit", "lost_arbitration", "busy_vc")
"""Why a flit that was ready did not leave in a cycle."""

RUNG_ORDER = ("analytic", "link", "link+command", "flit+rate", "flit")
"""The fidelity ladder, lowest rung first; `network+memory` names a mixed rung."""


def ladder(rungs: Iterable[str]) -> list[str]:
    """Rungs in the order of the ladder; `analytic:<model>` stands beside `analytic`, an unknown rung at the bottom."""

    def place(rung: str) -> int:
        base = rung.partition(":")[0]
        return RUNG_ORDER.index(base) if base in RUNG_ORDER else -1

    return sorted(rungs, key=place)


VERDICTS = ("confirmed", "refuted", "inconclusive", "not_testable")

ALL_POLICIES = "all"
"""Stands in the policy column of a metric that belongs to the whole set of policies, such as their rank agreement."""


@dataclass(frozen=True)
class FrameSpec:
    """Columns of one frame.

    `key` columns identify a row (rows are unique in them and written sorted by them), `values` follow;
    `optional` columns are written where the frame has them; `open_prefix` admits further count columns that start
    with it (`bytes_<class>`).
    """

    name: str
    key: tuple[tuple[str, Kind], ...]
    values: tuple[tuple[str, Kind], ...]
    open_prefix: str | None = None
    optional: tuple[tuple[str, Kind], ...] = ()

    @property
    def key_names(self) -> list[str]:
        return [name for name, _ in self.key]

    def columns(self, frame: pd.DataFrame) -> list[tuple[str, Kind]]:
        """The columns to write, in order: the fixed ones, optional ones, then open ones in alphabetical order."""
        fixed = [*self.key, *self.values, *(item for item in self.optional if item[0] in frame.columns)]
        if self.open_prefix is None:
            return fixed
        known = {name for name, _ in fixed}
        opened = sorted(c for c in frame.columns if c not in known and str(c).startswith(self.open_prefix))
        return fixed + [(str(name), "count") for name in opened]


_RUN: tuple[tuple[str, Kind], ...] = (("policy", "text"), ("rung", "text"), ("seed", "count"))

METRICS = FrameSpec(
    "metrics",
    (("policy", "text"), ("rung", "text"), ("metric", "text")),
    (("unit", "text"), ("value", "real"), ("ci_low", "real"), ("ci_high", "real"), ("n", "count")),
)
POINTS = FrameSpec(
    "points",
    (("axis", "text"), ("position", "count"), ("point", "text"), *METRICS.key),
    METRICS.values,
)
LAYERS = FrameSpec(
    "layers",
    (*_RUN, ("batch", "count"), ("layer", "count")),
    tuple((f"{stage}_fs", "count") for stage in (*STAGES, "total")),
    open_prefix="bytes_",
    optional=tuple(
        (name, "real")
        for name in (
            "balance",
            "stack_balance",
            "replica_factor",
            "energy_J",
            "changed_choices",
            "top1_retention",
            "domains",
            "domain_cores",
            "domain_shared_links",
            "throttled",
        )
    ),
)
LINKS = FrameSpec(
    "links",
    (*_RUN, ("level", "text"), ("link", "count"), ("message_class", "text")),
    (
        ("src_router", "count"),
        ("src_x", "count"),
        ("src_y", "count"),
        ("dst_router", "count"),
        ("dst_x", "count"),
        ("dst_y", "count"),
        ("flits", "count"),
        ("bytes", "count"),
        ("busy_cycles", "count"),
        ("observed_cycles", "count"),
        *((f"stall_{cause}_cycles", "count") for cause in STALLS),
    ),
)
BANKS = FrameSpec(
    "banks",
    (
        *_RUN,
        ("endpoint", "text"),
        ("channel", "count"),
        ("pseudo_channel", "count"),
        ("bank_group", "count"),
        ("bank", "count"),
    ),
    (
        ("bytes", "count"),
        ("reads", "count"),
        ("writes", "count"),
        ("activates", "count"),
        ("row_hits", "count"),
        ("row_misses", "count"),
        ("row_conflicts", "count"),
        ("busy_cycles", "count"),
        ("observed_cycles", "count"),
    ),
)
CHIPLETS = FrameSpec(
    "chiplets",
    (*_RUN, ("endpoint", "text")),
    (
        ("kind", "text"),
        ("router", "count"),
        ("x", "count"),
        ("y", "count"),
        ("busy_fs", "count"),
        ("observed_fs", "count"),
        ("tokens", "count"),
        ("macs", "count"),
    ),
)
EXPERTS = FrameSpec(
    "experts",
    (*_RUN, ("layer", "count"), ("expert", "count"), ("endpoint", "text")),
    (
        ("groups", "count"),
        ("tokens", "count"),
        ("queue_fs", "count"),
        ("memory_fs", "count"),
        ("compute_fs", "count"),
    ),
)
TENANTS = FrameSpec(
    "tenants",
    (*_RUN, ("batch", "count"), ("layer", "count"), ("tenant", "text")),
    (
        ("tokens", "count"),
        ("total_fs", "count"),
        ("queue_fs", "count"),
        ("held_fs", "count"),
        ("replica_bytes", "count"),
        ("peak_replica_bytes", "count"),
        ("refused_copies", "count"),
        ("refused_prefetches", "count"),
    ),
)
INCIDENTS = FrameSpec(
    "incidents",
    (*_RUN, ("number", "count")),
    (
        ("time_fs", "count"),
        ("batch", "count"),
        ("layer", "count"),
        ("expert", "count"),
        ("incident", "text"),
        ("replicas", "count"),
        ("version", "count"),
        ("groups_in_flight", "count"),
        ("tokens_in_flight", "count"),
    ),
)
FRAMES = (METRICS, LAYERS, LINKS, BANKS, CHIPLETS, EXPERTS, TENANTS, INCIDENTS, POINTS)


@dataclass(frozen=True)
class Figure:
    """One counted figure of a run, such as the flit-hops of a rung: exact, and free of wall time."""

    rung: str
    name: str
    value: int
    unit: str


@dataclass(frozen=True)
class Law:
    """A law that the run checked on itself and how often or on what."""

    name: str
    detail: str


@dataclass(frozen=True)
class RunInfo:
    """The facts beside the frames; the same for the same configuration and seeds on every host.

    `trace` is `recorded`, `fitted(<source>)` or `synthetic`; `profile` and `evaluate` say which part of it the policies
    saw and which part was simulated (`profile` is `oracle` where a policy saw what it was judged on). `system` and
    `assumed` map a label or key to its text. `balance_definition` is the sentence printed under every balance figure.
    """

    name: str
    description: str
    model: str
    trace: str
    trace_name: str
    profile: str
    evaluate: str
    scope: str
    policies: tuple[str, ...]
    rungs: tuple[str, ...]
    seeds: tuple[int, ...]
    balance_definition: str
    sampling: str = "none"
    system: Mapping[str, str] = field(default_factory=dict)
    assumed: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    laws: tuple[Law, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        out: dict[str, Any] = {"schema": 1}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("figures", "laws"):
                value = [{f.name: getattr(row, f.name) for f in fields(row)} for row in value]
            elif isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = [[key, text] for key, text in value.items()]  # pairs keep their order in sorted JSON
            out[item.name] = value
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunInfo:
        """Reads `to_json`'s object; unknown or missing keys raise ValueError."""
        names = {item.name for item in fields(cls)}
        if data.get("schema") != 1:
            raise ValueError(f"info.json: expected schema 1, got {data.get('schema')!r}")
        problems = [
            f"info.json: unknown key {key!r}{_near(key, names)}" for key in data if key not in names | {"schema"}
        ]
        problems += [f"info.json: missing key {name!r}" for name in sorted(names - set(data))]
        if problems:
            raise ValueError("\n".join(problems))
        values = {name: data[name] for name in names}
        for name in ("policies", "rungs", "seeds", "warnings"):
            values[name] = tuple(values[name])
        for name in ("system", "assumed"):
            values[name] = dict(values[name])
        values["figures"] = tuple(Figure(**row) for row in values["figures"])
        values["laws"] = tuple(Law(**row) for row in values["laws"])
        return cls(**values)


def _near(word: str, known: set[str]) -> str:
    close = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def empty(spec: FrameSpec) -> pd.DataFrame:
    """A frame of no rows with `spec`'s columns, for what a run did not record."""
    columns = {name: pd.Series(dtype=_DTYPES[kind]) for name, kind in (*spec.key, *spec.values)}
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


_DTYPES: dict[Kind, str] = {"text": "object", "count": "int64", "real": "float64"}


def frame_problems(frame: pd.DataFrame, spec: FrameSpec) -> list[str]:
    """Everything that is wrong with a frame's columns, types or keys, one sentence each.

    A frame without rows and columns is right: the run did not record it.
    """
    problems: list[str] = []
    if frame.shape == (0, 0):
        return problems
    wanted = spec.columns(frame)
    names = {name for name, _ in wanted}
    for extra in frame.columns:
        if extra not in names:
            problems.append(f"{spec.name}: unknown column {extra!r}{_near(str(extra), names)}")
    for name, kind in wanted:
        if name not in frame.columns:
            problems.append(f"{spec.name}: missing column {name!r} ({kind})")
            continue
        column = frame[name]
        if column.isna().any() and kind != "real":
            problems.append(f"{spec.name}: column {name!r} has {int(column.isna().sum())} empty cells")
        elif kind == "count" and not pd.api.types.is_integer_dtype(column.dtype) and len(column):
            problems.append(f"{spec.name}: column {name!r} must hold integers, got {column.dtype}")
        elif kind == "real" and not pd.api.types.is_numeric_dtype(column.dtype) and len(column):
            problems.append(f"{spec.name}: column {name!r} must hold numbers, got {column.dtype}")
        elif kind == "text" and pd.api.types.is_numeric_dtype(column.dtype) and len(column):
            problems.append(f"{spec.name}: column {name!r} must hold text, got {column.dtype}")
    if not problems:
        twice = frame.duplicated(spec.key_names)
        if twice.any():
            row = frame.loc[twice, spec.key_names].iloc[0].to_dict()
            problems.append(f"{spec.name}: {int(twice.sum())} rows repeat a key, the first is {row}")
        reals = [name for name, kind in wanted if kind == "real"]
        for name in reals:
            if (frame[name].abs() == math.inf).any():
                problems.append(f"{spec.name}: column {name!r} holds an infinite value")
    return problems


def canonical(frame: pd.DataFrame, spec: FrameSpec) -> pd.DataFrame:
    """The frame as it is written: `spec`'s column order and types, rows sorted by key, a fresh index.

    Raises ValueError that lists every problem.
    """
    problems = frame_problems(frame, spec)
    if problems:
        raise ValueError("\n".join(problems))
    if frame.shape == (0, 0):
        return empty(spec)
    columns = spec.columns(frame)
    out: pd.DataFrame = pd.DataFrame(
        {
            name: frame[name].astype("int64" if kind == "count" else "float64" if kind == "real" else object)
            for name, kind in columns
        }
    )
    for name, kind in columns:
        if kind == "text":
            out[name] = out[name].map(str).astype(object)
    ordered: pd.DataFrame = out.sort_values(spec.key_names, kind="stable", ignore_index=True)
    return ordered


_CLAIM_KEYS = {
    "id",
    "scope",
    "statement",
    "kind",
    "source",
    "published",
    "tolerance",
    "unit",
    "rungs",
    "verdict",
    "reason",
    "needs",
}


def claim_problems(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """Everything that is wrong with the shape of a list of judged claims, one sentence each."""
    problems: list[str] = []
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        name = str(claim.get("id", f"number {position + 1}"))
        problems += [f"claim {name}: missing key {key!r}" for key in sorted(_CLAIM_KEYS - set(claim))]
        problems += [
            f"claim {name}: unknown key {key!r}{_near(key, _CLAIM_KEYS)}" for key in claim if key not in _CLAIM_KEYS
        ]
        verdict = claim.get("verdict")
        if "verdict" in claim and verdict not in VERDICTS:
            problems.append(f"claim {name}: verdict must be one of {', '.join(VERDICTS)}, got {verdict!r}")
        if name in seen:
            problems.append(f"claim {name}: the id appears twice")
        seen.add(name)
    return problems


@dataclass(frozen=True)
class RunContents:
    """Everything a report shows. Frames are put in canonical form; wrong ones raise ValueError with every problem.

    skipping: rung → how much of it was skipped and why not more. It depends on where a run was resumed, so the terminal
        and `provenance.json` have it, not the results.
    """

    info: RunInfo
    metrics: pd.DataFrame
    layers: pd.DataFrame
    links: pd.DataFrame = field(default_factory=lambda: empty(LINKS))
    banks: pd.DataFrame = field(default_factory=lambda: empty(BANKS))
    chiplets: pd.DataFrame = field(default_factory=lambda: empty(CHIPLETS))
    experts: pd.DataFrame = field(default_factory=lambda: empty(EXPERTS))
    tenants: pd.DataFrame = field(default_factory=lambda: empty(TENANTS))
    incidents: pd.DataFrame = field(default_factory=lambda: empty(INCIDENTS))
    points: pd.DataFrame = field(default_factory=lambda: empty(POINTS))
    claims: Sequence[Mapping[str, Any]] = ()
    skipping: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems: list[str] = []
        for spec in FRAMES:
            problems += frame_problems(getattr(self, spec.name), spec)
        problems += claim_problems(self.claims)
        policies = {*self.info.policies, ALL_POLICIES}
        rungs = set(self.info.rungs)
        for spec in FRAMES:
            frame = getattr(self, spec.name)
            for column, known in (("policy", policies), ("rung", rungs)):
                if column in frame.columns:
                    strange = sorted({str(v) for v in frame[column].unique()} - known)
                    problems += [f"{spec.name}: {column} {v!r} is not in info{_near(v, known)}" for v in strange]
        if problems:
            raise ValueError("\n".join(problems))
        for spec in FRAMES:
            object.__setattr__(self, spec.name, canonical(getattr(self, spec.name), spec))

    @property
    def top_rung(self) -> str:
        """The highest rung that ran; verdicts and maps are taken there."""
        return self.rungs[-1]

    @property
    def rungs(self) -> list[str]:
        """The rungs that ran, lowest first."""
        return ladder(self.info.rungs)

    def metric(self, policy: str, rung: str, metric: str) -> Mapping[str, Any] | None:
        """The row of one metric, None where the run has none."""
        return self._rows.get((policy, rung, metric))

    @cached_property
    def _rows(self) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        records = self.metrics.to_dict("records")
        return {
            (row["policy"], row["rung"], row["metric"]): {str(key): value for key, value in row.items()}
            for row in records
        }
