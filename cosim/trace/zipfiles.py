"""Opening zip archives that nobody vouches for."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cosim.trace.limits import ReadLimits
from cosim.trace.problems import TraceError

READ_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    ValueError,
    OverflowError,
    SyntaxError,
    TypeError,
    KeyError,
    IndexError,
    struct.error,
)
"""What the standard library raises on damaged archives and headers."""

_END = b"PK\x05\x06"
_MAX_DIRECTORY_BYTES = 128 << 20
_MIN_ENTRY_BYTES = 46


@contextmanager
def open_zip(path: Path, limits: ReadLimits, *, max_members: int) -> Iterator[zipfile.ZipFile]:
    """The archive, after its directory and the sizes it promises were held against the limits.

    Raises:
        TraceError: not a whole zip archive, too many members, or more bytes than a file of its size may expand to.
    """
    source = str(path)
    try:
        _check_directory(path, max_members)
        archive = zipfile.ZipFile(path)
    except READ_ERRORS as error:
        raise TraceError(source, [f"truncated or damaged archive: {one_line(error)}"]) from error
    with archive:
        infos = archive.infolist()
        if len(infos) > max_members:
            raise TraceError(source, [f"{len(infos)} members, at most {max_members} are read"])
        asked, budget = sum(info.file_size for info in infos), limits.decoded_budget(path.stat().st_size)
        if asked > budget:
            raise TraceError(
                source, [f"the archive asks for {asked} bytes unpacked, the limit for a file of this size is {budget}"]
            )
        yield archive


def one_line(error: BaseException) -> str:
    """The error's text on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _check_directory(path: Path, max_members: int) -> None:
    """Refuses a directory that would fill the memory before one of its entries is looked at."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - 65557))
        tail = stream.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < 22:
        raise zipfile.BadZipFile("it has no directory")
    entries, length = struct.unpack_from("<HI", tail, at + 10)
    if entries == 0xFFFF or length == 0xFFFFFFFF:
        with path.open("rb") as stream:
            entries, length = _zip64(stream, tail, at)
    if length > min(_MAX_DIRECTORY_BYTES, size):
        raise zipfile.BadZipFile(f"a directory of {length} bytes")
    if entries * _MIN_ENTRY_BYTES > length:
        raise zipfile.BadZipFile(f"a directory of {length} bytes for {entries} members")
    if entries > max_members:
        raise zipfile.BadZipFile(f"{entries} members, at most {max_members} are read")


def _zip64(stream: IO[bytes], tail: bytes, at: int) -> tuple[int, int]:
    """Members and bytes of the directory as the zip64 record before the end record tells them."""
    locator = tail[at - 20 : at]
    if len(locator) != 20 or not locator.startswith(b"PK\x06\x07"):
        raise zipfile.BadZipFile("a zip64 directory without its locator")
    stream.seek(struct.unpack_from("<Q", locator, 8)[0])
    record = stream.read(56)
    if len(record) != 56 or not record.startswith(b"PK\x06\x06"):
        raise zipfile.BadZipFile("a zip64 directory without its record")
    entries, length = struct.unpack_from("<QQ", record, 32)
    return int(entries), int(length)
