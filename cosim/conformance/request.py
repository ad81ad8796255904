"""What is to be checked, as it goes to the process that checks it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["CheckFailed", "CheckRequest", "NotApplicable"]


@dataclass(frozen=True)
class CheckRequest:
    """A plug-in and what it is checked on.

    Attributes:
        kind: ``routing``, ``arbiters``, ``routers`` or ``memory``.
        reference: a path or the name of an entry point.
        params: what it gets.
        packets: packets (bursts of a memory) of the soak.
        base: the network, or the memory, without the plug-in.
        only: names of the checks to run; empty for all. The loading is always checked.
    """

    kind: str
    reference: str
    params: Mapping[str, Any] = field(default_factory=dict)
    packets: int = 1_000_000
    base: Mapping[str, Any] = field(default_factory=dict)
    only: Sequence[str] = ()

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> CheckRequest:
        """Back from text."""
        return CheckRequest(**json.loads(text))


class CheckFailed(Exception):
    """The plug-in does not keep its contract: why."""


class NotApplicable(Exception):
    """There is nothing to check: why."""
