"""``cosim claims``: list, show and make sets of claims."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["claims"]

_SCOPES = ("routed", "moe", "model", "network", "memory", "hardware", "trace")


@click.group()
def claims() -> None:
    """List, check and import claims."""


@claims.command("list")
@click.argument("reference", metavar="[NAME|FILE]", required=False)
def list_claims(reference: str | None) -> None:
    """List the shipped sets of claims, or the claims of one set."""
    from cosim.config import presets
    from cosim.validate.claims import load_claims

    if reference is None:
        for name in presets.names("claims"):
            loaded = load_claims(name)
            click.echo(f"{name}: {len(loaded.claims)} claims; {loaded.paper}")
        return
    loaded = load_claims(reference)
    width = max(len(claim.id) for claim in loaded.claims)
    for claim in loaded.claims:
        untested = f"  [needs {'; '.join(claim.needs)}]" if claim.needs else ""
        click.echo(f"{claim.id:<{width}}  {claim.kind:<5}  {claim.scope:<8}  {claim.statement}{untested}")


@claims.command()
@click.argument("reference", metavar="NAME|FILE")
@click.argument("claim_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def show(reference: str, claim_id: str | None, as_json: bool) -> None:
    """Show the claims of a set, or one of them, with what each measures and how it is judged."""
    from cosim.config.errors import ConfigErrors, did_you_mean
    from cosim.validate.claims import load_claims

    loaded = load_claims(reference)
    ids = [claim.id for claim in loaded.claims]
    if claim_id is not None and claim_id not in ids:
        hint = did_you_mean(claim_id, ids)
        raise ConfigErrors.single(f"a claim of {loaded.name}", repr(claim_id), suggestion=hint)
    chosen = [claim for claim in loaded.claims if claim_id in (None, claim.id)]
    entries = []
    for claim in chosen:
        entry = {
            **claim.model_dump(mode="json", exclude_none=True),
            "published": claim.published_json(),
            "tolerance": claim.tolerance_json(),
            "unit": claim.unit_json(),
        }
        entries.append(entry)
    if as_json:
        click.echo(json.dumps({"schema": 1, "paper": loaded.paper, "claims": entries}, indent=1, ensure_ascii=False))
        return
    for entry in entries:
        click.echo(f"{entry.pop('id')}")
        for key, value in entry.items():
            if value not in ("", (), [], None):
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                click.echo(f"  {key}: {text}")


@claims.command("from-csv")
@click.argument("table", metavar="TABLE.csv", type=click.Path(path_type=Path))
@click.option(
    "--experiment", metavar="NAME", help="The experiment that tests the claims; default: any that names them."
)
@click.option("--scope", type=click.Choice(_SCOPES), default="routed", show_default=True, help="What they speak of.")
@click.option("--paper", metavar="TEXT", help="Where the figures are from; default: the table's name.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.yaml", help="Write here, never over a file.")
def from_csv(table: Path, experiment: str | None, scope: str, paper: str | None, out: Path | None) -> None:
    """Make claims of a table of figures (columns policy, layer, quantity, value, unit).

    Every figure becomes a value claim; per quantity the ratios to the first policy and the order of all follow.
    Set tolerances, with reasons for those above 10 %, before the first run.
    """
    from cosim.analytic.table import read_table
    from cosim.validate.from_csv import claims_from_table, write_claims

    figures = read_table(table)
    text = claims_from_table(figures, experiment=experiment, scope=scope, paper=paper or figures.name)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_claims(text, out)
        click.echo(f"{out}: claims from {len(figures.figures)} figures")
