"""``cosim sweep``: an experiment over a grid of its keys."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cosim.cli.options import jobs_option, override_option

__all__ = ["sweep"]

_RESULTS = "sweep.parquet"
_PAGE = "sweep.html"


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@click.option(
    "--grid",
    "-g",
    "grid",
    multiple=True,
    required=True,
    metavar="KEY=[V, ...]",
    help="An axis: a key as for -o, and its values as a YAML list; several make a grid.",
)
@click.option("--policy", "policies", multiple=True, help="Only this policy; may be given several times.")
@click.option("--rung", "rungs", multiple=True, help="Only this rung; may be given several times.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder for the results; a sweep that was interrupted goes on there.",
)
@click.option(
    "--executor", metavar="dask://HOST:PORT", help="Run on a Dask cluster; also dask:///path/to/scheduler.json."
)
@click.option("--dry-run", is_flag=True, help="Check every point and list the units; run nothing.")
@override_option
@jobs_option
def sweep(
    experiment: str,
    grid: tuple[str, ...],
    policies: tuple[str, ...],
    rungs: tuple[str, ...],
    out: Path,
    executor: str | None,
    dry_run: bool,
    overrides: tuple[str, ...],
    jobs: int,
) -> None:
    """Run an experiment at every point of a grid of its keys.

    Every combination of the values is checked before anything runs, then simulated for each policy, rung and seed.
    Units are kept as they end, named by the hash of all that decides them: started again, or with a larger grid, only
    what is missing runs. DIR receives sweep.parquet, one row per point, policy, rung, seed and metric, and sweep.html.
    Claims and analytical models are left to cosim validate.
    """
    from cosim.experiment import Experiment
    from cosim.report.directory import RunDirectory
    from cosim.report.progress import RunProgress
    from cosim.report.tables import print_tables
    from cosim.sweep.grid import parse_axis, points_of, tasks_of
    from cosim.sweep.results import sweep_page, sweep_table, tidy
    from cosim.sweep.runner import run_sweep
    from cosim.system import open_experiment

    base = open_experiment(experiment, overrides)
    axes = [parse_axis(text) for text in grid]
    points = points_of(base, axes)
    tasks = tasks_of(points, policies, rungs)
    if dry_run:
        for task in tasks:
            click.echo(f"{points[task.point].text()}: {task.key.policy} at {task.key.rung}, seed {task.key.seed}")
        click.echo(f"{len(points)} points, {len(tasks)} units, {len({task.digest for task in tasks})} different ones")
        return
    loaded = Experiment(base)
    with RunDirectory(out, loaded.resolved) as directory:
        with RunProgress(f"sweep {loaded.name}: {len(points)} points") as progress:
            ran = run_sweep(tasks, directory.path / "units", jobs=jobs, executor=executor, progress=progress)
        frame = tidy(axes, points, tasks, ran.results)
        directory.write_bytes(_RESULTS, frame.to_parquet(index=False))
        facts = [
            ("grid", "; ".join(f"{axis.key} = {json.dumps(list(axis.values))}" for axis in axes)),
            ("units", str(len(tasks))),
            ("system", base.spec.system.name or "system"),
        ]
        directory.write_text(_PAGE, sweep_page(frame, axes, f"{loaded.name}", facts))
        directory.write_provenance(
            base.spec.seeds,
            loaded.plugin_hashes(),
            {"simulated": ran.simulated, "executor": executor or f"{jobs} processes"},
        )
    print_tables([sweep_table(frame, axes)])
    click.echo(f"{ran.simulated} of {len(tasks)} units simulated now\nresults: {out / _RESULTS}\npage: {out / _PAGE}")
