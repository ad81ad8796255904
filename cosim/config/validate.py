"""From values with places to a checked spec, or to every error with its file, line, column and key path."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean
from cosim.config.loader import Document, KeyPath
from cosim.config.spec import Kinds, Spec

__all__ = ["findings", "validate"]

_SpecT = TypeVar("_SpecT", bound=Spec)

_EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a string",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "none_required": "nothing",
}


def shown(value: Any) -> str:
    """A value as the errors print it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _quoted_choices(expected: str) -> list[str]:
    return [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]


def _schema_at(annotation: Any, path: KeyPath, value: Any) -> type[BaseModel] | None:
    """The schema of the mapping at ``path``, following the kinds that ``value`` chooses."""
    metadata: tuple[Any, ...] = ()
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        metadata = (*metadata, *more)
    for item in metadata:
        if isinstance(item, Kinds):
            annotation = item.schema_of(value) or annotation
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for option in get_args(annotation):
            found = _schema_at(option, path, value)
            if found is not None:
                return found
        return None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not path:
            return annotation
        field = annotation.model_fields.get(str(path[0]))
        if field is None:
            return None
        inner = field.annotation
        for item in field.metadata:
            inner = Annotated[inner, item]  # type: ignore[assignment]
        below = value.get(path[0]) if isinstance(value, Mapping) else None
        return _schema_at(inner, path[1:], below)
    if not path:
        return None
    below = None
    if isinstance(value, Mapping):
        below = value.get(path[0])
    elif isinstance(value, list) and isinstance(path[0], int) and path[0] < len(value):
        below = value[path[0]]
    arguments = get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
        return _schema_at(arguments[1], path[1:], below)
    if origin in (tuple, list) and arguments:
        return _schema_at(arguments[0], path[1:], below)
    return None


def _unknown_key(schema: type[BaseModel] | None, key: str) -> tuple[str, str | None]:
    if schema is None:
        return "no such key", None
    names = [field.alias or name for name, field in schema.model_fields.items()]
    hint = did_you_mean(key, names)
    if hint:
        return "a key of the schema", hint
    return f"one of the keys {', '.join(names)}" if names else "no keys", None


def _finding(document: Document, prefix: KeyPath, detail: Any, schema: type[BaseModel]) -> ConfigError:
    loc: KeyPath = tuple(part for part in detail["loc"] if part != "[key]")
    path = prefix + loc
    # A shorthand such as `routing: dor` is one value in the file: its parts have no path of their own.
    while len(path) > len(prefix) and isinstance(document.get(path[:-1]), (str, int, float)):
        path = path[:-1]
    at_key = "[key]" in detail["loc"]
    kind = detail["type"]
    context = detail.get("ctx") or {}
    value = detail["input"]
    if kind == "cosim":
        return document.error(path, context["expected"], context["got"], context["suggestion"], key=at_key)
    if kind == "extra_forbidden":
        key = str(loc[-1])
        parent = _schema_at(schema, loc[:-1], document.get(prefix))
        expected, hint = _unknown_key(parent, key)
        return document.error(path, expected, f"the unknown key {key!r}", hint, key=True)
    if kind == "missing":
        return document.error(path[:-1], f"the key {loc[-1]!r}", "no such key")
    if kind == "literal_error":
        choices = _quoted_choices(str(context["expected"]))
        hint = did_you_mean(value, choices) if isinstance(value, str) else None
        expected = f"one of {', '.join(choices)}" if len(choices) > 1 else repr(choices[0])
        return document.error(path, expected, shown(value), hint)
    if kind in _EXPECTED:
        return document.error(path, _EXPECTED[kind], shown(value))
    bounds = {
        "greater_than": ("a number above {gt}", "gt"),
        "greater_than_equal": ("a number of at least {ge}", "ge"),
        "less_than": ("a number below {lt}", "lt"),
        "less_than_equal": ("a number of at most {le}", "le"),
    }
    if kind in bounds:
        text, name = bounds[kind]
        return document.error(path, text.format(**{name: context[name]}), shown(value))
    if kind == "too_short":
        return document.error(path, f"at least {context['min_length']} of them", str(context["actual_length"]))
    if kind == "too_long":
        return document.error(path, f"at most {context['max_length']} of them", str(context["actual_length"]))
    if kind == "string_too_short":
        return document.error(path, "a text that is not empty", shown(value))
    return document.error(path, typing.cast(str, detail["msg"]), shown(value))


def findings(
    error: ValidationError, schema: type[BaseModel], document: Document, prefix: KeyPath = ()
) -> list[ConfigError]:
    """The findings of a pydantic error, placed in ``document`` below ``prefix``, in the order of the file."""
    found = [_finding(document, prefix, detail, schema) for detail in error.errors(include_url=False)]
    return in_file_order(found)


def in_file_order(found: list[ConfigError]) -> list[ConfigError]:
    """Findings sorted by file, line and column; files in the order of their first finding."""
    files = list(dict.fromkeys(error.file for error in found))
    return sorted(found, key=lambda error: (files.index(error.file), error.line or 0, error.column or 0))


def validate(schema: type[_SpecT], document: Document, prefix: KeyPath = ()) -> _SpecT:
    """Check the values of ``document`` below ``prefix`` against ``schema``.

    Raises:
        ConfigErrors: every error, with file, line, column, key path, what was expected, what came, the nearest name.
    """
    value = document.get(prefix)
    if not isinstance(value, Mapping):
        raise ConfigErrors([document.error(prefix, "a mapping of keys to values", shown(value))])
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise ConfigErrors(findings(error, schema, document, prefix)) from None
