"""The same token groups under another layout: layer times of one batch from an idle system, at link and rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.policy.base import ActionKind, Policy, Pressure, ResidencyAction
from cosim.policy.directory import DIRECTORY, HOST, Directory
from cosim.run.machine import build_machine
from cosim.workload.lowering import WorkRates, lower_layer

if TYPE_CHECKING:
    from cosim.system import System

__all__ = ["Counterfactual", "directory_after"]

_DONE = 0


def directory_after(directory: Directory, action: ResidencyAction | None, system: System) -> Directory:
    """The directory once an action is done: a new replica published, one gone. Addresses of new replicas are 0."""
    if action is None or action.kind is ActionKind.retain:
        return directory
    rows = directory.rows
    if action.kind is not ActionKind.promote:
        rows = rows[rows["replica"] != action.replica]
    if action.kind is not ActionKind.evict:
        like = directory.rows[directory.of(action.layer, action.expert)[0]]
        made = np.zeros((), dtype=DIRECTORY)
        made[()] = like
        made["replica"] = made["part_of"] = int(directory.rows["replica"].max()) + 1
        made["tier"] = [tier.name for tier in system.tiers].index(action.tier)
        made["chiplet"], made["memory"], made["address"] = action.chiplet, action.memory, 0
        made["executes_at"], made["in_flight"], made["age_windows"] = HOST, 0, 0
        rows = np.concatenate([rows, made[np.newaxis]])
    return Directory(rows)


class Counterfactual:
    """Times a batch's layers under any directory (HCRMap, Eq. 31 and 32).

    One machine of reserved links and rate memories is built; the snapshot of its empty state is restored before every
    layer, so that layouts are compared on the same groups from the same state.
    """

    def __init__(self, system: System, rates: WorkRates, policy: Policy) -> None:
        self._system, self._rates, self._policy = system, rates, policy
        self._machine = build_machine(system, "link")
        self._empty = self._machine.engine.save()

    def layer_seconds(self, groups: npt.NDArray[np.void], directory: Directory) -> float:
        """Seconds of one layer; replicas are chosen by the policy's fast loop without pressure from before."""
        machine = self._machine
        endpoints = len(self._system.endpoints)
        idle = Pressure(
            np.zeros(endpoints), np.zeros(len(self._system.links)), np.zeros(endpoints), np.zeros(endpoints), 0
        )
        assigned = self._policy.map_tokens(groups, directory, idle)
        tasks = lower_layer(groups, assigned, directory, self._rates, machine.nodes, machine.classes, _DONE)
        machine.engine.load(self._empty)
        machine.engine.submit(tasks.columns, tasks.before, tasks.after, 0)
        machine.engine.run()
        return float(machine.now_fs) * 1e-15

    def what_if(self, layers: Sequence[npt.NDArray[np.void]], directory: Directory) -> WhatIf:
        """The function that :class:`cosim.policy.base.WindowState` hands out, for the groups of a batch's layers."""
        return WhatIf(self, layers, directory, self._system)


class WhatIf:
    """Seconds of a batch under the present directory, or one in which an action is done.

    An action changes one layer: the times of the others are those of the present directory, measured once.
    """

    def __init__(
        self,
        counterfactual: Counterfactual,
        layers: Sequence[npt.NDArray[np.void]],
        directory: Directory,
        system: System,
    ) -> None:
        self._counterfactual, self._directory, self._system = counterfactual, directory, system
        self._groups = {int(groups["layer"][0]): groups for groups in layers if len(groups)}
        self._now: dict[int, float] = {}

    def __call__(self, action: ResidencyAction | None) -> float:
        for layer, groups in self._groups.items():
            if layer not in self._now:
                self._now[layer] = self._counterfactual.layer_seconds(groups, self._directory)
        total = sum(self._now.values())
        if action is None or action.layer not in self._groups:
            return total
        after = directory_after(self._directory, action, self._system)
        return total - self._now[action.layer] + self._counterfactual.layer_seconds(self._groups[action.layer], after)
