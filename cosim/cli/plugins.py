"""``cosim plugins``: what is there, what one of it is, a new one, and whether one keeps its contract."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import BaseModel

from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.plugins.registry import GROUPS, Plugin, PluginError
from cosim.plugins.registry import plugins as registered

if TYPE_CHECKING:
    from cosim.plugins.description import Description

__all__ = ["plugins"]

CHECKED = ("routing", "arbiters", "routers", "memory")
"""Kinds that run inside the simulators, behind a table of C functions."""


@click.group()
def plugins() -> None:
    """List, show, begin and check plug-ins: components of cosim, of installed packages and of your own files."""


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
    """Import the component NAME and show what it says of itself and its parameters.

    NAME is also a path: a shared object (.so), a C file (.c) or file.py:name.
    """
    from cosim.plugins.loading import is_path

    if is_path(name):
        _show_file(name, kind)
        return
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
    if plugin.kind in CHECKED and isinstance(component, str | Path):
        _show_file(str(component), plugin.kind)
        return
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


def _show_file(reference: str, kind: str | None) -> None:
    """Show a plug-in of a file; its code runs in a process of its own, as it may crash."""
    code = (
        "import sys; from cosim.cli.plugins import print_description; "
        "sys.exit(print_description(sys.argv[1], sys.argv[2:]))"
    )
    kinds = [kind] if kind else list(CHECKED)
    done = subprocess.run([sys.executable, "-c", code, reference, *kinds], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        raise PluginError(f"the plug-in {reference!r} crashed when it was loaded (signal {-done.returncode})")
    if done.returncode != 0:
        raise PluginError(done.stderr.strip() or f"the plug-in {reference!r} cannot be loaded")
    click.echo(done.stdout, nl=False)


def print_description(reference: str, kinds: list[str]) -> int:
    """Load the plug-in of a file as the first of `kinds` that it is and print what it says of itself."""
    from cosim.plugins.loading import load_table

    for last, kind in enumerate(kinds, start=1):
        try:
            described = load_table(reference, kind).description
        except (PluginError, ConfigErrors) as problem:
            if last == len(kinds) or "of kind" not in str(problem):
                print(problem, file=sys.stderr)
                return 2
            continue
        print("\n".join(_described(described)))
        return 0
    return 2


def _described(d: Description) -> list[str]:
    lines = [
        f"{d.name} {d.version}: {d.kind}, {d.origin} {d.path}".rstrip(),
        f"ABI {d.abi}, capabilities: {', '.join(d.caps) or 'none'}",
        f"sha256 {d.sha256}",
        "",
    ]
    if d.parameters is None:
        return [*lines, "Parameters: it does not list them"]
    if not d.parameters:
        return [*lines, "Parameters: none"]
    lines.append("Parameters:")
    for p in d.parameters:
        default = "required" if p.default is None else f"default {json.dumps(p.default)}"
        unit = f" {p.unit}" if p.unit else ""
        lines.append(f"  {p.name}: {default}{unit}" + (f"; {p.help}" if p.help else ""))
    return lines


@plugins.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["router", "arbiter", "router_model", "topology", "memory"]),
    default="router",
    show_default=True,
)
@click.option("--lang", "language", type=click.Choice(["c", "python"]), default="c", show_default=True)
@click.option(
    "--example",
    help="The shipped example to start from: table, adaptive, deadlock; oldest; deflection; dragonfly; fixed.",
)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    show_default="here",
    help="The folder that is to hold the project.",
)
def new(name: str, kind: str, language: str, example: str | None, into: Path) -> None:
    """Write a project NAME that builds with one command, installs with pip and runs as it stands."""
    from cosim.plugins.projects import new_project

    for path in new_project(name, kind, language, example, into):
        click.echo(into / path)
    click.echo(f"\nwhat to do with it: {into / name / 'README.md'}")


@plugins.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(CHECKED), help="What it is; found out by itself for most.")
@click.option("-p", "--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter of the plug-in (JSON).")
@click.option("--network", default="noc-mesh8", show_default=True, metavar="NAME|FILE", help="What a router runs on.")
@click.option("--preset", default="HBM2_2000", show_default=True, help="What a memory is to be.")
@click.option("--packets", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Of the soak.")
@click.option("--only", multiple=True, metavar="CHECK", help="Run this check alone; may be given several times.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=600.0, show_default=True, help="Seconds per check.")
def check(
    name: str,
    kind: str | None,
    params: tuple[str, ...],
    network: str,
    preset: str,
    packets: int,
    only: tuple[str, ...],
    timeout: float,
) -> None:
    """Put the plug-in NAME (an entry point or a path) through its contract, in a process of its own.

    Exit status 2 when a check fails.
    """
    from cosim.conformance import check_plugin
    from cosim.conformance.child import CHECKS
    from cosim.conformance.request import CheckRequest

    found = kind or _kind_of(name)
    base = {"preset": preset, "channels": 1} if found == "memory" else _network_of(network)
    known = list(CHECKS[found])
    for each in only:
        if each not in known:
            raise ConfigErrors.single(one_of(known), repr(each), path="--only", suggestion=did_you_mean(each, known))
    request = CheckRequest(found, name, dict(_parameter(each) for each in params), packets, base, only)
    failed = 0
    for outcome in check_plugin(request, timeout):
        click.echo(f"{outcome.name:<14} {outcome.status:<7} {outcome.text}")
        failed += outcome.status == "failed"
    if failed:
        raise PluginError(f"the plug-in {name!r} failed {failed} of its checks")


def _kind_of(name: str) -> str:
    """The kind of a plug-in, from its entry point or from the symbol that a shared object exports."""
    from cosim.plugins.loading import is_path
    from cosim.plugins.shared_object import ABIS

    if not is_path(name):
        kinds = [kind for kind in CHECKED for plugin in registered(kind) if plugin.name == name]
        if len(kinds) != 1:
            known = [plugin.name for kind in CHECKED for plugin in registered(kind)]
            raise ConfigErrors.single(
                f"a plug-in of {', '.join(CHECKED)} ({', '.join(known) or 'none is installed'}) or a path",
                repr(name),
                suggestion=did_you_mean(name, known),
            )
        return kinds[0]
    path = Path(name)
    if path.suffix in (".so", ".dylib", ".c") and path.is_file():
        text = path.read_bytes()
        return next((kind for kind, abi in ABIS.items() if abi.entry.encode() in text), "routing")
    file, _, attribute = name.rpartition(":")
    return "memory" if file.endswith(".py") and "accept" in _methods(Path(file), attribute) else "routing"


def _methods(file: Path, name: str) -> set[str]:
    """The methods of a class in a Python file, which is read and not run."""
    if not file.is_file():
        return set()
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError:
        return set()
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return {node.name for each in classes for node in each.body if isinstance(node, ast.FunctionDef)}


def _network_of(reference: str) -> dict[str, Any]:
    from cosim.config import presets
    from cosim.config.loader import load_yaml

    data = load_yaml(presets.find("networks", reference)).data
    network = data.get("network") if isinstance(data, Mapping) else None
    if not isinstance(network, Mapping):
        raise ConfigErrors.single("a file with the key 'network'", repr(reference), path="--network")
    return dict(network)


def _parameter(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigErrors.single("key=value", repr(text), path="--param")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
