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


class Arbiter:
    """Round robin, or least recently served first (a matrix arbiter); of equal keys alone, the smallest goes first."""

    def __init__(self, size: int, matrix: bool) -> None:
        self.size = size
        self.matrix = matrix
        self.order = list(reversed(range(size)))  # a matrix begins with the largest number
        self.pointer = 0

    def pick(self, keys: dict[int, int]) -> int:
        best = [c for c in keys if keys[c] == min(keys.values())]
        if self.matrix:
            return min(best, key=self.order.index)
        return min(best, key=lambda c: (c - self.pointer) % self.size)

    def served(self, c: int) -> None:
        self.order.remove(c)
        self.order.append(c)
        self.pointer = (c + 1) % self.size


class AllocatorModel:
    """islip, separable_input_first or separable_output_first over `size` requesters and resources."""

    def __init__(self, kind: str, size: int, iterations: int = 1, matrix: bool = False) -> None:
        matrix = matrix and kind != "islip"
        self.kind = kind
        self.iterations = iterations
        self.of_requester: dict[int, Arbiter] = defaultdict(lambda: Arbiter(size, matrix))
        self.of_resource: dict[int, Arbiter] = defaultdict(lambda: Arbiter(size, matrix))

    def match(self, requests: dict[int, dict[int, int]]) -> dict[int, int]:
        """requests[requester][resource] = key, used on both sides. Returns requester -> resource."""
        matching: dict[int, int] = {}
        if self.kind == "separable_input_first":
            forward: dict[int, dict[int, int]] = defaultdict(dict)
            for requester, keys in requests.items():
                if keys:
                    resource = self.of_requester[requester].pick(keys)
                    forward[resource][requester] = keys[resource]
            for resource, rivals in forward.items():
                self.pair(matching, self.of_resource[resource].pick(rivals), resource, moves=True)
            return matching
        for iteration in range(self.iterations if self.kind == "islip" else 1):
            asked: dict[int, dict[int, int]] = defaultdict(dict)
            for requester, keys in requests.items():
                for resource, key in keys.items():
                    if requester not in matching and resource not in matching.values():
                        asked[resource][requester] = key
            grants: dict[int, dict[int, int]] = defaultdict(dict)
            for resource, rivals in asked.items():
                requester = self.of_resource[resource].pick(rivals)
                grants[requester][resource] = rivals[requester]
            for requester, offers in grants.items():
                self.pair(matching, requester, self.of_requester[requester].pick(offers), moves=iteration == 0)
        return matching

    def pair(self, matching: dict[int, int], requester: int, resource: int, *, moves: bool) -> None:
        assert requester not in matching
        assert resource not in matching.values(), "an allocator must yield a matching"
        matching[requester] = resource
        if moves:
            self.of_requester[requester].served(resource)
            self.of_resource[resource].served(requester)


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
    vc_allocator: str = "islip"
    sw_allocator: str = "islip"
    alloc_iters: int = 1
    matrix: bool = False
    oldest_first: bool = False
    speculative: bool = False
    wait_for_tail_credit: bool = False

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
        size = self.ports * self.vcs
        self.va = [AllocatorModel(self.vc_allocator, size, self.alloc_iters, self.matrix) for _ in range(self.routers)]
        self.sa = [
            AllocatorModel(self.sw_allocator, self.ports, self.alloc_iters, self.matrix) for _ in range(self.routers)
        ]
        self.speculating: list[dict[tuple[int, int], int]] = [{} for _ in range(self.routers)]
        self.source_owned: set[tuple[int, int]] = set()
        self.sa_vc: list[dict[int, int]] = [defaultdict(int) for _ in range(self.routers)]
        self.flits_due: dict[int, list[tuple[tuple[int, int, int], Flit]]] = defaultdict(list)
        self.credits_due: dict[int, list[tuple[str, tuple[int, ...], bool]]] = defaultdict(list)
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
        for kind, place, tail in self.credits_due.pop(t, []):
            if kind == "source":
                self.source_credits[place[0], place[1]] += 1
                if tail:
                    self.source_owned.discard((place[0], place[1]))
            else:
                self.credits[place[0], place[1], place[2]] += 1
                if tail and self.wait_for_tail_credit:
                    self.owner[place[0], place[1], place[2]] = None
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
            free = [v for v in order if self.source_credits[node, v] > 0 and (node, v) not in self.source_owned]
            if not free:
                return False
            vc, left = free[0], packet.size
            self.last_vc[node, c] = vc
            if self.wait_for_tail_credit:
                self.source_owned.add((node, vc))
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

    def age(self, vc: InputVc) -> int:
        return self.packets[vc.queue[0].packet].create if self.oldest_first else 0

    def allocate_vcs(self, router: int, t: int) -> None:
        assert self.class_vcs is not None
        requests: dict[int, dict[int, int]] = {}
        self.speculating[router] = {}
        for p in range(self.ports):
            for v in range(self.vcs):
                vc = self.inputs[router, p, v]
                if vc.state == "waiting" and vc.ready <= t:
                    allowed = self.class_vcs[self.packets[vc.queue[0].packet].message_class]
                    free = [w for w in allowed if self.owner[router, vc.output, w] is None]
                    requests[p * self.vcs + v] = {vc.output * self.vcs + w: self.age(vc) for w in free}
                    if self.speculative and any(self.credits[router, vc.output, w] > 0 for w in free):
                        self.speculating[router][p, v] = vc.output
        for requester, resource in self.va[router].match(requests).items():
            p, v = divmod(requester, self.vcs)
            vc = self.inputs[router, p, v]
            vc.output_vc = resource % self.vcs
            vc.state, vc.ready = "active", t + self.vc_alloc_delay
            self.owner[router, vc.output, vc.output_vc] = (p, v)

    def allocate_switch(self, router: int, t: int) -> None:
        speculating = self.speculating[router]
        # per input and output the VCs that ask, with their keys: heads without a VC stand behind all others
        candidates: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for p in range(self.ports):
            for v in range(self.vcs):
                vc = self.inputs[router, p, v]
                if (p, v) in speculating:
                    candidates[p, speculating[p, v]][v] = self.age(vc) + 10**9
                    continue
                ready = vc.state == "active" and vc.ready <= t and bool(vc.queue)
                if ready and self.credits[router, vc.output, vc.output_vc] > 0:
                    candidates[p, vc.output][v] = self.age(vc)
        requests: dict[int, dict[int, int]] = defaultdict(dict)
        chosen = {}
        for (p, o), vcs in candidates.items():
            v = min(vcs, key=lambda v: (vcs[v], (v - self.sa_vc[router][p]) % self.vcs))
            chosen[p, o] = v
            requests[p][o] = vcs[v]
        for p, o in self.sa[router].match(requests).items():
            v = chosen[p, o]
            self.sa_vc[router][p] = (v + 1) % self.vcs
            vc = self.inputs[router, p, v]
            if vc.state == "active" and self.credits[router, vc.output, vc.output_vc] > 0:
                vc.ready = t  # of a head that got its VC in this very cycle
                self.move(router, p, v, t)

    def move(self, router: int, p: int, v: int, t: int) -> None:
        vc = self.inputs[router, p, v]
        flit = vc.queue.popleft()
        out = (router, vc.output, vc.output_vc)
        self.credits[out] -= 1
        if (router, p) in self.in_link:
            link = self.in_link[router, p]
            place = (link.source, link.source_port, v)
            self.credits_due[t + link.latency + 1 + self.credit_delay].append(("router", place, flit.tail))
        else:
            self.credits_due[t + 2].append(("source", (self.node_at[router, p], v), flit.tail))
        sent = t + self.sw_alloc_delay - 1 + self.traversal
        if (router, vc.output) in self.out_link:
            link = self.out_link[router, vc.output]
            self.flits_due[sent + link.latency + 1].append(((link.dest, link.dest_port, vc.output_vc), flit))
        else:
            self.credits_due[sent + 4 + self.credit_delay].append(("router", out, flit.tail))
            if flit.tail:
                self.packets[flit.packet].eject = sent + 2
        if flit.tail:
            if not self.wait_for_tail_credit:
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
