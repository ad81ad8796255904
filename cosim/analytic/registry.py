"""Analytical models by name: built in, from installed packages, from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from cosim.analytic.comoe import CoMoE, CoMoEReconstructed
from cosim.analytic.function import load_function
from cosim.analytic.hcrmap import HCRMap
from cosim.analytic.interface import AnalyticModel
from cosim.analytic.table import FigureTable, read_table
from cosim.config.errors import ConfigErrors, did_you_mean, one_of

#: Entry-point group; each entry is a factory like those of BUILTIN.
ENTRY_POINT_GROUP = "cosim.analytic_models"

#: Name to factory: takes the parameters that the user sets, returns the model.
BUILTIN: Mapping[str, Callable[[Mapping[str, object]], AnalyticModel]] = {
    "comoe": CoMoE.with_parameters,
    "comoe_reconstructed": CoMoEReconstructed.with_parameters,
    "hcrmap": HCRMap.with_parameters,
}


def model_names() -> list[str]:
    """Names that ``load_analytic`` knows, sorted; nothing is imported."""
    return sorted({*BUILTIN, *_installed()})


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


def _by_name(name: str, values: Mapping[str, object]) -> AnalyticModel:
    factory = BUILTIN.get(name)
    if factory is None:
        entry = _installed().get(name)
        if entry is None:
            names = model_names()
            raise ConfigErrors.single(
                "an analytical model, " + one_of(names),
                repr(name),
                path="analytic",
                suggestion=did_you_mean(name, names),
            )
        try:
            factory = entry.load()
        except Exception as problem:
            raise ConfigErrors.single(
                f"the plug-in {name!r} ({entry.value}) to import",
                f"{type(problem).__name__}: {problem}",
                path="analytic",
            ) from problem
    model = factory(values)
    if not isinstance(model, AnalyticModel):
        raise ConfigErrors.single(
            f"{name!r} to make an analytical model (name, paper, parameters, layer_times)",
            type(model).__name__,
            path="analytic",
        )
    return model


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
