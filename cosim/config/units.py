"""Quantities with units: a closed table, exact results, nothing guessed.

A quantity is written ``<number> <unit>``, for example ``64 KiB``, ``1.2 GHz``, ``256 GB/s``, ``7000/3 MHz``. Decimal
prefixes are powers of 1000 and binary ones (``Ki`` .. ``Ti``) powers of 1024. ``B`` is a byte and ``b`` a bit; where
one is due the other is refused, never converted. Results are exact: ``int`` bytes, bits, operations and femtoseconds,
``fractions.Fraction`` for everything per second and for energies. Cycles, flits and other counts are bare integers
and have no place here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from cosim.config.errors import closest

__all__ = [
    "BANDWIDTH",
    "BITS",
    "BIT_RATE",
    "BYTES",
    "DIMENSIONS",
    "ENERGY",
    "ENERGY_PER_BIT",
    "ENERGY_PER_OPERATION",
    "FREQUENCY",
    "OPERATIONS",
    "OPERATION_RATE",
    "POWER",
    "TIME",
    "Dimension",
    "UnitError",
    "format_quantity",
    "parse_quantity",
]

INT64_MAX = 2**63 - 1


class UnitError(ValueError):
    """A text that is no quantity of the dimension asked for."""

    def __init__(self, expected: str, got: str, suggestion: str | None = None) -> None:
        self.expected = expected
        self.got = got
        self.suggestion = suggestion
        super().__init__(f"expected {expected}, got {got}" + (f"; {suggestion}" if suggestion else ""))


@dataclass(frozen=True)
class Dimension:
    """A kind of quantity: its units as factors of the base unit, and whether the base counts whole things.

    ``base`` is the unit of the parsed value: bytes, Hz, bytes/s, femtoseconds, operations/s, J, J/b, J/B, J/OP, W.
    """

    name: str
    base: str
    example: str
    units: Mapping[str, Fraction]
    whole: bool
    written: frozenset[str]
    """The units that :func:`format_quantity` may use."""

    @property
    def expected(self) -> str:
        return f"{self.name} with its unit, such as {self.example!r}"


_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SMALL = {"": 0, "m": 3, "u": 6, "µ": 6, "n": 9, "p": 12, "f": 15}


def _large(unit: str, binary: bool = False) -> dict[str, Fraction]:
    table = {prefix + unit: Fraction(factor) for prefix, factor in _DECIMAL.items()}
    table["k" + unit] = Fraction(1000)
    if binary:
        table |= {prefix + unit: Fraction(factor) for prefix, factor in _BINARY.items()}
    return table


def _small(unit: str, base_exponent: int = 0) -> dict[str, Fraction]:
    return {prefix + unit: Fraction(10) ** (base_exponent - exponent) for prefix, exponent in _SMALL.items()}


def _dimension(
    name: str,
    base: str,
    example: str,
    table: Mapping[str, Fraction],
    synonyms: Mapping[str, Fraction] = MappingProxyType({}),
    *,
    whole: bool = False,
) -> Dimension:
    written = frozenset(unit for unit in table if unit.isascii())
    return Dimension(name, base, example, MappingProxyType({**table, **synonyms}), whole, written)


BYTES = _dimension("a size in bytes", "B", "64 KiB", _large("B", binary=True), whole=True)
BITS = _dimension("a size in bits", "b", "128 b", _large("b", binary=True), whole=True)
TIME = _dimension("a time", "fs", "12.5 ns", _small("s", 15), whole=True)
FREQUENCY = _dimension("a frequency", "Hz", "1 GHz", _large("Hz"))
BANDWIDTH = _dimension("a bandwidth in bytes per second", "B/s", "256 GB/s", _large("B/s", binary=True))
BIT_RATE = _dimension("a rate in bits per second", "b/s", "32 Gb/s", _large("b/s", binary=True))
OPERATIONS = _dimension("a number of operations", "OP", "2 GFLOP", _large("FLOP"), _large("OP"), whole=True)
OPERATION_RATE = _dimension("a rate of operations", "OP/s", "4 TFLOP/s", _large("FLOP/s"), _large("OP/s"))
ENERGY = _dimension("an energy", "J", "3 nJ", _small("J"))
ENERGY_PER_BIT = _dimension("an energy per bit", "J/b", "0.5 pJ/b", _small("J/b"))
ENERGY_PER_BYTE = _dimension("an energy per byte", "J/B", "31.8 pJ/B", _small("J/B"))
ENERGY_PER_OPERATION = _dimension("an energy per operation", "J/OP", "0.4 pJ/FLOP", _small("J/FLOP"), _small("J/OP"))
POWER = _dimension("a power", "W", "15 W", {**_large("W"), **_small("W")})

DIMENSIONS = (
    BYTES,
    BITS,
    TIME,
    FREQUENCY,
    BANDWIDTH,
    BIT_RATE,
    OPERATIONS,
    OPERATION_RATE,
    ENERGY,
    ENERGY_PER_BIT,
    ENERGY_PER_BYTE,
    ENERGY_PER_OPERATION,
    POWER,
)

# Spellings people bring along, and what they are called here.
_ALIASES = {
    "byte": "B", "bytes": "B", "bit": "b", "bits": "b", "sec": "s", "second": "s", "seconds": "s",
    "KBytes": "KB", "MBytes": "MB", "GBytes": "GB", "Bps": "B/s", "KBps": "KB/s", "kBps": "KB/s", "MBps": "MB/s",
    "GBps": "GB/s", "TBps": "TB/s", "bps": "b/s", "kbps": "Kb/s", "Mbps": "Mb/s", "Gbps": "Gb/s", "Tbps": "Tb/s",
    "FLOPS": "FLOP/s", "MFLOPS": "MFLOP/s", "GFLOPS": "GFLOP/s", "TFLOPS": "TFLOP/s", "PFLOPS": "PFLOP/s",
    "GOPS": "GOP/s", "TOPS": "TOP/s", "TFLOPs": "TFLOP/s", "pJ/bit": "pJ/b", "fJ/bit": "fJ/b", "nJ/bit": "nJ/b",
    "KiBytes": "KiB", "MiBytes": "MiB", "GiBytes": "GiB", "K": "KB", "M": "MB", "G": "GB", "T": "TB",
    "Ki": "KiB", "Mi": "MiB", "Gi": "GiB", "Ti": "TiB",
}  # fmt: skip

_QUANTITY = re.compile(
    r"\s*(?P<sign>[+-]?)(?P<num>\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE](?P<exp>[+-]?\d{1,2}))?"
    r"(?:/(?P<den>\d{1,40}))?\s*(?P<unit>[^\s\d.][^\s]*)?\s*",
    re.ASCII,
)


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _unit_problem(number: str, unit: str, value: Fraction, dimension: Dimension) -> UnitError:
    alias = _ALIASES.get(unit)
    meant = alias if alias is not None and alias in dimension.units else None
    for other in DIMENSIONS:
        known = unit if unit in other.units else alias if alias is not None and alias in other.units else None
        if meant or known is None or other is dimension:
            continue
        pairs = {("B", "b"), ("b", "B"), ("B/s", "b/s"), ("b/s", "B/s")}
        hint = None
        if (dimension.base, other.base) in pairs:
            exact = value * other.units[known] * (Fraction(1, 8) if other.base.startswith("b") else 8)
            if not dimension.whole or exact.denominator == 1:
                same = format_quantity(int(exact) if dimension.whole else exact, dimension)
                hint = f"a byte has 8 bits: write {same!r} if that is meant"
        return UnitError(dimension.expected, f"{_shown(f'{number} {unit}')}, {other.name}", hint)
    near = meant or closest(unit, dimension.units)
    hint = f"did you mean {f'{number} {near}'!r}?" if near else "units are " + ", ".join(sorted(dimension.units))
    return UnitError(dimension.expected, f"{_shown(f'{number} {unit}')}, whose unit is not known", hint)


def parse_quantity(text: object, dimension: Dimension) -> int | Fraction:
    """The exact value of ``text`` in the base unit of ``dimension``: ``int`` where it counts whole things.

    Raises :class:`UnitError` for a bare number, an unknown unit, a unit of another dimension (bits for bytes), a
    negative value, a fraction of a whole base unit and a whole value beyond 64 bits.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UnitError(dimension.expected, _shown(text))
    if not isinstance(text, str):
        unit = dimension.example.split()[1]
        raise UnitError(
            dimension.expected, f"the bare number {_shown(text)}", f"add the unit, for example '{text} {unit}'"
        )
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(dimension.expected, _shown(text))
    denominator = int(match["den"] or 1)
    if denominator == 0:
        raise UnitError(dimension.expected, f"{_shown(text)}, a division by zero")
    number = Fraction(match["num"] if not match["num"].endswith(".") else match["num"] + "0")
    value = number * Fraction(10) ** int(match["exp"] or 0) / denominator
    unit = match["unit"]
    if unit is None:
        shown = text.strip()
        example = dimension.example.split()[1]
        raise UnitError(
            dimension.expected, f"the bare number {_shown(shown)}", f"add the unit, for example '{shown} {example}'"
        )
    if unit not in dimension.units:
        raise _unit_problem(text.strip()[: -len(unit)].rstrip(), unit, value, dimension)
    if match["sign"] == "-" and value != 0:
        raise UnitError(dimension.expected, f"the negative {_shown(text)}")
    exact = value * dimension.units[unit]
    if not dimension.whole:
        return exact
    if exact.denominator != 1:
        raise UnitError(f"{dimension.name} that is a whole number of {dimension.base}", _shown(text))
    if exact > INT64_MAX:
        raise UnitError(f"{dimension.name} below 2^63 {dimension.base}", _shown(text))
    return int(exact)


def _decimal(value: Fraction) -> str | None:
    """``value`` as a finite decimal, or ``None`` where it has none."""
    twos = fives = 0
    rest = value.denominator
    while rest % 2 == 0:
        rest //= 2
        twos += 1
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    places = max(twos, fives)
    if rest != 1 or places > 40:
        return None
    if places == 0:
        return str(value.numerator)
    digits = str(value.numerator * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def format_quantity(value: int | Fraction, dimension: Dimension) -> str:
    """The shortest text that :func:`parse_quantity` reads back as exactly ``value`` (``value`` ≥ 0, base unit)."""
    exact = Fraction(value)
    if exact < 0:
        raise ValueError(f"a quantity is not negative: {value}")
    base = next(unit for unit, factor in dimension.units.items() if factor == 1 and unit in dimension.written)
    if exact == 0:
        return f"0 {base}"
    texts: list[tuple[int, int, str]] = []
    for order, (unit, factor) in enumerate(dimension.units.items()):
        if unit not in dimension.written:
            continue
        scaled = exact / factor
        number = _decimal(scaled)
        if number is None:
            number = f"{scaled.numerator}/{scaled.denominator}"
        texts.append((len(number) + len(unit), order, f"{number} {unit}"))
    return min(texts)[2]
