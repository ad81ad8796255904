"""A memory endpoint's standard as the core takes it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from cosim import _core
from cosim.config.schema_hardware import MemorySpec
from cosim.mem.energy import energy_frame
from cosim.mem.memory import Memory

__all__ = ["MemoryChannel"]


@dataclass(frozen=True)
class MemoryChannel:
    """The channels of one memory endpoint; all of one kind."""

    spec: MemorySpec

    @cached_property
    def memory(self) -> Memory:
        """The memory room's view of the same configuration."""
        keys = self.spec.model_dump(mode="python", exclude_none=True)
        return Memory(keys)

    @property
    def core(self) -> Any:
        """The core's configuration of one channel."""
        return self.memory.core_config()

    @property
    def address_map(self) -> Any:
        """The core's address map over all channels."""
        mapping = self.memory.options.address_map
        return _core.MemAddressMap(mapping.core_sizes(), mapping.access_bytes, mapping.core_bits())

    @property
    def tick_hz(self) -> Fraction:
        """Command slots per second."""
        return 10**15 / self.memory.standard.tick_fs

    @property
    def slots_per_cycle(self) -> int:
        """Command slots of one CK."""
        return self.memory.standard.slots_per_cycle

    @property
    def idle_read_latency_s(self) -> Fraction:
        """A read of a closed bank with nothing else to do: ACT to RD to the last beat."""
        standard = self.memory.standard
        return Fraction(standard.activate_to_read_cycles + standard.read_latency_cycles) / standard.ck_hz

    @property
    def row_stripe_bytes(self) -> int:
        """One row in every pseudo-channel: regions of this alignment start alike."""
        organisation = self.memory.standard.organisation
        row = organisation.columns * organisation.access_bytes
        return row * organisation.pseudo_channels * self.spec.channels

    @cached_property
    def picojoules(self) -> dict[str, float] | None:
        """Energy of one of each counted event, and of a tick of standby; ``None`` where the standard has no figures.

        Keys: ACT, RD, WR, refreshes_all, refreshes_bank, open_ticks (what an open pseudo-channel takes more than a
        closed one) and ticks (of all pseudo-channels, closed).
        """
        standard = self.memory.standard
        if standard.energy is None:
            return None
        lanes = standard.organisation.pseudo_channels * self.spec.channels
        events = ("ACT", "RD", "WR", "refreshes_all", "refreshes_bank")

        def of(counts: dict[str, int], ticks: int, opened: int) -> float:
            frame = energy_frame(standard, {**dict.fromkeys(events, 0), **counts}, ticks, opened, lanes)
            return float(frame["energy_pJ"].sum())

        return {
            **{event: of({event: 1}, 0, 0) for event in events},
            "open_ticks": of({}, 1, 1) - of({}, 1, 0),
            "ticks": of({}, 1, 0),
        }

    def joules(self, totals: dict[str, int], ticks: int) -> float | None:
        """Energy at command level of the counted events over ``ticks`` command slots."""
        figures = self.picojoules
        if figures is None:
            return None
        return sum(figures[name] * count for name, count in {**totals, "ticks": ticks}.items()) * 1e-12
