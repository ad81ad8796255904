"""Batches: which tokens of a trace go through the model together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cosim.trace.problems import TraceError, did_you_mean
from cosim.trace.random import RandomStream
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.workload.batch_parts import Selector, select_rows

MODES = ("decode", "prefill", "random", "sequential")
_DECODE, _PREFILL = PHASES.index("decode"), PHASES.index("prefill")
_STREAM = 0x6261746368  # "batch": its draws never meet those of another purpose under one seed


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens that pass through the layers together.

    Attributes:
        tokens: int64, rows of the trace.
        request: int32, request of each token, or None where the trace keeps no request boundaries.
        position: int32, position of each token inside its request, or None.
        phase: `decode` or `prefill` for batches of that mode; `mixed` for `random` and `sequential`, which take rows
            as they come.
    """

    tokens: NDArray[np.int64]
    request: NDArray[np.int32] | None
    position: NDArray[np.int32] | None
    phase: str


def servable_modes(trace: RoutingTrace) -> dict[str, str | None]:
    """Mode -> None if the trace can serve it, else the reason why not."""
    reasons: dict[str, str | None] = dict.fromkeys(MODES)
    if trace.request is None:
        boundaries = "the trace keeps no request boundaries, so which rows follow each other in one request is unknown"
        reasons["decode"] = reasons["prefill"] = boundaries
        return reasons
    if trace.phase is None:
        reasons["prefill"] = "the trace does not say which rows are prompt tokens (phase)"
    else:
        if not np.any(trace.phase == _DECODE):
            reasons["decode"] = "the trace has no decode rows"
        if not np.any(trace.phase == _PREFILL):
            reasons["prefill"] = "the trace has no prefill rows: its prompts were not recorded"
    return reasons


def batches(
    trace: RoutingTrace,
    mode: str,
    batch_tokens: int,
    n_batches: int,
    seed: int,
    part: Selector | NDArray[np.int64] = "all",
    *,
    chunk_tokens: int | None = None,
) -> list[Batch]:
    """Cuts a trace into batches; the same arguments give the same batches on every machine.

    Args:
        trace: the trace.
        mode: one of
            `decode`: one token of each of `batch_tokens` requests per batch, each request following its positions; a
            request that ends is replaced by the next one in seeded order. Where phases are recorded only decode rows
            take part, else all rows of the request.
            `prefill`: prompts in seeded order. Whole ones (`chunk_tokens` None): as many per batch as fit, in order.
            Chunked: a batch is filled to `batch_tokens` with at most `chunk_tokens` of one prompt, and a prompt goes on
            in the next batch where it was cut.
            `random`: tokens drawn without replacement.
            `sequential`: consecutive rows of the part from a seeded first row on.
        batch_tokens: tokens per batch; with whole prompts the most a batch may hold.
        n_batches: how many batches.
        seed: of the order of requests, the draw or the first row.
        part: a selector of `select_rows`, or its rows.
        chunk_tokens: with `prefill` only.

    Returns:
        Exactly `n_batches` batches; no row is used twice.

    Raises:
        TraceError: when the trace cannot serve the mode or is too small, with the reason.
    """
    problems = _argument_problems(mode, batch_tokens, n_batches, chunk_tokens)
    if problems:
        raise TraceError(trace.source, problems)
    reason = servable_modes(trace)[mode]
    if reason is not None:
        others = [name for name, why in servable_modes(trace).items() if why is None]
        raise TraceError(trace.source, [f"mode {mode}: {reason}; it can serve {', '.join(others)}"])
    rows = part if isinstance(part, np.ndarray) else select_rows(trace, part)
    stream = RandomStream(seed, _STREAM)
    if mode == "prefill":
        chosen = _prefill(trace, rows, batch_tokens, n_batches, stream, chunk_tokens)
    else:
        chosen = _BATCHERS[mode](trace, rows, batch_tokens, n_batches, stream)
    return [
        Batch(
            tokens=tokens,
            request=None if trace.request is None else trace.request[tokens],
            position=None if trace.position is None else trace.position[tokens],
            phase=mode if mode in PHASES else "mixed",
        )
        for tokens in chosen
    ]


def _argument_problems(mode: str, batch_tokens: int, n_batches: int, chunk_tokens: int | None) -> list[str]:
    problems = []
    if mode not in MODES:
        problems.append(f"mode: expected one of {', '.join(MODES)}, got {mode!r}{did_you_mean(mode, MODES)}")
    sizes: dict[str, int] = {"batch_tokens": batch_tokens, "n_batches": n_batches}
    if chunk_tokens is not None:
        sizes["chunk_tokens"] = chunk_tokens
        if mode != "prefill":
            problems.append(f"chunk_tokens: only prefill reads it, the mode is {mode}")
    problems += [f"{name}: expected at least 1, got {value}" for name, value in sizes.items() if value < 1]
    return problems


def _too_small(trace: RoutingTrace, mode: str, text: str) -> TraceError:
    return TraceError(trace.source, [f"mode {mode}: {text}"])


def _by_request(trace: RoutingTrace, rows: NDArray[np.int64], phase: int, mode: str) -> list[NDArray[np.int64]]:
    """Rows of each request in order of position; requests in order of first appearance."""
    assert trace.request is not None
    assert trace.position is not None
    if trace.phase is not None:
        rows = rows[trace.phase[rows] == phase]
    if not rows.size:
        raise _too_small(trace, mode, f"this part has no {PHASES[phase]} rows")
    ordered = rows[np.lexsort((trace.position[rows], trace.request[rows]))]
    cuts = np.flatnonzero(np.diff(trace.request[ordered])) + 1
    groups = np.split(ordered, cuts)
    groups.sort(key=lambda group: int(group.min()))
    return groups


def _decode(
    trace: RoutingTrace, rows: NDArray[np.int64], batch_tokens: int, n_batches: int, stream: RandomStream
) -> list[NDArray[np.int64]]:
    groups = _by_request(trace, rows, _DECODE, "decode")
    if len(groups) < batch_tokens:
        raise _too_small(
            trace, "decode", f"batch_tokens is {batch_tokens}, but this part has {len(groups)} requests to take one of"
        )
    waiting = iter(stream.permutation(len(groups)).tolist())
    active = [(groups[next(waiting)], 0) for _ in range(batch_tokens)]
    chosen: list[NDArray[np.int64]] = []
    for number in range(n_batches):
        for slot, (group, place) in enumerate(active):
            if place < group.size:
                continue
            following = next(waiting, None)
            if following is None:
                raise _too_small(
                    trace,
                    "decode",
                    f"{n_batches} batches of {batch_tokens} asked for, but after {number} a request ends and all "
                    f"{len(groups)} of this part are in use",
                )
            active[slot] = (groups[following], 0)
        chosen.append(np.array([group[place] for group, place in active], dtype=np.int64))
        active = [(group, place + 1) for group, place in active]
    return chosen


def _prefill(
    trace: RoutingTrace,
    rows: NDArray[np.int64],
    batch_tokens: int,
    n_batches: int,
    stream: RandomStream,
    chunk_tokens: int | None,
) -> list[NDArray[np.int64]]:
    groups = _by_request(trace, rows, _PREFILL, "prefill")
    longest = max(group.size for group in groups)
    if chunk_tokens is None and longest > batch_tokens:
        raise _too_small(
            trace,
            "prefill",
            f"a prompt of {longest} tokens does not fit batch_tokens {batch_tokens}; give chunk_tokens to cut prompts",
        )
    waiting = [groups[index] for index in stream.permutation(len(groups))]
    waiting.reverse()  # taken from the end
    fill = _whole_prompts if chunk_tokens is None else _chunks
    chosen: list[NDArray[np.int64]] = []
    for number in range(n_batches):
        tokens = fill(waiting, batch_tokens, chunk_tokens or batch_tokens)
        if tokens is None:
            raise _too_small(
                trace,
                "prefill",
                f"{n_batches} batches of {batch_tokens} tokens asked for, the {len(groups)} prompts of this part fill "
                f"{number}",
            )
        chosen.append(tokens)
    return chosen


def _whole_prompts(waiting: list[NDArray[np.int64]], room: int, most: int) -> NDArray[np.int64] | None:
    """As many prompts from the end of `waiting` as fit, or None when none is left; every prompt is at most `most`."""
    assert not waiting or waiting[-1].size <= most
    pieces = []
    while waiting and waiting[-1].size <= room:
        pieces.append(waiting.pop())
        room -= pieces[-1].size
    return np.concatenate(pieces) if pieces else None


def _chunks(waiting: list[NDArray[np.int64]], room: int, most: int) -> NDArray[np.int64] | None:
    """Exactly `room` tokens, at most `most` of one prompt; what is left of a prompt comes first in the next batch."""
    pieces: list[NDArray[np.int64]] = []
    unfinished: list[NDArray[np.int64]] = []
    while waiting and room:
        prompt = waiting.pop()
        piece, rest = np.split(prompt, [min(room, most)])
        pieces.append(piece)
        room -= piece.size
        if rest.size:
            unfinished.append(rest)
    waiting.extend(reversed(unfinished))
    return None if room else np.concatenate(pieces)


def _random(
    trace: RoutingTrace, rows: NDArray[np.int64], batch_tokens: int, n_batches: int, stream: RandomStream
) -> list[NDArray[np.int64]]:
    _check_rows(trace, "random", rows, batch_tokens, n_batches)
    drawn = rows[stream.permutation(rows.size)[: batch_tokens * n_batches]]
    return list(drawn.reshape(n_batches, batch_tokens))


def _sequential(
    trace: RoutingTrace, rows: NDArray[np.int64], batch_tokens: int, n_batches: int, stream: RandomStream
) -> list[NDArray[np.int64]]:
    _check_rows(trace, "sequential", rows, batch_tokens, n_batches)
    wanted = batch_tokens * n_batches
    first = stream.below(rows.size - wanted + 1)
    return list(rows[first : first + wanted].reshape(n_batches, batch_tokens))


def _check_rows(trace: RoutingTrace, mode: str, rows: NDArray[np.int64], batch_tokens: int, n_batches: int) -> None:
    if batch_tokens * n_batches > rows.size:
        raise _too_small(
            trace,
            mode,
            f"{n_batches} batches of {batch_tokens} tokens need {batch_tokens * n_batches} rows, this part has "
            f"{rows.size}: at most {rows.size // batch_tokens} batches",
        )


_Batcher: TypeAlias = Callable[[RoutingTrace, NDArray[np.int64], int, int, RandomStream], list[NDArray[np.int64]]]
_BATCHERS: Mapping[str, _Batcher] = {"decode": _decode, "random": _random, "sequential": _sequential}
