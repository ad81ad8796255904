"""Distribution of the layer latency: one cumulative curve per policy, one panel per rung."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cosim.report.contents import RunContents
from cosim.report.figures.figure import (
    PANEL_WIDTH,
    LegendEntry,
    Panel,
    ReportFigure,
    tick_text,
    value_axis,
    value_label,
)
from cosim.report.loads import of_run
from cosim.report.svg import Axis, Drawing
from cosim.report.vocabulary import scale_for

MOST_POINTS = 240
"""Points of one curve; a longer sample is drawn at this many evenly spaced ranks, its ends included."""

_LEFT, _RIGHT, _TOP, _HEIGHT = 44.0, 10.0, 8.0, 150.0
POLICY_STYLES = 8


def draw(contents: RunContents) -> ReportFigure | None:
    """One panel per rung; None where the run has no layers."""
    layers = contents.layers
    if layers.empty:
        return None
    scale = scale_for([float(layers["total_fs"].max())], "fs")
    low, high = scale(float(layers["total_fs"].min())), scale(float(layers["total_fs"].max()))
    low = 0.0 if low < 0.4 * high else low - 0.04 * (high - low)
    panels, parts = [], []
    for number, rung in enumerate(contents.rungs):
        curves = []
        for index, policy in enumerate(contents.info.policies):
            sample = np.sort(of_run(layers, policy, rung)["total_fs"].to_numpy()) * scale.factor
            if len(sample):
                curves.append((index, policy, sample))
        if not curves:
            continue
        panels.append(Panel(rung, _panel(f"cdf-{number}", rung, curves, low, high, scale.unit)))
        for _, policy, sample in curves:
            ranks = _ranks(len(sample))
            parts.append(
                pd.DataFrame(
                    {
                        "policy": policy,
                        "rung": rung,
                        f"layer_latency_{scale.unit}": sample[ranks],
                        "share_of_layers": (ranks + 1) / len(sample),
                        "units": len(sample),
                    }
                )
            )
    shown = sum(len(part) for part in parts)
    thinned = (
        f" Drawn at {shown:,} of {len(layers):,} points; all are in layers.parquet." if shown < len(layers) else ""
    )
    return ReportFigure(
        name="latency-distribution",
        title="How layer latency is distributed",
        unit=scale.unit,
        caption="Share of (seed, batch, layer) units that finish within a time; the dot is the median. Curves further "
        f"left are faster, steeper ones steadier.{thinned}",
        panels=tuple(panels),
        data=pd.concat(parts, ignore_index=True),
        legend=tuple(
            LegendEntry(f"line p{i % POLICY_STYLES}", policy) for i, policy in enumerate(contents.info.policies)
        ),
    )


def median(ordered: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The smallest value of an ordered sample with half of it at or below, as the P50 metric has it."""
    return float(ordered[(len(ordered) + 1) // 2 - 1])


def _ranks(size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if size <= MOST_POINTS:
        return np.arange(size)
    return np.unique(np.linspace(0, size - 1, MOST_POINTS).round().astype(np.int64))


def _panel(
    name: str,
    rung: str,
    curves: list[tuple[int, str, np.ndarray[tuple[int], np.dtype[np.float64]]]],
    low: float,
    high: float,
    unit: str,
) -> str:
    bottom = _TOP + _HEIGHT
    spoken = "; ".join(f"{policy}: median {value_label(median(s))} {unit}" for _, policy, s in curves)
    drawing = Drawing(PANEL_WIDTH, bottom + 36, f"Distribution of layer latency at {rung}", spoken, name)
    across = Axis(low, high, _LEFT, PANEL_WIDTH - _RIGHT)
    upward = Axis(0, 1, bottom, _TOP)
    value_axis(drawing, across, _TOP, bottom, f"layer latency [{unit}]", 7)
    shares = [0, 0.25, 0.5, 0.75, 1]
    for share in shares:
        drawing.line(_LEFT, upward(share), PANEL_WIDTH - _RIGHT, upward(share), "grid")
        drawing.text(_LEFT - 6, upward(share) + 4, tick_text(share * 100, [0, 25]), "tick", anchor="end")
    drawing.text(11, (_TOP + bottom) / 2, "layers [%]", "axis-label", anchor="middle", turn=-90)
    for index, policy, sample in curves:
        ranks = _ranks(len(sample))
        steps = len(ranks) == len(sample)
        points = [(across(float(sample[0])), bottom)]
        for rank in ranks:
            x = across(float(sample[rank]))
            if steps:
                points.append((x, points[-1][1]))
            points.append((x, upward((rank + 1) / len(sample))))
        style = index % POLICY_STYLES
        hint = f"{policy}: median {value_label(median(sample))} {unit}, {len(sample):,} units"
        drawing.polyline(points, f"curve p{style}", hint=hint)
    for index, policy, sample in curves:
        middle = median(sample)
        drawing.circle(
            across(middle),
            upward(0.5),
            4,
            f"dot p{index % POLICY_STYLES}",
            hint=f"{policy}: median {value_label(middle)} {unit}",
        )
    return drawing.render()
