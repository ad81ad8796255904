"""The ground of every schema: strict, frozen, no unknown keys, and checks that report each finding at its key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic import ValidationError as PydanticValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError
from typing_extensions import Self

from cosim.config.errors import did_you_mean, one_of
from cosim.config.loader import KeyPath

__all__ = ["IndexSet", "Indices", "Items", "Kinds", "Name", "Problem", "Reference", "ShortSpec", "Spec", "refuse"]

_Item = TypeVar("_Item")


def refuse(expected: str, got: str, suggestion: str | None = None) -> PydanticCustomError:
    """The error a validator raises: what was expected, what came, and the fix where one is known."""
    return PydanticCustomError(
        "cosim", "expected {expected}, got {got}", {"expected": expected, "got": got, "suggestion": suggestion}
    )


@dataclass(frozen=True)
class Problem:
    """A finding of a check: where (relative to the checked spec), what was expected, what came."""

    path: KeyPath
    expected: str
    got: str
    suggestion: str | None = None


class Spec(BaseModel):
    """Base of the schemas. A subclass checks what spans several keys in :meth:`problems`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)

    def problems(self) -> Iterator[Problem]:
        """Findings that need more than one key of this spec."""
        return iter(())

    @classmethod
    def salvage(cls, value: Mapping[str, Any]) -> Iterator[Problem]:
        """Findings over several keys that can still be told when some part of ``value`` is invalid by itself."""
        return iter(())

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            spec = handler(value)
        except PydanticValidationError as error:
            details = error.errors(include_url=False)
            unknown = {detail["loc"] for detail in details if detail["type"] == "extra_forbidden"}
            if not isinstance(value, Mapping):
                raise
            if len(unknown) == len(details) and all(len(loc) == 1 for loc in unknown):
                # Unknown keys alone hinder no check: look at the rest without them.
                problems = list(handler({key: part for key, part in value.items() if (key,) not in unknown}).problems())
            else:
                problems = list(cls.salvage(value))
            if not problems:
                raise
            found = [_again(detail) for detail in details]
        else:
            problems, found = list(spec.problems()), []
        found += [
            InitErrorDetails(
                type=refuse(problem.expected, problem.got, problem.suggestion), loc=problem.path, input=None
            )
            for problem in problems
        ]
        if found:
            raise PydanticValidationError.from_exception_data(cls.__name__, found)
        return spec


def _again(detail: Any) -> InitErrorDetails:
    """A finding of pydantic as one that can be raised once more."""
    kind: Any = detail["type"]
    context = detail.get("ctx", {})
    if kind == "cosim":
        kind = refuse(context["expected"], context["got"], context["suggestion"])
    again = InitErrorDetails(type=kind, loc=detail["loc"], input=detail["input"])
    if context:
        again["ctx"] = context
    return again


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Items = Annotated[tuple[_Item, ...], BeforeValidator(_as_tuple)]
"""A list in the file, a tuple in the spec."""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise refuse("a name of letters, digits, '_' and '-'", repr(value))
    return value


Name = Annotated[str, PlainValidator(_name), WithJsonSchema({"type": "string", "pattern": rf"^{_NAME.pattern}$"})]
"""A name that can stand in a key path."""


@dataclass(frozen=True)
class IndexSet:
    """Indices as a user writes them: ``all``, ``3``, ``0-63``, ``0-3,8-11`` or a list of numbers.

    ``ranges`` are inclusive, ascending and disjoint; ``None`` stands for all.
    """

    ranges: tuple[tuple[int, int], ...] | None

    EXPECTED = "indices such as 5, '0-63', '0-3,8-11', [0, 2] or all"

    @classmethod
    def parse(cls, value: Any) -> IndexSet:
        """Read ``value`` as written in a file.

        Raises:
            PydanticCustomError: no indices, a range that runs backwards, an index given twice.
        """
        if isinstance(value, IndexSet):
            return value
        if value == "all":
            return cls(None)
        pairs: list[tuple[int, int]] = []
        if isinstance(value, int) and not isinstance(value, bool):
            parts: list[Any] = [value]
        elif isinstance(value, str):
            parts = [part.strip() for part in value.split(",")]
        elif isinstance(value, list):
            parts = value
        else:
            raise refuse(cls.EXPECTED, repr(value))
        for part in parts:
            if isinstance(part, int) and not isinstance(part, bool) and part >= 0:
                pairs.append((part, part))
                continue
            match = re.fullmatch(r"(\d{1,18})(?:\s*-\s*(\d{1,18}))?", part, re.ASCII) if isinstance(part, str) else None
            if match is None:
                raise refuse(cls.EXPECTED, repr(value))
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise refuse("a range that runs upwards", repr(part), f"did you mean '{last}-{first}'?")
            pairs.append((first, last))
        if not pairs:
            raise refuse("at least one index", "an empty list")
        pairs.sort()
        merged = [pairs[0]]
        for first, last in pairs[1:]:
            if first <= merged[-1][1]:
                raise refuse("each index once", f"index {first} twice in {value!r}")
            if first == merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], last)
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    def __str__(self) -> str:
        if self.ranges is None:
            return "all"
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ranges)

    @property
    def last(self) -> int | None:
        """The largest index, ``None`` for all."""
        return None if self.ranges is None else self.ranges[-1][1]

    def __contains__(self, index: int) -> bool:
        return self.ranges is None or any(first <= index <= last for first, last in self.ranges)

    def beyond(self, count: int) -> list[tuple[int, int]]:
        """The ranges of indices that are not below ``count``."""
        return [(max(first, count), last) for first, last in self.ranges or () if last >= count]

    def overlaps(self, other: IndexSet) -> bool:
        """Whether some index is in both."""
        if self.ranges is None or other.ranges is None:
            return True
        return any(a <= d and c <= b for a, b in self.ranges for c, d in other.ranges)

    def indices(self, count: int) -> list[int]:
        """The indices below ``count``; those of a list that lie beyond it raise ``IndexError``."""
        if self.ranges is None:
            return list(range(count))
        if self.ranges[-1][1] >= count:
            raise IndexError(f"index {self.ranges[-1][1]} is not below {count}")
        return [index for first, last in self.ranges for index in range(first, last + 1)]


def _plain(value: IndexSet) -> str | int:
    text = str(value)
    return int(text) if text.isdigit() else text


_INDICES_JSON = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": r"^(all|[0-9]+(\s*-\s*[0-9]+)?(\s*,\s*[0-9]+(\s*-\s*[0-9]+)?)*)$"},
        {"type": "array", "minItems": 1, "items": {"type": ["integer", "string"]}},
    ],
    "description": IndexSet.EXPECTED,
}

Indices = Annotated[IndexSet, PlainValidator(IndexSet.parse), PlainSerializer(_plain), WithJsonSchema(_INDICES_JSON)]


class Reference:
    """Marks a spec that a file may give by name or path: its keys are read in before it is checked."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(schema)]}


class ShortSpec(Spec):
    """A spec that a file may also write as one string."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        full = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "minLength": 1}, dict(full)]}


class Kinds:
    """A value whose keys depend on its kind: the kind is looked up first, then its own schema checks the rest.

    Args:
        what: the word for it in errors ("topology").
        key: the key that names the kind.
        table: kind → schema, or → a reason why the kind is refused. A callable, so that plug-ins load when needed.
    """

    def __init__(self, what: str, key: str, table: Callable[[], Mapping[str, type[Spec] | str]]) -> None:
        self.what = what
        self.key = key
        self.table = table

    def schema_of(self, value: Any) -> type[Spec] | None:
        """The schema that ``value`` chooses, if it chooses one."""
        kind = value.get(self.key) if isinstance(value, Mapping) else None
        found = self.table().get(kind) if isinstance(kind, str) else None
        return found if isinstance(found, type) else None

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        options = [option for option in self.table().values() if isinstance(option, type)]
        return {"anyOf": [handler(option.__pydantic_core_schema__) for option in options]}

    def build(self, value: Any) -> Any:
        """The validated spec of the kind that ``value`` names."""
        if isinstance(value, Spec):
            return value
        table = self.table()
        supported = [name for name, schema in table.items() if isinstance(schema, type)]
        if not isinstance(value, Mapping):
            raise refuse(f"a mapping with '{self.key}' ({one_of(supported)})", repr(value))
        kind = value.get(self.key)
        if kind is None:
            self._raise(self.what, (), f"the key '{self.key}' ({one_of(supported)})", "none")
        schema = table.get(kind) if isinstance(kind, str) else None
        if schema is None:
            hint = did_you_mean(kind, supported) if isinstance(kind, str) else None
            self._raise(self.what, (self.key,), one_of(supported), repr(kind), hint)
        if isinstance(schema, str):
            self._raise(self.what, (self.key,), one_of(supported), repr(kind), schema)
        assert isinstance(schema, type)
        return schema.model_validate(value)

    @staticmethod
    def _raise(title: str, loc: KeyPath, expected: str, got: str, suggestion: str | None = None) -> None:
        raise PydanticValidationError.from_exception_data(
            title, [InitErrorDetails(type=refuse(expected, got, suggestion), loc=loc, input=None)]
        )


def duplicates(values: Sequence[Any]) -> Iterator[int]:
    """The positions whose value came before."""
    seen: list[Any] = []
    for position, value in enumerate(values):
        if value in seen:
            yield position
        seen.append(value)
