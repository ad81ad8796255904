"""A diagnosis as tables for a terminal, as a page, and as data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.diagnosis.diagnose import PLACEMENTS, Diagnosis
from cosim.diagnosis.traffic import RESOURCES
from cosim.report.figures.figure import HeatLegend, Panel, ReportFigure, heat_step
from cosim.report.figures_page import PageInfo, PageSection, render
from cosim.report.svg import Drawing
from cosim.report.tables import TextTable

__all__ = ["diagnosis_data", "diagnosis_page", "diagnosis_tables"]

_MOST_ROWS = 5
_SIDE = 340.0


def diagnosis_tables(found: Diagnosis) -> list[TextTable]:
    """The answers, then the figures they rest on."""
    return [_answers(found), _bounds(found), _links(found), _pairs(found), _layers(found), _lasting(found)]


def _answers(found: Diagnosis) -> TextTable:
    return TextTable("Diagnosis", ("question", "answer", "because"), tuple(found.answers()), left=3)


def _bounds(found: Diagnosis) -> TextTable:
    rows = []
    for name, loads in found.loads.items():
        times = [f"{loads.seconds[resource] * 1e6:.3g}" for resource in RESOURCES]
        binds = max(loads.bound_by, key=lambda one: loads.bound_by[one])
        rows.append(
            (
                name,
                f"{loads.imbalance:.2f}",
                *times,
                f"{loads.bound_s * 1e6:.3g}",
                f"{binds} {loads.bound_by[binds]:.0%}",
            )
        )
    return TextTable(
        "What a layer cannot be faster than, mean of steps and layers [µs]",
        ("placement", "busiest rank / mean", *RESOURCES, "bound", "bound by"),
        tuple(rows),
        (
            *(f"{name}: {text}" for name, text in PLACEMENTS.items()),
            "time of the busiest rank, memory, link and rank's port, each by itself: bytes / bandwidth, operations / "
            "rate; no waiting, no latency",
            "all judged on the second half of the steps; tokens go to the replicas of an expert in turn",
        ),
        left=1,
    )


def _top(values: npt.NDArray[np.float64]) -> list[int]:
    order: list[int] = np.argsort(-values, kind="stable").tolist()
    return [at for at in order[:_MOST_ROWS] if values[at] > 0]


def _links(found: Diagnosis) -> TextTable:
    before, after = found.loads["one copy"].link_bytes, found.loads["EPLB"].link_bytes
    rows = [
        (found.pipes.links[at], *(f"{side[at] / 1e3:.1f}" for side in (before, after)), _change(before[at], after[at]))
        for at in dict.fromkeys(_top(before) + _top(after))
    ]
    return TextTable(
        "Busiest links, one copy against EPLB [kB a layer and step]",
        ("link", "one copy", "EPLB", "change"),
        tuple(rows),
        ("routers of a network by number; weights and tokens together",),
        left=1,
    )


def _pairs(found: Diagnosis) -> TextTable:
    before, after = (found.loads[name].pair_bytes.reshape(-1) for name in ("one copy", "EPLB"))
    ranks = found.pipes.ranks
    rows = [
        (
            f"{ranks[at // len(ranks)]} → {ranks[at % len(ranks)]}",
            *(f"{side[at] / 1e3:.2f}" for side in (before, after)),
            _change(before[at], after[at]),
        )
        for at in dict.fromkeys(_top(before) + _top(after))
    ]
    rows.append(
        ("all pairs", f"{before.sum() / 1e3:.2f}", f"{after.sum() / 1e3:.2f}", _change(before.sum(), after.sum()))
    )
    return TextTable(
        "Busiest pairs of ranks, one copy against EPLB [kB a layer and step]",
        ("pair", "one copy", "EPLB", "change"),
        tuple(rows),
        ("tokens there, outputs back; every pair stands in the data",),
        left=1,
    )


def _change(before: float, after: float) -> str:
    return f"{after / before - 1:+.0%}" if before > 0 else "new"


def _layers(found: Diagnosis) -> TextTable:
    one = found.imbalance
    rows = [
        (
            str(layer),
            *(f"{side[layer]:.2f}" for side in (one.observed, one.balanced, one.balanced_high, one.shuffled)),
            "yes" if one.real[layer] else "no",
        )
        for layer in range(len(one.observed))
    ]
    return TextTable(
        "Busiest rank over mean, layer by layer, every expert once",
        ("layer", "observed", "balanced router", "its 97.5 %", "long-run load", "real"),
        tuple(rows),
        (
            f"mean over {found.steps.count} steps of {found.steps.tokens} tokens, mode {found.steps.mode}",
            "balanced router: tokens pick their experts evenly; its 97.5 %: of a mean over as many steps",
            "long-run load: tokens drawn from all steps, whatever their time",
        ),
        left=1,
    )


def _lasting(found: Diagnosis) -> TextTable:
    hot = found.hot
    rows = tuple(
        (str(lag), f"{lag * hot.window_steps}", f"{kept:.1%}", f"{last:.2f}")
        for lag, kept, last in zip(hot.lags, hot.kept, hot.persistence, strict=True)
    )
    return TextTable(
        f"How much of the hot set ({hot.size} experts a layer) is hot again",
        ("windows later", "steps", "kept", "persistence"),
        rows,
        (
            f"a load that never changes would keep {hot.ceiling:.1%} (shuffled tokens), chance {hot.chance:.1%}; "
            "persistence is where kept lies between them",
        ),
        left=1,
    )


def _pair_frame(found: Diagnosis) -> pd.DataFrame:
    ranks = found.pipes.ranks
    names = [(a, b) for a in ranks for b in ranks]
    frame: pd.DataFrame = pd.DataFrame(names, columns=["source", "destination"])
    for name, loads in found.loads.items():
        frame[f"{name} [bytes per layer and step]"] = loads.pair_bytes.reshape(-1)
    return frame


def _heat(found: Diagnosis) -> ReportFigure:
    names = ("one copy", "EPLB")
    top = max(float(found.loads[name].pair_bytes.max(initial=0.0)) for name in names)
    ranks = found.pipes.ranks
    side = _SIDE / len(ranks)
    panels = []
    for name in names:
        pair = found.loads[name].pair_bytes
        spoken = f"{pair.sum() / 1e3:.1f} kB between ranks a layer and step"
        drawing = Drawing(
            _SIDE + 32, _SIDE + 24, f"Traffic of pairs, {name}", spoken, f"pairs-{name.replace(' ', '-')}"
        )
        for a in range(len(ranks)):
            for b in range(len(ranks)):
                hint = f"{ranks[a]} → {ranks[b]}: {pair[a, b] / 1e3:.2f} kB" if len(ranks) <= 34 else None
                css = f"cell h{heat_step(float(pair[a, b]), top)}"
                drawing.rect(28 + b * side, a * side, side, side, css, hint=hint)
        drawing.text(28 + _SIDE / 2, _SIDE + 14, "to rank", "axis-label", anchor="middle")
        drawing.text(18, _SIDE / 2, "from rank", "axis-label", anchor="middle", turn=-90)
        panels.append(Panel(name, drawing.render()))
    return ReportFigure(
        name="pairs",
        title="Bytes from rank to rank",
        unit="kB per layer and step",
        caption="Ranks in the order of the system, the first on top and on the left. Tokens to their experts and "
        "outputs back; weights come from memories and are not in it.",
        panels=tuple(panels),
        data=_pair_frame(found),
        heat=HeatLegend("kB", "0", f"{top / 1e3:.2f}"),
    )


def diagnosis_page(found: Diagnosis, name: str, facts: dict[str, str]) -> str:
    """A self-contained page, read like a report."""
    _, bounds, links, pairs, layers, lasting = diagnosis_tables(found)
    prose = tuple((f"{question} {answer.capitalize()}.", because) for question, answer, because in found.answers())
    return render(
        PageInfo(
            "cosim diagnose",
            name,
            "What replicas of hot experts would change on this system, before any is deployed. Nothing was simulated: "
            "cosim validate does that.",
            tuple(facts.items()),
            ("diagnosis.json", "every figure, unrounded"),
        ),
        [
            PageSection("answers", "Answers", paragraphs=prose),
            PageSection("bounds", "What binds", tables=(bounds,)),
            PageSection("traffic", "Traffic before and after", (_heat(found),), (links, pairs)),
            PageSection("imbalance", "Imbalance against sampling", tables=(layers,)),
            PageSection("hot-set", "The hot set", tables=(lasting,)),
        ],
    )


def diagnosis_data(found: Diagnosis, facts: dict[str, str]) -> dict[str, Any]:
    """What ``diagnosis.json`` holds: everything, unrounded; seconds and bytes."""
    hot = found.hot
    return {
        "schema": 1,
        "facts": dict(facts),
        "answers": [dict(zip(("question", "answer", "because"), row, strict=True)) for row in found.answers()],
        "imbalance": {
            name: getattr(found.imbalance, name).tolist()
            for name in ("observed", "balanced", "balanced_high", "shuffled")
        },
        "hot_set": {
            "experts": hot.size,
            "window_steps": hot.window_steps,
            "lags": list(hot.lags),
            "kept": list(hot.kept),
            "ceiling": hot.ceiling,
            "chance": hot.chance,
        },
        "ranks": list(found.pipes.ranks),
        "links": list(found.pipes.links),
        "memories": list(found.pipes.memories),
        "placements": {
            name: {
                "imbalance": loads.imbalance,
                "seconds": loads.seconds,
                "bound_s": loads.bound_s,
                "bound_by": loads.bound_by,
                "pair_bytes": loads.pair_bytes.tolist(),
                "link_bytes": loads.link_bytes.tolist(),
                "memory_bytes": loads.memory_bytes.tolist(),
            }
            for name, loads in found.loads.items()
        },
    }
