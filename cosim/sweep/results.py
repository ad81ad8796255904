"""What a sweep leaves: one tidy frame, and a page of curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from cosim.report.figures.figure import PANEL_WIDTH, LegendEntry, Panel, ReportFigure, short, tick_text, value_axis
from cosim.report.figures_page import PageInfo, PageSection, render
from cosim.report.svg import Axis, Drawing, ticks
from cosim.report.tables import TextTable
from cosim.run.unit import UnitResult
from cosim.sweep.grid import Axis as GridAxis
from cosim.sweep.grid import GridPoint, SweepTask

__all__ = ["LATENCY", "sweep_page", "sweep_table", "tidy"]

LATENCY = "layer_latency_mean"
_PERCENTILES = {"layer_latency_p50": 0.50, "layer_latency_p95": 0.95, "layer_latency_p99": 0.99}
_MOST_PANELS = 12
_LEFT, _TOP, _HEIGHT = 58.0, 8.0, 170.0


def _metrics(result: UnitResult) -> list[tuple[str, str, float]]:
    """(metric, unit, value) of one unit."""
    layers = result.frames["layers"]
    total = layers["total_fs"].to_numpy(dtype=np.int64)
    rows = [(LATENCY, "ns", int(total.sum()) / len(total) / 1e6)]
    for name, share in _PERCENTILES.items():
        if len(total) >= round(20 / (1 - share)):
            rows.append((name, "ns", float(np.quantile(total, share)) / 1e6))
    for column in layers.columns:
        name = str(column)
        if name.endswith("_fs") and name != "total_fs":
            rows.append((f"stage_{name[:-3]}_mean", "ns", int(layers[name].sum()) / len(layers) / 1e6))
        elif name.startswith("bytes_"):
            rows.append((name, "B", float(int(layers[name].sum()))))
    rows.append(("replica_factor", "1", float(layers["replica_factor"].mean())))
    if "energy_J" in layers.columns:
        rows.append(("energy", "J", float(layers["energy_J"].sum())))
    for name, value in sorted(result.figures.items()):
        what, _, unit = name.rpartition("_")
        known = {"fs": "fs", "cycles": "cycles", "bytes": "B"}
        rows.append((what, known[unit], float(value)) if unit in known and what else (name, "1", float(value)))
    return rows


def tidy(
    axes: Sequence[GridAxis],
    points: Sequence[GridPoint],
    tasks: Sequence[SweepTask],
    results: Mapping[str, UnitResult],
) -> pd.DataFrame:
    """One row per point, policy, rung, seed and metric, in the order of the grid.

    Columns: point, one per axis (text where its values are not all numbers), policy, rung, seed, metric, unit, value.
    Percentiles of units with too few layers for them are left out. Sums are over the unit's batches and layers.
    """
    rows: list[dict[str, Any]] = []
    plain = {axis.key: _numeric(axis) for axis in axes}
    for task in sorted(tasks, key=lambda one: (one.point, one.key)):
        values = points[task.point].values
        head = {
            "point": task.point,
            **{key: float(value) if plain[key] else str(value) for key, value in values.items()},
            "policy": task.key.policy,
            "rung": task.key.rung,
            "seed": task.key.seed,
        }
        rows += [
            {**head, "metric": metric, "unit": unit, "value": value}
            for metric, unit, value in _metrics(results[task.digest])
        ]
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def _numeric(axis: GridAxis) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in axis.values)


def _mean_latency(frame: pd.DataFrame, axes: Sequence[GridAxis]) -> pd.DataFrame:
    """Mean, least and largest over the seeds, of every point, policy and rung."""
    keys = ["point", *(axis.key for axis in axes), "policy", "rung"]
    found = frame[frame["metric"] == LATENCY].groupby(keys, sort=False)["value"]
    summed: pd.DataFrame = found.agg(["mean", "min", "max"]).reset_index()
    return summed


def sweep_table(frame: pd.DataFrame, axes: Sequence[GridAxis]) -> TextTable:
    """Mean layer latency of every point: a row a point and rung, a column a policy."""
    latency = _mean_latency(frame, axes)
    policies = list(dict.fromkeys(latency["policy"]))
    rows = []
    for (_, rung), part in latency.groupby(["point", "rung"], sort=False):
        records = part.to_dict("records")
        by_policy = {record["policy"]: record for record in records}
        cells = [by_policy.get(policy) for policy in policies]
        axis_values = [records[0][axis.key] for axis in axes]
        rows.append(
            (
                *map(_text, axis_values),
                str(rung),
                *("–" if cell is None else _spread(cell["mean"], cell["min"], cell["max"]) for cell in cells),
            )
        )
    return TextTable(
        "Mean layer latency [µs]",
        (*(axis.key for axis in axes), "rung", *policies),
        tuple(rows),
        ("of all batches and layers, mean of the seeds; in brackets the least and the largest seed",),
        left=len(axes) + 1,
    )


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _spread(mean: float, low: float, high: float) -> str:
    return f"{mean / 1e3:.4g}" + (f" ({low / 1e3:.4g}–{high / 1e3:.4g})" if high > low else "")


def _curves(frame: pd.DataFrame, axes: Sequence[GridAxis]) -> ReportFigure:
    """Latency over the first axis, a panel for each combination of the others and each rung."""
    latency = _mean_latency(frame, axes)
    policies = list(dict.fromkeys(latency["policy"]))
    first, others = axes[0], axes[1:]
    values = sorted(set(latency[first.key])) if _numeric(first) else [str(value) for value in first.values]
    top = float(latency["max"].max()) / 1e3
    panels: list[Panel] = []
    left_out: list[str] = []
    combinations = product(dict.fromkeys(latency["rung"]), *(dict.fromkeys(latency[axis.key]) for axis in others))
    for rung, *chosen in combinations:
        part = latency[latency["rung"] == rung]
        for axis, value in zip(others, chosen, strict=True):
            part = part[part[axis.key] == value]
        named = [f"{axis.key.split('.')[-1]} {_text(value)}" for axis, value in zip(others, chosen, strict=True)]
        heading = ", ".join([str(rung), *named])
        if not len(part):
            continue
        if len(panels) == _MOST_PANELS:
            left_out.append(heading)
            continue
        panels.append(Panel(heading, _panel(part, first, values, policies, top, heading, len(panels))))
    return ReportFigure(
        name="sweep",
        title=f"Mean layer latency over {first.key}",
        unit="µs",
        caption="Points are means over the seeds, upright lines reach from the least to the largest seed. All panels "
        "have one scale.",
        panels=tuple(panels),
        data=latency.rename(columns={name: f"{name} [ns]" for name in ("mean", "min", "max")}),
        legend=tuple(LegendEntry(f"line p{number % 8}", policy) for number, policy in enumerate(policies)),
        left_out=tuple(left_out),
    )


def _panel(
    part: pd.DataFrame,
    axis: GridAxis,
    values: Sequence[Any],
    policies: Sequence[str],
    top: float,
    heading: str,
    number: int,
) -> str:
    numeric = _numeric(axis) and len(values) > 1
    low, high = (float(min(values)), float(max(values))) if numeric else (0.0, max(1.0, len(values) - 1.0))
    logarithmic = numeric and low > 0 and high / low >= 30
    scale = math.log10 if logarithmic else float
    across = Axis(scale(low), scale(high), _LEFT + 8, PANEL_WIDTH - 16)
    place = {value: across(scale(value) if numeric else float(at)) for at, value in enumerate(values)}
    bottom = _TOP + _HEIGHT
    upward = Axis(0.0, top * 1.05, bottom, _TOP)
    spoken = "; ".join(f"{row[axis.key]} {row['policy']}: {row['mean'] / 1e3:.4g} µs" for _, row in part.iterrows())
    drawing = Drawing(PANEL_WIDTH, bottom + 36, f"Mean layer latency, {heading}", spoken, f"sweep-{number}")
    levels = ticks(0.0, upward.high, 5)
    for level in levels:
        drawing.line(_LEFT, upward(level), PANEL_WIDTH - 10, upward(level), "grid")
        drawing.text(_LEFT - 6, upward(level) + 4, tick_text(level, levels), "tick", anchor="end")
    if numeric and not logarithmic:
        value_axis(drawing, across, _TOP, bottom, axis.key, 5)
    else:
        for value in values:
            drawing.text(
                place[value], bottom + 14, short(f"{value:g}" if numeric else str(value), 14), "tick", anchor="middle"
            )
        drawing.text((_LEFT + PANEL_WIDTH) / 2, bottom + 30, axis.key, "axis-label", anchor="middle")
    drawing.text(11, (_TOP + bottom) / 2, "µs", "axis-label", anchor="middle", turn=-90)
    for colour, policy in enumerate(policies):
        own = part[part["policy"] == policy]
        columns = (own[column].tolist() for column in (axis.key, "mean", "min", "max"))
        spots = sorted(
            (place[value], mean / 1e3, least / 1e3, most / 1e3)
            for value, mean, least, most in zip(*columns, strict=True)
        )
        if numeric:
            drawing.polyline([(x, upward(mean)) for x, mean, _, _ in spots], f"curve p{colour % 8}")
        for x, mean, least, most in spots:
            drawing.line(x, upward(least), x, upward(most), "whisker")
            drawing.circle(x, upward(mean), 3, f"dot p{colour % 8}", hint=f"{policy}: {mean:.4g} µs")
    return drawing.render()


def sweep_page(frame: pd.DataFrame, axes: Sequence[GridAxis], name: str, facts: Sequence[tuple[str, str]]) -> str:
    """The page of a finished sweep."""
    figures = (_curves(frame, axes),) if axes else ()
    return render(
        PageInfo(
            "cosim sweep",
            name,
            "One experiment over a grid of its keys.",
            tuple(facts),
            ("sweep.parquet", "holds every metric of every point, policy, rung and seed"),
        ),
        [PageSection("latency", "Latency", figures, (sweep_table(frame, axes),))],
    )
