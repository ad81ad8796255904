"""Schema types for quantities: a text with a unit in the file, an exact number in the spec."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from cosim.config import units
from cosim.config.spec import refuse

__all__ = [
    "BareOrBytes",
    "ByteCount",
    "BytesPerSecond",
    "Energy",
    "EnergyPerBit",
    "EnergyPerByte",
    "EnergyPerOperation",
    "Femtoseconds",
    "Frequency",
    "OperationRate",
    "Power",
]


@dataclass(frozen=True, eq=False)
class _Quantity:
    """How a quantity of a dimension is read, written and described to editors.

    Args:
        zero: whether zero is a value.
        bare: whether a count without a unit is one too, for keys that end in their unit.
    """

    dimension: units.Dimension
    zero: bool = False
    bare: bool = False

    def read(self, value: Any) -> int | Fraction:
        if self.bare and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        try:
            result = units.parse_quantity(value, self.dimension)
        except units.UnitError as problem:
            raise refuse(problem.expected, problem.got, problem.suggestion) from None
        if result == 0 and not self.zero:
            raise refuse(f"{self.dimension.name} above zero", repr(value))
        return result

    def write(self, value: int | Fraction) -> str:
        return units.format_quantity(value, self.dimension)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.write)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        longest_first = sorted(self.dimension.units, key=lambda unit: (-len(unit), unit))
        text = {
            "type": "string",
            "pattern": rf"^\s*[0-9.][0-9.eE+/-]*\s*({'|'.join(longest_first)})\s*$",
            "description": self.dimension.expected,
            "examples": [self.dimension.example],
        }
        return {"anyOf": [text, {"type": "integer", "minimum": 0}]} if self.bare else text


ByteCount = Annotated[int, _Quantity(units.BYTES)]
BareOrBytes = Annotated[int, _Quantity(units.BYTES, zero=True, bare=True)]
Femtoseconds = Annotated[int, _Quantity(units.TIME, zero=True)]
Frequency = Annotated[Fraction, _Quantity(units.FREQUENCY)]
BytesPerSecond = Annotated[Fraction, _Quantity(units.BANDWIDTH)]
OperationRate = Annotated[Fraction, _Quantity(units.OPERATION_RATE)]
Energy = Annotated[Fraction, _Quantity(units.ENERGY, zero=True)]
EnergyPerBit = Annotated[Fraction, _Quantity(units.ENERGY_PER_BIT, zero=True)]
EnergyPerByte = Annotated[Fraction, _Quantity(units.ENERGY_PER_BYTE, zero=True)]
EnergyPerOperation = Annotated[Fraction, _Quantity(units.ENERGY_PER_OPERATION, zero=True)]
Power = Annotated[Fraction, _Quantity(units.POWER)]
