"""What is wrong with a user's input: every finding at once, each with its place and its fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["ConfigError", "ConfigErrors", "Problems", "closest", "did_you_mean", "listed", "one_of"]


@dataclass(frozen=True)
class ConfigError:
    """One finding.

    ``file`` is a path, or the option (``-o key=value``) that brought the value in; ``line`` and ``column`` count
    from 1 and are ``None`` where no line is known. ``path`` is the dotted key path, empty for the whole file.
    """

    file: str | None
    line: int | None
    column: int | None
    path: str
    expected: str
    got: str
    suggestion: str | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place += f":{self.line}" if place else f"line {self.line}"
            if self.column is not None:
                place += f":{self.column}"
        head = ": ".join(part for part in (place, self.path) if part)
        text = f"expected {self.expected}, got {self.got}"
        if self.suggestion:
            text += f"; {self.suggestion}"
        return f"{head}: {text}" if head else text


class ConfigErrors(ValueError):
    """All findings of one input. ``errors`` lists them in the order of the file; the text has one a line."""

    errors: tuple[ConfigError, ...]

    def __init__(self, errors: Iterable[ConfigError]) -> None:
        unique = tuple(dict.fromkeys(errors))
        if not unique:
            raise AssertionError("ConfigErrors without a finding")
        self.errors = unique
        super().__init__("\n".join(str(error) for error in unique))

    def __reduce__(self) -> tuple[type[ConfigErrors], tuple[tuple[ConfigError, ...]]]:
        return (ConfigErrors, (self.errors,))

    @classmethod
    def single(
        cls,
        expected: str,
        got: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        path: str = "",
        suggestion: str | None = None,
    ) -> ConfigErrors:
        """The common case of one finding."""
        return cls([ConfigError(file, line, column, path, expected, got, suggestion)])


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known spelling nearest to ``word``, letter case aside; ``None`` when nothing is near."""
    names = list(known)
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.casefold(), name)
    if word.casefold() in folded:
        return folded[word.casefold()]
    hits = difflib.get_close_matches(word.casefold(), list(folded), n=1, cutoff=0.6)
    return folded[hits[0]] if hits else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """``did you mean 'x'?`` for the nearest known spelling, or ``None``."""
    hit = closest(word, known)
    return f"did you mean {hit!r}?" if hit is not None else None


def one_of(names: Sequence[str]) -> str:
    """``one of a, b, c`` as the errors print it."""
    if len(names) == 1:
        return repr(names[0])
    return "one of " + ", ".join(names)


def listed(names: Iterable[str]) -> str:
    """Names as an error prints them."""
    found = list(names)
    return one_of(found) if found else "none (there are none)"


@dataclass
class Problems:
    """Collects every problem of an input, each at a key path, before one error is raised."""

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
