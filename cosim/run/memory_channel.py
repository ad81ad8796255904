"""A memory endpoint's standard as the core takes it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from cosim import _core
from cosim.config.schema_hardware import MemorySpec
from cosim.mem.energy import energy_frame
from cosim.mem.memory import Memory, channel_config

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
        return channel_config(self.memory.options)

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
        return Fraction(standard.timing["nRCDRD"] + standard.read_latency_cycles) / standard.ck_hz

    @property
    def row_stripe_bytes(self) -> int:
        """One row in every pseudo-channel: regions of this alignment start alike."""
        organisation = self.memory.standard.organisation
        row = organisation.columns * organisation.access_bytes
        return row * organisation.pseudo_channels * self.spec.channels

    def joules(self, statistics: dict[str, Any]) -> float | None:
        """Energy of a run at command level, ``None`` where the standard has no figures."""
        standard = self.memory.standard
        if standard.energy is None:
            return None
        banks, channels = statistics["banks"], statistics["channels"]
        counts = {
            "RD": sum(bank[5] for bank in banks),
            "WR": sum(bank[6] for bank in banks),
            "ACT": sum(bank[7] for bank in banks),
            "refreshes_all": sum(channel["refreshes_all"] for channel in channels),
            "refreshes_bank": sum(channel["refreshes_bank"] for channel in channels),
        }
        lanes = standard.organisation.pseudo_channels * self.spec.channels
        opened = sum(channel["any_open_ticks"] for channel in channels)
        frame = energy_frame(standard, counts, statistics["last_tick"], opened, lanes)
        return float(frame["energy_pJ"].sum()) * 1e-12
