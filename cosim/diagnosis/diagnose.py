"""The diagnosis of a trace on a system: four questions, their figures, and an answer to each in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors
from cosim.diagnosis.hot_set import HotSet, hot_set
from cosim.diagnosis.imbalance import Imbalance, imbalance
from cosim.diagnosis.steps import Steps
from cosim.diagnosis.traffic import Loads, Pipes, loads_of, pipes_of
from cosim.placement.eplb import rebalance_experts

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["PLACEMENTS", "Diagnosis", "diagnose"]

#: Name → what it is. EPLB sees the first half of the steps, ``foresight`` the second half, which all are judged on.
PLACEMENTS = {
    "one copy": "every expert once, in blocks",
    "EPLB": "DeepSeek's EPLB, placed by the first half of the steps",
    "EPLB with foresight": "the same, placed by the half it is judged on: the most that history could give",
}
_CLEAR = 0.05
"""A bound that moves by less than this share has not moved."""


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was found; ``loads`` by the names of :data:`PLACEMENTS`, of the second half of the steps."""

    steps: Steps
    pipes: Pipes
    slots: int
    imbalance: Imbalance
    hot: HotSet
    loads: dict[str, Loads]

    def answers(self) -> list[tuple[str, str, str]]:
        """(question, answer in a word or two, the reason with its figures)."""
        return [self._is_it_real(), self._does_it_last(), self._would_replicas_help(), self._what_of_traffic()]

    def _is_it_real(self) -> tuple[str, str, str]:
        found = self.imbalance
        real, layers = int(found.real.sum()), len(found.real)
        beyond = float(found.observed.mean() - found.balanced.mean())
        short = "yes" if 2 * real > layers else "in some layers" if real else "no"
        late = float(np.mean(found.observed - found.shuffled))
        return (
            "Is the imbalance real?",
            short,
            f"the busiest rank has {found.observed.mean():.2f} times the mean load; a perfectly balanced router would "
            f"show {found.balanced.mean():.2f} with {self.steps.tokens} tokens. In {real} of {layers} layers sampling "
            f"does not explain it. Of the {beyond:+.2f}, {beyond - late:+.2f} is the long-run load of the experts and "
            f"{late:+.2f} tokens of one step being alike.",
        )

    def _does_it_last(self) -> tuple[str, str, str]:
        hot = self.hot
        last = hot.persistence[-1]
        short = "yes" if last >= 0.7 else "partly" if last >= 0.3 else "no"
        return (
            "Does the hot set last?",
            short,
            f"of the {hot.size} hottest experts of a layer {hot.kept[0]:.0%} are still hot a window of "
            f"{hot.window_steps} steps later and {hot.kept[-1]:.0%} after {hot.lags[-1]} windows; a load that never "
            f"changes would keep {hot.ceiling:.0%}, chance {hot.chance:.0%}.",
        )

    def _would_replicas_help(self) -> tuple[str, str, str]:
        before, after = self.loads["one copy"], self.loads["EPLB"]
        best = self.loads["EPLB with foresight"]
        gain = 1 - after.bound_s / before.bound_s
        binds = max(after.bound_by, key=lambda name: after.bound_by[name])
        bound = max(before.bound_by, key=lambda name: before.bound_by[name])
        eased = after.seconds["compute"] < (1 - _CLEAR) * before.seconds["compute"]
        if gain > _CLEAR:
            short = "yes"
        elif eased and binds != bound:
            short = "no, they move the bottleneck"
        elif gain < -_CLEAR:
            short = "no, they cost"
        elif eased:
            short = "no, something else binds"
        else:
            short = "no"
        return (
            "Would replicas help?",
            short,
            f"with {self.slots} slots for {self.steps.experts} experts the bound of a layer goes from "
            f"{before.bound_s * 1e6:.3g} to {after.bound_s * 1e6:.3g} µs ({-gain:+.0%}; {best.bound_s * 1e6:.3g} with "
            f"foresight). Ranks: {before.imbalance:.2f} → {after.imbalance:.2f} times the mean, compute "
            f"{before.seconds['compute'] * 1e6:.3g} → {after.seconds['compute'] * 1e6:.3g} µs. Before, {bound} is the "
            f"bottleneck in {before.bound_by[bound]:.0%} of layers and steps; after, {binds} in "
            f"{after.bound_by[binds]:.0%}.",
        )

    def _what_of_traffic(self) -> tuple[str, str, str]:
        before, after = self.loads["one copy"], self.loads["EPLB"]
        link_before, link_after = before.link_bytes.max(initial=0.0), after.link_bytes.max(initial=0.0)
        pairs = after.pair_bytes.sum() / max(before.pair_bytes.sum(), 1.0) - 1
        memory = after.memory_bytes.sum() / max(before.memory_bytes.sum(), 1.0) - 1
        change = link_after / max(link_before, 1.0) - 1
        return (
            "What happens to the traffic?",
            "busier links" if change > _CLEAR else "quieter links" if change < -_CLEAR else "little",
            f"bytes between ranks {pairs:+.0%}, weights read {memory:+.0%}, busiest link "
            f"{link_before / 1e3:.1f} → {link_after / 1e3:.1f} kB a layer and step ({change:+.0%}).",
        )


def diagnose(steps: Steps, system: System, model: ModelSpec, *, spare: int | None = None, seed: int = 1) -> Diagnosis:
    """Looks at a trace's steps on a system; nothing is simulated.

    Args:
        spare: slots for replicas in all, beside one for each expert; one for each rank if not given. Slots are a
            multiple of the ranks: those of experts that do not divide evenly are filled as well.
        seed: of the nulls' draws.

    Raises:
        ConfigErrors: no spare slot, or experts and a system that do not fit.
    """
    pipes = pipes_of(system)
    ranks, experts = len(pipes.ranks), steps.experts
    wanted = ranks if spare is None else spare
    if wanted < 1:
        raise ConfigErrors.single("at least one spare slot", str(wanted), path="spare")
    slots = -(-(experts + wanted) // ranks) * ranks
    rank_of = np.arange(experts) * ranks // experts
    half = steps.count // 2
    history, judged = steps.part(0, half), steps.part(half, steps.count)
    once = [[[int(rank)] for rank in rank_of] for _ in range(steps.layers)]
    hot_size = max(1, min(slots - experts, experts // 4))
    return Diagnosis(
        steps,
        pipes,
        slots,
        imbalance(steps, rank_of, ranks, seed),
        hot_set(steps, hot_size, 8 if steps.count >= 16 else 4, seed),
        {
            "one copy": loads_of(judged, once, pipes, model),
            "EPLB": loads_of(judged, _balanced(history, slots, ranks), pipes, model),
            "EPLB with foresight": loads_of(judged, _balanced(judged, slots, ranks), pipes, model),
        },
    )


def _balanced(seen: Steps, slots: int, ranks: int) -> list[list[list[int]]]:
    placed = rebalance_experts(seen.counts().sum(axis=0), slots, gpus=ranks)
    return [_by_expert(layer, slots // ranks, seen.experts) for layer in placed.phy2log]


def _by_expert(layer: npt.NDArray[np.int64], per_rank: int, experts: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(experts)]
    for slot, expert in enumerate(layer.tolist()):
        if slot // per_rank not in found[expert]:  # a rank that holds an expert twice reads it once
            found[expert].append(slot // per_rank)
    return found
