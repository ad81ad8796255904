"""`cosim plugins new`: a project around one of the shipped examples, that builds, installs and runs as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from cosim.config.errors import ConfigErrors, one_of
from cosim.plugins import headers
from cosim.plugins.compile import FLAGS
from cosim.plugins.templates import EXAMPLES, examples

__all__ = ["new_project"]

GROUP = {
    "router": "routing",
    "arbiter": "arbiters",
    "router_model": "routers",
    "topology": "topologies",
    "memory": "memory",
}
"""What the command calls a kind → the group of its entry points."""

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=70.1"]
build-backend = "setuptools.build_meta"

[project]
name = "{distribution}"
version = "1.0"
description = "A {kind} plug-in for cosim"
requires-python = ">=3.10"

[project.entry-points."cosim.{group}"]
{name} = "{name}:{attribute}"

[tool.setuptools]
packages = ["{name}"]
"""

_SETUP = """\
\"\"\"The shared object of the plug-in, beside its package; pyproject.toml has the rest.\"\"\"

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "{name}._plugin",
            ["{name}/{name}.c"],
            include_dirs=["include"],
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra"],
        )
    ]
)
"""

_C_PACKAGE = """\
\"\"\"{title}\"\"\"

from pathlib import Path

PLUGIN = next(Path(__file__).parent.glob("_plugin*.so"))
\"\"\"The shared object that the entry point names.\"\"\"
"""

_MAKEFILE = """\
# One command builds the plug-in: make
CC ?= cc
CFLAGS = {flags}

{name}.so: {name}/{name}.c $(wildcard include/cosim/plugin/*.h)
\t$(CC) $(CFLAGS) -Iinclude -o $@ $<

clean:
\trm -f {name}.so
.PHONY: clean
"""

_README = """\
# {name}

A {kind} plug-in for [cosim](https://pypi.org/project/cosim-moe/), begun from the example `{example}`.

{build}    pip install .                        # then its name is {name}
{check}{run}

The contract is {contract}.
"""


def new_project(name: str, kind: str, language: str, example: str | None, folder: Path) -> list[Path]:
    """Write a project.

    Args:
        name: of the plug-in and its package: a Python identifier.
        kind: of :data:`GROUP`.
        language: ``c`` or ``python``.
        example: one of :data:`~cosim.plugins.templates.EXAMPLES`; None for the first.
        folder: that is to hold the project, which becomes ``folder/name``.

    Returns:
        The files written, relative to ``folder``.

    Raises:
        ConfigErrors: a name that is no identifier, no such example, or the project's folder is there already.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigErrors.single("a name of small letters, digits and _", repr(name), path="NAME")
    if (kind, language) not in EXAMPLES:
        languages = [each for of, each in EXAMPLES if of == kind]
        raise ConfigErrors.single(f"{one_of(languages)}, which {kind} plug-ins are written in", language, path="--lang")
    known = EXAMPLES[kind, language]
    chosen = known[0] if example is None else example
    if chosen not in known:
        raise ConfigErrors.single(one_of(known), repr(example), path="--example")
    root = folder / name
    if root.exists():
        raise ConfigErrors.single("a folder that is not there yet", repr(str(root)), path="NAME")
    stem = f"{chosen}_{kind}"
    source = (examples() / f"{stem}.{'c' if language == 'c' else 'py'}").read_text(encoding="utf-8")
    files = _c_files(name, kind, stem, source) if language == "c" else _python_files(name, kind, stem, source)
    attribute = "PLUGIN" if language == "c" else files.pop("attribute")
    files["pyproject.toml"] = _PYPROJECT.format(
        name=name, distribution=name.replace("_", "-"), kind=kind, group=GROUP[kind], attribute=attribute
    )
    files["README.md"] = _readme(name, kind, language, chosen, attribute)
    for relative, text in sorted(files.items()):
        target = root / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    written = [Path(name) / relative for relative in files]
    if language == "c":
        # the header is the contract the source was written for: it goes with the source
        for each in ("cosim_params.h", *headers.needed(f"cosim_{kind}.h")):
            target = root / "include" / "cosim" / "plugin" / each
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(headers.header(each), target)
            written.append(target.relative_to(folder))
    return sorted(written)


def _c_files(name: str, kind: str, stem: str, source: str) -> dict[str, str]:
    return {
        f"{name}/{name}.c": re.sub(rf"\b{stem}\b", name, source),
        f"{name}/__init__.py": _C_PACKAGE.format(title=f"A {kind} plug-in for cosim."),
        "setup.py": _SETUP.format(name=name),
        "Makefile": _MAKEFILE.format(name=name, flags=" ".join(FLAGS)),
    }


def _python_files(name: str, kind: str, stem: str, source: str) -> dict[str, str]:
    found = re.search(r"^(?:class|def) (\w+)", source, re.MULTILINE)
    assert found is not None
    return {f"{name}/__init__.py": source, "attribute": found[1]}


def _readme(name: str, kind: str, language: str, example: str, attribute: str) -> str:
    built = f"./{name}.so" if language == "c" else f"./{name}/__init__.py:{attribute}"
    build = f"    make                                 # builds {built}\n" if language == "c" else ""
    keys = {"router": "routing", "arbiter": "sw_allocator", "router_model": "router"}
    if kind in keys:
        run = f"    cosim noc run noc-mesh8 -o network.{keys[kind]}.plugin={name}   # or {built}"
    elif kind == "topology":
        run = f'    cosim plugins show {name}\n\nIn Python: `noc.Network({{"topology": {{"plugin": "{name}"}}}})`.'
    else:
        run = f"    cosim mem run requests.csv --preset HBM2_2000 -o plugin={name}   # or {built}"
    contract = f"`include/cosim/plugin/cosim_{kind}.h`" if language == "c" else "that of `cosim.plugins` in its guide"
    check = "" if kind == "topology" else f"    cosim plugins check {name}\n"
    return _README.format(name=name, kind=kind, example=example, build=build, check=check, run=run, contract=contract)
