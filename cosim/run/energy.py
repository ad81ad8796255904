"""Energy of a finished run: counted events times the figures of the hardware file and of the memory standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cosim.run.machine import Machine

__all__ = ["energy_joules"]


def energy_joules(machine: Machine, macs: int) -> float | None:
    """Links, routers, compute and DRAM together, in joules; ``None`` where one of them has no figures.

    Links: bits over every link times the energy per bit and link (flits whole, on the flit network). Routers: the same
    bits once more for each router left, ejection included. Paths of stacked memory: bits over them. Compute: two
    operations per multiply-accumulate. Memory: bytes times the tier's access energy, or the standard's energies times
    the commands that were issued; at ``rate`` there are no commands, hence no figure without an access energy.
    """
    energy = machine.system.spec.energy
    memory = machine.memory_joules()
    if energy is None or memory is None:
        return None
    joules = float(8 * machine.link_bytes() * energy.link)
    if energy.router is not None:
        if machine.network_kind != "flit":
            return None
        joules += float(8 * machine.router_bytes() * energy.router)
    if machine.near_paths:
        if energy.near_memory is None:
            return None
        joules += float(8 * machine.near_memory_bytes() * energy.near_memory)
    joules += float(2 * macs * energy.operation)
    return joules + memory
