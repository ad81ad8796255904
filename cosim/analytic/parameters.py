"""Named parameters of an analytical model: every constant carries its unit and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of


@dataclass(frozen=True)
class Parameter:
    """One constant or named reading of a model.

    ``value`` is a float in ``unit`` or, when ``choices`` is not empty, one of the names in it.
    ``source`` says where the default is printed; ``assumed`` is true when the paper prints no value,
    and then ``source`` says why this one was taken.
    """

    name: str
    value: float | str
    unit: str
    meaning: str
    source: str
    assumed: bool = False
    choices: tuple[str, ...] = ()
    minimum: float = 0.0
    maximum: float = math.inf
    whole: bool = False

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else f"{self.value:g}"
        unit = f" {self.unit}" if self.unit not in ("", "1") else ""
        choices = f" (of {', '.join(self.choices)})" if self.choices else ""
        kind = "assumed" if self.assumed else "source"
        return f"{value}{unit}{choices}; {self.meaning}; {kind}: {self.source}"


#: Source of a value that the user set.
USER = "set by the user"


class Parameters(Mapping[str, Parameter]):
    """An ordered, immutable set of parameters; ``number`` and ``choice`` read one by its kind."""

    def __init__(self, items: Iterable[Parameter]) -> None:
        table: dict[str, Parameter] = {}
        for item in items:
            if item.name in table:
                raise ValueError(f"parameter {item.name!r} is declared twice")
            if not _fits(item, item.value):
                raise ValueError(f"parameter {item.name!r}: default {item.value!r} is outside its own range")
            table[item.name] = item
        self._table = MappingProxyType(table)

    def __getitem__(self, name: str) -> Parameter:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __hash__(self) -> int:
        return hash(tuple(self._table.values()))

    def number(self, name: str) -> float:
        """The value of a numeric parameter in its declared unit."""
        value = self._table[name].value
        if isinstance(value, str):
            raise TypeError(f"parameter {name!r} is a choice, not a number")
        return value

    def choice(self, name: str) -> str:
        """The chosen name of a parameter with ``choices``."""
        value = self._table[name].value
        if not isinstance(value, str):
            raise TypeError(f"parameter {name!r} is a number, not a choice")
        return value

    def variant(self, name: str) -> str:
        """``name``, followed by what the user set: two variants of a model are two models."""
        changed = [
            f"{item.name}={item.value if isinstance(item.value, str) else format(item.value, 'g')}"
            for item in self._table.values()
            if item.source == USER
        ]
        return f"{name}({', '.join(changed)})" if changed else name

    def override(
        self, model: str, values: Mapping[str, object], read_only_with: Mapping[str, tuple[str, str]] | None = None
    ) -> Parameters:
        """A copy with some values replaced by the user's.

        ``read_only_with`` maps a parameter to the choice without which no equation reads it.

        Raises ConfigErrors that lists every unknown name (with the nearest known one), every value of the
        wrong type or outside its range, and every value that would not be read.
        """
        errors: list[ConfigError] = []
        table = dict(self._table)
        for name, value in values.items():
            path = f"analytic.{model}.params.{name}"
            known = table.get(name)
            if known is None:
                expected = "a parameter of the model, " + one_of(list(self._table))
                errors.append(
                    ConfigError(None, None, None, path, expected, repr(name), did_you_mean(str(name), self._table))
                )
            elif not _fits(known, value):
                hint = did_you_mean(value, known.choices) if isinstance(value, str) else None
                errors.append(ConfigError(None, None, None, path, _expected(known), repr(value), hint))
            elif isinstance(value, str):
                table[name] = replace(known, value=value, source=USER, assumed=False)
            elif isinstance(value, (int, float)):
                table[name] = replace(known, value=float(value), source=USER, assumed=False)
        for name, (other, choice) in (read_only_with or {}).items():
            if name in values and table[other].value != choice:
                path = f"analytic.{model}.params.{name}"
                expected = f"none unless {other} is {choice!r}, which alone reads it"
                errors.append(ConfigError(None, None, None, path, expected, "it"))
        if errors:
            raise ConfigErrors(errors)
        return Parameters(table.values())


def _fits(parameter: Parameter, value: object) -> bool:
    if parameter.choices:
        return isinstance(value, str) and value in parameter.choices
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    if parameter.whole and value % 1:
        return False
    return parameter.minimum <= value <= parameter.maximum


def _expected(parameter: Parameter) -> str:
    if parameter.choices:
        return one_of(parameter.choices)
    kind = "a whole number" if parameter.whole else "a number"
    return f"{kind} of {parameter.unit} from {parameter.minimum:g} to {parameter.maximum:g}"
