"""What the caller states about a file that the file itself does not say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cosim.trace.limits import ReadLimits
from cosim.trace.routing import RoutingTrace


@dataclass(frozen=True)
class ReadOptions:
    """Statements and limits given to a reader.

    Attributes:
        experts: experts per layer of the model, where the file does not say (a file that says otherwise is an error).
        phase: `prefill` or `decode` for all rows, where the file does not say.
        provenance: where the file does not say; `recorded` is assumed of other people's recordings.
        limits: what the file may ask of the reader.
    """

    experts: int | None = None
    phase: str | None = None
    provenance: str | None = None
    limits: ReadLimits = field(default_factory=ReadLimits)


class TraceAdapter(Protocol):
    """What an entry point of the group `cosim.trace_adapters` names: a reader of one outside format."""

    name: str
    """What `format=` calls it."""
    description: str
    """One line: whose format, which layout."""

    def sniff(self, path: Path, head: bytes) -> bool:
        """True if the file is surely in this format; `head` is its first 64 KiB. Never raises."""
        ...

    def read(self, path: Path, options: ReadOptions) -> RoutingTrace:
        """Reads the file.

        Raises:
            TraceError: naming file and place of everything that is wrong.
        """
        ...
