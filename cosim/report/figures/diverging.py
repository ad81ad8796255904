"""Bars to the left and right of zero, each with its number: for differences and errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosim.report.figures.figure import PANEL_WIDTH, label_room, row_label, value_axis
from cosim.report.svg import Axis, Drawing, text_width

_ROW = 25.0
_TOP = 4.0


@dataclass(frozen=True)
class Bar:
    """One bar; `low` and `high` bound its interval and are NaN where there is none."""

    label: str
    value: float
    low: float
    high: float


def reach(bars: Sequence[Bar]) -> tuple[float, float]:
    """The range of values that all bars and intervals need, zero included and never empty."""
    ends = [v for bar in bars for v in (bar.value, bar.low, bar.high) if not math.isnan(v)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    return (low, high) if high > low else (low - 1, high + 1)


def panel(
    name: str, title: str, bars: Sequence[Bar], span: tuple[float, float], label: str, words: Callable[[float], str]
) -> str:
    """A panel of bars on an axis over `span`; `words` writes a value."""
    bottom = _TOP + _ROW * len(bars)
    spoken = "; ".join(f"{bar.label} {words(bar.value)}" for bar in bars)
    drawing = Drawing(PANEL_WIDTH, bottom + 36, title, spoken, name)
    low, high = span
    left = label_room(bar.label for bar in bars)
    # Room for the number beside the bar, on whichever side it ends.
    rooms = [
        max((text_width(words(bar.value), 12.5) + 14 for bar in bars if (bar.value < 0) == below), default=0.0)
        for below in (True, False)
    ]
    axis = Axis(low, high, left + max(rooms[0], 6.0), PANEL_WIDTH - max(rooms[1], 10.0))
    value_axis(drawing, axis, _TOP, bottom, label, 4)
    zero = axis(0)
    for row, bar in enumerate(bars):
        middle = _TOP + _ROW * (row + 0.5)
        row_label(drawing, left, middle, bar.label)
        x = axis(bar.value)
        kind = "under" if bar.value < 0 else "over"
        drawing.rect(
            min(zero, x), middle - 6, abs(x - zero), 12, f"bar {kind}", hint=f"{bar.label}: {words(bar.value)}"
        )
        end = x
        if not math.isnan(bar.low) and not math.isnan(bar.high):
            drawing.line(axis(bar.low), middle, axis(bar.high), middle, "whisker")
            end = min(x, axis(bar.low)) if bar.value < 0 else max(x, axis(bar.high))
        if bar.value < 0:
            drawing.text(min(end, zero) - 5, middle + 4, words(bar.value), "value", anchor="end")
        else:
            drawing.text(max(end, zero) + 5, middle + 4, words(bar.value), "value")
    drawing.line(zero, _TOP, zero, bottom, "zero")
    return drawing.render()
