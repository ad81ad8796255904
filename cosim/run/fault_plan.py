"""Which prefetches and copies of a run fail on purpose, and which experts get new weights: seeded.

What is drawn depends on nothing but the seed and on what it befalls, so it is the same at every rung.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from cosim.trace.random import RandomStream

if TYPE_CHECKING:
    from cosim.config.schema_experiment import FaultsSpec
    from cosim.policy.base import Prefetch

__all__ = ["FaultPlan"]

_PREFETCH, _COPY, _UPGRADE, _CHOICE, _ROLLBACK = range(0x66617500, 0x66617505)
"""Streams of the kinds of draws."""


class FaultPlan:
    """Faults by what a prefetch fetches, and by the identity of a copied replica."""

    def __init__(self, spec: FaultsSpec) -> None:
        self._spec = spec

    @property
    def upgrades(self) -> bool:
        """Whether experts are upgraded at all."""
        return self._spec.upgrade > 0

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

    def upgraded(self, batch: int, layer: int, experts: Sequence[int]) -> int | None:
        """Which of these experts, one entry a token, gets a next version while a batch is in the layer; or ``None``."""
        number = batch << 12 | layer
        if not experts or self._unit(_UPGRADE, number) >= self._spec.upgrade:
            return None
        return experts[min(int(self._unit(_CHOICE, number) * len(experts)), len(experts) - 1)]

    def ends_trial(self, batch: int, published: int) -> bool:
        """Whether a version published in batch ``published`` is confirmed or taken back in this one."""
        return batch - published >= self._spec.trial_batches

    def rolled_back(self, batch: int, layer: int, expert: int) -> bool:
        """Whether the version of an expert whose trial ends in this batch is taken back."""
        return self._unit(_ROLLBACK, (batch << 12 | layer) << 16 | expert) < self._spec.rollback

    def _unit(self, stream: int, number: int) -> float:
        draws = RandomStream(self._spec.seed, stream)
        draws.counter = number
        return draws.unit()
