"""``cosim diagnose``: from a trace, whether replicas would help a system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cosim.cli.options import out_option
from cosim.cli.trace_reader import load_trace, reader_options

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.trace import RoutingTrace

__all__ = ["diagnose"]

_JSON = "diagnosis.json"
_HTML = "diagnosis.html"


@click.command()
@click.argument("file", metavar="TRACE")
@click.option("--hardware", required=True, metavar="NAME|FILE", help="System: a shipped name or a file.")
@click.option(
    "--model", "model_name", metavar="NAME|FILE", help="Model; the shipped one of the trace's shape if not given."
)
@click.option("--batch-tokens", type=click.IntRange(min=1), default=32, show_default=True, help="Tokens of a step.")
@click.option(
    "--mode",
    type=click.Choice(("decode", "prefill", "random", "sequential")),
    help="How steps are cut; decode where the trace can, else sequential.",
)
@click.option(
    "--spare",
    type=click.IntRange(min=1),
    metavar="N",
    help="Slots for replicas in all; one for each rank if not given.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of steps and nulls.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of tables.")
@out_option
@reader_options
def diagnose(
    file: str,
    hardware: str,
    model_name: str | None,
    batch_tokens: int,
    mode: str | None,
    spare: int | None,
    seed: int,
    as_json: bool,
    out: Path | None,
    **reader: Any,
) -> None:
    """Say from TRACE whether replicas of hot experts would help a system, before any is deployed.

    Is the imbalance real, or what a small batch makes of any router? Does the hot set last? Would replicas (DeepSeek's
    EPLB, placed by the first half of the trace) help, or only move the bottleneck? What happens to the bytes of every
    pair of ranks and every link? Nothing is simulated; the traps that were found are named. With --out the folder
    receives diagnosis.html and diagnosis.json.
    """
    from cosim.diagnosis.diagnose import diagnose as look
    from cosim.diagnosis.presentation import diagnosis_data, diagnosis_page, diagnosis_tables
    from cosim.diagnosis.steps import steps_of
    from cosim.report.directory import json_bytes, write_atomically
    from cosim.report.tables import print_tables
    from cosim.system import load_system
    from cosim.system.models import model
    from cosim.trace import traps

    system = load_system(hardware)
    trace = load_trace(file, **reader)
    dimensions = model(model_name) if model_name is not None else _model_of(trace)
    trace.check_model(experts=dimensions.experts)
    steps = steps_of(trace, batch_tokens, mode, seed)
    found = look(steps, system, dimensions, spare=spare, seed=seed)
    suspicions = traps.find(trace)
    facts = {
        "trace": f"{Path(file).name}, {trace.provenance}",
        "system": system.spec.name or Path(hardware).stem,
        "model": dimensions.name or Path(str(model_name)).stem,
        "steps": f"{steps.count} of {steps.tokens} tokens, mode {steps.mode}, seed {seed}",
        "slots": f"{found.slots} for {steps.experts} experts on {len(found.pipes.ranks)} ranks",
        "traps": "; ".join(f"{trap.name}: {trap.evidence}" for trap in suspicions) or "none found",
    }
    data = diagnosis_data(found, facts)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / _JSON, json_bytes(data))
        write_atomically(out / _HTML, diagnosis_page(found, "diagnosis", facts).encode())
    if as_json:
        click.echo(json.dumps(data, indent=1, ensure_ascii=False))
        return
    for name, text in facts.items():
        click.echo(f"{name}: {text}")
    answers, *tables = diagnosis_tables(found)
    for question, answer, because in answers.rows:
        click.echo(f"\n{question} {answer.capitalize()}: {because}")
    print_tables(tables)
    if out is not None:
        click.echo(f"page: {out / _HTML}")


def _model_of(trace: RoutingTrace) -> ModelSpec:
    """The shipped model with the trace's layers, experts and Top-k."""
    from cosim.config.errors import ConfigErrors
    from cosim.system.models import model, model_names

    def fits(spec: ModelSpec) -> bool:
        return (spec.experts, spec.top_k, spec.moe_layers) == (trace.experts, trace.top_k, trace.layers)

    found = [name for name in model_names() if fits(model(name))]
    if len(found) != 1:
        raise ConfigErrors.single(
            "--model",
            f"a trace of {trace.layers} layers, {trace.experts} experts, Top-{trace.top_k}, which "
            + (f"{', '.join(found)} have" if found else "no shipped model has"),
            path="model",
        )
    return model(found[0])
