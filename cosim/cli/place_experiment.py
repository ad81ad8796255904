"""What ``cosim place errors`` and ``cosim place gamma`` open: an experiment, systems in its place, policies of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from cosim.run.layer_pass import PassCases

__all__ = ["open_cases", "policy_option", "system_option"]

F = TypeVar("F", bound=Callable[..., object])


def system_option(command: F) -> F:
    """``--system``, repeatable."""
    text = "Not the experiment's; repeatable."
    return click.option("--system", "systems", multiple=True, metavar="NAME|FILE", help=text)(command)


def policy_option(command: F) -> F:
    """``--policy``, repeatable."""
    text = "Of the experiment's; repeatable; else all."
    return click.option("--policy", "chosen", multiple=True, metavar="TITLE", help=text)(command)


def open_cases(
    experiment: str, systems: Sequence[str], chosen: Sequence[str], overrides: Sequence[str]
) -> tuple[PassCases, str]:
    """The cases that the options name, and the experiment's name.

    Raises:
        ConfigErrors: of the experiment, of a system, a policy that the experiment does not have.
    """
    from cosim.run.layer_pass import PassCases
    from cosim.run.setup import Setup
    from cosim.system import load_system, open_experiment

    loaded = open_experiment(experiment, overrides)
    built = [(name, load_system(name)) for name in systems]
    built = built or [(loaded.spec.system.name or "system", loaded.system)]
    return PassCases.of(Setup(loaded), built, chosen, path="--policy"), loaded.spec.name or experiment
