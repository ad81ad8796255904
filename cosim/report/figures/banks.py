"""Bank map: how many bytes every DRAM bank moved, one row per pseudo-channel."""

from __future__ import annotations

import pandas as pd

from cosim.report.contents import RunContents
from cosim.report.figures.figure import (
    MOST_HINTS,
    MOST_SHAPES,
    PANEL_WIDTH,
    HeatLegend,
    Panel,
    ReportFigure,
    heat_step,
    natural,
    short,
)
from cosim.report.figures.floorplan import rung_with
from cosim.report.loads import bank_loads
from cosim.report.svg import Drawing, number
from cosim.report.vocabulary import percent, quantity

_LEFT = 124.0
_TOP = 20.0
_BOTTOM = 34.0


def draw(contents: RunContents) -> ReportFigure | None:
    """One panel per policy at the highest rung that recorded banks; None where none did."""
    rung = rung_with(contents, contents.banks)
    if rung is None:
        return None
    frames = {policy: bank_loads(contents, policy, rung) for policy in contents.info.policies}
    frames = {policy: frame for policy, frame in frames.items() if not frame.empty}
    everything = pd.concat(frames.values(), ignore_index=True)
    top = float(everything["bytes"].max())
    hints = len(everything) <= MOST_HINTS
    panels: list[Panel] = []
    left_out: list[str] = []
    shapes = 0
    for index, (policy, frame) in enumerate(frames.items()):
        if panels and shapes + len(frame) > MOST_SHAPES:
            left_out.append(policy)
            continue
        shapes += len(frame)
        panels.append(Panel(policy, _panel(f"banks-{index}", policy, rung, frame, top, hints)))
    data = pd.concat([f.assign(policy=p, rung=rung) for p, f in frames.items()], ignore_index=True)
    columns = [
        "policy", "rung", "endpoint", "channel", "pseudo_channel", "bank_group", "bank", "bytes", "reads", "writes",
        "activates", "share", "open", "row_hit", "row_miss", "row_conflict",
    ]  # fmt: skip
    return ReportFigure(
        name="banks",
        title="How the traffic spreads over the memory banks",
        unit="B",
        caption=f"Bytes each bank read and wrote at {rung}, all seeds together. A row is a pseudo-channel; bank groups "
        "are set apart. Even colour means that the address map spreads the load; row results are in the hover text.",
        panels=tuple(panels),
        data=data[columns],
        heat=HeatLegend("bytes read and written", "0", quantity(top, "B", 3)),
        left_out=tuple(left_out),
    )


def _panel(name: str, policy: str, rung: str, frame: pd.DataFrame, top: float, hints: bool) -> str:
    place = ["endpoint", "channel", "pseudo_channel"]
    ordered = frame.sort_values([*place, "bank_group", "bank"])
    rows = sorted(ordered.groupby(place, sort=True), key=lambda row: (natural(str(row[0][0])), row[0][1:]))
    groups = sorted({int(v) for v in frame["bank_group"]})
    banks = sorted({int(v) for v in frame["bank"]})
    endpoints = sorted({str(key[0]) for key, _ in rows})
    tall = 14.0 if len(rows) <= 24 else 8.0 if len(rows) <= 64 else 4.0
    gap, between = 4.0, 6.0
    width = (PANEL_WIDTH - _LEFT - 8 - gap * (len(groups) - 1)) / (len(groups) * len(banks))
    height = _TOP + tall * len(rows) + between * (len(endpoints) - 1) + _BOTTOM
    busiest = frame.iloc[0]
    spoken = f"{len(frame)} banks; busiest {busiest['name']} with {quantity(float(busiest['bytes']), 'B', 3)}"
    drawing = Drawing(PANEL_WIDTH, height, f"Bytes by bank for {policy} at {rung}", spoken, name)

    def column(group: int, bank: int) -> float:
        order = groups.index(group)
        return _LEFT + order * (len(banks) * width + gap) + banks.index(bank) * width

    for group in groups:
        middle = column(group, banks[0]) + len(banks) * width / 2
        drawing.text(middle, _TOP - 7, f"BG {group}", "tick", anchor="middle")
    merged: dict[int, list[str]] = {}
    previous = None
    y = _TOP
    for (endpoint, channel, pseudo), cells in rows:
        if previous is not None and endpoint != previous:
            y += between
        if tall >= 14:
            text = short(str(endpoint), 9) + f" ch{channel} pc{pseudo}"
            drawing.text(_LEFT - 6, y + tall - 3, text, "tick", anchor="end")
        elif endpoint != previous:
            drawing.text(_LEFT - 6, y + 11, short(str(endpoint), 16), "tick", anchor="end")
        previous = endpoint
        for cell in cells.to_dict("records"):
            step = heat_step(float(cell["bytes"]), top)
            x = column(int(cell["bank_group"]), int(cell["bank"]))
            if hints:
                results = ", ".join(
                    f"{word} {percent(float(cell[column_]))}"
                    for word, column_ in (("hits", "row_hit"), ("misses", "row_miss"), ("conflicts", "row_conflict"))
                )
                hint = f"{cell['name']}: {quantity(float(cell['bytes']), 'B', 3)}; row {results}"
                drawing.rect(x, y, width, tall, f"cell h{step}", hint=hint)
            else:
                merged.setdefault(step, []).append(
                    f"M{number(x)} {number(y)}h{number(width)}v{number(tall)}h{number(-width)}z"
                )
        y += tall
    for step in sorted(merged):
        drawing.path("".join(merged[step]), f"cell h{step}")
    drawing.text(
        (_LEFT + PANEL_WIDTH - 8) / 2, y + 22, f"banks {banks[0]} to {banks[-1]} of each bank group (BG)", "axis-label",
        anchor="middle",
    )  # fmt: skip
    return drawing.render()
