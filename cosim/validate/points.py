"""What an experiment with sweeps measured: the base, and every point of every axis, each with its own samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from cosim.config.errors import did_you_mean
from cosim.validate.expression import Term
from cosim.validate.samples import NotMeasuredError, Samples
from cosim.validate.statistics import RESAMPLES, FloatArray

__all__ = ["Axis", "MeasuredRun"]


@dataclass(frozen=True)
class Axis:
    """The points of a sweep: samples by number, the base's among them where it has one, or by name."""

    numbers: Mapping[float, Samples]
    names: Mapping[str, Samples]


@dataclass(frozen=True)
class MeasuredRun:
    """The base experiment's samples and those of its sweeps, behind the one face that claims are judged by.

    A term with an equality on an axis, or with ``point``, is measured at that point; any other at the base. All points
    have the units (seed, batch) of the base, so that comparisons across points are paired. ``components`` are figures
    of components and inputs by themselves: a row per case, with a column ``subject``, numbers that select, and metrics.

    Raises ValueError for a point with other units.
    """

    base: Samples
    axes: Mapping[str, Axis]
    components: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, axis in self.axes.items():
            for label, samples in (*axis.numbers.items(), *axis.names.items()):
                if not samples.units.equals(self.base.units):
                    raise ValueError(f"sweep {name}: the point {label} has other (seed, batch) than the base")

    @property
    def unit_count(self) -> int:
        """Number of (seed, batch) units."""
        return self.base.unit_count

    def policies(self) -> list[str]:
        """Policies with rows, sorted."""
        return self.base.policies()

    def rungs(self) -> list[str]:
        """Rungs with rows or published figures, sorted."""
        return self.base.rungs()

    def resolve(self, rung: str) -> str:
        """The rung as it stands in the frame."""
        return self.base.resolve(rung)

    def measure(self, term: Term) -> tuple[float, FloatArray, int]:
        """As :meth:`Samples.measure`, at the term's point.

        A figure of a component is exact: all its resamples are the figure.

        Raises NotMeasuredError also for a point that the experiment does not have.
        """
        if term.quantity.component is not None:
            value = self._of_component(term, term.quantity.component)
            return value, np.full(RESAMPLES, value), 1
        samples, rest = self.located(term)
        return samples.measure(rest)

    def located(self, term: Term) -> tuple[Samples, Term]:
        """The samples of the term's point, and the term without the point.

        Raises NotMeasuredError for a point that the experiment does not have, or a term with two.
        """
        on_axes = [(name, value) for name, value in term.where if name in self.axes]
        if len(on_axes) + (term.point is not None) > 1:
            raise NotMeasuredError(f"one point for {term}: a sweep changes one axis at a time")
        if term.point is not None:
            named = {name: samples for axis in self.axes.values() for name, samples in axis.names.items()}
            if term.point not in named:
                hint = did_you_mean(term.point, named)
                raise NotMeasuredError(f"a point {term.point}" + (f" ({hint})" if hint else ""))
            return named[term.point], replace(term, point=None)
        if not on_axes:
            return self.base, term
        axis, value = on_axes[0]
        numbers = self.axes[axis].numbers
        if value not in numbers:
            raise NotMeasuredError(f"a run with {axis} = {value:g}")
        return numbers[value], replace(term, where=tuple(item for item in term.where if item[0] != axis))

    def _of_component(self, term: Term, component: str) -> float:
        if component not in self.components:
            raise NotMeasuredError(f"the component {component} in the experiment's components")
        rows = self.components[component]
        subjects = rows["subject"].unique().tolist()
        if term.policy not in subjects:
            hint = did_you_mean(term.policy, subjects)
            raise NotMeasuredError(f"{component} of {term.policy}" + (f" ({hint})" if hint else ""))
        rows = rows[rows["subject"] == term.policy]
        for name, value in term.where:
            if name not in rows.columns:
                raise NotMeasuredError(f"a column {name} of {component}")
            rows = rows[rows[name] == value]
        name = term.quantity.column.removeprefix(f"{component}_")
        if len(rows) != 1:
            others = [str(column) for column in rows.columns if len(set(rows[column])) > 1 and column != name]
            chosen = f"one case of {term}, which {len(rows)} cases have" if len(rows) else f"a case of {term}"
            raise NotMeasuredError(chosen + (f": they differ in {', '.join(others)}" if others else ""))
        value = float(rows[name].iloc[0])
        if np.isnan(value):
            raise NotMeasuredError(f"{name} of {term.policy} in {component}")
        return value

    def axis_values(self, terms: tuple[Term, ...], axis: str, rung: str | None) -> list[float]:
        """The numbers of an axis at which all terms can be measured: those of a sweep, or of a column of the frame.

        Raises NotMeasuredError where there are less than two.
        """
        found: set[float] = set()
        parts = {term.quantity.component for term in terms} - {None}
        if parts:
            frames = [self.components[part] for part in sorted(map(str, parts)) if part in self.components]
            found = {float(value) for frame in frames if axis in frame.columns for value in frame[axis].to_numpy()}
        elif axis in self.axes:
            found = set(self.axes[axis].numbers)
        else:
            for term in terms:
                found |= self._column_values(term, axis, rung)
        if len(found) < 2:
            raise NotMeasuredError(f"at least two values of {axis}")
        return sorted(found)

    def _column_values(self, term: Term, axis: str, rung: str | None) -> set[float]:
        at = self.resolve(term.rung if term.rung is not None else str(rung))
        if not self.base.has(term.policy, at):
            self.base.measure(replace(term, rung=at))
            raise NotMeasuredError(f"a sweep over {axis}")
        rows = self.base.rows(term.policy, at)
        if axis not in rows.columns or not np.issubdtype(rows[axis].to_numpy().dtype, np.number):
            raise NotMeasuredError(f"a sweep over {axis}")
        return {float(value) for value in rows[axis].to_numpy()}
