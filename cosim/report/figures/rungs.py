"""Rung errors: how far each lower rung is from flit, per policy."""

from __future__ import annotations

import math

import pandas as pd

from cosim.report.contents import RunContents
from cosim.report.figures.figure import PANEL_WIDTH, Panel, ReportFigure, value_axis
from cosim.report.svg import Axis, Drawing
from cosim.report.vocabulary import ERROR, METRICS, percent

_ROW = 25.0
_LEFT = 98.0
_TOP = 4.0


def draw(contents: RunContents) -> ReportFigure | None:
    """One panel per policy, one bar per rung below flit; None where the run has no such errors."""
    rows = contents.metrics[(contents.metrics["metric"] == ERROR) & contents.metrics["value"].notna()]
    rows = rows[rows["rung"] != "flit"]
    if rows.empty:
        return None
    ends = [float(v) for column in ("value", "ci_low", "ci_high") for v in rows[column] if not math.isnan(v)]
    low, high = min(0.0, *ends) * 100, max(0.0, *ends) * 100
    if high - low < 1:
        low, high = low - 0.5, high + 0.5
    panels = []
    kept = []
    for number, policy in enumerate(contents.info.policies):
        of_policy = rows[rows["policy"] == policy]
        bars = [record for rung in contents.rungs for record in of_policy[of_policy["rung"] == rung].to_dict("records")]
        if bars:
            panels.append(Panel(policy, _panel(f"rungs-{number}", policy, bars, low, high)))
            kept += bars
    data = pd.DataFrame(
        {
            "policy": r["policy"],
            "rung": r["rung"],
            "error_percent": r["value"] * 100,
            "ci_low_percent": r["ci_low"] * 100,
            "ci_high_percent": r["ci_high"] * 100,
            "n": r["n"],
        }
        for r in kept
    )
    return ReportFigure(
        name="rung-errors",
        title="How far each rung is from flit",
        unit="%",
        caption=f"{METRICS[ERROR].definition}. Zero is flit; left of it a rung promises too little latency. Whiskers "
        "are 95 % intervals where the run gives them.",
        panels=tuple(panels),
        data=data,
    )


def _panel(name: str, policy: str, bars: list[dict[str, object]], low: float, high: float) -> str:
    bottom = _TOP + _ROW * len(bars)
    values = [float(str(bar["value"])) for bar in bars]
    spoken = "; ".join(f"{bar['rung']} {percent(value, signed=True)}" for bar, value in zip(bars, values, strict=True))
    drawing = Drawing(PANEL_WIDTH, bottom + 36, f"Error of each rung against flit for {policy}", spoken, name)
    # Room for the value beside the bar, on whichever side it ends.
    axis = Axis(low, high, _LEFT + (62 if low < 0 else 6), PANEL_WIDTH - (62 if high > 0 else 10))
    value_axis(drawing, axis, _TOP, bottom, "error of the mean layer latency [%]", 4)
    zero = axis(0)
    for row, (bar, value) in enumerate(zip(bars, values, strict=True)):
        middle = _TOP + _ROW * (row + 0.5)
        drawing.text(_LEFT - 7, middle + 4, str(bar["rung"]), "label", anchor="end")
        x = axis(value * 100)
        text = percent(value, signed=True)
        kind = "under" if value < 0 else "over"
        drawing.rect(
            min(zero, x), middle - 6, abs(x - zero), 12, f"bar {kind}", hint=f"{policy}, {bar['rung']}: {text}"
        )
        ends = [float(str(bar[key])) * 100 for key in ("ci_low", "ci_high")]
        reach = x
        if not any(math.isnan(end) for end in ends):
            drawing.line(axis(ends[0]), middle, axis(ends[1]), middle, "whisker")
            reach = min(x, axis(ends[0])) if value < 0 else max(x, axis(ends[1]))
        if value < 0:
            drawing.text(reach - 5, middle + 4, text, "value", anchor="end")
        else:
            drawing.text(reach + 5, middle + 4, text, "value")
    drawing.line(zero, _TOP, zero, bottom, "zero")
    return drawing.render()
