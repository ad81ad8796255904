"""Files that come with cosim, found by kind and name, from a wheel or from a checkout."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cosim.config.errors import ConfigErrors, did_you_mean
from cosim.config.loader import Mark, near_file

__all__ = ["KINDS", "checkpoint", "find", "names", "root"]

# Kind of file → the endings it may have.
KINDS: dict[str, tuple[str, ...]] = {
    "experiments": (".yaml",),
    "hardware": (".yaml",),
    "models": (".yaml",),
    "networks": (".yaml",),
    "memory": (".yaml",),
    "claims": (".yaml",),
    "placements": (".json",),
    "checkpoints": (".npz",),
    "traces": (".npz", ".parquet", ".csv", ".jsonl", ".json"),
}


def root() -> Path:
    """The folder of the shipped files: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"cosim's shipped files are missing: no 'configs' in {package} nor beside it")


def _shipped(kind: str) -> dict[str, Path]:
    if kind not in KINDS:
        raise KeyError(f"no kind {kind!r} of shipped files: {', '.join(KINDS)}")
    folder = root() / kind
    if not folder.is_dir():
        return {}
    files = sorted(path for path in folder.iterdir() if path.suffix in KINDS[kind] and path.is_file())
    # `name_scores.npz` belongs to the trace `name`: it is no trace of its own.
    return {path.stem: path for path in files if not (kind == "traces" and path.stem.endswith("_scores"))}


def checkpoint(reference: str) -> Path:
    """The file of a policy's checkpoint, by shipped name or path.

    Raises:
        ConfigErrors: there is none.
    """
    return find("checkpoints", reference, path="checkpoint")


def names(kind: str) -> list[str]:
    """The names shipped of ``kind`` (one of :data:`KINDS`), sorted."""
    return list(_shipped(kind))


def is_path(reference: str, kind: str) -> bool:
    """Whether ``reference`` is written as a path rather than a shipped name."""
    separators = {"/", os.sep}
    return any(mark in reference for mark in separators) or Path(reference).suffix.lower() in (
        *KINDS[kind],
        ".yml",
        ".yaml",
    )


def located(reference: str, folder: Path | None) -> Path:
    """The path that ``reference`` names, counted from ``folder``; ``~`` is the home folder, where there is one."""
    file = Path(reference)
    with contextlib.suppress(RuntimeError):
        file = file.expanduser()
    return file if folder is None else folder / file


def find(kind: str, reference: str, *, folder: Path | None = None, mark: Mark | None = None, path: str = "") -> Path:
    """The file that ``reference`` means: a shipped name, or a path counted from ``folder`` (default: the current one).

    ``mark`` and ``path`` place the error.

    Raises:
        ConfigErrors: no such name, with the shipped ones and the nearest, or no such file.
    """
    place = mark or Mark(None)
    if is_path(reference, kind):
        file = located(reference, folder)
        if not file.is_file():
            got = f"{reference!r}, which is a folder" if file.is_dir() else f"{reference!r}, which does not exist"
            raise ConfigErrors([place.error(path, "a file", got, near_file(file))])
        return file
    shipped = _shipped(kind)
    if reference in shipped:
        return shipped[reference]
    listed = ", ".join(shipped) or "none"
    hint = did_you_mean(reference, shipped)
    raise ConfigErrors(
        [
            place.error(
                path,
                f"a path, or a shipped name of configs/{kind} ({listed})",
                repr(reference),
                hint,
            )
        ]
    )
