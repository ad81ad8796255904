"""``cosim xval astra-sim``: the messages of a MoE layer on an ASTRA-sim of the user's, message by message."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cosim.cli.options import out_option, override_option
from cosim.cli.text_table import aligned
from cosim.config.errors import ConfigErrors, did_you_mean, one_of

if TYPE_CHECKING:
    from cosim_adapters.astra_sim import Phase

    from cosim.run.setup import Setup

__all__ = ["astra_sim"]

_PROGRAM = "AstraSim_Analytical_Congestion_Aware"


@click.command("astra-sim")
@click.argument("reference", metavar="NAME|FILE")
@click.option(
    "--astra-sim",
    "binary",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    metavar="FILE",
    help=f"Its binary {_PROGRAM}; without it $ASTRA_SIM, then that name on the path.",
)
@click.option("--policy", default=None, metavar="NAME", help="The policy that places experts; the experiment's first.")
@click.option(
    "--layer", type=click.IntRange(min=0), default=None, help="MoE layer; the first that the experiment runs."
)
@click.option("--batch", type=click.IntRange(min=0), default=0, show_default=True, help="Batch of the first seed.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds for one ASTRA-sim run."
)
@override_option
@out_option
def astra_sim(
    reference: str,
    binary: Path | None,
    policy: str | None,
    layer: int | None,
    batch: int,
    timeout: float,
    overrides: tuple[str, ...],
    out: Path | None,
) -> None:
    """Send the messages of a MoE layer here and on ASTRA-sim, and print the differences.

    Dispatch and gather are each sent from an empty network. The experiment's system has one level, a ring,
    fully_connected or a star with one compute endpoint a router: what ASTRA-sim's analytical network knows. Its
    workload layer sends one message of an NPU at a time and whole; `cosim, likewise` does the same on our links and is
    compared message by message; `link` and `flit` are the rungs, where a chiplet sends as its network takes them. With
    --out ASTRA-sim's files, what it printed and the tables are kept.
    """
    from cosim_adapters.astra_sim import SAME_NS, compare_messages

    from cosim.run.setup import Setup
    from cosim.system import open_experiment
    from cosim.workload.packets import layer_messages

    setup = Setup(open_experiment(reference, overrides))
    chosen = _policy(setup, policy)
    number = setup.layers[0] if layer is None else layer
    batches = setup.batches(setup.spec.seeds[0])
    if batch >= len(batches):
        raise click.ClickException(f"--batch {batch}: expected a batch from 0 to {len(batches) - 1} of the experiment")
    program = _find(binary)
    phases: list[Phase] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("dispatch", "gather"):
            sent = layer_messages(
                setup.trace,
                setup.model,
                setup.system,
                chosen,
                number,
                phase=name,
                tokens=batches[batch],
                profile=setup.profile,
            )
            try:
                phases.append(
                    compare_messages(setup.system, name, sent, program, (out or Path(scratch)) / name, timeout)
                )
            except subprocess.TimeoutExpired as problem:
                raise click.ClickException(f"ASTRA-sim did not end within {timeout:g} s; see --timeout") from problem
            except OSError as problem:
                raise click.ClickException(f"{program}: cannot be run: {problem.strerror or problem}") from problem
    click.echo(f"{setup.spec.name or reference}, policy {chosen['name']}, MoE layer {number}, batch {batch}")
    network = phases[0].network
    click.echo(
        f"{network.topology} of {network.npus}, links of {network.bandwidth_Bps / 1e9:g} GB/s "
        f"and {network.latency_fs / 1e6:g} ns; times in ns, differences from ASTRA-sim\n"
    )
    click.echo("\n".join(_table(phases)))
    click.echo(
        f"\nsame: messages that arrive within {SAME_NS:g} ns of ASTRA-sim's time; of two that come to a link at one "
        "instant it may serve the other first"
    )
    if out is not None:
        for phase in phases:
            phase.messages.to_csv(out / f"{phase.name}.csv", index=False)
        columns = ("phase", "messages", "same", "astra_sim_ns", "cosim_ns", "link_ns", "flit_ns")
        rows = [(p.name, len(p.messages), p.same, p.astra_sim_ns, p.cosim_ns, p.link_ns, p.flit_ns) for p in phases]
        lines = [",".join(map(str, row)) for row in (columns, *rows)]
        (out / "xval.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        click.echo(f"written to {out}")


def _table(phases: list[Phase]) -> list[str]:
    header = ("", "messages", "MB", "same", "ASTRA-sim", "cosim, likewise", "", "link", "", "flit", "")
    rows: list[tuple[str, ...]] = [header]
    for phase in phases:
        row = [phase.name, str(len(phase.messages)), f"{phase.messages['bytes'].sum() / 1e6:.2f}", str(phase.same)]
        row.append(f"{phase.astra_sim_ns:.0f}")
        for ours in (phase.cosim_ns, phase.link_ns, phase.flit_ns):
            row += [f"{ours:.0f}", f"{100 * (ours / phase.astra_sim_ns - 1):+.2f} %"]
        rows.append(tuple(row))
    return aligned(rows)


def _policy(setup: Setup, wanted: str | None) -> dict[str, Any]:
    known = {policy.title: policy for policy in setup.spec.policies}
    title = wanted if wanted is not None else next(iter(known))
    if title not in known:
        raise ConfigErrors.single(
            one_of(list(known)), repr(title), path="--policy", suggestion=did_you_mean(title, known)
        )
    return {"name": known[title].name, "params": known[title].params}


def _find(binary: Path | None) -> Path:
    named = binary or (Path(os.environ["ASTRA_SIM"]) if os.environ.get("ASTRA_SIM") else None)
    if named is None:
        found = shutil.which(_PROGRAM)
        if found is None:
            raise click.ClickException(
                f"no ASTRA-sim here: name its binary with --astra-sim FILE or in $ASTRA_SIM, or put {_PROGRAM} "
                "on the path"
            )
        return Path(found)
    if not named.is_file() or not os.access(named, os.X_OK):
        raise click.ClickException(f"{named}: expected the ASTRA-sim binary, got no executable file")
    return named
