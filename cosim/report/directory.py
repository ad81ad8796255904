"""The run directory: what a run writes, how it is kept whole, and how it is read back.

Every file appears under its name only when it is complete: it is written beside it, flushed to the disk and renamed.
A directory whose run has not ended well holds a file `incomplete` that says why. `metrics.json`, `claims.json`,
`info.json` and the frames hold no time of day, host, path or file name, so the same configuration and seeds give the
same bytes; whatever else is worth knowing about the run is in `provenance.json`.

A full disk and any other failure of the host surfaces as OSError, with the earlier version of the file left in place.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import platform
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cosim import __version__
from cosim.config.errors import ConfigError, ConfigErrors
from cosim.report.contents import FRAMES, METRICS, FrameSpec, RunContents, RunInfo, canonical

CONFIG = "config.resolved.yaml"
PROVENANCE = "provenance.json"
METRICS_JSON = "metrics.json"
CLAIMS_JSON = "claims.json"
INFO_JSON = "info.json"
REPORT_HTML = "report.html"
TRACE_JSON = "trace.json.gz"
INCOMPLETE = "incomplete"

_FRAME_FILES = tuple(f"{spec.name}.parquet" for spec in FRAMES)
_OWN_FILES = (CONFIG, PROVENANCE, METRICS_JSON, CLAIMS_JSON, INFO_JSON, *_FRAME_FILES, REPORT_HTML, TRACE_JSON)
T = TypeVar("T")

_MARK = "This cosim run did not finish."
_TEMPORARY = ".cosim-partial-"


def json_bytes(data: object) -> bytes:
    """JSON with sorted keys, one space of indent and a final newline; numbers that are no number raise ValueError."""
    return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def metrics_json(metrics: pd.DataFrame) -> bytes:
    """The bytes of `metrics.json`: schema 1, one row per metric, null where a value could not be given."""
    rows = []
    for record in canonical(metrics, METRICS).to_dict("records"):
        row: dict[str, Any] = {str(key): value for key, value in record.items()}
        for name in ("value", "ci_low", "ci_high"):
            number = float(row[name])
            row[name] = None if math.isnan(number) else number
        row["n"] = int(row["n"])
        rows.append(row)
    return json_bytes({"schema": 1, "rows": rows})


def claims_json(claims: Sequence[Mapping[str, Any]]) -> bytes:
    """The bytes of `claims.json`: schema 1, the judged claims in their file's order."""
    return json_bytes({"schema": 1, "claims": [dict(claim) for claim in claims]})


def parquet_bytes(frame: pd.DataFrame, spec: FrameSpec) -> bytes:
    """The bytes of a frame's Parquet file: fixed columns, types, order, compression and metadata."""
    tidy = canonical(frame, spec)
    kinds = {"text": pa.string(), "count": pa.int64(), "real": pa.float64()}
    columns = spec.columns(tidy)
    schema = pa.schema(
        [pa.field(name, kinds[kind], nullable=kind == "real") for name, kind in columns],
        metadata={"cosim.frame": spec.name, "cosim.schema": "1"},
    )
    arrays = [pa.array(tidy[name].to_numpy(), type=kinds[kind], from_pandas=kind == "real") for name, kind in columns]
    buffer = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema), buffer, compression="zstd", row_group_size=1 << 20, version="2.6"
    )
    return buffer.getvalue()


def write_atomically(path: Path, data: bytes) -> None:
    """Puts `data` at `path` in one step: a reader sees the old bytes or all of the new ones. Raises OSError."""
    partial = path.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}")
    try:
        with open(partial, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes in hexadecimal, for the plug-ins and traces that provenance names."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


class RunDirectory:
    """A directory that one run writes into; use it as a context manager.

    While the block runs the directory is marked incomplete. Leaving it normally removes the mark; leaving it by an
    exception, Ctrl-C included, keeps everything written so far and writes the reason into the mark.
    """

    def __init__(self, path: str | os.PathLike[str], config: str, *, replace: bool = False) -> None:
        """Takes hold of `path` for the run of the resolved configuration `config` (YAML text).

        The directory may be absent, empty, or hold a run of the very same configuration, which is then done again or
        carried on. Raises ConfigErrors for a directory with other things in it, and for a run of another configuration
        unless `replace` is set.
        """
        self.path = Path(path)
        self._started = _now()
        self._refuse_foreign()
        present = self.path / CONFIG
        other = present.exists() and present.read_text(encoding="utf-8") != config
        if other and not replace:
            raise ConfigErrors.single(
                "a new directory or one with a run of the same configuration",
                "a run of another configuration",
                file=str(self.path),
                suggestion="name another directory or remove this one",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self._mark("It was started and has not ended.")
        if other:
            for name in _OWN_FILES:
                (self.path / name).unlink(missing_ok=True)
        self._sweep_partials()
        self.write_text(CONFIG, config)

    def _refuse_foreign(self) -> None:
        if not self.path.exists():
            return
        wanted = "an empty directory or one written by cosim"
        if not self.path.is_dir():
            raise ConfigErrors.single(wanted, "a file", file=str(self.path))
        names = sorted(entry.name for entry in self.path.iterdir())
        if not names or is_run_directory(self.path):
            return
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise ConfigErrors.single(wanted, f"one that holds {shown}", file=str(self.path))

    def _sweep_partials(self) -> None:
        for left_over in self.path.glob(f"{_TEMPORARY}*"):
            left_over.unlink(missing_ok=True)

    def _mark(self, reason: str) -> None:
        self.write_text(INCOMPLETE, f"{_MARK}\n{reason}\n")

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes one file of the directory atomically."""
        if Path(name).name != name:
            raise ValueError(f"expected a plain file name, got {name!r}")
        write_atomically(self.path / name, data)

    def write_text(self, name: str, text: str) -> None:
        """Writes one file of the directory atomically, as UTF-8."""
        self.write_bytes(name, text.encode())

    def write_provenance(
        self, seeds: Iterable[int], plugins: Mapping[str, str], extra: Mapping[str, Any] | None = None
    ) -> None:
        """Writes `provenance.json`: versions, host, paths and times; `plugins` maps a name to the SHA-256 of its file.

        `extra` holds further facts that may differ from host to host, such as wall times and input paths.
        """
        self.write_bytes(
            PROVENANCE,
            json_bytes(
                {
                    "schema": 1,
                    "tool": "cosim",
                    "version": __version__,
                    "python": sys.version.split()[0],
                    "packages": _versions(),
                    "platform": platform.platform(),
                    "machine": platform.machine(),
                    "host": socket.gethostname(),
                    "path": str(self.path.resolve()),
                    "command": list(sys.argv),
                    "started": self._started,
                    "ended": _now(),
                    "seeds": list(seeds),
                    "plugins": dict(plugins),
                    **(extra or {}),
                }
            ),
        )

    def write_contents(self, contents: RunContents) -> None:
        """Writes the metrics, claims, facts and frames of a run."""
        for spec in FRAMES:
            self.write_bytes(f"{spec.name}.parquet", parquet_bytes(getattr(contents, spec.name), spec))
        self.write_bytes(METRICS_JSON, metrics_json(contents.metrics))
        self.write_bytes(CLAIMS_JSON, claims_json(contents.claims))
        self.write_bytes(INFO_JSON, json_bytes(contents.info.to_json()))

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            (self.path / INCOMPLETE).unlink(missing_ok=True)
            return
        # The mark written at the start stands if this fails too, as it will on a full disk.
        with contextlib.suppress(OSError):
            self._mark(_reason(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "It was interrupted by the user (Ctrl-C)."
    text = f"{type(error).__name__}: {error}".strip().rstrip(":")
    if isinstance(error, (OSError, MemoryError)):
        return f"The host failed: {text}"
    return f"It failed: {text}"


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in ("numpy", "pandas", "pyarrow", "scipy", "matplotlib", "jinja2"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def is_run_directory(path: str | os.PathLike[str]) -> bool:
    """Whether cosim wrote the directory: it holds cosim's provenance or cosim's mark of an unfinished run."""
    folder = Path(path)
    mark = folder / INCOMPLETE
    try:
        if mark.is_file() and mark.read_text(encoding="utf-8").startswith(_MARK):
            return True
        provenance = folder / PROVENANCE
        return provenance.is_file() and _load_json(provenance).get("tool") == "cosim"
    except ValueError:
        return False


def incomplete_reason(path: str | os.PathLike[str]) -> str | None:
    """Why a run directory is incomplete, in one sentence; None for a complete one."""
    mark = Path(path) / INCOMPLETE
    if not mark.exists():
        return None
    lines = mark.read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip() for line in lines[1:] if line.strip()) or "no reason was written"


def _load_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigErrors.single("JSON", str(error), file=str(path)) from error
    if not isinstance(data, dict):
        raise ConfigErrors.single("a JSON object", type(data).__name__, file=str(path))
    return data


def _schema_one(path: Path, key: str) -> list[dict[str, Any]]:
    data = _load_json(path)
    if data.get("schema") != 1 or not isinstance(data.get(key), list):
        raise ConfigErrors.single(f"schema 1 with a list {key!r}", f"schema {data.get('schema')!r}", file=str(path))
    rows: list[dict[str, Any]] = data[key]
    return rows


def _read_info(path: Path) -> RunInfo:
    data = _load_json(path)
    try:
        return RunInfo.from_json(data)
    except (ValueError, TypeError) as error:
        raise ConfigErrors.single("the facts of a run", str(error), file=str(path)) from error


def _read_frame(path: Path, spec: FrameSpec) -> pd.DataFrame:
    try:
        frame = pq.ParquetFile(path).read().to_pandas()
        # Text comes back as plain objects, whatever string type pandas prefers.
        text: pd.DataFrame = frame.astype({name: object for name, kind in (*spec.key, *spec.values) if kind == "text"})
    except (pa.ArrowInvalid, pa.ArrowKeyError, KeyError) as error:
        raise ConfigErrors.single(f"the frame {spec.name}", str(error), file=str(path)) from error
    return text


def read_contents(path: str | os.PathLike[str]) -> RunContents:
    """Reads a run directory back.

    Raises ConfigErrors that name every file that is missing or not as it was written.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ConfigErrors.single("a run directory", "a file" if folder.exists() else "nothing", file=str(folder))
    missing = [name for name in (INFO_JSON, METRICS_JSON, CLAIMS_JSON, *_FRAME_FILES) if not (folder / name).is_file()]
    if missing:
        reason = incomplete_reason(folder) if is_run_directory(folder) else None
        raise ConfigErrors.single(
            "a complete run directory", f"one without {', '.join(missing)}", file=str(folder), suggestion=reason
        )
    errors: list[ConfigError] = []

    def collect(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except ConfigErrors as found:
            errors.extend(found.errors)
            return None

    frames = {spec.name: collect(partial(_read_frame, folder / f"{spec.name}.parquet", spec)) for spec in FRAMES}
    info = collect(partial(_read_info, folder / INFO_JSON))
    claims = collect(partial(_schema_one, folder / CLAIMS_JSON, "claims"))
    collect(partial(_schema_one, folder / METRICS_JSON, "rows"))
    if errors or info is None or claims is None:
        raise ConfigErrors(errors)
    try:
        kept: dict[str, Any] = {name: frame for name, frame in frames.items() if frame is not None}
        contents = RunContents(info=info, claims=claims, **kept)
    except ValueError as error:
        raise ConfigErrors(
            ConfigError(str(folder), None, None, "", "the contents of a run", line) for line in str(error).splitlines()
        ) from error
    if metrics_json(contents.metrics) != (folder / METRICS_JSON).read_bytes():
        raise ConfigErrors.single(
            "the rows of metrics.parquet", "other rows: one of the two was changed", file=str(folder / METRICS_JSON)
        )
    return contents
