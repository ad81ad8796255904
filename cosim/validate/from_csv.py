"""Claims out of a user's table of analytical figures."""

from __future__ import annotations

from keyword import iskeyword
from pathlib import Path
from typing import Any

import yaml

from cosim.analytic.table import Figure, FigureTable

#: Units that are easier to read than the metrics' own, largest first, with their size in the metric's unit.
_READABLE = {
    "ns": (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)),
    "B": (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0)),
    "J": (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6), ("nJ", 1e-9), ("pJ", 1e-12)),
    "1": (("1", 1.0),),
}


def claims_from_table(table: FigureTable, *, experiment: str | None, scope: str, paper: str) -> str:
    """The text of a claim file: every figure as a value, and per quantity the ratios and the order of policies.

    Ratios are taken to the first policy of the table. Without an experiment every one that names the file
    tests the claims. Values carry the default tolerance of 10 %: edit the
    file, with reasons for wider ones, before the first run that is judged by it.
    """
    groups: dict[tuple[str, int | None], list[Figure]] = {}
    for figure in table.figures:
        groups.setdefault((figure.quantity.name, figure.layer), []).append(figure)
    claims: list[dict[str, Any]] = []
    for figures in groups.values():
        claims += [_value(figure, table, experiment, scope) for figure in figures]
        if len(figures) > 1:
            base = next((figure for figure in figures if figure.policy == table.policies()[0]), figures[0])
            others = [figure for figure in figures if figure is not base]
            if base.value > 0:
                claims += [_ratio(figure, base, table, experiment, scope) for figure in others]
            if len({figure.value for figure in figures}) == len(figures):
                claims.append(_order(figures, table, experiment, scope))
    _make_unique(claims)
    data = {"schema": 1, "paper": paper, "claims": claims}
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
    return text


def write_claims(text: str, path: Path) -> None:
    """Write a new claim file; raises FileExistsError rather than change one whose tolerances are fixed."""
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)


def _head(
    kind: str, name: str, statement: str, table: FigureTable, lines: str, experiment: str | None, scope: str
) -> dict[str, Any]:
    source = f"{table.name}.csv, line{'s' if ' ' in lines else ''} {lines}"
    head = {"id": name, "kind": kind, "scope": scope, "statement": statement, "source": source}
    return head if experiment is None else {**head, "experiment": experiment}


def _value(figure: Figure, table: FigureTable, experiment: str | None, scope: str) -> dict[str, Any]:
    unit, size = next(
        ((u, s) for u, s in _READABLE[figure.quantity.unit] if abs(figure.value) >= s),
        _READABLE[figure.quantity.unit][-1],
    )
    shown = float(f"{figure.value / size:.15g}")
    name = f"{_slug(figure.metric)}-{_slug(figure.policy)}"
    statement = f"{figure.metric} of {figure.policy} is {shown:.12g} {unit}."
    head = _head("value", name, statement, table, str(figure.line), experiment, scope)
    return {**head, "published": shown, "unit": unit, "tolerance": {"relative": 0.1}, "quantity": _term(figure)}


def _ratio(figure: Figure, base: Figure, table: FigureTable, experiment: str | None, scope: str) -> dict[str, Any]:
    name = f"{_slug(figure.metric)}-{_slug(figure.policy)}-over-{_slug(base.policy)}"
    ratio = float(f"{figure.value / base.value:.15g}")
    statement = f"{figure.metric} of {figure.policy} over that of {base.policy} is {ratio:.6g}."
    head = _head("ratio", name, statement, table, f"{base.line} and {figure.line}", experiment, scope)
    expression = f"{_term(figure)} / {_term(base)}"
    derived = {"stated": "derived", "published": ratio, "unit": "1", "tolerance": {"relative": 0.1}}
    return {**head, **derived, "quantity": expression}


def _order(figures: list[Figure], table: FigureTable, experiment: str | None, scope: str) -> dict[str, Any]:
    ranked = sorted(figures, key=lambda figure: figure.value)
    name = f"{_slug(ranked[0].metric)}-order"
    statement = f"{ranked[0].metric} rises in the order {', '.join(figure.policy for figure in ranked)}."
    lines = ", ".join(str(figure.line) for figure in figures)
    head = _head("order", name, statement, table, lines, experiment, scope)
    return {**head, "stated": "derived", "quantity": {"lowest_first": [_term(figure) for figure in ranked]}}


def _term(figure: Figure) -> str:
    plain = figure.policy.isidentifier() and not iskeyword(figure.policy)
    policy = figure.policy if plain else repr(figure.policy)
    layer = "" if figure.layer is None else f", layer={figure.layer}"
    return f"{figure.quantity.name}({policy}{layer})"


def _make_unique(claims: list[dict[str, Any]]) -> None:
    """Number ids that policies of similar names share."""
    taken: set[str] = set()
    for claim in claims:
        name, count = claim["id"], 1
        while claim["id"] in taken:
            count += 1
            claim["id"] = f"{name}-{count}"
        taken.add(claim["id"])


def _slug(text: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
    return "-".join(part for part in kept.split("-") if part)
