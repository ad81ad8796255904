"""Reads npz archives without trusting them: no pickle, sizes checked before a byte is unpacked, bounded memory."""

from __future__ import annotations

import math
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from cosim.trace.limits import ReadLimits
from cosim.trace.problems import Problems, TraceError
from cosim.trace.zipfiles import READ_ERRORS, one_line, open_zip

_CHUNK_BYTES = 4 << 20
_MAX_HEADER_BYTES = 10_000
_MAX_MEMBERS = 4096


@dataclass(frozen=True)
class Member:
    """One array of the archive as its header declares it.

    Attributes:
        name: key of the array.
        shape: its shape.
        dtype: its dtype, never one that holds Python objects.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    _fortran: bool
    _info: zipfile.ZipInfo

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class Archive:
    """An npz file whose members have been checked; arrays are unpacked one at a time, when asked for.

    Raises:
        TraceError: on anything that is not a whole, plain npz within the limits.
    """

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self.path = path
        problems = Problems(str(path))
        self.members: dict[str, Member] = {}
        self._stack = ExitStack()
        self._zip = self._stack.enter_context(open_zip(path, limits, max_members=_MAX_MEMBERS))
        try:
            infos = self._zip.infolist()
            if any(info.filename.endswith("data.pkl") for info in infos):
                problems.add("a torch file (torch.save), no npz")
            problems.raise_if_any()
            for info in infos:
                self._add(info, problems)
            problems.raise_if_any()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _add(self, info: zipfile.ZipInfo, problems: Problems) -> None:
        name = info.filename.removesuffix(".npy")
        if not info.filename.endswith(".npy"):
            problems.add("a member that is not an array (.npy)", repr(info.filename))
            return
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 0x1:
            problems.add("a member that is encrypted or not stored/deflated", repr(name))
            return
        if name in self.members:
            problems.add("a member that occurs twice", repr(name))
            return
        try:
            with self._zip.open(info) as stream:
                shape, fortran, dtype = read_array_header(stream)
                header_bytes = stream.tell()
        except READ_ERRORS as error:
            problems.add("truncated or damaged member", f"{name!r}: {one_line(error)}")
            return
        if dtype.hasobject:
            problems.add("a member that holds pickled objects (never opened)", repr(name))
            return
        if dtype.kind not in "biufSU" or dtype.itemsize == 0:
            problems.add("a member that is neither numbers nor text", f"{name!r} is {dtype}")
            return
        expected = math.prod(shape) * dtype.itemsize
        if expected != info.file_size - header_bytes:
            problems.add(
                "a member whose header and size disagree",
                f"{name!r}: {dtype} {list(shape)} needs {expected} bytes, {info.file_size - header_bytes} are there",
            )
            return
        self.members[name] = Member(name, shape, dtype, fortran, info)

    def read(self, name: str) -> NDArray[Any]:
        """The whole array, in its own dtype and native byte order."""
        member = self.members[name]
        return self.read_as(name, member.dtype.newbyteorder("="))

    def read_as(self, name: str, dtype: Any) -> NDArray[Any]:
        """The array converted to `dtype` chunk by chunk, so that only the result is ever held whole.

        Raises:
            TraceError: when the member is damaged or a value does not fit an integer `dtype`.
        """
        member = self.members[name]
        out = np.empty(member.size, dtype=dtype)
        narrow = out.dtype.kind in "iu" and not np.can_cast(member.dtype, out.dtype)
        bounds = np.iinfo(out.dtype) if narrow else None
        per_chunk = max(1, _CHUNK_BYTES // max(1, member.dtype.itemsize))
        done = 0
        try:
            with self._zip.open(member._info) as stream:
                read_array_header(stream)
                while done < member.size:
                    count = min(per_chunk, member.size - done)
                    raw = _read_exactly(stream, count * member.dtype.itemsize)
                    values = np.frombuffer(raw, dtype=member.dtype)
                    if bounds is not None and (int(values.min()) < bounds.min or int(values.max()) > bounds.max):
                        at = int(np.flatnonzero((values < bounds.min) | (values > bounds.max))[0])
                        raise TraceError(
                            str(self.path),
                            [
                                f"{name}: a value outside {out.dtype}: element "
                                f"{[int(v) for v in np.unravel_index(done + at, member.shape)]} is {values[at]}"
                            ],
                        )
                    out[done : done + count] = values
                    done += count
                if stream.read(1):  # reading to the end also checks the CRC
                    raise EOFError("bytes after the array")
        except TraceError:
            raise
        except READ_ERRORS as error:
            raise TraceError(str(self.path), [f"truncated or damaged member {name!r}: {one_line(error)}"]) from error
        return out.reshape(member.shape, order="F" if member._fortran else "C")


def read_array_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype of an .npy stream; the stream stands at the first value afterwards.

    Raises:
        EOFError: on anything that is no whole header of version 1 or 2.
    """
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream, max_header_size=_MAX_HEADER_BYTES)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(stream, max_header_size=_MAX_HEADER_BYTES)
        else:
            raise EOFError(f"array format version {version} (1.0 and 2.0 are read)")
    except EOFError:
        raise
    except Exception as error:  # numpy hands the text to Python's parsers, which raise many kinds
        raise EOFError(f"not an array header: {one_line(error)}") from error
    if any(size < 0 for size in shape):
        raise EOFError(f"a negative size in shape {list(shape)}")
    return shape, fortran, dtype


def _read_exactly(stream: IO[bytes], count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError("the data end early")
        parts.append(part)
        count -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
