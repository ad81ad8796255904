"""Components and inputs measured by themselves, for claims that speak of them and not of runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from cosim.config.errors import ConfigErrors
from cosim.config.schema_experiment import (
    CommunicationSpec,
    ComplementaritySpec,
    ExperimentSpec,
    GroupingComponentSpec,
    HotspotComponentSpec,
    LoadsSpec,
)
from cosim.noc import hotspot
from cosim.placement.expert_mapping import co_activation, map_experts, offset_scores, pair_weights
from cosim.placement.group_costs import group_objectives, max_over_mean
from cosim.placement.grouping import GroupingOptions, group_experts
from cosim.placement.shares import IntArray
from cosim.run.gamma import GammaOptions, fits, sample
from cosim.run.grouped_placing import core_distance, stacks_of
from cosim.run.layer_pass import PassCases
from cosim.run.setup import Setup
from cosim.system import load_system
from cosim.trace.complementarity import Complementarity, analyse
from cosim.trace.load_variation import load_variation
from cosim.trace.step_series import StepSeries, step_series

__all__ = ["check_components", "component_frames"]


def check_components(spec: ExperimentSpec, setup: Setup) -> None:
    """Reads their files and looks at their layers and steps.

    Raises:
        ConfigErrors: every error of a file, a layer that the trace does not have.
        TraceError: a trace with too few steps for the test; says how many are needed.
    """
    if spec.components is None:
        return
    if spec.components.hotspot is not None:
        hotspot.load(spec.components.hotspot.file)
    if spec.components.communication is not None:
        _cases(spec.components.communication, setup)
    tested, loads, grouping = spec.components.complementarity, spec.components.loads, spec.components.grouping
    for name, part in (("complementarity", tested), ("loads", loads), ("grouping", grouping)):
        if part is not None and part.layers.last is not None and part.layers.last >= setup.trace.layers:
            raise ConfigErrors.single(
                f"layers of the trace, which has 0 to {setup.trace.layers - 1}",
                f"layer {part.layers.last}",
                path=f"components.{name}.layers",
            )
    if tested is not None:
        step_series(setup.trace, tested.batch_tokens, at_least=20, why="components.complementarity, at a level of 5 %")
    if loads is not None:
        step_series(setup.trace, loads.batch_tokens, at_least=2, why="components.loads")
    if grouping is not None:
        _check_grouping(setup)
        _parts(grouping, setup)


def component_frames(spec: ExperimentSpec, setup: Setup) -> dict[str, pd.DataFrame]:
    """One frame per component: ``subject``, numbers that tell its cases apart, and its metrics (nan where it has none).

    ``hotspot``: subjects are the schemes; helpers, tile_bytes, packet_flits; completion_cycles, link_flits, over_ideal,
    network_latency_mean_cycles and the shares of it. Cases of ``packet_sizes`` have completion_cycles and link_flits of
    their own, no over_ideal.

    ``communication``: subjects are ``<policy>_on_<system>``; of ``cosim place gamma``, gamma, its 95 % interval and R²
    over reserved links and over flits (``_link``, ``_flit``), and times of all batches together over those over flits,
    of reserved links and of Eq. 2.

    ``complementarity``: means over the layers. flagged_share: by the circular-shift test, of pairs of the trace
    (``recorded``), of the trace with tokens dealt anew (``shuffled``). survives_share: negative (``recorded``) and
    positive (``positive``) pairs beyond the token-permutation null. cosine and domain_distance: of pairs that the
    circular-shift test flags (``flagged``) and of all ``others``; the latter where the trace names domains.

    ``loads``: peak_over_mean, the largest over the layers; skew, dispersion and hot_overlap, means over them; of the
    trace (``recorded``) and the largest of the draws in which tokens are dealt to other steps (``dealt``) or pick
    experts evenly (``uniform``).

    ``grouping``: made on the profile part, judged on the evaluate part, means over the layers. max_over_mean of the
    stacks' loads, collaboration and its range between stacks in tokens per token of the step: by all three objectives
    (``grouped``), by the first alone (``first_objective``) and with experts in blocks (``blocks``). collaboration_hops:
    links between experts of a pair times the tokens that both could share or work on, per token, of the grouped experts
    as mapped (``grouped``) and in the order of their numbers (``in_order``).
    """
    frames: dict[str, pd.DataFrame] = {}
    wanted = spec.components
    if wanted is None:
        return frames
    if wanted.hotspot is not None:
        frames["hotspot"] = _hotspot(wanted.hotspot)
    if wanted.communication is not None:
        frames["communication"] = _communication(wanted.communication, setup)
    if wanted.complementarity is not None:
        frames["complementarity"] = _complementarity(wanted.complementarity, setup)
    if wanted.loads is not None:
        frames["loads"] = _loads(wanted.loads, setup)
    if wanted.grouping is not None:
        frames["grouping"] = _grouping(wanted.grouping, setup)
    return frames


def _hotspot(spec: HotspotComponentSpec) -> pd.DataFrame:
    found = hotspot.run(*hotspot.load(spec.file))
    known = found.frame
    sizes = found.sizes
    if len(sizes):
        sizes = sizes[~sizes["packet_flits"].isin(known["packet_flits"].unique())]
    frame: pd.DataFrame = pd.concat([known, sizes], ignore_index=True) if len(sizes) else known
    numbers = [name for name in frame.columns if name != "scheme"]
    named: pd.DataFrame = frame.rename(columns={"scheme": "subject"}).astype(dict.fromkeys(numbers, float))
    return named


def _cases(spec: CommunicationSpec, setup: Setup) -> PassCases:
    systems = [(name, load_system(file)) for name, file in spec.systems.items()]
    return PassCases.of(setup, systems, spec.policies, path="components.communication.policies")


def _communication(spec: CommunicationSpec, setup: Setup) -> pd.DataFrame:
    options = GammaOptions(spec.samples, (spec.least_tokens, spec.most_tokens), spec.partial_sums, spec.seed)
    drawn = sample(_cases(spec, setup), options)
    rows: dict[str, dict[str, object]] = {}
    for row in fits(drawn):
        here = drawn[(drawn["system"] == row.system) & (drawn["policy"] == row.policy)]
        flits_s = float(here["flit_s"].sum())
        subject = f"{row.policy}_on_{row.system}"
        found = rows.setdefault(subject, {"subject": subject})
        found[f"gamma_{row.network}"] = row.fit.gamma
        found[f"gamma_low_{row.network}"], found[f"gamma_high_{row.network}"] = row.fit.ci_low, row.fit.ci_high
        found[f"r_squared_{row.network}"] = row.fit.r_squared
        found["link_over_flit"] = float(here["link_s"].sum()) / flits_s
        found["node_traffic_over_flit"] = float(here["node_traffic_s"].sum()) / flits_s
    frame: pd.DataFrame = pd.DataFrame(list(rows.values()))
    return frame


def _complementarity(spec: ComplementaritySpec, setup: Setup) -> pd.DataFrame:
    layers = tuple(spec.layers.indices(setup.trace.layers))
    found = analyse(
        setup.trace,
        batch_tokens=spec.batch_tokens,
        layers=layers,
        permutations=spec.permutations,
        shuffles=min(spec.shuffles, spec.permutations),
        seed=spec.seed,
    )
    domains = [layer.domain_flagged for layer in found.layers if layer.domain_flagged is not None]
    shares = ("recorded", "shuffled", "positive")
    pairs = ("flagged", "others")
    rows = {
        "subject": [*shares, *pairs],
        "flagged_share": [_mean(found, "flagged_share"), _mean(found, "shuffled_share"), *[math.nan] * 3],
        "survives_share": [_mean(found, "survives_share"), math.nan, _mean(found, "exceeds_share"), *[math.nan] * 2],
        "cosine": [*[math.nan] * 3, *(_mean(found, f"cosine_{which}") for which in pairs)],
        "domain_distance": [*[math.nan] * 3, *(_over([getattr(item, which) for item in domains]) for which in pairs)],
    }
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def _loads(spec: LoadsSpec, setup: Setup) -> pd.DataFrame:
    found = load_variation(
        setup.trace,
        batch_tokens=spec.batch_tokens,
        layers=tuple(spec.layers.indices(setup.trace.layers)),
        draws=spec.draws,
        seed=spec.seed,
    )
    rows = []
    for subject in ("recorded", "dealt", "uniform"):
        figures = [getattr(layer, subject) for layer in found]
        rows.append(
            {
                "subject": subject,
                "peak_over_mean": max(one.peak_over_mean for one in figures),
                "skew": _over([one.skew for one in figures]),
                "dispersion": _over([one.dispersion for one in figures]),
                "hot_overlap": _over([one.hot_overlap for one in figures]),
            }
        )
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def _check_grouping(setup: Setup) -> tuple[IntArray, int, int]:
    """Stack of every core, experts of a stack and experts of a core."""
    stack = stacks_of(setup.system)
    stacks, experts = int(stack.max()) + 1, setup.model.experts
    if experts % stacks:
        raise ConfigErrors.single(
            f"experts in groups of equal size for {stacks} stacks", f"{experts} experts", path="components.grouping"
        )
    return stack, experts // stacks, -(-experts // stacks // int(np.bincount(stack).min()))


def _parts(spec: GroupingComponentSpec, setup: Setup) -> tuple[StepSeries, StepSeries]:
    """Steps to group on and steps to judge on."""
    if not len(setup.parts.profile):
        raise ConfigErrors.single("a profile part to group on", "profile: none", path="trace.profile")
    made, judged = (
        step_series(setup.trace.take(np.sort(part)), spec.batch_tokens, at_least=1, why="components.grouping")
        for part in (setup.parts.profile, setup.parts.evaluate)
    )
    return made, judged


def _grouping(spec: GroupingComponentSpec, setup: Setup) -> pd.DataFrame:
    stack, slots, most = _check_grouping(setup)
    experts, stacks = setup.model.experts, setup.model.experts // slots
    made, judged = _parts(spec, setup)
    distance = core_distance(setup.system)
    rows = []
    for layer in spec.layers.indices(setup.trace.layers):
        loads, ids = made.counts(layer), made.trace.ids[made.rows.reshape(-1), layer].astype(np.int64)
        options = GroupingOptions(restarts=spec.restarts, seed=spec.seed)
        grouped = group_experts(loads, stacks, slots, options)
        first = group_experts(loads, stacks, slots, replace(options, objectives=1))
        blocks = np.eye(stacks)[np.arange(experts) * stacks // experts]
        later = judged.counts(layer)
        for subject, shares in (("grouped", grouped.shares), ("first_objective", first.shares), ("blocks", blocks)):
            costs = group_objectives(later.astype(np.float64), np.ones(len(later), dtype=np.int64), shares, slots)
            rows.append(
                {
                    "subject": subject,
                    "max_over_mean": float(max_over_mean(later.astype(np.float64), shares).mean()),
                    "collaboration": costs.collaboration / judged.rows.size,
                    "collaboration_range": costs.collaboration_range / judged.rows.size,
                }
            )
        weights = pair_weights(offset_scores(loads), co_activation(ids, experts), grouped.group, len(ids))
        mapped = map_experts(
            weights.pairs, distance, grouped.group, stack, most_experts=most, restarts=spec.restarts, seed=spec.seed
        )
        ids = judged.trace.ids[judged.rows.reshape(-1), layer].astype(np.int64)
        weights = pair_weights(offset_scores(later), co_activation(ids, experts), grouped.group, len(ids))
        for subject, core in (("grouped", mapped.core), ("in_order", mapped.core_in_order)):
            hops = float((weights.pairs * distance[np.ix_(core, core)]).sum()) / 2 / judged.rows.size
            rows.append({"subject": subject, "collaboration_hops": hops})
    subjects = ["grouped", "first_objective", "blocks", "in_order"]
    means: pd.DataFrame = pd.DataFrame(rows).groupby("subject").mean().loc[subjects].reset_index()
    return means


def _mean(found: Complementarity, name: str) -> float:
    return _over([float(getattr(layer, name)) for layer in found.layers])


def _over(values: list[float]) -> float:
    """Mean of what there is; nan of nothing."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
