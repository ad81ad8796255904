"""Policies by name: the shipped ones, installed ones (entry-point group ``cosim.policies``), and ``path.py:Class``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.policy.base import Policy
from cosim.policy.eplb import Eplb
from cosim.policy.fixed_replica import FixedReplica
from cosim.policy.hcrmap import HCRMap
from cosim.policy.hot_replication import HotReplication
from cosim.policy.hybrid_parallel import ExpertParallel, Placed, TensorParallel
from cosim.policy.hydra import Hydra
from cosim.policy.moentwine import Moentwine
from cosim.policy.pimoe import Pimoe
from cosim.policy.popularity_prefetch import PopularityPrefetch
from cosim.policy.static import Static

__all__ = ["GROUP", "SHIPPED", "make_policy", "policy_names"]

GROUP = "cosim.policies"

SHIPPED: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        Static,
        HotReplication,
        PopularityPrefetch,
        TensorParallel,
        ExpertParallel,
        Placed,
        FixedReplica,
        Eplb,
        Hydra,
        Moentwine,
        Pimoe,
        HCRMap,
    )
}


def policy_names() -> list[str]:
    """Every name :func:`make_policy` knows, shipped ones first; installed ones are listed without importing them."""
    return [*SHIPPED, *sorted({entry.name for entry in entry_points(group=GROUP)} - set(SHIPPED))]


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
        raise ConfigErrors([_finding(name, path, item) for item in error.errors()]) from None
    if not isinstance(policy, Policy):
        raise ConfigErrors.single("a subclass of cosim.policy.Policy", type(policy).__name__, path=path)
    return policy


def _factory(name: str, path: str) -> Callable[[Mapping[str, object]], Any]:
    if name in SHIPPED:
        return SHIPPED[name]
    if ".py:" in name:
        return _from_file(name, path)
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            loaded: Callable[[Mapping[str, object]], Any] = entry.load()
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
    spec.loader.exec_module(module)
    found = getattr(module, attribute, None)
    if not callable(found):
        names = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Policy)]
        raise ConfigErrors.single(
            f"a policy class in {file}", repr(attribute), path=path, suggestion=did_you_mean(attribute, names)
        )
    return found  # type: ignore[no-any-return]


def _finding(name: str, path: str, item: Mapping[str, Any]) -> ConfigError:
    where = ".".join(str(part) for part in item["loc"])
    known = list(SHIPPED[name].Params.model_fields) if name in SHIPPED else []
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
