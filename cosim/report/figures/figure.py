"""What every figure of a report has: title, unit, caption, panels, legend, and the plotted numbers to download."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pandas as pd

from cosim.report.svg import Axis, Drawing, text_width, ticks
from cosim.report.vocabulary import digits

PANEL_WIDTH = 360.0
"""Width of a panel in CSS pixels: its text is readable on a phone, and three fit side by side on a desk."""

HEAT_STEPS = 10
MOST_SHAPES = 6000
"""Shapes in one figure beyond which further panels are left out, to keep the page light."""
MOST_HINTS = 1200
"""Marks in one figure up to which each has its own hover text."""

MOST_LABEL = 20
"""Letters of a line of a row's label."""

_PLAIN_CSV_BYTES = 150_000


@dataclass(frozen=True)
class LegendEntry:
    """One swatch of a legend: `css` names its colour, `label` says what it stands for."""

    css: str
    label: str


@dataclass(frozen=True)
class HeatLegend:
    """The colour scale of a map: `HEAT_STEPS` equal steps from zero to `high`, both in words."""

    label: str
    low: str
    high: str


@dataclass(frozen=True)
class Panel:
    """One drawing of a figure and the heading over it."""

    heading: str
    svg: str


@dataclass(frozen=True)
class ReportFigure:
    """A figure; `unit` is the unit of what it encodes, `data` the plotted numbers, `left_out` what did not fit."""

    name: str
    title: str
    unit: str
    caption: str
    panels: tuple[Panel, ...]
    data: pd.DataFrame
    legend: tuple[LegendEntry, ...] = ()
    heat: HeatLegend | None = None
    left_out: tuple[str, ...] = field(default=())

    @property
    def csv(self) -> bytes:
        """The plotted numbers as CSV, unrounded."""
        return self.data.to_csv(index=False, lineterminator="\n").encode()

    @property
    def data_file(self) -> str:
        """The name under which the data are saved."""
        return f"{self.name}.csv" + (".gz" if self._packed else "")

    @property
    def data_uri(self) -> str:
        """The data as a `data:` URI; gzip-compressed where they are large."""
        body, kind = self.csv, "text/csv;charset=utf-8"
        if self._packed:
            body, kind = gzip.compress(body, mtime=0), "application/gzip"
        return f"data:{kind};base64,{base64.b64encode(body).decode()}"

    @property
    def _packed(self) -> bool:
        return len(self.csv) > _PLAIN_CSV_BYTES


def heat_step(value: float, top: float) -> int:
    """The colour step of a value between 0 and `top`."""
    if top <= 0:
        return 0
    return min(HEAT_STEPS - 1, max(0, int(value / top * HEAT_STEPS)))


def heat_top(values: Sequence[float]) -> float:
    """The round fraction at which a map's colour scale ends: 5, 10, 20, 50 or 100 %."""
    most = max(values, default=0.0)
    return next((top for top in (0.05, 0.1, 0.2, 0.5) if most <= top), 1.0)


def value_axis(drawing: Drawing, axis: Axis, top: float, bottom: float, label: str, most: int = 5) -> None:
    """Grid lines, tick labels and the axis label of a horizontal value axis below a plot, with as many ticks as fit."""
    values = next(
        found for steps in range(most, 0, -1) if _fits(found := ticks(axis.low, axis.high, steps), axis, steps)
    )
    for value in values:
        x = axis(value)
        drawing.line(x, top, x, bottom, "grid")
        drawing.text(x, bottom + 14, tick_text(value, values), "tick", anchor="middle")
    half = text_width(label, 11) / 2 + 2
    middle = min(max((axis.start + axis.end) / 2, half), drawing.width - half)
    drawing.text(middle, bottom + 30, label, "axis-label", anchor="middle")


def _fits(values: Sequence[float], axis: Axis, steps: int) -> bool:
    """Whether the labels of these ticks stand clear of each other; one step has to do."""
    widest = max((text_width(tick_text(value, values), 11) for value in values), default=0.0)
    return steps == 1 or all(axis(b) - axis(a) > widest + 4 for a, b in pairwise(values))


def tick_text(value: float, all_values: Sequence[float]) -> str:
    """A tick label with as many decimals as the step between ticks needs."""
    step = min((b - a for a, b in pairwise(all_values)), default=abs(value))
    places = next((n for n in range(10) if abs(round(step, n) - step) < 1e-9 * max(1.0, abs(step))), 9)
    return f"{value:,.{places}f}".replace("-", "−")


def label_room(labels: Iterable[str]) -> float:
    """Where a value axis begins so that the labels of its rows fit on its left; the same for all usual rungs."""
    return max(98.0, max((text_width(line) for label in labels for line in _lines(label)), default=0) + 10)


def row_label(drawing: Drawing, left: float, middle: float, text: str, css: str = "label") -> None:
    """The label of a row, which ends before an axis that begins at `left`; a long one takes two lines."""
    lines = _lines(text)
    for number, line in enumerate(lines):
        drawing.text(left - 7, middle + 4 + 11 * (number - (len(lines) - 1) / 2), line, css, anchor="end")


def _lines(label: str) -> list[str]:
    head, colon, tail = label.partition(":")
    if not colon or len(label) <= MOST_LABEL:
        return [short(label, MOST_LABEL)]
    return [head + colon, short(tail, MOST_LABEL)]


def short(text: str, room: int) -> str:
    """A label cut to `room` characters with an ellipsis; the full text stands in the data and on hover."""
    return text if len(text) <= room else text[: room - 1] + "…"


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts `memory7` before `memory14`."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


def value_label(value: float) -> str:
    """A number beside a mark, three digits."""
    return digits(value, 3)
