"""How much a trace file may ask of the reader before it is refused."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class ReadLimits:
    """Bounds on what is read; every one can be raised by the caller.

    Attributes:
        max_decoded_bytes: bytes of all arrays after decompression.
        max_expansion: decoded bytes per byte of file above `free_bytes` (a zip bomb expands a thousandfold, routing ids
            about tenfold).
        free_bytes: decoded bytes that are always allowed.
        max_line_bytes: length of one line of a text file.
        max_experts: experts per layer.
    """

    max_decoded_bytes: int = 16 << 30
    max_expansion: int = 100
    free_bytes: int = 64 * MIB
    max_line_bytes: int = 4 * MIB
    max_experts: int = 65536

    def decoded_budget(self, file_bytes: int) -> int:
        """Bytes a file of `file_bytes` may expand to."""
        return min(self.max_decoded_bytes, max(self.free_bytes, self.max_expansion * file_bytes))
