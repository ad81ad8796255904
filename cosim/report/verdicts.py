"""Claims in words: counts, headline and what each rung measured, as judged elsewhere and only shown here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosim.report.contents import RUNG_ORDER, VERDICTS
from cosim.report.vocabulary import digits

MARKS = {"confirmed": "✓", "refuted": "✗", "inconclusive": "?", "not_testable": "–"}
WORDS = {
    "confirmed": "confirmed",
    "refuted": "refuted",
    "inconclusive": "inconclusive",
    "not_testable": "not testable",
}


def counts(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have each verdict, in the order of `VERDICTS`."""
    return {verdict: sum(1 for claim in claims if claim["verdict"] == verdict) for verdict in VERDICTS}


def headline(claims: Sequence[Mapping[str, Any]]) -> str:
    """The outcome of all claims in one sentence, with the rung they were judged at."""
    if not claims:
        return "No claims were put to this run"
    found = counts(claims)
    testable = [claim for claim in claims if claim["verdict"] != "not_testable"]
    if not testable:
        return (
            f"None of the {len(claims)} claims can be tested by this run"
            if len(claims) > 1
            else "The one claim cannot be tested by this run"
        )
    rungs = {judged_rung(claim) for claim in testable}
    where = f"at {rungs.pop()}" if len(rungs) == 1 else "each at the highest rung that measured it"
    subject = "The one testable claim is" if len(testable) == 1 else f"All {len(testable)} testable claims are"
    for verdict in ("confirmed", "refuted", "inconclusive"):
        if found[verdict] == len(testable):
            return f"{subject} {verdict} {where}"
    parts = [f"{found[v]} {WORDS[v]}" for v in ("confirmed", "refuted", "inconclusive") if found[v]]
    return f"Of {len(testable)} testable claims: {', '.join(parts)}, {where}"


def judged_rung(claim: Mapping[str, Any]) -> str | None:
    """The highest rung that measured the claim, the one its verdict was taken at; None where none did."""
    measured = [r for r in RUNG_ORDER if _has_value(claim["rungs"].get(r))]
    return measured[-1] if measured else None


def _has_value(entry: object) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("value"), (int, float))


@dataclass(frozen=True)
class Measured:
    """What one rung says about a claim; the bounds are None where the rung gives a bare value (a formula)."""

    rung: str
    value: float
    low: float | None
    high: float | None
    n: int | None

    def text(self, unit: str, kind: str) -> str:
        """`0.41 [0.38, 0.44] GB/s` in the claim's own unit."""
        if kind in ("order", "trend"):
            return f"P = {stated(round(self.value, 4))}"
        shown = digits(self.value, 3)
        if self.low is not None and self.high is not None:
            shown += f" [{digits(self.low, 3)}, {digits(self.high, 3)}]"
        return shown + unit_suffix(unit)


def measured(claim: Mapping[str, Any]) -> list[Measured]:
    """The rungs that measured the claim, lowest first."""
    out = []
    for rung in RUNG_ORDER:
        entry = claim["rungs"].get(rung)
        if not isinstance(entry, Mapping) or not _has_value(entry):
            continue
        low, high = entry.get("ci_low"), entry.get("ci_high")
        n = entry.get("n")
        out.append(
            Measured(
                rung,
                float(entry["value"]),
                None if low is None else float(low),
                None if high is None else float(high),
                None if n is None else int(n),
            )
        )
    return out


def needs_text(claim: Mapping[str, Any]) -> str:
    """What a claim still needs, as far as its reason does not say so already."""
    return ", ".join(str(need) for need in claim["needs"] if str(need) not in str(claim["reason"]))


def unit_suffix(unit: str) -> str:
    """The unit as it follows a number; nothing for plain numbers, ranks and signs."""
    if unit in ("", "1", "ratio", "rank", "sign"):
        return ""
    return " ×" if unit == "x" else f" {unit}"


def stated(value: float) -> str:
    """A number as its source prints it: no digits added."""
    return f"{value:.12g}".replace("-", "−")


def tolerance_band(claim: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval a value or ratio must lie in to be confirmed, open ends infinite; None for orders and trends."""
    edges = published_edges(claim)
    if edges is None:
        return None
    tolerance = claim["tolerance"]
    if isinstance(tolerance, Mapping):
        absolute, relative = tolerance.get("absolute"), tolerance.get("relative")
    else:
        absolute, relative = None, tolerance
    low, high = edges
    if isinstance(absolute, (int, float)):
        return low - absolute, high + absolute
    if not isinstance(relative, (int, float)):
        return None
    return (
        low - abs(low) * relative if math.isfinite(low) else low,
        high + abs(high) * relative if math.isfinite(high) else high,
    )


def published_edges(claim: Mapping[str, Any]) -> tuple[float, float] | None:
    """The published number twice, or the published range or bound; None where no number was published."""
    published = claim["published"]
    if isinstance(published, bool):
        return None
    if isinstance(published, (int, float)):
        return float(published), float(published)
    if isinstance(published, Mapping):
        low = published.get("min", published.get("at_least", -math.inf))
        high = published.get("max", published.get("at_most", math.inf))
        if math.isfinite(low) or math.isfinite(high):
            return float(low), float(high)
    return None


def published_text(claim: Mapping[str, Any]) -> str:
    """What the source states, with the tolerance it is judged by."""
    published, unit = claim["published"], unit_suffix(str(claim["unit"]))
    if published is None:
        return "stated in words"
    if isinstance(published, (int, float)) and not isinstance(published, bool):
        return stated(published) + _margin_text(claim["tolerance"], unit)
    if isinstance(published, Mapping):
        words = _mapping_text(published)
        return words + _margin_text(claim["tolerance"], unit) if published_edges(claim) else words
    if isinstance(published, Sequence) and not isinstance(published, str):
        return " < ".join(map(str, published))
    return str(published)


def _margin_text(tolerance: object, unit: str) -> str:
    """Unit and tolerance behind a number: an absolute one shares the unit, a relative one follows it."""
    if isinstance(tolerance, Mapping):
        if tolerance.get("absolute") == 0:
            return unit
        if isinstance(tolerance.get("absolute"), (int, float)):
            return f" ± {stated(tolerance['absolute'])}{unit}"
        tolerance = tolerance.get("relative")
    if not isinstance(tolerance, (int, float)) or tolerance == 0:
        return unit
    return f"{unit} ± {stated(tolerance * 100)} %" + (" of it" if unit == " %" else "")


def _mapping_text(published: Mapping[str, Any]) -> str:
    if "expect" in published:
        span = f" from {published['from']} to {published['to']}" if "from" in published and "to" in published else ""
        over = f" over {published['x']}" if "x" in published else ""
        return f"{published['expect']}{over}{span}"
    for key, sign in (("lowest_first", "<"), ("highest_first", ">")):
        if isinstance(published.get(key), Sequence):
            return f" {sign} ".join(map(str, published[key]))
    words = {"at_most": "at most", "at_least": "at least", "min": "from", "max": "to"}
    parts = []
    for key in (*(word for word in words if word in published), *(key for key in published if key not in words)):
        value = published[key]
        text = stated(value) if isinstance(value, (int, float)) else str(value)
        parts.append(f"{words.get(key, key)} {text}")
    return " ".join(parts)
