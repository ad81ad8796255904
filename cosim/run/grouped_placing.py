"""A placement by groups of experts on stacks of cores: 3D-MoE's grouping and mapping, and Mozart's clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from cosim.config.errors import ConfigErrors
from cosim.placement.expert_mapping import RouteWeight, co_activation, map_experts, offset_scores, pair_weights
from cosim.placement.file import PlacementFile
from cosim.placement.group_costs import max_over_mean
from cosim.placement.grouping import GroupingOptions, check_grouping, group_experts, history_grouping
from cosim.placement.mozart import co_activation_groups
from cosim.placement.shares import FloatArray, IntArray
from cosim.run.setup import Setup, part_text
from cosim.system import System
from cosim.trace.step_series import step_series

__all__ = ["GroupPlaceOptions", "core_distance", "grouped_placement", "stacks_of"]


@dataclass(frozen=True)
class GroupPlaceOptions:
    """What to place.

    method: complementarity (3D-MoE), mozart, or popularity (groups of even load over the whole profile).
    batch_tokens: tokens of a step of the profile, the workload's if not given. groups: for systems whose cores lie in
    one network; blocks of them in their order. experts_per_core: P_max, as few as hold the experts if not given.
    route_weight: lambda_route. clusters_per_group: of Mozart, whose program stops where `grouping` says.
    """

    method: str
    batch_tokens: int | None = None
    groups: int | None = None
    experts_per_core: int | None = None
    route_weight: RouteWeight = "tokens"
    clusters_per_group: int = 4
    grouping: GroupingOptions = field(default_factory=GroupingOptions)


def stacks_of(system: System, groups: int | None = None) -> IntArray:
    """Stack of every compute endpoint, int64, numbered in order: the network it sits in, or a block of one network.

    Raises:
        ConfigErrors: several networks and another number of groups; one network and none, or one that does not divide
            its cores.
    """
    networks = np.array([place.network for place in system.compute_endpoints], dtype=np.int64)
    cores, found = len(networks), np.unique(networks)
    if len(found) > 1:
        if groups not in (None, len(found)):
            raise ConfigErrors.single(
                f"no number of groups: the system's {len(found)} networks with cores are the stacks",
                str(groups),
                path="groups",
            )
        return np.searchsorted(found, networks).astype(np.int64)
    if groups is None:
        raise ConfigErrors.single(
            f"a number of groups: the {cores} cores of the system lie in one network", "none", path="groups"
        )
    if groups < 1 or cores % groups:
        raise ConfigErrors.single(f"groups of equal size: a divisor of {cores} cores", str(groups), path="groups")
    return np.arange(cores, dtype=np.int64) * groups // cores


def core_distance(system: System) -> FloatArray:
    """R: links between the system's compute endpoints, those of gateways included, float64 (cores, cores)."""
    places = [place.index for place in system.compute_endpoints]
    return np.array([[system.routes.between(a, b) for b in places] for a in places], dtype=np.float64)


def grouped_placement(
    setup: Setup,
    options: GroupPlaceOptions,
    *,
    report: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PlacementFile:
    """Places every MoE layer of the model on the profile part of the experiment's trace.

    Args:
        report: called with each program's size before it is solved, and how it ended.
        progress: called with layers done and layers.

    Raises:
        ConfigErrors: no profile part, a trace of fewer layers than the model, groups that do not divide cores or
            experts, a core with too little room, a profile without a whole step.
    """
    model, system = setup.model, setup.system
    stack = stacks_of(system, options.groups)
    groups, cores = int(stack.max()) + 1, len(stack)
    check_grouping(model.experts, groups, max(1, model.experts // groups), options.grouping)
    fewest = int(np.bincount(stack).min())
    needed = -(-model.experts // groups // fewest)
    most = needed if options.experts_per_core is None else options.experts_per_core
    if setup.trace.layers < model.moe_layers:
        raise ConfigErrors.single(
            f"a trace of all {model.moe_layers} MoE layers",
            f"{setup.trace.layers} in {setup.spec.trace.file}",
            path="trace",
        )
    profile = setup.parts.profile
    if not len(profile):
        raise ConfigErrors.single("a profile part to place on", "profile: none", path="trace.profile")
    tokens = options.batch_tokens if options.batch_tokens is not None else setup.spec.workload.batch_tokens
    series = step_series(setup.trace.take(np.sort(profile)), tokens, at_least=1, why="a grouping")
    distance = core_distance(system)
    neurons = np.zeros((model.moe_layers, model.experts, cores), dtype=np.int64)
    lines = []
    for layer in range(model.moe_layers):
        loads = series.counts(layer)
        ids = series.trace.ids[series.rows.reshape(-1), layer].astype(np.int64)
        affinity = co_activation(ids, model.experts)
        label = f"layer {layer}: "
        if options.method == "complementarity":
            found = group_experts(
                loads,
                groups,
                model.experts // groups,
                options.grouping,
                None if report is None else (lambda line, label=label: report(label + line)),  # type: ignore[misc]
            )
            weights = pair_weights(offset_scores(loads), affinity, found.group, len(ids), options.route_weight)
            mapped = map_experts(
                weights.pairs,
                distance,
                found.group,
                stack,
                most_experts=most,
                restarts=options.grouping.restarts,
                seed=options.grouping.seed,
            )
            core, group = mapped.core, found.group
            text = f"{found.report}; lambda_route {weights.route_weight:.6g}; {mapped}"
        elif options.method == "popularity":
            group = history_grouping(loads.sum(axis=0), groups)
            core = _by_popularity(loads.sum(axis=0), group, stack, most)
            text = "hottest expert first, each to the least loaded group"
        else:
            clustered = co_activation_groups(
                affinity * len(ids),
                loads.sum(axis=0),
                groups,
                clusters_per_group=options.clusters_per_group,
                gap=options.grouping.gap,
                node_limit=options.grouping.node_limit,
            )
            group = clustered.group
            core = _by_popularity(loads.sum(axis=0), group, stack, most)
            text = str(clustered)
        balance = float(max_over_mean(loads.astype(np.float64), np.eye(groups)[group]).mean())
        lines.append(f"{label}{text}; group max over mean {balance:.3f}")
        neurons[layer, np.arange(model.experts), core] = model.moe_intermediate
        if progress is not None:
            progress(layer + 1, model.moe_layers)
    return PlacementFile(
        model.name or "model",
        model.moe_intermediate,
        neurons,
        {
            "command": "cosim place group",
            **asdict(options),
            "batch_tokens": tokens,
            "groups": groups,
            "experts_per_core": most,
            "steps": series.steps,
            "experiment": setup.spec.name or "experiment",
            "trace": setup.spec.trace.file,
            "profile": part_text(setup.spec.trace.profile),
            "system": system.spec.name or "system",
        },
        lines,
    )


def _by_popularity(load: IntArray, group: IntArray, stack: IntArray, most: int) -> IntArray:
    """Cores of a group's stack by load: the hottest expert first, each to the least loaded core that has room."""
    core = np.empty(len(load), dtype=np.int64)
    total: dict[int, int] = dict.fromkeys(range(len(stack)), 0)
    held: dict[int, int] = dict.fromkeys(range(len(stack)), 0)
    for expert in np.argsort(-load, kind="stable").tolist():
        free = [c for c in np.flatnonzero(stack == group[expert]).tolist() if held[c] < most]
        if not free:
            raise ConfigErrors.single(
                f"room for the experts of group {int(group[expert])} in its stack",
                f"{int(np.count_nonzero(stack == group[expert]))} cores of at most {most}",
                path="experts_per_core",
            )
        chosen = min(free, key=lambda c: (total[c], c))
        core[expert] = chosen
        total[chosen] += int(load[expert])
        held[chosen] += 1
    return core
