"""A user's own analytical figures from a CSV file: ``analytic: {table: results.csv}``."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from cosim.analytic.quantities import Quantity, quantity, quantity_names
from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of

#: Columns of the file, in any order; no other is allowed.
COLUMNS = ("policy", "layer", "quantity", "value", "unit")

MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Figure:
    """One row: ``value`` is in the unit of ``quantity``; ``layer`` is None for 'all'."""

    policy: str
    layer: int | None
    quantity: Quantity
    value: float
    line: int

    @property
    def metric(self) -> str:
        """Metric name; a figure of one layer carries it, as in ``layer_latency_mean[layer=3]``."""
        return self.quantity.name if self.layer is None else f"{self.quantity.name}[layer={self.layer}]"


@dataclass(frozen=True)
class FigureTable:
    """Published figures of one analytical model, known by the file's stem."""

    name: str
    figures: tuple[Figure, ...]

    def policies(self) -> list[str]:
        """Policies with a figure, in order of appearance."""
        return list(dict.fromkeys(figure.policy for figure in self.figures))


def read_table(path: Path) -> FigureTable:
    """Read a CSV file with a header line (UTF-8, comma separated).

    ``layer`` is a layer number or ``all``; ``quantity`` a metric name such as layer_latency_p95,
    stage_memory_mean or bytes_weight; ``unit`` any time, size or energy unit, ``1`` for a ratio.

    Raises:
        ConfigErrors: every bad cell with its line; unknown, missing or repeated columns; two rows for
            the same policy, layer and quantity; a file without rows.
    """
    text = _read(path)
    rows = _records(path, text)
    if not rows:
        raise ConfigErrors.single(f"a header line {','.join(COLUMNS)}", "an empty file", file=str(path))
    header_line, header = rows[0]
    errors = _header_errors(path, header_line, header)
    if errors:
        raise ConfigErrors(errors)
    figures: list[Figure] = []
    first: dict[tuple[str, int | None, str], int] = {}
    for line, cells in rows[1:]:
        if len(cells) != len(header):
            errors.append(_error(path, line, "", f"{len(header)} cells", f"{len(cells)}"))
            continue
        figure = _figure(path, line, dict(zip(header, (cell.strip() for cell in cells), strict=True)), errors)
        if figure is None:
            continue
        key = (figure.policy, figure.layer, figure.quantity.name)
        if key in first:
            where = f"{figure.metric} of {figure.policy!r} again (first on line {first[key]})"
            errors.append(_error(path, line, "quantity", "one figure per policy, layer and quantity", where))
        else:
            first[key] = line
            figures.append(figure)
    if not figures and not errors:
        errors.append(_error(path, header_line, "", "at least one figure below the header", "none"))
    if errors:
        raise ConfigErrors(errors)
    return FigureTable(path.stem, tuple(figures))


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigErrors.single("a file", "no such file", file=str(path)) from None
    except OSError as problem:
        raise ConfigErrors.single("a readable file", problem.strerror or str(problem), file=str(path)) from None
    if len(raw) > MAX_BYTES:
        raise ConfigErrors.single(f"at most {MAX_BYTES} bytes", f"{len(raw)}", file=str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        raise ConfigErrors.single(
            "UTF-8 text", f"the byte 0x{raw[problem.start]:02x}", file=str(path), line=line
        ) from None


def _records(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Non-blank records with the line each starts on."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    records: list[tuple[int, list[str]]] = []
    start = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return records
        except csv.Error as problem:
            raise ConfigErrors.single("valid CSV", str(problem), file=str(path), line=reader.line_num) from None
        if any(cell.strip() for cell in cells):
            records.append((start, cells))
        start = reader.line_num + 1


def _header_errors(path: Path, line: int, header: list[str]) -> list[ConfigError]:
    header[:] = [name.strip() for name in header]
    errors = []
    for name in header:
        if name not in COLUMNS:
            errors.append(
                _error(path, line, name, "a column, " + one_of(COLUMNS), repr(name), did_you_mean(name, COLUMNS))
            )
    for name in COLUMNS:
        if header.count(name) > 1:
            errors.append(_error(path, line, name, "each column once", f"{header.count(name)} of it"))
        elif name not in header:
            errors.append(_error(path, line, name, f"the column {name!r}", "none"))
    return errors


def _figure(path: Path, line: int, cell: dict[str, str], errors: list[ConfigError]) -> Figure | None:
    before = len(errors)
    if not cell["policy"]:
        errors.append(_error(path, line, "policy", "a policy name", "nothing"))
    layer: int | None = None
    if cell["layer"] != "all":
        if cell["layer"].isascii() and cell["layer"].isdigit():
            layer = int(cell["layer"])
        else:
            errors.append(_error(path, line, "layer", "a layer number or 'all'", repr(cell["layer"])))
    known: Quantity | None = None
    try:
        known = quantity(cell["quantity"])
    except KeyError:
        names = quantity_names()
        errors.append(
            _error(
                path, line, "quantity", "a metric name", repr(cell["quantity"]), did_you_mean(cell["quantity"], names)
            )
        )
    try:
        value = float(cell["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        errors.append(_error(path, line, "value", "a finite number, 0 or more", repr(cell["value"])))
    if known is not None:
        try:
            value = known.from_unit(value, cell["unit"])
        except KeyError:
            hint = did_you_mean(cell["unit"], known.units())
            errors.append(_error(path, line, "unit", f"a unit of {known.name}", repr(cell["unit"]), hint))
    if len(errors) > before or known is None:
        return None
    return Figure(cell["policy"], layer, known, value, line)


def _error(path: Path, line: int, column: str, expected: str, got: str, suggestion: str | None = None) -> ConfigError:
    return ConfigError(str(path), line, None, column, expected, got, suggestion)
