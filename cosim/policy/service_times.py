"""What a controller may predict: seconds of compute, of a page's way, and of activations over the network."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["ServiceTimes"]


class ServiceTimes:
    """Service times from the system's own rates, without contention.

    token_s: one token in one expert, per chiplet. page_s: an expert's weights through the ports of a chiplet, or of the
    memory if that is slower. near_page_s: over the path of a near memory, 0.0 where there is none. hop_s: of a router
    and a link. bytes_per_s: of a chiplet's ports.
    """

    def __init__(self, system: System, model: ModelSpec) -> None:
        self.system = system
        self.chiplets = [place.index for place in system.compute_endpoints]
        self.activation_bytes = model.activation_bytes
        operations = 2 * model.expert_macs_per_token
        self.token_s: dict[int, float] = {}
        self.page_s: dict[int, float] = {}
        self.near_page_s: dict[int, float] = {}
        self.bytes_per_s: dict[int, float] = {}
        home = set(system.home_tier.endpoints)
        drawn = min(
            float(place.memory.peak_Bps) for place in system.memory_endpoints if place.memory and place.index in home
        )
        for place in system.compute_endpoints:
            assert place.spec.compute is not None
            level = system.network_of(place).level
            ports = float(Fraction(level.flit_width) * level.clock) * place.spec.ports
            self.token_s[place.index] = float(Fraction(operations) / place.spec.compute.effective_rate())
            self.bytes_per_s[place.index] = ports
            self.page_s[place.index] = model.expert_bytes / min(ports, drawn)
            near = place.spec.near_memory
            self.near_page_s[place.index] = model.expert_bytes / float(near.bandwidth) if near is not None else 0.0
        level = system.networks[0].level
        self.hop_s = float((level.pipeline_cycles + level.longest_link_cycles) / level.clock)
