"""From a built system to the plain rates of an analytical model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cosim.analytic.system import AnalyticSystem, IntArray, Routes
from cosim.config.schema_hardware import MemorySpec
from cosim.system.routes import Routes as SystemRoutes
from cosim.system.system import System


@dataclass(frozen=True)
class MemoryAccess:
    """How a memory node answers one isolated read.

    latency_s: from the activation of a closed row to the first beat of data
    banks:     pseudo-channels (SRAM: banks) of the node, which are served side by side
    tier:      sram, hbm or dram, by the family of the standard
    """

    latency_s: float
    banks: int
    tier: str


AccessOf = Callable[[MemorySpec], MemoryAccess]

_FAMILIES = (("SRAM", "sram"), ("HBM", "hbm"), ("HB3D", "hbm"), ("DDR", "dram"), ("LPDDR", "dram"), ("GDDR", "dram"))


def memory_access(spec: MemorySpec) -> MemoryAccess:
    """The figures of a node's standard: tRCD of a read plus the read latency, less the burst itself.

    Raises ValueError for an unknown preset or timing.
    """
    # The room of memory stays unloaded until a system with memory is adapted.
    from cosim.mem.options import read_options

    standard = read_options(spec.options()).standard
    cycles = standard.activate_to_read_cycles + standard.read_latency_cycles - standard.burst_cycles
    tier = next((tier for family, tier in _FAMILIES if standard.name.upper().startswith(family)), standard.name)
    sides = standard.organisation.banks if standard.kind == "sram" else standard.organisation.pseudo_channels
    banks = sides * spec.channels
    return MemoryAccess(float(cycles / standard.ck_hz), banks, tier)


def analytic_system(system: System, *, access_of: AccessOf = memory_access) -> AnalyticSystem:
    """The numbers of ``system`` that analytical models take.

    The fixed latency of a hop is the router pipeline (routing, VC allocation, switch allocation, switch
    traversal) and the link, in cycles of the level; a link carries one flit a cycle. Links of the level
    count as die-to-die: its routers are those of the package.
    """
    level = system.level
    clock = float(level.clock)
    pipeline = (
        level.routing_delay
        + level.vc_alloc_delay
        + level.sw_alloc_delay
        + level.st_prepare_delay
        + level.st_final_delay
    )
    flit_Bps = float(system.link_bandwidth_Bps)
    table, target_of = SystemRoutes.of(system), system.links["target"].astype(np.int64)
    routers = [endpoint.router for endpoint in system.endpoints]
    paths = [_path(table, target_of, source, destination) for source in routers for destination in routers]
    compute = [endpoint.spec.compute for endpoint in system.endpoints]
    access = [access_of(e.spec.memory) if e.spec.memory is not None else None for e in system.endpoints]
    return AnalyticSystem(
        link_bandwidth_Bps=np.full(len(system.links), flit_Bps),
        link_latency_s=(pipeline + system.links["latency_cycles"].astype(np.float64)) / clock,
        link_is_d2d=np.ones(len(system.links), dtype=np.bool_),
        routes=Routes.from_paths(len(routers), paths),
        port_bandwidth_Bps=np.array([flit_Bps * endpoint.spec.ports for endpoint in system.endpoints]),
        compute_flops=np.array([float(unit.rate) if unit is not None else 0.0 for unit in compute]),
        compute_efficiency=np.array([unit.efficiency if unit is not None else 1.0 for unit in compute]),
        memory_bandwidth_Bps=np.array(
            [float(e.memory.peak_Bps) if e.memory is not None else 0.0 for e in system.endpoints]
        ),
        memory_latency_s=np.array([node.latency_s if node is not None else 0.0 for node in access]),
        memory_banks=np.array([node.banks if node is not None else 0 for node in access], dtype=np.int64),
        memory_tier=tuple(node.tier if node is not None else "" for node in access),
    )


def _path(table: SystemRoutes, target_of: IntArray, source: int, destination: int) -> list[int]:
    """The directed links from one router to another."""
    links = []
    while source != destination:
        links.append(int(table.next_link[source, destination]))
        source = int(target_of[links[-1]])
    return links
