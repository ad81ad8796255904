"""Who owns the replicas: legality, memory regions, and the steps prepare → publish → reclaim.

A policy only wishes. This keeper checks each wish against capacity, replica count, budget and versions; a refused wish
comes back with its reason. A new replica is prepared (its region is taken, its copy under way) and cannot be used; it
is published when the last byte is in the banks; an evicted one leaves the directory at once and its region is given
back when the last token group that uses it is through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.policy.base import ActionKind, Outcome, PreBroadcast, ResidencyAction
from cosim.policy.directory import DIRECTORY, HOST, NEAR_MEMORY, Directory, ExpertPart, PlacedReplica, Placement
from cosim.policy.placement import memory_tier, nearest_memory
from cosim.policy.weight_store import ConsistencyError, RegionKey, WeightStore

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.policy.tenants import TenantLedger
    from cosim.system import System

__all__ = ["BroadcastOrder", "CopyOrder", "RegionAllocator", "Residency", "WriteOrder"]

_LAYER, _EXPERT, _VERSION, _TIER, _MEMORY, _ADDRESS = (
    list(DIRECTORY.names or ()).index(name) for name in ("layer", "expert", "version", "tier", "memory", "address")
)


class RegionAllocator:
    """First-fit regions of equal alignment in one memory endpoint's tier.

    With ``bank_bytes`` a region lies inside one range of that many bytes.
    """

    def __init__(self, capacity_bytes: int, alignment_bytes: int, bank_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self._bank = bank_bytes
        self._alignment = alignment_bytes
        self._free: list[tuple[int, int]] = [(0, capacity_bytes)]
        self.used_bytes = 0

    def take(self, size: int) -> int | None:
        """Address of a free region of ``size`` bytes, or ``None``."""
        size = self._rounded(size)
        for position, (start, length) in enumerate(self._free):
            at = self._inside_a_bank(start, size)
            if length < at - start + size:
                continue
            left = [(start, at - start), (at + size, start + length - at - size)]
            self._free[position : position + 1] = [part for part in left if part[1]]
            self.used_bytes += size
            return at
        return None

    def _inside_a_bank(self, start: int, size: int) -> int:
        """The first address from ``start`` on at which ``size`` bytes cross no border of a bank."""
        if self._bank is None or start // self._bank == (start + size - 1) // self._bank:
            return start
        return (start // self._bank + 1) * self._bank

    def give_back(self, address: int, size: int) -> None:
        """Frees a region taken before."""
        size = self._rounded(size)
        self.used_bytes -= size
        self._free.append((address, size))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for start, length in self._free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._free = merged

    def state(self) -> tuple[list[tuple[int, int]], int]:
        """Free regions (address, bytes) and used bytes."""
        return list(self._free), self.used_bytes

    def restore(self, free: list[tuple[int, int]], used_bytes: int) -> None:
        """Puts the allocator into a state that :meth:`state` gave."""
        self._free, self.used_bytes = list(free), used_bytes

    def _rounded(self, size: int) -> int:
        return -(-size // self._alignment) * self._alignment


@dataclass(frozen=True)
class CopyOrder:
    """A copy that was allowed and must now be made: from one region to another, then :meth:`Residency.publish`."""

    replica: int
    action: ResidencyAction
    from_memory: int
    from_address: int
    to_memory: int
    to_address: int
    bytes: int
    replaces: int = -1
    """A replica that leaves the directory when this one is published; -1: none."""


@dataclass(frozen=True)
class BroadcastOrder:
    """Copies of one expert that were allowed and must now be made together.

    chunk_bytes: whole bursts that are passed on at once; 0: every endpoint reads for itself. copies: one to each
    endpoint; their own source is the expert's home, or its first part. parts: where the weights are read: memory,
    address, first byte of the copy that they fill, and bytes.
    """

    action: PreBroadcast
    chunk_bytes: int
    copies: tuple[CopyOrder, ...]
    parts: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class WriteOrder:
    """A region that its memory must write.

    Scrubbed, it is free and must be written over before anybody gets it: then :meth:`Residency.scrubbed`. Staged, it
    gets a replica's next version: then :meth:`Residency.written`.
    """

    replica: int
    memory: int
    address: int
    bytes: int


class Residency:
    """The replicas of one run."""

    def __init__(
        self,
        system: System,
        model: ModelSpec,
        placement: Placement,
        *,
        expert_bytes: int,
        alignment_bytes: int,
        layers: Sequence[int],
        max_replicas: int,
        budget_bytes: int,
        shared_bytes: int = 0,
        burst_bytes: int = 1,
        min_residency_windows: int = 0,
        updates_per_window: int = 0,
        tenants: TenantLedger | None = None,
        scrub: bool = False,
    ) -> None:
        """Places the first replicas.

        Args:
            layers: MoE layers that run; replicas of others are not held.
            max_replicas: of one expert.
            budget_bytes: of all routed replicas together.
            shared_bytes: of a layer's shared experts, which stand at every chiplet under the number behind the last
                routed expert; 0: there are none.
            burst_bytes: parts of a split expert occupy whole bursts.
            min_residency_windows: age from which a replica may be evicted or demoted.
            updates_per_window: most updates that :meth:`propose` lets pass at once; 0: any.
            tenants: who pays for copies, and their bounds.
            scrub: whether a region is given back only when it has been written over.

        Raises:
            ConfigErrors: an expert without a replica, a replica where there is no such endpoint, tier or room, parts
                that do not add up to their expert.
        """
        self._system = system
        self._computes = {endpoint.index for endpoint in system.compute_endpoints}
        self._expert_bytes = expert_bytes
        self._neurons = model.moe_intermediate
        self._burst = burst_bytes
        self._max_replicas = max_replicas
        self._budget_bytes = budget_bytes
        self._min_residency = min_residency_windows
        self._updates = updates_per_window
        self._tiers = {tier.name: position for position, tier in enumerate(system.tiers)}
        self._allocators = {
            (position, endpoint): RegionAllocator(tier.capacity_bytes, alignment_bytes, tier.bank_bytes)
            for position, tier in enumerate(system.tiers)
            for endpoint in tier.endpoints
        }
        self.tenants = tenants
        self._scrub = scrub
        self._released: list[WriteOrder] = []  # not yet asked for
        self._scrubbing: dict[int, tuple[int, WriteOrder]] = {}  # by replica, with its tier
        self._next = 0
        self._rows: dict[int, npt.NDArray[np.void]] = {}
        self._homes: set[int] = set()
        self._pending: dict[int, CopyOrder] = {}
        self._draining: dict[int, npt.NDArray[np.void]] = {}
        self._leaving: set[int] = set()  # to be released once published
        self._recorded = False
        self._store = WeightStore()
        # old replicas of an expert, until its next version is confirmed
        self._retired: dict[tuple[int, int], tuple[int, ...]] = {}
        self._writing: set[int] = set()  # staged replicas whose weights are not there yet
        self._staged: dict[tuple[int, int], list[int]] = {}  # replicas of the next version, until they are published
        self.checked_reads = 0
        self._directory: Directory | None = None
        self._position: dict[int, int] = {}  # rows of the directory by identity
        self._place(model, placement, layers)
        self._shared: set[int] = set()
        if shared_bytes:
            self._place_shared(model, layers, shared_bytes)

    # -- the start

    def _place_shared(self, model: ModelSpec, layers: Sequence[int], size: int) -> None:
        """One copy of the weights per layer and memory endpoint that is nearest to some chiplet."""
        routes = self._system.routes
        tier = self._tiers[memory_tier(self._system)]
        held: dict[int, int] = {}
        nearest = {}
        for place in self._system.compute_endpoints:
            nearest[place.index] = nearest_memory(self._system, routes, held, place.index)
            held[nearest[place.index]] = held.get(nearest[place.index], 0) + 1
        for layer in layers:
            addresses: dict[int, int] = {}
            for chiplet, memory in nearest.items():
                if memory not in addresses:
                    allocator = self._allocators[tier, memory]
                    address = allocator.take(size)
                    if address is None:
                        raise ConfigErrors(
                            [
                                _finding(
                                    f"shared experts of layer {layer} at endpoint {memory}",
                                    f"room for {size} B in the tier",
                                    f"{allocator.capacity_bytes - allocator.used_bytes} B free",
                                )
                            ]
                        )
                    addresses[memory] = address
                identity = self._add(layer, model.experts, chiplet, memory, tier, addresses[memory])
                self._rows[identity]["bytes"] = size
                self._homes.add(identity)
                self._shared.add(identity)

    def _place(self, model: ModelSpec, placement: Placement, layers: Sequence[int]) -> None:
        wanted = set(layers)
        errors: list[ConfigError] = []
        seen: dict[tuple[int, int], list[tuple[int, str]]] = {}
        overflow: dict[tuple[int, int], int] = {}
        for replica in placement.replicas:
            if replica.layer not in wanted:
                continue
            whole = ExpertPart(replica.chiplet, replica.memory, replica.tier, self._neurons)
            parts = replica.parts or (whole,)
            problem = self._placement_problem(replica, parts, model)
            if problem:
                errors.append(_finding(f"replica of expert {replica.expert} in layer {replica.layer}", *problem))
                continue
            regions: list[tuple[int, int]] = []
            for part in parts:
                key = (self._tiers[part.tier], part.memory)
                size = self._part_bytes(part.neurons)
                address = self._allocators[key].take(size)
                if address is None:
                    overflow[key] = overflow.get(key, 0) + size
                else:
                    regions.append((address, size))
            if len(regions) < len(parts):
                continue
            chiplets = seen.setdefault((replica.layer, replica.expert), [])
            if (replica.chiplet, replica.tier) in chiplets:
                errors.append(
                    _finding(
                        f"expert {replica.expert} in layer {replica.layer}",
                        "its replicas at different chiplets, or in different tiers",
                        f"two at endpoint {replica.chiplet} in tier {replica.tier}",
                    )
                )
                continue
            chiplets.append((replica.chiplet, replica.tier))
            first = self._next
            for part, (address, size) in zip(parts, regions, strict=True):
                tier = self._tiers[part.tier]
                identity = self._add(replica.layer, replica.expert, part.chiplet, part.memory, tier, address)
                row = self._rows[identity]
                row["bytes"], row["neurons"], row["part_of"] = size, part.neurons, first
                if len(chiplets) == 1:
                    self._homes.add(identity)
        for (tier, endpoint), size in sorted(overflow.items()):
            allocator = self._allocators[tier, endpoint]
            needed = allocator.used_bytes + size
            errors.append(
                _finding(
                    f"tier {self._system.tiers[tier].name} at endpoint {endpoint}",
                    f"experts that fit its {allocator.capacity_bytes} B",
                    f"{needed} B: {size} B too many, with experts of {self._expert_bytes} B",
                )
            )
        if not overflow:
            for layer in sorted(wanted):
                missing = [expert for expert in range(model.experts) if (layer, expert) not in seen]
                if missing:
                    shown = ", ".join(map(str, missing[:8])) + (" ..." if len(missing) > 8 else "")
                    errors.append(
                        _finding(f"layer {layer}", "a replica of every expert", f"none of {len(missing)}: {shown}")
                    )
        if errors:
            raise ConfigErrors(errors)

    def _part_bytes(self, neurons: int) -> int:
        """Weights of a slice of the hidden layer, in whole bursts."""
        if neurons == self._neurons:
            return self._expert_bytes
        return -(-self._expert_bytes * neurons // (self._neurons * self._burst)) * self._burst

    def _placement_problem(
        self, replica: PlacedReplica, parts: Sequence[ExpertPart], model: ModelSpec
    ) -> tuple[str, str] | None:
        if not 0 <= replica.expert < model.experts:
            return f"an expert below {model.experts}", f"expert {replica.expert}"
        for part in parts:
            if part.chiplet not in self._computes:
                return "an endpoint that computes", f"endpoint {part.chiplet}"
            if part.tier not in self._tiers:
                return f"a tier of the system ({', '.join(self._tiers)})", repr(part.tier)
            if (self._tiers[part.tier], part.memory) not in self._allocators:
                return f"an endpoint that carries the tier {part.tier}", f"endpoint {part.memory}"
            if part.memory not in self._system.tier(part.tier).serving(part.chiplet):
                return f"a memory of tier {part.tier} that serves endpoint {part.chiplet}", f"endpoint {part.memory}"
            if part.neurons < 1:
                return "parts of at least one neuron", f"{part.neurons} at endpoint {part.chiplet}"
        if parts[0].chiplet != replica.chiplet:
            return f"its first part at endpoint {replica.chiplet}", f"endpoint {parts[0].chiplet}"
        held = sum(part.neurons for part in parts)
        if held != self._neurons:
            return f"parts of {self._neurons} neurons together", f"{held}"
        places = [part.chiplet for part in parts]
        if len(set(places)) < len(places):
            twice = next(place for place in places if places.count(place) > 1)
            return "its parts at different endpoints", f"two at endpoint {twice}"
        return None

    def _add(self, layer: int, expert: int, chiplet: int, memory: int, tier: int, address: int) -> int:
        row = np.zeros((), dtype=DIRECTORY)
        identity = self._next
        self._next += 1
        for name, value in (
            ("replica", identity),
            ("layer", layer),
            ("expert", expert),
            ("tier", tier),
            ("chiplet", chiplet),
            ("memory", memory),
            ("address", address),
            ("bytes", self._expert_bytes),
            ("part_of", identity),
            ("neurons", self._neurons),
            ("executes_at", self._executes_at(chiplet, memory)),
        ):
            row[name] = value
        self._rows[identity] = row
        self._store.hold(_region(row), layer, expert, 0)
        self._directory = None
        return identity

    def _executes_at(self, chiplet: int, memory: int) -> int:
        return NEAR_MEMORY if self._system.near_memories.get(chiplet) == memory else HOST

    # -- what policies see

    def directory(self, *, with_pending: bool = False) -> Directory:
        """The published replicas, in the order of their identities; for a replay also those whose copy is under way."""
        if with_pending and self._pending:
            pending = {replica: self._row_of(replica, order) for replica, order in self._pending.items()}
            known = {**self._rows, **pending}
            return Directory(np.array([known[identity] for identity in sorted(known)], dtype=DIRECTORY))
        if self._directory is None:
            identities = sorted(self._rows)
            self._directory = Directory(np.array([self._rows[identity] for identity in identities], dtype=DIRECTORY))
            self._position = {identity: row for row, identity in enumerate(identities)}
        return self._directory

    @property
    def migrating(self) -> list[ResidencyAction]:
        """Actions whose copies are under way."""
        return [order.action for order in self._pending.values()]

    @property
    def migrating_bytes(self) -> int:
        """Bytes of the copies under way."""
        return sum(order.bytes for order in self._pending.values())

    def replica_factor(self) -> float:
        """Published replicas of routed experts over routed experts."""
        rows = self.directory().rows
        routed = rows[~np.isin(rows["replica"], np.fromiter(self._shared, dtype=np.int32))] if self._shared else rows
        keys = np.unique(routed["layer"].astype(np.int64) * (int(routed["expert"].max()) + 1) + routed["expert"])
        return int(routed["neurons"].astype(np.int64).sum()) / self._neurons / len(keys)

    def tier_used(self, endpoints: int) -> npt.NDArray[np.float64]:
        """Share of its capacity in use, per endpoint, of its fullest tier; 0 where there is none."""
        used = np.zeros(endpoints)
        for (_, endpoint), allocator in self._allocators.items():
            used[endpoint] = max(used[endpoint], allocator.used_bytes / allocator.capacity_bytes)
        return used

    # -- saving

    @property
    def next_identity(self) -> int:
        """Identity of the next new replica."""
        return self._next

    @property
    def pending(self) -> Mapping[int, CopyOrder]:
        """Copies under way, by the replica they will be."""
        return self._pending

    @property
    def allocators(self) -> Mapping[tuple[int, int], RegionAllocator]:
        """Regions by (tier, endpoint)."""
        return self._allocators

    def rows(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Published and draining replicas, by identity."""
        published = [self._rows[identity] for identity in sorted(self._rows)]
        draining = [self._draining[identity] for identity in sorted(self._draining)]
        return np.array(published, dtype=DIRECTORY), np.array(draining, dtype=DIRECTORY)

    @property
    def leaving(self) -> list[int]:
        """Replicas whose copy is under way and that leave when it is published."""
        return sorted(self._leaving)

    def restore(
        self,
        next_identity: int,
        published: npt.NDArray[np.void],
        draining: npt.NDArray[np.void],
        pending: Sequence[CopyOrder],
        leaving: Sequence[int] = (),
        scrubbing: Sequence[tuple[int, WriteOrder]] = (),
        staged: Mapping[tuple[int, int], Sequence[int]] | None = None,
        retired: Mapping[tuple[int, int], Sequence[int]] | None = None,
        writing: Iterable[int] = (),
        harmed: Mapping[int, bool] | None = None,
    ) -> None:
        """Puts the keeper into a saved state; regions are restored by their allocators.

        Args:
            harmed: staged replicas that were not written soundly: whether to their end.
        """
        self._next = next_identity
        self._rows = {int(row["replica"]): np.array(row, dtype=DIRECTORY) for row in published}
        self._draining = {int(row["replica"]): np.array(row, dtype=DIRECTORY) for row in draining}
        self._pending = {order.replica: order for order in pending}
        self._leaving = set(leaving)
        self._scrubbing = {order.replica: (tier, order) for tier, order in scrubbing}
        self._directory = None
        self._staged = {key: list(group) for key, group in (staged or {}).items()}
        self._retired = {key: tuple(group) for key, group in (retired or {}).items()}
        self._writing = set(writing)
        self._store = WeightStore()
        unsound = harmed or {}
        for row in (*self._rows.values(), *self._draining.values()):
            key = (int(row["layer"]), int(row["expert"]), int(row["version"]))
            replica = int(row["replica"])
            if replica not in self._writing and replica not in unsound:
                self._store.hold(_region(row), *key)
                continue
            self._store.begin(_region(row), *key)
            if unsound.get(replica):
                self._store.end(_region(row), intact=False)
        for order in pending:
            row = self._row_of(order.replica, order)
            self._store.begin(_region(row), order.action.layer, order.action.expert, int(row["version"]))

    # -- use

    def use(self, replicas: Iterable[int], change: int) -> None:
        """Books token groups that start (+1) or end (-1) using replicas; reclaims what is drained."""
        shown = None if self._directory is None else self._directory.rows["in_flight"]
        for identity in replicas:
            row = self._rows.get(identity)
            published = row is not None
            if row is None:
                row = self._draining.get(identity)
            if row is None:
                raise ValueError(f"replica {identity} is not there")
            row["in_flight"] += change
            if published:
                if shown is not None:
                    shown[self._position[identity]] += change
            elif row["in_flight"] == 0 and not self._kept(identity):
                self._reclaim(identity)

    def close_window(self) -> None:
        """Every published replica is a window older."""
        for row in self._rows.values():
            row["age_windows"] += 1
        self._directory = None

    # -- wishes

    def propose(
        self, actions: Sequence[ResidencyAction], *, recorded: bool = False
    ) -> tuple[list[CopyOrder], list[Outcome]]:
        """Checks the wishes in order; returns the copies to make and the outcome of each wish so far.

        ``recorded`` wishes were legal where they were recorded, when copies may have ended and regions drained at other
        times: budget, ages, the updates of a window, and what is still under way here are not checked again, a replica
        whose copy is under way leaves when it is published, and every promotion takes an identity, so that identities
        mean the same.
        """
        self._recorded = recorded
        orders: list[CopyOrder] = []
        outcomes: list[Outcome] = []
        for action in actions:
            key = (action.layer, action.expert)
            if not recorded and action.kind is not ActionKind.retain and self.upgrading(*key):
                outcomes.append(Outcome(action, "refused", "an upgrade of its expert is under way"))
                continue
            updates = sum(one.status != "refused" and one.action.kind is not ActionKind.retain for one in outcomes)  # type: ignore[union-attr]
            if not recorded and action.kind is not ActionKind.retain and 0 < self._updates <= updates:
                outcomes.append(Outcome(action, "refused", f"at most {self._updates} updates in a window"))
            elif action.kind in (ActionKind.promote, ActionKind.demote):
                result = self._promote(action) if action.kind is ActionKind.promote else self._demote(action)
                if isinstance(result, CopyOrder):
                    orders.append(result)
                    outcomes.append(Outcome(action, "deferred", "its copy is under way"))
                else:
                    outcomes.append(Outcome(action, "refused", result))
            elif action.kind is ActionKind.evict:
                reason = self._evict(action)
                outcomes.append(Outcome(action, "refused" if reason else "done", reason))
            else:
                known = action.replica in self._rows
                outcomes.append(
                    Outcome(action, "done" if known else "refused", "" if known else f"no replica {action.replica}")
                )
        return orders, outcomes

    def _promote(self, action: ResidencyAction) -> CopyOrder | str:
        published = [row for row in self._rows.values() if _same_expert(row, action)]
        if any(int(row["neurons"]) < self._neurons for row in published):
            return f"expert {action.expert} of layer {action.layer} is split, there is no whole replica to copy"
        coming = [
            order
            for order in self._pending.values()
            if _same_wish(order.action, action) and order.replica not in self._leaving and not self._recorded
        ]
        if not published:
            return f"expert {action.expert} of layer {action.layer} has no replica to copy"
        if action.chiplet not in self._computes:
            return f"endpoint {action.chiplet} does not compute"
        if any(int(row["chiplet"]) == action.chiplet and not self._nearer(action, row) for row in published) or any(
            order.action.chiplet == action.chiplet for order in coming
        ):
            return f"endpoint {action.chiplet} has a replica of it already"
        if len(published) + len(coming) >= self._max_replicas and not self._recorded:
            return f"it has {len(published) + len(coming)} replicas, of at most {self._max_replicas}"
        held = self._held_bytes()
        if held + self._expert_bytes > self._budget_bytes and not self._recorded:
            return f"{held + self._expert_bytes} B of replicas exceed the budget of {self._budget_bytes} B"
        if self.tenants is not None and not self._recorded:
            problem = self.tenants.copy_problem(action.layer, action.expert, self._expert_bytes)
            if problem:
                return problem
        order = self._prepare(action, min(published, key=lambda row: int(row["replica"])))
        if self.tenants is not None and isinstance(order, CopyOrder):
            self.tenants.charge(order.replica, action.layer, action.expert, order.bytes)
        return order

    def broadcast(self, action: PreBroadcast, *, recorded: bool = False) -> BroadcastOrder | str:
        """Takes room for a whole replica at every compute endpoint without one; why not, where one of them has none.

        All of them or none, in the tier of the expert's home. ``recorded`` as of :meth:`propose`: the budget is not
        checked again and the identities are taken in any case.
        """
        self._recorded = recorded
        if not recorded and self.upgrading(action.layer, action.expert):
            return "an upgrade of its expert is under way"
        held = [row for row in self._rows.values() if _same_key(row, action.layer, action.expert)]
        if not held:
            return f"expert {action.expert} of layer {action.layer} has no replica to copy"
        home = [row for row in held if int(row["part_of"]) == min(int(row["part_of"]) for row in held)]
        tier = self._system.tiers[int(home[0]["tier"])].name
        whole = {int(row["chiplet"]) for row in held if int(row["neurons"]) == self._neurons}
        coming = [order for order in self._pending.values() if _same_key_of(order, action.layer, action.expert)]
        whole |= {order.action.chiplet for order in coming}
        targets = [place.index for place in self._system.compute_endpoints if place.index not in whole]
        if not targets:
            return "every endpoint has a whole replica of it"
        leads = sum(int(row["part_of"]) == int(row["replica"]) for row in held) + len(coming)
        if leads + len(targets) > self._max_replicas:
            return f"it would have {leads + len(targets)} replicas, of at most {self._max_replicas}"
        needed = self._held_bytes() + len(targets) * self._expert_bytes
        if needed > self._budget_bytes and not recorded:
            return f"{needed} B of replicas exceed the budget of {self._budget_bytes} B"
        if self.tenants is not None and not recorded:
            size = len(targets) * self._expert_bytes
            problem = self.tenants.copy_problem(action.layer, action.expert, size)
            if problem:
                return problem
        copies: list[CopyOrder] = []
        first = self._next
        for chiplet in targets:
            memory = nearest_memory(self._system, self._system.routes, {}, chiplet, tier)
            wish = ResidencyAction(ActionKind.promote, action.layer, action.expert, chiplet, memory, tier)
            order = self._prepare(wish, home[0])
            if isinstance(order, str):
                for made in copies:
                    self._drop(made.replica, order, written=False)
                self._next = first + (len(targets) if recorded else 0)
                return order
            copies.append(order)
        if self.tenants is not None:
            for made in copies:
                self.tenants.charge(made.replica, action.layer, action.expert, made.bytes)
        parts = []
        filled = 0
        for row in home:
            size = min(int(row["bytes"]), self._expert_bytes - filled)  # parts are whole bursts, their sum may be more
            if size > 0:
                parts.append((int(row["memory"]), int(row["address"]), filled, size))
            filled += size
        chunk = -(-action.chunk_bytes // self._burst) * self._burst
        return BroadcastOrder(action, chunk, tuple(copies), tuple(parts))

    def _held_bytes(self) -> int:
        """Bytes of routed replicas, those that come and those that drain included."""
        held = sum(int(row["bytes"]) for identity, row in self._rows.items() if identity not in self._shared)
        held += sum(int(row["bytes"]) for row in self._draining.values())
        return held + sum(order.bytes for order in self._pending.values() if order.replaces not in self._rows)

    def _nearer(self, action: ResidencyAction, row: npt.NDArray[np.void]) -> bool:
        """Whether the tier of an action is nearer to compute than that of a replica."""
        wanted = self._tiers.get(action.tier)
        return wanted is not None and self._system.tiers[wanted].rank < self._system.tiers[int(row["tier"])].rank

    def _demote(self, action: ResidencyAction) -> CopyOrder | str:
        """A copy of a replica in a farther tier, in whose favour it leaves."""
        row = self._rows.get(action.replica)
        if row is None:
            return f"no replica {action.replica}"
        reason = self._may_leave(row)
        if reason:
            return reason
        wanted = self._tiers.get(action.tier)
        if wanted is None or self._system.tiers[wanted].rank <= self._system.tiers[int(row["tier"])].rank:
            return f"tier {action.tier!r} is not farther than {self._system.tiers[int(row['tier'])].name!r}"
        if any(order.replaces == action.replica for order in self._pending.values()):
            return "it is on its way to another tier already"
        others = [other for other in self._rows.values() if _same_expert(other, action)]
        if any(int(other["chiplet"]) == action.chiplet and int(other["tier"]) == wanted for other in others):
            return f"endpoint {action.chiplet} has a replica of it in tier {action.tier}"
        order = self._prepare(action, row, replaces=action.replica)
        if self.tenants is not None and isinstance(order, CopyOrder):
            self.tenants.move(action.replica, order.replica)
        return order

    def _may_leave(self, row: npt.NDArray[np.void]) -> str:
        """Why a replica must stay; empty if it need not."""
        if int(row["replica"]) in self._homes:
            return "it is the expert's home"
        age = int(row["age_windows"])
        if age < self._min_residency and not self._recorded:
            return f"its age is {age} windows, of at least {self._min_residency}"
        return ""

    def _prepare(self, action: ResidencyAction, source: npt.NDArray[np.void], replaces: int = -1) -> CopyOrder | str:
        """Takes the region of a new replica; why not, where there is none."""
        tier = self._tiers.get(action.tier)
        allocator = self._allocators.get((tier, action.memory)) if tier is not None else None
        if tier is None or allocator is None:
            return f"endpoint {action.memory} carries no tier {action.tier!r}"
        if action.memory not in self._system.tiers[tier].serving(action.chiplet):
            return f"endpoint {action.memory} does not serve endpoint {action.chiplet} in tier {action.tier!r}"
        address = allocator.take(self._expert_bytes)
        if address is None:
            self._next += int(self._recorded)
            free = allocator.capacity_bytes - allocator.used_bytes
            return f"{free} B free in tier {action.tier} at endpoint {action.memory}, {self._expert_bytes} B needed"
        identity = self._next
        self._next += 1
        self._store.begin((tier, action.memory, address), action.layer, action.expert, int(source["version"]))
        order = CopyOrder(
            identity,
            action,
            int(source["memory"]),
            int(source["address"]),
            action.memory,
            address,
            self._expert_bytes,
            replaces,
        )
        source["in_flight"] += 1
        self._pending[identity] = order
        self._directory = None
        return order

    def publish(self, replica: int, *, intact: bool = True) -> Outcome:
        """The copy is complete: if its checksum holds, tokens may use it from now on.

        Args:
            intact: whether the bytes that arrived are those that were read. If not, the copy is dropped: its region is
                given back and the older replicas go on.
        """
        order = self._pending[replica]
        row = self._row_of(replica, order)
        region = _region(row)
        self._store.end(region, intact=intact)
        if not self._store.verified(region):
            return self._drop(replica, "its checksum is wrong")
        version = self._store.regions[region].version
        retired = self._retired.get((order.action.layer, order.action.expert), ())
        if version != int(row["version"]) and replica not in retired:
            return self._drop(replica, "another version has been published meanwhile")
        if replica in retired:
            return self._retire_late(order, row, version)
        del self._pending[replica]
        self._rows[replica] = row
        self._free_source(order)
        if order.replaces in self._rows:
            self._release(order.replaces)
        if replica in self._leaving:
            self._leaving.remove(replica)
            self._release(replica)
        self._directory = None
        return Outcome(order.action, "done")

    def _retire_late(self, order: CopyOrder, row: npt.NDArray[np.void], version: int) -> Outcome:
        """A copy of a version that is no longer the published one, but may be returned to."""
        key = (order.action.layer, order.action.expert)
        row["version"] = version
        del self._pending[order.replica]
        self._draining[order.replica] = row
        self._free_source(order)
        gone = [order.replaces] if order.replaces in self._retired[key] else []
        gone += [order.replica] if order.replica in self._leaving else []
        self._leaving.discard(order.replica)
        self._retired[key] = tuple(replica for replica in self._retired[key] if replica not in gone)
        self._reclaim_drained(gone)
        return Outcome(order.action, "done")

    def interrupt(self, replica: int) -> Outcome:
        """A copy ended before its last byte: its region is given back and the older replicas go on."""
        return self._drop(replica, "its copy was interrupted")

    def _drop(self, replica: int, reason: str, *, written: bool = True) -> Outcome:
        order = self._pending.pop(replica)
        if self.tenants is not None and order.replaces in self._rows:
            self.tenants.move(replica, order.replaces)
        self._free(self._row_of(replica, order), written=written)
        self._leaving.discard(replica)
        self._free_source(order)
        self._directory = None
        return Outcome(order.action, "refused", reason)

    def _free_source(self, order: CopyOrder) -> None:
        """The copy reads its source no more."""
        source = [
            identity
            for identity, held in (*self._rows.items(), *self._draining.items())
            if int(held["memory"]) == order.from_memory and int(held["address"]) == order.from_address
        ]
        self.use(source[:1], -1)

    # -- versions

    def stage(self, layer: int, expert: int, *, replicas: Sequence[int] | None = None) -> tuple[WriteOrder, ...] | str:
        """Takes room for the next version of an expert beside every replica; why not, where there is none.

        The writes that it returns must now be made, then :meth:`written` says how each of them ended. Tokens go on with
        the published version until :meth:`upgrade`; until :meth:`confirm` or :meth:`roll_back` nobody copies or moves
        a replica of the expert.

        Args:
            replicas: as recorded; of these the copy may still be under way.
        """
        key = (layer, expert)
        if self.upgrading(layer, expert):
            return "an upgrade of it is under way"
        if replicas is None:
            replicas = self.replicas_of(*key)
        orders: list[WriteOrder] = []
        first = self._next
        for replica in replicas:
            row = self._rows[replica] if replica in self._rows else self._row_of(replica, self._pending[replica])
            memory, size = int(row["memory"]), int(row["bytes"])
            address = self._allocators[int(row["tier"]), memory].take(size)
            if address is None:
                for order in orders:
                    self._free(self._draining.pop(order.replica), written=False)
                self._next = first
                return f"no room for its next version at endpoint {memory}"
            new = row.copy()
            new["replica"], new["address"], new["version"] = self._next, address, int(row["version"]) + 1
            new["part_of"] = self._next + int(row["part_of"]) - replica
            new["in_flight"], new["age_windows"] = 1, 0  # in use by what writes it
            self._store.begin(_region(new), layer, expert, int(new["version"]))
            self._draining[self._next] = new
            orders.append(WriteOrder(self._next, memory, address, size))
            self._next += 1
        self._staged[key] = [order.replica for order in orders]
        self._writing.update(self._staged[key])
        return tuple(orders)

    def written(self, replica: int, *, whole: bool = True, intact: bool = True) -> None:
        """The write of a staged replica has ended: with its last byte, unless not ``whole``, and unharmed or not."""
        if whole:
            self._store.end(_region(self.row(replica)), intact=intact)
        self._writing.remove(replica)
        self.use([replica], -1)

    def staged_problem(self, layer: int, expert: int) -> str | None:
        """Why the staged version must be dropped; empty if it may be published, ``None`` while it is being written."""
        staged = self._staged[layer, expert]
        if any(replica in self._writing for replica in staged):
            return None
        stored = [self._store.regions[_region(self._draining[replica])] for replica in staged]
        if not all(one.whole for one in stored):
            return "its next version was not written to its end"
        return "" if all(one.intact for one in stored) else "a checksum of its next version is wrong"

    def upgrade(self, layer: int, expert: int, *, recorded: bool = False) -> str:
        """Publishes the staged version, all replicas at once, if every checksum holds; why not otherwise.

        The replicas of the old version leave the directory. They stay in memory for the tokens in flight, and for
        :meth:`roll_back` until :meth:`confirm`.

        Args:
            recorded: it was written and found sound where it was recorded; token groups wait for what is not written
                yet. Copies of the old version that are under way end as such.
        """
        key = (layer, expert)
        if key not in self._staged:
            return "nothing is staged"
        if not recorded:
            problem = self.staged_problem(layer, expert)
            if problem is None:
                return "its next version is being written"
            if problem:
                self.drop_staged(layer, expert)
                return problem
        staged = self._staged.pop(key)
        old = self.replicas_of(*key)
        self._swap(old, staged)
        pending = tuple(replica for replica, order in self._pending.items() if _same_key_of(order, *key))
        self._retired[key] = (*old, *(pending if recorded else ()))
        return ""

    def drop_staged(self, layer: int, expert: int) -> None:
        """Gives the staged version up: its regions come back, those that are still written when that has ended."""
        self._reclaim_drained(self._staged.pop((layer, expert)))

    def roll_back(self, layer: int, expert: int) -> str:
        """Returns to the version before the last upgrade; why not, where that has been confirmed."""
        old = self._retired.pop((layer, expert), None)
        if old is None:
            return "no version to go back to"
        new = self.replicas_of(layer, expert)
        self._swap(new, [replica for replica in old if replica not in self._pending])
        self._reclaim_drained(new)
        return ""

    def confirm(self, layer: int, expert: int) -> str:
        """Gives the version before the last upgrade up: its regions come back with their last tokens."""
        old = self._retired.pop((layer, expert), None)
        if old is None:
            return "no version to give up"
        self._reclaim_drained([replica for replica in old if replica not in self._pending])
        return ""

    def upgrading(self, layer: int, expert: int) -> bool:
        """Whether a next version of an expert is staged, or published and not yet confirmed."""
        return (layer, expert) in self._staged or (layer, expert) in self._retired

    def upgrades(self) -> tuple[Mapping[tuple[int, int], Sequence[int]], Mapping[tuple[int, int], Sequence[int]]]:
        """Replicas that are staged and those that may be returned to, by layer and expert."""
        return self._staged, self._retired

    @property
    def writing(self) -> set[int]:
        """Replicas of next versions whose weights are being written."""
        return self._writing

    @property
    def harmed(self) -> dict[int, bool]:
        """Staged replicas whose write has ended unsoundly: whether with its last byte."""
        regions = {
            replica: self._store.regions[_region(self._draining[replica])]
            for group in self._staged.values()
            for replica in group
            if replica not in self._writing
        }
        return {replica: one.whole for replica, one in regions.items() if not (one.whole and one.intact)}

    def replicas_of(self, layer: int, expert: int) -> tuple[int, ...]:
        """Published replicas of an expert, each part of one that is split."""
        return tuple(identity for identity, row in self._rows.items() if _same_key(row, layer, expert))

    def row(self, replica: int) -> npt.NDArray[np.void]:
        """Directory row of a replica, published or not, that has its region."""
        return self._rows[replica] if replica in self._rows else self._draining[replica]

    def _swap(self, leaving: Sequence[int], coming: Sequence[int]) -> None:
        for identity in leaving:
            self._draining[identity] = self._rows.pop(identity)
        for identity in coming:
            self._rows[identity] = self._draining.pop(identity)
        if self.tenants is not None:
            for old, new in zip(leaving, coming, strict=False):  # a copy that a replay still makes has no successor yet
                self.tenants.move(old, new)
        if self._homes & set(leaving):
            first = self._rows[min(coming)]["part_of"]
            self._homes -= set(leaving)
            self._homes |= {identity for identity in coming if self._rows[identity]["part_of"] == first}
        self._directory = None

    def _reclaim_drained(self, identities: Sequence[int]) -> None:
        for identity in identities:
            if self._draining[identity]["in_flight"] == 0:
                self._reclaim(identity)

    def _kept(self, identity: int) -> bool:
        """Whether a replica out of the directory must stay in memory: staged, or to be rolled back to."""
        return any(identity in group for group in (*self._staged.values(), *self._retired.values()))

    # -- what tokens read

    def check_reads(self, identities: Iterable[int]) -> None:
        """Law: the weights of every replica that token groups use are whole, unharmed, and of its expert and version.

        Raises:
            ConsistencyError: naming each that is not.
        """
        problems = []
        for identity in identities:
            row = self._rows.get(identity, self._draining.get(identity))
            self.checked_reads += 1
            if row is None:
                problems.append(f"replica {identity}: it has been reclaimed")
                continue
            held = row.item()
            layer, expert, version = held[_LAYER], held[_EXPERT], held[_VERSION]
            problem = self._store.problem((held[_TIER], held[_MEMORY], held[_ADDRESS]), layer, expert, version)
            if problem:
                problems.append(f"replica {identity} of expert {expert} in layer {layer}: {problem}")
        if problems:
            raise ConsistencyError("tokens read weights that they must not read\n  " + "\n  ".join(problems))

    def _row_of(self, replica: int, order: CopyOrder) -> npt.NDArray[np.void]:
        row = np.zeros((), dtype=DIRECTORY)
        action = order.action
        for name, value in (
            ("replica", replica),
            ("layer", action.layer),
            ("expert", action.expert),
            ("tier", self._tiers[action.tier]),
            ("chiplet", action.chiplet),
            ("memory", order.to_memory),
            ("address", order.to_address),
            ("bytes", order.bytes),
            ("part_of", replica),
            ("neurons", self._neurons),
            ("executes_at", self._executes_at(action.chiplet, order.to_memory)),
            ("version", self.version(action.layer, action.expert)),
        ):
            row[name] = value
        return row

    def version(self, layer: int, expert: int) -> int:
        """The published version of an expert."""
        return max(int(row["version"]) for row in self._rows.values() if _same_key(row, layer, expert))

    def _evict(self, action: ResidencyAction) -> str:
        if self._recorded and action.replica in self._pending:
            self._leaving.add(action.replica)
            return ""
        row = self._rows.get(action.replica)
        if row is None:
            return f"no replica {action.replica}"
        reason = self._may_leave(row)
        if not reason:
            self._release(action.replica)
        return reason

    def _release(self, identity: int) -> None:
        """A replica leaves the directory; its region is given back with its last token group."""
        row = self._draining[identity] = self._rows.pop(identity)
        self._directory = None
        if row["in_flight"] == 0:
            self._reclaim(identity)

    def _reclaim(self, identity: int) -> None:
        self._free(self._draining.pop(identity))

    def _free(self, row: npt.NDArray[np.void], *, written: bool = True) -> None:
        """Nobody reads a region any more: it comes back, at once or, if anything is there, when it is written over."""
        self._store.erase(_region(row))
        replica, memory, address, size = (int(row[name]) for name in ("replica", "memory", "address", "bytes"))
        order = WriteOrder(replica, memory, address, size)
        self._scrubbing[replica] = (int(row["tier"]), order)
        if self._scrub and written:
            self._released.append(order)
        else:
            self.scrubbed(replica)

    # -- scrubbing

    @property
    def scrubs(self) -> bool:
        """Whether regions are written over."""
        return self._scrub

    @property
    def scrubbing(self) -> Mapping[int, tuple[int, WriteOrder]]:
        """Regions that are to be written over, or are under way, with their tiers, by the replica that was there."""
        return self._scrubbing

    def take_scrubs(self) -> list[WriteOrder]:
        """Regions to write over, each once."""
        taken, self._released = self._released, []
        return taken

    def scrubbed(self, replica: int) -> None:
        """A replica's region has been written over: it is free, and its tenant no longer pays for it."""
        tier, order = self._scrubbing.pop(replica)
        self._allocators[tier, order.memory].give_back(order.address, order.bytes)
        if self.tenants is not None:
            self.tenants.release(replica)


def _region(row: npt.NDArray[np.void]) -> RegionKey:
    return int(row["tier"]), int(row["memory"]), int(row["address"])


def _same_key(row: npt.NDArray[np.void], layer: int, expert: int) -> bool:
    return int(row["layer"]) == layer and int(row["expert"]) == expert


def _same_key_of(order: CopyOrder, layer: int, expert: int) -> bool:
    return order.action.layer == layer and order.action.expert == expert


def _same_expert(row: npt.NDArray[np.void], action: ResidencyAction) -> bool:
    return int(row["layer"]) == action.layer and int(row["expert"]) == action.expert


def _same_wish(first: ResidencyAction, second: ResidencyAction) -> bool:
    return first.layer == second.layer and first.expert == second.expert


def _finding(path: str, expected: str, got: str) -> ConfigError:
    return ConfigError(None, None, None, f"placement: {path}", expected, got)
