"""Options that several commands share, with one spelling and one meaning."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["jobs_option", "out_option", "override_option", "yes_option"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def override_option(command: _Command) -> _Command:
    """``-o key=value``, repeatable; arrives as ``overrides: tuple[str, ...]``."""
    return click.option(
        "-o",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a key of the file, read and checked like the file; may be given several times.",
    )(command)


def out_option(command: _Command) -> _Command:
    """``--out DIR``; arrives as ``out: Path | None``."""
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=None,
        metavar="DIR",
        help="Folder for the results.",
    )(command)


def yes_option(command: _Command) -> _Command:
    """``--yes``; arrives as ``yes: bool``."""
    return click.option("--yes", is_flag=True, help="Run even if the estimate is above the limit.")(command)


def jobs_option(command: _Command) -> _Command:
    """``--jobs N``; arrives as ``jobs: int``."""
    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=lambda: os.cpu_count() or 1,
        show_default="all cores",
        metavar="N",
        help="Processes; results do not depend on it.",
    )(command)
