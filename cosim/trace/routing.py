"""`RoutingTrace`: which experts every token of a recording was routed to, in plain arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.problems import Problems, TraceError

PHASES = ("prefill", "decode")
"""Names of the phase codes: 0 = prefill (a prompt token), 1 = decode (a generated token)."""

_PROVENANCE = re.compile(r"recorded|synthetic|fitted\(.+\)")
_CHUNK_TOKENS = 65536


@dataclass(frozen=True, eq=False, repr=False)
class RoutingTrace:
    """Expert routing of a mixture-of-experts model, one row per token.

    Attributes:
        ids: int16 or int32 `[token, layer, slot]`, expert of each slot in order of gate weight where the source keeps
            that order; -1 = empty slot.
        experts: experts per MoE layer in the model.
        layer_map: int32 `[layer]`, decoder layer of each MoE layer, strictly increasing.
        weights: float16 or float32, shape of `ids`, gate weights (0 in empty slots), or None.
        scores: float16 or float32 `[scored token, layer, expert]`, router scores over all experts of
            a subset of tokens.
        scores_token: int64 `[scored token]`, strictly increasing rows of `ids` the scores belong to.
        request: int32 `[token]`, request of each token, or None where the source keeps no request boundaries.
        position: int32 `[token]`, position inside the request, or None.
        phase: uint8 `[token]`, index into `PHASES`, or None where it was not recorded.
        domain: int16 `[token]`, index into `domains`, or None.
        domains: names of the domains.
        provenance: `recorded`, `fitted(<source>)` or `synthetic`.
        experts_stated: False where the source does not say how many experts the model has and `experts` is the
            largest id + 1.
        source: what to call the trace in messages.
        repairs: what was repaired in the recording on the caller's word, one line each (see `repair`).

    Raises:
        TraceError: on any value outside these rules; all are listed.
    """

    ids: NDArray[Any]
    experts: int
    layer_map: NDArray[np.int32]
    weights: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None
    scores_token: NDArray[np.int64] | None = None
    request: NDArray[np.int32] | None = None
    position: NDArray[np.int32] | None = None
    phase: NDArray[np.uint8] | None = None
    domain: NDArray[np.int16] | None = None
    domains: tuple[str, ...] = ()
    provenance: str = "recorded"
    experts_stated: bool = True
    source: str = "trace"
    repairs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = Problems(self.source)
        _check_shapes(self, problems)
        problems.raise_if_any()
        _check_values(self, problems)
        problems.raise_if_any()
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                view = value.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __repr__(self) -> str:
        return (
            f"<RoutingTrace {self.source}: {self.tokens} tokens, {self.layers} layers, top {self.top_k} of "
            f"{self.experts} experts, {self.provenance}>"
        )

    @property
    def tokens(self) -> int:
        """Number of rows."""
        return int(self.ids.shape[0])

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return int(self.ids.shape[1])

    @property
    def top_k(self) -> int:
        """Slots per token and layer."""
        return int(self.ids.shape[2])

    @property
    def requests(self) -> NDArray[np.int32] | None:
        """Distinct requests in order of first appearance, or None."""
        if self.request is None:
            return None
        values, first = np.unique(self.request, return_index=True)
        return values[np.argsort(first, kind="stable")]

    def take(self, rows: NDArray[np.int64]) -> RoutingTrace:
        """The trace of the given rows (strictly increasing indices), scores included."""
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and (np.any(np.diff(rows) <= 0) or rows[0] < 0 or rows[-1] >= self.tokens):
            raise ValueError(f"take: expected strictly increasing rows in [0, {self.tokens})")

        def pick(array: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if array is None else array[rows]

        scores = scores_token = None
        if self.scores is not None and self.scores_token is not None:
            kept = np.isin(self.scores_token, rows)
            scores, scores_token = self.scores[kept], np.searchsorted(rows, self.scores_token[kept])
        return replace(
            self,
            ids=self.ids[rows],
            weights=pick(self.weights),
            scores=scores,
            scores_token=scores_token,
            request=pick(self.request),
            position=pick(self.position),
            phase=pick(self.phase),
            domain=pick(self.domain),
        )

    def without_scores(self) -> RoutingTrace:
        """The same trace without router scores."""
        return replace(self, scores=None, scores_token=None)

    def check_model(self, *, experts: int, layers: int | None = None, top_k: int | None = None) -> None:
        """Raises TraceError unless the trace can be routed on a model of that many experts, MoE layers and Top-k."""
        problems = Problems(self.source)
        if self.experts_stated and self.experts != experts:
            problems.add(f"the trace has {self.experts} experts per layer, the model has {experts}")
        elif not self.experts_stated and self.experts > experts:
            outside = int(np.count_nonzero(self.ids >= experts))
            problems.add(
                f"{outside} expert ids are outside the model's 0..{experts - 1} (largest is {self.experts - 1})"
            )
        if layers is not None and self.layers != layers:
            problems.add(f"the trace has {self.layers} MoE layers, the model has {layers}")
        if top_k is not None and self.top_k != top_k:
            problems.add(f"the trace has {self.top_k} slots per token and layer, the model's Top-k is {top_k}")
        problems.raise_if_any()


def compact_ids_dtype(experts: int) -> type[np.int16] | type[np.int32]:
    """The dtype `ids` are kept in."""
    return np.int16 if experts <= np.iinfo(np.int16).max else np.int32


def same_trace(a: RoutingTrace, b: RoutingTrace) -> bool:
    """True if every array, name and figure of the two traces is the same (`source` aside)."""
    for name, mine in vars(a).items():
        other = getattr(b, name)
        if name == "source":
            continue
        if isinstance(mine, np.ndarray) or isinstance(other, np.ndarray):
            if mine is None or other is None or not np.array_equal(mine, other):
                return False
        elif mine != other:
            return False
    return True


def _check_shapes(trace: RoutingTrace, problems: Problems) -> None:
    ids = trace.ids
    if ids.dtype not in (np.int16, np.int32) or ids.ndim != 3:
        problems.add(f"ids: expected int16 or int32 [token, layer, slot], got {ids.dtype} of shape {list(ids.shape)}")
        return
    if 0 in ids.shape:
        problems.add(f"ids: an empty trace, shape {list(ids.shape)}")
    if trace.experts < 1:
        problems.add(f"experts: expected at least 1, got {trace.experts}")
    if not _PROVENANCE.fullmatch(trace.provenance):
        problems.add(f"provenance: expected recorded, fitted(<source>) or synthetic, got {trace.provenance!r}")
    tokens, layers, _ = ids.shape
    _expect(problems, "layer_map", trace.layer_map, (layers,), (np.int32,))
    _expect(problems, "weights", trace.weights, ids.shape, (np.float16, np.float32))
    for name in ("request", "position"):
        _expect(problems, name, getattr(trace, name), (tokens,), (np.int32,))
    _expect(problems, "phase", trace.phase, (tokens,), (np.uint8,))
    _expect(problems, "domain", trace.domain, (tokens,), (np.int16,))
    if (trace.scores is None) != (trace.scores_token is None):
        problems.add("scores and scores_token: expected both or none")
    elif trace.scores is not None and trace.scores_token is not None:
        scored = trace.scores_token.shape[0] if trace.scores_token.ndim == 1 else -1
        _expect(problems, "scores", trace.scores, (scored, layers, trace.experts), (np.float16, np.float32))
        _expect(problems, "scores_token", trace.scores_token, (scored,), (np.int64,))
    if (trace.request is None) != (trace.position is None):
        problems.add("request and position: expected both or none")
    if trace.phase is not None and trace.request is None:
        problems.add("phase: means nothing without request and position")


def _expect(
    problems: Problems, name: str, array: NDArray[Any] | None, shape: tuple[int, ...], dtypes: tuple[type, ...]
) -> None:
    if array is not None and (array.dtype not in dtypes or array.shape != shape):
        wanted = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        problems.add(f"{name}: expected {wanted} of shape {list(shape)}, got {array.dtype} {list(array.shape)}")


def _check_values(trace: RoutingTrace, problems: Problems) -> None:
    ids = trace.ids
    if int(ids.min()) < -1 or int(ids.max()) >= trace.experts:
        _find_bad_ids(trace, problems)
    if trace.weights is not None:
        _check_non_negative(problems, "weights", trace.weights)
        if not problems and int(ids.min()) < 0:
            filled = sum(
                int(np.count_nonzero(trace.weights[a : a + _CHUNK_TOKENS][ids[a : a + _CHUNK_TOKENS] < 0]))
                for a in range(0, trace.tokens, _CHUNK_TOKENS)
            )
            if filled:
                problems.add("weights: a weight in an empty slot (id -1), expected 0", count=filled)
    if trace.scores is not None and trace.scores_token is not None:
        _check_finite(problems, "scores", trace.scores)
        rows = trace.scores_token
        if rows.size and (np.any(np.diff(rows) <= 0) or rows[0] < 0 or rows[-1] >= trace.tokens):
            problems.add(f"scores_token: expected strictly increasing rows in [0, {trace.tokens})")
    if np.any(np.diff(trace.layer_map) <= 0) or int(trace.layer_map[0]) < 0:
        problems.add(
            f"layer_map: expected strictly increasing decoder layers from 0 on, got {trace.layer_map.tolist()}"
        )
    if trace.phase is not None and int(trace.phase.max()) >= len(PHASES):
        problems.add(f"phase: expected codes of {PHASES}, got {int(trace.phase.max())}")
    if trace.domain is not None and (int(trace.domain.min()) < 0 or int(trace.domain.max()) >= len(trace.domains)):
        problems.add(f"domain: an index outside the {len(trace.domains)} domains")
    if trace.request is not None and trace.position is not None:
        if int(trace.request.min()) < 0 or int(trace.position.min()) < 0:
            problems.add("request, position: expected values >= 0")
        _check_duplicates(trace.request, trace.position, problems)


def _find_bad_ids(trace: RoutingTrace, problems: Problems) -> None:
    fills: dict[int, int] = {}
    for start in range(0, trace.tokens, _CHUNK_TOKENS):
        part = trace.ids[start : start + _CHUNK_TOKENS]
        bad = (part < -1) | (part >= trace.experts)
        count = int(np.count_nonzero(bad))
        if not count:
            continue
        for value, times in zip(*np.unique(part[bad], return_counts=True), strict=True):
            fills[int(value)] = fills.get(int(value), 0) + int(times)
        token, layer, slot = (int(v[0]) for v in np.nonzero(bad))
        example = f"token {start + token}, layer {layer}, slot {slot} is {int(part[token, layer, slot])}"
        problems.add(f"ids: an id outside the model's 0..{trace.experts - 1} (or -1, empty)", example, count)
    if len(fills) == 1:
        value, times = next(iter(fills.items()))
        problems.add(
            f"ids: trap padding: {times} slots hold {value} and no other id is outside: a filler? "
            f"--padding {value} makes it empty"
        )
    elif fills and min(fills) >= trace.experts:
        problems.add(
            f"ids: trap physical ids: {len(fills)} ids from {min(fills)} to {max(fills)} are outside: replicas by "
            "physical number? --physical-map gives the map to logical experts"
        )


def _check_non_negative(problems: Problems, name: str, values: NDArray[Any]) -> None:
    if values.size and not (float(values.min()) >= 0 and float(values.max()) < np.inf):  # a NaN fails the comparison
        for start in range(0, values.shape[0], _CHUNK_TOKENS):
            part = values[start : start + _CHUNK_TOKENS]
            _note_cells(problems, f"{name}: not a finite number", ~np.isfinite(part), part, start)
            with np.errstate(invalid="ignore"):
                _note_cells(problems, f"{name}: negative", part < 0, part, start)


def _check_finite(problems: Problems, name: str, values: NDArray[Any]) -> None:
    if values.size and not (float(values.min()) > -np.inf and float(values.max()) < np.inf):
        for start in range(0, values.shape[0], _CHUNK_TOKENS):
            part = values[start : start + _CHUNK_TOKENS]
            _note_cells(problems, f"{name}: not a finite number", ~np.isfinite(part), part, start)


def _note_cells(problems: Problems, kind: str, bad: NDArray[np.bool_], part: NDArray[Any], start: int) -> None:
    count = int(np.count_nonzero(bad))
    if count:
        token, layer, slot = (int(v[0]) for v in np.nonzero(bad))
        problems.add(kind, f"token {start + token}, layer {layer}, slot {slot} is {part[token, layer, slot]}", count)


def _check_duplicates(request: NDArray[np.int32], position: NDArray[np.int32], problems: Problems) -> None:
    keys = (request.astype(np.int64) << 32) | position.astype(np.int64)
    keys.sort(kind="stable")
    again = keys[1:][keys[1:] == keys[:-1]]
    if again.size:
        key = int(again[0])
        problems.add(
            "duplicate (request, position)", f"request {key >> 32}, position {key & 0xFFFFFFFF}", int(again.size)
        )


__all__ = ["PHASES", "RoutingTrace", "TraceError", "compact_ids_dtype", "same_trace"]
