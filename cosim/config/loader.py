"""YAML with a place for every value.

PyYAML parses; the values are made here, by the scalar rules of YAML 1.2's core schema (``on`` is a string, ``010`` is
ten, ``1e-9`` is a number). A key given twice, a key that is no string, a merge key and a tag of another language are
errors. Anchors work; depth, size and the number of values after expanding them are bounded, so that no file can
exhaust the host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cosim.config.errors import ConfigError, ConfigErrors, closest

__all__ = ["Document", "KeyPath", "Mark", "dotted", "implied_tag", "load_yaml", "near_file", "parse_yaml", "walk"]

KeyPath = tuple[str | int, ...]

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_DIGITS = 400


@dataclass(frozen=True)
class Mark:
    """A place: ``source`` is a file or an option; line and column count from 1."""

    source: str | None
    line: int | None = None
    column: int | None = None

    def error(self, path: str, expected: str, got: str, suggestion: str | None = None) -> ConfigError:
        return ConfigError(self.source, self.line, self.column, path, expected, got, suggestion)


def dotted(path: KeyPath) -> str:
    """``levels.package.shape.0``: the spelling of a key path in errors and in ``-o``."""
    return ".".join(str(part) for part in path)


@dataclass
class Document:
    """The values of a file and where each was written.

    ``data`` holds dicts, lists, strings, integers, floats, booleans and ``None``. ``marks`` has the place of every
    value by key path, ``key_marks`` that of every mapping key. ``folder`` is what relative file names in it count from.
    """

    data: Any
    source: str | None = None
    folder: Path | None = None
    marks: dict[KeyPath, Mark] = field(default_factory=dict)
    key_marks: dict[KeyPath, Mark] = field(default_factory=dict)
    folders: dict[KeyPath, Path] = field(default_factory=dict)

    def mark(self, path: KeyPath, *, key: bool = False) -> Mark:
        """The place of ``path``, or of the nearest enclosing value that was written down."""
        if key and path in self.key_marks:
            return self.key_marks[path]
        for length in range(len(path), -1, -1):
            if path[:length] in self.marks:
                return self.marks[path[:length]]
        return Mark(self.source)

    def error(
        self, path: KeyPath, expected: str, got: str, suggestion: str | None = None, *, key: bool = False
    ) -> ConfigError:
        """A finding at ``path`` (at the key itself with ``key=True``)."""
        return self.mark(path, key=key).error(dotted(path), expected, got, suggestion)

    def get(self, path: KeyPath, default: Any = None) -> Any:
        """The value at ``path``, or ``default``."""
        value = self.data
        for part in path:
            if isinstance(value, list):
                known = isinstance(part, int) and 0 <= part < len(value)
            else:
                known = isinstance(value, Mapping) and part in value
            if not known:
                return default
            value = value[part]
        return value

    def folder_of(self, path: KeyPath) -> Path:
        """The folder that a relative file name written at ``path`` counts from."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.folders:
                return self.folders[path[:length]]
        return self.folder or Path()

    def graft(self, path: KeyPath, other: Document) -> None:
        """Put ``other`` in the place of the value at ``path``, with its marks."""
        self.forget(path)
        self.set(path, other.data)
        self.marks.update({path + sub: mark for sub, mark in other.marks.items()})
        self.key_marks.update({path + sub: mark for sub, mark in other.key_marks.items()})
        self.folders.update({path + sub: folder for sub, folder in other.folders.items()})
        if other.folder is not None:
            self.folders[path] = other.folder

    def forget(self, path: KeyPath) -> None:
        """Drop the marks at and below ``path``."""
        size = len(path)
        for table in (self.marks, self.folders):
            for sub in [sub for sub in table if sub[:size] == path]:
                del table[sub]
        for sub in [sub for sub in self.key_marks if len(sub) > size and sub[:size] == path]:
            del self.key_marks[sub]

    def set(self, path: KeyPath, value: Any) -> None:
        """Replace or add the value at ``path``, whose parent must exist."""
        if not path:
            self.data = value
            return
        parent = self.get(path[:-1])
        last = path[-1]
        if isinstance(parent, list) and isinstance(last, int) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value


_INT = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCT = re.compile(r"0o[0-7]+", re.ASCII)
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INF = re.compile(r"[-+]?\.(inf|Inf|INF)", re.ASCII)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_PREFIX = "tag:yaml.org,2002:"


class _TooDeep(yaml.YAMLError):
    def __init__(self, mark: Any) -> None:
        super().__init__("too deep")
        self.mark = mark


class _Loader(yaml.SafeLoader):
    """PyYAML's composer with a bound on the nesting and the scalars of YAML 1.2."""

    depth = 0

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0]:
            return implied_tag(value)
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _TooDeep(self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Constructor:
    """Values and marks out of PyYAML's nodes; collects every error it meets."""

    def __init__(self, document: Document, first: Mark) -> None:
        self.document = document
        self.first = first
        self.errors: list[ConfigError] = []
        self.values = 0

    def place(self, node: Any) -> Mark:
        mark = node.start_mark
        return self.at(mark)

    def at(self, mark: Any) -> Mark:
        if self.first.line is None:
            return self.first
        return Mark(self.first.source, mark.line + 1, mark.column + 1)

    def build(self, node: Any, path: KeyPath, open_nodes: frozenset[int]) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            raise ConfigErrors(
                [
                    self.place(node).error(
                        dotted(path), f"at most {MAX_VALUES} values in a file, aliases expanded", "more"
                    )
                ]
            )
        place = self.place(node)
        self.document.marks[path] = place
        if id(node) in open_nodes:
            self.errors.append(place.error(dotted(path), "an alias of a finished value", "an alias of itself"))
            return None
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path, open_nodes | {id(node)})
        if isinstance(node, yaml.SequenceNode):
            if node.tag != _PREFIX + "seq":
                self.tag(node, path)
            inner = open_nodes | {id(node)}
            return [self.build(child, (*path, index), inner) for index, child in enumerate(node.value)]
        return self.scalar(node, path)

    def mapping(self, node: Any, path: KeyPath, open_nodes: frozenset[int]) -> dict[str, Any]:
        if node.tag != _PREFIX + "map":
            self.tag(node, path)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.errors.append(place.error(dotted(path), "a string as key", "a list or mapping"))
                continue
            name = key_node.value
            here: KeyPath = (*path, name)
            plain = key_node.style is None
            if plain and name == "<<":
                self.errors.append(
                    place.error(
                        dotted(here),
                        "keys of YAML 1.2",
                        "the merge key '<<'",
                        "write the keys out, or use an alias for a whole value",
                    )
                )
                continue
            if plain and not isinstance(_resolve(name), str):
                self.errors.append(
                    place.error(dotted(here), "a string as key", _kind(_resolve(name)), f"quote it: '{name}'")
                )
                continue
            if name in result:
                first = self.document.key_marks[here]
                self.errors.append(place.error(dotted(here), "each key once", f"it again (first on line {first.line})"))
                continue
            self.document.key_marks[here] = place
            result[name] = self.build(value_node, here, open_nodes)
        return result

    def tag(self, node: Any, path: KeyPath) -> None:
        self.errors.append(self.place(node).error(dotted(path), "plain YAML values", f"the tag {node.tag!r}"))

    def scalar(self, node: Any, path: KeyPath) -> Any:
        text: str = node.value
        digits = sum(character.isdigit() for character in text) if len(text) > MAX_DIGITS else 0
        number_like = digits > MAX_DIGITS and (
            _INT.fullmatch(text) or _FLOAT.fullmatch(text) or _HEX.fullmatch(text) or _OCT.fullmatch(text)
        )
        if number_like and node.style is None:
            self.errors.append(self.place(node).error(dotted(path), "a number", f"{digits} digits"))
            return 0
        short = node.tag.removeprefix(_PREFIX)
        if short in ("str", "merge"):
            return text
        value = _resolve(text)
        wanted = {"int": int, "float": float, "bool": bool, "null": type(None)}
        if short in wanted:
            if short == "float" and type(value) is int:
                return float(value)
            if type(value) is wanted[short]:
                return value
            self.errors.append(self.place(node).error(dotted(path), f"a value of type {short}", repr(text[:40])))
            return None
        self.tag(node, path)
        return None


def _resolve(text: str) -> Any:
    """A plain scalar by YAML 1.2's core schema."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) > 2 * MAX_DIGITS:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _OCT.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INF.fullmatch(text):
        return -math.inf if text[0] == "-" else math.inf
    if text in (".nan", ".NaN", ".NAN"):
        return math.nan
    return text


def implied_tag(text: str) -> str:
    """The tag of ``text`` where it is written plain; the merge key's is one of its own."""
    if text == "<<":
        return _PREFIX + "merge"
    value = _resolve(text)
    short = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}[type(value)]
    return _PREFIX + short


def _kind(value: Any) -> str:
    """What a value is, for the errors."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the truth value {str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    return repr(value)


def parse_yaml(text: str, source: str | None = None, *, folder: Path | None = None, option: bool = False) -> Document:
    """The values of YAML ``text``.

    Args:
        text: one YAML document.
        source: file name, or option text, that the errors name.
        folder: what relative file names count from.
        option: the text is the value of a command-line option: errors name the option and no line.

    Raises:
        ConfigErrors: every error that could be told apart, with line and column.
    """
    first = Mark(source) if option else Mark(source, 1, 1)
    document = Document(None, source, folder)
    constructor = _Constructor(document, first)
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except _TooDeep as problem:
        raise ConfigErrors(
            [constructor.at(problem.mark).error("", f"at most {MAX_DEPTH} nested values", "more")]
        ) from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        where = constructor.at(mark) if mark is not None else first
        what = ", ".join(part for part in (problem.context, problem.problem) if part)
        raise ConfigErrors([where.error("", "valid YAML", what or "an error")]) from None
    except yaml.reader.ReaderError as problem:
        before = text[: problem.position]
        line, column = before.count("\n") + 1, problem.position - (before.rfind("\n") + 1) + 1
        where = first if option else Mark(source, line, column)
        raise ConfigErrors(
            [where.error("", "printable text", f"the character U+{ord(text[problem.position]):04X}")]
        ) from None
    except (ValueError, OverflowError, RecursionError, yaml.YAMLError) as problem:
        raise ConfigErrors([first.error("", "valid YAML", str(problem) or type(problem).__name__)]) from None
    finally:
        if loader is not None:
            loader.dispose()
    if node is None:
        document.marks[()] = first
        return document
    document.data = constructor.build(node, (), frozenset())
    if constructor.errors:
        raise ConfigErrors(constructor.errors)
    return document


def load_yaml(path: str | Path) -> Document:
    """The values of the YAML file at ``path`` (UTF-8), with the place of each.

    Raises:
        ConfigErrors: the file cannot be read, is no UTF-8, is larger than 4 MiB, or is no valid YAML.
    """
    file = Path(path)
    name = str(path)
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigErrors.single("a file", "no such file", file=name, suggestion=near_file(file)) from None
    except IsADirectoryError:
        raise ConfigErrors.single("a file", "a folder", file=name) from None
    except PermissionError:
        raise ConfigErrors.single("a readable file", "no permission to read it", file=name) from None
    except ValueError:
        raise ConfigErrors.single("a file name", repr(name)) from None
    if len(raw) > MAX_BYTES:
        raise ConfigErrors.single(f"at most {MAX_BYTES} bytes of YAML", "a larger file", file=name)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = raw[: problem.start]
        raise ConfigErrors.single(
            "UTF-8 text",
            f"the byte 0x{raw[problem.start]:02x}",
            file=name,
            line=before.count(b"\n") + 1,
            column=problem.start - (before.rfind(b"\n") + 1) + 1,
        ) from None
    return parse_yaml(text, name, folder=file.parent)


def near_file(file: Path) -> str | None:
    """A hint for a file that is not there: its nearest neighbour by name."""
    try:
        names = sorted(entry.name for entry in file.parent.iterdir())
    except (OSError, ValueError):
        return f"the folder {str(file.parent)!r} cannot be listed"
    near = closest(file.name, names)
    return f"did you mean {str(file.with_name(near))!r}?" if near else None


def walk(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value below ``data`` with its key path, outermost first."""
    yield path, data
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from walk(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from walk(value, (*path, index))
