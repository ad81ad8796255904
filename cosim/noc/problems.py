"""Collects every problem of an input before one error is raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of

__all__ = ["Problems", "listed"]


def listed(names: Iterable[str]) -> str:
    """Names as an error prints them."""
    found = list(names)
    return one_of(found) if found else "none (there are none)"


@dataclass
class Problems:
    """Problems found so far, each at a key path."""

    found: list[ConfigError] = field(default_factory=list)

    def add(self, path: str, expected: str, got: str, suggestion: str | None = None) -> None:
        """Note that the value at `path` is not what was expected."""
        self.found.append(ConfigError(None, None, None, path, expected, got, suggestion))

    def unknown_keys(self, path: str, given: Mapping[str, object], known: Iterable[str]) -> None:
        """Note every key of `given` that is not in `known`."""
        names = list(known)
        for key in given:
            if key not in names:
                where = f"{path}.{key}" if path else str(key)
                self.add(where, listed(names), f"the unknown key {key!r}", did_you_mean(str(key), names))

    def integer(self, path: str, value: object, least: int, most: int | None = None) -> int | None:
        """`value` as an integer of at least `least` and at most `most`, or None with a problem noted."""
        limits = f"an integer >= {least}" if most is None else f"an integer from {least} to {most}"
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(path, limits, repr(value))
            return None
        if value < least or (most is not None and value > most):
            self.add(path, limits, str(value))
            return None
        return value

    def boolean(self, path: str, value: object) -> bool | None:
        """`value` as true or false (also 1 and 0, as BookSim2 writes them), or None with a problem noted."""
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        self.add(path, "true or false", repr(value))
        return None

    def choice(self, path: str, value: object, known: Iterable[str]) -> str | None:
        """`value` if it is one of `known`, or None with a problem noted."""
        names = list(known)
        if isinstance(value, str) and value in names:
            return value
        hint = did_you_mean(value, names) if isinstance(value, str) else None
        self.add(path, listed(names), repr(value), hint)
        return None

    def raise_if_any(self) -> None:
        """Raise one ConfigErrors with every problem."""
        if self.found:
            raise ConfigErrors(self.found)
