"""Maps on the floor plan: how busy every directed link is, and how busy every chiplet is."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cosim.report.contents import STALLS, RunContents
from cosim.report.figures.figure import (
    MOST_HINTS,
    MOST_SHAPES,
    PANEL_WIDTH,
    HeatLegend,
    Panel,
    ReportFigure,
    heat_step,
    heat_top,
    natural,
    short,
)
from cosim.report.loads import chiplet_loads, link_loads
from cosim.report.svg import Drawing, number
from cosim.report.vocabulary import percent

_MARGIN = 8.0
_BADGE_PITCH = 30.0
_DARK_STEP = 6
"""Colour step from which text on a tile changes its own colour."""
_ROW_PITCH = 16.0
MOST_LISTED = 24
"""Links in the list of a level whose routers have no coordinates."""
RANKED = 3
"""The busiest links carry their rank, which the table of hot spots uses too."""
_STALL_WORDS = {"no_credit": "no credit", "lost_arbitration": "lost arbitration", "busy_vc": "busy VC"}


@dataclass(frozen=True)
class _Grid:
    """Places routers of a grid on a panel: `pitch` between neighbours, square tiles of side `tile`, a free `margin`."""

    columns: int
    rows: int
    pitch: float
    tile: float
    margin: float

    @classmethod
    def around(cls, x: pd.Series, y: pd.Series, tile: float, *, around: float = 0.0) -> _Grid:
        """The grid that holds all places; `tile` is a tile's side and `around` the room on each edge, in pitches."""
        columns, rows = int(x.max()) + 1, int(y.max()) + 1
        pitch = min(92.0, (PANEL_WIDTH - 2 * _MARGIN) / (columns - 1 + tile + 2 * around))
        return cls(columns, rows, pitch, pitch * tile, _MARGIN + pitch * around)

    @property
    def height(self) -> float:
        return 2 * self.margin + (self.rows - 1) * self.pitch + self.tile

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The centre of a tile; row 0 is at the top."""
        first = (PANEL_WIDTH - (self.columns - 1) * self.pitch) / 2
        return first + x * self.pitch, self.margin + self.tile / 2 + y * self.pitch


def rung_with(contents: RunContents, frame: pd.DataFrame) -> str | None:
    """The highest rung for which a frame has rows."""
    present = [rung for rung in contents.rungs if (frame["rung"] == rung).any()]
    return present[-1] if present else None


def stall_text(row: Mapping[Hashable, Any]) -> str:
    """The stall causes of a link in words, the largest first; what never happened is left out."""
    parts = sorted(((float(row[f"stall_{cause}"]), cause) for cause in STALLS), reverse=True)
    shown = [f"{_STALL_WORDS[cause]} {percent(value)}" for value, cause in parts if value > 0]
    return ", ".join(shown) or "none"


def draw_links(contents: RunContents) -> list[ReportFigure]:
    """One figure per level, one panel per policy, at the highest rung that recorded links."""
    rung = rung_with(contents, contents.links)
    if rung is None:
        return []
    loads = {policy: link_loads(contents, policy, rung) for policy in contents.info.policies}
    levels = sorted({level for frame in loads.values() for level in frame["level"]})
    return [_level_figure(contents, rung, level, number, loads) for number, level in enumerate(levels)]


def _placed(frame: pd.DataFrame) -> pd.Series:
    moved = (frame["src_x"] != frame["dst_x"]) | (frame["src_y"] != frame["dst_y"])
    placed: pd.Series = moved & (frame[["src_x", "src_y", "dst_x", "dst_y"]] >= 0).all(axis=1)
    return placed


def _level_figure(
    contents: RunContents, rung: str, level: str, number_: int, loads: dict[str, pd.DataFrame]
) -> ReportFigure:
    frames = {policy: frame[frame["level"] == level] for policy, frame in loads.items()}
    frames = {policy: frame.reset_index(drop=True) for policy, frame in frames.items() if not frame.empty}
    everything = pd.concat(frames.values(), ignore_index=True)
    top = heat_top([float(v) for v in everything["utilisation"]])
    on_plan = everything[_placed(everything)]
    unplaced = int((~_placed(next(iter(frames.values())))).sum())
    panels: list[Panel] = []
    left_out: list[str] = []
    shapes = 0
    grid: _Grid | None = None
    if not on_plan.empty:
        steps = (on_plan["dst_x"] - on_plan["src_x"]).abs() + (on_plan["dst_y"] - on_plan["src_y"]).abs()
        grid = _Grid.around(
            pd.concat([on_plan["src_x"], on_plan["dst_x"]]),
            pd.concat([on_plan["src_y"], on_plan["dst_y"]]),
            0.44,
            around=0.45 if bool((steps > 1).any()) else 0.0,
        )
        hints = len(on_plan) <= MOST_HINTS
        for index, (policy, frame) in enumerate(frames.items()):
            if panels and shapes + len(frame) > MOST_SHAPES:
                left_out.append(policy)
                continue
            shapes += len(frame)
            letters = _kinds(contents, policy)
            name = f"links-{number_}-{index}"
            panels.append(
                Panel(policy, _link_panel(name, policy, rung, frame[_placed(frame)], grid, top, letters, hints))
            )
    else:
        for index, (policy, frame) in enumerate(frames.items()):
            panels.append(Panel(policy, _link_list(f"links-{number_}-{index}", policy, rung, frame, top)))
    parts = [frame.assign(policy=policy, rung=rung) for policy, frame in frames.items()]
    columns = [
        "policy", "rung", "level", "link", "src_router", "src_x", "src_y", "dst_router", "dst_x", "dst_y", "flits",
        "bytes", "utilisation", *(f"stall_{cause}" for cause in STALLS), "top_class", "top_class_share",
    ]  # fmt: skip
    ranked = f"; 1 to {RANKED} mark the busiest links" if grid is not None and grid.pitch >= _BADGE_PITCH else ""
    caption = (
        f"Busy cycles of each directed link over all observed cycles, at {rung}, all seeds together. Traffic keeps to "
        f"the right of each pair{ranked}. Row 0 is at the top."
    )
    if grid is None:
        caption = (
            f"Busy cycles of the directed links over all observed cycles, at {rung}, all seeds together: the "
            f"{MOST_LISTED} busiest. The routers have no coordinates."
        )
    kinds = (
        sorted(set(contents.chiplets["kind"])) if grid is not None and len(set(contents.links["level"])) == 1 else []
    )
    if kinds:
        caption += " Letters: " + ", ".join(f"{letter} {kind}" for kind, letter in _letters(kinds).items()) + "."
    if unplaced and grid is not None:
        caption += f" {unplaced} links have no place on the plan (endpoint links or routers without coordinates)."
    return ReportFigure(
        name=f"links-{level}",
        title=f"How busy the links of the {level} network are",
        unit="% of observed cycles",
        caption=caption,
        panels=tuple(panels),
        data=pd.concat(parts, ignore_index=True)[columns],
        heat=HeatLegend("link utilisation", "0 %", percent(top)),
        left_out=tuple(left_out),
    )


def _letters(kinds: Sequence[str]) -> dict[str, str]:
    """A letter for each kind: the first of its word that no kind before it took."""
    letters: dict[str, str] = {}
    for kind in kinds:
        free = [letter for letter in kind.upper() if letter.isalpha() and letter not in letters.values()]
        letters[kind] = free[0] if free else "?"
    return letters


def _kinds(contents: RunContents, policy: str) -> dict[tuple[int, int], str]:
    """Letter of what sits at each router of the level the chiplets are placed on."""
    rung = rung_with(contents, contents.chiplets)
    if rung is None or len(set(contents.links["level"])) > 1:
        return {}
    letters = _letters(sorted(set(contents.chiplets["kind"])))
    kinds: dict[tuple[int, int], str] = {}
    for row in chiplet_loads(contents, policy, rung).sort_values("endpoint").itertuples(index=False):
        key = (int(row.x), int(row.y))
        letter = letters[str(row.kind)]
        if letter not in kinds.get(key, ""):
            kinds[key] = kinds.get(key, "") + letter
    return kinds


def _link_panel(
    name: str,
    policy: str,
    rung: str,
    frame: pd.DataFrame,
    grid: _Grid,
    top: float,
    kinds: dict[tuple[int, int], str],
    hints: bool,
) -> str:
    busiest = frame.iloc[0] if len(frame) else None
    spoken = (
        "no links"
        if busiest is None
        else f"{len(frame)} directed links; busiest {busiest['name']} at {percent(float(busiest['utilisation']))}"
    )
    drawing = Drawing(PANEL_WIDTH, grid.height, f"Link utilisation for {policy} at {rung}", spoken, name)
    merged: dict[int, list[str]] = {}
    badges = []
    for rank, row in enumerate(frame.to_dict("records"), start=1):
        step = heat_step(float(row["utilisation"]), top)
        hint = f"{row['name']}: {percent(float(row['utilisation']))} busy; stalls: {stall_text(row)}" if hints else None
        arrows = _arrows(row, grid)
        for points in arrows:
            if hints:
                drawing.polygon(points, f"arrow h{step}", hint=hint)
            else:
                merged.setdefault(step, []).append("M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + "z")
        if arrows:
            middle = _centre(arrows[0])
        else:
            d, middle = _arc(grid.at(row["src_x"], row["src_y"]), grid.at(row["dst_x"], row["dst_y"]), grid)
            drawing.path(d, f"arc h{step}", hint=hint)
        if rank <= RANKED:
            badges.append((rank, middle))
    for step in sorted(merged):
        drawing.path("".join(merged[step]), f"arrow h{step}")
    for place, router in sorted(_routers(frame).items()):
        cx, cy = grid.at(*place)
        kind = kinds.get(place, "")
        half = grid.tile / 2
        drawing.rect(cx - half, cy - half, grid.tile, grid.tile, "router", radius=min(5, grid.tile / 6))
        if grid.tile >= 26:
            drawing.text(cx, cy + (0 if kind else 4), str(router), "router-id", anchor="middle")
            if kind:
                drawing.text(cx, cy + 12, kind, "router-kind", anchor="middle")
    if grid.pitch >= _BADGE_PITCH:
        for rank, (bx, by) in badges:
            drawing.circle(bx, by, 7.5, "badge")
            drawing.text(bx, by + 3.6, str(rank), "badge-text", anchor="middle")
    return drawing.render()


def _link_list(name: str, policy: str, rung: str, frame: pd.DataFrame, top: float) -> str:
    """The busiest links as bars, for routers without coordinates."""
    shown = frame.head(MOST_LISTED).to_dict("records")
    spoken = f"{len(frame)} directed links; busiest {shown[0]['name']} at {percent(float(shown[0]['utilisation']))}"
    height = 2 * _MARGIN + _ROW_PITCH * len(shown)
    drawing = Drawing(PANEL_WIDTH, height, f"Link utilisation for {policy} at {rung}", spoken, name)
    start = PANEL_WIDTH * 0.45
    width = PANEL_WIDTH - start - _MARGIN - 48
    for rank, row in enumerate(shown):
        used = float(row["utilisation"])
        y = _MARGIN + rank * _ROW_PITCH
        length = width * used / top if top > 0 else 0.0
        hint = f"{row['name']}: {percent(used)} busy; stalls: {stall_text(row)}"
        drawing.text(start - 6, y + 12, short(str(row["name"]), 26), anchor="end")
        drawing.rect(start, y + 2, max(length, 1.0), _ROW_PITCH - 4, f"arrow h{heat_step(used, top)}", hint=hint)
        drawing.text(start + length + 6, y + 12, percent(used))
    return drawing.render()


def _routers(frame: pd.DataFrame) -> dict[tuple[int, int], int]:
    """Number of the router at each place that some link touches."""
    return {
        (int(row[f"{end}_x"]), int(row[f"{end}_y"])): int(row[f"{end}_router"])
        for row in frame.to_dict("records")
        for end in ("src", "dst")
    }


def _arrows(row: dict[Hashable, Any], grid: _Grid) -> list[list[tuple[float, float]]]:
    """The block arrows of a link: one between neighbours, two stubs at the edges for a wrap-around, else none."""
    dx, dy = int(row["dst_x"]) - int(row["src_x"]), int(row["dst_y"]) - int(row["src_y"])
    start, end = grid.at(row["src_x"], row["src_y"]), grid.at(row["dst_x"], row["dst_y"])
    gap = grid.tile / 2 + grid.pitch * 0.02
    if abs(dx) + abs(dy) == 1:
        return [_arrow(start, (dx, dy), gap, grid.pitch - gap, grid)]
    stub = grid.tile / 2 + grid.pitch * 0.4
    for along, across, size in ((dx, dy, grid.columns), (dy, dx, grid.rows)):
        if across == 0 and size > 2 and abs(along) == size - 1:
            outward = (-math.copysign(1, dx) if dx else 0.0, -math.copysign(1, dy) if dy else 0.0)
            entry = (end[0] - outward[0] * stub, end[1] - outward[1] * stub)
            return [_arrow(start, outward, gap, stub, grid), _arrow(entry, outward, 0, stub - gap, grid)]
    return []


def _arrow(
    start: tuple[float, float], direction: tuple[float, float], near: float, far: float, grid: _Grid
) -> list[tuple[float, float]]:
    """A block arrow from `near` to `far` along a direction, on the right-hand side of the line from `start`."""
    ux, uy = direction
    shift, half, head = grid.tile * 0.24, grid.tile * 0.155, grid.tile * 0.2

    def point(along: float, across: float) -> tuple[float, float]:
        return start[0] + ux * along - uy * (shift + across), start[1] + uy * along + ux * (shift + across)

    neck = far - head
    return [
        point(near, -half),
        point(neck, -half),
        point(neck, -half * 1.5),
        point(far, 0),
        point(neck, half * 1.5),
        point(neck, half),
        point(near, half),
    ]


def _centre(points: list[tuple[float, float]]) -> tuple[float, float]:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


def _arc(start: tuple[float, float], end: tuple[float, float], grid: _Grid) -> tuple[str, tuple[float, float]]:
    """A bent line between routers that are neither neighbours nor opposite ends of a row or column."""
    length = math.hypot(end[0] - start[0], end[1] - start[1])
    px, py = -(end[1] - start[1]) / length, (end[0] - start[0]) / length
    bulge = grid.pitch * 0.42
    middle = ((start[0] + end[0]) / 2 + px * bulge, (start[1] + end[1]) / 2 + py * bulge)
    control = (middle[0] + px * bulge * 0.2, middle[1] + py * bulge * 0.2)
    d = (
        f"M{number(start[0])} {number(start[1])}Q{number(control[0])} {number(control[1])} "
        f"{number(end[0])} {number(end[1])}"
    )
    return d, ((start[0] + end[0]) / 4 + control[0] / 2, (start[1] + end[1]) / 4 + control[1] / 2)


def draw_chiplets(contents: RunContents) -> ReportFigure | None:
    """One panel per policy at the highest rung that recorded chiplets; None where none did."""
    rung = rung_with(contents, contents.chiplets)
    if rung is None:
        return None
    frames = {policy: chiplet_loads(contents, policy, rung) for policy in contents.info.policies}
    frames = {policy: frame for policy, frame in frames.items() if not frame.empty}
    everything = pd.concat(frames.values(), ignore_index=True)
    on_plan = everything[(everything["x"] >= 0) & (everything["y"] >= 0)]
    unplaced = sorted(set(everything["endpoint"]) - set(on_plan["endpoint"]))
    top = heat_top([float(v) for v in everything["utilisation"]])
    panels: list[Panel] = []
    left_out: list[str] = []
    shapes = 0
    if not on_plan.empty:
        grid = _Grid.around(on_plan["x"], on_plan["y"], 0.92)
        hints = len(on_plan) <= MOST_HINTS
        for index, (policy, frame) in enumerate(frames.items()):
            if panels and shapes + 3 * len(frame) > MOST_SHAPES:
                left_out.append(policy)
                continue
            shapes += 3 * len(frame)
            placed = frame[(frame["x"] >= 0) & (frame["y"] >= 0)]
            panels.append(Panel(policy, _chiplet_panel(f"chiplets-{index}", policy, rung, placed, grid, top, hints)))
    caption = f"Time a chiplet's units were busy over all observed time, at {rung}, all seeds together."
    if unplaced:
        caption += f" Without a place on the plan: {', '.join(unplaced)}."
    data = pd.concat([f.assign(policy=p, rung=rung) for p, f in frames.items()], ignore_index=True)
    return ReportFigure(
        name="chiplets",
        title="How busy the chiplets are",
        unit="% of observed time",
        caption=caption,
        panels=tuple(panels),
        data=data[["policy", "rung", "endpoint", "kind", "router", "x", "y", "utilisation", "tokens", "macs"]],
        heat=HeatLegend("chiplet utilisation", "0 %", percent(top)),
        left_out=tuple(left_out),
    )


def _chiplet_panel(name: str, policy: str, rung: str, frame: pd.DataFrame, grid: _Grid, top: float, hints: bool) -> str:
    busiest = frame.iloc[0]
    spoken = f"busiest {busiest['endpoint']} at {percent(float(busiest['utilisation']))}"
    drawing = Drawing(PANEL_WIDTH, grid.height, f"Chiplet utilisation for {policy} at {rung}", spoken, name)
    for place, group in frame.sort_values("endpoint").groupby(["x", "y"], sort=True):
        cx, cy = grid.at(*place)
        size = grid.tile
        part = size / len(group)
        for i, row in enumerate(sorted(group.to_dict("records"), key=lambda row: natural(str(row["endpoint"])))):
            used = float(row["utilisation"])
            step = heat_step(used, top)
            above = cy - size / 2 + i * part
            hint = f"{row['endpoint']}: {percent(used)} busy, {row['tokens']:,} tokens" if hints else None
            drawing.rect(cx - size / 2, above, size, part, f"tile h{step}", radius=min(6, part / 8), hint=hint)
            ink = "on-hot" if step >= _DARK_STEP else "on-cold"
            room = int(size / 6.4)
            if room < 7 or part < 15:
                continue
            if part >= 30:
                middle = above + part / 2
                drawing.text(cx, middle - 3, short(str(row["endpoint"]), room), f"tile-name {ink}", anchor="middle")
                drawing.text(cx, middle + 12, percent(used), f"tile-value {ink}", anchor="middle")
            else:
                drawing.text(cx, above + part / 2 + 5, percent(used), f"tile-value {ink}", anchor="middle")
    return drawing.render()
