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
        max_pickle_bytes: length of a pickle, arrays of a torch file not counted.
        max_pickle_operations: operations of a pickle; one makes at most one object.
        max_header_bytes: length of a safetensors header.
        max_json_bytes: length of a JSON document that must be read whole.
    """

    max_decoded_bytes: int = 16 << 30
    max_expansion: int = 100
    free_bytes: int = 64 * MIB
    max_line_bytes: int = 4 * MIB
    max_experts: int = 65536
    max_pickle_bytes: int = 256 * MIB
    max_pickle_operations: int = 20_000_000
    max_header_bytes: int = 24 * MIB
    max_json_bytes: int = 1 << 30

    def decoded_budget(self, file_bytes: int) -> int:
        """Bytes a file of `file_bytes` may expand to."""
        return min(self.max_decoded_bytes, max(self.free_bytes, self.max_expansion * file_bytes))
