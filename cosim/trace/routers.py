"""From router logits to the experts chosen and their gate weights, family by family.

    softmax       Top-k of the logits, weights are the softmax over all experts (Qwen2-MoE, OLMoE without
                  norm_topk_prob)
    topk_softmax  Top-k of the logits, weights are the softmax over the chosen ones: the same as the softmax over all,
                  normalised (Mixtral, Qwen3-MoE and OLMoE with norm_topk_prob, gpt-oss)
    sigmoid       Top-k of the logits, weights are their sigmoids (Llama 4)
    deepseek_v3   scores = sigmoid(logits); for the choice a bias per expert is added, groups of experts are ranked by
                  the sum of their two best, and the Top-k of the best groups' experts is taken; weights are the scores
                  without bias, normalised, times a factor (DeepSeek-V3, arXiv:2412.19437, Eq. 12-16; GLM-4-MoE)

Ties go to the lower expert.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def route(
    logits: NDArray[Any],
    router: str,
    top_k: int,
    *,
    bias: NDArray[Any] | None = None,
    groups: tuple[int, int] = (1, 1),
    routed_scaling: float = 1.0,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Experts in order of choice and their gate weights, both `[token, slot]`.

    Args:
        logits: `[token, expert]`, as the router's linear layer gives them.
        router: one of `options.ROUTERS`.
        top_k: experts per token.
        bias: `[expert]`, added for the choice alone (`deepseek_v3`).
        groups: groups of experts, and how many of them a token chooses from (`deepseek_v3`).
        routed_scaling: factor on the weights (`deepseek_v3`).
    """
    values = logits.astype(np.float32)
    if router == "deepseek_v3":
        scores = _sigmoid(values)
        ranked = scores if bias is None else scores + bias.astype(np.float32)
        if groups[1] < groups[0]:
            ranked = _best_groups(ranked, *groups)
        ids = _top(ranked, top_k)
        weights = np.take_along_axis(scores, ids, axis=1)
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.float32(1e-20))
        return ids, (weights * np.float32(routed_scaling)).astype(np.float32)
    ids = _top(values, top_k)
    chosen = np.take_along_axis(values, ids, axis=1)
    if router == "sigmoid":
        return ids, _sigmoid(chosen)
    over = chosen if router == "topk_softmax" else values
    shift = values.max(axis=1, keepdims=True)
    weights = np.exp(chosen - shift) / np.exp(over - shift).sum(axis=1, keepdims=True)
    return ids, weights.astype(np.float32)


def _sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -80, 80))), dtype=np.float32)


def _top(values: NDArray[Any], top_k: int) -> NDArray[np.int64]:
    return np.argsort(-values, axis=1, kind="stable")[:, :top_k].astype(np.int64)


def _best_groups(values: NDArray[Any], groups: int, kept: int) -> NDArray[Any]:
    """The values with those outside the best groups at minus infinity."""
    tokens, experts = values.shape
    grouped = values.reshape(tokens, groups, experts // groups)
    strength = np.sort(grouped, axis=2)[:, :, -2:].sum(axis=2)
    best = _top(strength, kept)
    inside = np.zeros((tokens, groups), dtype=np.bool_)
    np.put_along_axis(inside, best, True, axis=1)
    return np.where(inside[:, :, None], grouped, -np.inf).reshape(tokens, experts)
