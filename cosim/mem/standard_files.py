"""Where standards lie: the shipped files, a user's own, and what a file takes over from the one it extends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from cosim.mem.problems import Problems, refuse

_NOT_INHERITED = ("schema", "standard", "presets", "value_sets", "more_constraints", "extends")


def config_folder() -> Path:
    """Where the shipped standards lie: inside the installed package, or in the checkout."""
    inside = Path(__file__).resolve().parents[1] / "configs" / "memory"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "configs" / "memory"


@lru_cache(maxsize=64)
def _read(path: str, stamp: int) -> Mapping[str, Any]:
    del stamp  # a changed file is read again
    with open(path, encoding="utf-8") as stream:
        try:
            data = yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        except yaml.YAMLError as error:
            raise refuse(path, "", f"is not readable as YAML: {error}") from error
    if not isinstance(data, dict):
        raise refuse(path, "", f"expected a mapping of keys, got {type(data).__name__}")
    return data


def _file(path: Path) -> Mapping[str, Any]:
    return _read(str(path), path.stat().st_mtime_ns)


def merged(path: Path, through: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """A file's sections over those of the one it `extends`: a section it gives replaces the other's.

    `sources` are joined, `more_constraints` are added to the constraints; presets and value sets are not inherited.
    """
    own = _file(path)
    base_name = own.get("extends")
    base: Mapping[str, Any] = {}
    if base_name is not None:
        shipped = {f.stem: f for f in sorted(config_folder().glob("*.yaml"))}
        found = shipped.get(str(base_name), path.parent / str(base_name))
        if not found.is_file():
            problems = Problems(path.name)
            problems.unknown("extends", base_name, shipped, "standard")
            problems.raise_if_any()
        if str(found) in through:
            raise refuse(path.name, "extends", f"goes in a circle through {found.name}")
        base = merged(found, (*through, str(path)))
    joined = {**{k: v for k, v in base.items() if k not in _NOT_INHERITED}, **own}
    if base:
        for name in ("sources",):
            joined[name] = {**base.get(name, {}), **own.get(name, {})}
    added = own.get("more_constraints", [])
    if isinstance(added, list) and isinstance(joined.get("constraints"), list):
        joined["constraints"] = [*joined["constraints"], *added]
    return joined


def kind_of(path: Path) -> str:
    """The kind of memory a file describes: "dram" where it does not say."""
    return str(_file(path).get("kind", "dram"))


def presets(kind: str = "dram") -> dict[str, Path]:
    """The shipped presets of one kind ("dram", "sram") by name, with the file each one is in."""
    found: dict[str, Path] = {}
    for path in sorted(config_folder().glob("*.yaml")):
        if kind_of(path) == kind:
            for name in _file(path).get("presets", {}):
                found[str(name)] = path
    return dict(sorted(found.items()))


def locate(preset: str, file: str | Path | None = None) -> tuple[Path, str]:
    """The file that holds a preset, and the preset's name in it.

    Args:
        preset: a shipped name, a name in `file`, or a path to a YAML file, with ``:NAME`` behind it where that file
            has several presets.
        file: a user's own standard.

    Raises:
        ConfigErrors: no such preset or file; a file with several presets and no name.
    """
    if file is not None:
        path = Path(file)
        if not path.is_file():
            raise refuse(str(path), "", "no such standard file")
        return path, preset
    head, colon, name = preset.rpartition(":")
    for text, wanted in ((preset, ""), (head, name)):
        if text.endswith((".yaml", ".yml")) and (not wanted or colon):
            path = Path(text)
            if not path.is_file():
                raise refuse("memory", "preset", f"expected a standard file, got {text!r}, which does not exist")
            listed = _file(path).get("presets", {})
            if not wanted and len(listed) == 1:
                wanted = str(next(iter(listed)))
            if not wanted or not isinstance(listed, dict):
                names = ", ".join(map(str, listed)) or "none"
                raise refuse(
                    "memory", "preset", f"expected one of its presets, as in {text + ':NAME'!r} ({names}), got {text!r}"
                )
            return path, wanted
    shipped = {**presets("dram"), **presets("sram")}
    if preset not in shipped:
        problems = Problems("memory")
        problems.unknown("preset", preset, shipped, "preset")
        problems.raise_if_any()
    return shipped[preset], preset
