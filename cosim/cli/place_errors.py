"""``cosim place errors``: where the cheap models of communication fail, over load and message size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosim.cli.options import out_option, override_option
from cosim.cli.place_experiment import open_cases, policy_option, system_option

if TYPE_CHECKING:
    import pandas as pd

    from cosim.report.tables import TextTable

__all__ = ["errors"]


class _Counts(click.ParamType):  # type: ignore[type-arg]
    name = "N,N,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts) or len(set(parts)) < len(
            parts
        ):
            self.fail(f"expected counts such as 8,32,128, each once, got {value!r}", param, ctx)
        return tuple(int(part) for part in parts)


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@system_option
@policy_option
@click.option("--tokens", type=_Counts(), default="8,32,128,512", show_default=True, help="Tokens of a batch.")
@click.option(
    "--token-bytes", type=_Counts(), default="64,256,1024,4096", show_default=True, help="Partial sums of a token, B."
)
@click.option("--batches", type=click.IntRange(min=1), default=2, show_default=True, help="At every point.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all draws.")
@out_option
@override_option
def errors(
    experiment: str,
    systems: tuple[str, ...],
    chosen: tuple[str, ...],
    tokens: tuple[int, ...],
    token_bytes: tuple[int, ...],
    batches: int,
    seed: int,
    out: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Map the error of Eq. 2 and of reserved links against flits, over tokens of a batch and bytes of a token.

    Batches are drawn from the evaluate part of the experiment's trace and placed by its policies; one pass of a layer's
    transfers is simulated from an empty network. With --out the passes and a page with the maps are kept.
    """
    from cosim.report.progress import RunProgress
    from cosim.report.tables import print_tables
    from cosim.run.error_map import ErrorMapOptions, simulate
    from cosim.run.error_map import errors as relative

    cases, name = open_cases(experiment, systems, chosen, overrides)
    options = ErrorMapOptions(tokens, token_bytes, batches, seed)
    with RunProgress(f"errors {name}") as progress:
        passes = simulate(cases, options, lambda done, count: progress(done, count, "passes"))
    found = relative(passes)
    title = f"{cases.title}: {batches} batches a point, seed {seed}"
    table = _table(found)
    click.echo(title + "\n")
    print_tables([table])
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    passes.to_csv(out / "errors.csv", index=False, lineterminator="\n")
    (out / "errors.html").write_text(_page(experiment, title, found, table), encoding="utf-8")
    click.echo(f"\nwritten to {out}")


def _table(found: pd.DataFrame) -> TextTable:
    from cosim.report.tables import TextTable
    from cosim.run.error_map import MODELS

    cells = tuple(
        (
            str(row["system"]),
            str(row["policy"]),
            f"{row['tokens']:,}",
            f"{row['token_bytes']:,}",
            f"{1e6 * row['flit_s']:.3f}",
            *(f"{100 * row[f'{model}_error']:+.1f} %".replace("-", "−") for model in MODELS),
        )
        for row in found.to_dict("records")
    )
    return TextTable(
        "One pass of communication: error against flits",
        ("system", "policy", "tokens", "B a token", "flits µs", *MODELS.values()),
        cells,
        left=2,
        notes=(
            "error: (sum over the batches of the model's time − of the time over flits) / the latter",
            "Eq. 2: the busiest node's bytes over the bandwidth of its ports, gamma 1",
        ),
    )


def _page(name: str, title: str, found: pd.DataFrame, table: TextTable) -> str:
    from cosim.report.figures.error_map import draw
    from cosim.report.figures_page import PageInfo, PageSection, render
    from cosim.run.error_map import MODELS

    axes = (("token_bytes", "bytes of a token's partial sums"), ("tokens", "tokens of a batch"))
    figures = tuple(
        draw(found, f"{model}_error", label, panel_by=("system", "policy"), axes=axes)
        for model, label in MODELS.items()
    )
    info = PageInfo("place errors", name, title, (), ("errors.csv", "holds every pass"))
    return render(info, (PageSection("maps", "Errors", figures), PageSection("table", "Figures", tables=(table,))))
