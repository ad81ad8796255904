"""``cosim xval ramulator2``: the same requests on a Ramulator 2.1 of the user's, command by command."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import click

from cosim.cli.options import out_option

__all__ = ["ramulator2"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--preset", default="HBM2_2000", show_default=True, help="The standard and speed bin.")
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of the memory, such as refresh=all_bank.",
)
@click.option(
    "--ramulator2",
    "python",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    metavar="FILE",
    help="The Python that has the package `ramulator`; without it $RAMULATOR2_PYTHON.",
)
@click.option("--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds for its run.")
@out_option
def ramulator2(
    file: Path, preset: str, options: tuple[str, ...], python: Path | None, timeout: float, out: Path | None
) -> None:
    """Play the requests of FILE, as fast as accepted, here and on Ramulator 2.1, and compare every DRAM command.

    FILE is what `cosim mem run` takes, without arrival times. With --out the exported experiment, what Ramulator wrote
    and the table are kept. Ramulator ends when its last request is sent: commands are compared up to its last one. The
    exit status is 1 when a command differs.
    """
    from cosim_adapters.ramulator2 import compare, export_requests, read_commands, run_ramulator2

    from cosim.cli.mem import memory_config
    from cosim.mem import Memory
    from cosim.mem.traces import read_trace

    memory = Memory({"values": "ramulator2.1", **memory_config(preset, options)})
    experiment = export_requests(memory, read_trace(file))
    interpreter = _find(python)
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        try:
            statistics = run_ramulator2(interpreter, experiment, folder, timeout)
            theirs = read_commands(folder / "commands.csv.ch0")
        except subprocess.TimeoutExpired as problem:
            raise click.ClickException(f"Ramulator did not end within {timeout:g} s; see --timeout") from problem
        except ValueError as problem:
            raise click.ClickException(str(problem)) from problem
    run = memory.run_requests(experiment.frame, commands=True)
    found = compare(theirs, run.commands)
    counts = run.counters
    rows = [
        ("commands", found.ours, found.theirs),
        ("row hits", counts["row_hits"], statistics.get("row_hits", "-")),
        ("row misses", counts["row_misses"], statistics.get("row_misses", "-")),
        ("row conflicts", counts["row_conflicts"], statistics.get("row_conflicts", "-")),
    ]
    click.echo(
        f"{preset}, values ramulator2.1, {len(experiment.frame)} requests; commands up to slot {found.last_slot}"
    )
    click.echo(f"{'':<14} {'cosim':>12} {'Ramulator':>12}")
    for name, our, their in rows:
        click.echo(f"{name:<14} {our!s:>12} {their!s:>12}")
    click.echo(f"{'same':<14} {found.same:>12}")
    click.echo("row results of Ramulator leave out requests under way at its end")
    if out is not None:
        lines = ["quantity,cosim,ramulator2", *(f"{name},{our},{their}" for name, our, their in rows)]
        (out / "xval.csv").write_text("\n".join([*lines, f"same,{found.same},{found.same}"]) + "\n", encoding="utf-8")
        click.echo(f"written to {out}")
    if found.first_difference:
        click.echo(f"first difference: {found.first_difference}")
        raise click.exceptions.Exit(1)


def _find(python: Path | None) -> Path:
    named = python or (Path(os.environ["RAMULATOR2_PYTHON"]) if os.environ.get("RAMULATOR2_PYTHON") else None)
    if named is None:
        raise click.ClickException(
            "no Ramulator 2.1 here: name the Python that has its package `ramulator` with --ramulator2 FILE "
            "or in $RAMULATOR2_PYTHON"
        )
    found = shutil.which(str(named))
    if found is None:
        raise click.ClickException(f"{named}: expected a Python interpreter, got no executable file")
    return Path(found).absolute()
