"""What a sweep leaves behind, written run by run so that it can be taken up again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from cosim.config.dump import dump_yaml
from cosim.config.errors import ConfigErrors
from cosim.noc.sweep import Sweep, SweepPoint

__all__ = ["SweepDirectory"]

CONFIG, RUNS, METRICS, PAGE = "config.resolved.yaml", "sweep.csv", "metrics.json", "sweep.html"
COLUMNS = [f.name for f in fields(SweepPoint)]
_READ: dict[str, Callable[[str], Any]] = {"float": float, "int": int, "bool": lambda text: text == "True"}


class SweepDirectory:
    """A folder with the network and traffic of a sweep and the runs that ended.

    Args:
        path: made when missing.
        resolved: the file of the sweep.

    Raises:
        ConfigErrors: the folder holds a sweep of another file.
    """

    def __init__(self, path: Path, resolved: Mapping[str, Any]) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        text = dump_yaml(resolved)
        config = path / CONFIG
        if config.exists() and config.read_text(encoding="utf-8") != text:
            raise ConfigErrors.single(
                "a new folder, or one with a sweep of the same file", "a sweep of another one", file=str(path)
            )
        _replace(config, text)
        self.known = self._read()
        self._kept = dict(self.known)

    def _read(self) -> dict[float, SweepPoint]:
        file = self.path / RUNS
        if not file.exists():
            return {}
        kinds = {f.name: _READ[str(f.type)] for f in fields(SweepPoint)}
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        points = [SweepPoint(**{key: kinds[key](row[key]) for key in COLUMNS}) for row in rows]
        return {point.injection_rate: point for point in points}

    def add(self, point: SweepPoint) -> None:
        """Keep a run."""
        self._kept[point.injection_rate] = point
        self._write(tuple(self._kept[rate] for rate in sorted(self._kept)))

    def finish(self, found: Sweep, page: str) -> None:
        """Write what the sweep found: its own runs only, the figures, the page."""
        self._write(found.points)
        rows = [
            {"metric": "zero_load_latency_cycles", "unit": "cycles", "value": found.zero_load_latency_cycles},
            *(
                {"metric": name, "unit": "flits/node/cycle", "value": value if value == value else None}
                for name, value in (
                    ("knee_rate", found.knee_rate),
                    ("saturation_rate", found.saturation_rate),
                    ("largest_accepted_rate", found.largest_accepted_rate),
                )
            ),
        ]
        _replace(self.path / METRICS, json.dumps({"schema": 1, "rows": rows}, indent=1) + "\n")
        _replace(self.path / PAGE, page)

    def _write(self, points: tuple[SweepPoint, ...]) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([getattr(point, key) for key in COLUMNS] for point in points)
        _replace(self.path / RUNS, text.getvalue())


def _replace(path: Path, text: str) -> None:
    """The file whole or not at all, whatever happens meanwhile."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
