"""The arrays of a file and how it nests them, before any is read: torch, pickle, npz, npy and safetensors alike."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.archive import Archive, read_array_header
from cosim.trace.limits import ReadLimits
from cosim.trace.pickles import UnsafePickle, read_pickle
from cosim.trace.problems import TraceError
from cosim.trace.safetensors import looks_like_safetensors, read_safetensors
from cosim.trace.tensors import ArrayRef
from cosim.trace.torchfile import read_torch
from cosim.trace.zipfiles import READ_ERRORS, one_line, open_zip

_HEAD_BYTES = 65536
_NPY_MAGIC = b"\x93NUMPY"


def holds_arrays(path: Path, head: bytes) -> bool:
    """True if the file is one of the kinds `open_tree` reads, told from its first bytes."""
    return (
        head.startswith((b"PK\x03\x04", b"PK\x05\x06", _NPY_MAGIC))
        or _is_pickle(head)
        or looks_like_safetensors(head, path.stat().st_size)
    )


def open_tree(path: Path, limits: ReadLimits) -> Any:
    """What the file holds: dicts, lists and tuples as the file nests them, `ArrayRef` for every array in it.

    A pickle is read by a machine that can call nothing (`pickles`); sizes are checked before anything is unpacked.

    Raises:
        TraceError: naming what is damaged, too large or refused.
    """
    status = path.stat()
    return _open(path, limits, status.st_size, status.st_mtime_ns)


def peek_tree(path: Path, head: bytes, limits: ReadLimits | None = None) -> Any:
    """`open_tree` for a look at the kind of a file: None for what cannot be opened."""
    try:
        return open_tree(path, limits or ReadLimits()) if holds_arrays(path, head) else None
    except (TraceError, OSError):
        return None


def is_torch(path: Path) -> bool:
    """True for a zip archive with torch's pickle in it.

    Raises:
        TraceError: on a damaged archive.
    """
    with open_zip(path, ReadLimits(max_decoded_bytes=1 << 62, free_bytes=1 << 62), max_members=1_000_000) as archive:
        return any(name.endswith("data.pkl") for name in archive.namelist())


@lru_cache(maxsize=1)  # readers look at one file several times while its format is told
def _open(path: Path, limits: ReadLimits, size: int, _changed: int) -> Any:
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return read_torch(path, limits) if is_torch(path) else _npz(path, limits)
    if head.startswith(_NPY_MAGIC):
        return _npy(path, limits)
    if _is_pickle(head):
        return _pickle(path, limits)
    if looks_like_safetensors(head, size):
        return read_safetensors(path, limits)
    raise TraceError(str(path), ["no torch, pickle, npz, npy or safetensors file"])


def describe(tree: Any, depth: int = 2) -> str:
    """A tree in a few words, for a message: `{"records": [12 x {…}], "map": int64[58, 288]}`."""
    if isinstance(tree, dict):
        if depth == 0:
            return "{…}" if tree else "{}"
        shown = [f'"{str(key)[:40]}": {describe(value, depth - 1)}' for key, value in list(tree.items())[:6]]
        return "{" + ", ".join(shown) + (", …" if len(tree) > 6 else "") + "}"
    if isinstance(tree, (list, tuple)):
        first = describe(tree[0], depth - 1) if tree and depth else "…"
        return f"{type(tree).__name__} of {len(tree)}" + (f" x {first}" if tree else "")
    if isinstance(tree, ArrayRef):
        return repr(tree)
    return type(tree).__name__


def _is_pickle(head: bytes) -> bool:
    """Protocol 2 on begins with its number; the older ones with the opening of a container."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def _pickle(path: Path, limits: ReadLimits) -> Any:
    size = path.stat().st_size
    if size > limits.max_pickle_bytes:
        raise TraceError(str(path), [f"a pickle longer than {limits.max_pickle_bytes} bytes"])
    try:
        return read_pickle(memoryview(path.read_bytes()), limits, limits.decoded_budget(size))
    except UnsafePickle as error:
        raise TraceError(str(path), [f"pickle: {error}"]) from error


def _npz(path: Path, limits: ReadLimits) -> dict[str, ArrayRef]:
    with Archive(path, limits) as archive:
        members = {name: (member.shape, member.dtype.newbyteorder("=")) for name, member in archive.members.items()}

    def reader(name: str) -> ArrayRef:
        def read() -> NDArray[Any]:
            with Archive(path, limits) as archive:
                return archive.read(name)

        return ArrayRef(*members[name], read)

    return {name: reader(name) for name in members}


def _npy(path: Path, limits: ReadLimits) -> ArrayRef:
    source = str(path)
    try:
        with path.open("rb") as stream:
            shape, fortran, dtype = read_array_header(stream)
            start = stream.tell()
    except READ_ERRORS as error:
        raise TraceError(source, [f"truncated or damaged array: {one_line(error)}"]) from error
    if dtype.hasobject or dtype.kind not in "biufSU" or dtype.itemsize == 0:
        raise TraceError(source, [f"an array of {dtype}: only numbers and text are read, pickled objects never"])
    expected, there = math.prod(shape) * dtype.itemsize, path.stat().st_size - start
    if expected != there:
        raise TraceError(source, [f"{dtype} {list(shape)} needs {expected} bytes, {there} are there"])
    if expected > limits.max_decoded_bytes:
        raise TraceError(source, [f"larger than {limits.max_decoded_bytes} bytes"])

    def read() -> NDArray[Any]:
        with path.open("rb") as stream:
            stream.seek(start)
            values = np.fromfile(stream, dtype=dtype, count=math.prod(shape))
        if values.size != math.prod(shape):
            raise TraceError(source, ["truncated while it was read"])
        return values.reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="), copy=False)

    return ArrayRef(shape, dtype.newbyteorder("="), read)
