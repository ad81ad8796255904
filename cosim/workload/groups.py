"""Token groups: the tokens of one layer that need the same expert and wait at the same chiplet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["GROUPS", "first_tokens", "replicated_groups", "shared_groups", "token_groups", "token_homes", "token_legs"]

GROUPS = np.dtype(
    [
        ("layer", np.int32),  # MoE layer
        ("expert", np.int32),
        ("source", np.int32),  # endpoint where the tokens are
        ("aggregator", np.int32),  # endpoint where the expert's outputs are wanted
        ("tokens", np.int32),
        ("bytes", np.int64),  # of their activations
        ("tenant", np.int16),  # whose tokens; 0 where nobody shares the system
    ]
)
"""One row per token group, sorted by expert, then source, then tenant."""


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
    ids: npt.NDArray[np.integer],
    homes: npt.NDArray[np.int32],
    layer: int,
    activation_bytes: int,
    tenants: npt.NDArray[np.int16] | None = None,
) -> npt.NDArray[np.void]:
    """The groups of one layer.

    Args:
        ids: expert ids, shape (tokens, slots); -1 is an empty slot.
        homes: endpoint of each token, shape (tokens,); it is source and aggregator.
        layer: MoE layer.
        activation_bytes: of one token.
        tenants: of each token, shape (tokens,), where several share the system: no group holds tokens of two.

    Returns:
        Rows of :data:`GROUPS`.
    """
    experts = ids.reshape(-1).astype(np.int64)
    sources = np.repeat(homes.astype(np.int64), ids.shape[1])
    used = experts >= 0
    stride = int(homes.max(initial=0)) + 1
    owners, several = _owners(tenants, ids.shape)
    keys, counts = np.unique((experts[used] * stride + sources[used]) * several + owners[used], return_counts=True)
    groups = np.zeros(len(keys), dtype=GROUPS)
    groups["layer"] = layer
    groups["tenant"] = keys % several
    groups["expert"] = keys // several // stride
    groups["source"] = keys // several % stride
    groups["aggregator"] = groups["source"]
    groups["tokens"] = counts
    groups["bytes"] = counts * activation_bytes
    return groups


def _owners(tenants: npt.NDArray[np.int16] | None, shape: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], int]:
    """Tenant of every slot of a table of tokens, and a number above all of them."""
    if tenants is None:
        return np.zeros(shape[0] * shape[1], dtype=np.int64), 1
    return np.repeat(tenants.astype(np.int64), shape[1]), int(tenants.max(initial=0)) + 1


def shared_groups(
    homes: npt.NDArray[np.int32],
    layer: int,
    shared_expert: int,
    activation_bytes: int,
    tenants: npt.NDArray[np.int16] | None = None,
) -> npt.NDArray[np.void]:
    """One group per chiplet (and tenant) with tokens: every token runs the shared experts, at its own chiplet.

    Args:
        homes: endpoint of each token.
        tenants: of each token, as of :func:`token_groups`.
        layer: MoE layer.
        shared_expert: the id under which the shared experts of a layer stand in the directory.
        activation_bytes: of one token.
    """
    owners, several = _owners(tenants, (len(homes), 1))
    keys, counts = np.unique(homes.astype(np.int64) * several + owners, return_counts=True)
    groups = np.zeros(len(keys), dtype=GROUPS)
    groups["layer"] = layer
    groups["tenant"] = keys % several
    groups["expert"] = shared_expert
    groups["source"] = groups["aggregator"] = keys // several
    groups["tokens"] = counts
    groups["bytes"] = counts * activation_bytes
    return groups


def token_legs(
    ids: npt.NDArray[np.integer],
    homes: npt.NDArray[np.int32],
    groups: npt.NDArray[np.void],
    leg_group: npt.NDArray[np.int64],
    tenants: npt.NDArray[np.int16] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which token is in which leg: pairs (token, leg), int64; arguments as of :func:`first_tokens`."""
    experts = ids.reshape(-1).astype(np.int64)
    token = np.repeat(np.arange(len(ids), dtype=np.int64), ids.shape[1])[experts >= 0]
    experts = experts[experts >= 0]
    stride = int(homes.max(initial=0)) + 1
    several = 1 if tenants is None else int(tenants.max(initial=0)) + 1
    owner = np.zeros(len(ids), dtype=np.int64) if tenants is None else tenants.astype(np.int64)
    of_group = (groups["expert"].astype(np.int64) * stride + groups["source"]) * several + groups["tenant"]
    group = np.searchsorted(of_group, (experts * stride + homes[token]) * several + owner[token])
    order = np.argsort(leg_group, kind="stable")
    starts = np.searchsorted(leg_group[order], np.arange(len(groups) + 1))
    counts = np.diff(starts)[group]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(token, counts), order[np.repeat(starts[group], counts) + within].astype(np.int64)


def first_tokens(
    ids: npt.NDArray[np.integer],
    homes: npt.NDArray[np.int32],
    groups: npt.NDArray[np.void],
    leg_group: npt.NDArray[np.int64],
    leg_chiplet: npt.NDArray[np.int32],
    tenants: npt.NDArray[np.int16] | None = None,
) -> npt.NDArray[np.int64]:
    """How many tokens of each leg no earlier leg brings to the same chiplet: their sum counts every token there once.

    Args:
        ids, homes, tenants: as of :func:`token_groups`.
        groups: what it returned for them.
        leg_group: group of each leg; a group has one leg, or one per part of its replica, int64, shape (legs,).
        leg_chiplet: where the leg's tokens go.

    Returns:
        int64, shape (legs,).
    """
    token, leg = token_legs(ids, homes, groups, leg_group, tenants)
    place = token * (int(leg_chiplet.max(initial=0)) + 1) + leg_chiplet[leg]
    by_place = np.lexsort((leg, place))
    first = by_place[np.flatnonzero(np.diff(place[by_place], prepend=-1))]
    return np.bincount(leg[first], minlength=len(leg_group)).astype(np.int64)


def replicated_groups(
    groups: npt.NDArray[np.void],
    assigned: npt.NDArray[np.int32],
    chiplets: npt.NDArray[np.int32],
    firsts: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Legs where every chiplet holds every token: those of one part (and tenant) are one group, at home with the part.

    Args:
        groups: of each leg; assigned: directory row; chiplets: where it runs; firsts: of :func:`first_tokens`.

    Returns: groups, directory rows and first tokens, a part (and tenant) each, in the order of the rows.
    """
    several = int(groups["tenant"].max(initial=0)) + 1
    keys = assigned.astype(np.int64) * several + groups["tenant"]
    keys, first, leg = np.unique(keys, return_index=True, return_inverse=True)
    rows, leg = keys // several, leg.reshape(-1)
    merged = groups[first].copy()
    for column in ("tokens", "bytes"):
        merged[column] = 0
        np.add.at(merged[column], leg, groups[column])
    merged["source"] = merged["aggregator"] = chiplets[first]
    counted = np.zeros(len(rows), dtype=np.int64)
    np.add.at(counted, leg, firsts)
    return merged, rows.astype(np.int32), counted
