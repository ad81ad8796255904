"""Errors of cheap models as a map over two axes: colour and number in every cell, sign included."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from cosim.report.figures.figure import HEAT_STEPS, PANEL_WIDTH, HeatLegend, Panel, ReportFigure, heat_step, heat_top
from cosim.report.svg import Drawing

__all__ = ["draw"]

_LEFT, _TOP, _ROW, _BOTTOM = 62.0, 8.0, 34.0, 40.0


def draw(
    cells: pd.DataFrame,
    column: str,
    model: str,
    *,
    panel_by: Sequence[str],
    axes: tuple[tuple[str, str], tuple[str, str]],
) -> ReportFigure:
    """One map of ``column``, a relative error, for each value of ``panel_by``.

    Args:
        cells: one row per panel and point.
        model: what the error is of.
        axes: column and label of the horizontal and of the vertical axis.
    """
    top = heat_top([abs(float(value)) for value in cells[column]])
    panels: list[Panel] = []
    for values, group in cells.groupby(list(panel_by), sort=False):
        heading = " · ".join(map(str, values))
        panels.append(Panel(heading, _panel(f"{column}-{len(panels)}", heading, group, column, axes, top)))
    return ReportFigure(
        name=column,
        title=f"Error of {model} against flits",
        unit="%",
        caption=f"(time by {model} − time over flits) / time over flits, of one pass of a layer's communication. Below "
        "zero the cheap model promises too little time. Colour is the size of the error.",
        panels=tuple(panels),
        data=cells[[*panel_by, axes[0][0], axes[1][0], "flit_s", column]],
        heat=HeatLegend("size of the error", "0 %", f"{100 * top:.0f} % and more"),
    )


def _panel(
    name: str, heading: str, group: pd.DataFrame, column: str, axes: tuple[tuple[str, str], tuple[str, str]], top: float
) -> str:
    (across, across_label), (down, down_label) = axes
    columns, rows = sorted(set(group[across])), sorted(set(group[down]), reverse=True)
    width = (PANEL_WIDTH - _LEFT - 8) / len(columns)
    bottom = _TOP + _ROW * len(rows)
    records = group.to_dict("records")
    worst = max(records, key=lambda record: abs(float(record[column])))
    place = f"{across_label} {worst[across]}, {down_label} {worst[down]}"
    spoken = f"largest error {_percent(float(worst[column]))} at {place}"
    drawing = Drawing(PANEL_WIDTH, bottom + _BOTTOM, heading, spoken, name)
    for record in records:
        x = _LEFT + columns.index(record[across]) * width
        y = _TOP + rows.index(record[down]) * _ROW
        error = float(record[column])
        step = heat_step(abs(error), top)
        place = f"{across_label} {record[across]}, {down_label} {record[down]}"
        hint = f"{place}: {_percent(error)} of {1e6 * float(record['flit_s']):.3g} µs"
        drawing.rect(x, y, width, _ROW, f"cell h{step}", hint=hint)
        css = "tile-value on-hot" if step >= HEAT_STEPS // 2 else "tile-value on-cold"
        drawing.text(x + width / 2, y + _ROW / 2 + 5, _percent(error), css, anchor="middle")
    for row, value in enumerate(rows):
        drawing.text(_LEFT - 6, _TOP + _ROW * (row + 0.5) + 4, f"{value:,}", "tick", anchor="end")
    for number, value in enumerate(columns):
        drawing.text(_LEFT + width * (number + 0.5), bottom + 14, f"{value:,}", "tick", anchor="middle")
    drawing.text((_LEFT + PANEL_WIDTH - 8) / 2, bottom + 31, across_label, "axis-label", anchor="middle")
    drawing.text(12, (_TOP + bottom) / 2, down_label, "axis-label", anchor="middle", turn=-90)
    return drawing.render()


def _percent(value: float) -> str:
    return f"{100 * value:+.0f} %".replace("-", "−")
