"""Loading a plug-in: a shared object's entry symbol to a checked table of functions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosim.config.errors import ConfigErrors
from cosim.plugins import headers
from cosim.plugins.description import Description, read_parameters
from cosim.plugins.registry import PluginError

__all__ = ["ABIS", "Abi", "LoadedTable", "c_text", "describe_table", "load_shared_object"]


@dataclass(frozen=True)
class Abi:
    """One kind of C plug-in: its header, its entry symbol, its table, what of it must be there."""

    kind: str
    header: str
    entry: str
    table: str
    macro: str
    required: tuple[str, ...]
    caps: Mapping[str, str]

    @property
    def version(self) -> int:
        """Of our header: major << 16 | minor."""
        major = headers.constant(self.header, f"{self.macro}_MAJOR")
        return major << 16 | headers.constant(self.header, f"{self.macro}_MINOR")


ABIS: dict[str, Abi] = {
    "routing": Abi(
        "routing",
        "cosim_router.h",
        "cosim_router_entry",
        "cosim_router_v1",
        "COSIM_ROUTER_ABI",
        ("create", "destroy", "route"),
        {
            "pure": "COSIM_CAP_PURE",
            "multicast": "COSIM_CAP_MULTICAST",
            "threadsafe": "COSIM_CAP_THREADSAFE",
            "stateless": "COSIM_CAP_STATELESS",
            "no_view": "COSIM_CAP_NO_VIEW",
        },
    ),
    "arbiters": Abi(
        "arbiters",
        "cosim_arbiter.h",
        "cosim_arbiter_entry",
        "cosim_arbiter_v1",
        "COSIM_ARBITER_ABI",
        ("create", "destroy", "arbitrate"),
        {"stateless": "COSIM_CAP_STATELESS_ARBITER"},
    ),
    "routers": Abi(
        "routers",
        "cosim_router_model.h",
        "cosim_router_model_entry",
        "cosim_router_model_v1",
        "COSIM_ROUTER_MODEL_ABI",
        ("create", "destroy", "step"),
        {"stateless": "COSIM_CAP_STATELESS_MODEL"},
    ),
    "memory": Abi(
        "memory",
        "cosim_memory.h",
        "cosim_memory_entry",
        "cosim_memory_v1",
        "COSIM_MEMORY_ABI",
        ("create", "destroy", "accept", "next_event", "advance", "pop"),
        {"commands": "COSIM_CAP_COMMANDS"},
    ),
}
"""Kinds of C plug-ins by the group of their entry points."""


@dataclass(frozen=True)
class LoadedTable:
    """A table of functions that the core may call, and what must live as long as it does.

    Attributes:
        address: of the table.
        description: who it is.
        keep: library, callbacks and strings behind the address.
        problem: the exceptions that a Python plug-in has raised.
    """

    address: int
    description: Description
    keep: tuple[object, ...]
    problem: list[BaseException] = field(default_factory=list)

    def raise_problem(self) -> None:
        """Raise what the plug-in's Python code raised since the last call, if it did."""
        if not self.problem:
            return
        problem = self.problem[0]
        self.problem.clear()
        if not isinstance(problem, Exception):
            raise problem  # Ctrl-C came while the plug-in ran
        name = self.description.name
        raise PluginError(
            f"the {self.description.kind} plug-in {name!r} raised {type(problem).__name__}: {problem}"
        ) from problem

    @contextmanager
    def in_use(self, accepted: str, path: str, broken: type[Exception]) -> Iterator[None]:
        """What goes wrong inside is the plug-in's: it refuses, breaks the contract, or its Python code raises.

        Args:
            accepted: what it would not refuse, as errors say it.
            path: key of the plug-in in errors.
            broken: what the core raises when the contract is broken.

        Raises:
            ConfigErrors: it refuses.
            PluginError: the rest.
        """
        try:
            yield
        except ValueError as error:
            raise ConfigErrors.single(accepted, str(error), path=path) from error
        except broken as error:
            self.raise_problem()
            raise PluginError(str(error)) from error
        self.raise_problem()


def load_shared_object(path: Path, kind: str, origin: str = "shared object") -> LoadedTable:
    """Open a shared object and check its table.

    Raises:
        ConfigErrors: there is no such file.
        PluginError: it cannot be opened, has no entry for this kind, or another ABI.
    """
    abi = ABIS[kind]
    if not path.is_file():
        raise ConfigErrors.single("a shared object (.so)", f"{str(path)!r}, which does not exist", path="plugin")
    ffi = headers.declarations(abi.header)
    try:
        # local, every symbol now: a plug-in that misses one fails here and not in the middle of a run
        library: Any = ffi.dlopen(str(path.resolve()), os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise PluginError(f"the plug-in {str(path)!r} cannot be opened: {error}") from error
    try:
        entry = getattr(library, abi.entry)
    except AttributeError:
        raise PluginError(_no_entry(path, abi)) from None
    table = entry(abi.version)
    ours = f"{abi.version >> 16}.{abi.version & 0xFFFF}"
    if table == ffi.NULL:
        raise PluginError(
            f"the plug-in {str(path)!r} does not serve version {ours} of {abi.header}: "
            f"compile it with the header in {headers.include_dir()}"
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    description = describe_table(abi, table, str(path), origin, str(path.resolve()), digest)
    return LoadedTable(int(ffi.cast("uintptr_t", table)), description, (ffi, library))


def _no_entry(path: Path, abi: Abi) -> str:
    """Why there is no entry of this kind: perhaps it is a plug-in of another kind."""
    for other in ABIS.values():
        if other.entry == abi.entry:
            continue
        ffi = headers.declarations(other.header)
        library = ffi.dlopen(str(path.resolve()), os.RTLD_NOW | os.RTLD_LOCAL)
        if hasattr(library, other.entry):
            return f"the plug-in {str(path)!r} is of kind {other.kind}, expected kind {abi.kind}"
    return f"{str(path)!r} is no {abi.kind} plug-in of cosim: it exports no {abi.entry}"


def describe_table(abi: Abi, table: Any, name: str, origin: str, path: str, digest: str) -> Description:
    """Check a table of functions as far as this can be done without calling it.

    Raises:
        PluginError: another major version, a table cut short, functions or names that are missing.
    """
    ffi = headers.declarations(abi.header)
    theirs, ours = int(table.abi), abi.version
    versions = f"{theirs >> 16}.{theirs & 0xFFFF}", f"{ours >> 16}.{ours & 0xFFFF}"
    if theirs >> 16 != ours >> 16:
        raise PluginError(
            f"the plug-in {name!r} was compiled with version {versions[0]} of {abi.header}, expected {ours >> 16}.x "
            f"(this cosim has {versions[1]})"
        )
    size = int(table.struct_size)
    offsets = {key: ffi.offsetof(abi.table, key) for key in abi.required}
    word = ffi.sizeof("void *")
    if size < max(offsets.values()) + word:
        raise PluginError(
            f"the plug-in {name!r}: its {abi.table} is {size} bytes, too short for {', '.join(abi.required)}"
        )
    missing = [key for key in abi.required if getattr(table, key) == ffi.NULL]
    if missing:
        raise PluginError(f"the plug-in {name!r} has no {', '.join(missing)}")
    if table.name == ffi.NULL or table.version == ffi.NULL:
        raise PluginError(f"the plug-in {name!r} has no name or no version")

    def inside(key: str) -> bool:
        return size >= ffi.offsetof(abi.table, key) + word

    if inside("load") and (table.save == ffi.NULL) != (table.load == ffi.NULL):
        raise PluginError(f"the plug-in {name!r} has only one of save and load")
    label = c_text(ffi, table.name)
    parameters = None
    if inside("params_json") and table.params_json != ffi.NULL:
        parameters = read_parameters(c_text(ffi, table.params_json), label)
    caps = tuple(key for key, macro in abi.caps.items() if table.caps & headers.constant(abi.header, macro))
    return Description(abi.kind, label, c_text(ffi, table.version), origin, caps, versions[0], path, digest, parameters)


def c_text(ffi: Any, pointer: Any) -> str:
    """A C string as text."""
    found = ffi.string(pointer)
    return found if isinstance(found, str) else bytes(found).decode("utf-8", "replace")
