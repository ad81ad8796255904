"""From what a user names as a plug-in to a table of functions that the core calls."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from cosim.config.errors import ConfigErrors, did_you_mean
from cosim.plugins.compile import compile_c
from cosim.plugins.python_memory import from_python_memory
from cosim.plugins.python_routing import from_address, from_python
from cosim.plugins.registry import PluginError, find
from cosim.plugins.shared_object import LoadedTable, load_shared_object

__all__ = ["is_path", "load_object", "load_table"]


def load_table(reference: object, kind: str) -> LoadedTable:
    """Load a plug-in.

    Args:
        reference: the path of a shared object (``.so``) or C file (``.c``), ``path.py:name``, the name of an entry
            point of this kind, a Python function or class, an object with ``address`` (a numba cfunc; routing only),
            or a table loaded before.
        kind: ``routing``, ``arbiters``, ``routers`` or ``memory``.

    Raises:
        ConfigErrors: no such file or entry point.
        PluginError: a plug-in that cannot be used.
    """
    if isinstance(reference, LoadedTable):
        if reference.description.kind != kind:
            raise PluginError(
                f"the plug-in {reference.description.name!r} is of kind {reference.description.kind}, expected {kind}"
            )
        return reference
    if isinstance(reference, Path) or (isinstance(reference, str) and is_path(reference)):
        return _from_path(str(reference), kind)
    if isinstance(reference, str):
        return _from_object(find(kind, reference).load(), kind, reference)
    return _from_object(reference, kind, None)


def load_object(reference: object, kind: str) -> Any:
    """Load a component that is a Python object: ``path.py:name``, the name of an entry point, or the object itself.

    Raises:
        ConfigErrors: no such file or entry point.
        PluginError: its import fails.
    """
    if not isinstance(reference, str):
        return reference
    file, colon, name = reference.rpartition(":")
    if colon and file.endswith(".py"):
        return _from_file(Path(file).expanduser(), name)
    return find(kind, reference).load()


def is_path(reference: str) -> bool:
    """Whether a reference is written as a path rather than the name of an entry point."""
    return "/" in reference or os.sep in reference or reference.endswith((".so", ".dylib", ".c")) or ".py:" in reference


def _from_path(reference: str, kind: str) -> LoadedTable:
    file, colon, name = reference.rpartition(":")
    if colon and file.endswith(".py"):
        return _from_object(_from_file(Path(file), name), kind, None)
    path = Path(reference).expanduser()
    if path.suffix == ".c":
        if not path.is_file():
            raise ConfigErrors.single("a C file", f"{str(path)!r}, which does not exist", path="plugin")
        return load_shared_object(compile_c(path), kind, "C source")
    return load_shared_object(path, kind)


def _from_object(found: Any, kind: str, name: str | None) -> LoadedTable:
    if isinstance(found, str | Path):
        return _from_path(str(found), kind)
    if isinstance(found, LoadedTable):
        return load_table(found, kind)
    if kind == "routing" and hasattr(found, "address") and not isinstance(found, type):
        label = name or str(getattr(found, "__name__", type(found).__name__))
        return from_address(found, label, pure=bool(getattr(found, "cosim_pure", False)))
    if kind in ("arbiters", "routers"):
        raise PluginError(
            f"the plug-in {name or found!r} of kind {kind} is a {type(found).__name__}, expected the path of a shared "
            "object or C file: this kind is written in C"
        )
    if not callable(found):
        raise PluginError(
            f"the {kind} plug-in {name or found!r} is a {type(found).__name__}, expected a path, a function or a class"
        )
    return from_python(found, name) if kind == "routing" else from_python_memory(found, name)


def _from_file(path: Path, name: str) -> Any:
    if not path.is_file():
        raise ConfigErrors.single("a Python file", f"{str(path)!r}, which does not exist", path="plugin")
    spec = importlib.util.spec_from_file_location(f"cosim_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigErrors.single("a Python file", f"{str(path)!r}", path="plugin")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as problem:  # whatever a user's file does
        raise PluginError(f"{path}: {type(problem).__name__}: {problem}") from problem
    found = getattr(module, name, None)
    if found is None:
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        hint = did_you_mean(name, known)
        raise ConfigErrors.single(f"something called {name!r} in {path}", "none", path="plugin", suggestion=hint)
    return found
