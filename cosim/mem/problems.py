"""Collecting every error of an input before raising it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cosim.config.errors import ConfigError, ConfigErrors, closest


@dataclass(frozen=True)
class _Finding(ConfigError):
    """A finding told in one sentence; `expected` and `got` are its two halves where it has them."""

    text: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file or "", self.path, self.text) if part)


class Problems:
    """Errors found so far, each naming where it was found.

    Args:
        where: the file or object that is being read; it starts every message.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.found: list[ConfigError] = []

    def add(self, field: str, text: str) -> None:
        expected, _, got = text.removeprefix("expected ").partition(", got ")
        self.found.append(_Finding(self.where, None, None, field, expected, got, None, text))

    def unknown(self, field: str, got: object, known: Iterable[object], what: str = "key") -> None:
        """An unknown name, with the nearest right spelling."""
        names = [str(k) for k in known]
        near = closest(str(got), names)
        hint = f"; did you mean {near!r}?" if near else ""
        self.add(field, f"unknown {what} {got!r}{hint} (known: {', '.join(names)})")

    def check_keys(self, field: str, mapping: Iterable[object], known: Iterable[str]) -> None:
        names = list(known)
        for key in mapping:
            if key not in names:
                self.unknown(field, key, names)

    def raise_if_any(self) -> None:
        """Raises:
        ConfigErrors: with every finding, one per line.
        """
        if self.found:
            raise ConfigErrors(self.found)


def refuse(where: str, field: str, text: str) -> ConfigErrors:
    """The error for a single finding."""
    problems = Problems(where)
    problems.add(field, text)
    return ConfigErrors(problems.found)
