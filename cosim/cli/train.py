"""``cosim train``: the checkpoint of HCRMap's slow controller."""

from __future__ import annotations

from pathlib import Path

import click

from cosim.cli.options import override_option

__all__ = ["train"]


@click.command()
@click.argument("experiment", metavar="NAME|FILE")
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--policy", "title", default="hcrmap", show_default=True, help="Policy whose parameters are used.")
@click.option("--windows", default=1200, show_default=True, type=click.IntRange(min=1), help="Windows to train on.")
@click.option("--layers", default=2, show_default=True, type=click.IntRange(min=1), help="Layers of a window.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Seed of everything.")
@click.option("--curve", type=click.Path(path_type=Path, dir_okay=False), help="CSV of reward and loss by window.")
@override_option
def train(
    experiment: str,
    out: Path,
    title: str,
    windows: int,
    layers: int,
    seed: int,
    curve: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Train the masked Double DQN of HCRMap on the profile part of EXPERIMENT and write it to OUT (npz).

    Rewards are counterfactual and measured at link and rate: every window runs under the present layout and under that
    after the chosen edit, on the same token groups.
    """
    from cosim.experiment import Experiment
    from cosim.report.directory import write_atomically
    from cosim.run.residency_episode import policy_params
    from cosim.run.residency_training import TrainingOptions, curve_csv
    from cosim.run.residency_training import train as run_training

    loaded = Experiment.load(experiment, overrides)
    params = policy_params(loaded.spec, title, path="--policy")
    loaded.check()
    options = TrainingOptions(windows=windows, layers=layers, seed=seed)
    shown = max(windows // 20, 1)

    def progress(done: int, total: int) -> None:
        if done % shown == 0 or done == total:
            click.echo(f"train: {done} of {total} windows", err=True)

    training = run_training(loaded.setup, params, options, progress)
    training.network.save(out, experiment=loaded.name, options=repr(options))
    click.echo(f"{out}: {out.stat().st_size} B")
    first, last = training.mean_reward(0), training.mean_reward(4)
    click.echo(f"mean reward of the first fifth of the windows {first:.5f}, of the last {last:.5f}")
    if curve is not None:
        write_atomically(curve, curve_csv(training).encode())
