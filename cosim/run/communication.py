"""Communication of a layer on its own: sets of messages and ring all-reduces over the links or the flits of a system.

No memory, no compute and no policy in between: what HDA-MoE's link-level simulator prices, and the same messages as
packets of flits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim._core import TaskKind
from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.run.machine import Machine, build_machine
from cosim.workload.collectives import ring_steps

if TYPE_CHECKING:
    from cosim.system import System

__all__ = ["NETWORKS", "messages_fs", "ring_all_reduce_fs"]

IntArray = npt.NDArray[np.int64]

NETWORKS = {"link": "link", "flit": "flit+rate"}
"""Network of a rung → the rung that has it and the cheapest memory, which plays no part here."""


def _machine(system: System, network: str) -> Machine:
    if network not in NETWORKS:
        raise ConfigErrors.single(
            one_of(list(NETWORKS)), repr(network), path="network", suggestion=did_you_mean(network, NETWORKS)
        )
    return build_machine(system, NETWORKS[network])


def _run(machine: Machine, columns: dict[str, npt.NDArray[np.generic]], before: IntArray, after: IntArray) -> int:
    """Runs transfers from an empty network; returns the end of the last."""
    machine.engine.submit(columns, before, after, 0)
    machine.engine.run(drain=True)
    records = machine.engine.take_records()
    machine.check_conservation()
    return int(records["end_fs"].max(initial=0))


def _transfers(machine: Machine, source: IntArray, destination: IntArray, sizes: IntArray) -> dict[str, npt.NDArray]:  # type: ignore[type-arg]
    endpoints = machine.compute_endpoints
    return {
        "kind": np.full(len(source), int(TaskKind.transfer), dtype=np.uint8),
        "message_class": np.full(len(source), machine.classes["token"], dtype=np.uint8),
        "source": machine.nodes[endpoints[source]],
        "destination": machine.nodes[endpoints[destination]],
        "bytes": sizes,
    }


def messages_fs(system: System, network: str, source: IntArray, destination: IntArray, sizes_bytes: IntArray) -> int:
    """Sends every message at time zero; returns when the last has arrived, in femtoseconds, 0 without messages.

    Args:
        network: ``link`` or ``flit``.
        source, destination: compute endpoints by their order in ``system.compute_endpoints``, int64, shape (messages,).
        sizes_bytes: at least 1 each.
    """
    if not len(source):
        return 0
    machine = _machine(system, network)
    none = np.zeros(0, dtype=np.int64)
    return _run(machine, _transfers(machine, source, destination, sizes_bytes), none, none)


def ring_all_reduce_fs(system: System, network: str, size_bytes: int, order: IntArray) -> int:
    """A ring all-reduce of ``size_bytes`` on every compute endpoint of ``order``: reduce-scatter, then all-gather.

    In each of the 2 (n - 1) steps every endpoint sends a slice of size / n to the next one, as soon as it has its own
    of the step before; slices differ by a byte where the division leaves a rest. Adding takes no time.

    Returns: femtoseconds until the last slice has arrived.

    Raises:
        ConfigErrors: fewer bytes than endpoints.
    """
    count = len(order)
    if size_bytes < count:
        raise ConfigErrors.single(
            f"at least a byte for each of {count} endpoints", f"{size_bytes} B", path="size_bytes"
        )
    if count < 2:
        return 0
    machine = _machine(system, network)
    ring = ring_steps(order, size_bytes)
    columns = _transfers(machine, ring.source, ring.destination, ring.size_bytes)
    return _run(machine, columns, ring.before, ring.after)
