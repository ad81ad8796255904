"""A cap on mean power: a window that took too much energy makes the next one slow (seed 000, section 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from cosim.run.energy import energies_missing

if TYPE_CHECKING:
    from cosim.config.schema_hardware import PowerCapSpec
    from cosim.system import System

__all__ = ["PowerCap", "power_cap_problem"]


@dataclass
class PowerCap:
    """Windows against their budgets: ``limit`` times their length.

    throttled: whether the present window runs at the reduced rate. windows, over: windows that are over, and those of
    them that exceeded their budget.
    """

    spec: PowerCapSpec
    start_fs: int = 0
    start_J: float = 0.0
    throttled: bool = False
    windows: int = 0
    over: int = 0

    def close(self, now_fs: int, energy_J: float) -> None:
        """A window ends; ``energy_J`` is what the run has taken so far."""
        budget_J = float(self.spec.limit * Fraction(now_fs - self.start_fs, 10**15))
        self.throttled = energy_J - self.start_J > budget_J
        self.windows += 1
        self.over += self.throttled
        self.start_fs, self.start_J = now_fs, energy_J

    def state(self) -> dict[str, int | float | bool]:
        """Everything but the cap, as plain JSON."""
        return {name: getattr(self, name) for name in ("start_fs", "start_J", "throttled", "windows", "over")}

    def restore(self, state: Mapping[str, int | float | bool]) -> None:
        """Puts it into a state that :meth:`state` gave."""
        self.start_fs, self.windows, self.over = (int(state[name]) for name in ("start_fs", "windows", "over"))
        self.start_J, self.throttled = float(state["start_J"]), bool(state["throttled"])


def power_cap_problem(system: System, rung: str) -> str:
    """What a rung lacks to hold a cap; empty where it lacks nothing or there is no cap."""
    if system.spec.power_cap is None:
        return ""
    missing = energies_missing(system, rung)
    return f"at rung {rung} there is no energy of {', '.join(missing)}" if missing else ""
