"""``cosim place search``: a placement of experts, from the profile part of an experiment's trace, as a hashed file."""

from __future__ import annotations

from pathlib import Path

import click

from cosim.cli.options import override_option

__all__ = ["search"]

METHODS = ("tensor", "expert", "hybrid", "node", "node+link")


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="node+link",
    show_default=True,
    help="tensor, expert: by rule; hybrid: compute-balanced; node: Node Balance; node+link: with Link Balance.",
)
@click.option("--file", "target", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE")
@click.option("--batch-tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of a batch; the workload's else.")
@click.option(
    "--operations",
    type=click.Choice(["2hI", "3hI"]),
    default="3hI",
    show_default=True,
    help="Operations of a token in an expert.",
)
@click.option(
    "--partial-sums", type=click.Choice(["FP32", "FP16"]), default="FP32", show_default=True, help="What crosses links."
)
@click.option("--groups", type=click.IntRange(min=1), metavar="N", help="Groups of nodes of the method hybrid.")
@click.option("--rounds", type=click.IntRange(min=1), default=2, show_default=True, help="Of both balances in turn.")
@click.option(
    "--evaluations", type=click.IntRange(min=1), default=70, show_default=True, help="Link simulations of a layer."
)
@click.option("--node-limit", type=click.IntRange(min=1), default=200, show_default=True, help="Of branch and bound.")
@click.option(
    "--gap", type=click.FloatRange(min=0, max=1, max_open=True), default=0.005, show_default=True, help="Relative."
)
@click.option("--trials", type=click.IntRange(min=0), default=400, show_default=True, help="Moves tried after it.")
@click.option(
    "--most-kinds",
    type=click.IntRange(min=1),
    default=700,
    show_default=True,
    help="Sets of experts in the program; with more there is none, and starts are improved by moves.",
)
@click.option("--no-capacity", is_flag=True, help="Without the memory-capacity constraint.")
@click.option("--running", is_flag=True, help="Search only layers that the experiment runs.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all draws.")
@override_option
def search(
    experiment: str,
    method: str,
    target: Path,
    batch_tokens: int | None,
    operations: str,
    partial_sums: str,
    groups: int | None,
    rounds: int,
    evaluations: int,
    node_limit: int,
    gap: float,
    trials: int,
    most_kinds: int,
    no_capacity: bool,
    running: bool,
    seed: int,
    overrides: tuple[str, ...],
) -> None:
    """Compute a placement of experts from the profile part of an experiment's trace.

    The file is read by the policy 'placed'; it carries the command that made it, a line of report per layer and a hash.
    """
    from cosim.placement.file import write_placement
    from cosim.placement.search import SearchOptions
    from cosim.report.progress import RunProgress
    from cosim.run.placing import PlaceOptions, placement_of
    from cosim.run.setup import Setup
    from cosim.system import open_experiment

    loaded = open_experiment(experiment, overrides)
    options = PlaceOptions(
        method,
        batch_tokens,
        operations,
        partial_sums,
        groups,
        not no_capacity,
        running,
        SearchOptions(
            rounds=rounds,
            evaluations=evaluations if method == "node+link" else 0,
            node_limit=node_limit,
            gap=gap,
            trials=trials,
            most_kinds=most_kinds,
            seed=seed,
        ),
    )
    with RunProgress(f"place {loaded.spec.name or experiment}: {method}") as progress:
        found = placement_of(Setup(loaded), options, progress=lambda done, count: progress(done, count, "layers"))
    for line in found.report:
        click.echo(line)
    digest = write_placement(found, target)
    click.echo(f"written to {target}, sha256 {digest}")
