"""Claims against their published values: one small chart per claim, on the claim's own axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from cosim.report.contents import RunContents
from cosim.report.figures.figure import label_room, row_label, value_axis
from cosim.report.svg import Axis, Drawing
from cosim.report.verdicts import (
    judged_rung,
    measured,
    published_edges,
    published_text,
    tolerance_band,
    unit_suffix,
)

WIDTH = 320.0
_RIGHT = 14.0
_ROW = 17.0
_TOP = 5.0


def chart(claim: Mapping[str, Any], name: str) -> str | None:
    """The chart of one claim; None where there is nothing measured or no number to hold it against."""
    found = measured(claim)
    probability = claim["kind"] in ("order", "trend")
    band = (0.95, 1.0) if probability else tolerance_band(claim)
    if not found or band is None:
        return None
    ends = [e for m in found for e in (m.value, m.low, m.high) if e is not None]
    ends += [e for e in band if math.isfinite(e)]
    if probability:
        low, high = 0.0, 1.0
    else:
        low, high = min(ends), max(ends)
        pad = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = low - pad, high + pad
    bottom = _TOP + _ROW * len(found)
    unit, kind = str(claim["unit"]), str(claim["kind"])
    spoken = "; ".join(f"{m.rung} {m.text(unit, kind)}" for m in found)
    drawing = Drawing(WIDTH, bottom + 34, f"Claim {claim['id']}: {claim['verdict']}", spoken, name)
    left = label_room(m.rung for m in found)
    axis = Axis(low, high, left, WIDTH - _RIGHT)
    suffix = unit_suffix(unit).strip()
    label = "probability of the stated order" if kind == "order" else "probability of the stated trend"
    if not probability:
        label = f"measured [{suffix}]" if suffix else "measured (no unit)"
    start, end = axis(max(band[0], low)), axis(min(band[1], high))
    drawing.rect(start, _TOP, end - start, bottom - _TOP, "band", hint="confirmed inside this band")
    if probability:
        drawing.rect(axis(0), _TOP, axis(0.05) - axis(0), bottom - _TOP, "band-no", hint="refuted inside this band")
    value_axis(drawing, axis, _TOP, bottom, label, 4)
    for edge in () if probability else sorted(set(published_edges(claim) or ())):
        if math.isfinite(edge):
            drawing.line(axis(edge), _TOP, axis(edge), bottom, "published")
    judged = judged_rung(claim)
    for row, m in enumerate(found):
        y = _TOP + _ROW * (row + 0.5)
        css = f"v-{claim['verdict']}" if m.rung == judged else "v-lower"
        row_label(drawing, left, y, m.rung, "label" if m.rung == judged else "label soft")
        if m.low is not None and m.high is not None:
            drawing.line(axis(m.low), y, axis(m.high), y, f"interval {css}")
        hint = f"{m.rung}: {m.text(unit, kind)}" + (f", n = {m.n:,}" if m.n is not None else "")
        drawing.circle(axis(m.value), y, 5 if m.rung == judged else 3.5, f"estimate {css}", hint=hint)
    return drawing.render()


def data(contents: RunContents) -> pd.DataFrame:
    """Every measured value of every claim: what the charts plot."""
    rows = []
    for claim in contents.claims:
        band = tolerance_band(claim)
        for m in measured(claim):
            rows.append(
                {
                    "id": claim["id"],
                    "scope": claim["scope"],
                    "kind": claim["kind"],
                    "verdict": claim["verdict"],
                    "published": published_text(claim),
                    "confirmed_low": band[0] if band is not None else None,
                    "confirmed_high": band[1] if band is not None else None,
                    "unit": claim["unit"],
                    "rung": m.rung,
                    "value": m.value,
                    "ci_low": m.low,
                    "ci_high": m.high,
                    "n": m.n,
                }
            )
    columns = [
        "id", "scope", "kind", "verdict", "published", "confirmed_low", "confirmed_high", "unit", "rung", "value",
        "ci_low", "ci_high", "n",
    ]  # fmt: skip
    frame: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return frame
