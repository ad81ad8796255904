"""
C++ core of cosim: network, memory and engine; used through the Python package.
"""

from __future__ import annotations

import typing

__all__: list[str] = ["Clock", "faults_compiled"]

class Clock:
    """
    A clock of rational frequency; edge n is at floor(n / frequency) femtoseconds.
    """
    def __init__(
        self,
        hz_numerator: typing.SupportsInt | typing.SupportsIndex,
        hz_denominator: typing.SupportsInt | typing.SupportsIndex = 1,
    ) -> None: ...
    def edge_after(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_at_or_after(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_at_or_before(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_fs(self, edge: typing.SupportsInt | typing.SupportsIndex) -> int: ...

__version__: str = "0.1.0"
faults_compiled: bool = False
