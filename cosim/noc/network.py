"""A flit-level network to run traffic on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cosim import _core
from cosim.config.errors import ConfigErrors, Problems
from cosim.config.schema_network import NetworkConfig
from cosim.noc.deadlock import DeadlockCheck, check_deadlock
from cosim.noc.frames import delivery_frame, packet_rows, reduction_frame, session_frame, unit_frame, with_times
from cosim.noc.graph import build_spec, routing_seed, states, unrouted_spec
from cosim.noc.links import LinkCounters
from cosim.noc.network_plugins import load_network_plugins
from cosim.noc.results import LatencyTerms, PacketResult, RoutingCost, TrafficResult
from cosim.noc.traffic import read_traffic
from cosim.plugins.description import Description
from cosim.plugins.routing import RoutingPlugin
from cosim.plugins.topologies import made_topology

__all__ = ["Network"]

# between two of these the interpreter looks for Ctrl-C
WORK_PER_CALL = 2_000_000
# a source may fall behind its offered load by this share, and by noise, before the run counts as unstable
BACKLOG_SHARE = 0.05
# of Student's distribution with 19 degrees of freedom, for 20 batches
T_QUANTILE_975 = 2.093024
# injection link + ejection link + the cycle in which the node reads
TERMINAL_CYCLES = 3


class Network:
    """An immutable network; every run starts from an empty one at cycle 0.

    Args:
        config: a description (see `NetworkConfig.from_dict`) or a `NetworkConfig`.

    Raises:
        ConfigErrors: every problem of the description.
        PluginError: a routing plug-in that cannot be used.
    """

    def __init__(self, config: Mapping[str, Any] | NetworkConfig) -> None:
        self._config = config if isinstance(config, NetworkConfig) else _checked(config)
        self._plugins = load_network_plugins(self._config)
        self._spec = build_spec(self._config, self._plugins)
        self._terminals: list[Any] = list(self._spec.terminals)

    @property
    def config(self) -> NetworkConfig:
        """The checked description, defaults filled in."""
        return self._config

    @property
    def spec(self) -> _core.NetworkSpec:
        """The core's description: routers, ports, links and terminals as they are built."""
        return self._spec

    @property
    def routing_plugin(self) -> RoutingPlugin | None:
        """The plug-in that routes, where there is one."""
        return self._plugins.routing

    @property
    def plugins(self) -> Mapping[str, Description]:
        """Key of the description (routing, vc_allocator, sw_allocator, router) → the plug-in that it names."""
        return self._plugins.descriptions()

    @cached_property
    def pipeline_cycles(self) -> int:
        """Cycles that a flit spends in a router without contention; a router model states its own."""
        if self._plugins.router is None:
            return self._config.pipeline_cycles
        with self._plugins.in_use():
            return int(_core.FlitNetwork(self._spec).router_pipeline_cycles)

    @property
    def nodes(self) -> int:
        """Number of nodes; ids are 0 to nodes - 1."""
        return len(self._terminals)

    @property
    def routers(self) -> int:
        """Number of routers."""
        return int(self._spec.routers)

    def zero_load_latency_cycles(self, hops: float, link_cycles: float, size_flits: int) -> float:
        """Latency without contention: hops x pipeline + links + injection, ejection and reading + size - 1.

        Args:
            hops: routers visited, the destination's included.
            link_cycles: sum of the latencies of the links between them.
            size_flits: packet size.
        """
        return hops * self.pipeline_cycles + link_cycles + TERMINAL_CYCLES + size_flits - 1

    def run_traffic(
        self,
        pattern: str | Mapping[str, Any],
        *,
        injection_rate: float,
        packet_size_flits: int = 1,
        warmup_cycles: int = 4000,
        measure_cycles: int = 10000,
        max_drain_cycles: int = 100_000,
        seed: int = 1,
        message_class: str | None = None,
    ) -> TrafficResult:
        """Open-loop Bernoulli traffic; sources queue without bound.

        Args:
            pattern: uniform (the source included), transpose, tornado, shuffle, bit_complement, bit_reversal,
                neighbor, {"kind": "hotspot", "nodes": [...], "weights": [...]}, or {"kind": "multicast", "sets":
                {source: [nodes]}}, for a multicast class: each packet of a named source goes to all of its nodes, the
                others send nothing; packets and latencies count once per node, loads where flits leave a source. Or
                {"kind": "reduction", "sets": {node: [sources]}}, for a reduction class: the sources of a node create
                packets for it in the same cycles, which are summed on their way; packets and latencies count once per
                source.
            injection_rate: offered flits per node and cycle, in (0, packet_size_flits].
            packet_size_flits: size of every packet.
            warmup_cycles, measure_cycles: packets created in the second are measured.
            max_drain_cycles: how long after the window to wait for measured packets; sources go on meanwhile.
            seed: of every random draw.
            message_class: name of the class of all packets; needed when the network has several.

        Raises:
            ConfigErrors: impossible arguments.
            cosim._core.DeadlockError: nothing can move any more; the text names who waits for whom.
            PluginError: a routing plug-in that failed or offered what does not exist.
        """
        traffic = read_traffic(
            self._config,
            self.nodes,
            pattern,
            injection_rate=injection_rate,
            packet_size_flits=packet_size_flits,
            warmup_cycles=warmup_cycles,
            measure_cycles=measure_cycles,
            max_drain_cycles=max_drain_cycles,
            seed=seed,
            message_class=message_class,
        )
        self._check_sets(traffic.dest_sets, packet_size_flits)
        with self._plugins.in_use():
            run = _core.TrafficRun(self._seeded(seed), traffic)
            while not run.advance(WORK_PER_CALL):
                pass
        return self._traffic_result(run, packet_size_flits, measure_cycles)

    def _check_sets(self, sets: Sequence[Sequence[int]], size: int) -> None:
        """Sets of nodes that are no tree, or whose packets do not fit the VCs on the way."""
        problems = Problems()
        trees = _core.MulticastTrees(self._spec) if sets else None
        for source, nodes in enumerate(sets):
            if trees is None or not nodes:
                continue
            try:
                room = trees.room(source, list(nodes))
            except ValueError as problem:
                problems.add(f"pattern.sets.{source}", "routes that form a tree", str(problem))
                continue
            if size > room:
                expected = f"at most {room} flits, the smallest VC on the way (multicast is virtual cut-through)"
                problems.add("packet_size_flits", expected, str(size))
        problems.raise_if_any()

    def _seeded(self, seed: int) -> _core.NetworkSpec:
        """The core's description with routing draws of a run's seed."""
        if self._spec.routing_kind == _core.RoutingKind.table and self._plugins.router is None:
            return self._spec
        spec = copy(self._spec)
        spec.set_routing_function(spec.routing_kind, routing_seed(seed))
        return spec

    def check_deadlock(self) -> DeadlockCheck:
        """Prove from the channel-dependency graph that the routing cannot deadlock, or name a cycle of waits.

        A plug-in is asked as in an empty network: what it answers under load is not seen. With links that fail at a
        cycle every state of the network is checked: the first that is not proved, else the last.

        Raises:
            ConfigErrors: a router model routes, and does not say how.
            PluginError: a routing plug-in that failed.
        """
        if self._plugins.router is not None:
            raise ConfigErrors.single(
                "built-in routers: what a router model does is not known beforehand, its runs watch for deadlocks",
                repr(self._plugins.router.description.name),
                path="network.router",
            )
        if any(failed.at_cycle is not None for failed in self._config.failed_links):
            checks = [check_deadlock(state) for _, state in states(self._config, unrouted_spec(self._config))]
            return next((check for check in checks if not check.deadlock_free), checks[-1])
        with self._plugins.in_use():
            return check_deadlock(self._spec)

    def run_packets(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Run a list of packets until all have arrived.

        Args:
            frame: columns create_cycle, src, dst, size_flits [, message_class, dst_set, reduction]; rows of one source
                (and class) are a FIFO in row order. A row with a list of nodes in `dst_set` (dst: none, or -1) is a
                multicast, when its class is a multicast one (every VC on its way holds the whole packet), or is
                streamed by a session, when its class is a session one. Rows of a reduction class with the same
                `reduction` (a number or a name; nothing or -1: none) are contributions to one sum, which routers make
                on the way to `dst`.

        Returns:
            The same rows with inject_cycle, eject_cycle, packet_latency_cycles, network_latency_cycles, hops and the
            latency terms (they sum to packet_latency_cycles) added; of a packet with a set those of the node reached
            last (of several, the lowest). A packet refused by the session arbiter has cycles and latencies of -1.

        Raises:
            ConfigErrors: every problem of the frame.
            cosim._core.DeadlockError: nothing can move any more.
            PluginError: a routing plug-in that failed or offered what does not exist.
        """
        packets: pd.DataFrame = self.packet_run(frame).packets
        return packets

    def packet_run(self, frame: pd.DataFrame) -> PacketResult:
        """As `run_packets`, with the multicasts' deliveries, the links' counters, the makespan and the work done."""
        checked = packet_rows(frame, self._config, self._spec)
        with self._plugins.in_use():
            run = _core.PacketRun(self._spec, checked.rows, checked.dest_sets, checked.reductions)
            while not run.advance(WORK_PER_CALL):
                pass
        records = run.records()
        makespan = max(int(records[:, 1].max()), 0) if len(records) else 0
        links = LinkCounters(self._config, self._spec, run.connected_outputs(), run.connected_counters(), makespan + 1)
        links.add_retries(run.retry_counters())
        sessions: pd.DataFrame | None = None
        if self._config.has_sessions:
            sessions = session_frame(run)
            counted = run.session_counters()
            links.per_output.update(session_flits=counted[:, 0], detached_cycles=counted[:, 1])
        sums = checked.labels or self._config.has_reductions
        reductions = reduction_frame(checked, self._spec, records[:, 1]) if sums else None
        units = unit_frame(run.reduction_units()) if sums else None
        packets = with_times(frame, records)
        deliveries = delivery_frame(checked, run.deliveries())
        cost = _cost(run.plugin_cost)
        refused = int((records[:, 1] < 0).sum())
        hops = run.session_flit_hops
        return PacketResult(
            packets,
            links.frame(),
            makespan,
            run.flit_hops,
            run.core_bytes,
            deliveries,
            cost,
            sessions,
            hops,
            refused,
            run.router_calls,
            reductions,
            units,
            self._route_changes(run.route_changes_made),
        )

    def session_links(self, source: int, nodes: Sequence[int]) -> list[tuple[int, int]]:
        """The links (router, port) that a session of `source` with `nodes` owns, ascending.

        Two sessions can run at once when these, their sources and their nodes are disjoint.

        Raises:
            ValueError: a node that does not exist, is named twice or cannot be reached.
        """
        return _core.SessionTrees(self._spec).links(source, list(nodes))

    def _traffic_result(self, run: _core.TrafficRun, size: int, cycles: int) -> TrafficResult:
        r = run.result()
        places = cycles * self.nodes
        measured = r.delivered_packets
        undrained = r.created_packets - measured
        # the sources' backlog may grow by chance: 4 standard deviations of the number of packets created
        noise = 4.0 * size * float(np.sqrt(r.created_packets))
        behind = r.created_flits - r.injected_flits > BACKLOG_SHARE * r.created_flits + noise

        def mean(total: int) -> float:
            return total / measured if measured else float("nan")

        t = r.terms_sum
        links = LinkCounters(self._config, self._spec, run.connected_outputs(), r.window_counters(), cycles)
        links.add_retries(run.retry_counters())
        return TrafficResult(
            offered_rate=r.created_flits / places,
            injected_rate=r.injected_flits / places,
            accepted_rate=r.ejected_flits / places,
            accepted_rate_least_node=r.ejected_flits_least / cycles,
            packet_latency_mean_cycles=mean(r.packet_latency_sum_cycles),
            packet_latency_mean_half_width_cycles=_half_width(r.batch_packets, r.batch_packet_latency_sums_cycles),
            network_latency_mean_cycles=mean(r.network_latency_sum_cycles),
            flit_latency_mean_cycles=mean(r.flit_latency_sum_cycles) / size,
            packet_latency_p50_cycles=r.packet_latency_percentile(0.50),
            packet_latency_p95_cycles=r.packet_latency_percentile(0.95),
            packet_latency_p99_cycles=r.packet_latency_percentile(0.99),
            packet_latency_max_cycles=r.packet_latency_max_cycles,
            network_latency_p50_cycles=r.network_latency_percentile(0.50),
            network_latency_p95_cycles=r.network_latency_percentile(0.95),
            network_latency_p99_cycles=r.network_latency_percentile(0.99),
            hops_mean=mean(r.hops_sum),
            zero_load_latency_mean_cycles=mean(t.router_cycles + t.link_cycles + t.serialisation_cycles),
            terms=LatencyTerms(
                source_queueing_mean_cycles=mean(t.source_queueing_cycles),
                router_mean_cycles=mean(t.router_cycles),
                link_mean_cycles=mean(t.link_cycles),
                serialisation_mean_cycles=mean(t.serialisation_cycles),
                contention_mean_cycles=mean(t.contention_cycles),
                retry_mean_cycles=mean(t.retry_cycles),
                reduction_wait_mean_cycles=mean(t.reduction_wait_cycles),
            ),
            stable=undrained == 0 and not behind,
            measured_packets=measured,
            undrained_packets=undrained,
            flit_hops=r.flit_hops,
            end_cycle=r.end_cycle,
            core_bytes=r.core_bytes,
            link_counters=links,
            routing_cost=_cost(run.plugin_cost),
            router_calls=run.router_calls,
            route_changes=self._route_changes(run.route_changes_made),
        )

    def _route_changes(self, made: Sequence[int]) -> pd.DataFrame | None:
        """When links failed and when the routes around them held; None without such links."""
        cycles = [failed.at_cycle for failed in self._config.failed_links if failed.at_cycle is not None]
        if not cycles:
            return None
        frame: pd.DataFrame = pd.DataFrame({"at_cycle": sorted(set(cycles))[: len(made)], "changed_cycle": list(made)})
        return frame


def _half_width(packets: Sequence[int], latency_sums: Sequence[int]) -> float:
    """Half the width of a mean's 95 % interval from batch means; nan when a batch has no packet."""
    if min(packets) == 0:
        return float("nan")
    means = np.asarray(latency_sums, dtype=np.float64) / np.asarray(packets, dtype=np.float64)
    return T_QUANTILE_975 * float(np.std(means, ddof=1)) / float(np.sqrt(len(means)))


def _checked(description: Mapping[str, Any]) -> NetworkConfig:
    if isinstance(description, Mapping) and "topology" in description:
        description = {**description, "topology": made_topology(description["topology"])}
    return NetworkConfig.from_dict(description)


def _cost(counted: _core.PluginCost | None) -> RoutingCost | None:
    return None if counted is None else RoutingCost(counted.heads, counted.calls)
