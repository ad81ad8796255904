"""Algorithm 1, lines 4 to 8: which transfers a layer's token groups make under a fractional placement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.link.simulator import LinkResult, LinkSimulator
from cosim.placement.shares import FloatArray, IntArray

__all__ = ["AGGREGATORS", "Transfers", "communication", "layer_transfers"]

#: How a group's aggregation node is chosen among those that hold its experts. ``best``: the fewest hops from all of
#: them together, then the first. ``first_of_random_expert``: as the published code, the first node of one of the
#: group's experts, drawn at random.
AGGREGATORS = ("best", "first_of_random_expert")


@dataclass(frozen=True, eq=False)
class Transfers:
    """Messages of one layer and pass: source and destination endpoint and bytes, int64, shape (messages,)."""

    source: IntArray
    destination: IntArray
    size_bytes: IntArray


def layer_transfers(
    hosted: npt.NDArray[np.bool_],
    groups: IntArray,
    group_bytes: FloatArray,
    node_of: IntArray,
    hops: IntArray,
    *,
    aggregator: str = "best",
    draws: np.random.Generator | None = None,
) -> Transfers:
    """Every node that holds an expert of a group sends the group's partial sums to the group's aggregation node.

    Args:
        hosted: which logical node holds some of which expert, shape (experts, nodes).
        groups: experts of each group, shape (groups, slots); -1 is an empty slot.
        group_bytes: of a group's activations, f_g · B · h · element bytes, shape (groups,); rounded to whole bytes.
        node_of: endpoint of each logical node.
        hops: links between endpoints, shape (endpoints, endpoints).
        aggregator: one of :data:`AGGREGATORS`.
        draws: random draws of ``first_of_random_expert``.

    Raises:
        ConfigErrors: an unknown aggregator, or draws that are missing or not read.
    """
    if aggregator not in AGGREGATORS:
        raise ConfigErrors.single(
            one_of(AGGREGATORS), repr(aggregator), path="aggregator", suggestion=did_you_mean(aggregator, AGGREGATORS)
        )
    if (draws is None) != (aggregator == "best"):
        raise ConfigErrors.single(
            "random draws with 'first_of_random_expert' and with nothing else", repr(aggregator), path="aggregator"
        )
    absent = np.zeros((1, hosted.shape[1]), dtype=np.bool_)
    holders: npt.NDArray[np.bool_] = np.vstack([hosted, absent])[groups]  # slot -1 reads the row of absent holders
    touched: npt.NDArray[np.bool_] = np.asarray(holders.any(axis=1), dtype=np.bool_)
    if draws is None:
        order = np.argsort(node_of)
        at = node_of[order]
        touched = touched[:, order]
        far = len(at) * int(hops.max(initial=0)) + 1
        target = np.where(touched, touched.astype(np.int64) @ hops[np.ix_(at, at)], far).argmin(axis=1)
    else:
        at = node_of
        target = np.array([np.flatnonzero(hosted[_drawn(used, draws)])[0] for used in groups], dtype=np.int64)
    senders = touched.copy()
    senders[np.arange(len(groups)), target] = False
    group, sender = np.nonzero(senders)
    sizes = np.maximum(1, np.rint(group_bytes)).astype(np.int64)
    return Transfers(at[sender], at[target[group]], sizes[group])


def _drawn(experts: IntArray, draws: np.random.Generator) -> int:
    used = experts[experts >= 0]
    return int(used[draws.integers(len(used))])


def communication(simulator: LinkSimulator, transfers: Transfers) -> LinkResult:
    """One pass of a layer's transfers over the links; scatter is taken to be as long as gather."""
    return simulator.run(transfers.source, transfers.destination, transfers.size_bytes)
