"""Stage bars: where the mean layer spends its time, per policy and rung."""

from __future__ import annotations

import pandas as pd

from cosim.report.contents import STAGES, RunContents
from cosim.report.figures.figure import (
    PANEL_WIDTH,
    LegendEntry,
    Panel,
    ReportFigure,
    label_room,
    row_label,
    value_axis,
    value_label,
)
from cosim.report.loads import StageMeans, stage_means
from cosim.report.svg import Axis, Drawing, text_width
from cosim.report.vocabulary import percent, scale_for

LABELS = {"publish_wait": "publish wait"}
_ROW = 27.0
_BAR = 19.0
_RIGHT = 46.0
_TOP = 4.0


def label(stage: str) -> str:
    """A stage's name in words."""
    return LABELS.get(stage, stage)


def draw(contents: RunContents) -> ReportFigure | None:
    """One panel per policy, one bar per rung; None where the run has no layers."""
    means = [
        found
        for policy in contents.info.policies
        for rung in contents.rungs
        if (found := stage_means(contents, policy, rung)) is not None
    ]
    if not means:
        return None
    scale = scale_for([max(m.total, sum(m.stages.values())) for m in means], "fs")
    high = max(scale(max(m.total, sum(m.stages.values()))) for m in means)
    used = [stage for stage in STAGES if any(m.stages[stage] > 0 for m in means)]
    panels = []
    for number, policy in enumerate(contents.info.policies):
        bars = [m for m in means if m.policy == policy]
        if bars:
            panels.append(Panel(policy, _panel(f"stages-{number}", policy, bars, used, high, scale.unit, scale.factor)))
    data = pd.DataFrame(
        {
            "policy": m.policy,
            "rung": m.rung,
            "stage": stage,
            f"mean_{scale.unit}": scale(value),
            "units": m.units,
        }
        for m in means
        for stage, value in (*((s, m.stages[s]) for s in used), ("total", m.total))
    )
    return ReportFigure(
        name="stages",
        title="Where a layer spends its time",
        unit=scale.unit,
        caption="Mean over all (seed, batch, layer) units that ran at the rung, "
        f"{_units_text(means)}. The number at the end of a bar is the mean layer latency.{_cover_text(means)}"
        f"{_sampling_text(contents)}",
        panels=tuple(panels),
        data=data,
        legend=tuple(LegendEntry(f"s-{stage}", label(stage)) for stage in used),
    )


def _units_text(means: list[StageMeans]) -> str:
    counts = sorted({m.units for m in means})
    return f"{counts[0]:,} per bar" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} per bar"


def _sampling_text(contents: RunContents) -> str:
    if contents.info.sampling == "none":
        return ""
    return " Where a rung ran on a sample of the units, its bar is of these alone; the table estimates all of them."


def _cover_text(means: list[StageMeans]) -> str:
    covers = [m.covered for m in means]
    if all(abs(c - 1) < 1e-6 for c in covers):
        return " The stages add up to it."
    return (
        " The black tick is the same number: the stages' sum is "
        f"{percent(min(covers))} to {percent(max(covers))} of it, as stages of different groups overlap or leave gaps."
    )


def _panel(
    name: str, policy: str, bars: list[StageMeans], used: list[str], high: float, unit: str, factor: float
) -> str:
    bottom = _TOP + _ROW * len(bars)
    spoken = "; ".join(f"{m.rung} {value_label(m.total * factor)} {unit}, mostly {label(m.largest)}" for m in bars)
    drawing = Drawing(PANEL_WIDTH, bottom + 36, f"Stage times of {policy}", spoken, name)
    left = label_room(m.rung for m in bars)
    axis = Axis(0, high, left, PANEL_WIDTH - _RIGHT)
    value_axis(drawing, axis, _TOP, bottom, f"mean time per layer [{unit}]", 4)
    for row, m in enumerate(bars):
        y = _TOP + _ROW * row + (_ROW - _BAR) / 2
        row_label(drawing, left, y + _BAR / 2, m.rung)
        at = 0.0
        for stage in used:
            size = m.stages[stage] * factor
            x, width = axis(at), axis(at + size) - axis(at)
            at += size
            if size <= 0:
                continue
            share = percent(m.stages[stage] / m.total) if m.total else "–"
            hint = f"{policy}, {m.rung}: {label(stage)} {value_label(size)} {unit} ({share} of the layer)"
            drawing.rect(x, y, width, _BAR, f"bar s-{stage}", hint=hint)
            text = value_label(size)
            if width > text_width(text, 10.5) + 6:
                drawing.text(x + width / 2, y + _BAR / 2 + 3.8, text, f"in-bar on-{stage}", anchor="middle")
        total = axis(m.total * factor)
        if abs(m.covered - 1) >= 1e-6:
            drawing.line(total, y - 3, total, y + _BAR + 3, "total-tick")
        drawing.text(max(axis(at), total) + 5, y + _BAR / 2 + 4, value_label(m.total * factor), "value")
    return drawing.render()
