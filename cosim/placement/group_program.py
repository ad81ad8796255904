"""3D-MoE's grouping as a program over binaries, one objective after the other (seed 001).

    sum_g D[e, g] = 1         D[e, g] <= B[e, g]        sum_e B[e, g] = slots
    T[g, d] = sum_e D[e, g] F[e, d]

The paper writes T with B D; since D may only be positive where B is one, the product is D itself, which makes the
program linear. Without room for copies D equals B. The range of T is bounded by one variable above and one below per
step. The collaboration M of the reading `excess` is a sum of positive parts; the range of M would be closed by
overstating the smaller ones, so each positive part is tied to its value by a binary of its own.

Groups are alike: they are numbered by their smallest expert, so a group may hold expert e only where the group before
holds one of 0 .. e. Every stage keeps the objectives of those before at what they reached. HiGHS stops on a gap or on
nodes of branch and bound, never on time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosim.placement.group_costs import Collaboration
from cosim.placement.shares import FloatArray, IntArray

__all__ = ["GroupProgram", "ProgramAnswer", "StageReport"]

# The stage before was reached within the solver's tolerances; a little more than those is allowed.
_KEPT = 1e-6

STAGES = ("range of work", "range of collaboration", "collaboration")


@dataclass(frozen=True)
class StageReport:
    """How one objective's solve ended: HiGHS' words, its relative gap, nodes of branch and bound, the value reached."""

    objective: str
    status: str
    gap: float
    nodes: int
    value: float

    def __str__(self) -> str:
        return f"{self.objective} {self.value:.6g} ({self.status}, gap {self.gap:.2%}, {self.nodes} nodes)"


@dataclass(frozen=True, eq=False)
class ProgramAnswer:
    """Shares D, float64 (experts, groups), or none where none was found; and how the solve ended."""

    shares: FloatArray | None
    report: StageReport


class GroupProgram:
    """One layer's program of one stage: its size is known before it is solved."""

    def __init__(
        self,
        loads: FloatArray,
        weight: IntArray,
        groups: int,
        slots: int,
        *,
        collaboration: Collaboration = "excess",
        stage: int = 0,
    ) -> None:
        """Builds it.

        Args:
            loads: F as (steps, experts); steps may be means of clusters.
            weight: steps that each row stands for.
            groups, slots: groups, and experts that each holds.
            collaboration: how M is read.
            stage: which objective is minimised, 0 to 2; the first needs no M.
        """
        self.loads, self.weight = loads, weight
        self.groups, self.slots = groups, slots
        self.steps, self.experts = loads.shape
        self.copies = groups * slots > self.experts
        self.collaboration = collaboration
        self.stage = stage
        self._bounded = stage > 0  # whether M is in the program
        self._names: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._size = 0
        self._integer: list[tuple[int, int]] = []
        self._add("held", (self.experts, groups), integer=True)
        if self.copies:
            self._add("share", (self.experts, groups))
        for name in ("most", "least"):
            self._add(name, (self.steps,))
        if self._bounded:
            if collaboration == "excess":
                self._add("part", (self.experts, groups, self.steps))
                self._add("above", (self.experts, groups, self.steps), integer=True)
            for name in ("most_shared", "least_shared"):
                self._add(name, (self.steps,))
        self._rows: list[tuple[FloatArray, IntArray, float, float]] = []
        self._constrain()

    # -- size

    @property
    def variables(self) -> int:
        """All variables."""
        return self._size

    @property
    def binaries(self) -> int:
        """Those that are 0 or 1."""
        return sum(count for _, count in self._integer)

    @property
    def rows(self) -> int:
        """Constraints."""
        return len(self._rows)

    def __str__(self) -> str:
        return f"{self.variables} variables ({self.binaries} binary), {self.rows} rows, {self.steps} typical steps"

    # -- solving

    def solve(self, *, gap: float, node_limit: int, reached: Sequence[float] = (), slack: float = 0.0) -> ProgramAnswer:
        """Minimises the stage's objective.

        Args:
            gap: relative, where it may stop.
            node_limit: of branch and bound.
            reached: the objectives of the stages before, which this one keeps.
            slack: relative, by which it may exceed them.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]
        from scipy.sparse import csr_array  # type: ignore[import-untyped]

        integrality = np.zeros(self._size)
        upper = np.full(self._size, np.inf)
        for start, count in self._integer:
            integrality[start : start + count] = 1
            upper[start : start + count] = 1
        self._break_symmetry(upper)
        rows = list(self._rows)
        for earlier, value in enumerate(reached):
            kept = self._objective(earlier)
            where = np.flatnonzero(kept)
            rows.append((kept[where], where, -np.inf, value * (1 + slack) + _KEPT * max(1.0, abs(value))))
        pointer = np.concatenate([[0], np.cumsum([len(row[0]) for row in rows])])
        matrix = csr_array(
            (np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows]), pointer),
            shape=(len(rows), self._size),
        )
        objective = self._objective(self.stage)
        answer: Any = milp(
            objective,
            integrality=integrality,
            bounds=Bounds(np.zeros(self._size), upper),
            constraints=LinearConstraint(
                matrix, np.array([row[2] for row in rows]), np.array([row[3] for row in rows])
            ),
            options={"node_limit": node_limit, "mip_rel_gap": gap},
        )
        nodes = int(answer.mip_node_count or 0)
        status = "optimal within the gap" if answer.status == 0 else "stopped"
        if "limit" in str(answer.message).lower():
            status = "node limit"
        elif answer.status not in (0, 1):
            status = str(answer.message)
        if answer.x is None:
            report = StageReport(STAGES[self.stage], f"{status}, nothing found", float("inf"), nodes, float("nan"))
            return ProgramAnswer(None, report)
        found = np.asarray(answer.x)
        reached_gap = float(answer.mip_gap) if answer.mip_gap is not None else 0.0
        value = float(objective @ found)
        return ProgramAnswer(self._shares(found), StageReport(STAGES[self.stage], status, reached_gap, nodes, value))

    def _shares(self, found: FloatArray) -> FloatArray:
        held = np.rint(found[self._range("held")].reshape(self.experts, self.groups))
        if not self.copies:
            return np.asarray(held)
        share = np.where(held > 0, np.maximum(found[self._range("share")].reshape(held.shape), 0), 0)
        share = np.where(share < 1e-9, 0, share)
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    # -- building

    def _add(self, name: str, shape: tuple[int, ...], *, integer: bool = False) -> None:
        count = int(np.prod(shape))
        self._names[name] = (self._size, shape)
        if integer:
            self._integer.append((self._size, count))
        self._size += count

    def _index(self, name: str) -> IntArray:
        start, shape = self._names[name]
        return start + np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)

    def _range(self, name: str) -> slice:
        start, shape = self._names[name]
        return slice(start, start + int(np.prod(shape)))

    def _row(self, values: FloatArray, columns: IntArray, low: float, high: float) -> None:
        there = values != 0
        self._rows.append((values[there], columns[there], low, high))

    def _constrain(self) -> None:
        held = self._index("held")
        share = self._index("share") if self.copies else held
        ones = np.ones(self.groups)
        for expert in range(self.experts):
            self._row(ones, share[expert], 1, 1)
            if self.copies:
                for group in range(self.groups):
                    pair = np.array([share[expert, group], held[expert, group]])
                    self._row(np.array([1.0, -1.0]), pair, -np.inf, 0)
        for group in range(self.groups):
            self._row(np.ones(self.experts), held[:, group], self.slots, self.slots)
            if group:
                for expert in range(self.experts):
                    columns = np.concatenate([[held[expert, group]], held[: expert + 1, group - 1]])
                    self._row(np.concatenate([[1.0], -np.ones(expert + 1)]), columns, -np.inf, 0)
        most, least = self._index("most"), self._index("least")
        for step in range(self.steps):
            for group in range(self.groups):
                self._between(self.loads[step], share[:, group], int(most[step]), int(least[step]))
        if self._bounded:
            self._constrain_collaboration(share)

    def _between(self, values: FloatArray, columns: IntArray, most: int, least: int) -> None:
        """least <= values . columns <= most."""
        self._row(np.append(values, -1.0), np.append(columns, most), -np.inf, 0)
        self._row(np.append(values, -1.0), np.append(columns, least), 0, np.inf)

    def _constrain_collaboration(self, share: IntArray) -> None:
        most, least = self._index("most_shared"), self._index("least_shared")
        if self.collaboration == "overload":
            above = np.maximum(self.loads - self.loads.mean(axis=1, keepdims=True), 0)
            for step in range(self.steps):
                for group in range(self.groups):
                    self._between(above[step], share[:, group], int(most[step]), int(least[step]))
            return
        part, positive = self._index("part"), self._index("above")
        for step in range(self.steps):
            load = self.loads[step]
            even = np.sort(load)[::-1][: self.slots].sum() / self.slots  # no group's even share is larger
            for group in range(self.groups):
                columns = share[:, group]
                for expert in range(self.experts):
                    # x = D[e] F[e] - T / slots
                    value = -load / self.slots
                    value[expert] += load[expert]
                    here, binary = int(part[expert, group, step]), int(positive[expert, group, step])
                    self._row(np.append(value, -1.0), np.append(columns, here), -np.inf, 0)
                    self._row(
                        np.concatenate([-value, [1.0, even]]), np.concatenate([columns, [here, binary]]), -np.inf, even
                    )
                    self._row(np.array([1.0, -load[expert]]), np.array([here, binary]), -np.inf, 0)
                self._between(np.ones(self.experts), part[:, group, step], int(most[step]), int(least[step]))

    def _break_symmetry(self, upper: FloatArray) -> None:
        held = self._index("held")
        for group in range(1, self.groups):
            upper[held[: group if not self.copies else 0, group]] = (
                0  # without copies group g starts at expert g or later
            )

    def _objective(self, stage: int) -> FloatArray:
        objective = np.zeros(self._size)
        weight = self.weight.astype(np.float64)
        if stage < 2:
            top, bottom = (("most", "least"), ("most_shared", "least_shared"))[stage]
            objective[self._range(top)] = weight
            objective[self._range(bottom)] = -weight
        elif self.collaboration == "excess":
            part = self._index("part")
            objective[part] = np.broadcast_to(weight, part.shape)
        else:
            share = self._index("share") if self.copies else self._index("held")
            above = np.maximum(self.loads - self.loads.mean(axis=1, keepdims=True), 0)
            objective[share] = np.broadcast_to((weight @ above)[:, None], share.shape)
        return objective
