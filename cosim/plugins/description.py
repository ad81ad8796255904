"""What a loaded plug-in says of itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.plugins.registry import PluginError

__all__ = ["Description", "Parameter", "checked_params", "params_text", "read_parameters"]


@dataclass(frozen=True)
class Parameter:
    """One parameter: ``default`` is None where the user must give it."""

    name: str
    default: Any
    unit: str
    help: str


@dataclass(frozen=True)
class Description:
    """Who a plug-in is.

    Attributes:
        kind: routing, routers, arbiters or memory.
        name, version: as the plug-in has them.
        origin: shared object, C source, Python function, Python class or compiled function.
        caps: names of its capability bits.
        abi: ``major.minor`` of the header that it was compiled with.
        path: of the shared object; empty for code of this process.
        sha256: of the shared object, or of a Python function's source.
        parameters: None where the plug-in does not list them.
    """

    kind: str
    name: str
    version: str
    origin: str
    caps: tuple[str, ...]
    abi: str
    path: str
    sha256: str
    parameters: tuple[Parameter, ...] | None

    def provenance(self) -> dict[str, Any]:
        """What a run records of it."""
        return {
            "kind": self.kind,
            "name": self.name,
            "version": self.version,
            "origin": self.origin,
            "caps": list(self.caps),
            "abi": self.abi,
            "path": self.path,
            "sha256": self.sha256,
        }


def read_parameters(text: str, name: str) -> tuple[Parameter, ...]:
    """The parameters that a plug-in lists as JSON.

    Raises:
        PluginError: the text is not what the header asks for.
    """
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise PluginError(f"the plug-in {name!r}: its params_json is no JSON ({error})") from error
    if not isinstance(rows, list):
        raise PluginError(f"the plug-in {name!r}: its params_json is no list")
    found = []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("name"), str) or "default" not in row:
            raise PluginError(
                f"the plug-in {name!r}: its params_json has {row!r}, expected an object with name, default, unit and "
                "help"
            )
        found.append(Parameter(row["name"], row["default"], str(row.get("unit", "")), str(row.get("help", ""))))
    return tuple(found)


def checked_params(
    given: Mapping[str, Any], known: Sequence[Parameter] | None, name: str, path: str = "params"
) -> dict[str, Any]:
    """The user's parameters, defaults filled in where the plug-in lists its parameters, keys sorted.

    Raises:
        ConfigErrors: unknown names, other types than the default's, missing ones; all at once.
    """
    if known is None:
        return dict(sorted(given.items()))
    problems = []
    names = [parameter.name for parameter in known]
    for key in given:
        if key not in names:
            expected = one_of(names) if names else f"no parameters (the plug-in {name!r} has none)"
            problems.append(
                ConfigError(
                    None, None, None, f"{path}.{key}", expected, f"the unknown key {key!r}", did_you_mean(key, names)
                )
            )
    filled = {}
    for parameter in known:
        value = given.get(parameter.name, parameter.default)
        where = f"{path}.{parameter.name}"
        if value is None:
            problems.append(
                ConfigError(None, None, None, where, f"a value (the plug-in {name!r} has no default)", "none")
            )
        elif not _same_type(value, parameter.default):
            expected = f"{_TYPES[type(parameter.default)]} as its default, {parameter.default!r}"
            problems.append(ConfigError(None, None, None, where, expected, repr(value)))
        filled[parameter.name] = value
    if problems:
        raise ConfigErrors(problems)
    return dict(sorted(filled.items()))


_TYPES: dict[type, str] = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


def _same_type(value: Any, default: Any) -> bool:
    if type(default) not in _TYPES:
        return True
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)


def params_text(params: Mapping[str, Any]) -> str:
    """Parameters as plug-ins get them: compact JSON, keys sorted."""
    return json.dumps(params, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
