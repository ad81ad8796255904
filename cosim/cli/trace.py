"""`cosim trace`: inspect, convert and generate routing traces."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from cosim.cli.text_table import cell, print_table
from cosim.cli.trace_complementarity import complementarity
from cosim.cli.trace_reader import load_trace, reader_options
from cosim.trace import RoutingTrace, TraceError, save, statistics, traps, zipf_markov
from cosim.trace.routing import PHASES
from cosim.workload.batch import servable_modes

_HEADER = (
    "layer",
    "decoder",
    "used",
    "max/mean",
    "zipf",
    "gini",
    "entropy",
    "overlap",
    "by load",
    "recall",
    "popular",
    "halves",
)
_DEFINITIONS = (
    ("used", "experts with at least one token"),
    ("max/mean", "load of the hottest expert over the mean load of all experts"),
    ("zipf", "exponent a of load ~ rank^-a, least squares of log load on log rank over the experts used"),
    ("gini", "Gini coefficient of the load over all experts: 0 equal, 1 - 1/E one expert takes all"),
    ("entropy", "of the load shares, in bits; log2(E) is equal load"),
    ("overlap", "share of a token's experts that the next token of the request uses too (next row without requests)"),
    ("by load", "the same for independent tokens that follow the layer's load"),
    (
        "recall",
        "share of the next layer's experts that a predictor names that knows this layer's (noisy-or of the counted",
    ),
    ("", "transitions, fitted on requests or blocks of 64 rows of even number, tested on odd ones)"),
    ("popular", "share that always naming the next layer's hottest finds"),
    ("halves", "Pearson correlation of the load in the first half of the requests (rows) and in the second"),
    ("touched", "experts of a layer that a batch needs; batches take one token of each request, or consecutive rows"),
)


@click.group()
def trace() -> None:
    """Inspect, convert and generate routing traces."""


trace.add_command(complementarity)


@trace.command()
@click.argument("file")
@click.option(
    "--layer", "layers", type=click.IntRange(min=0), multiple=True, help="MoE layer; may be given repeatedly."
)
@click.option("--batch-tokens", type=click.IntRange(min=1), multiple=True, default=(16, 64, 256), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Figures and traps as JSON.")
@reader_options
def inspect(file: str, layers: tuple[int, ...], batch_tokens: tuple[int, ...], as_json: bool, **reader: Any) -> None:
    """Show what is in FILE (a path, or a shipped name): skew, locality, predictability, and the traps found."""
    found = load_trace(file, **reader)
    beyond = [layer for layer in layers if layer >= found.layers]
    if beyond:
        raise TraceError(
            found.source, [f"--layer {layer}: expected MoE layer 0..{found.layers - 1}" for layer in beyond]
        )
    figures = statistics.describe(
        found, layers=tuple(dict.fromkeys(layers)) or None, batch_tokens=tuple(dict.fromkeys(batch_tokens))
    )
    suspicions = traps.find(found)
    if as_json:
        click.echo(json.dumps(_as_json(found, figures, suspicions), indent=2, allow_nan=False))
        return
    for label, text in _summary(found):
        click.echo(f"{label:<11} {text}")
    click.echo()
    print_table(_HEADER, [_layer_cells(layer) for layer in figures.layers])
    click.echo(f"\noverlap of tokens routed at random: top-k / experts = {figures.uniform_overlap:.3f}\n")
    if figures.batches:
        print_table(
            ("batch tokens", "batches", "max/mean", "touched", "of"),
            [
                (
                    str(load.batch_tokens),
                    str(load.batches),
                    f"{load.max_over_mean:.2f}",
                    f"{load.experts_touched:.1f}",
                    str(found.experts),
                )
                for load in figures.batches
            ],
        )
        click.echo()
    for label, text in _DEFINITIONS:
        click.echo(f"  {label:<9} {text}")
    click.echo()
    if not suspicions:
        click.echo("traps: none of the known ones found")
    for trap in suspicions:
        click.echo(f"trap: {trap.name}: {trap.evidence}\n      {trap.advice}")


@trace.command()
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--to", help="Format to write: npz, parquet, csv or jsonl; told from the suffix otherwise.")
@click.option("--drop-scores", is_flag=True, help="Leave router scores out (CSV cannot hold them).")
@reader_options
def convert(source: str, target: Path, to: str | None, drop_scores: bool, **reader: Any) -> None:
    """Read SOURCE (a path, or a shipped name) and write TARGET as npz, Parquet, CSV or JSONL."""
    found = load_trace(source, **reader)
    if drop_scores:
        found = found.without_scores()
    save(found, target, to)
    size = f"{found.tokens} tokens, {found.layers} layers, top {found.top_k} of {found.experts}"
    click.echo(f"{target}: {size}, {found.provenance}")
    for trap in traps.find(found):
        click.echo(f"trap: {trap.name}: {trap.evidence}", err=True)


@trace.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--layers", type=int, required=True, help="MoE layers.")
@click.option("--experts", type=int, required=True, help="Experts per layer.")
@click.option("--top-k", type=int, required=True, help="Experts per token.")
@click.option("--requests", type=int, required=True)
@click.option("--positions", type=int, required=True, help="Tokens of each request.")
@click.option("--prompt-tokens", type=int, default=0, show_default=True, help="Leading positions that are prefill.")
@click.option("--alpha", type=float, required=True, help="Zipf exponent of the load of every layer.")
@click.option("--rho", type=float, help="Recall of the next layer's experts from this layer's.")
@click.option("--keep", type=float, help="Instead of --rho: probability that an expert is kept from layer to layer.")
@click.option("--draw", default="inclusion", show_default=True, help="inclusion or successive.")
@click.option("--drift-positions", type=int, help="Positions after which the hot experts move; never if not given.")
@click.option("--drift-share", type=float, default=1.0, show_default=True, help="Of the experts that move then.")
@click.option("--seed", type=int, required=True)
def generate(target: Path, **parameters: Any) -> None:
    """Write a synthetic Zipf-Markov trace to TARGET (npz, Parquet, CSV or JSONL by suffix)."""
    made = zipf_markov(**parameters)
    save(made, target)
    click.echo(f"{target}: {made.tokens} tokens, {made.layers} layers, top {made.top_k} of {made.experts}, synthetic")


def _summary(found: RoutingTrace) -> list[tuple[str, str]]:
    lines = [
        ("trace", found.source),
        ("provenance", found.provenance),
        ("size", f"{found.tokens} tokens, {found.layers} MoE layers, top {found.top_k} of {found.experts} experts"),
    ]
    if found.request is None:
        lines.append(("requests", "no request boundaries"))
    else:
        _, sizes = np.unique(found.request, return_counts=True)
        lines.append(("requests", f"{sizes.size}, of {sizes.min()} to {sizes.max()} rows"))
    if found.phase is not None:
        counts = np.bincount(found.phase, minlength=len(PHASES))
        lines.append(("phases", ", ".join(f"{name} {count}" for name, count in zip(PHASES, counts, strict=True))))
    if found.domain is not None:
        counts = np.bincount(found.domain, minlength=len(found.domains))
        shown = [f"{name} {count}" for name, count in zip(found.domains, counts, strict=True)][:12]
        lines.append(("domains", ", ".join(shown) + (", …" if len(found.domains) > 12 else "")))
    have = ["ids"] + ["weights"] * (found.weights is not None)
    if found.scores_token is not None:
        have.append(f"router scores of {found.scores_token.size} tokens")
    lines.append(("holds", ", ".join(have)))
    lines += [("repaired" if not number else "", text) for number, text in enumerate(found.repairs)]
    modes = servable_modes(found)
    lines.append(("serves", ", ".join(name for name, reason in modes.items() if reason is None)))
    lines += [("", f"not {name}: {reason}") for name, reason in modes.items() if reason is not None]
    return lines


def _layer_cells(layer: statistics.LayerStatistics) -> tuple[str, ...]:
    recall = layer.recall
    return (
        str(layer.layer),
        str(layer.decoder_layer),
        str(layer.experts_used),
        cell(layer.max_over_mean, 2),
        cell(layer.zipf_slope, 2),
        cell(layer.gini, 3),
        cell(layer.entropy_bits, 2),
        cell(layer.overlap, 3),
        cell(layer.overlap_by_load, 3),
        "–" if recall is None else cell(recall.conditional, 3),
        "–" if recall is None else cell(recall.popularity, 3),
        cell(layer.half_correlation, 2),
    )


def _as_json(found: RoutingTrace, figures: statistics.TraceStatistics, suspicions: list[traps.Trap]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return None if math.isnan(value) else value
        if hasattr(value, "__dataclass_fields__"):
            return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
        if isinstance(value, (tuple, list)):
            return [plain(item) for item in value]
        return value

    return {
        "provenance": found.provenance,
        "tokens": found.tokens,
        "layers": found.layers,
        "top_k": found.top_k,
        "experts": found.experts,
        "experts_stated": found.experts_stated,
        "repairs": list(found.repairs),
        "modes": servable_modes(found),
        "statistics": plain(figures),
        "traps": plain(suspicions),
    }
