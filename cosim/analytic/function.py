"""A user's own analytical model as a Python function: ``analytic: path.py:function``."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cosim.analytic.groups import layer_groups
from cosim.analytic.interface import STAGES, LayerTimes
from cosim.analytic.parameters import Parameters
from cosim.analytic.system import AnalyticSystem, ModelNumbers
from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean

#: ``function(decisions, system, model, **params)`` with the decisions of one layer; returns seconds by
#: stage name, and 'total', one value per (seed, batch) in sorted order.
UserFunction = Callable[..., Mapping[str, object]]


_NO_PARAMETERS = Parameters(())


@dataclass(frozen=True)
class FunctionModel:
    """A user's function behind the AnalyticModel interface; its answer is checked, never repaired."""

    name: str
    paper: str
    function: UserFunction
    params: tuple[tuple[str, object], ...] = ()
    parameters: Parameters = _NO_PARAMETERS

    def layer_times(self, decisions: pd.DataFrame, system: AnalyticSystem, model: ModelNumbers) -> LayerTimes:
        """Call the function; raises ConfigErrors naming it where it fails or its answer is not what was agreed."""
        groups = layer_groups(decisions, system)
        try:
            answer = self.function(decisions, system, model, **dict(self.params))
        except Exception as problem:
            raise self._errors([("a function that runs", f"{type(problem).__name__}: {problem}", None)]) from problem
        if not isinstance(answer, Mapping):
            raise self._errors([("a mapping of stage to seconds", type(answer).__name__, None)])
        known = (*STAGES, "total")
        shape = (groups.unit_count,)
        problems: list[tuple[str, str, str | None]] = []
        arrays = {}
        for name, values in answer.items():
            if name not in known:
                problems.append((f"a stage ({', '.join(known)})", repr(name), did_you_mean(str(name), known)))
                continue
            try:
                array = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                problems.append((f"numbers in seconds for {name}", repr(values), None))
                continue
            if array.shape != shape:
                problems.append((f"one {name} per (seed, batch), shape {shape}", str(array.shape), None))
            elif not bool(np.isfinite(array).all()) or bool((array < 0).any()):
                problems.append((f"finite seconds of at least 0 for {name}", f"{float(array.min())!r}", None))
            else:
                arrays[name] = array
        if "total" not in answer:
            problems.append(("the stage 'total'", "none", None))
        if problems:
            raise self._errors(problems)
        total = arrays.pop("total")
        return LayerTimes(groups.units, arrays, total)

    def _errors(self, problems: list[tuple[str, str, str | None]]) -> ConfigErrors:
        return ConfigErrors([ConfigError(self.paper, None, None, "", *problem) for problem in problems])


def load_function(spec: str, folder: Path, params: Mapping[str, object]) -> FunctionModel:
    """The model of ``path.py:function``; a relative path counts from ``folder``. Runs the file.

    Raises ConfigErrors where the file, or the function in it, is not there or cannot be imported.
    """
    file, _, name = spec.rpartition(":")
    path = folder / file
    if not file.endswith(".py") or not name.isidentifier():
        raise ConfigErrors.single("'path.py:function'", repr(spec))
    if not path.is_file():
        raise ConfigErrors.single("a Python file", "no such file", file=str(path))
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    module_spec = importlib.util.spec_from_file_location(f"cosim_user_{digest}", path)
    if module_spec is None or module_spec.loader is None:
        raise ConfigErrors.single("a Python file", "a file Python cannot import", file=str(path))
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except SyntaxError as problem:
        raise ConfigErrors.single("valid Python", problem.msg, file=str(path), line=problem.lineno) from None
    except Exception as problem:
        raise ConfigErrors.single(
            "a file that imports", f"{type(problem).__name__}: {problem}", file=str(path)
        ) from problem
    function = getattr(module, name, None)
    if not callable(function):
        found = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ConfigErrors.single(
            f"a function {name!r}", "none of that name", file=str(path), suggestion=did_you_mean(name, found)
        )
    try:
        inspect.signature(function).bind(None, None, None, **params)
    except TypeError as problem:
        expected = f"{name}(decisions, system, model" + "".join(f", {key}=" for key in params) + ")"
        raise ConfigErrors.single(expected, str(problem), file=str(path)) from None
    given = ", ".join(f"{key}={value}" for key, value in params.items())
    return FunctionModel(f"{name}({given})" if given else name, f"{file}:{name}", function, tuple(params.items()))
