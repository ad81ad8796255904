"""A table of C functions filled from Python: callbacks, strings, and who they are."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

from cosim.plugins import headers
from cosim.plugins.description import Description, Parameter
from cosim.plugins.shared_object import ABIS, LoadedTable, c_text

__all__ = ["PythonTable", "parameters_of", "parameters_of_call", "qualified_name"]


class PythonTable:
    """Fills the table of one kind of plug-in; `finish` gives the table.

    Args:
        kind: of :data:`~cosim.plugins.shared_object.ABIS`.
        component: the function or class behind it.
        name: what errors call it.
    """

    def __init__(self, kind: str, component: Any, name: str) -> None:
        self.abi = ABIS[kind]
        self.ffi = headers.declarations(self.abi.header)
        self.component = component
        self.name = name
        self.problems: list[BaseException] = []
        self.table: Any = self.ffi.new(f"{self.abi.table} *")
        self.instances: dict[int, Any] = {}
        self._keep: list[Any] = [self.ffi, self.table, self.instances]

    def set(self, key: str, function: Callable[..., Any], failed: int | None = None) -> None:
        """Make `function` the table's member `key`; an exception is kept and C gets `failed`."""

        def on_error(kind: Any, error: Any, trace: Any) -> None:
            self.problems.append(error)

        signature = self.ffi.typeof(getattr(self.table, key))
        callback = self.ffi.callback(signature, function, error=failed, onerror=on_error)
        self._keep.append(callback)
        setattr(self.table, key, callback)

    def set_lifetime(self, make: Callable[[Any, dict[str, Any]], Any]) -> None:
        """Members `create` and `destroy`: `make(config or topology, params)` gives an instance."""
        ffi = self.ffi

        def create(first: Any, params: Any, self_out: Any, err: Any, err_cap: int) -> int:
            try:
                instance = make(first, json.loads(c_text(ffi, params)))
            except Exception as error:
                text = f"{type(error).__name__}: {error}".encode()[: max(err_cap - 1, 0)]
                ffi.memmove(err, text + b"\0", len(text) + 1)
                return -1
            handle = ffi.new_handle(instance)
            self.instances[int(ffi.cast("uintptr_t", handle))] = (handle, instance)
            self_out[0] = handle
            return 0

        def destroy(handle: Any) -> None:
            self.instances.pop(int(ffi.cast("uintptr_t", handle)), None)

        self.set("create", create, headers.constant(self.abi.header, "COSIM_E_INTERNAL"))
        self.set("destroy", destroy)

    def finish(self, caps: Sequence[str], parameters: tuple[Parameter, ...] | None, origin: str) -> LoadedTable:
        """The table, its capability bits set."""
        ffi, table = self.ffi, self.table
        strings = [ffi.new("char[]", text) for text in (self.name.encode(), b"0")]
        self._keep.append(strings)
        table.abi, table.struct_size = self.abi.version, ffi.sizeof(self.abi.table)
        table.name, table.version = strings
        for cap in caps:
            table.caps |= headers.constant(self.abi.header, self.abi.caps[cap])
        source, file = _source(self.component)
        digest = hashlib.sha256(source.encode()).hexdigest() if source else ""
        version = f"{self.abi.version >> 16}.{self.abi.version & 0xFFFF}"
        description = Description(self.abi.kind, self.name, "0", origin, tuple(caps), version, file, digest, parameters)
        return LoadedTable(int(ffi.cast("uintptr_t", table)), description, tuple(self._keep), self.problems)


def _source(component: Any) -> tuple[str, str]:
    """Text and file of a function or class; empty where Python does not know them."""
    try:
        return inspect.getsource(component), inspect.getsourcefile(component) or ""
    except (OSError, TypeError):
        return "", ""


def parameters_of(component: Any) -> tuple[Parameter, ...] | None:
    """Keyword parameters of a function or class after its first one; None where it takes any."""
    found = parameters_of_call(component)
    return None if found is None else found[1:]


def parameters_of_call(component: Any) -> tuple[Parameter, ...] | None:
    """All parameters of a function or class; None where it takes any."""
    try:
        signature = inspect.signature(component)
    except (ValueError, TypeError):
        return None
    found: list[Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            return None
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        found.append(Parameter(parameter.name, default, "", ""))
    return tuple(found)


def qualified_name(component: Any) -> str:
    """What errors call a function, a class or another object."""
    return str(getattr(component, "__qualname__", type(component).__qualname__))
