"""Work stealing: an idle core takes queued tokens of the busiest, and pays for the weights they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import homes
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.core_work import CoreRates, CoreWork
from cosim.policy.directory import Directory, Placement
from cosim.policy.placement import expert_parallel

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["WorkStealing"]


class WorkStealing(Policy):
    """The baseline WS of 3D-MoE (seed 001) on expert parallelism.

    When a layer is routed, the core with the least estimated work takes half of the tokens that the core with the most
    has queued of its largest expert, and so on. The thief streams the expert's weights from the victim's memory through
    the network. With ``weighs_weights`` a theft is made only if the thief is then done before the victim was; without
    it the thief looks at tokens alone and finds out.
    """

    name = "work_stealing"

    class Params(Policy.Params):
        """``weighs_weights``: whether a thief counts the weights. ``most_thefts``: of a layer; 0: as many as help."""

        weighs_weights: bool = True
        most_thefts: Annotated[int, Field(ge=0)] = 0

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._rates = CoreRates.of(system, model)
        return expert_parallel(system, model)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)

    def execute_at(
        self,
        groups: npt.NDArray[np.void],
        assigned: npt.NDArray[np.int32],
        directory: Directory,
        pressure: Pressure,
    ) -> npt.NDArray[np.int32] | None:
        work = CoreWork(groups, assigned, directory, self._rates)
        cores = sorted(self._rates.token_s)
        most = self.params.most_thefts or len(groups)
        for _ in range(most):
            load = {core: self._load(work, core) for core in cores}
            victim = max(cores, key=lambda core: (load[core], -core))
            thief = min(cores, key=lambda core: (load[core], core))
            if not self._steal(work, victim, thief, load):
                break
        return work.at

    def _load(self, work: CoreWork, core: int) -> float:
        if self.params.weighs_weights:
            return work.busy_s(core)
        return sum(work.tokens_of(row, core) for row in work.rows_at(core)) * self._rates.token_s[core]

    def _steal(self, work: CoreWork, victim: int, thief: int, load: dict[int, float]) -> bool:
        rows = [row for row in work.rows_at(victim) if len(work.groups_of(row, victim)) > 1]
        if not rows or victim == thief:
            return False
        row = max(rows, key=lambda r: (work.tokens_of(r, victim), -r))
        queued = work.tokens_of(row, victim)
        taken: list[int] = []
        for group in work.groups_of(row, victim):
            if 2 * (sum(int(work.tokens[g]) for g in taken) + int(work.tokens[group])) <= queued:
                taken.append(group)
        if not taken:
            return False
        for group in taken:
            work.move(group, thief)
        if self._load(work, thief) < load[victim]:
            return True
        for group in taken:
            work.move(group, victim)
        return False
