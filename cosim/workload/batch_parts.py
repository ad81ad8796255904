"""Parts of a trace: what a policy may see beforehand (`profile`) and what is simulated (`evaluate`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cosim.trace.problems import TraceError, did_you_mean
from cosim.trace.routing import RoutingTrace

SELECTORS = ("requests", "positions", "rows", "time", "fraction")
ORACLE, NONE = "oracle", "none"
_RANGE = re.compile(r"\s*(\d{1,12})\s*(?:-\s*(\d{1,12})\s*)?")
_SHARES = re.compile(r"\s*([0-9.]+)\s*-\s*([0-9.]+)\s*")

Selector: TypeAlias = str | float | Mapping[str, Any]
"""`all`, or one of {requests: 0-63}, {positions: 0-15}, both of them, {rows: 0-999}, {time: 0-0.5},
{fraction: 0-0.5}, or a bare fraction."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The two parts of a trace.

    Attributes:
        profile: rows a policy may look at before the run, strictly increasing.
        evaluate: rows that are simulated, strictly increasing.
        oracle: True when the profile is the evaluated part itself; every table says so.
    """

    profile: NDArray[np.int64]
    evaluate: NDArray[np.int64]
    oracle: bool


def resolve_parts(trace: RoutingTrace, profile: Selector, evaluate: Selector = "all") -> Parts:
    """Rows of both parts.

    Args:
        trace: the trace they are parts of.
        profile: a selector, `oracle` (the evaluated part itself) or `none` (nothing is known beforehand).
        evaluate: a selector.

    Raises:
        TraceError: on a wrong selector, an empty part, or parts that overlap.
    """
    evaluated = select_rows(trace, evaluate, "evaluate")
    if profile == ORACLE:
        return Parts(evaluated, evaluated, oracle=True)
    if profile == NONE:
        return Parts(evaluated[:0], evaluated, oracle=False)
    profiled = select_rows(trace, profile, "profile")
    common = np.intersect1d(profiled, evaluated, assume_unique=True)
    if common.size:
        where = f"row {int(common[0])}"
        if trace.request is not None:
            where += f" of request {int(trace.request[common[0]])}"
        raise TraceError(
            trace.source,
            [
                f"profile and evaluate share {common.size} rows (first: {where}); take parts that do not overlap, "
                f"or say profile: {ORACLE}"
            ],
        )
    return Parts(profiled, evaluated, oracle=False)


def select_rows(trace: RoutingTrace, selector: Selector, what: str = "part") -> NDArray[np.int64]:
    """Strictly increasing rows a selector names.

    Args:
        trace: the trace.
        selector: `all`; {requests: "0-63"} by request number, also `0-3,7` or a list; {positions: "0-15"} by position
            inside a request, alone or beside requests; {rows: "0-999"} in file order; {time: "0-0.5"} shares of the
            rows in file order; {fraction: "0-0.5"} (or a bare f for 0-f) shares of the requests in file order, whole
            requests only, and of the rows where requests are not known. Ends of `requests`, `positions` and `rows` are
            included, shares take [a, b).
        what: what to call the part in messages.

    Raises:
        TraceError: on an unknown or wrong selector, a request or row the trace does not have, an empty part.
    """
    if selector == "all":
        return np.arange(trace.tokens, dtype=np.int64)
    if isinstance(selector, (int, float)) and not isinstance(selector, bool):
        selector = {"fraction": [0.0, float(selector)]}
    if isinstance(selector, Mapping) and set(selector) == {"requests", "positions"}:
        rows = select_rows(trace, {"requests": selector["requests"]}, what)
        at = select_rows(trace, {"positions": selector["positions"]}, what)
        both = np.intersect1d(rows, at, assume_unique=True)
        if not both.size:
            raise TraceError(trace.source, [f"{what}: {selector!r} selects nothing of {trace.tokens} rows"])
        return both.astype(np.int64)
    if not isinstance(selector, Mapping) or len(selector) != 1:
        raise TraceError(
            trace.source, [f"{what}: expected all or one of {', '.join(SELECTORS)} with a range, got {selector!r}"]
        )
    kind, value = next(iter(selector.items()))
    if kind == "requests":
        rows = _requests(trace, _ranges(trace, value, f"{what}.requests"), f"{what}.requests")
    elif kind == "positions":
        rows = _positions(trace, _ranges(trace, value, f"{what}.positions"), f"{what}.positions")
    elif kind == "rows":
        rows = _rows(trace, _ranges(trace, value, f"{what}.rows"), f"{what}.rows")
    elif kind in ("time", "fraction"):
        low, high = _shares(trace, value, f"{what}.{kind}")
        rows = _share_of_rows(trace, low, high) if kind == "time" else _share_of_requests(trace, low, high)
    else:
        raise TraceError(
            trace.source,
            [f"{what}: expected one of {', '.join(SELECTORS)}, got {kind!r}{did_you_mean(str(kind), SELECTORS)}"],
        )
    if not rows.size:
        raise TraceError(trace.source, [f"{what}: {selector!r} selects nothing of {trace.tokens} rows"])
    return rows.astype(np.int64)


def _share_of_rows(trace: RoutingTrace, low: float, high: float) -> NDArray[np.int64]:
    return np.arange(math.floor(low * trace.tokens), math.floor(high * trace.tokens), dtype=np.int64)


def _share_of_requests(trace: RoutingTrace, low: float, high: float) -> NDArray[np.int64]:
    requests = trace.requests
    if requests is None or trace.request is None:
        return _share_of_rows(trace, low, high)
    chosen = requests[math.floor(low * requests.size) : math.floor(high * requests.size)]
    return np.flatnonzero(np.isin(trace.request, chosen))


def _requests(trace: RoutingTrace, ranges: list[tuple[int, int]], what: str) -> NDArray[np.int64]:
    known = trace.requests
    if known is None or trace.request is None:
        raise TraceError(
            trace.source,
            [f"{what}: this trace keeps no request boundaries; select by rows, time or fraction"],
        )
    chosen = np.zeros(trace.tokens, dtype=np.bool_)
    present = np.sort(known).astype(np.int64)
    for low, high in ranges:
        inside = int(np.searchsorted(present, high, side="right") - np.searchsorted(present, low))
        if inside != high - low + 1:
            raise TraceError(
                trace.source,
                [
                    f"{what}: {high - low + 1 - inside} of the requests {low}-{high} are not in the trace, which has "
                    f"{present.size} requests, {present[0]} to {present[-1]}"
                ],
            )
        chosen |= (trace.request >= low) & (trace.request <= high)
    return np.flatnonzero(chosen)


def _positions(trace: RoutingTrace, ranges: list[tuple[int, int]], what: str) -> NDArray[np.int64]:
    if trace.position is None:
        raise TraceError(trace.source, [f"{what}: this trace keeps no positions inside requests"])
    chosen = np.zeros(trace.tokens, dtype=np.bool_)
    last = int(trace.position.max(initial=-1))
    for low, high in ranges:
        if high > last:
            raise TraceError(trace.source, [f"{what}: {low}-{high}: the trace has positions 0-{last}"])
        chosen |= (trace.position >= low) & (trace.position <= high)
    return np.flatnonzero(chosen)


def _rows(trace: RoutingTrace, ranges: list[tuple[int, int]], what: str) -> NDArray[np.int64]:
    chosen = np.zeros(trace.tokens, dtype=np.bool_)
    for low, high in ranges:
        if high >= trace.tokens:
            raise TraceError(trace.source, [f"{what}: {low}-{high}: the trace has rows 0-{trace.tokens - 1}"])
        chosen[low : high + 1] = True
    return np.flatnonzero(chosen)


def _ranges(trace: RoutingTrace, value: Any, what: str) -> list[tuple[int, int]]:
    """Inclusive ranges of `3`, `0-63`, `0-3,7` or a list of such."""
    whole = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    items = [part for item in whole for part in (item.split(",") if isinstance(item, str) else [item])]
    ranges: list[tuple[int, int]] = []
    wrong: list[str] = []
    for item in items:
        match = _RANGE.fullmatch(str(item)) if isinstance(item, (str, int)) and not isinstance(item, bool) else None
        low = int(match[1]) if match else 0
        high = int(match[2]) if match and match[2] is not None else low
        if match is None or high < low:
            wrong.append(f"{what}: expected a number or a range like 0-63, got {item!r}")
        else:
            ranges.append((low, high))
    if wrong or not ranges:
        raise TraceError(trace.source, wrong or [f"{what}: expected a number or a range like 0-63, got {value!r}"])
    return ranges


def _shares(trace: RoutingTrace, value: Any, what: str) -> tuple[float, float]:
    pair: list[float] = []
    if isinstance(value, str):
        match = _SHARES.fullmatch(value)
        try:
            pair = [float(match[1]), float(match[2])] if match else []
        except ValueError:
            pair = []
    elif isinstance(value, Sequence) and len(value) == 2:
        pair = [float(v) for v in value if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(pair) != 2 or not 0 <= pair[0] < pair[1] <= 1:
        raise TraceError(trace.source, [f"{what}: expected shares like 0-0.5 with 0 <= a < b <= 1, got {value!r}"])
    return pair[0], pair[1]
