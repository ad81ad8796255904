"""Offline grouping of 3D-MoE: the program over typical steps, and swaps on all steps where that leaves room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.placement.group_costs import COLLABORATION, Collaboration, GroupObjectives, group_objectives
from cosim.placement.group_program import GroupProgram, StageReport
from cosim.placement.shares import FloatArray, IntArray
from cosim.placement.step_clusters import cluster_steps
from cosim.trace.random import RandomStream

__all__ = ["GroupingOptions", "GroupingReport", "LayerGrouping", "group_experts", "history_grouping", "improved"]

_IMPROVES = 1e-9


@dataclass(frozen=True)
class GroupingOptions:
    """How groups are made.

    clusters:       typical steps in the program.
    collaboration:  how the unprinted M[g, d] is read (see ``group_costs``).
    objectives:     how many of the three count, in the paper's order.
    gap, node_limit: where HiGHS stops, per stage; the paper stops at a gap of 3 %, or after three minutes, which no
        other machine could repeat.
    slack:          relative, by which a later objective may worsen an earlier one.
    most_binaries:  larger programs are not solved, swaps alone decide.
    restarts:       random groupings that swaps also start from.
    seed:           of those.
    """

    clusters: int = 8
    collaboration: Collaboration = "excess"
    objectives: int = 3
    gap: float = 0.03
    node_limit: int = 20
    slack: float = 0.0
    most_binaries: int = 150
    restarts: int = 2
    seed: int = 1


@dataclass(frozen=True)
class GroupingReport:
    """How one layer was grouped.

    program: the sizes of its stages. typical_steps, loss: of the clusters. stages: how each solve ended; none where the
    first is too large.
    program_value: what the program's answer costs on all steps. value: the answer's, after `swaps` that began at
    `found_by`. contiguous: experts in blocks of their numbers, for comparison.
    """

    program: str
    typical_steps: int
    steps: int
    loss: float
    stages: tuple[StageReport, ...]
    program_value: GroupObjectives | None
    value: GroupObjectives
    contiguous: GroupObjectives
    found_by: str
    swaps: int

    def __str__(self) -> str:
        solved = "; ".join(map(str, self.stages)) if self.stages else "none solved: too many binaries"
        on_all = f", on all steps {self.program_value}" if self.program_value is not None else ""
        return (
            f"{self.program}, for {self.steps} steps (clustering moves {self.loss:.1%} of the load): {solved}"
            f"{on_all}; {self.swaps} swaps from {self.found_by}: {self.value} (contiguous {self.contiguous})"
        )


@dataclass(frozen=True, eq=False)
class LayerGrouping:
    """Shares D of one layer, float64 (experts, groups): 1 or 0 where a group has no room for copies; and the report."""

    shares: FloatArray
    report: GroupingReport

    @property
    def group(self) -> IntArray:
        """Group of every expert, the one with its largest share, int64 (experts,)."""
        return np.asarray(self.shares.argmax(axis=1), dtype=np.int64)


def group_experts(
    loads: IntArray,
    groups: int,
    slots: int,
    options: GroupingOptions | None = None,
    report: Callable[[str], None] | None = None,
) -> LayerGrouping:
    """Groups one layer's experts.

    Args:
        loads: F, tokens per expert and step of the profile, int64 (steps, experts).
        groups: of equal size.
        slots: experts that a group holds; more than experts / groups leaves room for copies.
        options: see there.
        report: called with a stage's size before it is solved, and with how it ended.

    Raises:
        ConfigErrors: groups that do not divide the experts, slots that cannot hold them, options out of range; all.
    """
    chosen = options or GroupingOptions()
    experts = loads.shape[1]
    check_grouping(experts, groups, slots, chosen)
    typical = cluster_steps(loads, chosen.clusters)
    values, weight = loads.astype(np.float64), np.ones(len(loads), dtype=np.int64)

    def cost(shares: FloatArray) -> GroupObjectives:
        return group_objectives(values, weight, shares, slots, chosen.collaboration)

    starts: list[tuple[str, FloatArray]] = []
    sizes: list[str] = []
    stages: list[StageReport] = []
    program_value = None
    for stage in range(chosen.objectives):
        program = GroupProgram(
            typical.loads, typical.weight, groups, slots, collaboration=chosen.collaboration, stage=stage
        )
        sizes.append(f"stage {stage + 1}: {program}")
        small = program.binaries <= chosen.most_binaries
        if report is not None:
            report(sizes[-1] + ("" if small else f"; not solved, more than {chosen.most_binaries} binaries"))
        if not small:
            break
        reached = [done.value for done in stages]
        answer = program.solve(gap=chosen.gap, node_limit=chosen.node_limit, reached=reached, slack=chosen.slack)
        stages.append(answer.report)
        if report is not None:
            report(f"  {answer.report}")
        if answer.shares is None:
            break
        program_value = cost(answer.shares)
        starts = [("the program", answer.shares)]
    contiguous = _as_shares(np.arange(experts) * groups // experts, groups)
    best: tuple[tuple[float, ...], str, int, FloatArray] | None = None
    if groups * slots > experts:
        # swaps would need a program of their own for the shares of copies
        if not starts:
            raise ConfigErrors.single(
                "room for copies only where the program is small enough and finds a grouping: swaps do not move copies",
                f"{sizes[-1]}, most_binaries {chosen.most_binaries}, node_limit {chosen.node_limit}",
                path="grouping",
            )
        best = (_order(cost(starts[0][1]), chosen.objectives), starts[0][0], 0, starts[0][1])
    else:
        starts.append(("popularity", _as_shares(history_grouping(loads.sum(axis=0), groups), groups)))
        starts.append(("blocks", contiguous))
        for number in range(chosen.restarts):
            order = RandomStream(chosen.seed, number).permutation(experts)
            group = np.empty(experts, dtype=np.int64)
            group[order] = np.arange(experts) * groups // experts
            starts.append((f"draw {number + 1}", _as_shares(group, groups)))
        for name, shares in starts:
            group, swaps = improved(values, shares.argmax(axis=1), groups, slots, chosen)
            found = _as_shares(group, groups)
            value = _order(cost(found), chosen.objectives)
            if best is None or value < best[0]:
                best = (value, name, swaps, found)
    assert best is not None
    _, found_by, swaps, shares = best
    made = GroupingReport(
        "; ".join(sizes),
        len(typical.loads),
        len(loads),
        typical.loss,
        tuple(stages),
        program_value,
        cost(shares),
        cost(contiguous),
        found_by,
        swaps,
    )
    return LayerGrouping(shares, made)


def check_grouping(experts: int, groups: int, slots: int, options: GroupingOptions) -> None:
    """Raises ConfigErrors with everything that keeps a layer from being grouped so."""
    errors = []

    def problem(path: str, expected: str, got: str, hint: str | None = None) -> None:
        errors.append(ConfigError(None, None, None, f"grouping: {path}", expected, got, hint))

    if groups < 1:
        problem("groups", "at least one group", str(groups))
    elif experts % groups:
        fits = [size for size in range(1, experts + 1) if experts % size == 0]
        near = min(fits, key=lambda size: (abs(size - groups), size))
        problem("groups", f"groups of equal size: a divisor of {experts} experts", str(groups), f"{near} divides them")
    elif not experts // groups <= slots <= experts:
        problem("slots", f"room for {experts // groups} to {experts} experts in each of {groups} groups", str(slots))
    for name, low in (("clusters", 1), ("node_limit", 1), ("most_binaries", 0), ("restarts", 0)):
        if getattr(options, name) < low:
            problem(name, f"at least {low}", str(getattr(options, name)))
    if not 1 <= options.objectives <= 3:
        problem("objectives", "1, 2 or 3 of them", str(options.objectives))
    if not 0 <= options.gap < 1:
        problem("gap", "a relative gap from 0 to below 1", f"{options.gap:g}")
    if not 0 <= options.slack < 1:
        problem("slack", "a relative slack from 0 to below 1", f"{options.slack:g}")
    if options.collaboration not in COLLABORATION:
        hint = did_you_mean(options.collaboration, COLLABORATION)
        problem("collaboration", one_of(COLLABORATION), repr(options.collaboration), hint)
    if errors:
        raise ConfigErrors(errors)


def history_grouping(load: IntArray, groups: int) -> IntArray:
    """Groups by popularity alone: the hottest expert first, each to the least loaded group that has room.

    Returns the group of every expert, int64 (experts,).
    """
    size = len(load) // groups
    total, held = [0] * groups, [0] * groups
    group = np.empty(len(load), dtype=np.int64)
    for expert in np.argsort(-load, kind="stable").tolist():
        chosen = min((g for g in range(groups) if held[g] < size), key=lambda g: (total[g], g))
        group[expert] = chosen
        total[chosen] += int(load[expert])
        held[chosen] += 1
    return group


def improved(
    loads: FloatArray, group: IntArray, groups: int, slots: int, options: GroupingOptions
) -> tuple[IntArray, int]:
    """A grouping improved by swaps of two experts until none helps: the first objective, then each later one by swaps
    that keep those before within the slack. Returns the groups and the number of swaps."""
    group = np.array(group, dtype=np.int64)
    swaps = 0
    work = np.stack([loads[:, group == g].sum(axis=1) for g in range(groups)], axis=1)
    changed = True
    while changed:
        changed = False
        for g in range(groups):
            for h in range(g + 1, groups):
                swap = _best_swap(loads, work, group, g, h)
                if swap is not None:
                    a, b = swap
                    work[:, g] += loads[:, b] - loads[:, a]
                    work[:, h] += loads[:, a] - loads[:, b]
                    group[a], group[b] = h, g
                    swaps += 1
                    changed = True
    for objective in range(1, options.objectives):
        group, more = _improve_later(loads, group, groups, slots, objective, options)
        swaps += more
    return group, swaps


def _best_swap(loads: FloatArray, work: FloatArray, group: IntArray, g: int, h: int) -> tuple[int, int] | None:
    """The swap of one expert of g and one of h that narrows the summed range of work most, or none that does."""
    ours, theirs = np.flatnonzero(group == g), np.flatnonzero(group == h)
    value = _ranges(loads, work, ours, theirs, g, h)
    now = float((work.max(axis=1) - work.min(axis=1)).sum())
    best = int(value.argmin())
    if float(value.reshape(-1)[best]) >= now - _IMPROVES * max(1.0, now):
        return None
    return int(ours[best // len(theirs)]), int(theirs[best % len(theirs)])


def _ranges(loads: FloatArray, work: FloatArray, ours: IntArray, theirs: IntArray, g: int, h: int) -> FloatArray:
    """Objective 1 after each swap, float64 (ours, theirs)."""
    rest = np.delete(work, (g, h), axis=1)
    high = rest.max(axis=1, initial=-np.inf)[:, None, None]
    low = rest.min(axis=1, initial=np.inf)[:, None, None]
    move = loads[:, theirs][:, None, :] - loads[:, ours][:, :, None]
    first, second = work[:, g][:, None, None] + move, work[:, h][:, None, None] - move
    top = np.maximum(np.maximum(first, second), high)
    bottom = np.minimum(np.minimum(first, second), low)
    return np.asarray((top - bottom).sum(axis=0))


def _improve_later(
    loads: FloatArray, group: IntArray, groups: int, slots: int, objective: int, options: GroupingOptions
) -> tuple[IntArray, int]:
    weight = np.ones(len(loads), dtype=np.int64)

    def cost(candidate: IntArray) -> tuple[float, ...]:
        found = group_objectives(loads, weight, _as_shares(candidate, groups), slots, options.collaboration)
        return found.work_range, found.collaboration_range, found.collaboration

    value = cost(group)
    limits = [kept * (1 + options.slack) + _IMPROVES * max(1.0, kept) for kept in value[:objective]]
    swaps = 0
    changed = True
    while changed:
        changed = False
        work = np.stack([loads[:, group == g].sum(axis=1) for g in range(groups)], axis=1)
        for g in range(groups):
            for h in range(g + 1, groups):
                ours, theirs = np.flatnonzero(group == g), np.flatnonzero(group == h)
                allowed = np.argwhere(_ranges(loads, work, ours, theirs, g, h) <= limits[0])
                for a, b in allowed.tolist():
                    candidate = group.copy()
                    candidate[ours[a]], candidate[theirs[b]] = h, g
                    found = cost(candidate)
                    better = found[objective] < value[objective] - _IMPROVES * max(1.0, value[objective])
                    if better and all(x <= limit for x, limit in zip(found[:objective], limits, strict=True)):
                        group, value, changed = candidate, found, True
                        swaps += 1
                        break
                if changed:
                    break
            if changed:
                break
    return group, swaps


def _order(value: GroupObjectives, objectives: int) -> tuple[float, ...]:
    return (value.work_range, value.collaboration_range, value.collaboration)[:objectives]


def _as_shares(group: IntArray, groups: int) -> FloatArray:
    shares = np.zeros((len(group), groups))
    shares[np.arange(len(group)), group] = 1
    return shares
