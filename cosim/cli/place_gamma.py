"""``cosim place gamma``: the linear fit between a layer's node traffic and its simulated communication."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosim.cli.options import out_option, override_option
from cosim.cli.place_experiment import open_cases, policy_option, system_option

if TYPE_CHECKING:
    import pandas as pd

    from cosim.report.tables import TextTable
    from cosim.run.gamma import GammaRow

__all__ = ["gamma"]


class _Range(click.ParamType):  # type: ignore[type-arg]
    name = "LOW-HIGH"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d+)-(\d+)", str(value))
        if found is None:
            self.fail(f"expected a range such as 256-638, got {value!r}", param, ctx)
        return int(found[1]), int(found[2])


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@system_option
@policy_option
@click.option("--samples", type=click.IntRange(min=3), default=40, show_default=True, help="Batches of each fit.")
@click.option("--tokens", type=_Range(), default="256-638", show_default=True, help="Tokens of a batch, drawn evenly.")
@click.option(
    "--partial-sums", type=click.Choice(["FP32", "FP16"]), default="FP32", show_default=True, help="What crosses links."
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all draws.")
@out_option
@override_option
def gamma(
    experiment: str,
    systems: tuple[str, ...],
    chosen: tuple[str, ...],
    samples: int,
    tokens: tuple[int, int],
    partial_sums: str,
    seed: int,
    out: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Fit gamma of HDA-MoE's Eq. 3 for every policy of an experiment, over reserved links and over flits.

    Batches are drawn from the evaluate part. One pass of a layer's transfers is simulated from an empty network; where
    every expert is on every node, half of a ring all-reduce. With --out the samples and a page with residuals are kept.
    """
    from cosim.report.progress import RunProgress
    from cosim.report.tables import print_tables
    from cosim.run.gamma import GammaOptions, fits, sample

    cases, name = open_cases(experiment, systems, chosen, overrides)
    options = GammaOptions(samples, tokens, partial_sums, seed)
    with RunProgress(f"gamma {name}") as progress:
        drawn = sample(cases, options, lambda done, count: progress(done, count, "batches"))
    rows = fits(drawn)
    table = _table(rows, drawn)
    title = (
        f"{cases.title}: {samples} batches of {tokens[0]} to {tokens[1]} tokens "
        f"a policy, {partial_sums} partial sums, seed {seed}"
    )
    click.echo(title + "\n")
    print_tables([table])
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    drawn.to_csv(out / "gamma.csv", index=False, lineterminator="\n")
    (out / "gamma.html").write_text(_page(experiment, title, rows, drawn, table), encoding="utf-8")
    click.echo(f"\nwritten to {out}")


def _table(rows: list[GammaRow], drawn: pd.DataFrame) -> TextTable:
    from cosim.report.tables import TextTable

    cells = []
    for row in rows:
        here = drawn[(drawn["system"] == row.system) & (drawn["policy"] == row.policy)]
        error = here[f"{row.network}_s"].sum() / here["flit_s"].sum() - 1
        fit = row.fit
        cells.append(
            (
                row.system,
                row.policy,
                row.network,
                row.collective,
                f"{fit.gamma:.3f} [{fit.ci_low:.3f}, {fit.ci_high:.3f}]",
                f"{fit.r_squared:.3f}".replace("-", "−"),
                f"{1e6 * here[f'{row.network}_s'].mean():.2f}",
                "–" if row.network == "flit" else f"{100 * error:+.1f} %".replace("-", "−"),
                str(fit.samples),
            )
        )
    return TextTable(
        "Eq. 3: one pass of communication over its node traffic",
        ("system", "policy", "network", "collective", "gamma [95 % CI]", "R²", "mean µs", "vs flit", "batches"),
        tuple(cells),
        left=4,
        notes=(
            "gamma: slope through zero of simulated time over Eq. 2's node-traffic time, by least squares",
            "R²: share of the variance about the mean that the line explains; below zero: less than the mean does",
            "vs flit: (sum of the times over reserved links − over flits) / over flits, same messages",
        ),
    )


def _page(name: str, title: str, rows: list[GammaRow], drawn: pd.DataFrame, table: TextTable) -> str:
    from cosim.report.figures.regression import Line, draw
    from cosim.report.figures_page import PageInfo, PageSection, render

    shown = drawn.copy()
    for column in ("node_traffic", "link", "flit"):
        shown[f"{column}_us"] = 1e6 * shown[f"{column}_s"]
    lines = [
        Line(
            f"{network}_us",
            {"link": "reserved links", "flit": "flits"}[network],
            {f"{row.system} · {row.policy}": row.fit.gamma for row in rows if row.network == network},
        )
        for network in ("link", "flit")
    ]
    figures = draw(
        shown, "node_traffic_us", lines, panel_by=("system", "policy"), axes=("node-traffic time", "simulated time")
    )
    info = PageInfo("place gamma", name, title, (), ("gamma.csv", "holds every sample"))
    sections = (
        PageSection("fits", "Gamma", tables=(table,)),
        PageSection("samples", "Samples", figures),
    )
    return render(info, sections)
