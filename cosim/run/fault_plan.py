"""Which prefetches and copies of a run fail on purpose: seeded, and the same at every rung."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cosim.trace.random import RandomStream

if TYPE_CHECKING:
    from cosim.config.schema_experiment import FaultsSpec
    from cosim.policy.base import Prefetch

__all__ = ["FaultPlan"]

_PREFETCH, _COPY = 0x66617500, 0x66617501
"""Streams of the two kinds."""


class FaultPlan:
    """Faults by what a prefetch fetches, and by the identity of a copied replica."""

    def __init__(self, spec: FaultsSpec) -> None:
        self._spec = spec

    def of_prefetch(self, batch: int, action: Prefetch) -> bool:
        """Whether a prefetch for a layer of this batch fails."""
        number = (((batch << 12 | action.layer) << 16 | action.expert) << 16) | action.chiplet
        return self._unit(_PREFETCH, number) < self._spec.prefetch

    def of_copy(self, replica: int) -> Literal["interruption", "checksum"] | None:
        """What goes wrong with the copy that makes this replica."""
        drawn = self._unit(_COPY, replica)
        if drawn < self._spec.interruption:
            return "interruption"
        return "checksum" if drawn < self._spec.interruption + self._spec.checksum else None

    def _unit(self, stream: int, number: int) -> float:
        draws = RandomStream(self._spec.seed, stream)
        draws.counter = number
        return draws.unit()
