"""Two runs held against each other: differences with intervals and effect sizes, paired where the units are the same.

The unit is a (seed, batch), as everywhere in cosim. Where both runs simulated the same layers of the same units of the
same workload, the units are resampled together and the difference is taken unit by unit; else each run is resampled on
its own and the intervals are wider.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.report.contents import STAGES, RunContents
from cosim.report.loads import of_run
from cosim.report.tables import ABSENT, TextTable
from cosim.report.vocabulary import PERCENTILES, digits, percent, quantity, scale_for, units_needed
from cosim.validate.statistics import (
    KEY,
    Interval,
    interval,
    resample_weights,
    weighted_percentile,
    weighted_sums,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_LATENCY = "total_fs"
_UNITS = {
    "energy_J": "J",
    "balance": "1",
    "stack_balance": "1",
    "replica_factor": "1",
    "changed_choices": "1",
    "top1_retention": "1",
    "domains": "1",
    "domain_cores": "1",
    "domain_shared_links": "1",
    "throttled": "1",
}


@dataclass(frozen=True)
class Difference:
    """One quantity of one policy and rung in both runs.

    `difference` is B − A with its interval, None where fewer than two units ran. `effect` is the standardised mean
    difference of the units: Cohen's d_z of the unit differences where paired, else Hedges' g; None where it does not
    exist (percentiles, no spread, one unit). `lower` counts the paired units in which B is the lower one.
    """

    policy: str
    rung: str
    quantity: str
    unit: str
    a: float
    b: float
    difference: Interval
    effect: float | None
    paired: bool
    units: int
    lower: int | None

    @property
    def relative(self) -> float:
        """(B − A) / A."""
        return self.difference.value / self.a if self.a else math.nan

    @property
    def outcome(self) -> str:
        """Whether B is lower or higher than A with the interval clear of zero."""
        low, high = self.difference.low, self.difference.high
        if low is None or high is None:
            return "too few units"
        if low == high == 0:
            return "the same"
        return "lower" if high < 0 else "higher" if low > 0 else "not clear"


@dataclass(frozen=True)
class Comparison:
    """All differences of two runs, whether they are paired and what keeps them from it, and changed verdicts."""

    a: str
    b: str
    differences: tuple[Difference, ...]
    unpaired_because: tuple[str, ...]
    configuration: tuple[tuple[str, str, str], ...]
    verdicts: tuple[tuple[str, str, str], ...]


def compare(
    a: RunContents,
    b: RunContents,
    pairs: Sequence[tuple[str, str]] | None = None,
    configurations: tuple[dict[str, Any], dict[str, Any]] | None = None,
) -> Comparison:
    """Differences of B from A for the policies of both runs, or for each of `pairs` (policy of A, policy of B).

    `configurations` are the two resolved files, whose differing keys are listed. Raises ConfigErrors where a policy is
    not in its run, or no policy and rung is in both.
    """
    if pairs is None:
        pairs = [(policy, policy) for policy in a.info.policies if policy in b.info.policies]
    _check_pairs(a, b, pairs)
    why = _workload_differences(a, b)
    found: list[Difference] = []
    for first, second in pairs:
        for rung in (rung for rung in a.rungs if rung in b.info.rungs):
            rows_a, rows_b = of_run(a.layers, first, rung), of_run(b.layers, second, rung)
            if rows_a.empty or rows_b.empty:
                continue
            same = _same_units(rows_a, rows_b)
            if not same and "other (seed, batch, layer) units" not in why:
                why.append("other (seed, batch, layer) units")
            name = first if first == second else f"{first} → {second}"
            found += _differences(rows_a, rows_b, name, rung, paired=same and not _workload_differences(a, b))
    if not found:
        raise ConfigErrors.single(
            "a policy and rung that both runs have",
            f"{', '.join(a.info.policies)} at {', '.join(a.rungs)} and {', '.join(b.info.policies)} at "
            f"{', '.join(b.rungs)}",
        )
    return Comparison(
        a=a.info.name,
        b=b.info.name,
        differences=tuple(found),
        unpaired_because=tuple(why),
        configuration=() if configurations is None else tuple(_changed_keys(*configurations)),
        verdicts=tuple(_changed_verdicts(a, b)),
    )


def _check_pairs(a: RunContents, b: RunContents, pairs: Iterable[tuple[str, str]]) -> None:
    for pair in pairs:
        for policy, run, name in zip(pair, (a, b), ("A", "B"), strict=True):
            if policy not in run.info.policies:
                raise ConfigErrors.single(
                    f"a policy of {name}, {one_of(run.info.policies)}",
                    repr(policy),
                    suggestion=did_you_mean(policy, run.info.policies),
                )


def _workload_differences(a: RunContents, b: RunContents) -> list[str]:
    names = ("model", "trace", "trace_name", "evaluate", "scope", "sampling")
    return [
        f"other {name.replace('_', ' ')}: {getattr(a.info, name)} and {getattr(b.info, name)}"
        for name in names
        if getattr(a.info, name) != getattr(b.info, name)
    ]


def _same_units(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    key = ["seed", "batch", "layer"]
    return bool(a[key].reset_index(drop=True).equals(b[key].reset_index(drop=True)))


@dataclass(frozen=True)
class _Sample:
    """Rows of one run: their values, the number of their unit, and sums and counts per unit."""

    values: FloatArray
    unit: IntArray
    sums: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, rows: pd.DataFrame, column: str, scale: float) -> _Sample:
        units = rows[["seed", "batch"]].drop_duplicates()
        index = pd.MultiIndex.from_frame(units)
        unit = index.get_indexer(pd.MultiIndex.from_frame(rows[["seed", "batch"]])).astype(np.int64)
        values = rows[column].to_numpy(dtype=np.float64) * scale
        sums: FloatArray = np.bincount(unit, weights=values, minlength=len(units)).astype(np.float64)
        return cls(values, unit, sums, np.bincount(unit, minlength=len(units)).astype(np.float64))

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    def means(self, weights: IntArray) -> FloatArray:
        return weighted_sums(weights, self.sums) / weighted_sums(weights, self.counts)

    @property
    def unit_means(self) -> FloatArray:
        return self.sums / self.counts


def _differences(a: pd.DataFrame, b: pd.DataFrame, policy: str, rung: str, *, paired: bool) -> list[Difference]:
    out = []
    columns: list[tuple[str, str, str, float]] = [("layer_latency_mean", _LATENCY, "ns", 1e-6)]
    columns += [(f"stage_{stage}_mean", f"{stage}_fs", "ns", 1e-6) for stage in STAGES]
    extra = [str(name) for name in a.columns if str(name).startswith("bytes_") or name in _UNITS]
    columns += [(name.removesuffix("_J"), name, _UNITS.get(name, "B"), 1.0) for name in extra if name in b.columns]
    for name, column, unit, scale in columns:
        if bool(a[column].isna().any()) or bool(b[column].isna().any()):
            continue
        first, second = _Sample.of(a, column, scale), _Sample.of(b, column, scale)
        out.append(_mean_difference(first, second, policy, rung, name, unit, paired))
        if column == _LATENCY:
            out += _percentile_differences(first, second, policy, rung, paired)
    return out


def _weights(a: _Sample, b: _Sample, paired: bool) -> tuple[IntArray, IntArray, int]:
    """Resamples of both runs: the same draws where paired, independent ones else; and the number of units."""
    first, second = len(a.sums), len(b.sums)
    if paired:
        weights = resample_weights(first)
        return weights, weights, first
    return resample_weights(first), resample_weights(second, key=KEY + 1), min(first, second)


def _mean_difference(a: _Sample, b: _Sample, policy: str, rung: str, name: str, unit: str, paired: bool) -> Difference:
    weights_a, weights_b, units = _weights(a, b, paired)
    value = b.mean - a.mean
    resampled = b.means(weights_b) - a.means(weights_a)
    gaps = b.unit_means - a.unit_means if paired else None
    return Difference(
        policy,
        rung,
        name,
        unit,
        a.mean,
        b.mean,
        interval(value, resampled, units, units),
        cohens_dz(gaps) if gaps is not None else hedges_g(a.unit_means, b.unit_means),
        paired,
        units,
        None if gaps is None else int((gaps < 0).sum()),
    )


def _percentile_differences(a: _Sample, b: _Sample, policy: str, rung: str, paired: bool) -> list[Difference]:
    out = []
    for name, quantile in PERCENTILES.items():
        if min(len(a.values), len(b.values)) < units_needed(quantile):
            continue
        weights_a, weights_b, units = _weights(a, b, paired)
        level = round(quantile * 100)
        ends = [
            (weighted_percentile(np.ones((1, len(s.sums)), dtype=np.int64), s.unit, s.values, level), w, s)
            for s, w in ((a, weights_a), (b, weights_b))
        ]
        (first, second) = (float(point[0]) for point, _, _ in ends)
        resampled_a, resampled_b = (weighted_percentile(w, s.unit, s.values, level) for _, w, s in ends)
        spread = interval(second - first, resampled_b - resampled_a, units, units)
        out.append(Difference(policy, rung, name, "ns", first, second, spread, None, paired, units, None))
    return out


def cohens_dz(gaps: FloatArray) -> float | None:
    """Mean of paired differences over their standard deviation (J. Cohen, 1988, section 2.3.5); None without spread."""
    if len(gaps) < 2:
        return None
    spread = float(np.std(gaps, ddof=1))
    return float(np.mean(gaps)) / spread if spread > 0 else None


def hedges_g(a: FloatArray, b: FloatArray) -> float | None:
    """Difference of means over the pooled standard deviation, corrected for small samples; None without spread.

    L. V. Hedges, "Distribution Theory for Glass's Estimator of Effect Size and Related Estimators", Journal of
    Educational Statistics 6 (1981), with the approximation 1 − 3 / (4 (n_a + n_b) − 9) of its correction.
    """
    if min(len(a), len(b)) < 2:
        return None
    freedom = len(a) + len(b) - 2
    pooled = math.sqrt(((len(a) - 1) * np.var(a, ddof=1) + (len(b) - 1) * np.var(b, ddof=1)) / freedom)
    if pooled == 0:
        return None
    return float((np.mean(b) - np.mean(a)) / pooled * (1 - 3 / (4 * (len(a) + len(b)) - 9)))


def _flat(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, dict) and value:
        return {
            k: v for key, item in value.items() for k, v in _flat(item, f"{path}.{key}" if path else str(key)).items()
        }
    return {path: str(value)}


def _changed_keys(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, str, str]]:
    first, second = _flat(a), _flat(b)
    keys = [*first, *(key for key in second if key not in first)]
    return [(key, first.get(key, ABSENT), second.get(key, ABSENT)) for key in keys if first.get(key) != second.get(key)]


def _changed_verdicts(a: RunContents, b: RunContents) -> list[tuple[str, str, str]]:
    first, second = ({str(c["id"]): str(c["verdict"]) for c in run.claims} for run in (a, b))
    ids = [*first, *(name for name in second if name not in first)]
    return [(i, first.get(i, ABSENT), second.get(i, ABSENT)) for i in ids if first.get(i) != second.get(i)]


def comparison_tables(comparison: Comparison, *, every: bool = False) -> list[TextTable]:
    """The tables of a comparison; without `every` stages and traffic are shown at the highest common rung alone."""
    latency = [d for d in comparison.differences if d.quantity.startswith("layer_latency")]
    rest = [d for d in comparison.differences if not d.quantity.startswith("layer_latency")]
    if not every and rest:
        rest = [d for d in rest if d.rung == rest[-1].rung and (d.a != 0 or d.b != 0)]
    tables = []
    if comparison.configuration:
        rows = tuple(comparison.configuration)
        tables.append(TextTable("Configuration that differs", ("key", "A", "B"), rows, left=3))
    notes = _notes(comparison)
    tables.append(_difference_table("Layer latency, B against A", latency, notes))
    if rest:
        tables.append(_difference_table("Stages and traffic, B against A: mean per layer and batch", rest, ()))
    if comparison.verdicts:
        words = tuple(
            (i, first.replace("_", " "), second.replace("_", " ")) for i, first, second in comparison.verdicts
        )
        tables.append(TextTable("Claims whose verdict differs", ("claim", "A", "B"), words, left=3))
    return tables


def _notes(comparison: Comparison) -> tuple[str, ...]:
    notes = ["difference: B − A with its 95 % interval, from 2,000 resamples of (seed, batch) units, each on its own"]
    if any(d.paired for d in comparison.differences):
        notes.append(
            "effect (paired): Cohen's d_z, mean of the unit differences over their standard deviation; "
            "B lower in: units whose mean is lower in B"
        )
    if any(not d.paired for d in comparison.differences):
        notes.append(
            "effect (unpaired): Hedges' g, difference of the means over the pooled standard deviation of units"
        )
        reasons = "; ".join(comparison.unpaired_because)
        notes.append(f"unpaired, since the runs have {reasons}")
    return tuple(notes)


def _difference_table(title: str, differences: Sequence[Difference], notes: tuple[str, ...]) -> TextTable:
    rows = []
    for d in differences:
        scale = scale_for([d.a, d.b], d.unit)
        low, high = d.difference.low, d.difference.high
        gap = _signed(scale(d.difference.value))
        if low is not None and high is not None:
            gap += f" [{_signed(scale(low))}, {_signed(scale(high))}]"
        rows.append(
            (
                d.policy,
                d.rung,
                d.quantity,
                quantity(d.a, d.unit),
                quantity(d.b, d.unit),
                f"{gap} {scale.unit}".removesuffix(" 1"),
                percent(d.relative, signed=True),
                ABSENT if d.effect is None else _signed(d.effect),
                ABSENT if d.lower is None else f"{d.lower}/{d.units}",
                d.outcome,
            )
        )
    header = (
        "policy", "rung", "quantity", "A", "B", "difference [95 % CI]", "relative", "effect", "B lower in", "B is",
    )  # fmt: skip
    return TextTable(title, header, tuple(rows), notes, left=3)


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + digits(value, 3)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON, unrounded; absent bounds and effects are null."""
    return {
        "schema": 1,
        "a": comparison.a,
        "b": comparison.b,
        "unpaired_because": list(comparison.unpaired_because),
        "configuration": [{"key": k, "a": x, "b": y} for k, x, y in comparison.configuration],
        "verdicts": [{"id": i, "a": x, "b": y} for i, x, y in comparison.verdicts],
        "differences": [
            {
                "policy": d.policy,
                "rung": d.rung,
                "quantity": d.quantity,
                "unit": d.unit,
                "a": d.a,
                "b": d.b,
                "difference": d.difference.value,
                "ci_low": d.difference.low,
                "ci_high": d.difference.high,
                "relative": None if math.isnan(d.relative) else d.relative,
                "effect": d.effect,
                "effect_kind": "cohens_dz" if d.paired else "hedges_g",
                "paired": d.paired,
                "units": d.units,
                "units_b_lower": d.lower,
                "outcome": d.outcome,
            }
            for d in comparison.differences
        ],
    }
