"""Equations 1 to 4 of HDA-MoE (seed 002) on a placement matrix: plain arrays in, seconds out.

P[i, c] is the share of expert i that node c holds and executes, f_i the tokens that pick expert i over all tokens, f_g
the tokens that pick exactly the experts of group g over all tokens, B the tokens of a batch, h the hidden width, I the
width of an expert's hidden layer. The seed's equations are lost in its text; HD-MoE (arXiv 2509.09420), which it
extends, prints them, and its published code (github.com/angerybob/HD-MoE at 66b84d75f950) fixes what they leave open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.analytic.system import FloatArray, IntArray

__all__ = [
    "OPERATIONS",
    "GammaFit",
    "compute_time_s",
    "expert_operations",
    "fit_gamma",
    "hosts",
    "node_tokens",
    "node_traffic_time_s",
    "ring_all_reduce_time_s",
]

#: Operations of one token in one expert: 2hI in HD-MoE's text and in both repositories' figures, 3hI (up, gate and
#: down projection) in HDA-MoE's text. Both are multiply-accumulates and are divided by the node's FLOP/s as printed.
OPERATIONS = {"2hI": 2, "3hI": 3}


def expert_operations(hidden: int, intermediate: int, convention: str) -> int:
    """Operations of one token in one expert under a convention of :data:`OPERATIONS`; KeyError for another name."""
    return OPERATIONS[convention] * hidden * intermediate


def compute_time_s(
    shares: FloatArray, expert_tokens: FloatArray, operations: float, operations_per_s: float
) -> FloatArray:
    """Eq. 1: the most loaded node's operations over its rate.

    Args:
        shares: P, shape (..., experts, nodes).
        expert_tokens: f_i · B, tokens of each expert, shape (..., experts).
        operations: of one token in one expert.
        operations_per_s: of one node.

    Returns:
        Seconds, shape (...).
    """
    load = np.einsum("...ec,...e->...c", shares, expert_tokens)
    return np.asarray(load.max(axis=-1) * (operations / operations_per_s), dtype=np.float64)


def hosts(shares: FloatArray) -> npt.NDArray[np.bool_]:
    """I(P > 0): which node holds some of which expert, the shape of ``shares``."""
    return np.asarray(shares > 0)


def node_tokens(hosted: npt.NDArray[np.bool_], groups: IntArray, group_tokens: FloatArray) -> FloatArray:
    """The double indicator of Eq. 2: tokens that touch each node.

    Args:
        hosted: shape (experts, nodes).
        groups: experts of each co-activated group, int64, shape (groups, slots); -1 is an empty slot.
        group_tokens: f_g · B, shape (groups,).

    Returns:
        Tokens per node, shape (nodes,).
    """
    padded = np.vstack([hosted, np.zeros((1, hosted.shape[1]), dtype=np.bool_)])
    touched = padded[groups].any(axis=1)
    return np.asarray(group_tokens @ touched, dtype=np.float64)


def node_traffic_time_s(tokens_per_node: FloatArray, hidden: int, element_bytes: float, bandwidth_Bps: float) -> float:
    """Eq. 2: the busiest node's activations over the endpoint-side link bandwidth, one pass.

    ``element_bytes`` is 4 for the FP32 partial sums of the paper, 2 for FP16.
    """
    return float(tokens_per_node.max(initial=0.0)) * hidden * element_bytes / bandwidth_Bps


def ring_all_reduce_time_s(
    size_bytes: float, nodes: int, bandwidth_Bps: float, *, step_latency_s: float = 0.0, exact: bool = True
) -> float:
    """A ring all-reduce of ``size_bytes`` per node.

    Reduce-scatter and all-gather take nodes - 1 steps each, and a step moves size / nodes: 2 (nodes - 1) (latency +
    size / (nodes · bandwidth)). With ``exact=False`` Eq. 4 in both passes: 2 size / bandwidth, its limit of many nodes.

    Raises ValueError for less than one node.
    """
    if nodes < 1:
        raise ValueError(f"expected at least one node, got {nodes}")
    if not exact:
        return 2.0 * size_bytes / bandwidth_Bps
    return 2.0 * (nodes - 1) * (step_latency_s + size_bytes / nodes / bandwidth_Bps)


@dataclass(frozen=True)
class GammaFit:
    """Eq. 3: simulated time over the node-traffic time of Eq. 2, by least squares.

    gamma:     slope; ci_low and ci_high bound its 95 % interval (Student's t).
    intercept_s: 0 where the line is held through the origin, as Eq. 3 writes it.
    r_squared: share of the variance about the mean that the line explains; nan where nothing varies.
    samples:   number of points.
    """

    gamma: float
    ci_low: float
    ci_high: float
    intercept_s: float
    r_squared: float
    samples: int

    def residuals_s(self, proxy_s: FloatArray, simulated_s: FloatArray) -> FloatArray:
        """Simulated time less the line."""
        return np.asarray(simulated_s - self.gamma * proxy_s - self.intercept_s, dtype=np.float64)


def fit_gamma(proxy_s: FloatArray, simulated_s: FloatArray, *, intercept: bool = False) -> GammaFit:
    """Fits Eq. 3; ``intercept`` frees the line from the origin, as the published script does.

    Raises ValueError for fewer than three points, points that are not finite, or one value of the proxy only where an
    intercept is asked for.
    """
    from scipy.stats import t as student  # type: ignore[import-untyped]

    x, y = np.asarray(proxy_s, dtype=np.float64), np.asarray(simulated_s, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 3:
        raise ValueError(f"expected at least three points of both times, got shapes {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("expected finite times")
    columns = np.column_stack([x, np.ones_like(x)]) if intercept else x[:, None]
    if np.linalg.matrix_rank(columns) < columns.shape[1]:
        raise ValueError("expected different values of the node-traffic time, got one")
    solution, *_ = np.linalg.lstsq(columns, y, rcond=None)
    rest = y - columns @ solution
    free = len(x) - columns.shape[1]
    variance = float(rest @ rest) / free * np.linalg.inv(columns.T @ columns)[0, 0]
    margin = float(student.ppf(0.975, free)) * float(np.sqrt(variance))
    spread = float(((y - y.mean()) ** 2).sum())
    gamma = float(solution[0])
    return GammaFit(
        gamma,
        gamma - margin,
        gamma + margin,
        float(solution[1]) if intercept else 0.0,
        1.0 - float(rest @ rest) / spread if spread > 0 else float("nan"),
        len(x),
    )
