"""Writes the reference pages of the documentation from the code; with --check, says which of them are not fresh.

Commands from their help, keys from the schemas, Python names from their signatures and docstrings, shipped files and
readers from where they are found.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import tomllib

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- written by .ci/reference.py -->"


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


def _commands(command: click.Command, names: tuple[str, ...]) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(names), terminal_width=100, max_content_width=100)
    if isinstance(command, click.Group):
        if len(names) > 1:
            yield f"## {' '.join(names)}\n\n{inspect.cleandoc(command.help or '')}\n"
        for name in sorted(command.list_commands(context)):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found, (*names, name))
        return
    level = "##" if len(names) == 2 else "###"
    yield f"{level} {' '.join(names)}\n\n{_fenced(command.get_help(context))}"


def commands() -> str:
    """Every command with its help."""
    from cosim.cli import main

    return "\n".join(["# Commands\n", NOTE + "\n", *_commands(main, ("cosim",))])


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return "a mapping"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[key]))
    if schema.get("type") == "array":
        return f"a list of {_type(schema.get('items', {}))}" if schema.get("items") else "a list"
    words = {
        "object": "a mapping",
        "string": "text",
        "integer": "an integer",
        "number": "a number",
        "boolean": "yes or no",
    }
    found = words.get(str(schema.get("type")), "a value")
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{found}, {least} to {most}"
    return found + (f" from {least}" if least is not None else "") + (f" to {most}" if most is not None else "")


def _mapping(name: str, schema: dict[str, Any]) -> str:
    lines = [f"### {name}\n"]
    if schema.get("description"):
        lines.append(inspect.cleandoc(schema["description"]).replace("``", "`") + "\n")
    properties = schema.get("properties", {})
    if properties:
        required = set(schema.get("required", []))
        lines += ["| key | takes | |", "|---|---|---|"]
        for key, value in properties.items():
            default = "required" if key in required else f"default `{value['default']}`" if "default" in value else ""
            taken = _type(value).replace("|", "\\|")
            lines.append(f"| `{key}` | {taken} | {default.replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines)


def keys() -> str:
    """Every key of the configuration files."""
    from cosim.config.schema_experiment import ExperimentSpec
    from cosim.config.schema_hardware import HardwareSpec
    from cosim.config.schema_model import ModelSpec

    parts = [
        "# Keys of configuration files\n",
        NOTE + "\n",
        "What the keys mean is in [configuration.md](../configuration.md) and [network.md](../network.md); "
        "`cosim config schema` prints the same as JSON Schema for editors.\n",
    ]
    seen: set[str] = set()
    for kind, spec in (("Experiment", ExperimentSpec), ("Hardware", HardwareSpec), ("Model", ModelSpec)):
        schema = spec.model_json_schema()
        parts.append(f"## {kind}\n")
        parts.append(_mapping(spec.__name__, schema))
        for name, one in sorted(schema.get("$defs", {}).items()):
            if name not in seen and one.get("properties") and name not in (HardwareSpec.__name__, ModelSpec.__name__):
                seen.add(name)
                parts.append(_mapping(name, one))
    return "\n".join(parts)


def _signature(thing: Any) -> str:
    fields = getattr(thing, "model_fields", None)
    if inspect.isclass(thing) and fields is not None:  # types and defaults stand on the page of keys
        return f"(*, {', '.join(fields)})" if fields else "()"
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(…)"
    return re.sub(r"<function ([\w.]+) at 0x[0-9a-f]+>", r"\1", text)


def _named(name: str, thing: Any) -> str:
    text = f"{name}{_signature(thing)}\n\n{inspect.getdoc(thing) or ''}"
    if inspect.isclass(thing):
        for method, value in vars(thing).items():
            if method.startswith("_") or not getattr(value, "__doc__", None):
                continue
            called = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(called):
                head = f"{method}{_signature(called)}"
            elif isinstance(value, property):
                head = method
            else:
                continue
            text += f"\n\n.{head}\n    " + (inspect.getdoc(called) or "").replace("\n", "\n    ")
    return f"### {name}\n\n{_fenced(text)}"


def python() -> str:
    """The public names of Python."""
    import cosim
    from cosim import mem, noc, plugins, policy, trace, workload
    from cosim.experiment import Report, Run
    from cosim.report import timeline

    parts = ["# Python\n", NOTE + "\n"]
    own = {"cosim": {"Experiment": cosim.Experiment, "Run": Run, "Report": Report}}
    for module in (noc, mem, trace, workload, policy, plugins, timeline):
        names = getattr(module, "__all__", None) or [one for one in vars(module) if not one.startswith("_")]
        own[module.__name__] = {
            name: getattr(module, name)
            for name in sorted(names)
            if callable(getattr(module, name))
            and str(getattr(getattr(module, name), "__module__", "")).startswith("cosim")
        }
    for module_name, names in own.items():
        parts.append(f"## {module_name}\n")
        parts += [_named(name, thing) for name, thing in names.items()]
    return "\n".join(parts)


def _readers() -> dict[str, str]:
    """Readers that are entry points of the project, with what they say of themselves."""
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {}
    for name, value in project["entry-points"]["cosim.trace_adapters"].items():
        module, _, item = value.partition(":")
        found[name] = str(getattr(importlib.import_module(module), item).description)
    return found


def files() -> str:
    """Shipped files, and the readers of traces."""
    from cosim.config import presets

    parts = ["# Shipped files and readers\n", NOTE + "\n", "## Files by kind\n", "| kind | names |", "|---|---|"]
    parts += [f"| {kind} | {', '.join(f'`{name}`' for name in presets.names(kind)) or '–'} |" for kind in presets.KINDS]
    parts += ["\n## Readers of routing traces\n", "| `--format` | reads |", "|---|---|"]
    parts += [f"| `{name}` | {text} |" for name, text in sorted(_readers().items())]
    return "\n".join(parts) + "\n"


PAGES = {"commands.md": commands, "keys.md": keys, "python.md": python, "files.md": files}


def main(arguments: list[str]) -> int:
    """Exit status 1 when --check finds a page that is not the generated one."""
    stale = []
    for name, make in PAGES.items():
        path, text = FOLDER / name, make()
        if "--check" in arguments:
            stale += [name] if not path.exists() or path.read_text(encoding="utf-8") != text else []
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/reference/{name} is not what the code says: python .ci/reference.py writes it")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
