"""Latency and accepted load of a network against the load it is offered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from cosim.report.figures.figure import PANEL_WIDTH, LegendEntry, Panel, ReportFigure, tick_text, value_axis
from cosim.report.svg import Axis, Drawing, ticks

_LEFT, _RIGHT, _TOP, _HEIGHT = 48.0, 10.0, 8.0, 180.0
CUT = 6.0
"""Latencies above this multiple of the zero-load latency are off the drawing."""


def draw(points: pd.DataFrame, zero_load_cycles: float, marks: Mapping[str, float]) -> ReportFigure:
    """Two panels over one load axis.

    Args:
        points: injection_rate, accepted_rate, packet_latency_mean_cycles and its
            packet_latency_mean_half_width_cycles, stable; one row per run, by rate.
        zero_load_cycles: latency without contention.
        marks: rates to mark by name (knee, saturation); nan ones are left out.
    """
    most = float(points["injection_rate"].max())
    across = Axis(0.0, most, _LEFT, PANEL_WIDTH - _RIGHT)
    shown = {name: rate for name, rate in marks.items() if not math.isnan(rate)}
    return ReportFigure(
        name="latency-load",
        title="Mean packet latency and accepted load",
        unit="cycles; flits per node and cycle",
        caption=f"Bars are 95 % intervals from batch means. The dashed level is the latency without contention "
        f"({zero_load_cycles:.1f} cycles); latencies above {CUT:.0f} times it are not drawn. Upright lines: "
        + (", ".join(f"{name} at {rate:.4f}" for name, rate in shown.items()) or "none found")
        + ".",
        panels=(
            Panel("packet latency", _latency(points, zero_load_cycles, shown, across)),
            Panel("accepted load", _accepted(points, shown, across)),
        ),
        data=points,
        legend=(LegendEntry("line p0", "mean packet latency, accepted load"),),
    )


def _frame(name: str, title: str, spoken: str, upward: Axis, across: Axis, unit: str) -> Drawing:
    bottom = _TOP + _HEIGHT
    drawing = Drawing(PANEL_WIDTH, bottom + 36, title, spoken, name)
    value_axis(drawing, across, _TOP, bottom, "offered load [flits per node and cycle]", 6)
    levels = ticks(upward.low, upward.high, 5)
    for level in levels:
        drawing.line(_LEFT, upward(level), PANEL_WIDTH - _RIGHT, upward(level), "grid")
        drawing.text(_LEFT - 6, upward(level) + 4, tick_text(level, levels), "tick", anchor="end")
    drawing.text(11, (_TOP + bottom) / 2, unit, "axis-label", anchor="middle", turn=-90)
    return drawing


def _mark(drawing: Drawing, marks: Mapping[str, float], across: Axis) -> None:
    for name, rate in marks.items():
        drawing.line(across(rate), _TOP, across(rate), _TOP + _HEIGHT, "whisker", hint=f"{name}: {rate:.4f}")
        drawing.text(across(rate) - 4, _TOP + 11, name, "tick", anchor="end")


def _latency(points: pd.DataFrame, zero_load: float, marks: Mapping[str, float], across: Axis) -> str:
    bottom = _TOP + _HEIGHT
    upward = Axis(0.0, CUT * zero_load, bottom, _TOP)
    low = points[points["packet_latency_mean_cycles"] <= CUT * zero_load]
    spoken = "; ".join(f"{p.injection_rate:g}: {p.packet_latency_mean_cycles:.1f} cycles" for p in _rows(low))
    drawing = _frame("latency", "Mean packet latency against offered load", spoken, upward, across, "cycles")
    drawing.line(_LEFT, upward(zero_load), PANEL_WIDTH - _RIGHT, upward(zero_load), "curve p1")
    _mark(drawing, marks, across)
    drawing.polyline([(across(p.injection_rate), upward(p.packet_latency_mean_cycles)) for p in _rows(low)], "curve p0")
    for p in _rows(low):
        x, half = across(p.injection_rate), p.packet_latency_mean_half_width_cycles
        if not math.isnan(half):
            top = upward(min(p.packet_latency_mean_cycles + half, upward.high))
            drawing.line(x, top, x, upward(max(p.packet_latency_mean_cycles - half, 0.0)), "whisker")
        hint = f"{p.injection_rate:g}: {p.packet_latency_mean_cycles:.2f} ± {half:.2f} cycles"
        drawing.circle(x, upward(p.packet_latency_mean_cycles), 3, "dot p0", hint=hint)
    return drawing.render()


def _accepted(points: pd.DataFrame, marks: Mapping[str, float], across: Axis) -> str:
    upward = Axis(0.0, float(points["accepted_rate"].max()) * 1.05, _TOP + _HEIGHT, _TOP)
    spoken = "; ".join(f"{p.injection_rate:g}: {p.accepted_rate:.4f}" for p in _rows(points))
    drawing = _frame("accepted", "Accepted load against offered load", spoken, upward, across, "flits/node/cycle")
    _mark(drawing, marks, across)
    drawing.polyline([(across(p.injection_rate), upward(p.accepted_rate)) for p in _rows(points)], "curve p0")
    for p in _rows(points):
        state = "" if p.stable else ", not stable"
        hint = f"{p.injection_rate:g}: {p.accepted_rate:.4f}{state}"
        drawing.circle(across(p.injection_rate), upward(p.accepted_rate), 3, "dot p0", hint=hint)
    return drawing.render()


def _rows(points: pd.DataFrame) -> list[Any]:
    return list(points.itertuples())
