"""The grid of a sweep: axes of values, every combination of them opened and checked as an experiment of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from cosim import __version__
from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.load import resolved_yaml
from cosim.config.loader import parse_yaml
from cosim.config.overrides import apply_overrides, parse_override
from cosim.run.campaign import simulated_rungs
from cosim.run.setup import Setup
from cosim.run.unit import UnitKey
from cosim.system import LoadedExperiment, open_experiment

__all__ = ["Axis", "GridPoint", "SweepTask", "parse_axis", "points_of", "tasks_of"]


@dataclass(frozen=True)
class Axis:
    """A key of the experiment, written as for ``-o``, and its values."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class GridPoint:
    """One combination: its values by key, and the whole experiment as YAML that loads to the same anywhere."""

    values: dict[str, Any]
    resolved: str

    def text(self) -> str:
        """``key=value, key=value``."""
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


@dataclass(frozen=True)
class SweepTask:
    """One unit to simulate: a point, and a policy at a rung with a seed."""

    point: int
    resolved: str
    key: UnitKey
    version: str = __version__

    @property
    def digest(self) -> str:
        """Hash of all that decides the result: two tasks that are alike are one."""
        text = json.dumps([self.version, self.resolved, self.key.policy, self.key.rung, self.key.seed])
        return hashlib.sha256(text.encode()).hexdigest()


def parse_axis(text: str) -> Axis:
    """``key=[value, value]``; the values are YAML, as in the file.

    Raises:
        ConfigErrors: no list, an empty one, a value twice.
    """
    _, value = parse_override(text)
    key = text.partition("=")[0].strip()
    if not isinstance(value.data, list) or not value.data:
        raise ConfigErrors.single("key=[value, value, ...]", repr(text), path=key or "grid")
    written = [json.dumps(one, sort_keys=True, default=str) for one in value.data]
    if len(set(written)) < len(written):
        raise ConfigErrors.single("every value once", text, path=key)
    return Axis(key, tuple(value.data))


def points_of(base: LoadedExperiment, axes: Sequence[Axis]) -> list[GridPoint]:
    """Every combination of the axes' values, the last axis fastest; checked, and its trace read.

    The experiment's claims and sweeps of its own are left behind: they belong to ``cosim validate``.

    Raises:
        ConfigErrors: every error of every point, under the point's values.
    """
    keys = [axis.key for axis in axes]
    if len(set(keys)) < len(keys):
        raise ConfigErrors.single("every key once", ", ".join(keys), path="grid")
    resolved = resolved_yaml(base.spec)
    errors: list[ConfigError] = []
    points: list[GridPoint] = []
    for values in product(*(axis.values for axis in axes)):
        document = parse_yaml(resolved)
        assert isinstance(document.data, dict)
        for key in ("sweeps", "claims"):
            document.forget((key,))
            document.data.pop(key, None)
        chosen = dict(zip(keys, values, strict=True))
        try:
            apply_overrides(document, [f"{key}={json.dumps(value)}" for key, value in chosen.items()])
            loaded = open_experiment(document.data)
            if loaded.spec.sampling != "none":
                raise ConfigErrors.single("sampling: none", "a sample", path="sampling")
            Setup(loaded).check()
        except ConfigErrors as problems:
            where = ", ".join(f"{key}={value}" for key, value in chosen.items())
            errors += [
                ConfigError(where or None, None, None, error.path, error.expected, error.got, error.suggestion)
                for error in problems.errors
            ]
            continue
        points.append(GridPoint(chosen, resolved_yaml(loaded.spec)))
    if errors:
        raise ConfigErrors(errors)
    return points


def tasks_of(points: Iterable[GridPoint], policies: Sequence[str], rungs: Sequence[str]) -> list[SweepTask]:
    """The units of every point, the longest rungs first; of the given policies and rungs, all if none are given.

    Raises:
        ConfigErrors: a policy or rung that a point does not have.
    """
    found: list[SweepTask] = []
    for number, point in enumerate(points):
        document = parse_yaml(point.resolved)
        assert isinstance(document.data, dict)
        spec = open_experiment(document.data).spec
        titles = [policy.title for policy in spec.policies]
        simulated = simulated_rungs(spec.rungs)
        for name, wanted, known in (("policy", policies, titles), ("rung", rungs, simulated)):
            for one in wanted:
                if one not in known:
                    raise ConfigErrors.single(f"one of {', '.join(known) or 'none'}", repr(one), path=name)
        found += [
            SweepTask(number, point.resolved, UnitKey(title, rung, seed))
            for rung in simulated
            if not rungs or rung in rungs
            for title in titles
            if not policies or title in policies
            for seed in spec.seeds
        ]
    if not found:
        raise ConfigErrors.single("a rung that is simulated", "analytic alone", path="rungs")
    return sorted(found, key=lambda task: (task.key.rung != found[0].key.rung, task.point))
