"""Hugging Face Transformers: `router_logits` of a forward pass, saved by torch.save, npz or safetensors.

`model(…, output_router_logits=True).router_logits` is a tuple with one tensor `[batch * position, expert]` per sparse
layer, batch first, before softmax (Transformers 5.24: Mixtral, Qwen2/3-MoE, OLMoE, gpt-oss, Llama 4, …; a hook gives
the same of DeepSeek-V3 and GLM-4-MoE). The logits do not say how experts are chosen from them: `router` and `top_k` are
stated, `bias` and `groups` for `deepseek_v3`. Read are

- a tuple or list of such tensors, or a list of such tuples, one a forward pass;
- a dictionary with `router_logits`, and `attention_mask` `[batch, position]` whose zeros mark padding;
- npz or safetensors with `layer_0`, `layer_1`, … or `router_logits_0`, ….
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.arraytree import describe, open_tree, peek_tree
from cosim.trace.options import ROUTERS, ReadOptions
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.recorded import flat_positions, from_arrays
from cosim.trace.routers import route
from cosim.trace.routing import RoutingTrace
from cosim.trace.tensors import ArrayRef

_KEY = re.compile(r"(?:layers?|router_logits)[._]?(\d{1,4})")


class RouterLogits:
    """Reader of router logits."""

    name = "transformers_logits"
    description = "Transformers router_logits [batch * position, expert] per layer (state router and top_k)"
    reads = frozenset({"top_k", "router", "bias", "groups", "routed_scaling", "sequences"})

    def sniff(self, path: Path, head: bytes) -> bool:
        """True for layers of two-dimensional floats of one shape."""
        tree = peek_tree(path, head)
        passes, _ = _passes(tree)
        return bool(passes) and len({layer.shape for layer in passes[0][1]}) == 1

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Routes every token as the stated family does; the scores over all experts are kept.

        Raises:
            TraceError: when the family or Top-k is not stated, or does not fit the logits.
        """
        source = str(path)
        tree = open_tree(path, options.limits)
        passes, mask = _passes(tree)
        if not passes:
            raise TraceError(source, [f"no layers of router logits; it holds {describe(tree)}"])
        numbers = passes[0][0]
        problems = Problems(source)
        experts = passes[0][1][0].shape[1]
        for number, (layers, tensors) in enumerate(passes):
            if layers != numbers or len({tensor.shape for tensor in tensors}) != 1:
                problems.add("a pass whose layers differ from the first", f"pass {number}")
            elif tensors[0].shape[1] != experts:
                problems.add(f"a pass of other experts than {experts}", f"pass {number}: {tensors[0].shape[1]}")
        _check_statements(options, experts, problems)
        problems.raise_if_any()
        bias = _bias(options, len(numbers), experts)
        pieces = [_route_pass(tensors, options, bias) for _, tensors in passes]
        ids, weights, scores = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        lengths = [tensors[0].shape[0] for _, tensors in passes]
        sequences, request, position = options.sequences, None, None
        if mask is not None:
            if len(passes) > 1 or mask.size != ids.shape[0]:
                raise TraceError(source, [f"attention_mask: {list(mask.shape)} for {ids.shape[0]} rows"])
            if sequences not in (None, mask.shape[0]):
                raise TraceError(source, [f"sequences: attention_mask has {mask.shape[0]}, the caller {sequences}"])
            sequences = mask.shape[0]
            padded = mask.reshape(-1) == 0
            ids[padded], weights[padded] = -1, 0
        if sequences is not None:
            where = [
                flat_positions(n, replace(options, sequences=sequences), source, sequence_first=False) for n in lengths
            ]
            request = np.concatenate([part[1] + n * sequences for n, part in enumerate(where) if part[1] is not None])
            position = np.concatenate([part[2] for part in where if part[2] is not None])
        return from_arrays(
            source,
            options,
            ids,
            experts=experts,
            layer_map=np.array(numbers),
            weights=weights,
            scores=scores,
            request=request,
            position=position,
        )


_Pass = tuple[list[int], list[ArrayRef]]


def _passes(tree: Any) -> tuple[list[_Pass], NDArray[Any] | None]:
    """(layers of every forward pass, attention mask); no passes where the tree is something else."""
    mask = None
    if isinstance(tree, dict) and "router_logits" in tree and tree.keys() <= {"router_logits", "attention_mask"}:
        held = tree.get("attention_mask")
        if isinstance(held, ArrayRef) and held.ndim == 2 and held.dtype.kind in "iub":
            mask = held.read()
        elif held is not None:
            return [], None
        tree = tree["router_logits"]
    if isinstance(tree, dict):
        matches = [(_KEY.fullmatch(str(key)), value) for key, value in tree.items()]
        if not matches or not all(match and _is_logits(value) for match, value in matches):
            return [], None
        ordered = sorted((int(match[1]), value) for match, value in matches if match)
        return [([number for number, _ in ordered], [value for _, value in ordered])], mask
    if not isinstance(tree, (list, tuple)) or not tree:
        return [], None
    passes = [tree] if isinstance(tree[0], ArrayRef) else list(tree)
    if not all(isinstance(one, (list, tuple)) and one and all(map(_is_logits, one)) for one in passes):
        return [], None
    return [(list(range(len(one))), list(one)) for one in passes], mask


def _is_logits(value: Any) -> bool:
    return isinstance(value, ArrayRef) and value.ndim == 2 and value.dtype.kind == "f" and 0 not in value.shape


def _check_statements(options: ReadOptions, experts: int, problems: Problems) -> None:
    if options.router is None:
        problems.add(f"router: not stated; logits alone do not fix the choice, state one of {', '.join(ROUTERS)}")
    elif options.router not in ROUTERS:
        hint = did_you_mean(options.router, ROUTERS)
        problems.add(f"router: expected one of {', '.join(ROUTERS)}, got {options.router!r}{hint}")
    if options.top_k is None:
        problems.add("top_k: not stated; the logits are over all experts")
    elif not 1 <= options.top_k <= experts:
        problems.add(f"top_k: expected 1..{experts}, got {options.top_k}")
    if options.router == "deepseek_v3":
        if options.bias is None:
            problems.add("bias: not stated; the choice is made with a bias per expert (e_score_correction_bias)")
        groups, kept = options.groups or (1, 1)
        if not 1 <= kept <= groups or experts % groups or kept * (experts // groups) < (options.top_k or 1):
            problems.add(f"groups: {kept} of {groups} groups of {experts} experts cannot give the Top-k")
    else:
        for name in ("bias", "groups", "routed_scaling"):
            if getattr(options, name) is not None:
                problems.add(f"{name}: only deepseek_v3 reads it")


def _bias(options: ReadOptions, layers: int, experts: int) -> NDArray[Any] | None:
    if options.bias is None:
        return None
    source = str(options.bias)
    tree = open_tree(options.bias, options.limits)
    for name in ("e_score_correction_bias", "bias"):
        if isinstance(tree, dict) and name in tree:
            tree = tree[name]
    if isinstance(tree, (list, tuple)) and all(isinstance(row, ArrayRef) and row.ndim == 1 for row in tree):
        rows = [row.read() for row in tree]
        values = np.stack(rows) if len({row.size for row in rows}) == 1 else np.empty((0, 0))
    elif isinstance(tree, ArrayRef):
        values = tree.read()
    else:
        raise TraceError(source, [f"no array bias [layer, expert]; it holds {describe(tree)}"])
    if values.shape != (layers, experts) or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise TraceError(
            source, [f"bias: expected finite floats [{layers}, {experts}], got {values.dtype} {list(values.shape)}"]
        )
    return values


def _route_pass(
    tensors: list[ArrayRef], options: ReadOptions, bias: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    router, top_k = options.router or "", options.top_k or 0
    ids, weights, scores = [], [], []
    for index, tensor in enumerate(tensors):
        logits = tensor.read().astype(np.float32)
        chosen, given = route(
            logits,
            router,
            top_k,
            bias=None if bias is None else bias[index],
            groups=options.groups or (1, 1),
            routed_scaling=1.0 if options.routed_scaling is None else options.routed_scaling,
        )
        ids.append(chosen)
        weights.append(given)
        if router in ("sigmoid", "deepseek_v3"):
            scores.append(1 / (1 + np.exp(-np.clip(logits, -80, 80))))
        else:
            shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
            scores.append(shifted / shifted.sum(axis=1, keepdims=True))
    return np.stack(ids, axis=1), np.stack(weights, axis=1), np.stack(scores, axis=1).astype(np.float32)


ADAPTER = RouterLogits()
