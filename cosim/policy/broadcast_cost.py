"""What a pipelined broadcast of experts costs, as HD-MoE prices it (arXiv 2509.09420, cost-aware pre-broadcasting).

A message of W bytes goes to D nodes of a mesh, about 2 √D hops away, in chunks of c bytes that nodes pass on. With α
seconds a step and β seconds a byte, k experts at once take

    t = α (2 √D + W / c) + β k (W + 2 c √D),

which is least at c = √(α W / (2 β k √D)):

    t = W β k + 2 α √D + 2 √(2 √D β k α W).

The text writes h I for W, the published code 2 h I: two matrices at a byte an element. Here W is what an expert weighs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

__all__ = ["ALPHA_FS", "BroadcastCost"]

ALPHA_FS = 10**8
"""α of HD-MoE's published code, 1e-7 s."""


@dataclass(frozen=True)
class BroadcastCost:
    """expert_bytes: W. bandwidth_Bps: 1 / β. nodes: D. alpha_s: α."""

    expert_bytes: int
    bandwidth_Bps: float
    nodes: int
    alpha_s: float

    def seconds(self, experts: int) -> float:
        """Of ``experts`` broadcasts at once, in chunks of the best size."""
        beta, root = experts / self.bandwidth_Bps, sqrt(self.nodes)
        size, alpha = self.expert_bytes, self.alpha_s
        return size * beta + 2 * alpha * root + 2 * sqrt(2 * root * beta * alpha * size)

    def chunk_bytes(self, experts: int) -> int:
        """The best chunk, at least a byte, at most the expert."""
        beta = experts / self.bandwidth_Bps
        best = sqrt(self.alpha_s * self.expert_bytes / (2 * beta * sqrt(self.nodes)))
        return min(self.expert_bytes, max(1, ceil(best)))

    def affordable(self, window_s: float, most: int) -> int:
        """The largest number of experts, at most ``most``, whose broadcast a window covers."""
        count = 0
        while count < most and self.seconds(count + 1) <= window_s:
            count += 1
        return count
