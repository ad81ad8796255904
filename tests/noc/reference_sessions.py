"""The slow reference router with sessions: an arbiter that is looked at every cycle, streams sent flit by flit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from reference_multicast import Branch as ForkBranch
from reference_multicast import ForkingVc, Multicast, MulticastReference

REFUSED = 1 << 40


@dataclass
class Session:
    node: int
    dests: tuple[int, ...]
    links: set[tuple[int, int]]  # (router, output)
    asked: int
    granted: int = -1
    detached: int = -1
    free_at: int = -1  # the source may send the next packet
    ends_at: int = -1  # return
    last_read: int = -1
    sent: list[int] = field(default_factory=list)
    flits: int = 0


class SessionReference(MulticastReference):
    """Packets of class `session_class` are streamed; the others are unicasts or multicasts as before."""

    session_class = 0
    setup = 4
    teardown = 4
    segment = 1
    longest = 4096
    idle = 0
    max_waiting: int | None = None

    def way(self, source: int, dest: int) -> list[tuple[int, int]]:
        """Links of the mesh from one node to another, dimension 0 first."""
        router = self.terminals[source][0]
        found = []
        while (router, self.route(router, dest)) in self.out_link:
            link = self.out_link[router, self.route(router, dest)]
            found.append((router, link.source_port))
            router = link.dest
        return found

    def delay(self, source: int, dest: int) -> int:
        way = self.way(source, dest)
        return (len(way) + 1) * self.segment + sum(self.out_link[k].latency for k in way) + 3

    def run(self, packets: list[Multicast], limit: int = 100_000) -> None:  # type: ignore[override]
        self.session_queue = {n: deque[int]() for n in range(len(self.terminals))}
        self.first_since = dict.fromkeys(self.session_queue, 0)
        for i, p in enumerate(packets):
            if p.message_class == self.session_class:
                self.session_queue[p.source].append(i)
        self.waiting: list[Session] = []
        self.running: list[Session] = []
        self.ended: list[Session] = []
        self.arrived: dict[tuple[int, tuple[int, int]], int] = {}  # (packet, link) -> its tail is off the link
        self.held: dict[tuple[int, int], int] = {}
        self.waits = dict.fromkeys(range(len(packets)), 0)
        super().run(packets, limit)  # type: ignore[arg-type]

    def links_of(self, number: int) -> set[tuple[int, int]]:
        packet = self.packets[number]
        assert isinstance(packet, Multicast)
        return {link for dest in packet.dests for link in self.way(packet.source, dest)}

    def step(self, t: int) -> None:
        while True:
            self.ask(t)
            self.grant(t)
            if not self.refuse(t):
                break
        for session in list(self.running):
            self.advance(session, t)
        back = [s for s in self.running if s.ends_at == t]
        self.running = [s for s in self.running if s.ends_at != t]
        self.ended += back
        if back:
            for (node, c), since in self.held.items():
                self.waits[self.fifo[node, c][0]] += t - since
            self.held = {}
        super().step(t)

    def ask(self, t: int) -> None:
        for node, queue in self.session_queue.items():
            busy = any(s.node == node for s in self.waiting + self.running)
            if queue and not busy and self.packets[queue[0]].create <= t:
                packet = self.packets[queue[0]]
                assert isinstance(packet, Multicast)
                self.waiting.append(Session(node, packet.dests, self.links_of(queue[0]), t))

    def clash(self, a: Session, b: Session) -> bool:
        return a.node == b.node or bool(set(a.dests) & set(b.dests)) or bool(a.links & b.links)

    def grant(self, t: int) -> None:
        left: list[Session] = []
        for session in self.waiting:
            if any(self.clash(session, other) for other in self.running + left):
                left.append(session)
            else:
                session.granted = t
                self.running.append(session)
        self.waiting = left

    def refuse(self, t: int) -> bool:
        if self.max_waiting is None or len(self.waiting) <= self.max_waiting:
            return False
        while len(self.waiting) > self.max_waiting:
            node = self.waiting.pop().node
            self.packets[self.session_queue[node].popleft()].eject = REFUSED
            self.first_since[node] = t
        return True

    def advance(self, s: Session, t: int) -> None:
        if s.detached < 0:
            on_the_way = [
                i
                for i, p in enumerate(self.packets)
                if p.message_class != self.session_class and p.inject >= 0
                for link in self.links_of(i) & s.links
                if self.arrived.get((i, link), t + 1) > t
            ]
            if on_the_way:
                return
            s.detached, s.free_at = t, t + self.setup
        if s.ends_at >= 0 or t < s.free_at:
            return
        queue = self.session_queue[s.node]
        reach = max(self.delay(s.node, dest) for dest in s.dests)
        last_return = s.detached + self.longest
        front = self.packets[queue[0]] if queue else None
        same = isinstance(front, Multicast) and front.dests == s.dests
        if same and front is not None and front.create <= t:
            if t + front.size - 1 + reach + self.teardown <= last_return:
                self.stream(s, queue.popleft(), t)
                return
        elif (same or front is None) and t < min(s.free_at + self.idle, last_return - self.teardown):
            return
        s.ends_at = max(s.last_read, t) + self.teardown

    def stream(self, s: Session, number: int, t: int) -> None:
        packet = self.packets[number]
        assert isinstance(packet, Multicast)
        packet.inject = t
        self.waits[number] = t - max(packet.create, self.first_since[s.node])
        for dest in packet.dests:
            flits = [t + i + self.delay(s.node, dest) for i in range(packet.size)]
            packet.reached[dest] = (flits[-1], len(self.way(s.node, dest)) + 1)
            s.last_read = max(s.last_read, flits[-1])
        packet.eject = max(cycle for cycle, _ in packet.reached.values())
        s.free_at = self.first_since[s.node] = t + packet.size
        s.sent.append(number)
        s.flits += packet.size

    def inject_class(self, node: int, c: int, t: int) -> bool:
        if c == self.session_class or (node, c) in self.held:
            return False
        fifo = self.fifo[node, c]
        if fifo and (node, c) not in self.sending and self.packets[fifo[0]].create <= t:
            links = self.links_of(fifo[0])
            if any(links & s.links for s in self.running):
                self.held[node, c] = t
                return False
        return super().inject_class(node, c, t)

    def send(self, router: int, p: int, v: int, vc: ForkingVc, branch: ForkBranch, t: int) -> None:
        flit = vc.queue[branch.sent - vc.gone]
        if flit.tail and (router, branch.output) in self.out_link:
            link = self.out_link[router, branch.output]
            sent = t + self.sw_alloc_delay - 1 + self.traversal
            self.arrived[flit.packet, (router, branch.output)] = sent + link.latency + 1
        super().send(router, p, v, vc, branch, t)
