"""What is wrong with a user's input: every finding at once, each with its place and its fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["ConfigError", "ConfigErrors", "closest", "did_you_mean", "one_of"]


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
