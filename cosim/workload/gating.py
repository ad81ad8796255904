"""Experts chosen again by adjusted router scores, and how far that is from what the model chose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["GateCounts", "choose", "kept_choices"]


@dataclass(frozen=True)
class GateCounts:
    """How a layer's routing was changed.

    choices: experts of all tokens. changed: of them, those that the model had not chosen. tokens: of the batch.
    kept_top1: of them, those whose highest-scored expert is still among the chosen.
    """

    choices: int
    changed: int
    tokens: int
    kept_top1: int


def _own(recorded: npt.NDArray[np.integer], experts: int) -> npt.NDArray[np.bool_]:
    own = np.zeros((len(recorded), experts + 1), dtype=bool)
    np.put_along_axis(own, np.where(recorded >= 0, recorded, experts).astype(np.int64), True, axis=1)
    return own[:, :experts]


def _order(scores: npt.NDArray[np.floating], own: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Experts of each token by falling score; among equals the recorded ones first, then the lower number."""
    number = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    order: npt.NDArray[np.int64] = np.lexsort((number, ~own, -scores.astype(np.float64)), axis=1)
    return order


def choose(adjusted: npt.NDArray[np.floating], recorded: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Each token's experts of the highest adjusted scores, as many as were recorded for it.

    Among equal scores the recorded experts come first (scores are kept in fewer digits than the router had), then the
    lower number.

    Args:
        adjusted: scores of all experts, shape (tokens, experts).
        recorded: the model's own choice, shape (tokens, slots); -1 is an empty slot.

    Returns: ids like ``recorded``, int32, by falling adjusted score.
    """
    slots = recorded.shape[1]
    chosen = _order(adjusted, _own(recorded, adjusted.shape[1]))[:, :slots].astype(np.int32)
    chosen[np.arange(slots)[None, :] >= (recorded >= 0).sum(axis=1)[:, None]] = -1
    return chosen


def kept_choices(
    scores: npt.NDArray[np.floating], recorded: npt.NDArray[np.integer], chosen: npt.NDArray[np.integer]
) -> GateCounts:
    """What ``chosen`` kept of the model's own choice; ``scores`` are the router's, shape (tokens, experts)."""
    own = _own(recorded, scores.shape[1])
    kept = np.take_along_axis(own, np.maximum(chosen, 0).astype(np.int64), axis=1) & (chosen >= 0)
    top = _order(scores, own)[:, :1]
    choices = int((recorded >= 0).sum())
    return GateCounts(choices, choices - int(kept.sum()), len(recorded), int((chosen == top).any(axis=1).sum()))
