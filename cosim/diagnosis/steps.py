"""The steps of a trace that a diagnosis looks at: batches of tokens, in the order in which they were routed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors
from cosim.trace import RoutingTrace, TraceError
from cosim.workload.batch import batches, servable_modes

__all__ = ["MOST_STEPS", "Steps", "steps_of"]

MOST_STEPS = 64
LEAST_STEPS = 8


@dataclass(frozen=True, eq=False)
class Steps:
    """Expert ids, shape (steps, tokens, layers, slots), -1 for an empty slot, and how they were cut from the trace."""

    ids: npt.NDArray[np.int64]
    mode: str
    experts: int

    @property
    def count(self) -> int:
        """Steps."""
        return int(self.ids.shape[0])

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return int(self.ids.shape[1])

    @property
    def layers(self) -> int:
        """MoE layers."""
        return int(self.ids.shape[2])

    def counts(self) -> npt.NDArray[np.int64]:
        """Slots routed to each expert, shape (steps, layers, experts)."""
        steps, _, layers, _ = self.ids.shape
        by_row = self.ids.transpose(0, 2, 1, 3).reshape(steps * layers, -1)
        filled = by_row >= 0
        keys = np.arange(len(by_row))[:, None] * self.experts + by_row
        found = np.bincount(keys[filled], minlength=len(by_row) * self.experts)
        return found.reshape(steps, layers, self.experts).astype(np.int64)

    def part(self, first: int, last: int) -> Steps:
        """Steps [first, last)."""
        return Steps(self.ids[first:last], self.mode, self.experts)


def steps_of(trace: RoutingTrace, batch_tokens: int, mode: str | None, seed: int, most: int = MOST_STEPS) -> Steps:
    """As many steps of ``batch_tokens`` tokens as the trace serves, halving from ``most`` down.

    Mode ``decode`` where the trace can serve it, else ``sequential``, if none is given.

    Raises:
        TraceError: a trace that does not serve the mode, or not eight steps.
    """
    chosen = mode or ("decode" if servable_modes(trace)["decode"] is None else "sequential")
    count = most
    while True:
        try:
            made = batches(trace, chosen, batch_tokens, count, seed)
            break
        except TraceError:
            if count // 2 < LEAST_STEPS:
                raise
            count //= 2
    sizes = {len(batch.tokens) for batch in made}
    if len(sizes) != 1:
        raise ConfigErrors.single("batches of one size", f"whole prompts in mode {chosen}", path="mode")
    return Steps(np.stack([trace.ids[batch.tokens] for batch in made]).astype(np.int64), chosen, trace.experts)
