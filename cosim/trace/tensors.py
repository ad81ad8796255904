"""An array that is described but not yet read, whatever file holds it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ArrayRef:
    """Shape and dtype of an array in a file; `read()` fetches it.

    Attributes:
        shape: its shape.
        dtype: its dtype when read, native byte order (bfloat16 is read as float32).
    """

    __slots__ = ("_read", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], read: Callable[[], NDArray[Any]]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._read = read

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def integers(self) -> bool:
        """True for integers, bool aside."""
        return self.dtype.kind in "iu"

    def read(self) -> NDArray[Any]:
        """The array, a copy of its own.

        Raises:
            TraceError: when the file is damaged there.
        """
        return self._read()

    def replace_by(self, other: ArrayRef) -> None:
        """Becomes `other`: a reader that sees an array before its content fills it in later."""
        self.shape, self.dtype, self._read = other.shape, other.dtype, other._read


def checked_view(
    raw: NDArray[np.uint8], kind: str, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]
) -> NDArray[Any]:
    """A contiguous copy of a strided part of a storage.

    Args:
        raw: bytes of the storage.
        kind: numpy dtype text, or `bfloat16`.
        offset, shape, stride: in elements; the caller has checked that they stay inside.
    """
    stored = np.dtype("<u2") if kind == "bfloat16" else np.dtype(kind)
    if 0 in shape:
        return np.empty(shape, dtype=np.float32 if kind == "bfloat16" else stored.newbyteorder("="))
    flat = raw[: raw.size // stored.itemsize * stored.itemsize].view(stored)
    view = np.lib.stride_tricks.as_strided(
        flat[offset:], shape=shape, strides=tuple(step * stored.itemsize for step in stride), writeable=False
    )
    if kind == "bfloat16":
        return np.ascontiguousarray((view.astype(np.uint32) << np.uint32(16)).view(np.float32))
    return view.astype(stored.newbyteorder("="), order="C", copy=True)
