"""Loads of experts step by step: what one serving step routes to each expert, as a series over steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cosim.trace.problems import TraceError
from cosim.trace.random import RandomStream
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.statistics import step_groups

__all__ = ["StepSeries", "step_series"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StepSeries:
    """Steps of equal size over a trace.

    trace: the trace; where it names phases, its decode rows only.
    rows:  rows of the trace, int64, shape (steps, tokens): the n-th decode token of each of `tokens` requests that
           follow each other, then of the next requests; consecutive rows where request boundaries are unknown.
    """

    trace: RoutingTrace
    rows: NDArray[np.int64]

    @property
    def steps(self) -> int:
        """How many steps."""
        return int(self.rows.shape[0])

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return int(self.rows.shape[1])

    @property
    def step(self) -> NDArray[np.int64]:
        """Step of each token of `rows`, in row order."""
        return np.arange(self.steps, dtype=np.int64).repeat(self.tokens)

    def counts(self, layer: int, step: NDArray[np.int64] | None = None) -> Counts:
        """F[d, e]: tokens that step d routes to expert e, int64, shape (steps, experts).

        `step` deals the tokens otherwise: the step of each token of `rows`, in row order.
        """
        ids = self.trace.ids[self.rows.reshape(-1), layer].astype(np.int64)
        keys = ids + ((self.step if step is None else step) * self.trace.experts)[:, None]
        filled = keys.reshape(-1) if int(ids.min()) >= 0 else keys[ids >= 0]
        size = self.steps * self.trace.experts
        return np.bincount(filled, minlength=size).reshape(self.steps, self.trace.experts).astype(np.int64)

    def permuted(self, stream: RandomStream) -> NDArray[np.int64]:
        """A step for each token: all tokens of all steps in an order drawn from `stream`."""
        return stream.permutation(self.rows.size) // self.tokens

    def rotated(self, stream: RandomStream) -> NDArray[np.int64]:
        """A step for each token: every request of a run of steps is turned by an offset of its own.

        Step sizes, tokens' experts and the course of every request stay; what requests do at the same time is lost.

        Raises:
            TraceError: no request boundaries.
        """
        if self.trace.request is None:
            raise TraceError(
                self.trace.source, ["no request boundaries: there are no requests to turn against each other"]
            )
        first = self.trace.request[self.rows[:, 0]]
        cuts = np.append(np.flatnonzero(np.diff(first, prepend=first[0] - 1)), self.steps)
        step = np.empty(self.rows.shape, dtype=np.int64)
        for start, end in pairwise(cuts.tolist()):
            length = end - start
            offset = (stream.draws(self.tokens) % np.uint64(length)).astype(np.int64)
            step[start:end] = start + (np.arange(length)[:, None] + offset[None, :]) % length
        return step.reshape(-1)


def step_series(trace: RoutingTrace, batch_tokens: int, *, at_least: int, why: str) -> StepSeries:
    """The whole steps of `batch_tokens` tokens that a trace holds.

    Args:
        trace: the trace.
        batch_tokens: tokens of a step.
        at_least: steps that the caller needs.
        why: what for, in the error.

    Raises:
        TraceError: fewer steps than needed; says how many there are, and of what size enough would fit.
    """
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens: expected at least 1, got {batch_tokens}")
    decode = PHASES.index("decode")
    if trace.phase is not None and bool((trace.phase == decode).any()):
        trace = trace.take(np.flatnonzero(trace.phase == decode))
    rows = step_groups(trace, batch_tokens)
    if len(rows) < at_least:
        fits = [size for size in (2**n for n in range(14)) if size < batch_tokens]
        enough = next((size for size in reversed(fits) if len(step_groups(trace, size)) >= at_least), None)
        hint = f"; steps of {enough} tokens would be enough" if enough else ""
        raise TraceError(
            trace.source,
            [f"{len(rows)} steps of {batch_tokens} tokens; {why} needs at least {at_least} steps{hint}"],
        )
    return StepSeries(trace, rows)
