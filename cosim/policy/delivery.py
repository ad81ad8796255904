"""How the weights of a replica reach the cores that help with it, and what that costs beyond the bytes.

``unicast``: every helper reads them for itself. The others read a tile once for the replica's core and all helpers:
``forward`` sends it to each, ``multicast`` as packets that fork in routers, ``cmn`` over a session of links (the
collaborative memory network of 3D-MoE, seed 001).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from cosim.config.errors import ConfigErrors, one_of

if TYPE_CHECKING:
    from cosim.system import System

__all__ = ["DELIVERIES", "Delivery", "DeliveryName"]

DeliveryName = Literal["unicast", "forward", "multicast", "cmn"]
DELIVERIES: tuple[DeliveryName, ...] = get_args(DeliveryName)

_CLASSES = {"forward": "weight", "multicast": "multicast", "cmn": "session"}


@dataclass(frozen=True)
class Delivery:
    """One way, on one system.

    setup_s: before a helper's first byte, the links being empty. held_s: for which links are withheld from packets
    beyond the transfer, ``setup_s`` not counted.
    """

    name: DeliveryName
    setup_s: float = 0.0
    held_s: float = 0.0

    @classmethod
    def on(cls, system: System, name: DeliveryName, path: str = "delivery") -> Delivery:
        """The way on a system; sessions cost what the slowest network of compute endpoints says.

        Raises:
            ConfigErrors: a network of compute endpoints whose level does not broadcast in this way.
        """
        if name in ("unicast", "forward"):
            return cls(name)
        setup = held = 0.0
        for level, clock, ways, session in _levels(system):
            if _CLASSES[name] not in ways:
                has = one_of([key for key, way in _CLASSES.items() if way in ("weight", *ways)])
                key = "vcs" if name == "multicast" else "session"
                raise ConfigErrors.single(
                    f"a system whose level {level!r} has message_classes.broadcast.{key}, or another delivery",
                    repr(name),
                    path=path,
                    suggestion=f"use unicast, {has}",
                )
            if name == "cmn":
                setup = max(setup, session[0] / clock)
                held = max(held, session[1] / clock)
        return cls(name, setup, held)

    @property
    def reads_once(self) -> bool:
        """Whether memory is read once for all, however many helpers there are."""
        return self.name != "unicast"

    @property
    def sends_once(self) -> bool:
        """Whether the memory's port carries a tile once for all helpers."""
        return self.name in ("multicast", "cmn")

    @property
    def message_class(self) -> str:
        """Of the stream that brings the weights; of a fetch where each reads for itself."""
        return _CLASSES.get(self.name, "weight")


def _levels(system: System) -> Iterator[tuple[str, float, tuple[str, ...], tuple[int, int]]]:
    """Name, clock, ways of broadcasting, and cycles of sessions (set-up; idle and tear-down) of compute networks."""
    for number in sorted({place.network for place in system.compute_endpoints}):
        network = system.networks[number]
        broadcast = network.level.message_classes.broadcast
        session = None if broadcast is None else broadcast.session
        cycles = (0, 0) if session is None else (session.setup_cycles, session.idle_cycles + session.teardown_cycles)
        yield network.level_name, float(network.level.clock), () if broadcast is None else broadcast.ways, cycles
