"""``cosim run``: one policy of an experiment at one rung, without claims."""

from __future__ import annotations

from pathlib import Path

import click

from cosim.cli.options import jobs_option, out_option, override_option, timeline_options, timeline_request

__all__ = ["run"]


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@click.option("--policy", help="Policy of the experiment; the first one if not given.")
@click.option("--rung", default="flit", show_default=True, help="link, link+command, flit+rate or flit.")
@out_option
@override_option
@jobs_option
@timeline_options
def run(
    experiment: str,
    policy: str | None,
    rung: str,
    out: Path | None,
    overrides: tuple[str, ...],
    jobs: int,
    trace: bool,
    trace_at: str,
    trace_layers: int,
    trace_limit: int,
) -> None:
    """Simulate an experiment without claims: stage times of every layer, bytes, flit-hops.

    With --out the frames layers, groups, links, banks, chiplets, experts, tenants and incidents are
    written there as Parquet.
    """
    from cosim.experiment import Experiment
    from cosim.report.progress import RunProgress
    from cosim.run.summary import run_summary
    from cosim.run.unit import FRAME_NAMES

    loaded = Experiment.load(experiment, overrides)
    chosen = policy if policy is not None else loaded.spec.policies[0].title
    loaded.check_unit(chosen, rung)
    request = timeline_request(trace_at, trace_layers, trace_limit)
    if trace and out is None:
        raise click.UsageError("--trace writes into --out DIR: name one")
    if trace:
        loaded.check_timeline(request)
    with RunProgress(f"run {loaded.name}: {chosen} at {rung}") as progress:
        result = loaded.run(chosen, rung, jobs=jobs, progress=progress)
    click.echo(run_summary(result))
    if out is not None:
        from cosim.report.directory import TRACE_JSON, RunDirectory
        from cosim.report.timeline import trace_json_gz

        with RunDirectory(out, loaded.resolved) as directory:
            for name in FRAME_NAMES:
                frame = getattr(result, name)
                if len(frame):
                    frame.to_parquet(directory.path / f"{name}.parquet", index=False)
            if trace:
                directory.write_bytes(TRACE_JSON, trace_json_gz(loaded.timeline([chosen], rung, request)))
            directory.write_provenance(loaded.spec.seeds, loaded.plugin_hashes())
        click.echo(f"frames: {out}")
        if trace:
            click.echo(f"trace: {out / TRACE_JSON}")
