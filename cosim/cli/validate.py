"""``cosim validate``: an experiment at every rung, beside the analytical models, judged claim by claim."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosim.cli.options import (
    jobs_option,
    out_option,
    override_option,
    timeline_options,
    timeline_request,
    yes_option,
)

if TYPE_CHECKING:
    from cosim.experiment import Experiment, Report

__all__ = ["validate"]

#: Folder of the run directory that holds those of companions.
COMPANIONS = "companions"


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@out_option
@override_option
@jobs_option
@yes_option
@timeline_options
def validate(
    experiment: str,
    out: Path | None,
    overrides: tuple[str, ...],
    jobs: int,
    yes: bool,
    trace: bool,
    trace_at: str,
    trace_layers: int,
    trace_limit: int,
) -> None:
    """Hold an analytical model against the simulation, claim by claim.

    NAME is a shipped experiment (quickstart), FILE a path to YAML. The verdicts and tables go to the terminal; with
    --out a directory receives the resolved configuration, metrics, claims, frames and report.html. Started again with
    the same --out, an interrupted validation goes on where it stopped.
    """
    from cosim.experiment import Experiment
    from cosim.report.directory import REPORT_HTML, TRACE_JSON, RunDirectory
    from cosim.report.progress import RunProgress
    from cosim.report.tables import all_tables, print_report, print_tables
    from cosim.report.timeline import trace_json_gz

    loaded = Experiment.load(experiment, overrides)
    loaded.check()
    request = timeline_request(trace_at, trace_layers, trace_limit)
    if trace and out is None:
        raise click.UsageError("--trace writes into --out DIR: name one")
    if trace:
        loaded.check_timeline(request)
    if trace and not loaded.simulated_rungs:
        raise click.UsageError("--trace needs a rung that is simulated: link, link+command, flit+rate or flit")
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
                loaded.spec.seeds,
                loaded.plugin_hashes(),
                {"wall_s": round(wall, 3), "jobs": jobs, "skipping": dict(report.contents.skipping)},
            )
            report.to_html(directory.path / REPORT_HTML)
            for companion in loaded.companions:
                _write_companion(companion, report.companions[companion.name], directory.path / COMPANIONS)
            if trace:
                policies = [policy.title for policy in loaded.spec.policies]
                timeline = loaded.timeline(policies, loaded.simulated_rungs[0], request)
                directory.write_bytes(TRACE_JSON, trace_json_gz(timeline))
    for name, companion_report in report.companions.items():
        click.echo(f"Companion {name}")
        print_tables(all_tables(companion_report.contents))
        click.echo()
    print_report(report.contents)
    click.echo(f"{time.monotonic() - start:.1f} s with {processes} process{'es' if processes > 1 else ''}", err=True)
    if out is not None:
        click.echo(f"report: {out / REPORT_HTML}")
        if trace:
            click.echo(f"trace: {out / TRACE_JSON}")
    sys.stdout.flush()


def _write_companion(companion: Experiment, report: Report, folder: Path) -> None:
    """A companion's own run directory; its claims are those that it answered by itself."""
    from cosim.report.directory import REPORT_HTML, RunDirectory

    with RunDirectory(folder / companion.name, companion.resolved) as directory:
        directory.write_contents(report.contents)
        directory.write_provenance(companion.spec.seeds, companion.plugin_hashes())
        report.to_html(directory.path / REPORT_HTML)
