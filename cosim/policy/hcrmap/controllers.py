"""Three controllers behind one interface: which of the legal edits is made, if any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from cosim.policy.base import ActionKind, ResidencyAction
from cosim.policy.hcrmap.edits import FEATURES, Edit
from cosim.policy.hcrmap.q_network import QNetwork

__all__ = ["Controller", "GreedyController", "QController", "RuleController"]

_AT = {name: position for position, name in enumerate(FEATURES)}

WhatIf = Callable[[ResidencyAction | None], float]


class Controller(Protocol):
    """Chooses one of the edits, of which the first is no-op."""

    def choose(self, edits: Sequence[Edit], what_if: WhatIf | None) -> int:
        """Index of the edit to make."""
        ...


class RuleController:
    """Promotes where saved streaming and spread work pay for the copy within the horizon; else drops what is idle.

    The gain of a promotion is the time that reading the expert in the nearer tier saves on the busy banks, plus the
    part of its work that a further replica may take over where chiplets are busy, in windows; its cost the copy's time,
    over ``horizon`` windows. Idle replicas leave only where room is short.
    """

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon

    def choose(self, edits: Sequence[Edit], what_if: WhatIf | None) -> int:
        scores = [0.0] + [self._score(edit) for edit in edits[1:]]
        return int(np.argmax(scores))

    def _score(self, edit: Edit) -> float:
        value = {name: float(edit.features[position]) for name, position in _AT.items()}
        assert edit.action is not None
        if edit.action.kind is ActionKind.promote:
            spread = value["work_share"] * value["load"] / 2
            return value["stream_saved"] + spread - value["copy_time"] / self._horizon
        scarce = max(value["tier"], 1 - value["budget_left"]) > 0.9
        kept = 0.5 if edit.action.kind is ActionKind.demote else 1.0  # altogether frees the budget as well
        return 1e-3 * kept * value["idle"] if scarce else 0.0


class GreedyController:
    """The edit whose layout serves the window's own token groups fastest, if its gain pays for the copy.

    Every legal edit is tried on the same groups (Eq. 31 and 32) from an idle system; the copy's time counts over
    ``horizon`` windows.
    """

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon

    def choose(self, edits: Sequence[Edit], what_if: WhatIf | None) -> int:
        if what_if is None:
            raise ValueError("the greedy controller needs what_if")
        before = what_if(None)
        gains = [0.0]
        for edit in edits[1:]:
            cost = float(edit.features[_AT["copy_time"]]) / self._horizon
            gains.append((before - what_if(edit.action)) / before - cost)
        return int(np.argmax(gains))


class QController:
    """The edit with the highest value of a frozen, masked Double-DQN; only legal edits are scored (6.3, 6.9)."""

    def __init__(self, network: QNetwork) -> None:
        self._network = network

    def choose(self, edits: Sequence[Edit], what_if: WhatIf | None) -> int:
        return int(np.argmax(self._network.values(np.stack([edit.features for edit in edits]))))
