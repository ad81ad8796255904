"""HD-MoE's result files (github.com/angerybob/HD-MoE, ``evaluation/results/*.json``) as one frame."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd

from cosim.config.errors import ConfigError, ConfigErrors

__all__ = ["METHODS", "read_results"]

#: Methods by the name of their entry; each has communication, computation and latency in microseconds.
METHODS = (
    "TP",
    "EP",
    "compute_balancing",
    "node_balancing",
    "link_balancing",
    "node_link_balancing",
    "static_deployment",
    "dynamic_deployment",
    "pre_broadcasting",
)
_NUMBERS = ("communication_us", "computation_us", "latency_us")


def read_results(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Reads one result file.

    Returns:
        One row per entry and method: row (position in the file), model, dataset, rows, columns (of the mesh), nodes,
        rate_FLOPps, bandwidth_Bps, batch (missing where the entry states none), method, communication_us,
        computation_us, latency_us, and other_us: latency less both, which no text of the paper names.

    Raises:
        ConfigErrors: not JSON, or entries without these keys; every entry that is wrong.
    """
    source = str(path)
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ConfigErrors.single("a JSON list of results", str(problem), file=source) from None
    if not isinstance(entries, list):
        raise ConfigErrors.single("a JSON list of results", type(entries).__name__, file=source)
    errors: list[ConfigError] = []
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(entries):
        try:
            rows += _rows(number, entry)
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            expected = f"config and methods with {', '.join(_NUMBERS)}"
            got = f"{type(problem).__name__}: {problem}"
            errors.append(ConfigError(source, None, None, f"entry {number}", expected, got))
    if errors:
        raise ConfigErrors(errors)
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def _rows(number: int, entry: dict[str, Any]) -> list[dict[str, Any]]:
    config = entry["config"]
    mesh_rows, mesh_columns = (int(size) for size in config["mesh_shape"])
    shared = {
        "row": number,
        "model": str(config["model"]),
        "dataset": str(config["dataset"]),
        "rows": mesh_rows,
        "columns": mesh_columns,
        "nodes": mesh_rows * mesh_columns,
        "rate_FLOPps": float(config["comp_TFLOPS"]) * 1e12,
        "bandwidth_Bps": float(config["BW_GBPS"]) * 1e9,
        "batch": int(config["batch"]) if "batch" in config else None,
    }
    found = []
    for method in METHODS:
        if method in entry:
            values = {name: float(entry[method][name]) for name in _NUMBERS}
            other = values["latency_us"] - values["communication_us"] - values["computation_us"]
            found.append({**shared, "method": method, **values, "other_us": other})
    if not found:
        raise ValueError("no known method")
    return found
