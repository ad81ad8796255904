"""
C++ core of cosim: network, memory and engine; used through the Python package.
"""

from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

__all__: list[str] = [
    "MEM_COMMANDS",
    "NO_EVENT",
    "AllocatorKind",
    "ArbiterKind",
    "ArbiterPlugin",
    "Channel",
    "Clock",
    "DeadlockError",
    "DeadlockProof",
    "DependencyReport",
    "Engine",
    "FlitNetwork",
    "LatencyTerms",
    "LawBrokenError",
    "LinkSpec",
    "LivelockError",
    "MemAddressMap",
    "MemChannelConfig",
    "MemController",
    "MemKind",
    "MemPagePolicy",
    "MemRefresh",
    "MemReplay",
    "MemScope",
    "MemoryPlugin",
    "MemoryPluginError",
    "MulticastTrees",
    "NetworkSpec",
    "PacketRun",
    "PluginCost",
    "ReductionTrees",
    "RouterModelPlugin",
    "RoutingError",
    "RoutingKind",
    "RoutingPlugin",
    "SessionTrees",
    "TaskKind",
    "TerminalSpec",
    "TrafficResult",
    "TrafficRun",
    "TrafficSpec",
    "faults_compiled",
]

class Clock:
    """
    A clock of rational frequency; edge n is at floor(n / frequency) femtoseconds.
    """
    def __init__(
        self,
        hz_numerator: typing.SupportsInt | typing.SupportsIndex,
        hz_denominator: typing.SupportsInt | typing.SupportsIndex = 1,
    ) -> None: ...
    def edge_after(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_at_or_after(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_at_or_before(self, time_fs: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def edge_fs(self, edge: typing.SupportsInt | typing.SupportsIndex) -> int: ...

class ArbiterPlugin:
    """
    An arbiter plug-in: the address of its table of functions and its parameters.
    """
    def __init__(self, table: typing.SupportsInt | typing.SupportsIndex, params: str, library: typing.Any) -> None:
        """
        `table` must stay valid as long as `library` lives.
        """
    @property
    def name(self) -> str: ...

class RouterModelPlugin:
    """
    A router model: the address of its table of functions and its parameters.
    """
    def __init__(
        self,
        table: typing.SupportsInt | typing.SupportsIndex,
        params: str,
        topology: str,
        dims: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        library: typing.Any,
    ) -> None:
        """
        `table` must stay valid as long as `library` lives.
        """
    @property
    def name(self) -> str: ...

class PluginCost:
    """
    What a routing plug-in cost in a run.
    """
    @property
    def calls(self) -> int:
        """
        of which took a call; the others were answered from a table
        """
    @property
    def heads(self) -> int:
        """
        heads routed
        """

class RoutingPlugin:
    """
    A routing plug-in: the address of its table of functions and its parameters.
    """
    def __init__(
        self,
        table: typing.SupportsInt | typing.SupportsIndex,
        params: str,
        topology: str,
        dims: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        flit_bytes: typing.SupportsInt | typing.SupportsIndex,
        library: typing.Any,
    ) -> None:
        """
        `table` must stay valid as long as `library` lives.
        """
    @property
    def name(self) -> str: ...

class LinkSpec:
    """
    One direction of a channel between two router ports.
    """
    def __init__(
        self,
        from_router: typing.SupportsInt | typing.SupportsIndex,
        from_port: typing.SupportsInt | typing.SupportsIndex,
        to_router: typing.SupportsInt | typing.SupportsIndex,
        to_port: typing.SupportsInt | typing.SupportsIndex,
        latency: typing.SupportsInt | typing.SupportsIndex,
        buffer_flits: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    @property
    def buffer_flits(self) -> int: ...
    @property
    def from_port(self) -> int: ...
    @property
    def from_router(self) -> int: ...
    @property
    def latency(self) -> int: ...
    @property
    def to_port(self) -> int: ...
    @property
    def to_router(self) -> int: ...

class TerminalSpec:
    """
    A node: one injection and one ejection channel on a router port.
    """
    def __init__(
        self, router: typing.SupportsInt | typing.SupportsIndex, port: typing.SupportsInt | typing.SupportsIndex
    ) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def router(self) -> int: ...

class RoutingKind:
    """
    Members:

      table

      plugin

      dateline

      dateline_booksim

      nca

      odd_even

      west_first

      min_adaptive
    """

    __members__: typing.ClassVar[dict[str, RoutingKind]]
    dateline: typing.ClassVar[RoutingKind]
    dateline_booksim: typing.ClassVar[RoutingKind]
    min_adaptive: typing.ClassVar[RoutingKind]
    nca: typing.ClassVar[RoutingKind]
    odd_even: typing.ClassVar[RoutingKind]
    plugin: typing.ClassVar[RoutingKind]
    table: typing.ClassVar[RoutingKind]
    west_first: typing.ClassVar[RoutingKind]
    @typing.overload
    def __eq__(self, other: RoutingKind) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: RoutingKind) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class AllocatorKind:
    """
    Members:

      islip

      separable_input_first

      separable_output_first

      plugin
    """

    __members__: typing.ClassVar[dict[str, AllocatorKind]]
    islip: typing.ClassVar[AllocatorKind]
    plugin: typing.ClassVar[AllocatorKind]
    separable_input_first: typing.ClassVar[AllocatorKind]
    separable_output_first: typing.ClassVar[AllocatorKind]
    @typing.overload
    def __eq__(self, other: AllocatorKind) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: AllocatorKind) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class ArbiterKind:
    """
    Members:

      round_robin

      matrix
    """

    __members__: typing.ClassVar[dict[str, ArbiterKind]]
    matrix: typing.ClassVar[ArbiterKind]
    round_robin: typing.ClassVar[ArbiterKind]
    @typing.overload
    def __eq__(self, other: ArbiterKind) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: ArbiterKind) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class DeadlockProof:
    """
    Members:

      none

      acyclic

      escape
    """

    __members__: typing.ClassVar[dict[str, DeadlockProof]]
    acyclic: typing.ClassVar[DeadlockProof]
    escape: typing.ClassVar[DeadlockProof]
    none: typing.ClassVar[DeadlockProof]
    @typing.overload
    def __eq__(self, other: DeadlockProof) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: DeadlockProof) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class Channel:
    """
    A VC of a link.
    """
    @property
    def from_port(self) -> int: ...
    @property
    def from_router(self) -> int: ...
    @property
    def to_router(self) -> int: ...
    @property
    def vc(self) -> int: ...

class DependencyReport:
    """
    What the channel-dependency graph of a network says.
    """
    @property
    def channels(self) -> int: ...
    @property
    def cycle(self) -> list[Channel]: ...
    @property
    def dependencies(self) -> int: ...
    @property
    def problem(self) -> str: ...
    @property
    def proof(self) -> DeadlockProof: ...

class NetworkSpec:
    """
    Graph, routes and pipeline of a flit-level network.
    """

    compat_booksim2: bool
    wait_for_tail_credit: bool
    def __copy__(self) -> NetworkSpec: ...
    def __init__(self) -> None: ...
    def add_class(
        self,
        vc_mask: typing.SupportsInt | typing.SupportsIndex,
        priority: typing.SupportsInt | typing.SupportsIndex,
        multicast: bool = False,
        session: bool = False,
        reduction: bool = False,
        static_vcs: bool = False,
    ) -> None:
        """
        Adds a message class; a larger priority injects first, packets of a multicast one may have several nodes, those of a session one have a set of them and use no VC, those of a reduction one may be summed on their way, those of one with static VCs keep one for each source.
        """
    def add_route_change(self, at_cycle: typing.SupportsInt | typing.SupportsIndex, after: NetworkSpec) -> None:
        """
        From this cycle on sources wait until the network is empty, then the routes of `after` hold.
        """
    def build_crossbar(self, terminals: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Adds one router with all terminals.
        """
    def build_fat_tree(
        self,
        k: typing.SupportsInt | typing.SupportsIndex,
        n: typing.SupportsInt | typing.SupportsIndex,
        latency: typing.SupportsInt | typing.SupportsIndex,
        buffer_flits: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        Adds a k-ary n-tree.
        """
    def build_fully_connected(
        self,
        routers: typing.SupportsInt | typing.SupportsIndex,
        concentration: typing.SupportsInt | typing.SupportsIndex,
        latency: typing.SupportsInt | typing.SupportsIndex,
        buffer_flits: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        Adds routers with a link between any two.
        """
    def build_grid(
        self,
        shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        wraps: bool,
        concentration: typing.SupportsInt | typing.SupportsIndex,
        link_latency: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        link_buffer_flits: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        Adds the routers, links and terminals of a mesh, or torus when it wraps.
        """
    def build_pod_fat_tree(
        self,
        pods: typing.SupportsInt | typing.SupportsIndex,
        leaves: typing.SupportsInt | typing.SupportsIndex,
        terminals: typing.SupportsInt | typing.SupportsIndex,
        aggregations: typing.SupportsInt | typing.SupportsIndex,
        cores: typing.SupportsInt | typing.SupportsIndex,
        leaf_links: typing.SupportsInt | typing.SupportsIndex,
        core_links: typing.SupportsInt | typing.SupportsIndex,
        leaf_latency: typing.SupportsInt | typing.SupportsIndex,
        core_latency: typing.SupportsInt | typing.SupportsIndex,
        buffer_flits: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        Adds leaf, aggregation and core routers.
        """
    def check_dependencies(self) -> DependencyReport:
        """
        Proves that the routing cannot deadlock, or names a cycle of waits.
        """
    def problems(self) -> list[str]:
        """
        Every problem of this description, one sentence each.
        """
    def route_dimension_order(self) -> None:
        """
        Dimension-order routes of a mesh.
        """
    def route_layered_shortest(self) -> None:
        """
        Shortest ways in layers of VCs; ValueError when VCs are too few or a terminal cannot be reached.
        """
    def route_up_down(self, root: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        up*/down* routes of any graph; ValueError when a terminal cannot be reached.
        """
    def set_allocation(
        self,
        vc: AllocatorKind,
        sw: AllocatorKind,
        arbiter: ArbiterKind,
        iterations: typing.SupportsInt | typing.SupportsIndex,
        age_priority: bool,
        speculative: bool,
    ) -> None:
        """
        How heads get output VCs and flits the switch.
        """
    def set_arbiter_plugins(self, vc: ArbiterPlugin, sw: ArbiterPlugin) -> None:
        """
        The arbiters of stages whose allocator is of kind plugin, else None.
        """
    def set_reduction(
        self, ports: typing.SupportsInt | typing.SupportsIndex, combine_delay: typing.SupportsInt | typing.SupportsIndex
    ) -> None:
        """
        Gives every router a reduction unit on ports of its own, behind the others.
        """
    def set_retry(
        self,
        bit_error_rate: typing.SupportsFloat | typing.SupportsIndex,
        flit_bits: typing.SupportsInt | typing.SupportsIndex,
        crc_bits: typing.SupportsInt | typing.SupportsIndex,
        nack_delay: typing.SupportsInt | typing.SupportsIndex,
        seed: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        Links between routers that flip bits and send bad flits again.
        """
    def set_router_model(self, plugin: RouterModelPlugin) -> None:
        """
        Routers are instances of this model.
        """
    def set_routes(
        self,
        entries: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        vc_sets: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> None:
        """
        Routes by [router * terminals + destination]: output port, and index into vc_sets << 8.
        """
    def set_routing_function(self, kind: RoutingKind, seed: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        A built-in routing function, and the seed of its draws.
        """
    def set_routing_plugin(self, plugin: RoutingPlugin) -> None:
        """
        Heads are routed by this plug-in.
        """
    def set_sessions(
        self,
        setup_cycles: typing.SupportsInt | typing.SupportsIndex,
        teardown_cycles: typing.SupportsInt | typing.SupportsIndex,
        segment_delay: typing.SupportsInt | typing.SupportsIndex,
        max_session_cycles: typing.SupportsInt | typing.SupportsIndex,
        idle_cycles: typing.SupportsInt | typing.SupportsIndex,
        max_waiting: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        What sessions cost and how long they may last.
        """
    @property
    def credit_delay(self) -> int: ...
    @credit_delay.setter
    def credit_delay(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def links(self) -> list[LinkSpec]: ...
    @links.setter
    def links(self, arg0: collections.abc.Sequence[LinkSpec]) -> None: ...
    @property
    def num_vcs(self) -> int: ...
    @num_vcs.setter
    def num_vcs(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def ports(self) -> int: ...
    @ports.setter
    def ports(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def routers(self) -> int: ...
    @routers.setter
    def routers(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def routes(self) -> tuple[list[int], list[int]]:
        """
        Entries and vc_sets as set_routes takes them; empty where a function routes.
        """
    @property
    def routing_delay(self) -> int: ...
    @routing_delay.setter
    def routing_delay(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def routing_kind(self) -> RoutingKind: ...
    @property
    def st_final_delay(self) -> int: ...
    @st_final_delay.setter
    def st_final_delay(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def st_prepare_delay(self) -> int: ...
    @st_prepare_delay.setter
    def st_prepare_delay(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def sw_alloc_delay(self) -> int: ...
    @sw_alloc_delay.setter
    def sw_alloc_delay(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def terminals(self) -> list[TerminalSpec]: ...
    @terminals.setter
    def terminals(self, arg0: collections.abc.Sequence[TerminalSpec]) -> None: ...
    @property
    def vc_alloc_delay(self) -> int: ...
    @vc_alloc_delay.setter
    def vc_alloc_delay(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def vc_buf_size(self) -> int: ...
    @vc_buf_size.setter
    def vc_buf_size(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...

class MulticastTrees:
    """
    The trees that a network's route table gives multicasts.
    """
    def __init__(self, network: NetworkSpec) -> None: ...
    def room(
        self,
        source: typing.SupportsInt | typing.SupportsIndex,
        dests: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> int:
        """
        Flits of the smallest VC on the tree; ValueError when the routes are no tree.
        """

class ReductionTrees:
    """
    Where the routes of several nodes to one node join.
    """
    def __init__(self, network: NetworkSpec) -> None: ...
    def joins(
        self,
        dest: typing.SupportsInt | typing.SupportsIndex,
        sources: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> list[int]:
        """
        The routers whose units make a sum, upstream first.
        """

class SessionTrees:
    """
    The links that sessions of a network take.
    """
    def __init__(self, network: NetworkSpec) -> None: ...
    def links(
        self,
        source: typing.SupportsInt | typing.SupportsIndex,
        dests: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> list[tuple[int, int]]:
        """
        The links (router, port) of the tree, ascending.
        """
    def room(
        self,
        source: typing.SupportsInt | typing.SupportsIndex,
        dests: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> int:
        """
        Flits of the largest packet that a session of this tree sends in time.
        """

class FlitNetwork:
    """
    A flit-level network advanced cycle by cycle; see ext/noc.
    """
    def __init__(self, spec: NetworkSpec) -> None: ...
    def connected_counters(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def connected_outputs(self) -> list[tuple[int, int]]: ...
    def load(self, state: bytes) -> None: ...
    def next_event(self) -> int: ...
    def offer(
        self,
        packets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        first_tag: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None:
        """
        Queues rows (create_cycle, source, dest, size_flits, message_class); their tags count from first_tag.
        """
    def offer_reduction(
        self,
        packets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        first_tag: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None:
        """
        Queues rows as offer() takes them: the contributions of one reduction.
        """
    def run(self, before: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Steps through every event before this cycle.
        """
    def save(self) -> bytes: ...
    def step(self, cycle: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def take_arrivals(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Rows (tag, cycle, create_cycle, inject_cycle, hops, flit_latency_sum_cycles) since the last call.
        """
    def take_departures(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Rows (tag, cycle) since the last call.
        """
    def verify_conservation(self) -> str: ...
    def wait_for_cycle(self) -> str: ...
    @property
    def core_bytes(self) -> int: ...
    @property
    def failure(self) -> str: ...
    @property
    def flit_hops(self) -> int: ...
    @property
    def flits_in_flight(self) -> int: ...
    @property
    def idle(self) -> bool: ...
    @property
    def last_cycle(self) -> int: ...
    @property
    def packets_queued(self) -> int: ...
    @property
    def router_pipeline_cycles(self) -> int:
        """
        Cycles that a flit spends in a router without contention.
        """

class LawBrokenError(AssertionError):
    pass

class RoutingError(RuntimeError):
    pass

class TrafficSpec:
    """
    Open-loop synthetic traffic: Bernoulli sources and windows.
    """
    def __init__(self) -> None: ...
    @property
    def dest_sets(self) -> list[list[int]]: ...
    @dest_sets.setter
    def dest_sets(
        self, arg0: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]
    ) -> None: ...
    @property
    def injection_rate(self) -> float: ...
    @injection_rate.setter
    def injection_rate(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None: ...
    @property
    def max_drain_cycles(self) -> int: ...
    @max_drain_cycles.setter
    def max_drain_cycles(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def measure_cycles(self) -> int: ...
    @measure_cycles.setter
    def measure_cycles(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def message_class(self) -> int: ...
    @message_class.setter
    def message_class(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def nodes(self) -> list[int]: ...
    @nodes.setter
    def nodes(self, arg0: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None: ...
    @property
    def packet_size_flits(self) -> int: ...
    @packet_size_flits.setter
    def packet_size_flits(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def permutation(self) -> list[int]: ...
    @permutation.setter
    def permutation(self, arg0: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None: ...
    @property
    def seed(self) -> int: ...
    @seed.setter
    def seed(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def source_sets(self) -> list[list[int]]: ...
    @source_sets.setter
    def source_sets(
        self, arg0: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]
    ) -> None: ...
    @property
    def warmup_cycles(self) -> int: ...
    @warmup_cycles.setter
    def warmup_cycles(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def weights(self) -> list[int]: ...
    @weights.setter
    def weights(self, arg0: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None: ...

class LatencyTerms:
    """
    The terms of a packet's latency, in cycles; they sum to it.
    """
    @property
    def contention_cycles(self) -> int: ...
    @property
    def link_cycles(self) -> int: ...
    @property
    def reduction_wait_cycles(self) -> int: ...
    @property
    def retry_cycles(self) -> int: ...
    @property
    def router_cycles(self) -> int: ...
    @property
    def serialisation_cycles(self) -> int: ...
    @property
    def source_queueing_cycles(self) -> int: ...

class TrafficResult:
    """
    Integer sums of a run of synthetic traffic.
    """
    def network_latency_percentile(self, share: typing.SupportsFloat | typing.SupportsIndex) -> int: ...
    def packet_latency_percentile(self, share: typing.SupportsFloat | typing.SupportsIndex) -> int: ...
    def window_counters(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def batch_packet_latency_sums_cycles(self) -> typing.Annotated[list[int], "FixedSize(20)"]: ...
    @property
    def batch_packets(self) -> typing.Annotated[list[int], "FixedSize(20)"]: ...
    @property
    def core_bytes(self) -> int: ...
    @property
    def created_flits(self) -> int: ...
    @property
    def created_packets(self) -> int: ...
    @property
    def delivered_packets(self) -> int: ...
    @property
    def ejected_flits(self) -> int: ...
    @property
    def ejected_flits_least(self) -> int: ...
    @property
    def end_cycle(self) -> int: ...
    @property
    def flit_hops(self) -> int: ...
    @property
    def flit_latency_sum_cycles(self) -> int: ...
    @property
    def hops_sum(self) -> int: ...
    @property
    def injected_flits(self) -> int: ...
    @property
    def network_latency_sum_cycles(self) -> int: ...
    @property
    def packet_latency_max_cycles(self) -> int: ...
    @property
    def packet_latency_sum_cycles(self) -> int: ...
    @property
    def terms_sum(self) -> LatencyTerms: ...

class TrafficRun:
    """
    Synthetic traffic on an empty network, from cycle 0.
    """
    def __init__(self, network: NetworkSpec, traffic: TrafficSpec) -> None: ...
    def advance(self, max_work: typing.SupportsInt | typing.SupportsIndex) -> bool:
        """
        Runs on for about max_work router cycles; true when complete.
        """
    def connected_outputs(self) -> list[tuple[int, int]]: ...
    def result(self) -> TrafficResult: ...
    def retry_counters(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def cycle(self) -> int: ...
    @property
    def plugin_cost(self) -> PluginCost | None: ...
    @property
    def route_changes_made(self) -> list[int]: ...
    @property
    def router_calls(self) -> int | None: ...

class PacketRun:
    """
    A list of packets on an empty network, from cycle 0.
    """
    def __init__(
        self,
        network: NetworkSpec,
        packets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        dest_sets: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]] = [],
        reductions: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
    ) -> None: ...
    def advance(self, max_work: typing.SupportsInt | typing.SupportsIndex) -> bool:
        """
        Runs on for about max_work flit-hops; true when every packet has arrived.
        """
    def connected_counters(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def connected_outputs(self) -> list[tuple[int, int]]: ...
    def deliveries(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Rows (packet, node, then as records()) of the packets with sets of destinations, by packet and node.
        """
    def records(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Rows (inject_cycle, eject_cycle, hops, then the latency terms), in the order of the packets.
        """
    def reduction_units(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Rows (parts, sums, most_open) of the reduction units, per router.
        """
    def retry_counters(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def session_counters(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Rows (flits, detached_cycles) of sessions, per connected output.
        """
    def session_links(self, tree: typing.SupportsInt | typing.SupportsIndex) -> list[tuple[int, int]]:
        """
        The links (router, port) of a session's tree, ascending.
        """
    def session_nodes(self, tree: typing.SupportsInt | typing.SupportsIndex) -> list[int]:
        """
        The nodes of a session's tree, ascending.
        """
    def sessions(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Rows (source, tree, ask_cycle, grant_cycle, detach_cycle, return_cycle, packets, flits), as they ended.
        """
    @property
    def core_bytes(self) -> int: ...
    @property
    def flit_hops(self) -> int: ...
    @property
    def plugin_cost(self) -> PluginCost | None: ...
    @property
    def route_changes_made(self) -> list[int]: ...
    @property
    def router_calls(self) -> int | None: ...
    @property
    def session_flit_hops(self) -> int: ...

class MemScope:
    """
    Members:

      channel

      pseudo_channel

      stack_id

      other_stack_id

      bank_group

      bank
    """

    __members__: typing.ClassVar[dict[str, MemScope]]
    bank: typing.ClassVar[MemScope]
    bank_group: typing.ClassVar[MemScope]
    channel: typing.ClassVar[MemScope]
    other_stack_id: typing.ClassVar[MemScope]
    pseudo_channel: typing.ClassVar[MemScope]
    stack_id: typing.ClassVar[MemScope]
    @typing.overload
    def __eq__(self, other: MemScope) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: MemScope) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class MemRefresh:
    """
    Members:

      none

      all_bank

      per_bank
    """

    __members__: typing.ClassVar[dict[str, MemRefresh]]
    all_bank: typing.ClassVar[MemRefresh]
    none: typing.ClassVar[MemRefresh]
    per_bank: typing.ClassVar[MemRefresh]
    @typing.overload
    def __eq__(self, other: MemRefresh) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: MemRefresh) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class MemPagePolicy:
    """
    Members:

      open

      closed

      timeout
    """

    __members__: typing.ClassVar[dict[str, MemPagePolicy]]
    closed: typing.ClassVar[MemPagePolicy]
    open: typing.ClassVar[MemPagePolicy]
    timeout: typing.ClassVar[MemPagePolicy]
    @typing.overload
    def __eq__(self, other: MemPagePolicy) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: MemPagePolicy) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class MemKind:
    """
    Members:

      dram

      sram
    """

    __members__: typing.ClassVar[dict[str, MemKind]]
    dram: typing.ClassVar[MemKind]
    sram: typing.ClassVar[MemKind]
    @typing.overload
    def __eq__(self, other: MemKind) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: MemKind) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class MemChannelConfig:
    """
    One memory channel as plain integers; times in ticks.
    """

    coalesce_writes: bool
    kind: MemKind
    log_commands: bool
    page_policy: MemPagePolicy
    reads_return_in_order: bool
    refresh: MemRefresh
    refresh_blocks_channel: bool
    refresh_pairs_pseudo_channels: bool
    shared_command_bus: bool
    shared_queues: bool
    slot_freed_at_act: bool
    ties_by_arrival_tick: bool
    def __init__(self) -> None: ...
    def add_rule(
        self,
        scope: MemScope,
        start: typing.SupportsInt | typing.SupportsIndex,
        to: typing.SupportsInt | typing.SupportsIndex,
        value: typing.SupportsInt | typing.SupportsIndex,
        window: typing.SupportsInt | typing.SupportsIndex = 1,
    ) -> None: ...
    def problems(self) -> str: ...
    @property
    def access_bytes(self) -> int: ...
    @access_bytes.setter
    def access_bytes(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def age_cap(self) -> int: ...
    @age_cap.setter
    def age_cap(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def bank_groups(self) -> int: ...
    @bank_groups.setter
    def bank_groups(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def banks_per_group(self) -> int: ...
    @banks_per_group.setter
    def banks_per_group(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def columns(self) -> int: ...
    @columns.setter
    def columns(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def page_timeout(self) -> int: ...
    @page_timeout.setter
    def page_timeout(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def port_bytes(self) -> int: ...
    @port_bytes.setter
    def port_bytes(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def ports(self) -> int: ...
    @ports.setter
    def ports(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def postponed_refreshes(self) -> int: ...
    @postponed_refreshes.setter
    def postponed_refreshes(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def precharge_ticks(self) -> int: ...
    @precharge_ticks.setter
    def precharge_ticks(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def pseudo_channels(self) -> int: ...
    @pseudo_channels.setter
    def pseudo_channels(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def read_latency(self) -> int: ...
    @read_latency.setter
    def read_latency(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def read_queue(self) -> int: ...
    @read_queue.setter
    def read_queue(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def refresh_all_ticks(self) -> int: ...
    @refresh_all_ticks.setter
    def refresh_all_ticks(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def refresh_bank_ticks(self) -> int: ...
    @refresh_bank_ticks.setter
    def refresh_bank_ticks(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def refresh_interval(self) -> int: ...
    @refresh_interval.setter
    def refresh_interval(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def refresh_set(self) -> int: ...
    @refresh_set.setter
    def refresh_set(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def rising_edge_only(self) -> list[int]: ...
    @rising_edge_only.setter
    def rising_edge_only(self, arg0: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None: ...
    @property
    def rows(self) -> int: ...
    @rows.setter
    def rows(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def slots_per_cycle(self) -> int: ...
    @slots_per_cycle.setter
    def slots_per_cycle(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def stack_ids(self) -> int: ...
    @stack_ids.setter
    def stack_ids(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def write_high(self) -> int: ...
    @write_high.setter
    def write_high(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def write_latency(self) -> int: ...
    @write_latency.setter
    def write_latency(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def write_low(self) -> int: ...
    @write_low.setter
    def write_low(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    @property
    def write_queue(self) -> int: ...
    @write_queue.setter
    def write_queue(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...

class MemAddressMap:
    """
    Byte address to coordinate; every coordinate bit a parity of address bits.
    """
    def __init__(
        self,
        sizes: typing.Annotated[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(7)"],
        access_bytes: typing.SupportsInt | typing.SupportsIndex,
        bits: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
            ]
        ],
    ) -> None: ...
    def decode(
        self, arg0: typing.SupportsInt | typing.SupportsIndex
    ) -> typing.Annotated[list[int], "FixedSize(7)"]: ...
    def encode(
        self,
        arg0: typing.Annotated[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(7)"],
    ) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...

class MemController:
    """
    One memory channel; driven tick by tick or event by event.
    """
    def __init__(self, arg0: MemChannelConfig) -> None: ...
    def advance(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def banks(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, numpy.ndarray]: ...
    def can_accept(
        self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: typing.SupportsInt | typing.SupportsIndex
    ) -> bool: ...
    def cancel(
        self,
        arg0: typing.SupportsInt | typing.SupportsIndex,
        arg1: typing.SupportsInt | typing.SupportsIndex,
        arg2: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def counters(self) -> dict[str, int]: ...
    def describe_wait(self) -> str: ...
    def load(self, arg0: bytes) -> bool: ...
    def next_event(self) -> int | None: ...
    def next_progress(self) -> int | None: ...
    def normalise(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def queued(self) -> int: ...
    def refreshes(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def release_slot(
        self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: typing.SupportsInt | typing.SupportsIndex
    ) -> None: ...
    def save(self) -> bytes: ...
    def set_return_slots(
        self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: typing.SupportsInt | typing.SupportsIndex
    ) -> None: ...
    def take_commands(self) -> dict[str, numpy.ndarray]: ...
    def take_completions(self) -> dict[str, numpy.ndarray]: ...
    def try_accept(
        self,
        op: typing.SupportsInt | typing.SupportsIndex,
        pseudo_channel: typing.SupportsInt | typing.SupportsIndex,
        stack_id: typing.SupportsInt | typing.SupportsIndex,
        bank_group: typing.SupportsInt | typing.SupportsIndex,
        bank: typing.SupportsInt | typing.SupportsIndex,
        row: typing.SupportsInt | typing.SupportsIndex,
        column: typing.SupportsInt | typing.SupportsIndex,
        tag: typing.SupportsInt | typing.SupportsIndex,
        tick: typing.SupportsInt | typing.SupportsIndex,
        priority: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> bool: ...
    def verify_conservation(self) -> str: ...

class MemReplay:
    """
    Plays a table of requests through the channels of a memory.
    """
    def __init__(
        self,
        config: MemChannelConfig,
        channels: typing.SupportsInt | typing.SupportsIndex,
        table: dict[str, numpy.ndarray],
        address_map: MemAddressMap | None = None,
        skipping: bool = False,
    ) -> None: ...
    def accept_tick(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def any_open_ticks(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def banks(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, numpy.ndarray]: ...
    def commands(self) -> dict[str, numpy.ndarray]: ...
    def counters(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, int]: ...
    def done_tick(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def issue_tick(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def recent_commands(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, numpy.ndarray]: ...
    def refreshes(
        self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: typing.SupportsInt | typing.SupportsIndex
    ) -> int: ...
    def row_result(self) -> numpy.typing.NDArray[numpy.uint8]: ...
    def run(self, events: typing.SupportsInt | typing.SupportsIndex) -> bool: ...
    def set_return_buffer(
        self, slots: typing.SupportsInt | typing.SupportsIndex, ticks: typing.SupportsInt | typing.SupportsIndex
    ) -> None:
        """
        Reads go through a buffer of so many slots a pseudo-channel (0: any number), each free `ticks` after the last beat; the channels then go event by event.
        """
    def verify_conservation(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def finished_bursts(self) -> int: ...
    @property
    def periodic(self) -> bool: ...
    @property
    def skipped_bursts(self) -> int: ...
    @property
    def total_ticks(self) -> int: ...

class MemoryPluginError(RuntimeError):
    pass

class MemoryPlugin:
    """
    A memory plug-in: the address of its table of functions, its parameters, and what it is to be.
    """
    def __init__(
        self,
        table: typing.SupportsInt | typing.SupportsIndex,
        params: str,
        preset: str,
        peak_bytes_per_second: typing.SupportsInt | typing.SupportsIndex,
        tick_fs_num: typing.SupportsInt | typing.SupportsIndex,
        tick_fs_den: typing.SupportsInt | typing.SupportsIndex,
        library: typing.Any,
    ) -> None:
        """
        `table` must stay valid as long as `library` lives.
        """
    def serve(self, config: MemChannelConfig) -> None:
        """
        Channels of this configuration are made by the plug-in.
        """

class DeadlockError(RuntimeError):
    pass

class LivelockError(RuntimeError):
    pass

class TaskKind:
    """
    Members:

      transfer

      fetch

      compute

      delay

      decision

      copy

      revoke

      stream
    """

    __members__: typing.ClassVar[dict[str, TaskKind]]
    compute: typing.ClassVar[TaskKind]
    copy: typing.ClassVar[TaskKind]
    decision: typing.ClassVar[TaskKind]
    delay: typing.ClassVar[TaskKind]
    fetch: typing.ClassVar[TaskKind]
    revoke: typing.ClassVar[TaskKind]
    stream: typing.ClassVar[TaskKind]
    transfer: typing.ClassVar[TaskKind]
    @typing.overload
    def __eq__(self, other: TaskKind) -> bool: ...
    @typing.overload
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    @typing.overload
    def __ne__(self, other: TaskKind) -> bool: ...
    @typing.overload
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class Engine:
    """
    Advances network, memory and compute nodes to the next decision.
    """

    skipping: bool
    def __init__(self) -> None: ...
    def add_compute(
        self,
        *,
        clock: Clock,
        tile_bytes: typing.SupportsInt | typing.SupportsIndex,
        buffer_tiles: typing.SupportsInt | typing.SupportsIndex,
        grant_latency_cycles: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def add_flit_network(
        self,
        *,
        graph: NetworkSpec,
        clock: Clock,
        flit_bytes: typing.SupportsInt | typing.SupportsIndex,
        header_bytes: typing.SupportsInt | typing.SupportsIndex,
        max_packet_flits: typing.SupportsInt | typing.SupportsIndex,
        message_classes: typing.SupportsInt | typing.SupportsIndex,
        endpoint_node: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        endpoint_terminals: collections.abc.Sequence[
            collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
        ],
        name: str = "",
        livelock_cycles: typing.SupportsInt | typing.SupportsIndex = 1000000,
        legs: typing.SupportsInt | typing.SupportsIndex = 1,
        descends: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
        gateways: collections.abc.Sequence[
            tuple[typing.SupportsInt | typing.SupportsIndex, Clock, typing.SupportsInt | typing.SupportsIndex]
        ] = [],
        nodes: typing.SupportsInt | typing.SupportsIndex = 0,
        gateway_towards: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
        payload_towards: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
    ) -> int: ...
    def add_gateway(
        self,
        *,
        name: str,
        clock: Clock,
        from_clock: Clock,
        from_network: typing.SupportsInt | typing.SupportsIndex,
        to_network: typing.SupportsInt | typing.SupportsIndex,
        from_flit_bytes: typing.SupportsInt | typing.SupportsIndex,
        from_header_bytes: typing.SupportsInt | typing.SupportsIndex,
        to_flit_bytes: typing.SupportsInt | typing.SupportsIndex,
        to_header_bytes: typing.SupportsInt | typing.SupportsIndex,
        synchroniser_cycles: typing.SupportsInt | typing.SupportsIndex,
        grant_latency_cycles: typing.SupportsInt | typing.SupportsIndex,
        buffer_bytes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    ) -> int: ...
    def add_group(self, nodes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> int:
        """
        The number of a set of nodes, for the column `group` of streams and transfers.
        """
    def add_link_network(
        self,
        *,
        routers: typing.SupportsInt | typing.SupportsIndex,
        link_bytes_per_second: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        link_target: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        next_link: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        endpoint_node: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        endpoint_router: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        chunks_per_message: typing.SupportsInt | typing.SupportsIndex,
        hop_latency_fs: typing.SupportsInt | typing.SupportsIndex,
        message_classes: typing.SupportsInt | typing.SupportsIndex,
        unicast_classes: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def add_memory(
        self,
        *,
        clock: Clock,
        channels: typing.SupportsInt | typing.SupportsIndex,
        read_return_slots: typing.SupportsInt | typing.SupportsIndex,
        packet_payload_bytes: typing.SupportsInt | typing.SupportsIndex,
        grant_latency_fs: typing.SupportsInt | typing.SupportsIndex,
        network: typing.SupportsInt | typing.SupportsIndex,
        channel: MemChannelConfig,
        address_map: MemAddressMap,
        near_reader: typing.SupportsInt | typing.SupportsIndex = -1,
        near_path: typing.SupportsInt | typing.SupportsIndex = -1,
    ) -> int: ...
    def add_near_path(
        self,
        *,
        bytes_per_second: typing.SupportsInt | typing.SupportsIndex,
        latency_fs: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def add_rate_memory(
        self,
        *,
        clock: Clock,
        bytes_per_second: typing.SupportsInt | typing.SupportsIndex,
        latency_fs: typing.SupportsInt | typing.SupportsIndex,
        grant_latency_fs: typing.SupportsInt | typing.SupportsIndex,
        copy_chunk_bytes: typing.SupportsInt | typing.SupportsIndex,
        network: typing.SupportsInt | typing.SupportsIndex,
        near_reader: typing.SupportsInt | typing.SupportsIndex = -1,
        near_path: typing.SupportsInt | typing.SupportsIndex = -1,
    ) -> int: ...
    def compute_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def flit_network_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def form(self) -> tuple[int, numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]: ...
    def gateway_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def has_form(
        self,
        now: typing.SupportsInt | typing.SupportsIndex,
        same: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        grows: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    ) -> bool: ...
    def journal(self) -> dict[str, typing.Any]: ...
    def keep_journal(self, limit: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def layout(self) -> dict[str, typing.Any]: ...
    def leave_out(self, part: str) -> None: ...
    def link_network_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def load(self, data: bytes) -> None: ...
    def memory_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def memory_totals(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def near_path_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def rate_memory_statistics(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> dict[str, typing.Any]: ...
    def run(
        self, drain: bool = False, slice: typing.SupportsInt | typing.SupportsIndex = 20000
    ) -> tuple[typing.Any, ...]: ...
    def save(self) -> bytes: ...
    def set_every_edge(self, on: bool) -> None: ...
    def set_lockstep(self, on: bool) -> None: ...
    def set_order(self, order: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None: ...
    def skip_report(self) -> dict[str, typing.Any]: ...
    def step(self, instants: typing.SupportsInt | typing.SupportsIndex, drain: bool = False) -> bool: ...
    def stepped_bursts(self, node: typing.SupportsInt | typing.SupportsIndex) -> int: ...
    def submit(
        self,
        columns: dict[str, typing.Any],
        before: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        after: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        effective_fs: typing.SupportsInt | typing.SupportsIndex,
    ) -> int: ...
    def take_records(self) -> dict[str, typing.Any]: ...
    @property
    def instants(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def now_fs(self) -> int: ...
    @property
    def unfinished_tasks(self) -> int: ...

MEM_COMMANDS: list[typing.Any] = ["ACT", "PREpb", "PREab", "RD", "WR", "RDA", "WRA", "REFab", "REFpb"]
NO_EVENT: int = 9223372036854775807
__version__: str = "0.1.0"
faults_compiled: bool = False
