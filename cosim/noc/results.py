"""What a network run returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from cosim.noc.links import LinkCounters

__all__ = ["LatencyTerms", "PacketResult", "RoutingCost", "TrafficResult"]


@dataclass(frozen=True)
class LatencyTerms:
    """Mean terms of the packet latency, in cycles; they sum to `packet_latency_mean_cycles`.

    `source_queueing`: creation to the head's leaving the source. `router`: pipeline depth x routers visited. `link`:
    links, the injection and ejection channels, and the node's reading. `serialisation`: flits after the head.
    `contention`: waiting for VCs, switches and credits inside the network. `session_wait`: being the first at its
    source and held there because the way leads over links of a session; of what sessions carry, waiting for the links.
    `retry`: held by links that sent flits again. `reduction_wait`: of contributions to a sum, at reduction units, for
    the others and the sum.
    """

    source_queueing_mean_cycles: float
    router_mean_cycles: float
    link_mean_cycles: float
    serialisation_mean_cycles: float
    contention_mean_cycles: float
    session_wait_mean_cycles: float = 0.0
    retry_mean_cycles: float = 0.0
    reduction_wait_mean_cycles: float = 0.0


@dataclass(frozen=True)
class RoutingCost:
    """What a routing plug-in cost: heads routed, and how many of them took a call of it.

    The others were answered from a table of answers that hold always. `share` is calls / heads.
    """

    heads: int
    calls: int

    @property
    def share(self) -> float:
        """Calls per head."""
        return self.calls / self.heads if self.heads else 0.0


@dataclass(frozen=True)
class TrafficResult:
    """Synthetic traffic: rates in flits per node and cycle in the measurement window, latencies of its packets.

    Latencies are those of packets created in the window and delivered before the drain ended; `undrained_packets`
    were not. `packet_latency_mean_half_width_cycles` is half the width of the mean's 95 % interval from 20 batch means
    (nan when a batch is empty). Packet latency counts from creation, network latency from the head's injection, flit
    latency from each flit's own injection, all to the cycle in which the node reads the (tail) flit. `stable` is false
    when packets were left or the sources fell behind: see `docs/network.md`. `router_calls` counts the calls of a
    router model, None with the built-in routers; `route_changes` is that of `PacketResult`.
    """

    offered_rate: float
    injected_rate: float
    accepted_rate: float
    accepted_rate_least_node: float
    packet_latency_mean_cycles: float
    packet_latency_mean_half_width_cycles: float
    network_latency_mean_cycles: float
    flit_latency_mean_cycles: float
    packet_latency_p50_cycles: int
    packet_latency_p95_cycles: int
    packet_latency_p99_cycles: int
    packet_latency_max_cycles: int
    network_latency_p50_cycles: int
    network_latency_p95_cycles: int
    network_latency_p99_cycles: int
    hops_mean: float
    zero_load_latency_mean_cycles: float
    terms: LatencyTerms
    stable: bool
    measured_packets: int
    undrained_packets: int
    flit_hops: int
    end_cycle: int
    core_bytes: int
    link_counters: LinkCounters = field(repr=False, compare=False)
    routing_cost: RoutingCost | None = None
    router_calls: int | None = None
    route_changes: pd.DataFrame | None = field(default=None, compare=False)

    @cached_property
    def links(self) -> pd.DataFrame:
        """A row per output of a router and VC: flits, utilisation and stall causes in the measurement window."""
        return self.link_counters.frame()


@dataclass(frozen=True)
class PacketResult:
    """A list of packets: its frame with times added, the links they used, and the work done.

    `deliveries` has a row per packet with a `dst_set` and node of it: `row` (position in the frame), `dst`,
    `inject_cycle`, `eject_cycle`, `packet_latency_cycles`, `network_latency_cycles`, `hops` and the latency terms.
    `sessions` has a row per session: `source`, `dst_set`, `links` (router, port), `ask_cycle`, `grant_cycle` (its links
    drain from here on), `detach_cycle` (they are empty: set-up begins), `return_cycle`, `packets`, `flits`.
    `session_flit_hops` are theirs, on links and into nodes; `flit_hops` are those of packets alone. `refused_packets`
    were refused by the session arbiter: their rows have cycles of -1. `reductions` has a row per reduction: `reduction`
    (as in the frame), `dst`, `sources`, `joins` (routers whose unit made a sum, upstream first), `create_cycle` (of its
    last contribution), `eject_cycle`. `reduction_units` has a row per router: `router`, `parts` (packets that its unit
    read), `sums`, `most_open` (partial sums that it held at once).
    `route_changes` has a row per change that links failing at a cycle made in this run: `at_cycle` and `changed_cycle`,
    from which on the new routes held.
    """

    packets: pd.DataFrame
    links: pd.DataFrame
    makespan_cycles: int
    flit_hops: int
    core_bytes: int
    deliveries: pd.DataFrame
    routing_cost: RoutingCost | None = None
    sessions: pd.DataFrame | None = None
    session_flit_hops: int = 0
    refused_packets: int = 0
    router_calls: int | None = None
    reductions: pd.DataFrame | None = None
    reduction_units: pd.DataFrame | None = None
    route_changes: pd.DataFrame | None = None
