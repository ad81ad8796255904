"""``cosim validate``: an experiment at every rung, beside the analytical models, judged claim by claim."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from cosim.cli.options import jobs_option, out_option, override_option, yes_option

__all__ = ["validate"]


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@out_option
@override_option
@jobs_option
@yes_option
def validate(experiment: str, out: Path | None, overrides: tuple[str, ...], jobs: int, yes: bool) -> None:
    """Hold an analytical model against the simulation, claim by claim.

    NAME is a shipped experiment (quickstart), FILE a path to YAML. The verdicts and tables go to the terminal; with
    --out a directory receives the resolved configuration, metrics, claims, frames and report.html. Started again with
    the same --out, an interrupted validation goes on where it stopped.
    """
    from cosim.experiment import Experiment
    from cosim.report.directory import REPORT_HTML, RunDirectory
    from cosim.report.progress import RunProgress
    from cosim.report.tables import print_report

    loaded = Experiment.load(experiment, overrides)
    loaded.check()
    estimate = loaded.estimate()
    processes = min(jobs, len(loaded.units()))
    click.echo(estimate.text(processes), err=True)
    hours = estimate.seconds / processes / 3600
    limit = loaded.spec.limits.max_estimated_hours
    if hours > limit and not yes:
        raise click.UsageError(f"about {hours:.1f} h, above limits.max_estimated_hours = {limit:g}; --yes runs it")
    start = time.monotonic()
    if out is None:
        with RunProgress(f"validate {loaded.name}", estimate.seconds / processes) as progress:
            report = loaded.validate(jobs=jobs, progress=progress)
    else:
        with RunDirectory(out, loaded.resolved) as directory:
            with RunProgress(f"validate {loaded.name}", estimate.seconds / processes) as progress:
                report = loaded.validate(jobs=jobs, units=directory.path / "units", progress=progress)
            directory.write_contents(report.contents)
            wall = time.monotonic() - start
            directory.write_provenance(
                loaded.spec.seeds, loaded.plugin_hashes(), {"wall_s": round(wall, 3), "jobs": jobs}
            )
            report.to_html(directory.path / REPORT_HTML)
    print_report(report.contents)
    click.echo(f"{time.monotonic() - start:.1f} s with {processes} process{'es' if processes > 1 else ''}", err=True)
    if out is not None:
        click.echo(f"report: {out / REPORT_HTML}")
    sys.stdout.flush()
