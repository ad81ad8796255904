"""Link Balance of HDA-MoE (seed 002, V-B2): where each logical node stands, searched over the link-level simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosim.config.errors import ConfigErrors
from cosim.link.simulator import LinkSimulator
from cosim.placement.activation import Activation
from cosim.placement.shares import FloatArray, IntArray, mapping_problem
from cosim.placement.traffic import communication, layer_transfers

__all__ = ["LinkBalance", "link_balance", "one_pass_s"]

#: Link simulations of one layer, as many as the published search makes.
EVALUATIONS = 70


@dataclass(frozen=True, eq=False)
class LinkBalance:
    """The map of one layer.

    mapping:       endpoint of each logical node.
    start_s, end_s: one pass of communication under the starting map and under this one.
    evaluations:   link simulations made; improvements: how many were taken.
    """

    mapping: IntArray
    start_s: float
    end_s: float
    evaluations: int
    improvements: int

    def __str__(self) -> str:
        return (
            f"{self.evaluations} link simulations, {self.improvements} improvements: one pass "
            f"{self.start_s * 1e6:.3f} us before, {self.end_s * 1e6:.3f} us after"
        )


def one_pass_s(
    shares: FloatArray, found: Activation, mapping: IntArray, token_bytes: float, simulator: LinkSimulator
) -> float:
    """One pass of a layer's communication at the link level, best aggregator.

    Args:
        shares: P, shape (experts, nodes).
        found: the layer's groups.
        mapping: endpoint of each logical node.
        token_bytes: activations of the whole batch's tokens: B · h · element bytes.
    """
    transfers = layer_transfers(shares > 0, found.groups, found.group * token_bytes, mapping, simulator.topology.hops)
    return communication(simulator, transfers).makespan_s


def link_balance(
    shares: FloatArray,
    found: Activation,
    token_bytes: float,
    simulator: LinkSimulator,
    *,
    start: IntArray | None = None,
    evaluations: int = EVALUATIONS,
    seed: int = 1,
) -> LinkBalance:
    """Swaps endpoints of logical nodes as long as the link simulation becomes shorter.

    The map is first arranged by distance alone (bytes × hops, every swap that lowers them), which costs no simulation;
    then pairs of nodes are drawn and swapped, and a swap is kept when the simulated pass is not longer. It stops after
    ``evaluations`` simulations, never on time.

    Args:
        shares: P, shape (experts, nodes); found, token_bytes: as of :func:`one_pass_s`.
        start: map to start from; the identity if not given.
        seed: of the draws.

    Raises:
        ConfigErrors: a starting map that is no permutation, another number of nodes than endpoints, no simulation.
    """
    nodes = shares.shape[1]
    topology = simulator.topology
    if nodes != topology.endpoints:
        raise ConfigErrors.single(
            f"as many nodes as {topology.name} has endpoints, {topology.endpoints}", str(nodes), path="link balance"
        )
    if evaluations < 1:
        raise ConfigErrors.single("at least one link simulation", str(evaluations), path="link balance.evaluations")
    mapping = np.arange(nodes, dtype=np.int64) if start is None else np.asarray(start, dtype=np.int64).copy()
    problem = mapping_problem(mapping)
    if problem or len(mapping) != nodes:
        raise ConfigErrors.single(
            f"a permutation of {nodes} nodes", problem or f"{len(mapping)} endpoints", path="link balance.start"
        )
    together = _together(shares > 0, found)
    begin = one_pass_s(shares, found, mapping, token_bytes, simulator)
    best, value, taken, made = mapping, begin, 0, 1
    if made < evaluations:
        near = _nearer(mapping, together, topology.hops)
        made += 1
        reached = one_pass_s(shares, found, near, token_bytes, simulator)
        if reached < value:
            best, value, taken = near, reached, 1
    draws = np.random.default_rng(seed)
    while made < evaluations and nodes > 1:
        first, second = draws.choice(nodes, 2, replace=False)
        trial = best.copy()
        trial[first], trial[second] = best[second], best[first]
        made += 1
        reached = one_pass_s(shares, found, trial, token_bytes, simulator)
        if reached <= value:
            taken += reached < value
            best, value = trial, reached
    return LinkBalance(best, begin, value, made, taken)


def _together(hosted: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], found: Activation) -> FloatArray:
    """Tokens that two logical nodes serve together, shape (nodes, nodes), zero on the diagonal."""
    padded = np.vstack([hosted, np.zeros((1, hosted.shape[1]), dtype=np.bool_)])
    touched = padded[found.groups].any(axis=1).astype(np.float64)
    shared = touched.T @ (touched * found.group[:, None])
    np.fill_diagonal(shared, 0.0)
    return np.asarray(shared, dtype=np.float64)


def _nearer(mapping: IntArray, together: FloatArray, hops: IntArray) -> IntArray:
    """The map after the best swap by tokens × hops, again and again, until none lowers it."""
    here = mapping.copy()
    nodes = len(here)
    for _ in range(nodes * nodes):
        distance = hops[np.ix_(here, here)].astype(np.float64)
        cost = together @ distance.T  # cost[a, b]: node a's tokens if it stood where b stands
        own = np.diag(cost)
        # swapping a and b: each takes the other's distances; their own distance stays
        change = cost + cost.T - own[:, None] - own[None, :] + 2 * together * distance
        np.fill_diagonal(change, 0.0)
        first, second = np.unravel_index(int(change.argmin()), change.shape)
        if change[first, second] >= -1e-12 * max(1.0, float(np.abs(own).sum())):
            break
        here[first], here[second] = here[second], here[first]
    return np.asarray(here)
