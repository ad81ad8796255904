"""Errors of the rungs: how far each lower rung is from flit, and in which stages the lowest one goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cosim.report.contents import STAGES, RunContents
from cosim.report.figures import stages
from cosim.report.figures.diverging import Bar, panel, reach
from cosim.report.figures.figure import Panel, ReportFigure
from cosim.report.vocabulary import (
    ERROR,
    METRICS,
    STAGE_ERROR_PREFIX,
    STAGE_ERROR_SUFFIX,
    decimals,
    percent,
    scale_for,
)


def draw(contents: RunContents) -> ReportFigure | None:
    """One panel per policy, one bar per rung below flit; None where the run has no such errors."""
    found: dict[str, list[tuple[Bar, Mapping[str, Any]]]] = {}
    for policy in contents.info.policies:
        for rung in contents.rungs:
            row = contents.metric(policy, rung, ERROR)
            if row is not None and rung != "flit" and not pd.isna(row["value"]):
                bar = Bar(rung, row["value"] * 100, row["ci_low"] * 100, row["ci_high"] * 100)
                found.setdefault(policy, []).append((bar, row))
    if not found:
        return None
    span = reach([bar for bars in found.values() for bar, _ in bars])
    panels = []
    for number, (policy, bars) in enumerate(found.items()):
        title = f"Error of each rung against flit for {policy}"
        svg = panel(
            f"rungs-{number}", title, [bar for bar, _ in bars], span, "error of the mean layer latency [%]", _percent
        )
        panels.append(Panel(policy, svg))
    data = pd.DataFrame(
        {
            "policy": policy,
            "rung": bar.label,
            "error_percent": bar.value,
            "ci_low_percent": bar.low,
            "ci_high_percent": bar.high,
            "n": row["n"],
        }
        for policy, bars in found.items()
        for bar, row in bars
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


def draw_stages(contents: RunContents) -> ReportFigure | None:
    """One panel per policy: difference of each stage's mean from flit at the lowest rung that has them."""
    for rung in contents.rungs:
        found = {
            policy: rows
            for policy in contents.info.policies
            if (rows := _stage_rows(contents, policy, rung)) and rung != "flit"
        }
        if found:
            return _stage_figure(rung, found)
    return None


def _stage_rows(contents: RunContents, policy: str, rung: str) -> list[tuple[str, Mapping[str, Any]]]:
    rows = []
    for stage in STAGES:
        row = contents.metric(policy, rung, f"{STAGE_ERROR_PREFIX}{stage}{STAGE_ERROR_SUFFIX}")
        if row is not None and not pd.isna(row["value"]):
            rows.append((stage, row))
    return rows


def _stage_figure(rung: str, found: dict[str, list[tuple[str, Mapping[str, Any]]]]) -> ReportFigure:
    everything = [row for rows in found.values() for _, row in rows]
    scale = scale_for([float(row["value"]) for row in everything], str(everything[0]["unit"]))
    used = [
        stage for stage in STAGES if any(s == stage and row["value"] != 0 for rows in found.values() for s, row in rows)
    ] or [STAGES[0]]
    bars = {
        policy: [
            Bar(stages.label(stage), *(scale(float(row[key])) for key in ("value", "ci_low", "ci_high")))
            for stage, row in rows
            if stage in used
        ]
        for policy, rows in found.items()
    }
    span = reach([bar for rows in bars.values() for bar in rows])
    axis = f"difference from flit, mean per layer [{scale.unit}]"
    panels = tuple(
        Panel(
            policy,
            panel(
                f"stage-errors-{number}", f"Stage by stage, {rung} against flit, {policy}", rows, span, axis, _signed
            ),
        )
        for number, (policy, rows) in enumerate(bars.items())
    )
    data = pd.DataFrame(
        {
            "policy": policy,
            "rung": rung,
            "stage": bar.label,
            f"difference_{scale.unit}": bar.value,
            f"ci_low_{scale.unit}": bar.low,
            f"ci_high_{scale.unit}": bar.high,
        }
        for policy, rows in bars.items()
        for bar in rows
    )
    return ReportFigure(
        name="stage-errors",
        title=f"In which stages {rung} goes wrong",
        unit=scale.unit,
        caption=f"Mean of each stage at {rung} less its mean at flit, on the same decisions; left of zero {rung} "
        "promises too little. Stages without any difference are left out.",
        panels=panels,
        data=data,
    )


def _percent(value: float) -> str:
    return percent(value / 100, signed=True)


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + decimals(value, 3 if abs(value) < 9.9995 else 2 if abs(value) < 99.995 else 1)
