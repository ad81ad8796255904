"""What a memory node offers: peak bandwidth and capacity, from its standard."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cosim.config.schema_hardware import MemorySpec

__all__ = ["MemoryFigures", "memory_figures"]


@dataclass(frozen=True)
class MemoryFigures:
    """Of one memory node, all its channels together.

    Attributes:
        peak_Bps: data-bus rate, bytes per second.
        capacity_bytes: bytes of all banks.
        access_bytes: bytes of one burst.
        banks: what serves side by side: pseudo-channels, of SRAM banks.
        bank_fields: fields of an address that say which of them.
    """

    peak_Bps: Fraction
    capacity_bytes: int
    access_bytes: int
    banks: int = 1
    bank_fields: tuple[str, ...] = ("channel", "pseudo_channel")


def memory_figures(spec: MemorySpec) -> MemoryFigures:
    """The figures of a node with ``spec``'s preset and number of channels.

    Peak is rate × data-bus width × pseudo-channels × channels (SRAM: clock × port width × ports × banks × channels),
    capacity the product of the levels of the organisation.

    Raises:
        ValueError: what the room of memory refuses, a finding a line: an unknown preset or timing, keys that do not
            go together.
    """
    # The room of memory stays unloaded until a system with memory is built.
    from cosim.mem.options import read_options

    standard = read_options(spec.options()).standard
    organisation = standard.organisation
    sram = standard.kind == "sram"
    sides = organisation.banks if sram else organisation.pseudo_channels
    return MemoryFigures(
        peak_Bps=standard.channel_Bps * spec.channels,
        capacity_bytes=organisation.channel_bytes * spec.channels,
        access_bytes=organisation.access_bytes,
        banks=sides * spec.channels,
        bank_fields=("channel", "bank_group", "bank") if sram else ("channel", "pseudo_channel"),
    )
