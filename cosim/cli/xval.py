"""``cosim xval``: the same experiment on another simulator."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

import click

from cosim.cli.options import out_option, override_option
from cosim.cli.text_table import aligned
from cosim.cli.xval_astra_sim import astra_sim
from cosim.cli.xval_ramulator2 import ramulator2

__all__ = ["xval"]


@click.group()
def xval() -> None:
    """Run the same experiment on another simulator that you have installed and print the differences."""


xval.add_command(astra_sim)
xval.add_command(ramulator2)


# quantities that both print, with what they are
_QUANTITIES = {
    "packet_latency_mean_cycles": "packet latency, mean, cycles",
    "network_latency_mean_cycles": "network latency, mean, cycles",
    "flit_latency_mean_cycles": "flit latency, mean, cycles",
    "hops_mean": "hops, mean, routers",
    "injected_rate": "injected load, flits/node/cycle",
    "accepted_rate": "accepted load, flits/node/cycle",
}


@dataclass(frozen=True)
class _Sample:
    mean: float
    deviation: float

    @classmethod
    def of(cls, values: list[float]) -> _Sample:
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan)


@xval.command()
@click.argument("reference", metavar="NAME|FILE")
@click.option(
    "--booksim2",
    "binary",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    metavar="FILE",
    help="The BookSim2 binary; without it $BOOKSIM2, then `booksim` on the path.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each simulator.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds for one BookSim2 run."
)
@override_option
@out_option
def booksim2(
    reference: str, binary: Path | None, seeds: int, timeout: float, overrides: tuple[str, ...], out: Path | None
) -> None:
    """Run the traffic of a network experiment here and on BookSim2, and print the differences.

    Both run with seeds 1 to SEEDS; their random numbers differ, so means are compared beside their standard
    deviations. With --out the BookSim2 files, its output and the table are kept.
    """
    from cosim_adapters.booksim2 import export_traffic, read_statistics, run_booksim2

    from cosim.noc.run_file import load

    experiment = load(reference, overrides)
    if experiment.packets is not None:
        raise click.ClickException(
            f"{reference}: expected traffic with a pattern, got a list of packets (BookSim2 reads none)"
        )
    configs = [export_traffic(experiment.network.config, experiment.traffic, seed) for seed in range(1, seeds + 1)]
    program = _find(binary)
    ours: dict[str, list[float]] = {name: [] for name in _QUANTITIES}
    theirs: dict[str, list[float]] = {name: [] for name in _QUANTITIES}
    for seed, config in enumerate(configs, start=1):
        try:
            printed = run_booksim2(program, config, timeout)
            their = read_statistics(printed)
        except subprocess.TimeoutExpired as problem:
            raise click.ClickException(f"BookSim2 did not end within {timeout:g} s; see --timeout") from problem
        except ValueError as problem:
            raise click.ClickException(str(problem)) from problem
        our = experiment.network.run_traffic(**{**experiment.traffic, "seed": seed})
        for name in _QUANTITIES:
            ours[name].append(float(getattr(our, name)))
            theirs[name].append(float(getattr(their, name)))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"booksim2-{seed}.cfg").write_text(config, encoding="utf-8")
            (out / f"booksim2-{seed}.txt").write_text(printed, encoding="utf-8")
    table = {name: (_Sample.of(ours[name]), _Sample.of(theirs[name])) for name in _QUANTITIES}
    click.echo("\n".join(_table(table, seeds)))
    if out is not None:
        lines = ["quantity,cosim,cosim_deviation,booksim2,booksim2_deviation"]
        lines += [f"{n},{o.mean!r},{o.deviation!r},{t.mean!r},{t.deviation!r}" for n, (o, t) in table.items()]
        (out / "xval.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        click.echo(f"\nwritten to {out}")


def _find(binary: Path | None) -> Path:
    named = binary or (Path(os.environ["BOOKSIM2"]) if os.environ.get("BOOKSIM2") else None)
    if named is None:
        found = shutil.which("booksim")
        if found is None:
            raise click.ClickException(
                "no BookSim2 here: name its binary with --booksim2 FILE or in $BOOKSIM2, or put `booksim` on the path"
            )
        return Path(found)
    if not named.is_file() or not os.access(named, os.X_OK):
        raise click.ClickException(f"{named}: expected the BookSim2 binary, got no executable file")
    return named


def _table(table: dict[str, tuple[_Sample, _Sample]], seeds: int) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "cosim", "std", "BookSim2", "std", "difference")]
    for name, (our, their) in table.items():
        relative = f"{100 * (our.mean / their.mean - 1):+.2f} %" if their.mean else "-"
        figures = (our.mean, our.deviation, their.mean, their.deviation)
        rows.append((_QUANTITIES[name], *("-" if math.isnan(f) else f"{f:.4f}" for f in figures), relative))
    return [f"seeds 1 to {seeds} of each; std: standard deviation over seeds", "", *aligned(rows)]
