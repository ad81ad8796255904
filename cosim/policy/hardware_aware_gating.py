"""Hardware-aware gating of HDA-MoE: experts on busy nodes, or far from a token's other experts, score lower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.base import GateState, Profile
from cosim.policy.directory import Placement
from cosim.policy.hybrid_parallel import Placed

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["HDAMoE"]


class HDAMoE(Placed):
    """A placement from a file, and a gate: s'(e) = s(e) + r_comp · compute penalty(e) + r_comm · dispersion penalty(e).

    The Top-k of s' run, weights stay those of s (HDA-MoE, hardware-aware gating, after HD-MoE's latency model). The
    penalties are named there and not printed; they are read so:

    compute penalty: seconds that the busiest node holding a part of e would work on the batch as the model routed it
        (Eq. 1 for that node).
    dispersion penalty: endpoints that hold e and none of the token's highest-scored expert: what the token would have
        to touch besides.
    """

    name = "hda_moe"
    preserves_routing = False

    class Params(Placed.Params):
        """``r_comp`` in 1/s and ``r_comm``: both at most zero; defaults are the largest for which the paper's accuracy
        is level (Fig. 24: r_comp = -3e4, |r_comm| = 0.06)."""

        r_comp: Annotated[float, Field(le=0, allow_inf_nan=False)] = -3e4
        r_comm: Annotated[float, Field(le=0, allow_inf_nan=False)] = -0.06

    params: Params

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        self._seconds_per_token = np.zeros(len(system.endpoints))
        for place in system.compute_endpoints:
            assert place.spec.compute is not None
            rate = float(place.spec.compute.effective_rate())
            self._seconds_per_token[place.index] = 2 * model.expert_macs_per_token / rate
        self._neurons_of_expert = model.moe_intermediate
        return super().place(system, model, profile)

    def gate(self, scores: npt.NDArray[np.floating], state: GateState) -> npt.NDArray[np.floating]:
        rows = state.directory.rows
        rows = rows[(rows["layer"] == state.layer) & (rows["expert"] < scores.shape[1])]
        experts, endpoints = scores.shape[1], len(self._seconds_per_token)
        shares = np.zeros((experts, endpoints))
        np.add.at(shares, (rows["expert"], rows["chiplet"]), rows["neurons"] / self._neurons_of_expert)
        recorded = state.recorded[state.recorded >= 0]
        tokens = np.bincount(recorded, minlength=experts)
        seconds = (tokens @ shares) * self._seconds_per_token
        held = shares > 0
        compute = np.where(held, seconds, 0.0).max(axis=1)
        best = np.argmax(scores, axis=1)
        beyond = held.sum(axis=1)[None, :] - held[best].astype(np.int64) @ held.T
        adjusted = scores.astype(np.float64) + self.params.r_comp * compute + self.params.r_comm * beyond
        return np.asarray(adjusted, dtype=np.float64)
