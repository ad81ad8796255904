"""npz recordings: the project's own layout and the block and flat layouts people save by hand.

Layouts, told apart by the shapes:
    own     `ids` `[token, layer, slot]`, `num_experts`, `layer_map`, `provenance` and per-token columns (what `save`
            writes);
    block   `experts` or `ids` `[request, position, layer, slot]`; `request`, `domain`, `prompt_tokens` run along the
            first axis, `position` and `phase` along the second (or both);
    flat    `experts` or `ids` `[token, layer, slot]` with per-token columns;
    grouped any other keys, each `[token, layer, slot]`: one domain per key, concatenated in file order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cosim.trace.archive import Archive
from cosim.trace.assemble import (
    finish,
    float_dtype,
    narrow_ids,
    phase_codes,
    prepare_ids,
    settle_experts,
    settle_provenance,
    stated_phase,
)
from cosim.trace.options import ReadOptions
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.routing import PHASES, RoutingTrace

IDS_KEYS = ("ids", "experts")
_LAYER_KEYS = ("layer_map", "moe_layers")
_KEYS = (
    *IDS_KEYS,
    *_LAYER_KEYS,
    "weights",
    "scores",
    "scores_token",
    "request",
    "request_index",
    "position",
    "phase",
    "domain",
    "domains",
    "prompt_tokens",
    "num_experts",
    "provenance",
    "meta",
    "repairs",
)
_I32 = np.iinfo(np.int32)


def read_npz(path: Path, options: ReadOptions) -> RoutingTrace:
    """Reads an npz recording.

    Raises:
        TraceError: naming file and array of everything that is wrong.
    """
    with Archive(path, options.limits) as archive:
        if any(key in archive.members for key in _KEYS):
            return _Reader(archive, options).trace()
        return _read_grouped(archive, options)


class _Reader:
    def __init__(self, archive: Archive, options: ReadOptions) -> None:
        self.archive = archive
        self.options = options
        self.source = str(archive.path)
        problems = Problems(self.source)
        for name in archive.members:
            if name not in _KEYS:
                problems.add("an array nobody reads", f"{name!r}{did_you_mean(name, _KEYS)}")
        self.ids_key = self._one_of(IDS_KEYS, problems, required=True)
        self.layer_key = self._one_of(_LAYER_KEYS, problems)
        self.request_key = self._one_of(("request", "request_index"), problems)
        problems.raise_if_any()
        member = archive.members[self.ids_key or ""]
        if member.dtype.kind not in "iu":
            problems.add(f"{self.ids_key}: expected integer expert ids, got {member.dtype}")
        if len(member.shape) not in (3, 4):
            problems.add(
                f"{self.ids_key}: expected [token, layer, slot] or [request, position, layer, slot], "
                f"got shape {list(member.shape)}"
            )
        elif 0 in member.shape:
            problems.add(f"{self.ids_key}: an empty trace, shape {list(member.shape)}")
        problems.raise_if_any()
        self.block = member.shape[:2] if len(member.shape) == 4 else None
        self.tokens = int(np.prod(member.shape[:-2]))
        self.layers, self.top_k = member.shape[-2:]
        self.shape = member.shape

    def _one_of(self, keys: tuple[str, ...], problems: Problems, required: bool = False) -> str | None:
        found = [key for key in keys if key in self.archive.members]
        if len(found) > 1:
            problems.add(f"{' and '.join(found)} name the same thing, expected one of them")
        if required and not found:
            problems.add(f"no array {' or '.join(keys)}: nothing says which experts were chosen")
        return found[0] if found else None

    def trace(self) -> RoutingTrace:
        """The trace; problems of independent arrays are reported together."""
        problems = Problems(self.source)
        fields: dict[str, Any] = {}

        def gather(name: str, read: Any) -> Any:
            try:
                fields[name] = read()
            except TraceError as error:
                for line in error.problems:
                    problems.add(line)

        gather("ids", self._ids)
        gather("layer_map", self._layer_map)
        gather("weights", self._weights)
        gather("provenance", self._provenance)
        gather("repairs", self._repairs)
        gather("columns", self._columns)
        problems.raise_if_any()
        gather("scores", self._scores)
        problems.raise_if_any()
        scores, scores_token = fields.pop("scores")
        ids, columns = fields.pop("ids"), fields.pop("columns")
        stated = self._integer("num_experts") if "num_experts" in self.archive.members else None
        scored = None if scores is None else int(scores.shape[-1])
        ids = prepare_ids(ids, self.options, self.source)
        experts, known = settle_experts(ids, stated, self.options, self.source, scored=scored)
        return finish(
            self.source,
            {
                **fields,
                **columns,
                "ids": narrow_ids(ids, experts, self.source),
                "experts": experts,
                "experts_stated": known,
                "scores": scores,
                "scores_token": scores_token,
            },
        )

    def _ids(self) -> NDArray[Any]:
        name = self.ids_key or ""
        member = self.archive.members[name]
        dtype = np.int16 if member.dtype.itemsize <= 2 and member.dtype != np.uint16 else np.int32
        return self.archive.read_as(name, dtype).reshape(self.tokens, self.layers, self.top_k)

    def _layer_map(self) -> NDArray[np.int32]:
        if self.layer_key is None:
            return np.arange(self.layers, dtype=np.int32)
        return self._column(self.layer_key, (self.layers,))

    def _weights(self) -> NDArray[Any] | None:
        member = self.archive.members.get("weights")
        if member is None:
            return None
        if member.dtype.kind != "f" or member.shape != self.shape:
            self._fail(
                f"weights: expected floats of the shape of {self.ids_key} {list(self.shape)}, "
                f"got {member.dtype} {list(member.shape)}"
            )
        weights = self.archive.read_as("weights", float_dtype(member.dtype))
        return weights.reshape(self.tokens, self.layers, self.top_k)

    def _scores(self) -> tuple[NDArray[Any] | None, NDArray[np.int64] | None]:
        member = self.archive.members.get("scores")
        if member is None:
            if "scores_token" in self.archive.members:
                self._fail("scores_token: there are no scores")
            return None, None
        if member.dtype.kind != "f" or len(member.shape) != 3 or member.shape[1] != self.layers:
            self._fail(
                f"scores: expected floats [token, {self.layers} layers, expert], got {member.dtype} "
                f"{list(member.shape)}"
            )
        if "scores_token" in self.archive.members:
            rows = self._integers("scores_token", np.int64, (member.shape[0],))
        elif member.shape[0] == self.tokens:
            rows = np.arange(self.tokens, dtype=np.int64)
        else:
            self._fail(f"scores: {member.shape[0]} rows for {self.tokens} tokens and no scores_token to say which")
        return self.archive.read_as("scores", float_dtype(member.dtype)), rows

    def _provenance(self) -> str:
        stated = self._text("provenance") if "provenance" in self.archive.members else None
        return settle_provenance(stated, self.options, self.source)

    def _domains(self) -> tuple[str, ...]:
        if "domains" not in self.archive.members:
            self._fail("domain: there is no domains array to name them")
        return self._texts("domains")

    def _repairs(self) -> tuple[str, ...]:
        return self._texts("repairs") if "repairs" in self.archive.members else ()

    def _texts(self, name: str) -> tuple[str, ...]:
        names = self.archive.read(name)
        if names.dtype.kind not in "US" or names.ndim != 1:
            self._fail(f"{name}: expected a list of names, got {names.dtype} {list(names.shape)}")
        return tuple(str(text) for text in names.astype(np.str_).tolist())

    def _columns(self) -> dict[str, Any]:
        meta = self._meta()
        request = self._request()
        position = self._position(meta)
        if (request is None) != (position is None):
            missing = "request" if request is None else "position"
            self._fail(f"{missing}: missing, expected request and position together")
        phase = self._phase(position, meta)
        domain, domains = self._domain(meta)
        return {"request": request, "position": position, "phase": phase, "domain": domain, "domains": domains}

    def _request(self) -> NDArray[np.int32] | None:
        if self.block is None:
            return None if self.request_key is None else self._column(self.request_key, (self.tokens,))
        count, length = self.block
        if self.request_key is None:
            request = np.arange(count, dtype=np.int32)
        else:
            request = self._column(self.request_key, (count,))
        return np.repeat(request, length)

    def _position(self, meta: list[dict[str, Any]] | None) -> NDArray[np.int32] | None:
        if "position" in self.archive.members:
            return self._spread("position", self._column("position", *self._second_axis()))
        if self.block is None:
            return None
        count, length = self.block
        start = np.zeros(count, dtype=np.int32)
        if meta is not None:
            start = np.array([entry["prompt_tokens"] for entry in meta], dtype=np.int32)
        return (start[:, None] + np.arange(length, dtype=np.int32)[None, :]).reshape(-1)

    def _phase(self, position: NDArray[np.int32] | None, meta: list[dict[str, Any]] | None) -> NDArray[np.uint8] | None:
        prompt = self._prompt_tokens()
        recorded: NDArray[np.uint8] | None = None
        if "phase" in self.archive.members:
            values = self.archive.read("phase")
            shapes = self._second_axis()
            if values.shape not in shapes:
                self._fail(f"phase: expected shape {_any_of(shapes)}, got {list(values.shape)}")
            recorded = self._spread("phase", phase_codes(values, self.source))
        if prompt is not None:
            if position is None:
                self._fail("prompt_tokens: means nothing without positions")
            derived = (position >= prompt).astype(np.uint8)
            if recorded is None:
                recorded = derived
            elif not np.array_equal(recorded, derived):
                wrong = np.flatnonzero(recorded != derived)
                self._fail(
                    f"phase: {wrong.size} rows disagree with prompt_tokens (first: row {int(wrong[0])}, position "
                    f"{int(position[wrong[0]])}, phase {PHASES[int(recorded[wrong[0]])]})"
                )
        if recorded is None and meta is not None and self.options.phase is None:
            recorded = np.full(self.tokens, PHASES.index("decode"), dtype=np.uint8)
        stated = stated_phase(self.options, self.tokens, recorded is not None, self.source)
        return recorded if stated is None else stated

    def _prompt_tokens(self) -> NDArray[np.int32] | None:
        if "prompt_tokens" not in self.archive.members:
            return None
        if self.block is None:
            self._fail("prompt_tokens: expected only beside ids [request, position, layer, slot]; give phase per token")
        count, length = self.block
        values = self._column("prompt_tokens", (), (count,))
        return np.repeat(np.broadcast_to(values, (count,)), length)

    def _domain(self, meta: list[dict[str, Any]] | None) -> tuple[NDArray[np.int16] | None, tuple[str, ...]]:
        if "domain" not in self.archive.members:
            if "domains" in self.archive.members:
                self._fail("domains: there is no domain array that uses them")
            if meta is None:
                return None, ()
            names = tuple(dict.fromkeys(entry["domain"] for entry in meta))
            index = np.array([names.index(entry["domain"]) for entry in meta], dtype=np.int16)
            return np.repeat(index, self.block[1] if self.block else 1), names
        names = self._domains()
        if self.block is None:
            return self._integers("domain", np.int16, (self.tokens,)), names
        count, length = self.block
        values = self._integers("domain", np.int16, (count,), (count, length))
        return (np.repeat(values, length) if values.ndim == 1 else values.reshape(-1)), names

    def _meta(self) -> list[dict[str, Any]] | None:
        """`meta`: a JSON list with one object per request: prompt_tokens, domain; rows follow the prompt (decode)."""
        if "meta" not in self.archive.members:
            return None
        if self.block is None:
            self._fail("meta: expected only beside experts [request, position, layer, slot]")
        if "position" in self.archive.members or "prompt_tokens" in self.archive.members:
            self._fail("meta: gives prompt_tokens, so position and prompt_tokens arrays are not expected")
        try:
            entries = json.loads(self._text("meta"))
        except (ValueError, RecursionError) as error:
            self._fail(f"meta: not JSON: {error}")
        count = self.block[0]
        if not isinstance(entries, list) or len(entries) != count or not all(isinstance(e, dict) for e in entries):
            self._fail(f"meta: expected a JSON list of {count} objects, one per request")
        problems = Problems(self.source)
        for index, entry in enumerate(entries):
            tokens, domain = entry.get("prompt_tokens"), entry.get("domain")
            if type(tokens) is not int or not 0 <= tokens < _I32.max - self.block[1]:
                problems.add("meta: prompt_tokens: expected an integer >= 0", f"request {index}: {tokens!r}")
            if not isinstance(domain, str) or not domain:
                problems.add("meta: domain: expected a name", f"request {index}: {domain!r}")
        problems.raise_if_any()
        return entries

    def _second_axis(self) -> tuple[tuple[int, ...], ...]:
        return ((self.tokens,),) if self.block is None else ((self.block[1],), self.block)

    def _spread(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Values along the position axis repeated for every request; full ones flattened."""
        if self.block is not None and values.ndim == 1:
            return np.tile(values, self.block[0])
        return values.reshape(-1)

    def _column(self, name: str, *shapes: tuple[int, ...]) -> NDArray[np.int32]:
        return self._integers(name, np.int32, *shapes)

    def _integers(self, name: str, dtype: Any, *shapes: tuple[int, ...]) -> NDArray[Any]:
        member = self.archive.members[name]
        if member.dtype.kind not in "iu" or member.shape not in shapes:
            self._fail(f"{name}: expected integers of shape {_any_of(shapes)}, got {member.dtype} {list(member.shape)}")
        return self.archive.read_as(name, dtype)

    def _integer(self, name: str) -> int:
        return int(self._integers(name, np.int64, ()))

    def _text(self, name: str) -> str:
        value = self.archive.read(name)
        if value.dtype.kind != "U" or value.shape != ():
            self._fail(f"{name}: expected one text, got {value.dtype} {list(value.shape)}")
        return str(value)

    def _fail(self, text: str) -> NoReturn:
        raise TraceError(self.source, [text])


def _any_of(shapes: tuple[tuple[int, ...], ...]) -> str:
    return " or ".join(str(list(shape)) for shape in shapes)


def _read_grouped(archive: Archive, options: ReadOptions) -> RoutingTrace:
    source = str(archive.path)
    problems = Problems(source)
    if not archive.members:
        raise TraceError(source, ["an archive without arrays"])
    tails = {member.shape[1:] for member in archive.members.values()}
    for name, member in archive.members.items():
        if member.dtype.kind not in "iu" or len(member.shape) != 3 or 0 in member.shape:
            problems.add(
                f"no array {' or '.join(IDS_KEYS)}, and an array that is no [token, layer, slot] of one group",
                f"{name!r}: {member.dtype} {list(member.shape)}{did_you_mean(name, _KEYS)}",
            )
    if not problems and len(tails) > 1:
        problems.add(f"groups of different [layer, slot] sizes: {sorted(list(tail) for tail in tails)}")
    problems.raise_if_any()
    lengths = [member.shape[0] for member in archive.members.values()]
    layers, top_k = next(iter(tails))
    wide = any(m.dtype.itemsize > 2 or m.dtype == np.uint16 for m in archive.members.values())
    ids = np.empty((sum(lengths), layers, top_k), dtype=np.int32 if wide else np.int16)
    done = 0
    for name, length in zip(archive.members, lengths, strict=True):
        ids[done : done + length] = archive.read_as(name, ids.dtype)
        done += length
    ids = prepare_ids(ids, options, source)
    experts, known = settle_experts(ids, None, options, source)
    if options.phase is not None:
        raise TraceError(source, ["phase: cannot be stated, the file keeps no request boundaries"])
    return finish(
        source,
        {
            "ids": narrow_ids(ids, experts, source),
            "experts": experts,
            "experts_stated": known,
            "layer_map": np.arange(layers, dtype=np.int32),
            "domain": np.repeat(np.arange(len(lengths), dtype=np.int16), lengths),
            "domains": tuple(archive.members),
            "provenance": settle_provenance(None, options, source),
        },
    )


def save_npz(trace: RoutingTrace, path: Path) -> None:
    """Writes the project's own layout, compressed; what `read_npz` reads back is the same trace."""
    arrays: dict[str, Any] = {
        "ids": trace.ids,
        "layer_map": trace.layer_map,
        "provenance": np.array(trace.provenance),
    }
    if trace.experts_stated:
        arrays["num_experts"] = np.array(trace.experts, dtype=np.int32)
    if trace.repairs:
        arrays["repairs"] = np.array(trace.repairs, dtype=np.str_)
    for name in ("weights", "scores", "scores_token", "request", "position", "phase", "domain"):
        value = getattr(trace, name)
        if value is not None:
            arrays[name] = value
    if trace.domain is not None:
        arrays["domains"] = np.array(trace.domains, dtype=np.str_)
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)
