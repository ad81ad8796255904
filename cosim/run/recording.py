"""A record of decisions by (batch, layer) and window, so that another rung can be driven by the very same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cosim.policy.base import ResidencyAction, RoutedAction, Upgrade

__all__ = ["DecisionRecord", "LayerDecision"]


@dataclass(frozen=True)
class LayerDecision:
    """What was decided when one layer was routed.

    actions: as they were asked for; of broadcasts and residency actions those that were not refused, and no prefetch
        beyond its tenant's bound.
    replicas: identity of the replica that serves each token group, int32, shape (groups,).
    cost_fs: time the decision took.
    ids: the experts that a gate chose, int32, shape (tokens, slots); None where routing was kept.
    chiplets: endpoint that works on each group, int32, shape (groups,); none: each at its replica's own.
    throttled: whether a power cap slowed the endpoints that compute.
    upgrades: steps that replaced an expert's weights while the layer's tokens were in flight, in their order.
    """

    actions: tuple[RoutedAction, ...]
    replicas: npt.NDArray[np.int32]
    cost_fs: int
    ids: npt.NDArray[np.int32] | None = None
    chiplets: npt.NDArray[np.int32] | None = None
    throttled: bool = False
    upgrades: tuple[Upgrade, ...] = ()


@dataclass
class DecisionRecord:
    """All decisions of one run. Replica identities are handed out in order, so they mean the same in a replay."""

    layers: dict[tuple[int, int], LayerDecision] = field(default_factory=dict)
    windows: dict[int, tuple[ResidencyAction, ...]] = field(default_factory=dict)

    def add(self, batch: int, layer: int, decision: LayerDecision) -> None:
        """Records a layer's decision."""
        self.layers[batch, layer] = decision

    def add_window(self, window: int, actions: Sequence[ResidencyAction]) -> None:
        """Records a window's residency actions."""
        self.windows[window] = tuple(actions)

    def layer(self, batch: int, layer: int) -> LayerDecision:
        """The decision for a layer; KeyError when the record does not cover it."""
        return self.layers[batch, layer]

    def window(self, window: int) -> tuple[ResidencyAction, ...]:
        """The actions of a window; none when the record has none."""
        return self.windows.get(window, ())

    def same_as(self, other: DecisionRecord) -> bool:
        """Whether both hold the same decisions."""
        if self.windows != other.windows or self.layers.keys() != other.layers.keys():
            return False
        return all(
            mine.actions == theirs.actions
            and mine.cost_fs == theirs.cost_fs
            and mine.throttled == theirs.throttled
            and mine.upgrades == theirs.upgrades
            and np.array_equal(mine.replicas, theirs.replicas)
            and _same(mine.ids, theirs.ids)
            and _same(mine.chiplets, theirs.chiplets)
            for mine, theirs in ((self.layers[key], other.layers[key]) for key in self.layers)
        )


def _same(mine: npt.NDArray[np.int32] | None, theirs: npt.NDArray[np.int32] | None) -> bool:
    return mine is theirs if mine is None or theirs is None else np.array_equal(mine, theirs)
