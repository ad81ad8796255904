"""Everything wrong with one input, gathered before anything is raised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.errors import did_you_mean as nearest

_EXAMPLES = 3


@dataclass(frozen=True)
class TraceFinding(ConfigError):
    """One finding in a trace; `path` holds the whole text, which counts all problems of its kind."""

    def __str__(self) -> str:
        return f"{self.file}: {self.path}"


class TraceError(ConfigErrors):
    """A routing trace (or a request for a part of one) that cannot be used; the text lists every problem found.

    Attributes:
        source: the file, or what else the trace is called.
        problems: one line per kind of problem.
    """

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(TraceFinding(source, None, None, text, "", "") for text in self.problems)

    def __reduce__(self) -> tuple[type[TraceError], tuple[str, tuple[str, ...]]]:  # type: ignore[override]
        return (TraceError, (self.source, self.problems))


@dataclass
class _Kind:
    count: int = 0
    examples: list[str] = field(default_factory=list)


class Problems:
    """Collects problems of one file; those of one kind are counted and the first few of them shown."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._kinds: dict[str, _Kind] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def add(self, kind: str, example: str = "", count: int = 1) -> None:
        """Notes `count` problems of `kind`; `example` says where and what one of them is."""
        entry = self._kinds.setdefault(kind, _Kind())
        entry.count += count
        if example and len(entry.examples) < _EXAMPLES:
            entry.examples.append(example)

    def lines(self) -> tuple[str, ...]:
        """One line per kind: text, how often, first places."""
        return tuple(_line(kind, entry) for kind, entry in self._kinds.items())

    def raise_if_any(self) -> None:
        """Raises TraceError if anything was noted."""
        if self._kinds:
            raise TraceError(self.source, self.lines())


def _line(kind: str, entry: _Kind) -> str:
    text = kind if entry.count == 1 else f"{kind} ({entry.count} times)"
    if not entry.examples:
        return text
    more = ", …" if entry.count > len(entry.examples) else ""
    return f"{text}: {'; '.join(entry.examples)}{more}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` for the nearest of `known`, or an empty string."""
    text = nearest(word, known)
    return f", {text}" if text else ""
