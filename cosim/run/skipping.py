"""What exact skipping did for a run, in figures and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cosim.run.machine import Machine

__all__ = ["SkipReport", "skip_sentence"]


@dataclass(frozen=True)
class SkipReport:
    """Of one run. What is skipped counts in its results all the same.

    on: whether skipping was on.
    skipped_fs, skipped_instants: skipped of the run's time and of the engine's instants.
    periods: whole periods skipped.
    reasons: why a stretch between two events of the task graph was stepped to its end → stretches.
    """

    on: bool
    simulated_fs: int
    simulated_instants: int
    skipped_fs: int
    skipped_instants: int
    periods: int
    reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, machine: Machine) -> SkipReport:
        """What a machine's engine has skipped so far."""
        engine = machine.engine
        report = engine.skip_report()
        return cls(
            bool(engine.skipping),
            machine.now_fs,
            int(engine.instants),
            int(report["skipped_fs"]),
            int(report["instants"]),
            int(report["periods"]),
            dict(report["reasons"]),
        )


def skip_sentence(reports: Sequence[SkipReport]) -> str:
    """How much of some runs was skipped, and where they could not be, why."""
    if not all(report.on for report in reports):
        return "skipping is off"
    skipped = sum(report.skipped_instants for report in reports)
    simulated = sum(report.simulated_instants for report in reports)
    periods = sum(report.periods for report in reports)
    text = "no period was skipped"
    if periods:
        text = f"{periods:,} periods skipped, {skipped / simulated:.1%} of {simulated:,} instants"
    reasons: dict[str, int] = {}
    for report in reports:
        for why, stretches in report.reasons.items():
            reasons[why] = reasons.get(why, 0) + stretches
    told = [f"{why} ({stretches:,} ×)" for why, stretches in sorted(reasons.items())]
    return f"{text}; stepped to the end: {'; '.join(told)}" if told else text
