"""From what a reader found to a `RoutingTrace`: the statements of file and caller brought together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.arraytree import describe, open_tree
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.routing import PHASES, RoutingTrace, compact_ids_dtype
from cosim.trace.tensors import ArrayRef


def settle_experts(
    ids: NDArray[Any], stated: int | None, options: ReadOptions, source: str, *, scored: int | None = None
) -> tuple[int, bool]:
    """Number of experts per layer and whether anybody stated it.

    Args:
        ids: expert ids of any integer dtype.
        stated: what the file says.
        options: what the caller says.
        source: name for messages.
        scored: width of the router scores, if there are any.

    Raises:
        TraceError: when two statements differ or the number is beyond the limits.
    """
    statements = {"the file": stated, "the caller": options.experts, "the width of scores": scored}
    given = {who: number for who, number in statements.items() if number is not None}
    if len(set(given.values())) > 1:
        text = ", ".join(f"{who} says {number}" for who, number in given.items())
        raise TraceError(source, [f"experts: statements differ: {text}"])
    experts = next(iter(given.values())) if given else (int(ids.max()) + 1 if ids.size else 0)
    if not 1 <= experts <= options.limits.max_experts:
        raise TraceError(source, [f"experts: expected 1..{options.limits.max_experts}, got {experts}"])
    return experts, bool(given)


def prepare_ids(
    ids: NDArray[Any],
    options: ReadOptions,
    source: str,
    *,
    layer: NDArray[Any] | None = None,
    layers: int | None = None,
    physical_to_logical: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Ids after the caller's statements about them: a filler made empty, physical ids made logical.

    Args:
        ids: `[token, layer, slot]`, or `[row, slot]` with `layer` giving each row's layer.
        options: `padding` and `physical_map` are used.
        source: name for messages.
        layer: index of each row's layer.
        layers: number of layers, with `layer`.
        physical_to_logical: the map `[layer, physical]` where the file has its own.

    Raises:
        TraceError: when a statement does not fit the ids.
    """
    if options.padding is not None:
        ids = _blank(ids, options.padding, options.experts, source)
    if options.physical_map is not None:
        if physical_to_logical is not None:
            raise TraceError(source, ["physical_map: the file has a map of its own, which is applied"])
        physical_to_logical = read_physical_map(options.physical_map, options)
    if physical_to_logical is None:
        return ids
    count = ids.shape[1] if layer is None else layers
    if physical_to_logical.shape[0] != count:
        raise TraceError(source, [f"physical_map: {physical_to_logical.shape[0]} layers, the recording has {count}"])
    high = physical_to_logical.shape[1]
    outside = int(np.count_nonzero((ids >= high) | (ids < -1)))
    if outside:
        raise TraceError(source, [f"physical_map: {outside} ids are outside its {high} physical experts"])
    row = np.arange(ids.shape[1])[None, :, None] if layer is None else layer[:, None]
    return np.where(ids >= 0, physical_to_logical[row, np.maximum(ids, 0)], -1)


def _blank(ids: NDArray[Any], filler: int, experts: int | None, source: str) -> NDArray[Any]:
    if filler < 0:
        raise TraceError(source, [f"padding: expected an id >= 0, got {filler}"])
    filled = ids == filler
    possible = experts is None or filler < experts
    if possible and ids.shape[-1] > 1:  # an expert of the model: only a cell that names nothing else is filler
        filled &= filled.all(axis=-1, keepdims=True)
    elif possible:
        raise TraceError(source, [f"padding: {filler} may be an expert, and with one slot nothing tells them apart"])
    if not filled.any():
        raise TraceError(source, [f"padding: no slot holds the filler {filler}"])
    return np.where(filled, -1, ids if ids.dtype.kind == "i" else ids.astype(np.int64))


def read_physical_map(path: Path, options: ReadOptions) -> NDArray[np.int64]:
    """The map `[layer, physical]` → logical expert of a file: torch, npz, npy or safetensors, bare or by its name.

    Raises:
        TraceError: when there is no such map in the file.
    """
    tree = open_tree(path, options.limits)
    for name in ("last_physical_to_logical_map", "physical_to_logical_map"):
        if isinstance(tree, dict) and name in tree:
            tree = tree[name]
    if not isinstance(tree, ArrayRef) or not tree.integers or tree.ndim != 2 or 0 in tree.shape:
        raise TraceError(
            str(path), [f"expected physical_to_logical_map, integers [layer, physical]; it holds {describe(tree)}"]
        )
    return checked_map(tree.read(), str(path))


def checked_map(table: NDArray[Any], source: str) -> NDArray[np.int64]:
    """`table` as a map physical → logical.

    Raises:
        TraceError: on a negative entry (a slot without an expert has no logical number).
    """
    if table.size and int(table.min()) < 0:
        raise TraceError(source, ["physical_to_logical_map: a negative expert"])
    return table.astype(np.int64)


def narrow_ids(ids: NDArray[Any], experts: int, source: str) -> NDArray[Any]:
    """`ids` in the compact dtype; values that do not fit it are an error, never wrapped."""
    dtype = compact_ids_dtype(experts)
    if ids.dtype == dtype:
        return ids
    low, high = int(ids.min()), int(ids.max())
    info = np.iinfo(dtype)
    if low < info.min or high > info.max:
        raise TraceError(source, [f"ids: values {low}..{high}, expected -1 (empty) to {experts - 1}"])
    return ids.astype(dtype)


def float_dtype(dtype: np.dtype[Any]) -> type[np.float16] | type[np.float32]:
    """float16 stays, everything else becomes float32."""
    return np.float16 if dtype == np.float16 else np.float32


def phase_codes(values: NDArray[Any], source: str) -> NDArray[np.uint8]:
    """Phase codes of an array of names or codes.

    Raises:
        TraceError: on a name or code that is none of `PHASES`.
    """
    problems = Problems(source)
    found, inverse = np.unique(values, return_inverse=True)
    codes = np.zeros(found.size, dtype=np.uint8)
    for index, value in enumerate(found.tolist()):
        name = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if isinstance(name, str) and name in PHASES:
            codes[index] = PHASES.index(name)
        elif not isinstance(name, str) and name in range(len(PHASES)):
            codes[index] = int(name)
        else:
            problems.add("phase: expected prefill or decode", f"got {name!r}{did_you_mean(str(name), PHASES)}")
    problems.raise_if_any()
    return codes[inverse.reshape(values.shape)]


def stated_phase(options: ReadOptions, tokens: int, recorded: bool, source: str) -> NDArray[np.uint8] | None:
    """The caller's phase for all rows; an error where the file has phases of its own."""
    if options.phase is None:
        return None
    if options.phase not in PHASES:
        raise TraceError(source, [f"phase: expected prefill or decode, got {options.phase!r}"])
    if recorded:
        raise TraceError(source, ["phase: stated by the caller, but the file records it"])
    return np.full(tokens, PHASES.index(options.phase), dtype=np.uint8)


def settle_provenance(stated: str | None, options: ReadOptions, source: str) -> str:
    """Provenance of file and caller; a contradiction is an error."""
    if stated is not None and options.provenance is not None and stated != options.provenance:
        raise TraceError(source, [f"provenance: the file says {stated}, the caller {options.provenance}"])
    return stated or options.provenance or "recorded"


def finish(source: str, fields: Mapping[str, Any]) -> RoutingTrace:
    """The validated trace."""
    return RoutingTrace(source=source, **fields)
