"""Hardware-aware gating of HDA-MoE: experts on busy nodes, or far from a token's other experts, score lower."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.policy.base import GateState
from cosim.policy.hd_moe import HDMoE

__all__ = ["HDAMoE"]


class HDAMoE(HDMoE):
    """HD-MoE and a gate: s'(e) = s(e) + r_comp · compute penalty(e) + r_comm · dispersion penalty(e).

    The Top-k of s' run, weights stay those of s (HDA-MoE, hardware-aware gating, after HD-MoE's latency model). The
    penalties are named there and not printed; they are read so:

    compute penalty: seconds that the busiest node holding a part of e would work on the batch as the model routed it
        (Eq. 1 for that node).
    dispersion penalty: endpoints that hold e and none of the token's highest-scored expert: what the token would have
        to touch besides.

    An expert that has been broadcast runs at a node that the token touches anyway, on the least loaded of them: it has
    no dispersion penalty, and the compute penalty of the node that would work least.
    """

    name = "hda_moe"
    preserves_routing = False

    class Params(HDMoE.Params):
        """``r_comp`` in 1/s and ``r_comm``: both at most zero; defaults are the largest for which the paper's accuracy
        is level (Fig. 24: r_comp = -3e4, |r_comm| = 0.06)."""

        r_comp: Annotated[float, Field(le=0, allow_inf_nan=False)] = -3e4
        r_comm: Annotated[float, Field(le=0, allow_inf_nan=False)] = -0.06

    params: Params

    def gate(self, scores: npt.NDArray[np.floating], state: GateState) -> npt.NDArray[np.floating]:
        shares = self._held_shares(state.directory, state.layer)
        copied = sorted({expert for layer, expert, _ in self._copies(state.directory) if layer == state.layer})
        # the replicas of an expert share its tokens
        shares[copied] /= shares[copied].sum(axis=1, keepdims=True)
        recorded = state.recorded[state.recorded >= 0]
        tokens = np.bincount(recorded, minlength=self._experts)
        seconds = (tokens @ shares) * self._seconds_per_token
        held = shares > 0
        compute = np.where(held, seconds, 0.0).max(axis=1)
        compute[copied] = np.where(held, seconds, np.inf).min(axis=1)[copied]
        best = np.argmax(scores, axis=1)
        beyond = held.sum(axis=1)[None, :] - held[best].astype(np.int64) @ held.T
        beyond[:, copied] = 0
        adjusted = scores.astype(np.float64) + self.params.r_comp * compute + self.params.r_comm * beyond
        return np.asarray(adjusted, dtype=np.float64)
