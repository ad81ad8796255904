"""Analytical models by name, from installed packages or from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cosim.analytic.function import load_function
from cosim.analytic.interface import AnalyticModel
from cosim.analytic.table import FigureTable, read_table
from cosim.config.errors import ConfigError, ConfigErrors
from cosim.plugins import registry

#: Kind of plug-in. An entry point of the group cosim.analytic_models is a class with a class method
#: ``with_parameters(values)`` that returns an AnalyticModel.
KIND = "analytic_models"


def model_names() -> list[str]:
    """Names that ``load_analytic`` knows, sorted; nothing is imported."""
    return registry.names(KIND)


def load_analytic(spec: object, folder: Path = Path()) -> AnalyticModel | FigureTable:
    """The model of one entry of an experiment's ``analytic:`` list.

    ``spec`` is a name, ``path.py:function``, ``{table: file.csv}``, ``{name: ..., params: {...}}`` or
    ``{function: path.py:function, params: {...}}``; relative paths count from ``folder``.

    Raises:
        ConfigErrors: an unknown name (with the nearest known one), a bad parameter, a bad file.
    """
    if isinstance(spec, str):
        return load_function(spec, folder, {}) if ".py:" in spec else _by_name(spec, {})
    if isinstance(spec, Mapping):
        kind = next((key for key in ("table", "name", "function") if isinstance(spec.get(key), str)), "")
        values = spec.get("params", {})
        if kind == "table" and set(spec) == {"table"}:
            return read_table(folder / spec["table"])
        if kind in ("name", "function") and set(spec) <= {kind, "params"} and isinstance(values, Mapping):
            return _by_name(spec["name"], values) if kind == "name" else load_function(spec["function"], folder, values)
    expected = "a model's name, path.py:function, {table: results.csv} or {name: ..., params: {...}}"
    raise ConfigErrors.single(expected, repr(spec), path="analytic")


def load_all(specs: Sequence[object], folder: Path = Path()) -> dict[str, AnalyticModel | FigureTable]:
    """Every entry of an ``analytic:`` list by its name, in the order of the list.

    Raises:
        ConfigErrors: the errors of all entries, and entries that share a name.
    """
    errors: list[ConfigError] = []
    entries: dict[str, AnalyticModel | FigureTable] = {}
    for position, spec in enumerate(specs):
        try:
            entry = load_analytic(spec, folder)
        except ConfigErrors as found:
            errors += found.errors
            continue
        if entry.name in entries:
            path = f"analytic.{position}"
            errors.append(ConfigError(None, None, None, path, "models of different names", f"{entry.name!r} again"))
        entries[entry.name] = entry
    if errors:
        raise ConfigErrors(errors)
    return entries


def _by_name(name: str, values: Mapping[str, object]) -> AnalyticModel:
    plugin = registry.find(KIND, name)
    factory = getattr(plugin.load(), "with_parameters", None)
    model = factory(values) if callable(factory) else None
    if not isinstance(model, AnalyticModel):
        raise ConfigErrors.single(
            f"{plugin.value} to have with_parameters(values), which makes a model with layer_times",
            "no such model" if model is None else type(model).__name__,
            path="analytic",
        )
    return model
