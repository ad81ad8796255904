"""Sums of timing names, as the constraint lists of the standards use them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>\d+)|(?P<sign>[+-]))")


def evaluate(expression: str, names: Mapping[str, int]) -> int:
    """The value of an expression such as ``nCWL + nBL + nWTRS`` or ``nCL + nBL + 2 - nCWL``.

    Args:
        expression: names and whole numbers joined by + and -.
        names: the value of every name, in nCK.

    Raises:
        ValueError: the text is no such sum; KeyError: a name has no value.
    """
    at = 0
    total = 0
    sign = 1
    wants_term = True
    text = str(expression)
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"{text!r} is not a sum of timing names and whole numbers")
        at = match.end()
        if match["sign"]:
            if wants_term:
                raise ValueError(f"{text!r} has a sign where a timing name was expected")
            sign = 1 if match["sign"] == "+" else -1
            wants_term = True
            continue
        if not wants_term:
            raise ValueError(f"{text!r} has two terms without a sign between them")
        total += sign * (names[match["name"]] if match["name"] else int(match["number"]))
        wants_term = False
    if wants_term:
        raise ValueError(f"{text!r} ends where a timing name was expected")
    return total


def names_in(expression: str) -> tuple[str, ...]:
    """The timing names of an expression, in order."""
    return tuple(match["name"] for match in _TOKEN.finditer(expression) if match["name"])
