"""From what a reader found to a `RoutingTrace`: the statements of file and caller brought together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.routing import PHASES, RoutingTrace, compact_ids_dtype


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
