"""``-o a.b.c=value``: a value set from the command line, read by the rules of the file and checked with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.loader import Document, KeyPath, dotted, parse_yaml

__all__ = ["apply_overrides", "parse_override"]


def parse_override(option: str) -> tuple[KeyPath, Document]:
    """``key.path=value`` → the path and the value with its marks.

    List positions are numbers (``policies.0``). The value is YAML: ``4``, ``[1, 2]``, ``{kind: mesh}``, ``64 B``.

    Raises:
        ConfigErrors: no ``=``, an empty key, or a value that is no YAML.
    """
    source = f"option '-o {option}'"
    name, equals, text = option.partition("=")
    keys = [part.strip() for part in name.split(".")]
    if not equals or not all(keys):
        raise ConfigErrors.single("key.path=value", repr(option), file=source)
    path: KeyPath = tuple(int(part) if part.isascii() and part.isdigit() else part for part in keys)
    return path, parse_yaml(text, source, folder=Path(), option=True)


def _steps(document: Document, path: KeyPath, value: Document, expand: Callable[[KeyPath], None]) -> ConfigError | None:
    """Make every mapping on the way to ``path``, then put ``value`` there."""
    steps: list[Any] = []
    for position, part in enumerate(path):
        here = tuple(steps)
        if isinstance(document.get(here), str):
            expand(here)
        parent = document.get(here)
        if isinstance(parent, list):
            last = position == len(path) - 1
            limit = len(parent) + (1 if last else 0)
            if not isinstance(part, int) or part >= limit:
                expected = f"a position from 0 to {limit - 1}" if limit else "a position in a list that is not empty"
                return value.error((), expected, f"{dotted((*here, part))!r}")
            steps.append(part)
            continue
        key = str(part)
        if not isinstance(parent, Mapping):
            # A shorthand (`routing: dor`) or nothing stands where the option wants a mapping.
            document.forget(here)
            document.set(here, {})
            document.marks[here] = value.mark(())
        steps.append(key)
        if position < len(path) - 1 and document.get(tuple(steps)) is None:
            document.set(tuple(steps), {})
            document.marks[tuple(steps)] = value.mark(())
            document.key_marks[tuple(steps)] = value.mark(())
    target = tuple(steps)
    document.graft(target, value)
    document.key_marks[target] = value.mark(())
    return None


def apply_overrides(
    document: Document, options: Iterable[str], expand: Callable[[KeyPath], None] | None = None
) -> None:
    """Set each ``key.path=value`` in ``document``, in order; errors found later point at the option.

    Args:
        document: changed in place.
        options: texts of ``-o``.
        expand: called with the path of a string that an option reaches into; it may replace the string (a file name)
            by the contents of the file.

    Raises:
        ConfigErrors: every option that cannot be read or has no place.
    """
    errors: list[ConfigError] = []
    for option in options:
        try:
            path, value = parse_override(option)
            problem = _steps(document, path, value, expand or (lambda _: None))
        except ConfigErrors as found:
            errors.extend(found.errors)
            continue
        if problem is not None:
            errors.append(problem)
    if errors:
        raise ConfigErrors(errors)
