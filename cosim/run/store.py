"""Finished units on disk, so that an interrupted validation goes on where it stopped.

A unit's folder is named by the hash of everything that decides its result: the resolved experiment, the unit, the
version. Only plain data is written: Parquet and JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cosim import __version__
from cosim.policy.base import ActionKind, Prefetch, ResidencyAction, Revoke
from cosim.run.recording import DecisionRecord, LayerDecision
from cosim.run.unit import FRAME_NAMES, UnitKey, UnitResult

__all__ = ["UnitStore"]

_DONE = "unit.json"


class UnitStore:
    """The units of one resolved experiment under ``folder``; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, resolved: str) -> None:
        self._folder = folder
        self._resolved = resolved

    def _path(self, key: UnitKey) -> Path | None:
        if self._folder is None:
            return None
        text = json.dumps([__version__, self._resolved, asdict(key)], sort_keys=True)
        return self._folder / hashlib.sha256(text.encode()).hexdigest()[:24]

    def load(self, key: UnitKey) -> UnitResult | None:
        """The finished unit, or ``None``; one that cannot be read whole is run again."""
        path = self._path(key)
        if path is None or not (path / _DONE).is_file():
            return None
        try:
            facts = json.loads((path / _DONE).read_text(encoding="utf-8"))
            frames = {name: pd.read_parquet(path / f"{name}.parquet") for name in FRAME_NAMES}
            return UnitResult(key, frames, dict(facts["figures"]), _record_of(facts["record"]))
        except (OSError, ValueError, KeyError):
            return None

    def save(self, result: UnitResult) -> None:
        """Keeps a finished unit; it is there as a whole or not at all. Raises OSError when the disk does."""
        path = self._path(result.key)
        if path is None:
            return
        partial = path.with_name(f".{path.name}-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            for name, frame in result.frames.items():
                frame.to_parquet(partial / f"{name}.parquet", index=False)
            facts = {"figures": result.figures, "record": _record_json(result.record)}
            (partial / _DONE).write_text(json.dumps(facts), encoding="utf-8")
            shutil.rmtree(path, ignore_errors=True)
            partial.rename(path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _record_json(record: DecisionRecord) -> dict[str, Any]:
    return {
        "layers": [
            [batch, layer, [_action_json(a) for a in decision.actions], decision.replicas.tolist(), decision.cost_fs]
            for (batch, layer), decision in record.layers.items()
        ],
        "windows": [[window, [_action_json(a) for a in actions]] for window, actions in record.windows.items()],
    }


def _action_json(action: Prefetch | Revoke | ResidencyAction) -> dict[str, Any]:
    fields = asdict(action)
    if isinstance(action, ResidencyAction):
        fields["kind"] = action.kind.value
    return {"type": type(action).__name__, **fields}


def _action_of(data: Mapping[str, Any]) -> Any:
    fields = {name: value for name, value in data.items() if name != "type"}
    if data["type"] == "ResidencyAction":
        return ResidencyAction(**{**fields, "kind": ActionKind(fields["kind"])})
    return {"Prefetch": Prefetch, "Revoke": Revoke}[data["type"]](**fields)


def _record_of(data: Mapping[str, Any]) -> DecisionRecord:
    record = DecisionRecord()
    for batch, layer, actions, replicas, cost in data["layers"]:
        decision = LayerDecision(tuple(_action_of(a) for a in actions), np.array(replicas, dtype=np.int32), cost)
        record.add(batch, layer, decision)
    for window, actions in data["windows"]:
        record.add_window(window, tuple(_action_of(a) for a in actions))
    return record
