"""`cosim place engine`: a policy's placement of experts, as a serving engine takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from cosim.cli.trace_reader import load_trace, reader_options

__all__ = ["engine"]

_FORMS = ("sglang", "trtllm", "eplb", "vllm")


class _Parameter(click.ParamType[tuple[str, object]]):
    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> tuple[str, object]:
        import yaml

        key, sign, text = str(value).partition("=")
        if not key or not sign:
            self.fail(f"expected key=value, got {value!r}", param, context)
        try:
            return key, yaml.safe_load(text)
        except yaml.YAMLError:
            self.fail(f"{text!r} is no value", param, context)


@click.command()
@click.argument("file", metavar="TRACE")
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--model", "model_name", required=True, help="Model: a shipped name or a file.")
@click.option("--system", "system_name", required=True, help="Hardware: a shipped name or a file.")
@click.option("--policy", default="hot_replication", show_default=True, help="Policy whose placement is written.")
@click.option("--param", "params", type=_Parameter(), multiple=True, help="Parameter of the policy, key=value.")
@click.option("--to", "form", type=click.Choice(_FORMS), required=True, help="Whose form.")
@click.option(
    "--fill",
    type=click.Choice(("refuse", "repeat")),
    default="refuse",
    show_default=True,
    help="Ranks with fewer experts than the fullest: refuse, or repeat their own experts.",
)
@reader_options
def engine(
    file: str,
    out: Path,
    model_name: str,
    system_name: str,
    policy: str,
    params: tuple[tuple[str, object], ...],
    form: str,
    fill: str,
    **reader: Any,
) -> None:
    """Write to OUT where POLICY would put the experts, from the routing in TRACE, for an engine to serve.

    Chiplets of the system, in its order, are the ranks of the engine.
    """
    from cosim_adapters.replica_maps import slot_map, write_map

    from cosim.policy.base import Profile
    from cosim.policy.registry import make_policy
    from cosim.system import load_system
    from cosim.system.models import model
    from cosim.trace import statistics

    dimensions, system = model(model_name), load_system(system_name)
    trace = load_trace(file, **reader)
    trace.check_model(experts=dimensions.experts, layers=dimensions.moe_layers)
    counts = np.stack([np.bincount(ids[ids >= 0], minlength=dimensions.experts) for ids in trace.ids.swapaxes(0, 1)])
    pairs = [
        statistics.transitions(trace.ids[:, n], trace.ids[:, n + 1], dimensions.experts)
        for n in range(trace.layers - 1)
    ]
    crossed = np.stack(pairs) if pairs else np.zeros((0, dimensions.experts, dimensions.experts), dtype=np.int64)
    chosen = make_policy(policy, dict(params), path="policy")
    placed = chosen.place(system, dimensions, Profile(counts.astype(np.int64), crossed, trace.tokens))
    ranks = [endpoint.index for endpoint in system.compute_endpoints]
    table = slot_map(placed, ranks, layers=dimensions.moe_layers, experts=dimensions.experts, fill=fill)
    write_map(out, form, table, experts=dimensions.experts, layer_map=list(dimensions.moe_layer_indices))
    click.echo(
        f"{out}: {len(table)} layers, {len(ranks)} ranks of {table.shape[1] // len(ranks)} slots, "
        f"{len(placed.replicas)} replicas of {dimensions.moe_layers * dimensions.experts} experts"
    )
