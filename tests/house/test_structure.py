"""How the code is laid out: imports flow one way, one version, no catch-all modules, no words of a workplace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import cosim
from cosim import _core

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "cosim", ROOT / "adapters" / "cosim_adapters")
CORE_ROOMS = ("sim", "noc", "mem", "link", "endpoint", "bindings")


def python_modules() -> dict[str, Path]:
    modules = {}
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imported_names(tree: ast.AST, *, deferred: bool) -> Iterator[str]:
    """Dotted names imported by a module; those inside functions only if `deferred`, those for type checkers never."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif deferred or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imported_names(node, deferred=deferred)


def import_graph(modules: dict[str, Path], *, deferred: bool) -> dict[str, set[str]]:
    graph = {}
    for name, path in modules.items():
        found = set()
        for imported in imported_names(ast.parse(path.read_text()), deferred=deferred):
            # `from package import name` names a module or something inside one
            target = imported if imported in modules else imported.rpartition(".")[0]
            if target in modules and target != name:
                found.add(target)
        graph[name] = found
    return graph


def assert_no_cycle(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_module_imports_itself_through_others() -> None:
    assert_no_cycle(import_graph(python_modules(), deferred=False))


def test_rooms_depend_one_way() -> None:
    """Between the rooms of cosim even imports inside functions go one way."""
    rooms: dict[str, set[str]] = {}
    for name, imported in import_graph(python_modules(), deferred=True).items():
        parts = name.split(".")
        if len(parts) < 2:  # cosim itself only re-exports
            continue
        targets = {".".join(target.split(".")[:2]) for target in imported if "." in target}
        rooms.setdefault(".".join(parts[:2]), set()).update(targets - {".".join(parts[:2])})
    assert_no_cycle(rooms)


def test_a_cycle_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import thing\n")
    (tmp_path / "b.py").write_text("import c\n")
    (tmp_path / "c.py").write_text("def late():\n    import a\n")
    modules = {name: tmp_path / f"{name}.py" for name in "abc"}
    assert_no_cycle(import_graph(modules, deferred=False))
    with pytest.raises(pytest.fail.Exception, match="imports"):
        assert_no_cycle(import_graph(modules, deferred=True))


def test_core_rooms_include_one_way() -> None:
    graph: dict[str, set[str]] = {}
    for room in CORE_ROOMS:
        included = set()
        for path in (ROOT / "ext" / room).glob("*.[hc]pp"):
            if path.name.endswith(".test.cpp"):  # a unit test may build a whole system
                continue
            included |= set(re.findall(r'#include "(\w+)/', path.read_text()))
        graph[room] = (included & set(CORE_ROOMS)) - {room}
    assert_no_cycle(graph)
    assert graph["sim"] == set()


def test_only_the_bindings_know_python() -> None:
    users = {
        path.parent.name
        for path in (ROOT / "ext").rglob("*.[hc]pp")
        if re.search(r"#include\s*[<\"](pybind11|Python\.h)", path.read_text())
    }
    assert users == {"bindings"}


def test_no_catch_all_modules() -> None:
    stems = {path.stem for path in ROOT.joinpath("ext").rglob("*.[hc]pp")}
    stems |= {name.rpartition(".")[2] for name in python_modules()}
    assert not stems & {"utils", "util", "common", "helpers", "helper", "misc"}


def test_one_version() -> None:
    written = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert written is not None
    assert _core.__version__ == cosim.__version__ == written[1]


def checkout_files() -> Iterator[Path]:
    skipped = {".git", "build", "dist", "out", "__pycache__"}
    for path in ROOT.iterdir():
        if path.name in skipped or (path.is_dir() and path.name.startswith(".") and path.name != ".ci"):
            continue
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file() and not skipped.intersection(file.parts):
                yield file


# written in pieces, so that this file is not its own finding
WORKPLACE = re.compile(
    "|".join(
        ("/wor" + "k/", "/tm" + "p/", r"\.\./sha" + "red", "shared/" + "(data|reference|own_trace)", "farm" + "-")
    ),
    re.I,
)
ALLOWED = {(".ci/run", "../sha" + "red")}  # where continuous integration finds the public recordings


def test_the_tree_speaks_of_itself_alone() -> None:
    found = []
    for path in checkout_files():
        if path.suffix in {".npz", ".pt", ".so", ".parquet", ".png", ".gz"}:
            continue
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            for match in WORKPLACE.finditer(line):
                if (name, match[0]) not in ALLOWED:
                    found.append(f"{name}:{number}: {match[0]}")
    assert not found, "\n".join(found)
