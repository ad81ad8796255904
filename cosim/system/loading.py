"""Experiments and systems as the simulator needs them: every check of the file and of the hardware, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.config.load import ExperimentCheck, Parts, load_experiment, load_hardware
from cosim.config.loader import Document, KeyPath
from cosim.config.schema_experiment import ExperimentSpec
from cosim.config.schema_hardware import HardwareSpec
from cosim.config.schema_model import ModelSpec
from cosim.config.units import BYTES, format_quantity
from cosim.config.validate import findings
from cosim.plugins.registry import PluginError, find
from cosim.system.memory import memory_figures
from cosim.system.system import System, hardware_findings
from cosim.system.tiers import bank_table, banks_are_ranges

__all__ = ["LoadedExperiment", "load_system", "open_experiment"]


@dataclass(frozen=True)
class LoadedExperiment:
    """A checked experiment with its built system; ``document`` knows the place of every key."""

    spec: ExperimentSpec
    system: System
    document: Document


def load_system(reference: str | Mapping[str, Any], options: Iterable[str] = ()) -> System:
    """The system of a hardware file by shipped name or path, or of a mapping; ``options`` are texts of ``-o``.

    Raises:
        ConfigErrors: every error of the file, the options and the hardware.
    """
    loaded = load_hardware(reference, options)
    return System.build(loaded.spec, loaded.document)


def open_experiment(
    reference: str | Mapping[str, Any], options: Iterable[str] = (), *, checks: Sequence[ExperimentCheck] = ()
) -> LoadedExperiment:
    """An experiment by shipped name or path, or as a mapping, with its system built.

    ``checks`` are further ones, such as of the parameters of policies.

    Raises:
        ConfigErrors: every error of the experiment, its files, the options, the hardware, and what does not fit.
    """
    loaded = load_experiment(reference, options, checks=[_hardware, _fit, _components, *checks])
    system = System.build(loaded.spec.system, loaded.document, ("system",))
    return LoadedExperiment(loaded.spec, system, loaded.document)


def _hardware(parts: Parts) -> Iterable[ConfigError]:
    return hardware_findings(parts.system, parts.document, ("system",)) if parts.system else ()


def _fit(parts: Parts) -> Iterator[ConfigError]:
    """Model against system: both figures named."""
    model, system, document = parts.model, parts.system, parts.document
    if system is None:
        return
    for kind in ("compute", "memory"):
        if not any(endpoint.kind == kind for endpoint in system.endpoints.values()):
            yield document.error(("system", "endpoints"), f"an endpoint with {kind}", "none")
    if not system.tiers:
        yield document.error(("system",), "at least one tier to hold the experts", "none")
    elif model is not None:
        name, tier = max(system.tiers.items(), key=lambda item: item[1].weight_bytes)
        yield from _in_banks(parts, model, system)
        if model.expert_bytes > tier.weight_bytes:
            yield document.error(
                ("system", "tiers", name, "capacity"),
                f"room for an expert of {model.name or 'the model'}, {format_quantity(model.expert_bytes, BYTES)}",
                f"{format_quantity(tier.weight_bytes, BYTES)} in the largest tier {name!r}",
            )


def _in_banks(parts: Parts, model: ModelSpec, system: HardwareSpec) -> Iterator[ConfigError]:
    """Replicas that must lie in one bank: refused where a bank is too small or addresses do not tell banks apart."""
    rows = []
    small, mixed = [], []
    for name, tier in sorted(system.tiers.items()):
        memory = system.endpoints[tier.on].memory if tier.on in system.endpoints else None
        if memory is None:
            continue
        try:
            figures = memory_figures(memory)
        except ValueError:
            return  # reported with the hardware
        bank = tier.capacity // figures.banks
        rows.append((name, figures.banks, bank, tier.weight_bytes))
        if tier.striping != "bank":
            continue
        if bank < model.expert_bytes:
            small.append(name)
        elif not banks_are_ranges(memory.address_map, figures.bank_fields):
            mixed.append((name, tier.on, figures.bank_fields))
    for name in small:
        yield parts.document.error(
            ("system", "tiers", name, "striping"),
            f"a bank that holds an expert of {model.name or 'the model'}",
            bank_table(model.expert_bytes, rows),
            "write 'striping: tier' for replicas that are striped over all banks of an endpoint",
        )
    for name, on, fields in mixed:
        first = "".join(field[:2].title() if field != "pseudo_channel" else "Pc" for field in fields)
        yield parts.document.error(
            ("system", "tiers", name, "striping"),
            f"an address_map of {on!r} that starts with the fields of a bank, such as {first}...",
            "one that interleaves the banks",
        )


def _components(parts: Parts) -> Iterator[ConfigError]:
    """Policies and analytical models that no package provides, and parameters that they do not take."""
    for key, kind in (("policies", "policies"), ("analytic", "analytic_models")):
        entries = parts.document.get((key,))
        for position, entry in enumerate(entries if isinstance(entries, list) else ()):
            where: KeyPath = (key, position)
            mapped = isinstance(entry, Mapping)
            name = entry.get("name") if mapped else entry
            if not isinstance(name, str) or not name or ".py:" in name:
                continue
            try:
                component = find(kind, name).load()
            except ConfigErrors as found:
                for error in found.errors:
                    yield parts.document.error(
                        (*where, "name") if mapped else where, error.expected, error.got, error.suggestion
                    )
                continue
            except PluginError as problem:
                yield parts.document.error(where, "a plug-in that can be loaded", str(problem))
                continue
            params = entry.get("params", {}) if mapped else {}
            if isinstance(params, Mapping):
                yield from _parameters(component, params, parts.document, (*where, "params"))


def _parameters(component: Any, params: Mapping[str, Any], document: Document, where: KeyPath) -> Iterator[ConfigError]:
    """Parameters against the component's schema (``Params``) or its own check (``with_parameters``)."""
    schema = getattr(component, "Params", None)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            schema.model_validate(dict(params))
        except ValidationError as problem:
            yield from findings(problem, schema, document, where)
        return
    check = getattr(component, "with_parameters", None)
    if callable(check):
        try:
            check(params)
        except ConfigErrors as found:
            for error in found.errors:
                key = error.path.rpartition(".params.")[2]
                yield document.error((*where, key), error.expected, error.got, error.suggestion, key=key in params)
