"""`load`: a recording by path or shipped name, its format told from its content."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cosim.trace import adapters, shipped
from cosim.trace.arraytree import describe, holds_arrays, is_torch, open_tree
from cosim.trace.csvfile import read_csv, save_csv
from cosim.trace.jsonl import read_jsonl, save_jsonl
from cosim.trace.limits import ReadLimits
from cosim.trace.npz import read_npz, save_npz
from cosim.trace.options import ReadOptions
from cosim.trace.parquet import read_parquet, save_parquet
from cosim.trace.problems import Problems, TraceError, did_you_mean
from cosim.trace.repair import Repairs, repaired
from cosim.trace.routing import PHASES, RoutingTrace
from cosim.trace.scores import attach_scores

_HEAD_BYTES = 65536
_READERS: Mapping[str, Callable[[Path, ReadOptions], RoutingTrace]] = {
    "npz": read_npz,
    "parquet": read_parquet,
    "csv": read_csv,
    "jsonl": read_jsonl,
}
_WRITERS: Mapping[str, Callable[[RoutingTrace, Path], None]] = {
    "npz": save_npz,
    "parquet": save_parquet,
    "csv": save_csv,
    "jsonl": save_jsonl,
}
_REFUSED = (
    (b"\x1f\x8b", "gzip data: unpack the file first"),
    (b"BZh", "bzip2 data: unpack the file first"),
    (b"\x28\xb5\x2f\xfd", "zstd data: unpack the file first"),
    (b"\x89HDF", "HDF5 is not read"),
)


def formats() -> list[str]:
    """Names `load(format=…)` knows: built-in ones, then adapters."""
    return [*_READERS, *(name for name in adapters.names() if name not in _READERS)]


def load(
    path_or_name: str | os.PathLike[str],
    format: str | None = None,
    *,
    experts: int | None = None,
    phase: str | None = None,
    provenance: str | None = None,
    scores: str | os.PathLike[str] | None = None,
    limits: ReadLimits | None = None,
    repairs: Repairs | None = None,
    padding: int | None = None,
    physical_map: str | os.PathLike[str] | None = None,
    top_k: int | None = None,
    router: str | None = None,
    bias: str | os.PathLike[str] | None = None,
    groups: tuple[int, int] | None = None,
    routed_scaling: float | None = None,
    sequences: int | None = None,
    select: str | None = None,
    fit_requests: int | None = None,
    fit_positions: int | None = None,
    fit_seed: int | None = None,
) -> RoutingTrace:
    """Loads a routing trace.

    Args:
        path_or_name: a file, a folder in a format that is one, or the name of a shipped trace (`sample`).
        format: one of `formats()`; told from the content when None.
        experts: experts per layer of the model, where the file does not say.
        phase: `prefill` or `decode` for all rows, where the file records requests but no phase.
        provenance: `recorded`, `synthetic` or `fitted(<source>)`, where the file does not say; a file that says nothing
            counts as recorded.
        scores: npz with router scores of some requests (see `attach_scores`).
        limits: how much the file may ask of the reader.
        repairs: which traps to repair; none by itself.
        padding, physical_map, top_k, router, bias, groups, routed_scaling, sequences, select, fit_requests,
            fit_positions, fit_seed: see `ReadOptions`; one that the format's reader does not read is an error.

    Returns:
        The validated trace. Nothing in it was repaired unless `repairs`, `padding` or `physical_map` asked for it; the
        traps that are left (padding, warm-up rows, …) are for `traps.find` to name.

    Raises:
        TraceError: naming file, place and every problem. A file is never executed: pickles are read by a machine that
            can call nothing.
    """
    path, name = _resolve(path_or_name)
    options = ReadOptions(
        experts=experts,
        phase=phase,
        provenance=provenance,
        limits=limits or ReadLimits(),
        padding=padding,
        physical_map=None if physical_map is None else Path(physical_map),
        top_k=top_k,
        router=router,
        bias=None if bias is None else Path(bias),
        groups=groups,
        routed_scaling=routed_scaling,
        sequences=sequences,
        select=select,
        fit_requests=fit_requests,
        fit_positions=fit_positions,
        fit_seed=fit_seed,
    )
    repairs = repairs or Repairs()
    if repairs.sequence_first is not None:  # the phase is stated once there are requests
        if phase is not None and phase not in PHASES:
            raise TraceError(str(path), [f"phase: expected prefill or decode, got {phase!r}"])
        options = replace(options, phase=None)
    try:
        chosen = _sniff(path, options.limits) if format is None else format
        if chosen not in formats():
            raise TraceError(
                str(path),
                [f"format: expected one of {', '.join(formats())}, got {chosen!r}{did_you_mean(chosen, formats())}"],
            )
        trace = _reader(chosen, path, options)(path, options)
        scores_path = Path(scores) if scores is not None else (shipped.scores_file(name) if name else None)
        trace = trace if scores_path is None else attach_scores(trace, scores_path, options)
        done = [f"padding: {padding} made empty"] * (padding is not None)
        done += ["physical_map: physical ids made logical"] * (physical_map is not None)
        if done:
            trace = replace(trace, repairs=(*trace.repairs, *done))
        return repaired(trace, repairs, phase=phase)
    except OSError as error:
        raise TraceError(str(error.filename or path), [f"cannot be read: {error.strerror or error}"]) from error


def _reader(format: str, path: Path, options: ReadOptions) -> Callable[[Path, ReadOptions], RoutingTrace]:
    """The reader of a format, once it is known to read what was stated and to take a folder if it is one."""
    own = _READERS.get(format)
    adapter = None if own is not None else adapters.adapter(format)
    reads: frozenset[str] = getattr(adapter, "reads", frozenset())
    problems = Problems(str(path))
    for name in options.given():
        if name not in reads:
            known = f"it reads {', '.join(sorted(reads))}" if reads else "it reads no such statement"
            problems.add(f"{name}: the format {format} does not read it; {known}")
    if path.is_dir() and not hasattr(adapter, "sniff_folder"):
        problems.add(f"a folder, the format {format} is a file")
    problems.raise_if_any()
    if own is not None:
        return own
    assert adapter is not None
    return adapter.read


def save(trace: RoutingTrace, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Writes a trace as npz, Parquet, CSV or JSONL; `load` reads back the same values.

    Text forms keep values, not widths: a float16 weight comes back as the same number in float32.

    Args:
        trace: what to write.
        path: the file; an existing one is replaced only when the new one is whole.
        format: one of npz, parquet, csv, jsonl; told from the suffix when None.

    Raises:
        TraceError: on an unknown format or a trace the format cannot hold.
    """
    target = Path(path)
    chosen = target.suffix.lstrip(".").lower() if format is None else format
    if chosen not in _WRITERS:
        raise TraceError(
            str(target),
            [f"format: expected one of {', '.join(_WRITERS)}, got {chosen!r}{did_you_mean(chosen, _WRITERS)}"],
        )
    if not target.parent.is_dir():
        raise TraceError(str(target), [f"expected a file in a folder that is there, got none called {target.parent}"])
    partial = target.with_name(target.name + ".partial")
    try:
        _WRITERS[chosen](trace, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _resolve(path_or_name: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """The file, and the name of the shipped trace if it is one. A bare word is a shipped name before it is a file."""
    text = os.fspath(path_or_name)
    bare = isinstance(path_or_name, str) and Path(text).name == text and not Path(text).suffix
    if bare and text in shipped.names():
        return shipped.folder() / f"{text}.npz", text
    path = Path(text)
    if path.is_file():
        return path, None
    if path.is_dir():
        return path, None
    known = shipped.names()
    hint = f"; shipped traces: {', '.join(known)}{did_you_mean(text, known)}" if bare else ""
    raise TraceError(text, [f"no such file{hint}"])


def _sniff(path: Path, limits: ReadLimits) -> str:
    source = str(path)
    if path.is_dir():
        for name in adapters.names():
            sniff_folder = getattr(adapters.adapter(name), "sniff_folder", None)
            if sniff_folder is not None and sniff_folder(path):
                return name
        raise TraceError(source, ["a folder that is no recording in a format known here; expected a file"])
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if not head:
        raise TraceError(source, ["an empty file"])
    for name in adapters.names():
        if adapters.adapter(name).sniff(path, head):
            return name
    if head.startswith(b"PAR1"):
        return "parquet"
    for magic, text in _REFUSED:
        if head.startswith(magic):
            raise TraceError(source, [text])
    if holds_arrays(path, head):
        tree = open_tree(path, limits)  # a damaged or refused file says here what is wrong with it
        if head.startswith(b"PK") and not is_torch(path):
            return "npz"
        raise TraceError(source, [f"it holds {describe(tree)}, which no reader here knows; --format forces one"])
    if b"\x00" in head:
        raise TraceError(source, ["binary data in no format known here; --format forces one"])
    body = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if body.startswith(b"{"):
        return "jsonl"
    if body.startswith(b"["):
        raise TraceError(source, ["a JSON list: expected JSON lines (one object per line), or force a format"])
    if b"," in body:
        return "csv"
    raise TraceError(source, [f"in no format known here ({', '.join(formats())})"])
