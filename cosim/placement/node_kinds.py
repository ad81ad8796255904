"""The program of Node Balance over kinds of nodes: nodes that hold the same experts are one integer.

Logical nodes are alike before they are mapped, so a placement is a number of nodes n_S for every set S of experts that
a node may hold and the share w[S, i] of expert i that the nodes of kind S serve together. For a bound tau on a node's
tokens (Eq. 2) and a bound T on its work (Eq. 1) the program is linear:

    sum_S n_S = nodes                      sum_S w[S, i] = 1
    sum_i w[S, i] f_i <= T n_S             smallest_share n_S <= w[S, i]
    sum_i w[S, i] weight <= capacity n_S   S only with F(S) <= tau

T is bisected for each tau in ascending order, as far as a better objective is possible. No node is interchangeable with
another, which is what makes the program over single nodes slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from cosim.analytic.hda_moe_equations import node_tokens
from cosim.placement.activation import Activation
from cosim.placement.shares import FloatArray

__all__ = ["KindsAnswer", "kinds_count", "solve_kinds"]


@dataclass(frozen=True, eq=False)
class KindsAnswer:
    """What the bisection found.

    shares: float64 (experts, nodes), none where nothing is feasible.
    variables, integers, rows: of the largest program. programs: how many were solved; nodes: of branch and bound in all
    of them; undecided: programs that stopped at the node limit without an answer, taken as infeasible.
    """

    shares: FloatArray | None
    variables: int
    integers: int
    rows: int
    programs: int
    nodes: int
    undecided: int


def kinds_count(experts: int, largest: int) -> int:
    """Sets of at most ``largest`` experts."""
    return sum(comb(experts, size) for size in range(1, min(largest, experts) + 1))


def solve_kinds(
    found: Activation,
    nodes: int,
    *,
    compute_s: float,
    traffic_s: float,
    capacity_experts: float | None,
    smallest_share: float,
    largest: int,
    node_limit: int,
    gap: float,
) -> KindsAnswer:
    """Minimises compute_s · T + traffic_s · tau within a relative ``gap``.

    Args:
        found: frequencies; all of its groups count towards F.
        nodes: logical nodes.
        compute_s: of one (the whole batch's) token in one expert.
        traffic_s: of one token that touches a node, all passes and gamma included.
        capacity_experts: weight of experts that fit a node; ``None``: no limit.
        smallest_share: of an expert that a node may hold.
        largest: experts that a kind of node holds at most.
        node_limit: of one program.
    """
    kinds = [
        np.array(kind)
        for size in range(1, min(largest, found.experts) + 1)
        for kind in combinations(range(found.experts), size)
    ]
    hosted = np.zeros((found.experts, len(kinds)), dtype=np.bool_)
    for number, kind in enumerate(kinds):
        hosted[kind, number] = True
    touched = node_tokens(hosted, found.groups, found.group)
    even = float(found.expert.sum()) / nodes
    search = _Search(found, nodes, kinds, capacity_experts, smallest_share, node_limit)
    best: tuple[float, FloatArray] | None = None
    # some node must hold the hottest expert; levels closer than the gap are taken together
    level = float(max(touched[i] for i in range(found.experts)))
    top = float(touched.max())
    while True:
        traffic = traffic_s * level
        limit = float("inf") if best is None else best[0] * (1 - gap / 4)
        if compute_s * even + traffic >= limit:
            break
        allowed = np.flatnonzero(touched <= level * (1 + 1e-12))
        high = float(found.expert.sum()) if best is None else (limit - traffic) / compute_s
        answer = search.minimum(allowed, even, high, gap / 4)
        if answer is not None:
            work, shares = answer
            best = (compute_s * work + traffic, shares)
        if level >= top:
            break
        level = float(touched[touched > level].min())
        level = float(touched[touched <= level * (1 + gap / 2)].max())
    return KindsAnswer(
        None if best is None else best[1],
        search.variables,
        search.integers,
        search.rows,
        search.programs,
        search.explored,
        search.undecided,
    )


class _Search:
    def __init__(
        self,
        found: Activation,
        nodes: int,
        kinds: list[npt.NDArray[np.int64]],
        capacity_experts: float | None,
        smallest_share: float,
        node_limit: int,
    ) -> None:
        self._found, self._nodes, self._kinds = found, nodes, kinds
        self._capacity, self._smallest, self._limit = capacity_experts, smallest_share, node_limit
        self.variables = self.integers = self.rows = self.programs = self.explored = self.undecided = 0

    def minimum(
        self, allowed: npt.NDArray[np.int64], low: float, high: float, gap: float
    ) -> tuple[float, FloatArray] | None:
        """The least work T between ``low`` and ``high`` with its shares; none where even ``high`` is too little."""
        shares = self._feasible(allowed, high)
        if shares is None:
            return None
        high = min(high, float((self._found.expert @ shares).max()))
        while high > low * (1 + gap):
            middle = (low + high) / 2
            tried = self._feasible(allowed, middle)
            if tried is None:
                low = middle
            else:
                shares, high = tried, min(middle, float((self._found.expert @ tried).max()))
        return high, shares

    def _feasible(self, allowed: npt.NDArray[np.int64], work: float) -> FloatArray | None:
        from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]
        from scipy.sparse import coo_array  # type: ignore[import-untyped]

        kinds = [self._kinds[number] for number in allowed]
        count = len(kinds)
        sizes = np.array([len(kind) for kind in kinds])
        first = count + np.concatenate([[0], np.cumsum(sizes)[:-1]])
        variables = count + int(sizes.sum())
        owner = np.repeat(np.arange(count), sizes)
        expert = np.concatenate(kinds)
        part = count + np.arange(len(expert))
        experts = self._found.experts
        row: list[npt.NDArray[Any]] = []
        column: list[npt.NDArray[Any]] = []
        value: list[npt.NDArray[Any]] = []
        low: list[float] = []
        high: list[float] = []

        def add(
            rows: npt.NDArray[Any],
            columns: npt.NDArray[Any],
            values: npt.NDArray[Any],
            below: float,
            above: float,
            number: int,
        ) -> None:
            row.append(rows + len(low))
            column.append(columns)
            value.append(values)
            low.extend([below] * number)
            high.extend([above] * number)

        ones = np.ones(count)
        add(np.zeros(count, int), np.arange(count), ones, float(self._nodes), float(self._nodes), 1)
        add(expert, part, np.ones(len(part)), 1.0, 1.0, experts)
        each = np.arange(count)
        load = np.concatenate([self._found.expert[expert], -work * ones])
        add(np.concatenate([owner, each]), np.concatenate([part, each]), load, -np.inf, 0.0, count)
        pairs = np.arange(len(part))
        least = np.concatenate([np.ones(len(part)), np.full(len(part), -self._smallest)])
        add(np.concatenate([pairs, pairs]), np.concatenate([part, owner]), least, 0.0, np.inf, len(part))
        if self._capacity is not None:
            room = np.concatenate([np.ones(len(part)), -self._capacity * ones])
            add(np.concatenate([owner, each]), np.concatenate([part, each]), room, -np.inf, 0.0, count)
        matrix = coo_array(
            (np.concatenate(value), (np.concatenate(row), np.concatenate(column))), shape=(len(low), variables)
        ).tocsr()
        upper = np.ones(variables)
        upper[:count] = self._nodes
        integrality = np.zeros(variables)
        integrality[:count] = 1
        answer = milp(
            np.zeros(variables),
            integrality=integrality,
            bounds=Bounds(0, upper),
            constraints=LinearConstraint(matrix, np.array(low), np.array(high)),
            options={"node_limit": self._limit},
        )
        self.variables, self.integers = max(self.variables, variables), max(self.integers, count)
        self.rows, self.programs = max(self.rows, len(low)), self.programs + 1
        self.explored += int(answer.mip_node_count or 0)
        if answer.x is None:
            self.undecided += answer.status != 2
            return None
        shares = np.zeros((experts, self._nodes))
        node = 0
        for number, kind in enumerate(kinds):
            copies = round(float(answer.x[number]))
            if copies:
                served = np.clip(answer.x[first[number] : first[number] + len(kind)], 0, 1) / copies
                shares[np.ix_(kind, range(node, node + copies))] = served[:, None]
            node += copies
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
