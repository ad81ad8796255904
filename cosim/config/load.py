"""Experiments, systems and models by name or path, with the files they name and the options of a command put in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from cosim.config import presets
from cosim.config.dump import dump_yaml
from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.loader import Document, KeyPath, dotted, load_yaml, near_file
from cosim.config.overrides import apply_overrides
from cosim.config.schema_experiment import ExperimentSpec
from cosim.config.schema_hardware import HardwareSpec
from cosim.config.schema_model import ModelSpec
from cosim.config.spec import Spec
from cosim.config.validate import in_file_order, validate

__all__ = [
    "ExperimentCheck",
    "Loaded",
    "Parts",
    "load_experiment",
    "load_hardware",
    "load_model",
    "resolved_yaml",
]

_SpecT = TypeVar("_SpecT", bound=Spec)

ExperimentCheck = Callable[["Parts"], Iterable[ConfigError]]
"""A check that needs more than the files: what is valid of the experiment → findings."""

# Where an experiment names other files of ours, and their kind.
_SYSTEM: KeyPath = ("system",)
_MODEL: KeyPath = ("workload", "model")
_REFERENCES: dict[KeyPath, str] = {_SYSTEM: "hardware", _MODEL: "models"}


@dataclass(frozen=True)
class Loaded(Generic[_SpecT]):
    """A checked spec and the document it came from, which knows the place of every key."""

    spec: _SpecT
    document: Document


@dataclass(frozen=True)
class Parts:
    """An experiment for checks that are to run even if some other part of it is wrong.

    ``document`` has the values as written; ``system`` and ``model`` are ``None`` where they are invalid by themselves.
    """

    document: Document
    system: HardwareSpec | None
    model: ModelSpec | None


def _named(kind: str, reference: str, document: Document, name: str | None = None) -> Document:
    """``document`` with a ``name``, if it is a mapping without one."""
    if isinstance(document.data, dict) and "name" not in document.data:
        title = name if name is not None else Path(reference).stem if presets.is_path(reference, kind) else reference
        document.data = {"name": title, **document.data}
        document.marks[("name",)] = document.mark(())
    return document


def _open(kind: str, reference: str | Mapping[str, Any]) -> Document:
    if isinstance(reference, Mapping):
        return Document(_plain(reference), None, Path())
    return _named(kind, reference, load_yaml(presets.find(kind, reference)))


def _plain(value: Any) -> Any:
    """Mappings and sequences from Python as the loader would have made them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(below) for below in value]
    return value


def _load(
    schema: type[_SpecT], kind: str, reference: str | Mapping[str, Any], options: Iterable[str]
) -> Loaded[_SpecT]:
    document = _open(kind, reference)
    apply_overrides(document, options)
    errors = _settle_hardware(document, ()) if kind == "hardware" else []
    try:
        spec = validate(schema, document)
    except ConfigErrors as found:
        raise ConfigErrors(in_file_order([*errors, *found.errors])) from None
    if errors:
        raise ConfigErrors(errors)
    return Loaded(spec, document)


def load_hardware(reference: str | Mapping[str, Any], options: Iterable[str] = ()) -> Loaded[HardwareSpec]:
    """A system by shipped name, by path, or as a mapping; ``options`` are texts of ``-o``.

    Raises:
        ConfigErrors: every error of the file and the options.
    """
    return _load(HardwareSpec, "hardware", reference, options)


def load_model(reference: str | Mapping[str, Any], options: Iterable[str] = ()) -> Loaded[ModelSpec]:
    """A model by shipped name, by path, or as a mapping.

    Raises:
        ConfigErrors: every error of the file and the options.
    """
    return _load(ModelSpec, "models", reference, options)


def _settle_path(document: Document, path: KeyPath, only_functions: bool = False) -> list[ConfigError]:
    """Make the file name at ``path`` (``file``, or ``file.py:function``) absolute; the error where there is none."""
    text = document.get(path)
    if not isinstance(text, str):
        return []
    name, colon, attribute = text.rpartition(":")
    is_function = bool(colon) and name.endswith(".py")
    if only_functions and not is_function:
        return []
    return _make_absolute(document, path, name if is_function else text, f":{attribute}" if is_function else "")


def _settle_preset(document: Document, path: KeyPath) -> list[ConfigError]:
    """The same for a preset that is a file, ``mine.yaml`` or ``mine.yaml:NAME``; a name is left alone."""
    text = document.get(path)
    if not isinstance(text, str):
        return []
    name, colon, preset = text.rpartition(":")
    if text.endswith((".yaml", ".yml")):
        return _make_absolute(document, path, text, "")
    return _make_absolute(document, path, name, colon + preset) if name.endswith((".yaml", ".yml")) else []


def _make_absolute(document: Document, path: KeyPath, text: str, rest: str) -> list[ConfigError]:
    file = presets.located(text, document.folder_of(path))
    if not file.is_file():
        return [document.error(path, "a file", f"{str(file)!r}, which does not exist", near_file(file))]
    document.set(path, f"{file.absolute()}{rest}")
    return []


def _settle_hardware(document: Document, path: KeyPath) -> list[ConfigError]:
    """The same for the files that a system names."""
    found: list[ConfigError] = []
    endpoints = document.get((*path, "endpoints"))
    for name in endpoints if isinstance(endpoints, Mapping) else ():
        found += _settle_path(document, (*path, "endpoints", name, "memory", "standard_file"))
        found += _settle_preset(document, (*path, "endpoints", name, "memory", "preset"))
    return found


class _Composition:
    """An experiment's document with the files it names in the place of their names."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.errors: list[ConfigError] = []
        self.failed: list[KeyPath] = []

    def expand(self, path: KeyPath) -> None:
        """Put the file that the string at ``path`` names in its place, where one belongs there."""
        kind = _REFERENCES.get(path)
        reference = self.document.get(path)
        if kind is None or not isinstance(reference, str) or path in self.failed:
            return
        try:
            file = presets.find(
                kind,
                reference,
                folder=self.document.folder_of(path),
                mark=self.document.mark(path),
                path=dotted(path),
            )
            self.document.graft(path, _named(kind, reference, load_yaml(file)))
        except ConfigErrors as found:
            self.errors.extend(found.errors)
            self.failed.append(path)

    def settle_files(self) -> None:
        """Check that the files named exist and make their paths absolute, so that a resolved copy finds them too."""
        self._file(("trace", "file"), "traces")
        self._file(("claims",), "claims")
        self._file(("components", "hotspot", "file"), "networks")
        for index in range(len(self._list("companions"))):
            self._file(("companions", index), "experiments")
        self.errors.extend(_settle_hardware(self.document, _SYSTEM))
        for index, item in enumerate(self._list("analytic")):
            if isinstance(item, Mapping):
                self._path(("analytic", index, "table"))
                self._path(("analytic", index, "function"))
            else:
                self._path(("analytic", index), only_functions=True)
        for index, item in enumerate(self._list("policies")):
            where: KeyPath = ("policies", index, "name") if isinstance(item, Mapping) else ("policies", index)
            self._path(where, only_functions=True)

    def _list(self, key: str) -> Sequence[Any]:
        value = self.document.get((key,))
        return value if isinstance(value, list) else []

    def _file(self, path: KeyPath, kind: str) -> None:
        reference = self.document.get(path)
        if not isinstance(reference, str) or not reference:
            return
        try:
            file = presets.find(
                kind,
                reference,
                folder=self.document.folder_of(path),
                mark=self.document.mark(path),
                path=dotted(path),
            )
        except ConfigErrors as found:
            self.errors.extend(found.errors)
            return
        if presets.is_path(reference, kind):
            self.document.set(path, str(file.absolute()))

    def _path(self, path: KeyPath, only_functions: bool = False) -> None:
        self.errors.extend(_settle_path(self.document, path, only_functions))

    def below_failed(self, error: ConfigError) -> bool:
        """Whether an error only follows from a file that could not be read."""
        return any(error.path == dotted(path) or error.path.startswith(dotted(path) + ".") for path in self.failed)


def load_experiment(
    reference: str | Mapping[str, Any],
    options: Iterable[str] = (),
    *,
    checks: Sequence[ExperimentCheck] = (),
) -> Loaded[ExperimentSpec]:
    """An experiment by shipped name, by path, or as a mapping, with its system and model files read in.

    Options reach into those files too: ``system.levels.package.num_vcs=8``. ``checks`` run whether or not the
    schema finds errors.

    Raises:
        ConfigErrors: every error of the experiment, of the files it names, and of the options.
    """
    document = _open("experiments", reference)
    composition = _Composition(document)
    try:
        apply_overrides(document, options, composition.expand)
    except ConfigErrors as found:
        composition.errors.extend(found.errors)
    for path in _REFERENCES:
        composition.expand(path)
    composition.settle_files()
    errors = list(composition.errors)
    spec: ExperimentSpec | None = None
    try:
        spec = validate(ExperimentSpec, document)
    except ConfigErrors as found:
        errors.extend(error for error in found.errors if not composition.below_failed(error))
    parts = Parts(document, _alone(HardwareSpec, document, _SYSTEM), _alone(ModelSpec, document, _MODEL))
    for check in checks:
        errors.extend(check(parts))
    if errors:
        raise ConfigErrors(in_file_order(errors))
    assert spec is not None
    return Loaded(spec, document)


def _alone(schema: type[_SpecT], document: Document, path: KeyPath) -> _SpecT | None:
    """The part at ``path`` if it is valid by itself."""
    try:
        return validate(schema, document, path)
    except ConfigErrors:
        return None


def resolved_yaml(spec: Spec) -> str:
    """``spec`` with every default written out, as a file that loads to the identical spec."""
    return dump_yaml(spec.model_dump(mode="json", exclude_none=True))
