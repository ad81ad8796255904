"""Tables of the commands on traces: drawn on a terminal, aligned plain text elsewhere."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cell", "print_table"]


def cell(value: float, digits: int) -> str:
    """A number with so many decimals; a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


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
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        click.echo("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))
