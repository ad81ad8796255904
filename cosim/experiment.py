"""`Experiment`: load, run, validate. What the command line calls and a notebook uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.config.load import resolved_yaml
from cosim.config.schema_experiment import ExperimentSpec
from cosim.report.contents import RunContents
from cosim.report.directory import file_sha256, write_atomically
from cosim.report.timeline import Timeline
from cosim.run.campaign import Campaign, CampaignPart, simulated_rungs
from cosim.run.estimate import Estimate, estimate
from cosim.run.machine import RUNG_KNOBS
from cosim.run.points import Point, sweep_points
from cosim.run.recording import DecisionRecord
from cosim.run.setup import Setup
from cosim.run.skipping import SkipReport
from cosim.run.store import UnitStore
from cosim.run.timeline import TimelineRequest, record_timeline, recorded_positions
from cosim.run.unit import FRAME_NAMES, UnitKey, UnitResult
from cosim.run.validation import PointRun, Validation, validation_contents
from cosim.system import LoadedExperiment, open_experiment
from cosim.validate.verdicts import together

__all__ = ["Experiment", "Report", "Run"]

Progress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Run:
    """One policy at one rung, all seeds.

    Attributes:
        layers: policy, rung, seed, batch, layer, ``<stage>_fs`` of the group that ends last, total_fs, bytes_<class>,
            replica_factor, energy_J (where the hardware gives energies).
        groups: one row per token group: layer, expert, source, aggregator, tokens, bytes, replica, chiplet,
            memory_node, fetch_bytes, resident_fraction, ``<stage>_fs``, total_fs. Endpoints are indices.
        links: per directed link and message class: flits, bytes, busy and stall cycles.
        banks: per DRAM bank: bytes, commands, row results, busy cycles; empty where memory is a rate.
        chiplets: per endpoint: busy_fs, tokens, macs.
        experts: per (layer, expert, endpoint): groups, tokens, time in three stages.
        tenants: per (batch, layer, tenant): tokens, time, bytes of copies, refusals; see
            :class:`cosim.run.tenant_results.TenantRow`; empty where nobody shares the system.
        incidents: per injected fault and step of a hot upgrade: when, of which expert, with how many token groups in
            flight; see :class:`cosim.run.incidents.Incident`; empty where no ``faults`` are given.
        decisions: per seed, the decisions taken; see :class:`cosim.run.recording.DecisionRecord`.
        figures: exact counts per seed: flit_hops, dram_read_bytes ...; with ``faults`` also checked_reads, how often
            a replica in use was held against what its region of memory holds.
        skipped: per seed, what exact skipping did; figures and frames hold what is skipped all the same.
    """

    policy: str
    rung: str
    layers: pd.DataFrame
    groups: pd.DataFrame
    links: pd.DataFrame
    banks: pd.DataFrame
    chiplets: pd.DataFrame
    experts: pd.DataFrame
    tenants: pd.DataFrame
    incidents: pd.DataFrame
    decisions: Mapping[int, DecisionRecord]
    figures: Mapping[int, Mapping[str, int]]
    skipped: Mapping[int, SkipReport]


@dataclass(frozen=True)
class Report:
    """A finished validation; ``companions`` are those of the experiment's companions, by name.

    Claims are those that all of them answered together; metrics and frames are the experiment's own.
    """

    contents: RunContents
    validation: Validation
    companions: Mapping[str, Report] = field(default_factory=dict)

    @property
    def metrics(self) -> pd.DataFrame:
        """policy, rung, metric, unit, value, ci_low, ci_high, n."""
        return self.contents.metrics

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The judged claims, as in ``claims.json``."""
        return [dict(claim) for claim in self.contents.claims]

    @property
    def layers(self) -> pd.DataFrame:
        """One row per (policy, rung, seed, batch, layer)."""
        return self.contents.layers

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes the self-contained report and returns its path."""
        from cosim.report.html import render

        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, render(self.contents).encode())
        return target


class Experiment:
    """A checked experiment, ready to run."""

    def __init__(self, loaded: LoadedExperiment) -> None:
        self._loaded = loaded
        self._setup = Setup(loaded)

    @classmethod
    def load(cls, reference: str | os.PathLike[str] | Mapping[str, Any], overrides: Iterable[str] = ()) -> Experiment:
        """An experiment by shipped name, by path, or as a mapping; ``overrides`` are texts ``key=value``.

        Raises:
            ConfigErrors: every error of the experiment and of the files it names.
        """
        named = reference if isinstance(reference, Mapping) else os.fspath(reference)
        return cls(open_experiment(named, overrides))

    @property
    def name(self) -> str:
        """The experiment's name; ``experiment`` where it has none."""
        return self._loaded.spec.name or "experiment"

    @property
    def spec(self) -> ExperimentSpec:
        """The checked experiment."""
        return self._loaded.spec

    def units(self) -> list[UnitKey]:
        """The simulated units of a validation, those of sweeps and companions included: (policy, rung, seed)."""
        own = [key for part in self._campaign(None, 1).parts for key in part.unit_keys()]
        return own + [key for companion in self.companions for key in companion.units()]

    @cached_property
    def points(self) -> list[Point]:
        """The points of the experiment's sweeps.

        Raises:
            ConfigErrors: every error of every point.
        """
        return sweep_points(self._loaded)

    @cached_property
    def companions(self) -> list[Experiment]:
        """The experiments that answer the rest of the claims.

        Raises:
            ConfigErrors: every error of each; a companion that judges other claims, or has companions of its own.
        """
        found: list[Experiment] = []
        errors: list[ConfigError] = []
        for position, reference in enumerate(self._loaded.spec.companions):
            path = ("companions", position)
            try:
                companion = Experiment.load(reference)
            except ConfigErrors as wrong:
                errors += wrong.errors
                continue
            document = self._loaded.document
            if companion.spec.claims != self._loaded.spec.claims:
                wanted = f"an experiment with claims: {self._loaded.spec.claims}"
                errors.append(document.error(path, wanted, repr(companion.spec.claims)))
            if companion.spec.companions:
                named = ", ".join(companion.spec.companions)
                errors.append(document.error(path, "an experiment without companions", named))
            found.append(companion)
        if errors:
            raise ConfigErrors(errors)
        return found

    def plugin_hashes(self) -> dict[str, str]:
        """SHA-256 of every file of the user's that runs or is read: policies, analytical functions, tables, traces."""
        spec = self._loaded.spec
        names = [policy.name for policy in spec.policies]
        names += [text for item in spec.analytic for text in (item.function, item.table) if text is not None]
        files = [name.rpartition(":")[0] if ".py:" in name else name for name in names]
        found = [Path(file) for file in (*files, spec.trace.file or "") if "/" in file]
        return {file.name: file_sha256(file) for file in found if file.is_file()}

    @property
    def setup(self) -> Setup:
        """Trace, batches, profile and rates that all runs share."""
        return self._setup

    @cached_property
    def resolved(self) -> str:
        """The experiment with every default written out, as YAML that loads to the same."""
        return resolved_yaml(self._loaded.spec)

    def check(self) -> None:
        """Reads the trace, models and claims, makes batches and policies: wrong input is found before anything runs.

        Raises:
            ConfigErrors or another ValueError: all that is wrong.
        """
        self._setup.check()
        Validation.prepare(self._loaded, self._setup)
        for point in self.points:
            point.setup.check()
            Validation.prepare(point.setup.loaded, point.setup)
        for companion in self.companions:
            companion.check()

    def estimate(self) -> Estimate:
        """Work and time that a validation will take."""
        return Estimate.together([self._own_estimate, *(companion.estimate() for companion in self.companions)])

    @cached_property
    def _own_estimate(self) -> Estimate:
        """Without companions."""
        parts = self._campaign(None, 1).parts
        return Estimate.together([estimate(part.setup, part.unit_keys()) for part in parts])

    def _campaign(self, units: Path | None, jobs: int) -> Campaign:
        # what runs at the base does not depend on claims and other points: its units are kept without them
        base = resolved_yaml(self._loaded.spec.alone())
        parts = [CampaignPart(self._setup, self.resolved, UnitStore(units, base))]
        parts += [
            CampaignPart(point.setup, point.resolved, UnitStore(units, point.resolved), point.title)
            for point in self.points
        ]
        return Campaign(parts, jobs)

    def check_unit(self, policy: str, rung: str) -> None:
        """Whether a policy of this experiment can run at a rung, with everything :meth:`check` looks at.

        Raises:
            ConfigErrors: a policy the experiment does not have, an unknown rung, all that is wrong otherwise.
        """
        spec = self._loaded.spec
        titles = [item.title for item in spec.policies]
        if policy not in titles:
            raise ConfigErrors.single(
                one_of(titles), repr(policy), path="policy", suggestion=did_you_mean(policy, titles)
            )
        if rung not in RUNG_KNOBS:
            known = list(RUNG_KNOBS)
            raise ConfigErrors.single(one_of(known), repr(rung), path="rung", suggestion=did_you_mean(rung, known))
        self.check()

    def run(self, policy: str, rung: str = "flit", *, jobs: int = 1, progress: Progress | None = None) -> Run:
        """One policy at one rung (link, link+command, flit+rate, flit), over all seeds.

        Raises:
            ConfigErrors: a policy the experiment does not have, an unknown rung.
        """
        self.check_unit(policy, rung)
        keys = [UnitKey(policy, rung, seed) for seed in self._loaded.spec.seeds]
        found = self._campaign(None, jobs).run_keys(keys, progress)
        return _joined(policy, rung, [found[key] for key in keys])

    def validate(
        self,
        *,
        jobs: int = 1,
        units: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Every policy at every rung, beside the analytical models, judged claim by claim.

        Args:
            jobs: processes; the result does not depend on it.
            units: folder that keeps finished units, so that an interrupted validation goes on.
            progress: called with (done, total, note).

        Raises:
            ConfigErrors or another ValueError: wrong input, found before anything runs.
        """
        self.check()
        folder = None if units is None else Path(units)
        if not self.companions:
            return self._validate_alone(jobs, folder, progress)
        everything = [self, *self.companions]
        shares = [max(item._own_estimate.seconds, 1e-9) for item in everything]
        reports: dict[str, Report] = {}
        for position, item in enumerate(everything):
            shown = None if progress is None else _part_of(progress, shares, position, item.name)
            reports[item.name] = item._validate_alone(jobs, folder, shown)
        own = reports.pop(self.name)
        assert own.validation.claims is not None
        judged = [(name, report.contents.claims) for name, report in [(self.name, own), *reports.items()]]
        claims = together(own.validation.claims, judged)
        return Report(replace(own.contents, claims=claims), own.validation, reports)

    def _validate_alone(self, jobs: int, units: Path | None, progress: Progress | None) -> Report:
        validation = Validation.prepare(self._loaded, self._setup)
        base, *others = self._campaign(units, jobs).run(progress)
        points = [PointRun(point, *ran) for point, ran in zip(self.points, others, strict=True)]
        return Report(validation_contents(validation, *base, points), validation)

    def check_timeline(self, request: TimelineRequest) -> None:
        """Raises what :meth:`timeline` would of ``request``.

        Raises:
            ConfigErrors: a batch or layer that this experiment does not run.
        """
        recorded_positions(self._setup, request)

    def timeline(self, policies: Iterable[str], rung: str = "flit", request: TimelineRequest | None = None) -> Timeline:
        """Some layers event by event, of the first seed, for :func:`cosim.report.timeline.trace_json_gz`.

        Raises:
            ConfigErrors: a policy, rung, batch or layer that this experiment does not have.
        """
        keys = [UnitKey(policy, rung, self._loaded.spec.seeds[0]) for policy in policies]
        for key in keys:
            self.check_unit(key.policy, key.rung)
        return record_timeline(self._setup, keys, request or TimelineRequest())

    @property
    def simulated_rungs(self) -> list[str]:
        """The rungs that are simulated, highest fidelity first."""
        return simulated_rungs(self._loaded.spec.rungs)


def _part_of(progress: Progress, shares: list[float], position: int, name: str) -> Progress:
    """Progress of one of several validations that count by their estimated shares of the whole."""
    before, whole = sum(shares[:position]), sum(shares)

    def shown(done: float, total: float, note: str) -> None:
        within = done / total if total > 0 else 1.0
        progress(before + shares[position] * within, whole, f"{name}: {note}" if note else name)

    return shown


def _joined(policy: str, rung: str, results: list[UnitResult]) -> Run:
    frames = {name: pd.concat([result.frames[name] for result in results], ignore_index=True) for name in FRAME_NAMES}
    return Run(
        policy,
        rung,
        **frames,
        decisions={result.key.seed: result.record for result in results},
        figures={result.key.seed: result.figures for result in results},
        skipped={result.key.seed: result.skipped for result in results},
    )
