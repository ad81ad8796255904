"""Finished units on disk, so that an interrupted validation goes on where it stopped.

A unit's folder is named by the hash of everything that decides its result: the resolved experiment, the unit, the
version. Only plain data is written: Parquet and JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from cosim import __version__
from cosim.report.directory import write_atomically
from cosim.run.checkpoint import UnusableStateError, load_state, record_from_json, record_to_json, save_state
from cosim.run.loop import RunLoop
from cosim.run.skipping import SkipReport
from cosim.run.unit import FRAME_NAMES, UnitKey, UnitResult

__all__ = ["UnitStore"]

_DONE = "unit.json"
_STATE = ".state"
_SECONDS_BETWEEN_STATES = 30.0


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
            return UnitResult(
                key,
                frames,
                dict(facts["figures"]),
                record_from_json(facts["record"]),
                SkipReport(**facts["skipped"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
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
            facts = {"figures": result.figures, "record": record_to_json(result.record)}
            facts["skipped"] = asdict(result.skipped)
            (partial / _DONE).write_text(json.dumps(facts), encoding="utf-8")
            shutil.rmtree(path, ignore_errors=True)
            partial.rename(path)
            path.with_suffix(_STATE).unlink(missing_ok=True)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def resume(self, key: UnitKey, loop: RunLoop) -> None:
        """Takes up the unit's last saved state, if there is one, and lets the loop save its state now and then.

        How often depends on the clock, what the run gives does not. A state of another version is no state: the unit
        begins anew.
        """
        path = self._path(key)
        if path is None:
            return
        state = path.with_suffix(_STATE)
        if state.is_file():
            with contextlib.suppress(UnusableStateError):
                load_state(loop, state.read_bytes())
        saved = time.monotonic()

        def keep(running: RunLoop) -> None:
            nonlocal saved
            if time.monotonic() - saved < _SECONDS_BETWEEN_STATES:
                return
            state.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(state, save_state(running))
            saved = time.monotonic()

        loop.between_layers = keep
