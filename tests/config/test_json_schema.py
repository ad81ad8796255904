"""The JSON schemas for editors accept what the loader accepts, and refuse its plain mistakes."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from cosim.config import load_hardware, load_model, load_yaml, presets
from cosim.config.schema_experiment import ExperimentSpec
from cosim.config.schema_hardware import HardwareSpec
from cosim.config.schema_model import ModelSpec

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
CHECKED = frozenset(
    [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "patternProperties",
        "anyOf",
        "$ref",
        "enum",
        "const",
        "items",
        "minItems",
        "maxItems",
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "maxProperties",
        "minProperties",
    ]
)
IGNORED = frozenset(["title", "description", "default", "examples", "$defs"])


def fits(value: Any, schema: Any, root: dict[str, Any]) -> bool:
    """Whether ``value`` satisfies the keywords of JSON schema 2020-12 that our schemas use; an unknown one fails."""
    if isinstance(schema, bool):
        return schema
    unknown = set(schema) - CHECKED - IGNORED
    assert not unknown, unknown
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if not fits(value, root["$defs"][name], root):
            return False
    if "anyOf" in schema and not any(fits(value, option, root) for option in schema["anyOf"]):
        return False
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(
            isinstance(value, TYPES[kind]) and not (isinstance(value, bool) and kind != "boolean") for kind in kinds
        ):
            return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if any(key not in value for key in schema.get("required", [])):
            return False
        if any(key in value and not fits(value[key], part, root) for key, part in properties.items()):
            return False
        patterns = schema.get("patternProperties", {})
        for key in value.keys() - properties.keys():
            matching = [part for pattern, part in patterns.items() if re.search(pattern, key)]
            rest = matching or [schema.get("additionalProperties", True)]
            if not all(fits(value[key], part, root) for part in rest):
                return False
        if not all(fits(key, schema.get("propertyNames", True), root) for key in value):
            return False
        return schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value))
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        return all(fits(item, schema.get("items", True), root) for item in value)
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0) and bool(re.search(schema.get("pattern", ""), value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (
            schema.get("minimum", value) <= value <= schema.get("maximum", value)
            and not value <= schema.get("exclusiveMinimum", value - 1)
            and not value >= schema.get("exclusiveMaximum", value + 1)
        )
    return True


SCHEMAS = {"experiments": ExperimentSpec, "hardware": HardwareSpec, "models": ModelSpec}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in SCHEMAS for name in presets.names(kind)])
def test_shipped_files_fit(kind: str, name: str) -> None:
    schema = SCHEMAS[kind].model_json_schema()
    assert fits(load_yaml(presets.find(kind, name)).data, schema, schema)


@pytest.mark.parametrize("loaded", [load_hardware("package-4x4"), load_model("deepseek-v3")], ids=["hardware", "model"])
def test_resolved_files_fit(loaded: Any) -> None:
    schema = type(loaded.spec).model_json_schema()
    assert fits(loaded.spec.model_dump(mode="json", exclude_none=True), schema, schema)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("levels", "package", "clock"), 1),
        (("levels", "package", "flit_width"), "64 b"),
        (("levels", "package", "num_vsc"), 4),
        (("levels", "package", "topology", "kind"), "mehs"),
        (("levels", "package", "topology", "shape"), 4),
        (("levels", "package", "link_latency"), 0),
        (("endpoints", "expert", "at", "package"), "7-"),
        (("gateways",), {"g": {}}),
        (("tiers", "hbm", "capacity"), 5),
    ],
)
def test_plain_mistakes_do_not_fit(path: tuple[str, ...], value: Any) -> None:
    schema = HardwareSpec.model_json_schema()
    data = copy.deepcopy(load_yaml(presets.find("hardware", "package-4x4")).data)
    parent = data
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = value
    assert not fits(data, schema, schema)
