"""The metrics of a run: summaries with intervals, errors of every rung against flit, agreement of rankings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.analytic.quantities import quantity
from cosim.analytic.table import FigureTable
from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.validate.expression import Term
from cosim.validate.samples import NotMeasuredError, Samples
from cosim.validate.statistics import FloatArray, interval, rank_agreement, resample_weights, weighted_sums

#: Columns of the metrics frame.
COLUMNS = ("policy", "rung", "metric", "unit", "value", "ci_low", "ci_high", "n")

#: The rung that others are held against.
REFERENCE = "flit"

#: Stands in the policy column of what belongs to all policies together.
ALL_POLICIES = "all"

BALANCE_DEFINITION = (
    "mean over the compute chiplets of the multiply-accumulates executed in a layer and batch, divided by the "
    "largest of them; 1 is perfect balance; the table shows the mean over layers and batches"
)

_LATENCY = "layer_latency_mean"
_SUMMARIES = (_LATENCY, "layer_latency_p50", "layer_latency_p95", "layer_latency_p99")
_OTHERS = (
    "balance", "stack_balance", "replica_factor", "energy", "changed_choices", "top1_retention", "domains",
    "domain_cores", "domain_shared_links", "throttled",
)  # fmt: skip

#: Mixed rungs: the named half of flit replaced by that of link.
_MIXED = {"network": "link+command", "memory": "flit+rate"}


@dataclass(frozen=True)
class _Row:
    policy: str
    rung: str
    metric: str
    unit: str
    value: float
    low: float | None
    high: float | None
    n: int


def metrics_frame(samples: Samples, policies: Sequence[str], rungs: Sequence[str]) -> pd.DataFrame:
    """All metric rows of a run, policies and rungs in the given order.

    Per policy and rung: mean, P50, P95 and P99 layer latency, bytes per layer and batch by class, balance,
    replica factor and energy as far as measured. A percentile with too few rows has no value (nan).
    Per policy and rung other than flit, where flit ran: error_against_flit (signed, of the mean),
    error_abs_against_flit (mean absolute difference of a row over the mean of flit) and
    stage_<stage>_error_against_flit (signed difference of the stage means, ns). At the rung link, where both
    mixed rungs ran: error_from_network, error_from_memory and error_from_interaction, which add up to
    error_against_flit. For all policies together: rank_agreement with flit (Kendall's tau-b of the mean
    latencies) and same_order (1 or 0).

    Raises ConfigErrors where a table of figures names a policy that did not run.
    """
    check_figures(samples.figures.values(), policies)
    rows: list[_Row] = []
    for policy in policies:
        for rung in rungs:
            rows += _summaries(samples, policy, rung)
    if REFERENCE in rungs:
        for policy in policies:
            for rung in rungs:
                if rung != REFERENCE:
                    rows += _errors(samples, policy, rung)
            rows += _attribution(samples, policy)
        for rung in rungs:
            if rung != REFERENCE:
                rows += _agreement(samples, policies, rung)
    records = [(r.policy, r.rung, r.metric, r.unit, r.value, _nan(r.low), _nan(r.high), r.n) for r in rows]
    frame: pd.DataFrame = pd.DataFrame.from_records(records, columns=list(COLUMNS))
    types = {"value": np.float64, "ci_low": np.float64, "ci_high": np.float64, "n": np.int64}
    typed: pd.DataFrame = frame.astype(types)
    return typed


def layer_balance(decisions: pd.DataFrame, chiplets: Sequence[int], macs_per_token: int) -> pd.DataFrame:
    """Balance of every layer and batch: mean over ``chiplets`` of the work executed, over the largest.

    ``decisions`` has one row per token group (cosim.analytic.groups); ``chiplets`` are all endpoints that
    may execute experts, so that an idle one counts. Returns seed, batch, layer, balance, sorted.

    Raises ValueError where a group executes elsewhere, or where decisions of several policies are mixed.
    """
    strange = sorted({int(value) for value in decisions["chiplet"].unique()} - set(chiplets))
    if strange:
        raise ValueError(f"decisions: chiplet {strange} is none of the {len(chiplets)} compute chiplets")
    for name in ("policy", "rung"):
        if name in decisions.columns and len(found := np.unique(decisions[name].to_numpy().astype(str))) > 1:
            raise ValueError(f"decisions: expected one {name}, got {', '.join(found)}")
    key = ["seed", "batch", "layer"]
    tokens = decisions["tokens"] * decisions["share"] if "share" in decisions.columns else decisions["tokens"]
    work = decisions.assign(tokens=tokens).groupby([*key, "chiplet"], sort=True)["tokens"].sum() * macs_per_token
    per_layer = work.groupby(level=key, sort=True)
    balance = per_layer.sum() / len(chiplets) / per_layer.max()
    frame: pd.DataFrame = balance.rename("balance").reset_index()
    return frame


def stack_balance(decisions: pd.DataFrame, stacks: Mapping[int, int]) -> pd.DataFrame:
    """Balance between stacks of every layer and batch: mean over the stacks of the tokens served, over the largest.

    ``stacks`` maps every compute chiplet to its stack, the network it sits in; a stack without tokens counts. Returns
    seed, batch, layer, stack_balance, sorted. Its inverse is the group-level max to mean of 3D-MoE.
    """
    key = ["seed", "batch", "layer"]
    tokens = decisions["tokens"] * decisions["share"] if "share" in decisions.columns else decisions["tokens"]
    placed = decisions.assign(tokens=tokens, stack=decisions["chiplet"].map(stacks))
    per_layer = placed.groupby([*key, "stack"], sort=True)["tokens"].sum().groupby(level=key, sort=True)
    balance = per_layer.sum() / len(set(stacks.values())) / per_layer.max()
    frame: pd.DataFrame = balance.rename("stack_balance").reset_index()
    return frame


def check_figures(tables: Iterable[FigureTable], policies: Sequence[str]) -> None:
    """Refuse tables of figures that name a policy which is none of ``policies``.

    Raises ConfigErrors with every such policy, its line and the nearest right spelling.
    """
    errors: list[ConfigError] = []
    for table in tables:
        for policy in table.policies():
            if policy not in policies:
                line = next(figure.line for figure in table.figures if figure.policy == policy)
                expected = "a policy of the experiment, " + one_of(list(policies))
                hint = did_you_mean(policy, policies)
                errors.append(ConfigError(f"{table.name}.csv", line, None, "policy", expected, repr(policy), hint))
    if errors:
        raise ConfigErrors(errors)


def _summaries(samples: Samples, policy: str, rung: str) -> list[_Row]:
    if rung in samples.figures:
        return [
            _Row(policy, rung, figure.metric, figure.quantity.unit, figure.value, None, None, 1)
            for figure in samples.figures[rung].figures
            if figure.policy == policy
        ]
    if not samples.has(policy, rung):
        return []
    rows = []
    for name in (*_SUMMARIES, *samples.byte_columns(), *_OTHERS):
        measured = quantity(name)
        cell = samples.rows(policy, rung)
        if measured.column not in cell.columns or bool(cell[measured.column].isna().any()):
            continue
        try:
            estimate = samples.estimate(Term(measured, policy, rung))
        except NotMeasuredError:
            rows.append(_Row(policy, rung, name, measured.unit, math.nan, None, None, len(cell)))
        else:
            rows.append(
                _Row(policy, rung, name, measured.unit, estimate.value, estimate.low, estimate.high, estimate.n)
            )
    return rows


def _relative(samples: Samples, policy: str, rung: str) -> tuple[float, FloatArray, int] | None:
    """(mean latency of the rung - that of flit) / that of flit, with resamples."""
    latency = quantity(_LATENCY)
    try:
        value, resampled, n = samples.measure(Term(latency, policy, rung))
        base, base_resampled, _ = samples.measure(Term(latency, policy, REFERENCE))
    except NotMeasuredError:
        return None
    if base == 0:
        return None
    return (value - base) / base, (resampled - base_resampled) / base_resampled, n


def _errors(samples: Samples, policy: str, rung: str) -> list[_Row]:
    signed = _relative(samples, policy, rung)
    if signed is None:
        return []
    rows = [_row(samples, policy, rung, "error_against_flit", "1", *signed)]
    if not samples.has(policy, rung):
        return rows
    here, there = samples.paired_rows(policy, rung, REFERENCE)
    unit = there["unit"].to_numpy(dtype=np.int64)
    units, n = samples.unit_count, len(unit)
    weights = resample_weights(units)
    base = there["total_fs"].to_numpy(dtype=np.float64)
    base_units = np.bincount(unit, weights=base, minlength=units).astype(np.float64)
    gap = np.abs(here["total_fs"].to_numpy() - there["total_fs"].to_numpy()).astype(np.float64)
    gap_units = np.bincount(unit, weights=gap, minlength=units).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample without a sampled row: no interval
        resampled = weighted_sums(weights, gap_units) / weighted_sums(weights, base_units)
    value = math.fsum(gap) / math.fsum(base)
    rows.append(_row(samples, policy, rung, "error_abs_against_flit", "1", value, resampled, n))
    counts = weighted_sums(weights, np.bincount(unit, minlength=units).astype(np.float64))
    for stage, difference in samples.stage_differences(policy, rung, REFERENCE).items():
        column = f"{stage}_fs"
        change = (here[column].to_numpy() - there[column].to_numpy()).astype(np.float64)
        per_unit = np.bincount(unit, weights=change, minlength=units).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            resampled = weighted_sums(weights, per_unit) / counts * 1e-6
        rows.append(_row(samples, policy, rung, f"stage_{stage}_error_against_flit", "ns", difference, resampled, n))
    return rows


def _attribution(samples: Samples, policy: str) -> list[_Row]:
    link = _relative(samples, policy, "link")
    parts = {name: _relative(samples, policy, rung) for name, rung in _MIXED.items()}
    network, memory = parts["network"], parts["memory"]
    if link is None or network is None or memory is None:
        return []
    value = link[0] - network[0] - memory[0]
    interaction = (value, link[1] - network[1] - memory[1], link[2])
    return [
        _row(samples, policy, "link", f"error_from_{name}", "1", *part)
        for name, part in (("network", network), ("memory", memory), ("interaction", interaction))
    ]


def _agreement(samples: Samples, policies: Sequence[str], rung: str) -> list[_Row]:
    latency = quantity(_LATENCY)
    here, there = [], []
    for policy in policies:
        try:
            first, _, _ = samples.measure(Term(latency, policy, rung))
            second, _, _ = samples.measure(Term(latency, policy, REFERENCE))
        except NotMeasuredError:
            continue
        here.append(first)
        there.append(second)
    if len(here) < 2:
        return []
    agreement = rank_agreement(here, there)
    tau = math.nan if agreement.tau is None else agreement.tau
    return [
        _Row(ALL_POLICIES, rung, "rank_agreement", "1", tau, None, None, agreement.n),
        _Row(ALL_POLICIES, rung, "same_order", "1", float(agreement.same_order), None, None, agreement.n),
    ]


def _row(
    samples: Samples, policy: str, rung: str, metric: str, unit: str, value: float, resampled: FloatArray, n: int
) -> _Row:
    estimate = interval(value, resampled, samples.unit_count, n)
    return _Row(policy, rung, metric, unit, estimate.value, estimate.low, estimate.high, n)


def _nan(bound: float | None) -> float:
    return math.nan if bound is None else bound
