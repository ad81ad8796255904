"""Placement files: ``cosim place search`` writes them, the policy ``placed`` reads them; a hash covers the content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cosim.config import presets
from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.placement.shares import ExpertShares, FloatArray, IntArray

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec

__all__ = ["PlacementFile", "load_placement", "whole_neurons", "write_placement"]

SCHEMA = 1
_KEYS = ("schema", "model", "nodes", "experts", "neurons", "made_by", "report", "layers", "sha256")


def whole_neurons(shares: FloatArray, neurons: int) -> IntArray:
    """Shares as whole neurons of the hidden layer, by largest remainder; every share keeps at least one.

    Args:
        shares: shape (experts, nodes), rows sum to one.
        neurons: of an expert.

    Raises ConfigErrors where an expert has more holders than neurons.
    """
    result = np.zeros(shares.shape, dtype=np.int64)
    for expert, row in enumerate(shares):
        held = np.flatnonzero(row > 0)
        if len(held) > neurons:
            raise ConfigErrors.single(
                f"at most {neurons} holders of an expert with {neurons} neurons",
                f"{len(held)}",
                path=f"expert {expert}",
            )
        exact = row[held] * ((neurons - len(held)) / row[held].sum())
        floor = np.floor(exact + 1e-9).astype(np.int64)
        order = np.lexsort((held, -(exact - floor)))
        floor[order[: neurons - len(held) - int(floor.sum())]] += 1
        result[expert, held] = floor + 1
    return result


@dataclass(frozen=True, eq=False)
class PlacementFile:
    """A placement as its file holds it.

    neurons: of every expert on every node (compute endpoints in the order of the system), int64, shape (layers,
        experts, nodes); a map is already applied.
    made_by: the command, the method and everything that the result depends on.
    report:  what the search printed, a line a layer.
    """

    model: str
    width: int
    neurons: IntArray
    made_by: Mapping[str, Any]
    report: Sequence[str]
    source: str = "placement"

    @property
    def shares(self) -> ExpertShares:
        """The same as shares."""
        return ExpertShares(self.neurons / self.width, None, self.source)

    def check(self, model: ModelSpec, nodes: int) -> None:
        """Raises ConfigErrors that lists where the file does not fit the model or the number of compute endpoints."""
        errors = []
        layers, experts, held = self.neurons.shape
        for path, expected, got in (
            ("model", repr(model.name), repr(self.model)),
            ("layers", f"{model.moe_layers} MoE layers", str(layers)),
            ("experts", f"{model.experts} experts", str(experts)),
            ("neurons", f"{model.moe_intermediate} neurons an expert", str(self.width)),
            ("nodes", f"{nodes} compute endpoints, as the system has", str(held)),
        ):
            known = expected.split()[0]
            if known != got and not (path == "model" and model.name is None):
                errors.append(ConfigError(self.source, None, None, path, expected, got))
        if errors:
            raise ConfigErrors(errors)

    def document(self) -> dict[str, Any]:
        """The file's content, its hash last."""
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "model": self.model,
            "nodes": int(self.neurons.shape[2]),
            "experts": int(self.neurons.shape[1]),
            "neurons": self.width,
            "made_by": dict(self.made_by),
            "report": list(self.report),
            "layers": [
                [[[int(node), int(row[node])] for node in np.flatnonzero(row)] for row in layer]
                for layer in self.neurons
            ],
        }
        return {**content, "sha256": _hash(content)}


def write_placement(placement: PlacementFile, path: str | os.PathLike[str]) -> str:
    """Writes a file that :func:`load_placement` reads; returns its hash. An existing file is replaced when the new one
    is whole."""
    document = placement.document()
    lines = [f"{json.dumps(key)}: {json.dumps(document[key])}" for key in _KEYS if key not in ("layers", "report")]
    lines.insert(-1, '"report": [\n' + ",\n".join(json.dumps(line) for line in document["report"]) + "\n]")
    lines.insert(-1, '"layers": [\n' + ",\n".join(json.dumps(layer) for layer in document["layers"]) + "\n]")
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return str(document["sha256"])


def load_placement(reference: str | os.PathLike[str]) -> PlacementFile:
    """Reads a placement file by shipped name or path.

    Raises:
        ConfigErrors: no such file, not JSON, keys that are missing or unknown, another hash than the content's, parts
            that do not add up; every finding, each layer named.
    """
    path = presets.find("placements", os.fspath(reference), path="placement")
    source = str(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ConfigErrors.single("a placement file (JSON)", str(problem), file=source) from None
    if not isinstance(document, dict):
        raise ConfigErrors.single("a JSON object", type(document).__name__, file=source)
    errors = [
        ConfigError(source, None, None, key, one_of(_KEYS), repr(key), did_you_mean(key, _KEYS))
        for key in document
        if key not in _KEYS
    ]
    errors += [ConfigError(source, None, None, key, "this key", "none") for key in _KEYS if key not in document]
    if not errors and document["schema"] != SCHEMA:
        errors.append(ConfigError(source, None, None, "schema", str(SCHEMA), repr(document["schema"])))
    if errors:
        raise ConfigErrors(errors)
    content = {key: document[key] for key in _KEYS if key != "sha256"}
    if _hash(content) != document["sha256"]:
        raise ConfigErrors.single(
            "the hash of the file's content, " + _hash(content),
            str(document["sha256"]),
            file=source,
            path="sha256",
            suggestion="the file was changed after 'cosim place search' wrote it; make it again",
        )
    return PlacementFile(
        str(document["model"]),
        int(document["neurons"]),
        _neurons(document, source),
        dict(document["made_by"]),
        [str(line) for line in document["report"]],
        source,
    )


def _neurons(document: Mapping[str, Any], source: str) -> npt.NDArray[np.int64]:
    width, nodes, experts = (int(document[key]) for key in ("neurons", "nodes", "experts"))
    layers = document["layers"]
    errors: list[ConfigError] = []
    result = np.zeros((len(layers), experts, nodes), dtype=np.int64)
    for layer, rows in enumerate(layers):
        if len(rows) != experts:
            errors.append(ConfigError(source, None, None, f"layer {layer}", f"{experts} experts", str(len(rows))))
            continue
        for expert, parts in enumerate(rows):
            where = f"layer {layer}, expert {expert}"
            for node, held in parts:
                if not 0 <= node < nodes or held < 1 or result[layer, expert, node]:
                    expected = f"parts [node below {nodes}, neurons of at least 1], each node once"
                    errors.append(ConfigError(source, None, None, where, expected, str([node, held])))
                else:
                    result[layer, expert, node] = held
            if int(result[layer, expert].sum()) != width:
                got = str(int(result[layer, expert].sum()))
                errors.append(ConfigError(source, None, None, where, f"parts of {width} neurons together", got))
    if errors:
        raise ConfigErrors(errors)
    return result


def _hash(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
