"""Steps of a profile, clustered by load, so that a program over steps stays small; what that loses is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors
from cosim.placement.shares import FloatArray, IntArray

__all__ = ["StepClusters", "cluster_steps"]

_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class StepClusters:
    """Typical steps.

    loads:  mean load of a cluster's steps, float64, shape (clusters, experts).
    weight: steps of each cluster, int64, shape (clusters,).
    of:     cluster of each step, int64, shape (steps,).
    loss:   share of the load that the means put on another expert than the steps did:
            half the sum of absolute differences over the sum of loads.
    """

    loads: FloatArray
    weight: IntArray
    of: IntArray
    loss: float


def cluster_steps(loads: IntArray, clusters: int) -> StepClusters:
    """k-means over steps with the L1 distance to means, started by farthest-point sampling.

    Args:
        loads: tokens per expert, shape (steps, experts).
        clusters: at most; as many as there are steps: every step stands for itself.

    Raises:
        ConfigErrors: no steps, or fewer than one cluster.
    """
    steps = len(loads)
    if not steps:
        raise ConfigErrors.single("a profile of at least one step", "none", path="grouping")
    if clusters < 1:
        raise ConfigErrors.single("at least one cluster of steps", str(clusters), path="clusters")
    values = loads.astype(np.float64)
    if clusters >= steps:
        return StepClusters(values, np.ones(steps, dtype=np.int64), np.arange(steps), 0.0)
    centres = [int(np.abs(values - values.mean(axis=0)).sum(axis=1).argmin())]
    distance = _distance(values, values[centres[0]])
    while len(centres) < clusters:
        centres.append(int(distance.argmax()))
        distance = np.minimum(distance, _distance(values, values[centres[-1]]))
    means = values[centres]
    of: IntArray = np.full(steps, -1, dtype=np.int64)
    for _ in range(_ROUNDS):
        nearest = np.stack([_distance(values, mean) for mean in means]).argmin(axis=0)
        if np.array_equal(nearest, of):
            break
        of = nearest
        for number in range(clusters):
            members = of == number
            if members.any():
                means[number] = loads[members].sum(axis=0) / int(members.sum())
    used = np.flatnonzero(np.bincount(of, minlength=clusters))
    of = np.searchsorted(used, of)
    exact = np.stack([loads[of == number].sum(axis=0) / int((of == number).sum()) for number in range(len(used))])
    lost = 0.5 * float(np.abs(values - exact[of]).sum()) / max(float(values.sum()), 1.0)
    return StepClusters(exact, np.bincount(of).astype(np.int64), of, lost)


def _distance(values: FloatArray, centre: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.abs(values - centre).sum(axis=1))
