"""Policies by name: the shipped ones, installed ones (entry-point group ``cosim.policies``), and ``path.py:Class``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.plugins.registry import names, plugins
from cosim.policy.base import Policy

__all__ = ["make_policy", "policy_names"]


def policy_names() -> list[str]:
    """Every name :func:`make_policy` knows, without importing any."""
    return names("policies")


def make_policy(name: str, params: Mapping[str, object], path: str = "policies") -> Policy:
    """A fresh policy.

    Args:
        name: a shipped or installed name, or ``file.py:Class``.
        params: its parameters, checked strictly against its schema.
        path: key path of the policy in its experiment, for errors.

    Raises:
        ConfigErrors: unknown name, unknown or wrong parameters, a file or class that is not there.
    """
    factory = _factory(name, path)
    try:
        policy = factory(dict(params))
    except ValidationError as error:
        known = list(getattr(factory, "Params", Policy.Params).model_fields)
        raise ConfigErrors([_finding(known, path, item) for item in error.errors()]) from None
    if not isinstance(policy, Policy):
        raise ConfigErrors.single("a subclass of cosim.policy.Policy", type(policy).__name__, path=path)
    return policy


def _factory(name: str, path: str) -> Callable[[Mapping[str, object]], Any]:
    if ".py:" in name:
        return _from_file(name, path)
    for plugin in plugins("policies"):
        if plugin.name == name:
            loaded: Callable[[Mapping[str, object]], Any] = plugin.load()
            return loaded
    known = policy_names()
    raise ConfigErrors.single(
        f"a policy, {one_of(known)}, or file.py:Class", repr(name), path=path, suggestion=did_you_mean(name, known)
    )


def _from_file(name: str, path: str) -> Callable[[Mapping[str, object]], Any]:
    file, _, attribute = name.rpartition(":")
    source = Path(file)
    if not source.is_file():
        raise ConfigErrors.single("a Python file with the policy", f"no file {file!r}", path=path)
    spec = importlib.util.spec_from_file_location(f"cosim_user_policy_{source.stem}", source)
    if spec is None or spec.loader is None:
        raise ConfigErrors.single("a Python file with the policy", repr(file), path=path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as problem:
        raise ConfigErrors.single(
            "valid Python", str(problem.msg), file=file, line=problem.lineno, column=problem.offset, path=path
        ) from None
    except Exception as problem:  # whatever a user's file does at import
        raise ConfigErrors.single(
            "a file that imports", f"{type(problem).__name__}: {problem}", file=file, path=path
        ) from problem
    found = getattr(module, attribute, None)
    if not callable(found):
        names = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Policy)]
        raise ConfigErrors.single(
            f"a policy class in {file}", repr(attribute), path=path, suggestion=did_you_mean(attribute, names)
        )
    return found  # type: ignore[no-any-return]


def _finding(known: list[str], path: str, item: Mapping[str, Any]) -> ConfigError:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return ConfigError(
            None,
            None,
            None,
            f"{path}.params.{where}",
            one_of(known) if known else "no parameters",
            repr(where),
            did_you_mean(where, known),
        )
    return ConfigError(None, None, None, f"{path}.params.{where}", str(item["msg"]), repr(item.get("input")))
