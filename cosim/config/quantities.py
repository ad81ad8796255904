"""Schema types for quantities: a text with a unit in the file, an exact number in the spec."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from cosim.config import units
from cosim.config.spec import refuse

__all__ = [
    "BareOrBytes",
    "ByteCount",
    "BytesPerSecond",
    "EnergyPerBit",
    "EnergyPerOperation",
    "Femtoseconds",
    "Frequency",
    "OperationRate",
]


def _reader(dimension: units.Dimension, zero: bool) -> Callable[[Any], int | Fraction]:
    def read(value: Any) -> int | Fraction:
        try:
            result = units.parse_quantity(value, dimension)
        except units.UnitError as problem:
            raise refuse(problem.expected, problem.got, problem.suggestion) from None
        if result == 0 and not zero:
            raise refuse(f"{dimension.name} above zero", repr(value))
        return result

    return read


def _writer(dimension: units.Dimension) -> Callable[[int | Fraction], str]:
    return lambda value: units.format_quantity(value, dimension)


def _bare_or_bytes(value: Any) -> int | Fraction:
    # The key itself ends in its unit, so a bare count of bytes is as clear as a quantity.
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return _reader(units.BYTES, zero=True)(value)


def _json(dimension: units.Dimension, bare: bool = False) -> WithJsonSchema:
    """What editors are told: a text that ends in one of the units."""
    longest_first = sorted(dimension.units, key=lambda unit: (-len(unit), unit))
    text = {
        "type": "string",
        "pattern": rf"^\s*[0-9.][0-9.eE+/-]*\s*({'|'.join(longest_first)})\s*$",
        "description": dimension.expected,
        "examples": [dimension.example],
    }
    return WithJsonSchema({"anyOf": [text, {"type": "integer", "minimum": 0}]} if bare else text)


ByteCount = Annotated[
    int, PlainValidator(_reader(units.BYTES, False)), PlainSerializer(_writer(units.BYTES)), _json(units.BYTES)
]
BareOrBytes = Annotated[
    int, PlainValidator(_bare_or_bytes), PlainSerializer(_writer(units.BYTES)), _json(units.BYTES, bare=True)
]
Femtoseconds = Annotated[
    int, PlainValidator(_reader(units.TIME, True)), PlainSerializer(_writer(units.TIME)), _json(units.TIME)
]
Frequency = Annotated[
    Fraction,
    PlainValidator(_reader(units.FREQUENCY, False)),
    PlainSerializer(_writer(units.FREQUENCY)),
    _json(units.FREQUENCY),
]
BytesPerSecond = Annotated[
    Fraction,
    PlainValidator(_reader(units.BANDWIDTH, False)),
    PlainSerializer(_writer(units.BANDWIDTH)),
    _json(units.BANDWIDTH),
]
OperationRate = Annotated[
    Fraction,
    PlainValidator(_reader(units.OPERATION_RATE, False)),
    PlainSerializer(_writer(units.OPERATION_RATE)),
    _json(units.OPERATION_RATE),
]
EnergyPerBit = Annotated[
    Fraction,
    PlainValidator(_reader(units.ENERGY_PER_BIT, True)),
    PlainSerializer(_writer(units.ENERGY_PER_BIT)),
    _json(units.ENERGY_PER_BIT),
]
EnergyPerOperation = Annotated[
    Fraction,
    PlainValidator(_reader(units.ENERGY_PER_OPERATION, True)),
    PlainSerializer(_writer(units.ENERGY_PER_OPERATION)),
    _json(units.ENERGY_PER_OPERATION),
]
