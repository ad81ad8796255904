"""A package small enough to compute by hand: endpoints 0 - 1 - 2 on a line.

Links 0: 0>1, 1: 1>0, 2: 1>2, 3: 2>1; each 10 B/s with 0.5 s fixed latency; link 3 is die-to-die.
Endpoints 0 and 1 compute 5 and 10 MAC/s; endpoint 2 is an HBM memory of 100 B/s in 2 banks, 0.25 s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from cosim.analytic import AnalyticSystem, Routes

PATHS = [[], [0], [0, 2], [1], [], [2], [3, 1], [3], []]


@dataclass(frozen=True)
class TinyModel:
    """8 multiply-accumulates per token and expert, 60 bytes of weights."""

    hidden: int = 2
    moe_intermediate: int = 2
    expert_bytes: int = 60
    expert_macs_per_token: int = 8


def line_system(**changes: object) -> AnalyticSystem:
    system = AnalyticSystem(
        link_bandwidth_Bps=np.full(4, 10.0),
        link_latency_s=np.full(4, 0.5),
        link_is_d2d=np.array([False, False, False, True]),
        routes=Routes.from_paths(3, PATHS),
        port_bandwidth_Bps=np.full(3, 20.0),
        compute_flops=np.array([20.0, 40.0, 0.0]),
        compute_efficiency=np.array([0.5, 0.5, 1.0]),
        memory_bandwidth_Bps=np.array([0.0, 0.0, 100.0]),
        memory_latency_s=np.array([0.0, 0.0, 0.25]),
        memory_banks=np.array([0, 0, 2]),
        memory_tier=("", "", "HBM"),
    )
    return replace(system, **changes)  # type: ignore[arg-type]


def decisions(*groups: tuple[int, ...], seed: int = 1, layer: int = 0) -> pd.DataFrame:
    """Rows (batch, expert, source, aggregator, tokens, bytes, chiplet, memory_node, fetch_bytes)."""
    names = ["batch", "expert", "source", "aggregator", "tokens", "bytes", "chiplet", "memory_node", "fetch_bytes"]
    frame = pd.DataFrame(groups, columns=names, dtype=np.int64)
    frame["seed"], frame["layer"] = np.int64(seed), np.int64(layer)
    return frame


#: Three groups on two replicas: expert 0 on chiplet 1 (from 0 and 1), expert 1 on chiplet 0 (from 0).
SMALL = decisions(
    (0, 0, 0, 0, 2, 20, 1, 2, 60),
    (0, 0, 1, 1, 1, 10, 1, 2, 60),
    (0, 1, 0, 0, 1, 10, 0, 2, 40),
)
