"""The plain rates of a system that HCRMap's costs are made of: seconds per byte, hop and multiply-accumulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Substrate"]


class Substrate:
    """Figures of a system and a model, and routes as link numbers; built once for a run.

    Attributes:
        chiplets: compute endpoints.
        s_per_mac: per endpoint; 0 where nothing computes.
        memory_Bps: peak rate per endpoint; 0 where there is no memory.
        link_Bps: per directed link.
        tiers: names of the tiers by their number in the directory.
        ranks: rank of each tier, likewise; the highest is that of homes.
        expert_bytes, expert_macs, activation_bytes: of one expert, of one token in it, of one token.
    """

    def __init__(self, system: System, model: ModelSpec) -> None:
        self.system = system
        self.chiplets = [endpoint.index for endpoint in system.compute_endpoints]
        self.s_per_mac = np.zeros(len(system.endpoints))
        self.memory_Bps = np.zeros(len(system.endpoints))
        for place in system.endpoints:
            if place.spec.compute is not None:
                self.s_per_mac[place.index] = 2 / float(place.spec.compute.effective_rate())
            if place.memory is not None:
                self.memory_Bps[place.index] = float(place.memory.peak_Bps)
        rates = np.array([float(network.link_bandwidth_Bps) for network in system.networks])
        self.link_Bps = rates[system.links["network"]]
        self.tiers = [tier.name for tier in system.tiers]
        self.ranks = np.array([tier.rank for tier in system.tiers])
        self.expert_bytes = model.expert_bytes
        self.expert_macs = model.expert_macs_per_token
        self.activation_bytes = model.activation_bytes
        self._paths: dict[tuple[int, int], np.ndarray[tuple[int], np.dtype[np.int64]]] = {}

    def path(self, source: int, destination: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Links of the networks from one endpoint to another; gateways are left out."""
        key = (source, destination)
        if key not in self._paths:
            links = [link for link in self.system.routes.path(source, destination) if link < len(self.link_Bps)]
            self._paths[key] = np.array(links, dtype=np.int64)
        return self._paths[key]

    def hops(self, source: int, destination: int) -> int:
        """Links between two endpoints."""
        return self.system.routes.between(source, destination)

    def tier_Bps(self, tier: str) -> float:
        """Peak rate of all endpoints of a tier together."""
        return float(self.memory_Bps[list(self.system.tier(tier).endpoints)].sum())
