"""The slow reference router with reductions: units are terminals that read parts and send what is complete."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import pairwise

from reference_router import Packet, Reference


@dataclass
class Part(Packet):
    """A contribution to a reduction, or the sum of some; a packet with `reduction` None is neither."""

    reduction: int | None = None
    stop: tuple[int, int] | None = None  # router and unit port that reads it; None: the destination
    reads: list[int] = field(default_factory=list)  # cycles in which its flits were read
    parts: list[int] = field(default_factory=list)  # of a sum: the packets that it is made of
    combine_delay: int = 0

    def may_send(self, flit: int, packets: list[Packet], t: int) -> bool:
        below = [packets[number] for number in self.parts]
        assert all(isinstance(part, Part) for part in below)
        return all(
            flit < len(part.reads) and part.reads[flit] + self.combine_delay <= t
            for part in below
            if isinstance(part, Part)
        )


class ReductionReference(Reference):
    """`Reference` whose packets are all `Part`; the last `unit_ports` ports of every router are those of its unit."""

    unit_ports: int = 1
    combine_delay: int = 1

    def start(self, packets: list[Part]) -> None:
        """Plans the legs of every reduction: where ways come together, the unit of that router reads them."""
        self.nodes = len(self.terminals)
        first = self.ports - self.unit_ports
        self.terminals = self.terminals + [(r, first + j) for r in range(self.routers) for j in range(self.unit_ports)]
        self.__post_init__()
        self.members: dict[int, list[int]] = defaultdict(list)
        for number, packet in enumerate(packets):
            if packet.reduction is not None:
                self.members[packet.reduction].append(number)
        trees: dict[tuple[int, tuple[int, ...]], int] = {}
        self.ways_in: dict[int, dict[int, list[tuple[str, int]]]] = {}
        self.sender: dict[int, int] = {}
        self.collected: dict[tuple[int, int], list[int]] = defaultdict(list)  # (reduction, router) -> parts read there
        self.started: set[tuple[int, int]] = set()
        self.link_flits: dict[tuple[int, int], int] = defaultdict(int)
        for name, numbers in self.members.items():  # in the order of their first packets
            dest = packets[numbers[0]].dest
            sources = sorted(packets[number].source for number in numbers)
            tree = trees.setdefault((dest, tuple(sources)), len(trees))
            self.sender[name] = tree % self.unit_ports
            ways: dict[int, set[tuple[str, int]]] = defaultdict(set)
            for source in sources:
                way = self.way(self.terminals[source][0], dest)
                ways[way[0]].add(("node", source))
                for before, after in pairwise(way):
                    ways[after].add(("router", before))
            self.ways_in[name] = {router: sorted(found) for router, found in ways.items()}
            for number in numbers:
                source = packets[number].source
                packets[number].stop = self.stop_of(name, self.terminals[source][0], ("node", source), dest)

    def way(self, router: int, dest: int) -> list[int]:
        """Routers from here to the destination's."""
        found = [router]
        while (found[-1], self.route(found[-1], dest)) in self.out_link:
            found.append(self.out_link[found[-1], self.route(found[-1], dest)].dest)
        return found

    def stop_of(self, name: int, router: int, came: tuple[str, int], dest: int) -> tuple[int, int] | None:
        """The first join on the way, the router itself included when a node sends."""
        way = self.way(router, dest)
        for i, at in enumerate(way):
            entering = came if i == 0 else ("router", way[i - 1])
            if i == 0 and came[0] == "unit":
                continue
            ways = self.ways_in[name][at]
            if len(ways) > 1:
                return at, ways.index(entering) % self.unit_ports
        return None

    def step(self, t: int) -> None:
        self.read_now: list[tuple[int, int, int, int, int]] = []
        for name, router in self.due_sums.pop(t, []):
            parts = self.collected[name, router]
            first = self.packets[parts[0]]
            assert isinstance(first, Part)
            source = self.nodes + router * self.unit_ports + self.sender[name]
            total = Part(
                t, source, first.dest, first.size, first.message_class, reduction=name,
                stop=self.stop_of(name, router, ("unit", 0), first.dest), parts=list(parts),
                combine_delay=self.combine_delay,
            )  # fmt: skip
            self.packets.append(total)
            self.fifo[source, first.message_class].append(len(self.packets) - 1)
        super().step(t)
        for router, p, v, number, cycle in sorted(self.read_now):
            del p, v
            self.read_part(router, number, cycle)

    def run(self, packets: list[Packet], limit: int = 100_000) -> None:
        self.due_sums: dict[int, list[tuple[int, int]]] = defaultdict(list)
        super().run(packets, limit)

    def read_part(self, router: int, number: int, cycle: int) -> None:
        part = self.packets[number]
        assert isinstance(part, Part)
        part.reads.append(cycle)
        if part.reduction is None or part.stop is None:
            return
        place = part.reduction, router
        if number not in self.collected[place]:
            self.collected[place].append(number)
        if len(self.collected[place]) == len(self.ways_in[part.reduction][router]) and place not in self.started:
            self.started.add(place)
            firsts = [self.packets[n] for n in self.collected[place]]
            due = max(p.reads[0] for p in firsts if isinstance(p, Part)) + self.combine_delay
            self.due_sums[due].append(place)

    def compute_routes(self, t: int) -> None:
        for (router, _, _), vc in self.inputs.items():
            if vc.state == "idle" and vc.queue:
                packet = self.packets[vc.queue[0].packet]
                assert isinstance(packet, Part)
                packet.hops += 1
                if packet.stop is not None and packet.stop[0] == router:
                    vc.output = self.ports - self.unit_ports + packet.stop[1]
                else:
                    vc.output = self.route(router, packet.dest)
                vc.state, vc.ready = "waiting", t + self.routing_delay

    def inject_class(self, node: int, c: int, t: int) -> bool:
        fifo: deque[int] = self.fifo[node, c]
        if fifo:
            packet = self.packets[fifo[0]]
            assert isinstance(packet, Part)
            flit = packet.size - self.sending[node, c][0] if (node, c) in self.sending else 0
            if not packet.may_send(flit, self.packets, t):
                return False
        return super().inject_class(node, c, t)

    def move(self, router: int, p: int, v: int, t: int) -> None:
        vc = self.inputs[router, p, v]
        number = vc.queue[0].packet
        self.link_flits[router, vc.output] += 1
        if (router, vc.output) not in self.out_link:
            read = t + self.sw_alloc_delay - 1 + self.traversal + 2
            self.read_now.append((router, p, v, number, read))
        super().move(router, p, v, t)
        packet = self.packets[number]
        assert isinstance(packet, Part)
        if packet.reduction is None or packet.eject < 0:
            return
        if packet.stop is None:  # the sum of all is there
            for member in self.members[packet.reduction]:
                self.packets[member].eject = packet.eject
        elif not packet.parts:
            packet.eject = -1
