"""Torch files (`torch.save`) without torch: the zip layout, its pickle read by `pickles`, its storages as arrays.

Layout: an uncompressed zip with one folder: `data.pkl`, `byteorder`, `version`, and `data/<key>` with the bytes of each
storage (`torch/serialization.py` of torch 2). The older layouts (before torch 1.6) are refused.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.limits import ReadLimits
from cosim.trace.pickles import StorageRef, UnsafePickle, read_pickle
from cosim.trace.problems import TraceError
from cosim.trace.zipfiles import READ_ERRORS, one_line, open_zip

_PICKLE = "data.pkl"
_MAX_MEMBERS = 1_000_000


def read_torch(path: Path, limits: ReadLimits) -> Any:
    """What a torch file holds, tensors as `ArrayRef`.

    Raises:
        TraceError: on a file that is damaged, compressed, too large, or holds more than data.
    """
    source = str(path)
    with open_zip(path, limits, max_members=_MAX_MEMBERS) as archive:
        members = {info.filename: info for info in archive.infolist()}
        found = [name for name in members if name == _PICKLE or name.endswith("/" + _PICKLE)]
        if len(found) != 1:
            raise TraceError(source, [f"{len(found)} members {_PICKLE}, expected one: not a torch file"])
        if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1 for info in members.values()):
            raise TraceError(source, ["a torch file with compressed or encrypted members: torch writes none"])
        folder = found[0].removesuffix(_PICKLE)
        try:
            order = archive.read(members[folder + "byteorder"]) if folder + "byteorder" in members else b"little"
            if members[found[0]].file_size > limits.max_pickle_bytes:
                raise UnsafePickle(f"longer than {limits.max_pickle_bytes} bytes")
            data = archive.read(members[found[0]])
        except UnsafePickle as error:
            raise TraceError(source, [f"{_PICKLE}: {error}"]) from error
        except READ_ERRORS as error:
            raise TraceError(source, [f"truncated or damaged archive: {one_line(error)}"]) from error
    if order.strip() != b"little":
        raise TraceError(source, [f"byte order {order[:20]!r}, expected little"])

    def open_storage(key: str, kind: str, count: int) -> StorageRef:
        info = members.get(f"{folder}data/{key}")
        if info is None:
            raise UnsafePickle(f"storage {key[:40]!r} is not in the file")
        width = 1 if not kind else 2 if kind == "bfloat16" else np.dtype(kind).itemsize
        if info.file_size != count * width:
            raise UnsafePickle(f"storage {key[:40]!r} has {info.file_size} bytes, expected {count} x {width}")
        return StorageRef(kind, count, lambda: _storage(path, info.filename, limits))

    try:
        return read_pickle(memoryview(data), limits, limits.decoded_budget(path.stat().st_size), open_storage)
    except UnsafePickle as error:
        raise TraceError(source, [f"{_PICKLE}: {error}"]) from error


def _storage(path: Path, name: str, limits: ReadLimits) -> NDArray[np.uint8]:
    with open_zip(path, limits, max_members=_MAX_MEMBERS) as archive:
        try:
            return np.frombuffer(archive.read(name), dtype=np.uint8)
        except READ_ERRORS as error:
            raise TraceError(str(path), [f"truncated or damaged member {name!r}: {one_line(error)}"]) from error
