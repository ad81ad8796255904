"""Specs back to YAML that the loader reads to the same values."""

from __future__ import annotations

import math
from typing import Any

import yaml

from cosim.config.loader import implied_tag

__all__ = ["dump_yaml"]


class _Dumper(yaml.SafeDumper):
    """Writes plain what our loader reads as the same value; PyYAML itself goes by YAML 1.1."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is not yaml.ScalarNode:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return implied_tag(value) if implicit[0] else "tag:yaml.org,2002:str"


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.Node:
    text = {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan" if math.isnan(value) else repr(value))
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(float, _number)


def dump_yaml(data: Any) -> str:
    """``data`` (dicts, lists, strings, numbers, booleans, ``None``) as YAML, keys in their order, no aliases."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)
