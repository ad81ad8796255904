"""From finished units to what a report holds: analytical rungs, metrics, verdicts and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.analytic.adapter import analytic_system
from cosim.analytic.evaluate import analytic_rungs, layers_frame
from cosim.analytic.interface import AnalyticModel
from cosim.analytic.registry import load_all
from cosim.analytic.system import AnalyticSystem
from cosim.analytic.table import FigureTable
from cosim.config.errors import ConfigErrors
from cosim.config.schema_experiment import ExperimentSpec
from cosim.config.schema_network import MESSAGE_CLASSES, LevelSpec
from cosim.policy.registry import make_policy
from cosim.report.contents import (
    BANKS,
    CHIPLETS,
    EXPERTS,
    INCIDENTS,
    LAYERS,
    LINKS,
    POINTS,
    RUNG_ORDER,
    TENANTS,
    Figure,
    FrameSpec,
    Law,
    RunContents,
    RunInfo,
    empty,
)
from cosim.run.campaign import top_rung
from cosim.run.components import check_components, component_frames
from cosim.run.points import Point, base_value
from cosim.run.setup import Setup, part_text
from cosim.run.skipping import skip_sentence
from cosim.run.unit import UnitKey, UnitResult
from cosim.system import LoadedExperiment
from cosim.validate.claims import ClaimFile, load_claims
from cosim.validate.compare import BALANCE_DEFINITION, check_figures, layer_balance, metrics_frame, stack_balance
from cosim.validate.points import Axis, MeasuredRun
from cosim.validate.samples import Samples
from cosim.validate.verdicts import RunScope, judge

__all__ = ["PointRun", "Validation", "validation_contents"]


@dataclass(frozen=True)
class Validation:
    """What stands beside the simulation: analytical models by name with their rungs, and the claims."""

    loaded: LoadedExperiment
    setup: Setup
    models: Mapping[str, AnalyticModel]
    tables: Mapping[str, FigureTable]
    rungs: Mapping[str, str]
    claims: ClaimFile | None
    system: AnalyticSystem

    @classmethod
    def prepare(cls, loaded: LoadedExperiment, setup: Setup) -> Validation:
        """Loads models and claims.

        Raises:
            ConfigErrors: what is wrong with them, all of it.
        """
        spec = loaded.spec
        errors: list[ConfigErrors] = []
        entries: dict[str, AnalyticModel | FigureTable] = {}
        if "analytic" in spec.rungs:
            try:
                entries = load_all([item.model_dump(mode="json") for item in spec.analytic])
                tables = [entry for entry in entries.values() if isinstance(entry, FigureTable)]
                check_figures(tables, [policy.title for policy in spec.policies])
            except ConfigErrors as found:
                errors.append(found)
        claims = None
        if spec.claims is not None:
            try:
                claims = load_claims(spec.claims)
            except ConfigErrors as found:
                errors.append(found)
        try:
            check_components(spec, setup)
        except ConfigErrors as found:
            errors.append(found)
        if errors:
            raise ConfigErrors([error for found in errors for error in found.errors])
        return cls(
            loaded,
            setup,
            {name: entry for name, entry in entries.items() if not isinstance(entry, FigureTable)},
            {name: entry for name, entry in entries.items() if isinstance(entry, FigureTable)},
            analytic_rungs(list(entries)),
            claims,
            analytic_system(loaded.system),
        )


@dataclass(frozen=True)
class PointRun:
    """A point of a sweep and what ran there."""

    point: Point
    closed: Mapping[UnitKey, UnitResult]
    replays: Mapping[UnitKey, UnitResult]


@dataclass(frozen=True)
class _Measured:
    """Layers of all rungs, samples made of them, and the rungs in the order of the tables."""

    layers: pd.DataFrame
    samples: Samples
    rungs: list[str]
    compared: Mapping[UnitKey, UnitResult]


def validation_contents(
    validation: Validation,
    closed: Mapping[UnitKey, UnitResult],
    replays: Mapping[UnitKey, UnitResult],
    points: Sequence[PointRun] = (),
) -> RunContents:
    """Everything the report shows. ``replays`` stand for their rung wherever rungs are compared with the top one."""
    spec, setup = validation.loaded.spec, validation.setup
    policies = [policy.title for policy in spec.policies]
    base = _measured(validation, closed, replays)
    at_points = [
        (run.point, _measured(Validation.prepare(run.point.setup.loaded, run.point.setup), run.closed, run.replays))
        for run in points
    ]
    claims = []
    if validation.claims is not None:
        scope = RunScope(spec.name, spec.workload.scope, validation.rungs)
        measured = MeasuredRun(base.samples, _axes(spec, base, at_points), component_frames(spec, setup))
        claims = judge(validation.claims, measured, scope)
    metrics = [metrics_frame(base.samples, policies, base.rungs)]
    if replays:
        metrics.append(_closed_loop(closed, replays, setup))
    return RunContents(
        info=_info(validation, closed, replays, base.rungs),
        metrics=pd.concat(metrics, ignore_index=True),
        layers=_trimmed(base.layers, LAYERS),
        links=_all(base.compared, "links", LINKS),
        banks=_all(base.compared, "banks", BANKS),
        chiplets=_all(base.compared, "chiplets", CHIPLETS),
        experts=_all(base.compared, "experts", EXPERTS),
        tenants=_all(base.compared, "tenants", TENANTS),
        incidents=_all(base.compared, "incidents", INCIDENTS),
        points=_point_metrics(spec, base, at_points),
        claims=claims,
        skipping=_skipping([*closed.values(), *replays.values()], base.rungs),
    )


def _skipping(units: Sequence[UnitResult], rungs: Sequence[str]) -> dict[str, str]:
    """What was skipped of each simulated rung, in words."""
    reports = {rung: [unit.skipped for unit in units if unit.key.rung == rung] for rung in rungs}
    return {rung: skip_sentence(of_rung) for rung, of_rung in reports.items() if of_rung}


def _measured(
    validation: Validation, closed: Mapping[UnitKey, UnitResult], replays: Mapping[UnitKey, UnitResult]
) -> _Measured:
    spec, setup = validation.loaded.spec, validation.setup
    policies = [policy.title for policy in spec.policies]
    top = top_rung(spec.rungs)
    decided_at = top if spec.sampling == "none" else "link"
    compared = {**closed}
    for key, result in replays.items():
        compared[UnitKey(key.policy, key.rung, key.seed)] = result
    layers = [_with_balance(result, setup) for _, result in sorted(compared.items())]
    if decided_at is not None:
        for policy in policies:
            parts = [_routed(closed[UnitKey(policy, decided_at, seed)].frames["groups"], setup) for seed in spec.seeds]
            decisions = pd.concat(parts, ignore_index=True)
            layers += _analytic_layers(validation, policy, decisions)
    all_layers = pd.concat(layers, ignore_index=True)
    figures = {validation.rungs[name]: table for name, table in validation.tables.items()}
    aliases = {f"analytic:{name}": rung for name, rung in validation.rungs.items()}
    above = [str(rung) for rung in spec.rungs if rung not in ("link", "analytic")]
    sampled = {} if spec.sampling == "none" else dict.fromkeys(above, "link")
    samples = Samples(all_layers, figures=figures, aliases=aliases, sampled=sampled)
    shown = [rung for rung in RUNG_ORDER if rung in spec.rungs and rung != "analytic"]
    return _Measured(all_layers, samples, [*validation.rungs.values(), *shown], compared)


def _axes(spec: ExperimentSpec, base: _Measured, points: Sequence[tuple[Point, _Measured]]) -> dict[str, Axis]:
    axes = {}
    for name in spec.sweeps:
        here = [(point, measured.samples) for point, measured in points if point.axis == name]
        numbers = {point.at: samples for point, samples in here if point.at is not None}
        at = base_value(spec, name)
        if numbers and at is not None:
            numbers[at] = base.samples
        axes[name] = Axis(numbers, {point.label: samples for point, samples in here if point.at is None})
    return axes


def _point_metrics(spec: ExperimentSpec, base: _Measured, points: Sequence[tuple[Point, _Measured]]) -> pd.DataFrame:
    """Metrics of every point, the base's among those of an axis that it stands on."""
    parts = []
    for name, sweep in spec.sweeps.items():
        at = base_value(spec, name)
        rows = [(point.label, point.at, measured) for point, measured in points if point.axis == name]
        if at is not None:
            rows.append((f"{at:g}", at, base))
        rows.sort(key=lambda row: 0.0 if row[1] is None else row[1])
        for order, (label, _, measured) in enumerate(rows):
            policies = [
                policy.title for policy in spec.policies if not sweep.policies or policy.title in sweep.policies
            ]
            frame = metrics_frame(measured.samples, policies, measured.rungs)
            parts.append(frame.assign(axis=name, position=order, point=label))
    return pd.concat(parts, ignore_index=True) if parts else empty(POINTS)


def _closed_loop(
    closed: Mapping[UnitKey, UnitResult], replays: Mapping[UnitKey, UnitResult], setup: Setup
) -> pd.DataFrame:
    """Mean layer latency of rungs that decided for themselves, where a replay stands for them everywhere else."""
    own = {(key.policy, key.rung) for key in replays}
    layers = [_with_balance(result, setup) for key, result in sorted(closed.items()) if (key.policy, key.rung) in own]
    samples = Samples(pd.concat(layers, ignore_index=True))
    frame = metrics_frame(samples, sorted({policy for policy, _ in own}), sorted({rung for _, rung in own}))
    found: pd.DataFrame = frame[frame["metric"] == "layer_latency_mean"].assign(metric="closed_loop_latency_mean")
    return found


def _with_balance(result: UnitResult, setup: Setup) -> pd.DataFrame:
    groups = _routed(result.frames["groups"], setup)
    chiplets = [place.index for place in setup.system.compute_endpoints]
    balance = layer_balance(groups, chiplets, setup.model.expert_macs_per_token)
    layers = result.frames["layers"]
    joined: pd.DataFrame = layers.merge(balance, on=["seed", "batch", "layer"], how="left", validate="one_to_one")
    stacks = {place.index: place.network for place in setup.system.compute_endpoints}
    if len(set(stacks.values())) > 1:
        between = stack_balance(groups, stacks)
        joined = joined.merge(between, on=["seed", "batch", "layer"], how="left", validate="one_to_one")
    return joined


def _routed(groups: pd.DataFrame, setup: Setup) -> pd.DataFrame:
    """Groups of routed experts: balance and the analytical models do not know the shared ones."""
    routed: pd.DataFrame = groups[groups["expert"] < setup.model.experts]
    return routed


def _analytic_layers(validation: Validation, policy: str, decisions: pd.DataFrame) -> list[pd.DataFrame]:
    return [
        layers_frame(
            model, decisions, validation.system, validation.setup.model, policy=policy, rung=validation.rungs[name]
        )
        for name, model in validation.models.items()
    ]


def _trimmed(frame: pd.DataFrame, spec: FrameSpec) -> pd.DataFrame:
    """The frame with the report's columns; byte counts that a rung does not have are zero."""
    names = [name for name, _ in spec.columns(frame)]
    out: pd.DataFrame = frame.loc[:, names].copy()
    for name in names:
        if name.startswith("bytes_"):
            out[name] = out[name].fillna(0).astype(np.int64)
    return out


def _all(results: Mapping[UnitKey, UnitResult], name: str, spec: FrameSpec) -> pd.DataFrame:
    parts = [result.frames[name] for _, result in sorted(results.items()) if len(result.frames[name])]
    return _trimmed(pd.concat(parts, ignore_index=True), spec) if parts else empty(spec)


_SHOWN_FIGURES = (
    ("flit_hops", "1"),
    ("link_hops", "1"),
    ("dram_read_bytes", "B"),
    ("dram_written_bytes", "B"),
    ("wasted_prefetch_bytes", "B"),
    ("checked_reads", "1"),
)


def _level_text(name: str, level: LevelSpec, several: bool) -> str:
    keys = level.topology.model_dump(exclude_defaults=True)
    shape = " × ".join(map(str, keys.get("shape", ())))
    if not shape:
        counted = {key: value for key, value in keys.items() if isinstance(value, int)}
        shape = ", ".join(f"{key} {value}" for key, value in counted.items())
    count = f"{level.count} × " if level.count > 1 else ""
    return f"{name}: {count}{level.topology.kind} {shape}" if several else f"{level.topology.kind} {shape}"


def _info(
    validation: Validation,
    closed: Mapping[UnitKey, UnitResult],
    replays: Mapping[UnitKey, UnitResult],
    rungs: list[str],
) -> RunInfo:
    spec, setup = validation.loaded.spec, validation.setup
    system = validation.loaded.system
    figures = []
    # systems of several levels have these as well
    shown = [*_SHOWN_FIGURES, *((f"flit_hops_{level}", "1") for level in sorted(system.spec.levels))]
    shown += [(f"gateway_{name}_bytes", "B") for name in MESSAGE_CLASSES]
    units = [*closed.values(), *replays.values()]
    for rung in rungs:
        of_rung = [unit for unit in units if unit.key.rung == rung]
        for name, unit_name in shown:
            value = sum(unit.figures.get(name, 0) for unit in of_rung)
            if value:
                figures.append(Figure(rung, name, value, unit_name))
    levels = system.spec.levels
    description = {
        "topology": "; ".join(_level_text(name, level, len(levels) > 1) for name, level in sorted(levels.items())),
        "links": "; ".join(
            f"{level.flit_width} B flits, {level.num_vcs} VCs × {level.vc_buf_size} flits"
            for _, level in sorted(levels.items())
        ),
        "compute": f"{len(system.compute_endpoints)} chiplets",
        "memory": ", ".join(
            sorted(
                {f"{p.spec.memory.channels} × {p.spec.memory.preset}" for p in system.memory_endpoints if p.spec.memory}
            )
        )
        + f" at {len(system.memory_endpoints)} endpoints",
    }
    rerun = sorted({f"{key.policy} at {key.rung}" for key in replays})
    decisions = (
        "every rung took the same decisions by itself, so closed loop and replay are one"
        if not replays
        else "these rungs decided otherwise than the top one and were replayed with its decisions: " + ", ".join(rerun)
    )
    costs = sorted(set(_zero_cost_policies(validation)))
    warnings = []
    if spec.workload.scope != "routed" and validation.models:
        warnings.append(
            "the analytical models see the routed experts only; gate, shared experts and combine are not theirs"
        )
    if setup.top_k_differs:
        warnings.append(
            f"the trace routes each token to {setup.trace.top_k} experts per layer, Top-k of "
            f"{spec.workload.model.name or 'the model'} is {spec.workload.model.top_k}"
        )
    if costs:
        warnings.append("decision cost declared as zero by: " + ", ".join(costs))
    return RunInfo(
        name=spec.name or "experiment",
        description=f"{spec.workload.batches} batch{'es' if spec.workload.batches > 1 else ''} of "
        f"{spec.workload.batch_tokens} tokens ({spec.workload.mode}), "
        f"MoE layers {spec.workload.layers}",
        model=spec.workload.model.name or "model",
        trace=setup.trace.provenance,
        trace_name=spec.trace.title,
        profile=part_text(spec.trace.profile),
        evaluate=part_text(spec.trace.evaluate),
        scope=spec.workload.scope,
        policies=tuple(policy.title for policy in spec.policies),
        rungs=tuple(rungs),
        seeds=tuple(spec.seeds),
        balance_definition=BALANCE_DEFINITION,
        sampling=spec.sampling
        if isinstance(spec.sampling, str)
        else f"{spec.sampling.fraction:g} of all units above link",
        system={"hardware": spec.system.name or "system", **description},
        assumed=_assumed(validation),
        figures=tuple(figures),
        laws=(
            Law("conservation", f"flits, credits, bursts and buffers of {len(units)} runs"),
            Law("decisions", decisions),
        ),
        warnings=tuple(warnings),
    )


def _zero_cost_policies(validation: Validation) -> list[str]:
    titles = []
    for item in validation.loaded.spec.policies:
        policy = make_policy(item.name, item.params)
        if not any(policy.decision_cost.values()) and item.name != "static":
            titles.append(item.title)
    return titles


def _assumed(validation: Validation) -> dict[str, str]:
    """Keys that the hardware file marks as assumed, with their values."""
    plain = validation.loaded.spec.system.model_dump(mode="json", exclude_none=True)
    found: dict[str, str] = {}

    def walk(value: object, path: tuple[str, ...]) -> None:
        if isinstance(value, Mapping):
            for key, below in value.items():
                walk(below, (*path, str(key)))
            return
        for key in validation.loaded.spec.system.assumed:
            parts = tuple(key.split("."))
            if path[-len(parts) :] == parts:
                found[".".join(path)] = str(value)

    walk(plain, ())
    return found
