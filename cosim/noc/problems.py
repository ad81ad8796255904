"""Collects every problem of an input before one error is raised."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Problems", "nearest"]


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest known word, or nothing."""
    close = difflib.get_close_matches(str(word), [str(k) for k in known], n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


@dataclass
class Problems:
    """Problems found so far, each a key path and a sentence."""

    found: list[str] = field(default_factory=list)

    def add(self, path: str, sentence: str) -> None:
        """Note one problem of the value at `path`."""
        self.found.append(f"{path}: {sentence}")

    def unknown_keys(self, path: str, given: Mapping[str, object], known: Iterable[str]) -> None:
        """Note every key of `given` that is not in `known`."""
        names = list(known)
        for key in given:
            if key not in names:
                self.add(
                    f"{path}.{key}" if path else str(key),
                    f"unknown key; expected one of {', '.join(names)}{nearest(str(key), names)}",
                )

    def integer(self, path: str, value: object, least: int, most: int | None = None) -> int | None:
        """`value` as an integer of at least `least` and at most `most`, or None with a problem noted."""
        limits = f"an integer >= {least}" if most is None else f"an integer from {least} to {most}"
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(path, f"expected {limits}, got {value!r}")
            return None
        if value < least or (most is not None and value > most):
            self.add(path, f"expected {limits}, got {value}")
            return None
        return value

    def boolean(self, path: str, value: object) -> bool | None:
        """`value` as true or false (also 0 and 1, as BookSim2 writes them), or None with a problem noted."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        self.add(path, f"expected true or false, got {value!r}")
        return None

    def choice(self, path: str, value: object, known: Iterable[str]) -> str | None:
        """`value` if it is one of `known`, or None with a problem noted."""
        names = list(known)
        if isinstance(value, str) and value in names:
            return value
        self.add(path, f"expected one of {', '.join(names)}, got {value!r}{nearest(str(value), names)}")
        return None

    def raise_if_any(self) -> None:
        """Raise one ValueError with every problem, one a line."""
        if self.found:
            raise ValueError("\n".join(self.found))
