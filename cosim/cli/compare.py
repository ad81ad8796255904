"""``cosim compare``: two run directories held against each other."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["compare"]


@click.command()
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME|OF_A:OF_B",
    help="Compare this policy, or one of A with another of B; may be given several times. Default: all that both have.",
)
@click.option("--all", "every", is_flag=True, help="Stages and traffic at every rung, not only at the highest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def compare(first: Path, second: Path, policies: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Compare two run directories: differences of B from A with 95 % intervals and effect sizes.

    Differences are taken unit by unit where both runs simulated the same (seed, batch, layer) units of the same
    workload. A and B may be one directory: compare its policies with --policy static:hot_replication.
    """
    from cosim.config.loader import load_yaml
    from cosim.report import compare as comparing
    from cosim.report import directory as files
    from cosim.report.tables import print_tables

    runs = [files.read_contents(path) for path in (first, second)]
    resolved = [load_yaml(path / files.CONFIG).data for path in (first, second)]
    pairs = None
    if policies:
        split = [policy.partition(":") for policy in policies]
        pairs = [(name, other or name) for name, _, other in split]
    found = comparing.compare(runs[0], runs[1], pairs, (resolved[0], resolved[1]))
    if as_json:
        click.echo(json.dumps(comparing.comparison_json(found), indent=1, ensure_ascii=False))
        return
    for name, path in (("A", first), ("B", second)):
        reason = files.incomplete_reason(path)
        click.echo(f"{name}: {path}" + (f" (incomplete: {reason})" if reason else ""))
    print_tables(comparing.comparison_tables(found, every=every))
