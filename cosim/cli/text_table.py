"""Tables of commands: drawn on a terminal, aligned plain text elsewhere."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["aligned", "cell", "print_table"]


def cell(value: float, digits: int) -> str:
    """A number with so many decimals; a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def aligned(rows: Sequence[Sequence[str]], left: int = 1, *, words_last: bool = False) -> list[str]:
    """Rows as lines of columns; the first ``left``, and with ``words_last`` the last, begin at the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_left = {*range(left), *([len(widths) - 1] if words_last else [])}
    return [
        "  ".join(
            text.ljust(width) if column in to_left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output: drawn on a terminal, aligned plain text elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(header_style="bold")
        for name in header:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    for line in aligned((header, *rows), 0):
        click.echo(line)
