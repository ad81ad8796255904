"""Traces that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

from cosim.config import presets

_SCORES_SUFFIX = "_scores"


def folder() -> Path:
    """The folder of shipped traces."""
    return presets.root() / "traces"


def names() -> list[str]:
    """Names `load` knows without a path."""
    return sorted(path.stem for path in folder().glob("*.npz") if not path.stem.endswith(_SCORES_SUFFIX))


def scores_file(name: str) -> Path | None:
    """The file of router scores that belongs to a shipped trace, if it has one."""
    path = folder() / f"{name}{_SCORES_SUFFIX}.npz"
    return path if path.is_file() else None
