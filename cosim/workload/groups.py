"""Token groups: the tokens of one layer that need the same expert and wait at the same chiplet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["GROUPS", "shared_groups", "token_groups", "token_homes"]

GROUPS = np.dtype(
    [
        ("layer", np.int32),  # MoE layer
        ("expert", np.int32),
        ("source", np.int32),  # endpoint where the tokens are
        ("aggregator", np.int32),  # endpoint where the expert's outputs are wanted
        ("tokens", np.int32),
        ("bytes", np.int64),  # of their activations
    ]
)
"""One row per token group, sorted by expert, then source."""


def token_homes(tokens: int, chiplets: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The chiplet at which each token of a batch waits before and after the layer: dealt out in turn.

    Args:
        tokens: number of tokens in the batch.
        chiplets: endpoint indices that compute.

    Returns:
        int32, shape (tokens,).
    """
    return chiplets[np.arange(tokens) % len(chiplets)]


def token_groups(
    ids: npt.NDArray[np.integer], homes: npt.NDArray[np.int32], layer: int, activation_bytes: int
) -> npt.NDArray[np.void]:
    """The groups of one layer.

    Args:
        ids: expert ids, shape (tokens, slots); -1 is an empty slot.
        homes: endpoint of each token, shape (tokens,); it is source and aggregator.
        layer: MoE layer.
        activation_bytes: of one token.

    Returns:
        Rows of :data:`GROUPS`.
    """
    experts = ids.reshape(-1).astype(np.int64)
    sources = np.repeat(homes.astype(np.int64), ids.shape[1])
    used = experts >= 0
    stride = int(homes.max(initial=0)) + 1
    keys, counts = np.unique(experts[used] * stride + sources[used], return_counts=True)
    groups = np.zeros(len(keys), dtype=GROUPS)
    groups["layer"] = layer
    groups["expert"] = keys // stride
    groups["source"] = keys % stride
    groups["aggregator"] = groups["source"]
    groups["tokens"] = counts
    groups["bytes"] = counts * activation_bytes
    return groups


def shared_groups(
    homes: npt.NDArray[np.int32], layer: int, shared_expert: int, activation_bytes: int
) -> npt.NDArray[np.void]:
    """One group per chiplet with tokens: every token runs the shared experts, at its own chiplet.

    Args:
        homes: endpoint of each token.
        layer: MoE layer.
        shared_expert: the id under which the shared experts of a layer stand in the directory.
        activation_bytes: of one token.
    """
    sources, counts = np.unique(homes, return_counts=True)
    groups = np.zeros(len(sources), dtype=GROUPS)
    groups["layer"] = layer
    groups["expert"] = shared_expert
    groups["source"] = groups["aggregator"] = sources
    groups["tokens"] = counts
    groups["bytes"] = counts * activation_bytes
    return groups
