"""Simulated time against a proxy of it: points, lines through zero, and what the lines leave over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from cosim.report.figures.figure import PANEL_WIDTH, LegendEntry, Panel, ReportFigure, tick_text, value_axis
from cosim.report.svg import Axis, Drawing, ticks

__all__ = ["Line", "draw"]

_LEFT, _RIGHT, _TOP, _HEIGHT = 56.0, 10.0, 8.0, 180.0


@dataclass(frozen=True)
class Line:
    """One series: the column that holds it, its name, and the slope of its line through zero, per panel heading."""

    column: str
    label: str
    slopes: dict[str, float]


def draw(
    points: pd.DataFrame, proxy: str, lines: Sequence[Line], *, panel_by: Sequence[str], axes: tuple[str, str]
) -> tuple[ReportFigure, ReportFigure]:
    """The points with their lines, and the residuals; a panel for each value of ``panel_by``.

    Args:
        points: one row per sample, with ``proxy`` and every line's column in microseconds.
        axes: labels of proxy and simulated time, without the unit.
    """
    fits, rests = [], []
    rest_columns = {line.column: f"{line.column}_residual" for line in lines}
    kept = points.copy()
    for values, group in points.groupby(list(panel_by), sort=False):
        heading = " · ".join(map(str, values))
        name = "-".join(map(str, values)).replace(" ", "-")
        for line in lines:
            rest = group[line.column] - line.slopes[heading] * group[proxy]
            kept.loc[group.index, rest_columns[line.column]] = rest
        shown = kept.loc[group.index]
        fits.append(Panel(heading, _fit(f"fit-{name}", heading, shown, proxy, lines, axes)))
        rests.append(Panel(heading, _rest(f"rest-{name}", heading, shown, proxy, lines, rest_columns, axes)))
    legend = tuple(LegendEntry(f"line p{number}", line.label) for number, line in enumerate(lines))
    return (
        ReportFigure(
            name="regression",
            title=f"{axes[1].capitalize()} against {axes[0]}",
            unit="µs",
            caption="A point is one drawn batch, a line the fit through zero; its slope is gamma.",
            panels=tuple(fits),
            data=points,
            legend=legend,
        ),
        ReportFigure(
            name="residuals",
            title="What the line leaves over",
            unit="µs",
            caption="Simulated time less gamma times the proxy: a line that explains the times leaves a level band "
            "around zero.",
            panels=tuple(rests),
            data=kept,
            legend=legend,
        ),
    )


def _frame(name: str, title: str, across: Axis, upward: Axis, labels: tuple[str, str]) -> Drawing:
    bottom = _TOP + _HEIGHT
    drawing = Drawing(PANEL_WIDTH, bottom + 36, title, f"{labels[1]} against {labels[0]}, in microseconds", name)
    value_axis(drawing, across, _TOP, bottom, f"{labels[0]} [µs]", 6)
    levels = ticks(upward.low, upward.high, 5)
    for level in levels:
        drawing.line(_LEFT, upward(level), PANEL_WIDTH - _RIGHT, upward(level), "grid")
        drawing.text(_LEFT - 6, upward(level) + 4, tick_text(level, levels), "tick", anchor="end")
    drawing.text(11, (_TOP + bottom) / 2, f"{labels[1]} [µs]", "axis-label", anchor="middle", turn=-90)
    return drawing


def _across(shown: pd.DataFrame, proxy: str) -> Axis:
    return Axis(0.0, float(shown[proxy].max()) * 1.05 or 1.0, _LEFT, PANEL_WIDTH - _RIGHT)


def _fit(name: str, heading: str, shown: pd.DataFrame, proxy: str, lines: Sequence[Line], axes: tuple[str, str]) -> str:
    across = _across(shown, proxy)
    most = max(max(float(shown[line.column].max()), line.slopes[heading] * across.high) for line in lines)
    upward = Axis(0.0, most * 1.05 or 1.0, _TOP + _HEIGHT, _TOP)
    drawing = _frame(name, heading, across, upward, axes)
    for number, line in enumerate(lines):
        slope = line.slopes[heading]
        drawing.line(
            across(0.0), upward(0.0), across(across.high), upward(slope * across.high), f"curve p{number}",
            hint=f"{line.label}: gamma {slope:.3f}",
        )  # fmt: skip
        for x, y in zip(shown[proxy], shown[line.column], strict=True):
            drawing.circle(across(x), upward(y), 2.6, f"dot p{number}", hint=f"{line.label}: {y:.3f} µs at {x:.3f} µs")
    return drawing.render()


def _rest(
    name: str,
    heading: str,
    shown: pd.DataFrame,
    proxy: str,
    lines: Sequence[Line],
    columns: dict[str, str],
    axes: tuple[str, str],
) -> str:
    across = _across(shown, proxy)
    most = max(float(shown[column].abs().max()) for column in columns.values()) * 1.05 or 1.0
    upward = Axis(-most, most, _TOP + _HEIGHT, _TOP)
    drawing = _frame(name, heading, across, upward, (axes[0], "residual"))
    drawing.line(_LEFT, upward(0.0), PANEL_WIDTH - _RIGHT, upward(0.0), "whisker")
    for number, line in enumerate(lines):
        for x, y in zip(shown[proxy], shown[columns[line.column]], strict=True):
            drawing.circle(across(x), upward(y), 2.6, f"dot p{number}", hint=f"{line.label}: {y:+.3f} µs at {x:.3f} µs")
    return drawing.render()
