"""Options that several commands share, with one spelling and one meaning."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from cosim.run.timeline import TimelineRequest

__all__ = ["jobs_option", "out_option", "override_option", "timeline_options", "timeline_request", "yes_option"]

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


def timeline_options(command: _Command) -> _Command:
    """``--trace`` and what goes with it; arrive as ``trace``, ``trace_at``, ``trace_layers`` and ``trace_limit``."""
    for option in (
        click.option(
            "--trace-limit",
            type=click.IntRange(min=1),
            default=200_000,
            show_default=True,
            metavar="N",
            help="Most uses of links and banks in the trace, for each policy; the rest is counted.",
        ),
        click.option(
            "--trace-layers",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            metavar="N",
            help="How many layers the trace covers.",
        ),
        click.option(
            "--trace-at", default="0", show_default=True, metavar="BATCH[:LAYER]", help="Where the trace begins."
        ),
        click.option(
            "--trace", is_flag=True, help="Also write trace.json.gz, for Perfetto, into --out: see docs/reports.md."
        ),
    ):
        command = option(command)
    return command


def timeline_request(trace_at: str, trace_layers: int, trace_limit: int) -> TimelineRequest:
    """What the options of ``--trace`` ask for.

    Raises:
        click.UsageError: a place that is no ``BATCH`` and no ``BATCH:LAYER``.
    """
    from cosim.run.timeline import TimelineRequest

    batch, _, layer = trace_at.partition(":")
    if not batch.isdecimal() or (layer and not layer.isdecimal()) or trace_at.endswith(":"):
        raise click.UsageError(f"--trace-at: expected BATCH or BATCH:LAYER in whole numbers, got {trace_at!r}")
    return TimelineRequest(int(batch), int(layer) if layer else None, trace_layers, trace_limit)


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
