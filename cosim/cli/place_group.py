"""``cosim place group``: experts to stacks of cores by complementarity or by co-activation, as a hashed file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cosim.cli.options import override_option

__all__ = ["group"]


class _RouteWeight(click.ParamType[Any]):
    name = "tokens|balanced|number"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        if value in ("tokens", "balanced"):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"expected tokens, balanced or a number, got {value!r}", param, context)


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@click.option(
    "--method",
    type=click.Choice(("complementarity", "mozart", "popularity")),
    default="complementarity",
    show_default=True,
    help="complementarity: 3D-MoE's grouping and mapping; mozart: co-activated clusters; popularity: even load.",
)
@click.option("--file", "target", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE")
@click.option("--batch-tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of a step; the workload's else.")
@click.option("--groups", type=click.IntRange(min=1), metavar="N", help="Blocks of cores, where one network holds all.")
@click.option("--experts-per-core", type=click.IntRange(min=1), metavar="N", help="P_max; as few as possible else.")
@click.option("--clusters", type=click.IntRange(min=1), default=8, show_default=True, help="Typical steps.")
@click.option(
    "--collaboration", type=click.Choice(("excess", "overload")), default="excess", show_default=True,
    help="How the paper's M[g, d] is read.",
)  # fmt: skip
@click.option("--objectives", type=click.IntRange(1, 3), default=3, show_default=True, help="In the paper's order.")
@click.option(
    "--gap", type=click.FloatRange(min=0, max=1, max_open=True), default=0.03, show_default=True, help="Relative."
)
@click.option("--node-limit", type=click.IntRange(min=1), default=20, show_default=True, help="Of branch and bound.")
@click.option(
    "--slack", type=click.FloatRange(min=0, max=1, max_open=True), default=0.0, show_default=True,
    help="By which a later objective may worsen an earlier one.",
)  # fmt: skip
@click.option(
    "--most-binaries", type=click.IntRange(min=0), default=150, show_default=True,
    help="Larger programs are left to swaps alone.",
)  # fmt: skip
@click.option("--restarts", type=click.IntRange(min=0), default=2, show_default=True, help="Drawn starts of swaps.")
@click.option(
    "--route-weight", type=_RouteWeight(), default="tokens", show_default=True, help="lambda_route of the mapping."
)
@click.option(
    "--clusters-per-group", type=click.IntRange(min=1), default=4, show_default=True, help="Of the method mozart."
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all draws.")
@override_option
def group(
    experiment: str,
    method: str,
    target: Path,
    batch_tokens: int | None,
    groups: int | None,
    experts_per_core: int | None,
    clusters: int,
    collaboration: Any,
    objectives: int,
    gap: float,
    node_limit: int,
    slack: float,
    most_binaries: int,
    restarts: int,
    route_weight: Any,
    clusters_per_group: int,
    seed: int,
    overrides: tuple[str, ...],
) -> None:
    """Group experts on stacks of cores from the profile part of an experiment's trace.

    Prints each program's size before it is solved and how it ended. The file is read by the policy 'placed' and carries
    the command that made it, its profile, a line of report per layer and a hash.
    """
    from cosim.placement.file import write_placement
    from cosim.placement.grouping import GroupingOptions
    from cosim.report.progress import RunProgress
    from cosim.run.grouped_placing import GroupPlaceOptions, grouped_placement
    from cosim.run.setup import Setup
    from cosim.system import open_experiment

    loaded = open_experiment(experiment, overrides)
    options = GroupPlaceOptions(
        method,
        batch_tokens,
        groups,
        experts_per_core,
        route_weight,
        clusters_per_group,
        GroupingOptions(
            clusters=clusters,
            collaboration=collaboration,
            objectives=objectives,
            gap=gap,
            node_limit=node_limit,
            slack=slack,
            most_binaries=most_binaries,
            restarts=restarts,
            seed=seed,
        ),
    )
    with RunProgress(f"group {loaded.spec.name or experiment}: {method}") as progress:
        found = grouped_placement(
            Setup(loaded), options, report=click.echo, progress=lambda done, count: progress(done, count, "layers")
        )
    for line in found.report:
        click.echo(line)
    digest = write_placement(found, target)
    click.echo(f"written to {target}, sha256 {digest}")
