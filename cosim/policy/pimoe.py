"""PIMoE: cold experts next to their memory, hot ones on the other chiplets, until both sides take equally long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.assignment import homes
from cosim.policy.base import Policy, Pressure, Profile
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.placement import expert_parallel
from cosim.policy.room import Room

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Pimoe", "throttle_split"]


def throttle_split(
    tokens: npt.NDArray[np.float64], cold_s: npt.NDArray[np.float64], hot_s: npt.NDArray[np.float64], most_cold: int
) -> npt.NDArray[np.bool_]:
    """Which experts stay cold, by throttle-aware offloading (PIMoE, DAC 2025).

    All experts start at the memory's side; the one with the most tokens moves to the other side again and again until
    the memory's side is no longer the slower one, and at least until it holds ``most_cold``.

    Args:
        tokens: of every expert.
        cold_s, hot_s: seconds that an expert adds to either side.
    """
    cold = np.ones(len(tokens), dtype=np.bool_)
    for expert in np.lexsort((np.arange(len(tokens)), -tokens)).tolist():
        if cold_s[cold].sum() <= hot_s[~cold].sum() and cold.sum() <= most_cold:
            break
        cold[expert] = False
    return cold


class Pimoe(Policy):
    """Cold experts lie in the warm tier and run at the chiplets where its memories are; hot ones run on the others.

    On HCRMap's substrate there are no processing-in-memory units: chiplets at the routers of the warm tier take their
    part, reading without a hop over the package (HCRMap, 2.3: the policies run on identical hardware). The two latency
    models of the paper are not published; here they are weights over bandwidth against the slower of weights over
    bandwidth and work over the rate of the hot chiplets.
    """

    name = "pimoe"

    class Params(Policy.Params):
        """``batch_tokens``: tokens of a batch that the split is made for."""

        batch_tokens: Annotated[int, Field(ge=1)] = 512

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        tiers = sorted(system.tiers, key=lambda tier: (tier.rank, tier.name))
        warm, home = tiers[-2] if len(tiers) > 1 else tiers[-1], tiers[-1]
        computes = system.compute_endpoints
        routers = {system.endpoints[memory].router for memory in warm.endpoints}
        near = [place.index for place in computes if place.router in routers]
        others = [place.index for place in computes if place.router not in routers]
        near, others = near or others, others or near
        bandwidth = {
            tier.name: sum(float(figures.peak_Bps) for m in tier.endpoints if (figures := system.endpoints[m].memory))
            for tier in (warm, home)
        }
        rate = sum(float(spec.effective_rate()) for c in others if (spec := system.endpoints[c].spec.compute))
        running = set(profile.running)
        placed = [h for h in expert_parallel(system, model).replicas if h.layer not in running]
        room = Room(system, model)
        slots = warm.total_bytes // model.expert_bytes // max(len(running), 1)
        for layer in profile.running:
            counts = profile.counts[layer].astype(np.float64)
            tokens = counts * (self.params.batch_tokens / max(profile.tokens, 1))
            used = np.minimum(tokens, 1.0)  # the share of batches in which an expert is wanted at all
            cold_s = used * model.expert_bytes / bandwidth[warm.name]
            work_s = tokens * (2 * model.expert_macs_per_token / rate)
            hot_s = np.maximum(used * model.expert_bytes / bandwidth[home.name], work_s)
            cold = throttle_split(tokens, cold_s, hot_s, slots)
            ends = {True: dict.fromkeys(near, 0.0), False: dict.fromkeys(others, 0.0)}
            for expert in np.lexsort((np.arange(model.experts), -tokens)).tolist():
                side = bool(cold[expert])
                load = ends[side]
                chiplet = min(load, key=lambda c: (load[c], c))
                load[chiplet] += float(tokens[expert])
                made = room.replica(layer, expert, chiplet, [warm.name, home.name] if side else [home.name])
                placed.append(made or PlacedReplica(layer, expert, chiplet, home.serving(chiplet)[0], home.name))
        return Placement(placed)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        return homes(groups, directory)
