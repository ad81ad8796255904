"""Energy of a finished run: counted events times the figures of the hardware file and of the memory standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.run.machine import RUNG_KNOBS

if TYPE_CHECKING:
    from cosim.run.machine import Machine
    from cosim.system import System

__all__ = ["energies_missing", "energy_joules"]


def energies_missing(system: System, rung: str) -> list[str]:
    """What has no figures at a rung, without which :func:`energy_joules` knows no energy."""
    network, memory = RUNG_KNOBS[rung]
    energy = system.spec.energy
    if energy is None:
        return ["links and operations (the key energy)"]
    missing = []
    if energy.router is not None and network != "flit":
        missing.append("routers, which only flits pass")
    if system.near_memories and energy.near_memory is None:
        missing.append("paths of stacked memory (energy.near_memory)")
    if memory != "command":
        priced = {tier.on for tier in system.spec.tiers.values() if tier.access_energy is not None}
        unpriced = sorted({place.name for place in system.memory_endpoints} - priced)
        missing += [f"memory {name} (access_energy of its tier: it has no commands here)" for name in unpriced]
    return missing


def energy_joules(machine: Machine, macs: int, copies: int = 0, gated: int = 0) -> float | None:
    """Links, routers, compute, DRAM and control together, in joules; ``None`` where one of them has no figures.

    Links: bits over every link times the energy per bit and link (flits whole, on the flit network). Routers: the same
    bits once more for each router left, ejection included. Paths of stacked memory: bits over them. Compute: two
    operations per multiply-accumulate. Control: of ``copies`` of replicas and ``gated`` token groups (E_mig and E_gate
    of Eq. 18 of seed 000), where the system has figures for them. Memory: bytes times the tier's access energy, or the
    standard's energies times the commands that were issued; at ``rate`` there are no commands, hence no figure without
    an access energy.
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
    joules += float(copies * (energy.migration_control or 0)) + float(gated * (energy.gate or 0))
    return joules + memory
