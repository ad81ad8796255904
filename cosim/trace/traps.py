"""Traps of routing recordings: legal in a file, wrong in a study. They are found and named here; `repair` repairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.statistics import shared_share

_MAX_ROWS = 8192
_MAX_STRIDE = 512
_STRIDE_GAIN = 0.03
_RUN_CHANCE = 1e-6
_MIN_RUN = 32  # shorter ones occur in honest text: a line of dashes, indentation


@dataclass(frozen=True)
class Trap:
    """One suspicion.

    Attributes:
        name: what kind it is.
        evidence: what was counted, and where.
        advice: what to look at or to do.
    """

    name: str
    evidence: str
    advice: str


def find(trace: RoutingTrace) -> list[Trap]:
    """All traps found in a trace, in a fixed order; an empty list means none of the known ones."""
    return [trap for check in _CHECKS for trap in check(trace)]


def _experts_unstated(trace: RoutingTrace) -> list[Trap]:
    if trace.experts_stated:
        return []
    return [
        Trap(
            "experts not stated",
            f"the file does not say how many experts a layer has; the largest id is {trace.experts - 1}",
            "state the model's number (experts=…, --experts): experts that were never chosen would be missing",
        )
    ]


def _suspicious_runs(trace: RoutingTrace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First row and length of runs of identical rows that are longer than chance makes them."""
    same = np.ones(max(trace.tokens - 1, 0), dtype=np.bool_)
    for layer in range(trace.layers):
        same &= (trace.ids[1:, layer] == trace.ids[:-1, layer]).all(axis=1)
    starts, lengths = _runs(same)
    filled = (trace.ids[starts] >= 0).any(axis=(1, 2))
    starts, lengths = starts[filled], lengths[filled]
    if not starts.size:
        return starts, lengths
    chance = _same_row_chance(trace)
    # expected number of runs at least this long among rows that repeat each other only by chance
    suspicious = (lengths >= _MIN_RUN) & (trace.tokens * chance ** (lengths - 1.0) < _RUN_CHANCE)
    return starts[suspicious], lengths[suspicious]


def warm_up_rows(trace: RoutingTrace) -> NDArray[np.bool_]:
    """Rows of the trap `warm-up or dummy rows`, `[token]`."""
    found = np.zeros(trace.tokens, dtype=np.bool_)
    for start, length in zip(*_suspicious_runs(trace), strict=True):
        found[start : start + length] = True
    return found


def _warm_up(trace: RoutingTrace) -> list[Trap]:
    """Long runs of identical rows: dummy tokens of a profile run or warm-up."""
    starts, lengths = _suspicious_runs(trace)
    if not starts.size:
        return []
    at = int(np.argmax(lengths))
    return [
        Trap(
            "warm-up or dummy rows",
            f"{int(lengths.sum())} of {trace.tokens} rows lie in {lengths.size} runs of identical rows (all layers the "
            f"same); the longest begins at row {int(starts[at])} and has {int(lengths[at])} rows",
            "engines route dummy tokens while they profile or warm up; --drop-warm-up leaves these rows out",
        )
    ]


def _runs(same: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First row and number of rows of every run of equal neighbours."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    return edges[::2].astype(np.int64), (edges[1::2] - edges[::2] + 1).astype(np.int64)


def _same_row_chance(trace: RoutingTrace) -> float:
    """Chance that two independent rows agree in the layer where that is least likely: a bound for all layers."""
    chance = 1.0
    for layer in range(trace.layers):
        _, times = np.unique(trace.ids[:: max(1, trace.tokens // _MAX_ROWS), layer], axis=0, return_counts=True)
        share = times / times.sum()
        chance = min(chance, float((share * share).sum()))
    return chance


def _empty_slots(trace: RoutingTrace) -> list[Trap]:
    traps = []
    empty_rows = np.ones(trace.tokens, dtype=np.bool_)
    slots, empty_layers = 0, 0
    used = np.zeros(trace.top_k, dtype=np.bool_)
    for layer in range(trace.layers):
        empty = trace.ids[:, layer] < 0
        if empty.all():  # named as a dense layer
            empty_layers += 1
            continue
        slots += int(np.count_nonzero(empty))
        used |= ~empty.all(axis=0)
        empty_rows &= empty.all(axis=1)
    if empty_layers == trace.layers:
        return []
    rows = int(np.count_nonzero(empty_rows))
    if rows:
        first = int(np.flatnonzero(empty_rows)[0])
        traps.append(
            Trap(
                "padding or prefix cache",
                f"{rows} of {trace.tokens} rows are empty (-1) in every layer, first row {first}",
                "padding tokens, or positions served from a prefix cache whose routing was not returned; "
                "--drop-empty-rows leaves them out",
            )
        )
    rest = slots - rows * (trace.layers - empty_layers) * trace.top_k
    if rest:
        unused = np.flatnonzero(~used).tolist()
        traps.append(
            Trap(
                "empty slots",
                f"{rest} slots of rows that are not wholly empty hold -1"
                + (f"; no row uses slots {_ranges(unused)} of {trace.top_k}" if unused else ""),
                "unused columns of a fixed-width recorder, or fused shared experts; --drop-empty-slots leaves out "
                "slots that no row uses",
            )
        )
    return traps


def _repeated_experts(trace: RoutingTrace) -> list[Trap]:
    """A Top-k never names an expert twice: such a row is a filler or holds physical replicas."""
    if trace.top_k < 2:
        return []
    rows, cells, first, value = 0, 0, -1, -1
    constant = np.ones(trace.tokens, dtype=np.bool_)
    for layer in range(trace.layers):
        ids = np.sort(trace.ids[:, layer], axis=1)
        repeated = ((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any(axis=1)
        constant &= (trace.ids[:, layer] == trace.ids[:, :1, 0]).all(axis=1) & (trace.ids[:, 0, 0] >= 0)
        count = int(np.count_nonzero(repeated))
        if count and first < 0:
            first, value = int(np.flatnonzero(repeated)[0]), layer
        cells += count
    rows = int(np.count_nonzero(constant))
    if not cells:
        return []
    filler = ""
    if rows:
        token = int(np.flatnonzero(constant)[0])
        filler = f"; {rows} rows hold one and the same id everywhere (row {token}: {int(trace.ids[token, 0, 0])})"
    return [
        Trap(
            "repeated experts",
            f"{cells} of {trace.tokens * trace.layers} (token, layer) rows name an expert twice, first row {first}, "
            f"layer {value}{filler}",
            "a filler such as 0 or 255 in place of -1 (--padding makes it empty), physical ids of replicas "
            "(--physical-map), or ids cut to too few bits",
        )
    ]


def _constant_layers(trace: RoutingTrace) -> list[Trap]:
    if trace.tokens < 2:
        return []
    constant = [layer for layer in range(trace.layers) if bool((trace.ids[:, layer] == trace.ids[:1, layer]).all())]
    if not constant:
        return []
    return [
        Trap(
            "dense layers",
            f"layer{'s' if len(constant) > 1 else ''} {', '.join(map(str, constant[:8]))} of {trace.layers}: every "
            "token has the same ids"
            + (" (none: -1)" if all(bool((trace.ids[:, layer] < 0).all()) for layer in constant) else ""),
            "dense layers counted as MoE layers shift the numbering of all layers; --moe-layers keeps the others",
        )
    ]


def _layer_offset(trace: RoutingTrace) -> list[Trap]:
    layers = trace.layer_map
    if int(layers[0]) == 0 and int(layers[-1]) == layers.size - 1:
        return []
    lacking = sorted(set(range(int(layers[-1]) + 1)) - set(layers.tolist()))
    return [
        Trap(
            "dense-layer offset",
            f"the decoder layers recorded are {_ranges(layers.tolist())}; {_ranges(lacking)} are not among them",
            "MoE layer n is not decoder layer n: number layers by position in the trace when you pick one",
        )
    ]


def _ranges(numbers: list[int]) -> str:
    parts: list[str] = []
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            low, high = numbers[start], numbers[index - 1]
            parts.append(str(low) if low == high else f"{low}-{high}")
            start = index
    return ", ".join(parts[:6]) + (", …" if len(parts) > 6 else "")


def _gaps(trace: RoutingTrace) -> list[Trap]:
    if trace.request is None or trace.position is None:
        return []
    traps = []
    order = np.lexsort((trace.position, trace.request))
    request, position = trace.request[order], trace.position[order]
    within = request[1:] == request[:-1]
    gaps = np.flatnonzero(within & (np.diff(position) != 1))
    if gaps.size:
        at = int(gaps[0])
        traps.append(
            Trap(
                "missing positions",
                f"{gaps.size} gaps; first: request {int(request[at])} goes from position {int(position[at])} to "
                f"{int(position[at + 1])}",
                "positions served from a prefix cache, or rows lost by the recorder; --drop-incomplete-requests leaves "
                "such requests out",
            )
        )
    starts = np.flatnonzero(np.concatenate([[True], ~within]))
    late = starts[position[starts] > 0]
    if late.size:
        traps.append(
            Trap(
                "prompts not recorded",
                f"{late.size} of {starts.size} requests begin after position 0; first: request "
                f"{int(request[late[0]])} at position {int(position[late[0]])}",
                "only what is there can be simulated: prefill figures are of the recorded rows; "
                "--drop-incomplete-requests leaves such requests out",
            )
        )
    return traps


def _phase_order(trace: RoutingTrace) -> list[Trap]:
    if trace.request is None or trace.position is None:
        return []
    if trace.phase is None:
        return [
            Trap(
                "phase not recorded",
                "the file does not say which rows are prompt tokens",
                "state it (phase=…, --phase) or decode will take prompt rows too",
            )
        ]
    order = np.lexsort((trace.position, trace.request))
    request, phase = trace.request[order], trace.phase[order]
    decode, prefill = PHASES.index("decode"), PHASES.index("prefill")
    back = np.flatnonzero((request[1:] == request[:-1]) & (phase[:-1] == decode) & (phase[1:] == prefill))
    if not back.size:
        return []
    return [
        Trap(
            "prompt rows after decode rows",
            f"{back.size} times, first in request {int(request[back[0]])}",
            "several turns in one request, or a request that was pre-empted and prefilled again",
        )
    ]


def _sequence_first(trace: RoutingTrace) -> list[Trap]:
    """Rows that lie sequence-first (`[position, sequence]` flattened): the row `stride` away is the next token."""
    if trace.request is not None and np.any(np.diff(trace.request[:_MAX_ROWS]) != 0):
        switches = int(np.count_nonzero(np.diff(trace.request)))
        if switches >= np.unique(trace.request).size:  # rows of requests are interleaved and the file says so
            return []
    rows = min(trace.tokens, _MAX_ROWS)
    longest = min(_MAX_STRIDE, rows // 4)
    if longest < 2:
        return []
    layers = np.unique(np.linspace(0, trace.layers - 1, 2).astype(np.int64))
    ids = trace.ids[:rows][:, layers]

    def overlap_at(stride: int) -> float:
        return float(np.mean([shared_share(ids[:-stride, n], ids[stride:, n]) for n in range(layers.size)]))

    near = overlap_at(1)
    strides = np.arange(2, longest + 1)
    shares = np.array([overlap_at(int(stride)) for stride in strides])
    best = int(np.argmax(shares))
    # few rows scatter: a gain counts from five standard errors of a share of so many slots on
    scatter = 2.5 / np.sqrt((rows - int(strides[best])) * trace.top_k * layers.size)
    if not shares[best] > near + max(_STRIDE_GAIN, scatter):
        return []
    return [
        Trap(
            "sequence-first rows",
            f"rows {int(strides[best])} apart share {shares[best]:.3f} of their experts, neighbours {near:.3f} (first "
            f"{rows} rows, layers {layers.tolist()})",
            f"the rows are probably [position, {int(strides[best])} sequences] flattened: --sequence-first "
            f"{int(strides[best])} reorders them, else request and position are wrong",
        )
    ]


def _double_counting(trace: RoutingTrace) -> list[Trap]:
    for ranks in (2, 4, 8, 16):
        size, rest = divmod(trace.tokens, ranks)
        if rest or size < 8:
            continue
        if all(np.array_equal(trace.ids[:size], trace.ids[n * size : (n + 1) * size]) for n in range(1, ranks)):
            return [
                Trap(
                    "data-parallel double counting",
                    f"the {trace.tokens} rows are {ranks} equal copies of {size} rows",
                    f"every rank wrote the same tokens: --one-copy {ranks} keeps one",
                )
            ]
    return []


def _weights(trace: RoutingTrace) -> list[Trap]:
    if trace.weights is None:
        return []
    traps = []
    step = 65536
    low, high, total, off, unsorted, busy = np.inf, -np.inf, 0.0, 0, 0, 0
    for start in range(0, trace.tokens, step):
        weights = trace.weights[start : start + step].astype(np.float64)
        filled = trace.ids[start : start + step] >= 0
        sums = weights.sum(axis=2)[filled.any(axis=2)]
        if sums.size:
            low, high = min(low, float(sums.min())), max(high, float(sums.max()))
            total, busy = total + float(sums.sum()), busy + int(sums.size)
            off += int(np.count_nonzero(np.abs(sums - 1) > 0.02))
        unsorted += int(np.count_nonzero((np.diff(weights, axis=2) > 0).any(axis=2)))
    if busy and off > busy // 100:
        traps.append(
            Trap(
                "weights not normalised",
                f"in {off} of {busy} (token, layer) rows the gate weights do not sum to 1 (mean {total / busy:.3f}, "
                f"{low:.3f} to {high:.3f})",
                "softmax before Top-k, or a scaling factor: --normalise-weights if the model you compare with does so",
            )
        )
    if unsorted:
        traps.append(
            Trap(
                "slots not in order of weight",
                f"in {unsorted} of {trace.tokens * trace.layers} (token, layer) rows a later slot weighs more",
                "slot 0 is not the strongest expert: Top-1 figures need --sort-slots first",
            )
        )
    return traps


_CHECKS: tuple[Callable[[RoutingTrace], list[Trap]], ...] = (
    _experts_unstated,
    _warm_up,
    _empty_slots,
    _repeated_experts,
    _constant_layers,
    _layer_offset,
    _gaps,
    _phase_order,
    _sequence_first,
    _double_counting,
    _weights,
)
