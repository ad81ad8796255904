"""Collecting every error of an input before raising it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Problems:
    """Errors found so far, each naming where it was found.

    Args:
        where: the file or object that is being read; it starts every message.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.messages: list[str] = []

    def add(self, field: str, text: str) -> None:
        self.messages.append(f"{self.where}: {field}: {text}" if field else f"{self.where}: {text}")

    def unknown(self, field: str, got: object, known: Iterable[object], what: str = "key") -> None:
        """An unknown name, with the nearest right spelling."""
        names = [str(k) for k in known]
        near = difflib.get_close_matches(str(got), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        self.add(field, f"unknown {what} {got!r}{hint} (known: {', '.join(names)})")

    def check_keys(self, field: str, mapping: Iterable[object], known: Iterable[str]) -> None:
        names = list(known)
        for key in mapping:
            if key not in names:
                self.unknown(field, key, names)

    def raise_if_any(self) -> None:
        """Raises:
        ValueError: with every message, one per line.
        """
        if self.messages:
            raise ValueError("\n".join(self.messages))
