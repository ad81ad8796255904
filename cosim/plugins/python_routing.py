"""Routing written in Python: a function or a class behind the same table of functions as a C plug-in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cosim.plugins import headers
from cosim.plugins.python_table import PythonTable, parameters_of, qualified_name
from cosim.plugins.shared_object import LoadedTable, c_text

__all__ = ["ALL_VCS", "RouteRequest", "Topology", "from_address", "from_python", "stateless"]

HEADER = "cosim_router.h"
ALL_VCS = (1 << 64) - 1
"""The VC mask of a candidate that may take every VC of its packet's class."""

_Routing = TypeVar("_Routing", bound=Callable[..., Any])


def stateless(routing: _Routing) -> _Routing:
    """Declare that a routing function or class keeps nothing from call to call and does not read ``request.cycle``.

    A run can then be saved, and a network in which nothing can move is known to be deadlocked at once.
    """
    routing.cosim_stateless = True  # type: ignore[attr-defined]
    return routing


class Topology:
    """The network as a routing sees it; does not change during a run."""

    def __init__(self, ffi: Any, topology: Any) -> None:
        t = topology
        outputs = t.n_nodes * t.max_ports
        self.kind: str = c_text(ffi, t.kind)
        self.dims: tuple[int, ...] = tuple(t.dims[0 : t.n_dims]) if t.n_dims else ()
        self.routers: int = t.n_nodes
        self.endpoints: int = t.n_endpoints
        self.ports: int = t.max_ports
        self.num_vcs: int = t.n_vcs
        self.classes: int = t.n_classes
        self.flit_bytes: int = t.flit_bytes
        self._neighbor: list[int] = list(t.neighbor[0:outputs])
        self._neighbor_port: list[int] = list(t.neighbor_port[0:outputs])
        self._latency: list[int] = list(t.link_latency[0:outputs])
        self._ejection: list[int] = list(t.ejection[0 : t.n_endpoints])
        self._class_vcs: list[int] = list(t.class_vcs[0 : t.n_classes])

    def neighbor(self, router: int, port: int) -> int | None:
        """The router behind an output port; None where there is no link."""
        found = self._neighbor[router * self.ports + port]
        return None if found == 0xFFFFFFFF else found

    def neighbor_port(self, router: int, port: int) -> int:
        """The input port at the far end of an output port's link."""
        return self._neighbor_port[router * self.ports + port]

    def link_latency(self, router: int, port: int) -> int:
        """Cycles of an output port's link."""
        return self._latency[router * self.ports + port]

    def router_of(self, endpoint: int) -> int:
        """The router of an endpoint (a node of the network)."""
        return self._ejection[endpoint] // self.ports

    def ejection_port(self, endpoint: int) -> int:
        """The port at which its router ejects to an endpoint."""
        return self._ejection[endpoint] % self.ports

    def class_vcs(self, class_id: int) -> int:
        """The VCs of a message class, as a mask."""
        return self._class_vcs[class_id]


class RouteRequest:
    """One head flit that asks for an output; valid during the call only.

    What decides an oblivious routing: ``router``, ``in_port``, ``dst``, ``class_id`` and ``topology``. Whoever reads
    anything else of the packet or of the router is asked for every head; else the answer is kept and not asked for
    again.
    """

    __slots__ = ("_kept", "_request", "_view", "class_id", "dst", "in_port", "router", "topology")

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.router = 0
        self.in_port = 0
        self.dst = 0
        self.class_id = 0
        self._kept = True
        self._request: Any = None
        self._view: Any = None

    def _of(self, field: str) -> int:
        self._kept = False
        return int(getattr(self._request, field))

    @property
    def in_vc(self) -> int:
        """VC in which the packet came."""
        return self._of("in_vc")

    @property
    def src(self) -> int:
        """Endpoint that sent the packet."""
        return self._of("src")

    @property
    def hops(self) -> int:
        """Routers visited before this one."""
        return self._of("hops")

    @property
    def packet_flits(self) -> int:
        """Size of the packet."""
        return self._of("packet_flits")

    @property
    def cycle(self) -> int:
        """The present cycle."""
        return self._of("cycle")

    @property
    def packet_id(self) -> int:
        """Number of the packet, from 0, in the order of the offers."""
        return self._of("packet_id")

    @property
    def rand(self) -> int:
        """64 random bits of this packet at this router: the only randomness that keeps a run repeatable."""
        return self._of("rand")

    def credits(self, port: int, vc: int) -> int:
        """Free slots downstream of an output VC, in flits."""
        self._check(port, vc)
        return int(self._view.credits[port * self.topology.num_vcs + vc])

    def out_queue(self, port: int) -> int:
        """Flits in this router's buffers that were routed to an output port."""
        self._check(port, 0)
        return int(self._view.out_queue[port])

    def link_up(self, port: int) -> bool:
        """Whether an output port has a link that has not failed."""
        self._check(port, 0)
        return bool(self._view.link_up[port])

    def _check(self, port: int, vc: int) -> None:
        # the arrays are C's: an index outside would read something else
        self._kept = False
        if not 0 <= port < self.topology.ports or not 0 <= vc < self.topology.num_vcs:
            raise IndexError(
                f"port {port}, VC {vc}: expected a port below {self.topology.ports} and a VC below "
                f"{self.topology.num_vcs}"
            )


def from_python(routing: Callable[..., Any], name: str | None = None) -> LoadedTable:
    """A routing of this process as a table of functions.

    Args:
        routing: a function ``route(request, **params)``, or a class ``Routing(topology, **params)`` with a method
            ``route(request)``. It returns an output port, or candidates in the order of preference, each a port,
            ``(port, vcs)`` or ``(port, vcs, priority)`` with ``vcs`` a mask or a list; None to be asked again.
        name: what errors call it; defaults to its own.
    """
    made = PythonTable("routing", routing, name or qualified_name(routing))
    ffi = made.ffi

    def route(handle: Any, request: Any, view: Any, out: Any, cap: int) -> int:
        instance: _Instance = ffi.from_handle(handle)
        return instance.route(request, view, out, cap)

    made.set_lifetime(lambda topology, params: _Instance(routing, Topology(ffi, topology), params))
    made.set("route", route, headers.constant(HEADER, "COSIM_E_INTERNAL"))
    caps = ("stateless",) if getattr(routing, "cosim_stateless", False) else ()
    kind = "Python class" if inspect.isclass(routing) else "Python function"
    return made.finish(caps, parameters_of(routing), kind)


def from_address(function: Any, name: str, *, pure: bool = False) -> LoadedTable:
    """A compiled routing function of this process, such as a numba cfunc, as a table of functions.

    Args:
        function: has ``address``, that of an ``int32_t route(void *self, const cosim_route_req *, const
            cosim_router_view *, cosim_candidate *, uint32_t cap)``; ``self`` is no pointer to anything.
        name: what errors call it.
        pure: whether it depends on node, in_port, dst and class_id only, and never stalls.
    """
    made = PythonTable("routing", function, name)
    made.set_lifetime(lambda topology, params: function)
    made.table.route = made.ffi.cast(made.ffi.typeof(made.table.route), int(function.address))
    return made.finish(("pure", "stateless") if pure else (), (), "compiled function")


class _Instance:
    """One simulation's instance of a Python routing."""

    def __init__(self, routing: Callable[..., Any], topology: Topology, params: Mapping[str, Any]) -> None:
        self.request = RouteRequest(topology)
        self.params: Mapping[str, Any] = {}
        if inspect.isclass(routing):
            made: Any = routing
            self.function: Callable[..., Any] = made(topology, **params).route
        else:
            self.function = routing
            self.params = params
        self.always = headers.constant(HEADER, "COSIM_ROUTE_ALWAYS")

    def route(self, raw: Any, view: Any, out: Any, cap: int) -> int:
        request = self.request
        request._request, request._view, request._kept = raw, view, True
        request.router, request.in_port, request.dst, request.class_id = raw.node, raw.in_port, raw.dst, raw.class_id
        said = self.function(request, **self.params)
        if said is None:
            return 0
        if isinstance(said, int):
            slot = out[0]
            slot.port, slot.vc_mask, slot.priority = said, ALL_VCS, 0
            return 1 | self.always if request._kept else 1
        count = 0
        for each in said:
            if count == cap:
                raise ValueError(f"more than {cap} candidates")
            slot = out[count]
            slot.port, slot.vc_mask, slot.priority = _candidate(each)
            count += 1
        return count | self.always if request._kept and count else count


def _candidate(said: Any) -> tuple[int, int, int]:
    if isinstance(said, int):
        return said, ALL_VCS, 0
    if not isinstance(said, tuple) or not 2 <= len(said) <= 3:
        raise TypeError(f"a candidate is a port, (port, vcs) or (port, vcs, priority), not {said!r}")
    port, vcs = said[0], said[1]
    mask = vcs if isinstance(vcs, int) else sum(1 << vc for vc in set(vcs))
    return port, mask, said[2] if len(said) == 3 else 0
