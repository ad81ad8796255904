"""`cosim trace complementarity`: do the loads of experts cancel over the steps of batched decoding?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from cosim.cli.text_table import cell, print_table
from cosim.cli.trace_reader import load_trace, reader_options

if TYPE_CHECKING:
    from cosim.trace.complementarity import Complementarity, DomainDifference, LayerComplementarity

__all__ = ["complementarity"]

_HEADER = ("layer", "decoder", "pairs", "median r", "shift", "shuffled", "low 5%", "survive", "exceed", "domain p")
_DEFINITIONS = (
    ("median r", "median Pearson correlation of two experts' loads over the steps"),
    ("shift", "pairs that the circular-shift test of 3D-MoE flags, of all pairs"),
    ("shuffled", "the same after all tokens are dealt anew to the steps: nothing is left to find there"),
    ("low", "pairs among the lowest of their token permutations at the same level: the level itself is chance"),
    ("survive", "negative pairs that token permutations do not explain, at the false-discovery rate"),
    ("exceed", "positive ones"),
    ("domain p", "label permutations that set the survivors' domain profiles as far apart as recorded, or farther"),
)


@click.command()
@click.argument("file")
@click.option(
    "--batch-tokens", type=click.IntRange(min=1), default=64, show_default=True, help="Tokens of a step: one a request."
)
@click.option("--layer", "layers", type=int, multiple=True, help="MoE layer; may be given repeatedly.")
@click.option(
    "--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
    help="Level of the circular-shift test.",
)  # fmt: skip
@click.option(
    "--fdr", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
    help="False-discovery rate of what survives token permutations.",
)  # fmt: skip
@click.option("--permutations", type=click.IntRange(min=1), default=999, show_default=True, help="Of all tokens.")
@click.option(
    "--shuffles", type=click.IntRange(min=0), default=3, show_default=True,
    help="Permutations that the circular-shift test is tried on.",
)  # fmt: skip
@click.option(
    "--shift-null", type=click.Choice(("pair", "pooled")), default="pair", show_default=True,
    help="Percentile of the pair's own shifts, or of all pairs' together.",
)  # fmt: skip
@click.option(
    "--deal", type=click.Choice(("permute", "rotate")), default="permute", show_default=True,
    help="The second null: permute all tokens, or rotate every request against the others.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all draws.")
@click.option("--pairs", "pairs_file", type=click.Path(path_type=Path, dir_okay=False), help="CSV of all pairs.")
@click.option("--json", "as_json", is_flag=True, help="Figures as JSON.")
@reader_options
def complementarity(
    file: str,
    batch_tokens: int,
    layers: tuple[int, ...],
    alpha: float,
    fdr: float,
    permutations: int,
    shuffles: int,
    shift_null: Any,
    deal: Any,
    seed: int,
    pairs_file: Path | None,
    as_json: bool,
    **reader: Any,
) -> None:
    """Test FILE (a path, or a shipped name) for expert complementarity, against two nulls.

    The circular-shift null is the one of 3D-MoE; the token-permutation null keeps what every step has in common: its
    number of tokens and their Top-k.
    """
    from cosim.report.progress import RunProgress
    from cosim.trace.complementarity import analyse

    found = load_trace(file, **reader)
    with RunProgress(f"complementarity of {found.source}") as progress:
        result = analyse(
            found,
            batch_tokens=batch_tokens,
            layers=tuple(dict.fromkeys(layers)) or None,
            alpha=alpha,
            false_discovery_rate=fdr,
            permutations=permutations,
            shuffles=shuffles,
            shift_null=shift_null,
            deal=deal,
            seed=seed,
            progress=lambda done, count: progress(done, count, "permutations"),
        )
    if pairs_file is not None:
        _write_pairs(result, pairs_file)
    if as_json:
        click.echo(json.dumps(_as_json(result, found.provenance), indent=2, allow_nan=False))
        return
    click.echo(f"trace       {found.source}, {found.provenance}")
    click.echo(f"steps       {result.steps} of {batch_tokens} tokens; top {found.top_k} of {found.experts} experts")
    click.echo(f"forced r    {result.forced_r:.4f}, what a fixed number of picks alone gives equal experts")
    few = result.fewest_discoveries
    click.echo(f"resolution  {permutations} draws ({deal}): at least {few} pairs of a layer survive, or none")
    click.echo()
    print_table(_HEADER, [_cells(layer) for layer in result.layers])
    if len(result.layers) > 1:
        click.echo()
        print_table(("mean over layers", *_HEADER[4:9]), [("", *_mean_cells(result))])
    click.echo()
    for label, text in _DEFINITIONS:
        click.echo(f"  {label:<9} {text}")
    if pairs_file is not None:
        click.echo(f"\npairs written to {pairs_file}")


def _shares(layer: LayerComplementarity) -> tuple[float, ...]:
    return (
        layer.flagged_share,
        layer.shuffled_share,
        layer.nominal_share,
        layer.survives_share,
        layer.exceeds_share,
    )


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def _cells(layer: LayerComplementarity) -> tuple[str, ...]:
    domain = layer.domain_survives
    return (
        str(layer.layer),
        str(layer.decoder_layer),
        str(layer.pairs),
        cell(layer.median_r, 4),
        *map(_percent, _shares(layer)),
        "–" if domain is None else cell(domain.p, 3),
    )


def _mean_cells(result: Complementarity) -> tuple[str, ...]:
    return tuple(_percent(float(np.mean(column))) for column in zip(*map(_shares, result.layers), strict=True))


def _as_json(result: Complementarity, provenance: str) -> dict[str, Any]:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    def domain(found: DomainDifference | None) -> dict[str, float | None] | None:
        if found is None:
            return None
        return {"flagged": number(found.flagged), "others": number(found.others), "p": number(found.p)}

    return {
        "provenance": provenance,
        "steps": result.steps,
        "batch_tokens": result.batch_tokens,
        "experts": result.experts,
        "alpha": result.alpha,
        "false_discovery_rate": result.false_discovery_rate,
        "permutations": result.permutations,
        "seed": result.seed,
        "shift_null": result.shift_null,
        "deal": result.deal,
        "forced_r": result.forced_r,
        "fewest_discoveries": result.fewest_discoveries,
        "layers": [
            {
                "layer": layer.layer,
                "decoder_layer": layer.decoder_layer,
                "pairs": layer.pairs,
                "constant_experts": layer.constant_experts,
                "median_r": layer.median_r,
                "flagged_share": layer.flagged_share,
                "shuffled_shares": list(layer.shuffled_shares),
                "nominal_share": layer.nominal_share,
                "survives_share": layer.survives_share,
                "exceeds_share": layer.exceeds_share,
                "cosine_flagged": number(layer.cosine_flagged),
                "cosine_others": number(layer.cosine_others),
                "domain_flagged": domain(layer.domain_flagged),
                "domain_survives": domain(layer.domain_survives),
            }
            for layer in result.layers
        ],
    }


def _write_pairs(result: Complementarity, path: Path) -> None:
    lines = ["layer,expert_1,expert_2,r,p_shift,p_low,p_high,flagged,survives,exceeds"]
    for layer in result.layers:
        for a, b in np.argwhere(np.triu(~np.isnan(layer.r), 1)).tolist():
            values = (layer.r, layer.p_shift, layer.p_low, layer.p_high)
            flags = (layer.flagged, layer.survives, layer.exceeds)
            cells = [*(repr(float(v[a, b])) for v in values), *(str(int(f[a, b])) for f in flags)]
            lines.append(f"{layer.layer},{a},{b},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
