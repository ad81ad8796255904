"""Options that several commands share, with one spelling and one meaning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["out_option", "override_option", "yes_option"]

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
