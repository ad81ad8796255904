"""``cosim plugins``: what is there, and what one of it is."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import click
from pydantic import BaseModel

from cosim.config.errors import ConfigErrors, did_you_mean
from cosim.plugins.registry import GROUPS, Plugin
from cosim.plugins.registry import plugins as registered

__all__ = ["plugins"]


@click.group()
def plugins() -> None:
    """List and show plug-ins: components of cosim and of installed packages."""


@plugins.command("list")
@click.argument("kind", type=click.Choice(list(GROUPS)), required=False)
def list_plugins(kind: str | None) -> None:
    """List components by kind; none of them is imported."""
    for each in [kind] if kind else GROUPS:
        found = registered(each)
        click.echo(f"{each} (entry-point group {GROUPS[each]})" + ("" if found else ": none"))
        width = max((len(plugin.name) for plugin in found), default=0)
        for plugin in found:
            click.echo(f"  {plugin.name:<{width}}  {plugin.value}  [{_origin(plugin)}]")


@plugins.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(list(GROUPS)), help="Kind, where several have a component of that name.")
def show(name: str, kind: str | None) -> None:
    """Import the component NAME and show what it says of itself and its parameters."""
    everything = [plugin for each in ([kind] if kind else GROUPS) for plugin in registered(each)]
    found = [plugin for plugin in everything if plugin.name == name]
    if not found:
        known = sorted({plugin.name for plugin in everything})
        raise ConfigErrors.single(
            f"a component ({', '.join(known) or 'there is none'})", repr(name), suggestion=did_you_mean(name, known)
        )
    if len(found) > 1:
        kinds = ", ".join(plugin.kind for plugin in found)
        raise ConfigErrors.single("--kind with one of " + kinds, f"{name!r}, which each of them has")
    plugin = found[0]
    component = plugin.load()
    click.echo(f"{plugin.name}: {plugin.kind}, {plugin.value} of {_origin(plugin)}")
    text = inspect.getdoc(component) if inspect.isclass(component) or inspect.isroutine(component) else None
    text = text or inspect.getdoc(type(component))
    if text:
        click.echo(f"\n{text}")
    for line in _parameters(component):
        click.echo(line)


def _origin(plugin: Plugin) -> str:
    return f"{plugin.distribution} {plugin.version}".strip()


def _parameters(component: Any) -> list[str]:
    """Lines on the parameters: a ``Params`` schema, a table of parameters, or the schema that the component is."""
    schema = getattr(component, "Params", component)
    if inspect.isclass(schema) and issubclass(schema, BaseModel):
        lines = ["", "Parameters:"]
        for name, field in schema.model_fields.items():
            default = "required" if field.is_required() else f"default {field.get_default(call_default_factory=True)!r}"
            lines.append(f"  {name}: {default}" + (f"; {field.description}" if field.description else ""))
        return lines
    table = getattr(component, "parameters", None)
    if isinstance(table, Mapping):
        return ["", "Parameters:", *(f"  {name}: {value}" for name, value in table.items())]
    return []
