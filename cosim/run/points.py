"""The points of an experiment's sweeps: the base experiment with some keys changed, each checked like the base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.load import resolved_yaml
from cosim.config.loader import Document, dotted, parse_yaml
from cosim.config.overrides import apply_overrides
from cosim.config.schema_experiment import ExperimentSpec, PointSpec, PolicySpec, SweepSpec
from cosim.run.setup import Setup
from cosim.system import LoadedExperiment, open_experiment

__all__ = ["Point", "base_value", "sweep_points"]


@dataclass(frozen=True)
class Point:
    """One point of one axis, ready to run; ``at`` is its number, ``None`` where it has a name."""

    axis: str
    label: str
    at: float | None
    setup: Setup
    resolved: str

    @property
    def title(self) -> str:
        """``axis=label``."""
        return f"{self.axis}={self.label}"


def sweep_points(loaded: LoadedExperiment) -> list[Point]:
    """Every point of every sweep, in the order of the file.

    Raises:
        ConfigErrors: every error of every point, under ``sweeps.<axis>.<point>``.
    """
    errors: list[ConfigError] = []
    found: list[Point] = []
    for axis, sweep in loaded.spec.sweeps.items():
        for point in sweep.listed():
            try:
                at_point = _open(loaded.spec, sweep, point)
            except ConfigErrors as problems:
                for error in problems.errors:
                    path = ".".join(part for part in ("sweeps", axis, point.label, error.path) if part)
                    errors.append(ConfigError(None, None, None, path, error.expected, error.got, error.suggestion))
                continue
            found.append(Point(axis, point.label, point.at, Setup(at_point), resolved_yaml(at_point.spec)))
    if errors:
        raise ConfigErrors(errors)
    return found


def base_value(spec: ExperimentSpec, axis: str) -> float | None:
    """Where the base stands on a numeric axis; ``None`` on an axis of names, or where nothing says."""
    sweep = spec.sweeps[axis]
    if sweep.base is not None or sweep.key is None:
        return sweep.base
    data = parse_yaml(resolved_yaml(spec)).data
    for part in sweep.key.split("."):
        data = data[int(part)] if isinstance(data, list) else data.get(part) if isinstance(data, Mapping) else None
    return float(data) if isinstance(data, (int, float)) and not isinstance(data, bool) else None


def _open(spec: ExperimentSpec, sweep: SweepSpec, point: PointSpec) -> LoadedExperiment:
    document = parse_yaml(resolved_yaml(spec.alone()))
    assert isinstance(document.data, dict)
    apply_overrides(document, [f"{key}={json.dumps(value)}" for key, value in point.set.items()])
    titles = [policy.title for policy in spec.policies]
    listed = _listed(document)
    changed = [PolicySpec.model_validate(item).title for item in listed]
    if changed != titles:
        raise ConfigErrors.single(
            "policies of the base experiment's titles: " + ", ".join(titles), ", ".join(changed), path="policies"
        )
    kept = [item for item, title in zip(listed, titles, strict=True) if not sweep.policies or title in sweep.policies]
    document.set(("policies",), kept)
    return open_experiment(document.data)


def _listed(document: Document) -> list[Any]:
    policies = document.get(("policies",))
    if not isinstance(policies, list):
        raise ConfigErrors.single("a list", repr(policies), path=dotted(("policies",)))
    return policies
