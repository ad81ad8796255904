"""Node Balance of HDA-MoE (seed 002, V-B1): a linear program over shares and the nodes that hold them.

Per layer, over P (shares), Z (node c holds some of expert i) and Y (node c holds an expert of group g):

    minimise    t_comp + passes · gamma · t_comm
    subject to  sum_c P[i, c] = 1                                 every expert is placed
                smallest_share · Z[i, c] <= P[i, c] <= Z[i, c]    what is held
                Z[i, c] <= Y[g, c] for i in g                     the double indicator of Eq. 2
                sum_i P[i, c] f_i B W / rate <= t_comp            Eq. 1
                sum_g Y[g, c] f_g B h b / BW <= t_comm            Eq. 2
                sum_i P[i, c] weight_bytes <= capacity            the memory-capacity constraint

Logical nodes are alike, so it is solved over kinds of nodes (``node_kinds``) by HiGHS, which stops on its node count or
gap, never on time. What it finds, and two starting points, are improved by moving single holders; the best by the full
objective is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.analytic.hda_moe_equations import compute_time_s, node_tokens, node_traffic_time_s
from cosim.config.errors import ConfigError, ConfigErrors
from cosim.placement.activation import COVERAGE, Activation
from cosim.placement.families import expert_parallel, tensor_parallel
from cosim.placement.node_kinds import KindsAnswer, kinds_count, solve_kinds
from cosim.placement.shares import FloatArray

__all__ = ["NodeBalance", "NodeBalanceReport", "NodeCosts", "node_balance"]

BoolArray = npt.NDArray[np.bool_]

#: Groups that the program keeps at least, whatever they cover.
FEWEST_GROUPS = 512


@dataclass(frozen=True)
class NodeCosts:
    """What a node takes for a token, and what it holds.

    compute_s:        seconds of one token in one whole expert: W / rate, times the batch's tokens.
    traffic_s:        seconds of one token's activations over the node's links: h · bytes / BW, times the tokens.
    gamma, passes:    Eq. 3, and how often the volume of Eq. 2 moves.
    weight_bytes:     of one expert.
    capacity_bytes:   for the experts of one layer on one node; ``None``: no limit.
    """

    compute_s: float
    traffic_s: float
    gamma: float
    passes: float
    weight_bytes: int
    capacity_bytes: int | None = None

    def layer_s(self, shares: FloatArray, hosted: BoolArray, found: Activation) -> float:
        """The objective of one layer on all its groups: Eq. 1 plus passes · gamma · Eq. 2."""
        compute = float(compute_time_s(shares, found.expert, self.compute_s, 1.0))
        tokens = node_tokens(hosted, found.groups, found.group)
        return compute + self.passes * self.gamma * node_traffic_time_s(tokens, 1, self.traffic_s, 1.0)

    def bound_s(self, hosted: BoolArray, found: Activation) -> float:
        """What no shares over these holders can beat: even work, and no expert faster than on all its holders."""
        holders = hosted.sum(axis=1)
        work = max(float(found.expert.sum()) / hosted.shape[1], float((found.expert / holders).max()))
        tokens = node_tokens(hosted, found.groups, found.group)
        return float(self.compute_s * work + self.passes * self.gamma * tokens.max() * self.traffic_s)


@dataclass(frozen=True)
class NodeBalanceReport:
    """What one layer's program was and how it ended.

    variables, integers, rows: its size. experts_per_node: that a node holds at most in it. groups, coverage:
    co-activation groups in it and their share of the tokens. programs: bisection steps; nodes: of branch and bound;
    gap: relative, to which it was asked to go; undecided: steps that stopped at the node limit.
    found_by: 'program' or the starting point that was better. objective_s: on all groups.
    """

    variables: int
    integers: int
    rows: int
    experts_per_node: int
    groups: int
    coverage: float
    programs: int
    nodes: int
    gap: float
    undecided: int
    found_by: str
    objective_s: float

    def __str__(self) -> str:
        if not self.experts_per_node:
            return (
                f"no program: too many sets of experts; {self.groups} groups covering {self.coverage:.1%}; "
                f"{self.objective_s * 1e6:.3f} us by moves from {self.found_by}"
            )
        stopped = f", {self.undecided} of them stopped at the node limit" if self.undecided else ""
        return (
            f"{self.programs} programs, up to {self.variables} variables ({self.integers} integer), {self.rows} rows, "
            f"at most {self.experts_per_node} experts a node, {self.groups} groups covering {self.coverage:.1%}; "
            f"{self.nodes} nodes, gap {self.gap:.2%}{stopped}; {self.objective_s * 1e6:.3f} us by {self.found_by}"
        )


@dataclass(frozen=True)
class NodeBalance:
    """Shares of one layer, float64 (experts, nodes), and the report."""

    shares: FloatArray
    report: NodeBalanceReport


def node_balance(
    found: Activation,
    nodes: int,
    costs: NodeCosts,
    *,
    coverage: float = COVERAGE,
    smallest_share: float = 0.02,
    node_limit: int = 200,
    gap: float = 0.005,
    most_kinds: int = 700,
    trials: int = 400,
    starts: Sequence[FloatArray] = (),
) -> NodeBalance:
    """Solves one layer.

    Args:
        found: frequencies of the profile.
        nodes: logical nodes.
        costs: of a node.
        coverage: share of tokens that the groups in the program cover at least.
        smallest_share: of an expert that a node may hold.
        node_limit, gap: where HiGHS stops.
        most_kinds: sets of experts in the program; a node holds as many experts as keep it below. Where so many cannot
            hold the layer there is no program, and the report says so: the best start is improved.
        trials: single moves that are tried to improve the best solution.
        starts: further starting points, shape (experts, nodes).

    Raises:
        ConfigErrors: a capacity that cannot hold the layer, options out of range, a program without a solution; names
            the constraint.
    """
    _check(found, nodes, costs, smallest_share, node_limit, gap)
    capped = found.covering(coverage, fewest=FEWEST_GROUPS)
    sizes = [size for size in range(1, found.experts + 1) if kinds_count(found.experts, size) <= most_kinds]
    largest = max(sizes, default=0)
    if largest * nodes < found.experts:
        largest = 0  # the sets that are few enough cannot hold all experts
    capacity = None if costs.capacity_bytes is None else costs.capacity_bytes / costs.weight_bytes
    answer = KindsAnswer(None, 0, 0, 0, 0, 0, 0)
    if largest:
        answer = solve_kinds(
            capped,
            nodes,
            compute_s=costs.compute_s,
            traffic_s=costs.traffic_s * costs.gamma * costs.passes,
            capacity_experts=capacity,
            smallest_share=smallest_share,
            largest=largest,
            node_limit=node_limit,
            gap=gap,
        )
    candidates: list[tuple[str, BoolArray]] = []
    if answer.shares is not None:
        candidates.append(("program", answer.shares > 0))
    candidates += [
        ("expert parallelism", expert_parallel(1, found.experts, nodes).shares[0] > 0),
        ("tensor parallelism", tensor_parallel(1, found.experts, nodes).shares[0] > 0),
        *((f"start {number}", np.asarray(start) > 0) for number, start in enumerate(starts)),
    ]
    best: tuple[float, str, FloatArray] | None = None
    for name, hosted in candidates:
        shares = _best_shares(hosted, found, costs, smallest_share)
        if shares is None:
            continue
        value = costs.layer_s(shares, shares > 0, found)
        if best is None or value < best[0] * (1 - 1e-9):
            best = (value, name, shares)
    if best is None:
        raise ConfigErrors.single(
            "shares within the memory-capacity constraint and smallest_share",
            f"none: {costs.capacity_bytes} B per node and layer, {costs.weight_bytes} B an expert, "
            f"at least {smallest_share:g} of one",
            path="node balance",
        )
    shares = _improved(best[2], found, costs, smallest_share, trials)
    best = (costs.layer_s(shares, shares > 0, found), best[1], shares)
    report = NodeBalanceReport(
        answer.variables,
        answer.integers,
        answer.rows,
        largest,
        len(capped.groups),
        capped.coverage,
        answer.programs,
        answer.nodes,
        gap,
        answer.undecided,
        best[1],
        best[0],
    )
    return NodeBalance(best[2], report)


def _check(found: Activation, nodes: int, costs: NodeCosts, smallest_share: float, node_limit: int, gap: float) -> None:
    errors = []

    def problem(path: str, expected: str, got: str) -> None:
        errors.append(ConfigError(None, None, None, f"node balance: {path}", expected, got))

    if nodes < 1:
        problem("nodes", "at least one node", str(nodes))
    if not 0 < smallest_share <= 1:
        problem("smallest_share", "a share above 0 and up to 1", f"{smallest_share:g}")
    if node_limit < 1:
        problem("node_limit", "at least one node of branch and bound", str(node_limit))
    if not 0 <= gap < 1:
        problem("gap", "a relative gap from 0 to below 1", f"{gap:g}")
    needed = found.experts * costs.weight_bytes
    if costs.capacity_bytes is not None and costs.capacity_bytes * max(nodes, 0) < needed:
        problem(
            "memory-capacity constraint",
            f"room for the layer's {found.experts} experts, {needed} B",
            f"{costs.capacity_bytes * nodes} B on {nodes} nodes of {costs.capacity_bytes} B",
        )
    if errors:
        raise ConfigErrors(errors)


def _best_shares(hosted: BoolArray, found: Activation, costs: NodeCosts, smallest_share: float) -> FloatArray | None:
    """Shares that minimise Eq. 1 for given holders; none where the capacity or the smallest share forbids any."""
    from scipy.optimize import linprog  # type: ignore[import-untyped]
    from scipy.sparse import coo_array  # type: ignore[import-untyped]

    experts, nodes = hosted.shape
    which = np.argwhere(hosted)
    count = len(which)
    rows, columns, values, limits = [], [], [], []
    for c in range(nodes):
        here = np.flatnonzero(which[:, 1] == c)
        rows += [c] * (len(here) + 1)
        columns += [*here.tolist(), count]
        values += [*found.expert[which[here, 0]].tolist(), -1.0]
        limits.append(0.0)
    if costs.capacity_bytes is not None:
        for c in range(nodes):
            here = np.flatnonzero(which[:, 1] == c)
            rows += [nodes + c] * len(here)
            columns += here.tolist()
            values += [1.0] * len(here)
            limits.append(costs.capacity_bytes / costs.weight_bytes)
    answer = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=coo_array((values, (rows, columns)), shape=(len(limits), count + 1)).tocsr(),
        b_ub=limits,
        A_eq=coo_array((np.ones(count), (which[:, 0], np.arange(count))), shape=(experts, count + 1)).tocsr(),
        b_eq=np.ones(experts),
        bounds=[*([(smallest_share, 1.0)] * count), (0, None)],
        method="highs",
    )
    if answer.x is None:
        return None
    shares = np.zeros((experts, nodes))
    shares[which[:, 0], which[:, 1]] = answer.x[:count]
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _improved(
    shares: FloatArray, found: Activation, costs: NodeCosts, smallest_share: float, trials: int
) -> FloatArray:
    """Holders improved by single moves until none helps or ``trials`` linear programs are solved: the busiest node by
    compute gives an expert a further holder elsewhere, the busiest node by traffic gives one up."""
    hosted = shares > 0
    value = costs.layer_s(shares, hosted, found)
    tried = 0
    while tried < trials:
        best: tuple[float, BoolArray, FloatArray] | None = None
        for trial in _moves(hosted, shares, found):
            if costs.bound_s(trial, found) >= (value if best is None else best[0]) * (1 - 1e-9):
                continue
            tried += 1
            changed = _best_shares(trial, found, costs, smallest_share)
            if changed is None:
                continue
            found_value = costs.layer_s(changed, trial, found)
            if found_value < (value if best is None else best[0]) * (1 - 1e-9):
                best = (found_value, trial, changed)
            if tried >= trials:
                break
        if best is None:
            break
        value, hosted, shares = best
    return shares


def _moves(hosted: BoolArray, shares: FloatArray, found: Activation) -> list[BoolArray]:
    load = found.expert @ shares
    traffic = node_tokens(hosted, found.groups, found.group)
    moves: dict[bytes, BoolArray] = {}

    def consider(expert: int, take: int, give: int) -> None:
        trial = hosted.copy()
        if take >= 0:
            trial[expert, take] = False
        if give >= 0:
            trial[expert, give] = True
        if trial[expert].any():
            moves.setdefault(trial.tobytes(), trial)

    busy, crowded = int(load.argmax()), int(traffic.argmax())
    idle = np.argsort(load, kind="stable")[:3].tolist()
    quiet = np.argsort(traffic, kind="stable")[:3].tolist()
    for expert in np.flatnonzero(hosted[:, busy]).tolist():
        for node in dict.fromkeys([*idle, *quiet]):
            if not hosted[expert, node]:
                consider(expert, -1, node)
                consider(expert, busy, node)
    for expert in np.flatnonzero(hosted[:, crowded]).tolist():
        consider(expert, crowded, -1)
        for node in quiet:
            if not hosted[expert, node]:
                consider(expert, crowded, node)
    return list(moves.values())
