"""``cosim report``: the HTML report of a run directory, made again from its files."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["report"]


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Default: report.html in DIRECTORY."
)
@click.option("--tables", is_flag=True, help="Print the result as tables too.")
def report(directory: Path, out: Path | None, tables: bool) -> None:
    """Write the HTML report of a run directory again, from its files alone.

    The page is one file without scripts that asks nothing of the network.
    """
    from cosim.report import directory as files
    from cosim.report.html import render
    from cosim.report.tables import print_report

    contents = files.read_contents(directory)
    target = directory / files.REPORT_HTML if out is None else out
    page = render(contents, files.incomplete_reason(directory)).encode()
    files.write_atomically(target, page)
    if tables:
        print_report(contents)
    click.echo(f"{target}: {len(page) / 1000:,.0f} kB")
