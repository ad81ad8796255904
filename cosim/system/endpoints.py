"""An endpoint of a built system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cosim.config.schema_hardware import EndpointSpec
from cosim.system.memory import MemoryFigures

__all__ = ["Endpoint"]


@dataclass(frozen=True)
class Endpoint:
    """One endpoint.

    Attributes:
        index: position in ``System.endpoints``.
        name: its key in the hardware file; endpoints of one key differ by router.
        kind: compute, memory or control.
        network: its position in ``System.networks``.
        router: the router of the system it is attached to.
        place: its node in words, the number in the level (a mesh has one at every router); in a system of several
            networks behind their label.
        terminals: its ports' positions in ``System.terminals``.
        spec: its keys.
        memory: peak bandwidth and capacity, for kind memory.
    """

    index: int
    name: str
    kind: Literal["compute", "memory", "control"]
    network: int
    router: int
    place: str
    terminals: tuple[int, ...]
    spec: EndpointSpec
    memory: MemoryFigures | None

    @property
    def label(self) -> str:
        """``name@place``: what tables and errors call it."""
        return f"{self.name}@{self.place}"
