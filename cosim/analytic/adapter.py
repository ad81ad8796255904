"""From a built system to the plain rates of an analytical model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cosim.analytic.system import AnalyticSystem, FloatArray, Routes
from cosim.config.schema_hardware import MemorySpec
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
    traversal) and the link, in cycles of its level; a link carries one flit a cycle. A gateway is a link in either
    direction with the bandwidth of its ports; its latency is one cycle of the level that packets go on to plus the
    synchroniser's. Links of the root level, the package, and gateways count as die-to-die.
    """
    bandwidth: list[float] = []
    latency: list[FloatArray] = []
    d2d: list[bool] = []
    for network in system.networks:
        level = network.level
        links = len(network.graph.source)
        bandwidth += [float(network.link_bandwidth_Bps)] * links
        latency.append((level.pipeline_cycles + network.graph.latency_cycles.astype(np.float64)) / float(level.clock))
        d2d += [network.above < 0] * links
    for gateway in system.gateways:
        bandwidth += [float(gateway.bandwidth_Bps(system.networks))] * 2
        cycles = 1 + gateway.spec.synchroniser_cycles
        clocks = [float(system.networks[end].level.clock) for end in reversed(gateway.networks)]
        latency.append(np.array([cycles / clock for clock in clocks]))
        d2d += [True] * 2
    count = range(len(system.endpoints))
    paths = [system.routes.path(source, destination) for source in count for destination in count]
    compute = [endpoint.spec.compute for endpoint in system.endpoints]
    access = [access_of(e.spec.memory) if e.spec.memory is not None else None for e in system.endpoints]
    return AnalyticSystem(
        link_bandwidth_Bps=np.array(bandwidth),
        link_latency_s=np.concatenate(latency),
        link_is_d2d=np.array(d2d, dtype=np.bool_),
        routes=Routes.from_paths(len(system.endpoints), paths),
        port_bandwidth_Bps=np.array(
            [
                float(system.network_of(endpoint).link_bandwidth_Bps) * endpoint.spec.ports
                for endpoint in system.endpoints
            ]
        ),
        compute_flops=np.array([float(unit.rate) if unit is not None else 0.0 for unit in compute]),
        compute_efficiency=np.array([unit.efficiency if unit is not None else 1.0 for unit in compute]),
        memory_bandwidth_Bps=np.array(
            [float(e.memory.peak_Bps) if e.memory is not None else 0.0 for e in system.endpoints]
        ),
        memory_latency_s=np.array([node.latency_s if node is not None else 0.0 for node in access]),
        memory_banks=np.array([node.banks if node is not None else 0 for node in access], dtype=np.int64),
        memory_tier=tuple(node.tier if node is not None else "" for node in access),
        near_memory=np.array([system.near_memories.get(e.index, -1) for e in system.endpoints], dtype=np.int64),
        near_bandwidth_Bps=np.array(
            [float(e.spec.near_memory.bandwidth) if e.spec.near_memory else 0.0 for e in system.endpoints]
        ),
    )
