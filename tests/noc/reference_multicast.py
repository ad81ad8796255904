"""The slow reference router with packets that fork: every VC keeps a list of branches for the packet at its front."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from reference_router import AllocatorModel, Flit, InputVc, Packet, Reference

LANES = 64


@dataclass(frozen=True)
class Copy(Flit):
    """A flit with the nodes that it is yet to reach."""

    dests: tuple[int, ...] = ()


@dataclass
class Multicast(Packet):
    """A packet for several nodes; `reached` is node -> (eject cycle, hops)."""

    dests: tuple[int, ...] = ()
    reached: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Branch:
    lane: int
    output: int
    dests: tuple[int, ...]
    ready: int
    output_vc: int = -1
    active: bool = False
    sent: int = 0
    done: bool = False


@dataclass
class ForkingVc(InputVc):
    branches: list[Branch] = field(default_factory=list)
    gone: int = 0  # flits of the front packet that have left the buffer


class MulticastReference(Reference):
    """`Reference` whose packets are all `Multicast`; those of one node are unicasts."""

    multicast_vcs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inputs = {place: ForkingVc() for place in self.inputs}
        self.va = [AllocatorModel("islip", LANES) for _ in range(self.routers)]
        self.depth: dict[tuple[int, int], int] = {}  # (packet, router) -> routers visited so far
        self.link_flits: dict[tuple[int, int], int] = defaultdict(int)

    def lane(self, p: int, v: int, i: int) -> int:
        if i == 0:
            return p * self.vcs + v
        before = sorted(self.multicast_vcs).index(v)
        return self.ports * self.vcs + (before * self.ports + p) * (self.ports - 1) + i - 1

    def compute_routes(self, t: int) -> None:
        for (router, p, v), vc in self.inputs.items():
            assert isinstance(vc, ForkingVc)
            if vc.branches or not vc.queue:
                continue
            head = vc.queue[0]
            assert head.head
            packet = self.packets[head.packet]
            assert isinstance(packet, Multicast)
            dests = head.dests if isinstance(head, Copy) else packet.dests
            link = self.in_link.get((router, p))
            self.depth[head.packet, router] = 1 + (self.depth[head.packet, link.source] if link else 0)
            ports: dict[int, list[int]] = defaultdict(list)
            for dest in dests:
                ports[self.route(router, dest)].append(dest)
            for i, port in enumerate(sorted(ports)):
                branch = Branch(self.lane(p, v, i), port, tuple(ports[port]), t + self.routing_delay)
                vc.branches.append(branch)

    def all_branches(self, router: int) -> list[tuple[int, int, int, ForkingVc, Branch]]:
        """(lane, port, VC, input VC, branch), ascending in lanes."""
        found = []
        for p in range(self.ports):
            for v in range(self.vcs):
                vc = self.inputs[router, p, v]
                assert isinstance(vc, ForkingVc)
                found += [(b.lane, p, v, vc, b) for b in vc.branches if not b.done]
        return sorted(found, key=lambda item: item[0])

    def allocate_vcs(self, router: int, t: int) -> None:
        assert self.class_vcs is not None
        requests: dict[int, dict[int, int]] = {}
        at = {}
        for lane, p, v, vc, branch in self.all_branches(router):
            if branch.active or branch.ready > t:
                continue
            allowed = self.class_vcs[self.packets[vc.queue[0].packet].message_class]
            free = [w for w in allowed if self.owner[router, branch.output, w] is None]
            requests[lane] = {branch.output * self.vcs + w: 0 for w in free}
            at[lane] = (p, v, branch)
        for lane, resource in self.va[router].match(requests).items():
            p, v, branch = at[lane]
            branch.output_vc, branch.active = resource % self.vcs, True
            branch.ready = t + self.vc_alloc_delay
            self.owner[router, branch.output, branch.output_vc] = (p, v)

    def allocate_switch(self, router: int, t: int) -> None:
        asking: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)  # (port, output) -> VC -> lane
        at = {}
        for lane, p, v, vc, branch in self.all_branches(router):
            ready = branch.active and branch.ready <= t and branch.sent - vc.gone < len(vc.queue)
            if ready and self.credits[router, branch.output, branch.output_vc] > 0:
                asking[p, branch.output][v] = lane
                at[lane] = (p, v, vc, branch)
        requests: dict[int, dict[int, int]] = defaultdict(dict)
        chosen = {}
        for (p, o), vcs in asking.items():
            chosen[p, o] = vcs[min(vcs, key=lambda v: (v - self.sa_vc[router][p]) % self.vcs)]
            requests[p][o] = 0
        matching = self.sa[router].match(requests)
        winners = {p: chosen[p, o] for p, o in matching.items()}
        taken = set(matching.values())
        more = []
        for lane in sorted(at):
            p, v, _, branch = at[lane]
            if p not in winners or winners[p] == lane or branch.output in taken:
                continue
            _, winner_v, _, winner = at[winners[p]]
            if winner_v == v and winner.sent == branch.sent:
                more.append(lane)
                taken.add(branch.output)
        for lane in sorted([*winners.values(), *more]):
            p, v, vc, branch = at[lane]
            self.sa_vc[router][p] = (v + 1) % self.vcs
            self.sa[router].of_requester[p].served(branch.output)
            self.sa[router].of_resource[branch.output].served(p)
            self.send(router, p, v, vc, branch, t)

    def send(self, router: int, p: int, v: int, vc: ForkingVc, branch: Branch, t: int) -> None:
        flit = vc.queue[branch.sent - vc.gone]
        branch.sent += 1
        out = (router, branch.output, branch.output_vc)
        self.credits[out] -= 1
        self.link_flits[router, branch.output] += 1
        sent = t + self.sw_alloc_delay - 1 + self.traversal
        copy = Copy(flit.packet, flit.head, flit.tail, branch.dests)
        if (router, branch.output) in self.out_link:
            link = self.out_link[router, branch.output]
            place = (link.dest, link.dest_port, branch.output_vc)
            self.flits_due[sent + link.latency + 1].append((place, copy))
        else:
            self.credits_due[sent + 4 + self.credit_delay].append(("router", out, flit.tail))
            if flit.tail:
                packet = self.packets[flit.packet]
                assert isinstance(packet, Multicast)
                packet.reached[branch.dests[0]] = (sent + 2, self.depth[flit.packet, router])
                if len(packet.reached) == len(packet.dests):
                    packet.eject = max(cycle for cycle, _ in packet.reached.values())
        if flit.tail:
            self.owner[out] = None
            branch.done = True
        if min(b.sent for b in vc.branches) > vc.gone:
            vc.queue.popleft()
            vc.gone += 1
            if (router, p) in self.in_link:
                link = self.in_link[router, p]
                back = t + link.latency + 1 + self.credit_delay
                self.credits_due[back].append(("router", (link.source, link.source_port, v), flit.tail))
            else:
                self.credits_due[t + 2].append(("source", (self.node_at[router, p], v), flit.tail))
        if all(b.done for b in vc.branches):
            vc.branches, vc.gone = [], 0
