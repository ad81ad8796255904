"""A slow, obvious model of the network: explicit queues, credit counters and request lists, all visited every cycle.

It is written from the router's description (docs/network.md), shares no code and no data layout with the core, and is
what the core is compared with packet by packet.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Flit:
    packet: int
    head: bool
    tail: bool


@dataclass
class Packet:
    create: int
    source: int
    dest: int
    size: int
    message_class: int = 0
    inject: int = -1
    eject: int = -1
    hops: int = 0


@dataclass(frozen=True)
class Link:
    source: int
    source_port: int
    dest: int
    dest_port: int
    latency: int
    buffer_flits: int


@dataclass
class InputVc:
    queue: deque[Flit] = field(default_factory=deque)
    state: str = "idle"  # idle -> waiting for an output VC -> active
    ready: int = 0  # first cycle in which the state may act
    output: int = -1
    output_vc: int = -1


def islip(requests: dict[int, list[int]], grant: dict[int, int], accept: dict[int, int], size: int) -> dict[int, int]:
    """One iteration: requester -> accepted resource. Pointers move only on acceptance."""

    def first_from(candidates: list[int], pointer: int) -> int:
        return min(candidates, key=lambda c: (c - pointer) % size)

    by_resource: dict[int, list[int]] = defaultdict(list)
    for requester, resources in requests.items():
        for resource in resources:
            by_resource[resource].append(requester)
    granted: dict[int, list[int]] = defaultdict(list)
    for resource, requesters in by_resource.items():
        granted[first_from(requesters, grant[resource])].append(resource)
    matching = {}
    for requester, resources in granted.items():
        resource = first_from(resources, accept[requester])
        matching[requester] = resource
        grant[resource] = (requester + 1) % size
        accept[requester] = (resource + 1) % size
    assert len(set(matching.values())) == len(matching), "an allocator must yield a matching"
    return matching


@dataclass
class Reference:
    """routers with `ports` ports; terminals[i] = (router, port); route(router, dest) -> output port."""

    routers: int
    ports: int
    links: list[Link]
    terminals: list[tuple[int, int]]
    route: Callable[[int, int], int]
    vcs: int = 4
    buffer_flits: int = 8
    routing_delay: int = 1
    vc_alloc_delay: int = 1
    sw_alloc_delay: int = 1
    traversal: int = 1
    credit_delay: int = 1
    class_vcs: list[list[int]] | None = None
    priorities: list[int] | None = None

    def __post_init__(self) -> None:
        self.inputs = {
            (r, p, v): InputVc() for r in range(self.routers) for p in range(self.ports) for v in range(self.vcs)
        }
        self.out_link = {(k.source, k.source_port): k for k in self.links}
        self.in_link = {(k.dest, k.dest_port): k for k in self.links}
        self.node_at = {place: n for n, place in enumerate(self.terminals)}
        self.credits: dict[tuple[int, int, int], int] = {}
        for (r, p), link in self.out_link.items():
            for v in range(self.vcs):
                self.credits[r, p, v] = link.buffer_flits
        for r, p in self.terminals:
            for v in range(self.vcs):
                self.credits[r, p, v] = self.buffer_flits
        self.source_credits = {(n, v): self.buffer_flits for n in range(len(self.terminals)) for v in range(self.vcs)}
        self.owner: dict[tuple[int, int, int], tuple[int, int] | None] = dict.fromkeys(self.credits)
        self.va_grant: list[dict[int, int]] = [defaultdict(int) for _ in range(self.routers)]
        self.va_accept: list[dict[int, int]] = [defaultdict(int) for _ in range(self.routers)]
        self.sa_grant: list[dict[int, int]] = [defaultdict(int) for _ in range(self.routers)]
        self.sa_accept: list[dict[int, int]] = [defaultdict(int) for _ in range(self.routers)]
        self.sa_vc: list[dict[int, int]] = [defaultdict(int) for _ in range(self.routers)]
        self.flits_due: dict[int, list[tuple[tuple[int, int, int], Flit]]] = defaultdict(list)
        self.credits_due: dict[int, list[tuple[str, tuple[int, ...]]]] = defaultdict(list)
        self.class_vcs = self.class_vcs or [list(range(self.vcs))]
        self.priorities = self.priorities or [0] * len(self.class_vcs)

    def run(self, packets: list[Packet], limit: int = 100_000) -> None:
        self.packets = packets
        classes = len(self.class_vcs or [])
        self.fifo = {(n, c): deque[int]() for n in range(len(self.terminals)) for c in range(classes)}
        for i, p in enumerate(packets):
            self.fifo[p.source, p.message_class].append(i)
        self.sending: dict[tuple[int, int], tuple[int, int]] = {}  # (node, class) -> flits left, VC
        self.last_vc: dict[tuple[int, int], int] = {}
        self.turn = dict.fromkeys(range(len(self.terminals)), 0)
        cycle = 0
        while any(p.eject < 0 for p in packets):
            assert cycle < limit, "the reference model does not end"
            self.step(cycle)
            cycle += 1

    def step(self, t: int) -> None:
        for kind, place in self.credits_due.pop(t, []):
            if kind == "source":
                self.source_credits[place[0], place[1]] += 1
            else:
                self.credits[place[0], place[1], place[2]] += 1
        for place, flit in self.flits_due.pop(t, []):
            vc = self.inputs[place]
            vc.queue.append(flit)
            link = self.in_link.get(place[:2])
            assert len(vc.queue) <= (link.buffer_flits if link else self.buffer_flits)
        self.compute_routes(t)
        for node in range(len(self.terminals)):
            self.inject(node, t)
        for router in range(self.routers):
            self.allocate_vcs(router, t)
        for router in range(self.routers):
            self.allocate_switch(router, t)

    def compute_routes(self, t: int) -> None:
        for (router, _, _), vc in self.inputs.items():
            if vc.state == "idle" and vc.queue:
                assert vc.queue[0].head
                packet = self.packets[vc.queue[0].packet]
                packet.hops += 1
                vc.output = self.route(router, packet.dest)
                vc.state, vc.ready = "waiting", t + self.routing_delay

    def inject(self, node: int, t: int) -> None:
        assert self.class_vcs is not None
        assert self.priorities is not None
        classes = len(self.class_vcs)
        order = sorted(range(classes), key=lambda c: -self.priorities[c])
        # classes of equal priority take turns: the search starts behind the one that sent last
        last = self.turn[node]
        groups: dict[int, list[int]] = defaultdict(list)
        for c in order:
            groups[self.priorities[c]].append(c)
        for priority in sorted(groups, reverse=True):
            group = groups[priority]
            start = group.index(last - 1) + 1 if last - 1 in group else 0
            for c in group[start:] + group[:start]:
                if self.inject_class(node, c, t):
                    self.turn[node] = c + 1
                    return

    def inject_class(self, node: int, c: int, t: int) -> bool:
        assert self.class_vcs is not None
        fifo = self.fifo[node, c]
        if not fifo:
            return False
        number = fifo[0]
        packet = self.packets[number]
        if (node, c) in self.sending:
            left, vc = self.sending[node, c]
            if self.source_credits[node, vc] == 0:
                return False
        else:
            if packet.create > t:
                return False
            allowed = self.class_vcs[c]
            last = self.last_vc.get((node, c), -1)
            order = [v for v in allowed if v > last] + [v for v in allowed if v <= last]
            free = [v for v in order if self.source_credits[node, v] > 0]
            if not free:
                return False
            vc, left = free[0], packet.size
            self.last_vc[node, c] = vc
            packet.inject = t
        router, port = self.terminals[node]
        flit = Flit(number, left == packet.size, left == 1)
        self.source_credits[node, vc] -= 1
        self.flits_due[t + 2].append(((router, port, vc), flit))
        if left == 1:
            self.sending.pop((node, c), None)
            fifo.popleft()
        else:
            self.sending[node, c] = (left - 1, vc)
        return True

    def allocate_vcs(self, router: int, t: int) -> None:
        assert self.class_vcs is not None
        requests: dict[int, list[int]] = {}
        for p in range(self.ports):
            for v in range(self.vcs):
                vc = self.inputs[router, p, v]
                if vc.state == "waiting" and vc.ready <= t:
                    allowed = self.class_vcs[self.packets[vc.queue[0].packet].message_class]
                    free = [w for w in allowed if self.owner[router, vc.output, w] is None]
                    requests[p * self.vcs + v] = [vc.output * self.vcs + w for w in free]
        size = self.ports * self.vcs
        for requester, resource in islip(requests, self.va_grant[router], self.va_accept[router], size).items():
            p, v = divmod(requester, self.vcs)
            vc = self.inputs[router, p, v]
            vc.output_vc = resource % self.vcs
            vc.state, vc.ready = "active", t + self.vc_alloc_delay
            self.owner[router, vc.output, vc.output_vc] = (p, v)

    def allocate_switch(self, router: int, t: int) -> None:
        candidates: dict[tuple[int, int], list[int]] = defaultdict(list)
        for p in range(self.ports):
            for v in range(self.vcs):
                vc = self.inputs[router, p, v]
                ready = vc.state == "active" and vc.ready <= t and bool(vc.queue)
                if ready and self.credits[router, vc.output, vc.output_vc] > 0:
                    candidates[p, vc.output].append(v)
        requests: dict[int, list[int]] = defaultdict(list)
        chosen = {}
        for (p, o), vcs in candidates.items():
            chosen[p, o] = min(vcs, key=lambda v: (v - self.sa_vc[router][p]) % self.vcs)
            requests[p].append(o)
        matching = islip(requests, self.sa_grant[router], self.sa_accept[router], self.ports)
        for p, o in matching.items():
            v = chosen[p, o]
            self.sa_vc[router][p] = (v + 1) % self.vcs
            self.move(router, p, v, t)

    def move(self, router: int, p: int, v: int, t: int) -> None:
        vc = self.inputs[router, p, v]
        flit = vc.queue.popleft()
        out = (router, vc.output, vc.output_vc)
        self.credits[out] -= 1
        if (router, p) in self.in_link:
            link = self.in_link[router, p]
            place = (link.source, link.source_port, v)
            self.credits_due[t + link.latency + 1 + self.credit_delay].append(("router", place))
        else:
            self.credits_due[t + 2].append(("source", (self.node_at[router, p], v)))
        sent = t + self.sw_alloc_delay - 1 + self.traversal
        if (router, vc.output) in self.out_link:
            link = self.out_link[router, vc.output]
            self.flits_due[sent + link.latency + 1].append(((link.dest, link.dest_port, vc.output_vc), flit))
        else:
            self.credits_due[sent + 4 + self.credit_delay].append(("router", out))
            if flit.tail:
                self.packets[flit.packet].eject = sent + 2
        if flit.tail:
            self.owner[out] = None
            # the packet behind is routed from the next cycle on
            vc.state = "idle"


def mesh(shape: list[int], latencies: list[int], buffer_flits: int) -> dict[str, object]:
    """Keyword arguments of `Reference` for a mesh with dimension-order routing, dimension 0 first."""
    routers = 1
    for k in shape:
        routers *= k
    strides = [1]
    for k in shape:
        strides.append(strides[-1] * k)
    node_port = 2 * len(shape)

    def at(router: int, d: int) -> int:
        return router // strides[d] % shape[d]

    def route(router: int, dest: int) -> int:
        for d in range(len(shape)):
            if at(router, d) != at(dest, d):
                return 2 * d + (at(dest, d) < at(router, d))
        return node_port

    links = []
    for r in range(routers):
        for d, k in enumerate(shape):
            if at(r, d) + 1 < k:
                links.append(Link(r, 2 * d, r + strides[d], 2 * d + 1, latencies[d], buffer_flits))
                links.append(Link(r + strides[d], 2 * d + 1, r, 2 * d, latencies[d], buffer_flits))
    return {
        "routers": routers,
        "ports": node_port + 1,
        "links": links,
        "terminals": [(r, node_port) for r in range(routers)],
        "route": route,
    }
