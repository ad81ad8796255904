"""``cosim config``: check files, show them resolved, print their schema for editors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from cosim.cli.options import override_option
from cosim.config import presets
from cosim.config.load import load_hardware, load_model, resolved_yaml
from cosim.config.schema_experiment import ExperimentSpec
from cosim.config.schema_hardware import HardwareSpec
from cosim.config.schema_model import ModelSpec
from cosim.config.spec import Spec
from cosim.system.loading import open_experiment
from cosim.system.system import System

__all__ = ["config"]


def _experiment(reference: str, options: tuple[str, ...]) -> Spec:
    return open_experiment(reference, options).spec


def _hardware(reference: str, options: tuple[str, ...]) -> Spec:
    loaded = load_hardware(reference, options)
    System.build(loaded.spec, loaded.document)
    return loaded.spec


def _model(reference: str, options: tuple[str, ...]) -> Spec:
    return load_model(reference, options).spec


_KINDS: dict[str, tuple[str, type[Spec], Callable[[str, tuple[str, ...]], Spec]]] = {
    "experiment": ("experiments", ExperimentSpec, _experiment),
    "hardware": ("hardware", HardwareSpec, _hardware),
    "model": ("models", ModelSpec, _model),
}

_kind = click.argument("kind", type=click.Choice(list(_KINDS)))


@click.group()
def config() -> None:
    """Check configuration files and show them resolved."""


@config.command("list")
@click.argument("kind", type=click.Choice(list(presets.KINDS)), required=False)
def list_shipped(kind: str | None) -> None:
    """List the files that come with cosim."""
    for each in [kind] if kind else presets.KINDS:
        click.echo(f"{each}: {', '.join(presets.names(each)) or 'none'}")


@config.command()
@_kind
@click.argument("reference", metavar="NAME|FILE")
@override_option
def check(kind: str, reference: str, overrides: tuple[str, ...]) -> None:
    """Check a file and everything it names; list every error."""
    _KINDS[kind][2](reference, overrides)
    click.echo(f"{reference}: no errors")


@config.command()
@_kind
@click.argument("reference", metavar="NAME|FILE")
@override_option
def show(kind: str, reference: str, overrides: tuple[str, ...]) -> None:
    """Print a file with its options, the files it names and every default written out."""
    click.echo(resolved_yaml(_KINDS[kind][2](reference, overrides)), nl=False)


@config.command()
@_kind
def schema(kind: str) -> None:
    """Print the JSON schema of a kind of file, for editors."""
    document: dict[str, Any] = _KINDS[kind][1].model_json_schema(mode="validation")
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
