"""What a run measured, unit by unit, and its resamples: the ground of every interval and verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from cosim.analytic.interface import STAGES
from cosim.analytic.table import FigureTable
from cosim.validate.expression import Term
from cosim.validate.statistics import (
    RESAMPLES,
    FloatArray,
    IntArray,
    Interval,
    interval,
    percentile_needs,
    resample_weights,
    weighted_percentile,
    weighted_sums,
)

#: Sampled rows below which no percentile is estimated under the ratio model.
SMEARED_ROWS = 30

#: Columns that identify a row of the layers frame.
KEY = ("policy", "rung", "seed", "batch", "layer")


class NotMeasuredError(LookupError):
    """The run cannot say what was asked; ``needs`` names what is missing."""

    def __init__(self, needs: str) -> None:
        self.needs = needs
        super().__init__(needs)


class Samples:
    """The rows of a run, grouped by policy and rung, with one set of bootstrap weights for all.

    ``layers`` has the columns of KEY, ``<stage>_fs`` and ``total_fs``, and any of bytes_<class>, balance,
    replica_factor, energy_J and numeric sweep columns. Every (policy, rung) must cover the same
    (seed, batch) units and, per value of the sweep columns, the same layers: comparisons are paired.
    ``figures`` are a user's published figures, which stand at their rung without units.

    ``sampled`` maps a rung that ran on a part of the rows to the cheaper rung that ran on all of them, as in
    {"flit": "link"}. Its rows must be the same for every policy. Means and totals of such a rung are ratio
    estimates, sum over all of the cheap * sum over the sample of the exact / sum over the sample of the
    cheap. Percentiles are those of the sampled rows where these are enough (see ``percentile_needs``). Else, where all
    rows of the cheap rung are enough and the sample has SMEARED_ROWS, they are those of the distribution that Chambers
    and Dunstan estimate ("Estimating distribution functions from survey data", Biometrika 73, 1986) under the same
    ratio model: sampled rows as they are, every other row spread over cheap * (exact / cheap of each sampled row).

    Raises ValueError for missing columns, repeated rows and policies that ran on different units.
    """

    def __init__(
        self,
        layers: pd.DataFrame,
        *,
        sweep: Sequence[str] = (),
        figures: Mapping[str, FigureTable] | None = None,
        aliases: Mapping[str, str] | None = None,
        sampled: Mapping[str, str] | None = None,
    ) -> None:
        missing = [name for name in (*KEY, "total_fs", *sweep) if name not in layers.columns]
        if missing:
            raise ValueError(f"layers frame: missing columns {', '.join(missing)}")
        key = [*KEY, *sweep]
        if bool(layers.duplicated(key).any()):
            row = layers.loc[layers.duplicated(key), key].iloc[0].to_dict()
            raise ValueError(f"layers frame: the row {row} appears twice")
        ordered = layers.sort_values(key, kind="stable").reset_index(drop=True)
        self.columns = tuple(str(name) for name in ordered.columns)
        self.sweep = tuple(sweep)
        self.units = ordered.loc[:, ["seed", "batch"]].drop_duplicates().sort_values(["seed", "batch"])
        self.units = self.units.reset_index(drop=True)
        self.figures = dict(figures or {})
        self.aliases = dict(aliases or {})
        self.sampled = dict(sampled or {})
        index = pd.MultiIndex.from_frame(self.units)
        self._cells: dict[tuple[str, str], pd.DataFrame] = {}
        self._row_key = [*sweep, "seed", "batch", "layer"]
        shapes: dict[str, pd.DataFrame] = {}
        for (policy, rung), rows in ordered.groupby(["policy", "rung"], sort=True):
            cell = rows.reset_index(drop=True)
            shape = cell.loc[:, self._row_key]
            if not shape.equals(shapes.setdefault(str(rung) if rung in self.sampled else "", shape)):
                raise ValueError(
                    f"layers frame: policy {policy!r} at {rung!r} covers other (seed, batch, layer) than the rest; "
                    "comparisons are paired"
                )
            unit = index.get_indexer(pd.MultiIndex.from_frame(cell.loc[:, ["seed", "batch"]]))
            self._cells[str(policy), str(rung)] = cell.assign(unit=unit.astype(np.int64))
        self._cache: dict[Term, tuple[float, FloatArray, int]] = {}
        for rung, base in self.sampled.items():
            for policy in [policy for policy, at in self._cells if at == rung]:
                if (policy, base) not in self._cells:
                    raise ValueError(f"layers frame: {rung} of {policy!r} is a sample of {base}, which did not run")
                if len(self._sample_of(self._cells[policy, base], rung, policy)) != len(self._cells[policy, rung]):
                    raise ValueError(f"layers frame: {rung} of {policy!r} has rows that {base} has not")

    @property
    def unit_count(self) -> int:
        """Number of (seed, batch) units."""
        return len(self.units)

    def policies(self) -> list[str]:
        """Policies with rows, sorted."""
        return sorted({policy for policy, _ in self._cells})

    def rungs(self) -> list[str]:
        """Rungs with rows or published figures, sorted."""
        return sorted({rung for _, rung in self._cells} | set(self.figures))

    def has(self, policy: str, rung: str) -> bool:
        """Whether this policy ran at this rung."""
        return (policy, rung) in self._cells

    def resolve(self, rung: str) -> str:
        """The rung as it stands in the frame: ``analytic:<first model>`` is ``analytic``."""
        return self.aliases.get(rung, rung)

    def rows(self, policy: str, rung: str) -> pd.DataFrame:
        """Rows of one policy at one rung, sorted, with the number of their unit."""
        return self._cells[policy, rung]

    def paired_rows(self, policy: str, rung: str, against: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows of one policy at two rungs, those that both have, in one order."""
        here, there = self.rows(policy, rung), self.rows(policy, against)
        if len(here) > len(there):
            return self._sample_of(here, against, policy), there
        if len(there) > len(here):
            return here, self._sample_of(there, rung, policy)
        return here, there

    def byte_columns(self) -> list[str]:
        """Columns bytes_<class>, sorted."""
        return sorted(name for name in self.columns if name.startswith("bytes_"))

    def measure(self, term: Term) -> tuple[float, FloatArray, int]:
        """Value, resampled values and number of rows of a term whose rung is given.

        A published figure has no resamples: its array is nan.

        Raises NotMeasuredError where the run has no such policy, rung, column or too few rows.
        """
        if term not in self._cache:
            self._cache[term] = self._measure(term)
        return self._cache[term]

    def estimate(self, term: Term) -> Interval:
        """The term with its 95 % interval."""
        value, resampled, n = self.measure(term)
        return interval(value, resampled, self.unit_count, n)

    def stage_differences(self, policy: str, rung: str, against: str) -> dict[str, float]:
        """Mean of each stage at ``rung`` less that at ``against``, ns; stages that neither has are left out."""
        here, there = self.paired_rows(policy, rung, against)
        found = {}
        for stage in STAGES:
            column = f"{stage}_fs"
            if column in here.columns and column in there.columns:
                a, b = here[column].to_numpy(), there[column].to_numpy()
                if bool(a.any()) or bool(b.any()):
                    found[stage] = (sum(a.tolist()) - sum(b.tolist())) / len(a) * 1e-6
        return found

    def stage_means(self, policy: str, rung: str) -> dict[str, float]:
        """Mean of each stage of a policy's rows at a rung, ns; KeyError where it did not run there."""
        rows = self._cells[policy, self.resolve(rung)]
        found = {}
        for stage in STAGES:
            if f"{stage}_fs" in rows.columns:
                found[stage] = _exact_sum(rows[f"{stage}_fs"].to_numpy()) / len(rows) * 1e-6
        return found

    def _sample_of(self, rows: pd.DataFrame, rung: str, policy: str) -> pd.DataFrame:
        """The rows whose keys ``rung`` has, too."""
        keys = self._cells[policy, rung].loc[:, self._row_key]
        found: pd.DataFrame = keys.merge(rows, on=self._row_key, how="inner", validate="one_to_one")
        return found

    def _measure(self, term: Term) -> tuple[float, FloatArray, int]:
        assert term.rung is not None
        rung = self.resolve(term.rung)
        if rung in self.figures:
            return self._published(term, rung)
        if (term.policy, rung) not in self._cells:
            raise NotMeasuredError(self._missing_cell(term.policy, rung))
        cell = self._cells[term.policy, rung]
        column = term.quantity.column
        if column not in cell.columns or bool(cell[column].isna().any()):
            raise NotMeasuredError(f"a measurement of {term.quantity.stem} at {rung}")
        for name in self.sweep:
            if name not in dict(term.where):
                raise NotMeasuredError(f"one value of {name}, over which the run sweeps")
        cell = _where(cell, term)
        unit = cell["unit"].to_numpy(dtype=np.int64)
        values = cell[column].to_numpy()
        base = self.sampled.get(rung)
        if base is not None:
            whole = _where(self._cells[term.policy, base], term)
            if column in whole.columns and not bool(whole[column].isna().any()):
                if term.quantity.statistic in ("mean", "total"):
                    return self._ratio_estimate(term, whole, cell, rung)
                if term.quantity.statistic == "max":
                    raise NotMeasuredError(f"{term.quantity.stem} at {rung} on every row: the largest is not estimated")
                percent = int(term.quantity.statistic.removeprefix("p"))
                if len(cell) < percentile_needs(percent) <= len(whole) and len(cell) >= SMEARED_ROWS:
                    return self._smeared_percentile(term, whole, cell, percent)
        value, resampled = self._statistic(term.quantity.statistic, unit, values)
        return value * term.quantity.scale, resampled * term.quantity.scale, len(values)

    def _ratio_estimate(
        self, term: Term, whole: pd.DataFrame, sample: pd.DataFrame, rung: str
    ) -> tuple[float, FloatArray, int]:
        """Mean or total at a sampled rung; ``whole`` are the rows of the cheap rung."""
        column, scale = term.quantity.column, term.quantity.scale
        cheap = sample.loc[:, self._row_key].merge(whole, on=self._row_key, how="left", validate="one_to_one")
        sums = [_exact_sum(frame[column].to_numpy()) for frame in (whole, sample, cheap)]
        if sums[2] == 0:
            if sums[1] == 0:
                return 0.0, np.zeros(RESAMPLES), len(sample)
            raise NotMeasuredError(f"{term.quantity.stem} at {rung} on every row: the cheaper rung has none of it")
        weights = resample_weights(self.unit_count)
        drawn = [
            weighted_sums(
                weights, _per_unit(self.unit_count, frame["unit"].to_numpy(dtype=np.int64), frame[column].to_numpy())
            )
            for frame in (whole, sample, cheap)
        ]
        counts = np.bincount(whole["unit"].to_numpy(dtype=np.int64), minlength=self.unit_count).astype(np.float64)
        rows = (float(len(whole)), weighted_sums(weights, counts)) if term.quantity.statistic == "mean" else (1.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = sums[0] / rows[0] * (sums[1] / sums[2])
            resampled = drawn[0] / rows[1] * (drawn[1] / drawn[2])
        return value * scale, resampled * scale, len(sample)

    def _smeared_percentile(
        self, term: Term, whole: pd.DataFrame, sample: pd.DataFrame, percent: int
    ) -> tuple[float, FloatArray, int]:
        """Percentile at a sampled rung under the ratio model; ``whole`` are the rows of the cheap rung."""
        column = term.quantity.column
        keyed = whole.loc[:, [*self._row_key, column, "unit"]]
        joined = keyed.merge(sample.loc[:, [*self._row_key, column]], on=self._row_key, how="left", suffixes=("", "_x"))
        cheap = joined[column].to_numpy(dtype=np.float64)
        exact = joined[f"{column}_x"].to_numpy(dtype=np.float64)
        unit = joined["unit"].to_numpy(dtype=np.int64)
        taken = ~np.isnan(exact)
        if bool((cheap[taken] <= 0).any()):
            raise NotMeasuredError(f"{term.quantity.stem} above 0 at the cheaper rung in every sampled row")
        ratios, ratio_unit = exact[taken] / cheap[taken], unit[taken]
        rest, rest_unit = cheap[~taken], unit[~taken]
        values = np.concatenate([exact[taken], (rest[:, None] * ratios).ravel()])
        # a sampled row stands for itself, another row for one share per sampled row
        first = np.concatenate([ratio_unit, np.repeat(rest_unit, len(ratios))])
        second = np.concatenate([np.full(len(ratios), -1), np.tile(ratio_unit, len(rest))])
        order = np.argsort(-values, kind="stable")  # from the largest down: only the tail is looked at
        values, first, second = values[order], first[order], second[order]
        tail = 1.0 - percent / 100

        def drawn(weights: IntArray) -> FloatArray:
            shares = weighted_counts(weights, ratio_unit)  # of the sample in each resample
            totals = weighted_counts(weights, unit)
            found = np.full(len(weights), math.nan)
            most = min(len(values), math.ceil(len(values) * max(4 * tail, 0.02)))
            block = max(1, 4_000_000 // most)
            for start in range(0, len(weights), block):
                rows = slice(start, start + block)
                found[rows] = self._from_above(
                    weights[rows].astype(np.float64), shares[rows], totals[rows] * tail, values, first, second, most
                )
            return np.where(shares > 0, found, math.nan)

        once = np.ones((1, self.unit_count), dtype=np.int64)
        scale = term.quantity.scale
        return float(drawn(once)[0]) * scale, drawn(resample_weights(self.unit_count)) * scale, len(sample)

    def _from_above(
        self,
        weights: FloatArray,
        shares: FloatArray,
        above: FloatArray,
        values: FloatArray,
        first: IntArray,
        second: IntArray,
        most: int,
    ) -> FloatArray:
        """The smallest value with at most the weight ``above`` beyond it, in each resample; all values where the
        largest ``most`` do not reach so far."""
        count = np.maximum(shares, 1.0)[:, None]
        spread = np.concatenate([weights, count], axis=1)  # the last column serves second = -1
        beyond = np.cumsum(weights[:, first[:most]] * spread[:, second[:most]] / count, axis=1)
        place = (beyond <= above[:, None] * (1 + 1e-12)).sum(axis=1)
        if most < len(values) and bool((place >= most).any()):
            return self._from_above(weights, shares, above, values, first, second, len(values))
        return np.asarray(values[np.minimum(place, len(values) - 1)], dtype=np.float64)

    def _statistic(self, statistic: str, unit: IntArray, values: IntArray | FloatArray) -> tuple[float, FloatArray]:
        weights = resample_weights(self.unit_count)
        if statistic in ("mean", "total"):
            per_unit = _per_unit(self.unit_count, unit, values)
            total = _exact_sum(values)
            sums = weighted_sums(weights, per_unit)
            if statistic == "total":
                return total, sums
            counts = np.bincount(unit, minlength=self.unit_count).astype(np.float64)
            drawn = weighted_sums(weights, counts)
            with np.errstate(divide="ignore", invalid="ignore"):
                return total / len(values), sums / drawn
        if statistic == "max":
            return _largest(weights, unit, values)
        percent = int(statistic.removeprefix("p"))
        needed = percentile_needs(percent)
        if len(values) < needed:
            raise NotMeasuredError(f"n >= {needed} (seed, batch, layer) rows for P{percent}; the run has {len(values)}")
        floats = values.astype(np.float64)
        once = np.ones((1, self.unit_count), dtype=np.int64)
        value = float(weighted_percentile(once, unit, floats, percent)[0])
        return value, weighted_percentile(weights, unit, floats, percent)

    def _published(self, term: Term, rung: str) -> tuple[float, FloatArray, int]:
        layer: int | None = None
        if [name for name, _ in term.where] == ["layer"]:
            layer = int(term.where[0][1])
        elif term.where:
            raise NotMeasuredError(f"figures of {term} in the table {self.figures[rung].name}")
        for figure in self.figures[rung].figures:
            if figure.policy == term.policy and figure.layer == layer and figure.quantity == term.quantity:
                nothing = np.full(RESAMPLES, math.nan)
                return figure.value, nothing, 1
        raise NotMeasuredError(f"figures of {term} in the table {self.figures[rung].name}")

    def _missing_cell(self, policy: str, rung: str) -> str:
        if rung not in {known for _, known in self._cells}:
            return f"a run at the rung {rung}"
        return f"a run of the policy {policy}"


def _where(cell: pd.DataFrame, term: Term) -> pd.DataFrame:
    """The rows that fulfil the term's equalities."""
    for name, value in term.where:
        if name not in cell.columns:
            raise NotMeasuredError(f"a sweep over {name}")
        cell = cell[cell[name] == value]
        if cell.empty:
            raise NotMeasuredError(f"a run with {name} = {value:g}")
    return cell


def weighted_counts(weights: IntArray, unit: IntArray) -> FloatArray:
    """How many of the rows that belong to ``unit`` each resample holds."""
    counts = np.bincount(unit, minlength=weights.shape[1]).astype(np.float64)
    return weighted_sums(weights, counts)


def _per_unit(units: int, unit: IntArray, values: IntArray | FloatArray) -> FloatArray:
    """Sums per unit; integers are added exactly before the division into floats."""
    if np.issubdtype(values.dtype, np.integer) and _fits(values):
        total = np.zeros(units, dtype=np.int64)
        np.add.at(total, unit, values.astype(np.int64))
        return total.astype(np.float64)
    return np.bincount(unit, weights=values.astype(np.float64), minlength=units).astype(np.float64)


def _largest(weights: IntArray, unit: IntArray, values: IntArray | FloatArray) -> tuple[float, FloatArray]:
    """The largest value, and that of each resample; nan for a resample without a row."""
    found = np.full(len(weights), math.nan)
    units = weights.shape[1]
    of_unit = np.full(units, -np.inf)
    np.maximum.at(of_unit, unit, values.astype(np.float64))
    for number in np.argsort(of_unit, kind="stable").tolist():  # ascending: the last one drawn is the largest
        if of_unit[number] > -np.inf:
            found[weights[:, number] > 0] = of_unit[number]
    return float(of_unit.max()), found


def _exact_sum(values: IntArray | FloatArray) -> float:
    if np.issubdtype(values.dtype, np.integer):
        return float(sum(values.tolist()))
    return math.fsum(values.tolist())


def _fits(values: IntArray | FloatArray) -> bool:
    """Whether the sum of the values cannot leave 64 bits."""
    largest = int(np.abs(values).max(initial=0))
    return largest * max(len(values), 1) < 2**63


def known_rungs(rungs: Iterable[str]) -> list[str]:
    """The rungs of a claim's answer that ran, lowest first."""
    ran = set(rungs)
    return [rung for rung in ("analytic", "link", "flit") if rung in ran]
