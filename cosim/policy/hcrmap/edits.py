"""The slow loop's residency edits: candidates, legal mask, placement cost, and what a controller sees of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.policy.base import ActionKind, Pressure, ResidencyAction, WindowState
from cosim.policy.hcrmap.demand import DemandTracker
from cosim.policy.hcrmap.substrate import Substrate

__all__ = ["FEATURES", "Edit", "EditLimits", "PlaceWeights", "legal_edits"]

FEATURES = (
    "bias",
    "is_promote",
    "is_demote",
    "is_evict",
    "target_rank",
    "from_rank",
    "demand",
    "fluctuation",
    "source_entropy",
    "replicas",
    "idle",
    "age",
    "stream_saved",
    "work_share",
    "copy_time",
    "target_bank",
    "from_bank",
    "target_load",
    "target_room",
    "load",
    "link",
    "bank",
    "tier",
    "migration",
    "budget_left",
    "place_cost",
)
"""What a controller sees of a state–action pair; every entry is of the order of one."""


@dataclass(frozen=True)
class PlaceWeights:
    """Weights of Eq. 36: source distance, chiplet queue, bank pressure, tier scarcity, location diversity."""

    distance: float
    queue: float
    bank: float
    scarcity: float
    diversity: float


@dataclass(frozen=True)
class EditLimits:
    """The bounds of Eq. 28 to 30 and 40, and how many candidates of each kind there are.

    migration_share: largest share of a link that foreground and migration may take together; ``None``: not asked.
    """

    max_replicas: int
    budget_bytes: int
    min_residency_windows: int
    candidates: int
    stale_windows: int
    migration_share: float | None
    tiers: tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """One legal action with its features; ``action`` is ``None`` for no-op."""

    action: ResidencyAction | None
    features: npt.NDArray[np.float64]


def legal_edits(
    state: WindowState,
    tracker: DemandTracker,
    substrate: Substrate,
    weights: PlaceWeights,
    limits: EditLimits,
    layers: Sequence[int],
) -> list[Edit]:
    """No-op first, then every legal edit of the candidate experts, in a fixed order.

    Candidates are the experts with the most smoothed demand that are not in the nearest tier yet (persistent hot ones,
    and warm ones that overflow it), and replicas that served nothing for ``stale_windows``. A promotion is offered once
    per nearer tier, at the place that Eq. 36 prefers (the paper names tier and chiplet in the action and chooses them
    again by Eq. 35; here the action fixes the tier and Eq. 35 the place). A replica that would leave the directory at
    once when its tokens are through is old enough. Nothing is offered for an expert whose copy is under way.
    """
    return _Offers(state, tracker, substrate, weights, limits, layers).all()


class _Offers:
    def __init__(
        self,
        state: WindowState,
        tracker: DemandTracker,
        substrate: Substrate,
        weights: PlaceWeights,
        limits: EditLimits,
        layers: Sequence[int],
    ) -> None:
        self.state, self.tracker, self.substrate = state, tracker, substrate
        self.weights, self.limits, self.layers = weights, limits, layers
        experts = tracker.smoothed.shape[1]
        rows = state.directory.rows
        self.rows = rows[rows["expert"] < experts]
        self.pressure: Pressure = state.pressure
        self.window_s = max(state.pressure.window_fs * 1e-15, 1e-12)
        self.held = int(self.rows["bytes"].sum()) + len(state.migrating) * substrate.expert_bytes
        self.moving = {(action.layer, action.expert) for action in state.migrating}
        self.used: dict[tuple[int, int], int] = {}
        for row in rows:
            key = (int(row["tier"]), int(row["memory"]))
            self.used[key] = self.used.get(key, 0) + int(row["bytes"])
        for action in state.migrating:
            key = (substrate.tiers.index(action.tier), action.memory)
            self.used[key] = self.used.get(key, 0) + substrate.expert_bytes
        self.mean = max(float(tracker.smoothed[list(layers)].mean()), 1e-12)

    def all(self) -> list[Edit]:
        edits = [Edit(None, self._features(None, None, 0.0))]
        for layer, expert in self._hot():
            edits += self._promotions(layer, expert)
        for row in self._stale():
            edits += self._departures(row)
        return edits

    # -- candidates

    def _hot(self) -> list[tuple[int, int]]:
        nearest = int(self.substrate.ranks.min())
        found = []
        for layer in self.layers:
            order = np.argsort(-self.tracker.smoothed[layer], kind="stable")[: 4 * self.limits.candidates]
            for expert in order.tolist():
                demand = float(self.tracker.smoothed[layer, expert])
                if demand > 0 and (layer, expert) not in self.moving:
                    held = self._of(layer, expert)
                    if len(held) and int(self.substrate.ranks[held["tier"]].min()) > nearest:
                        found.append((-demand, layer, expert))
        return [(layer, expert) for _, layer, expert in sorted(found)[: self.limits.candidates]]

    def _stale(self) -> list[npt.NDArray[np.void]]:
        copies = []
        for row in self.rows:
            idle = self.tracker.idle.get(int(row["replica"]), 0)
            if int(self.substrate.ranks[row["tier"]]) == int(self.substrate.ranks.max()) or self._is_home(row):
                continue
            if idle >= self.limits.stale_windows and (int(row["layer"]), int(row["expert"])) not in self.moving:
                copies.append((-idle, int(row["replica"]), row))
        return [row for _, _, row in sorted(copies, key=lambda item: item[:2])[: self.limits.candidates]]

    def _of(self, layer: int, expert: int) -> npt.NDArray[np.void]:
        return self.state.directory.rows[self.state.directory.of(layer, expert)]

    def _is_home(self, row: npt.NDArray[np.void]) -> bool:
        held = self._of(int(row["layer"]), int(row["expert"]))
        return int(held["replica"].min()) == int(row["replica"])

    # -- edits

    def _promotions(self, layer: int, expert: int) -> list[Edit]:
        held = self._of(layer, expert)
        size = self.substrate.expert_bytes
        if len(held) >= self.limits.max_replicas or self.held + size > self.limits.budget_bytes:
            return []
        best = int(self.substrate.ranks[held["tier"]].min())
        source = held[np.argmin(held["replica"])]
        edits = []
        for tier in self.limits.tiers:
            number = self.substrate.tiers.index(tier)
            if int(self.substrate.ranks[number]) >= best:
                continue
            place = self._place(layer, expert, number, held, int(source["memory"]))
            if place is None:
                continue
            chiplet, memory, cost = place
            action = ResidencyAction(ActionKind.promote, layer, expert, chiplet, memory, tier)
            edits.append(Edit(action, self._features(action, source, cost)))
        return edits

    def _departures(self, row: npt.NDArray[np.void]) -> list[Edit]:
        """A stale replica may go to the next farther tier, or altogether."""
        if int(row["age_windows"]) < self.limits.min_residency_windows:
            return []
        layer, expert, replica = int(row["layer"]), int(row["expert"]), int(row["replica"])
        chiplet = int(row["chiplet"])
        rank = int(self.substrate.ranks[row["tier"]])
        action = ResidencyAction(ActionKind.evict, layer, expert, chiplet, int(row["memory"]), replica=replica)
        edits = [Edit(action, self._features(action, row, 0.0))]
        others = {(int(one["chiplet"]), int(one["tier"])) for one in self._of(layer, expert)}
        for tier in self.limits.tiers:
            number = self.substrate.tiers.index(tier)
            if not rank < int(self.substrate.ranks[number]) < int(self.substrate.ranks.max()):
                continue
            fitting = [m for m in self._memories(number, chiplet) if self._path_is_free(int(row["memory"]), m)]
            if fitting and (chiplet, number) not in others:
                memory = min(fitting, key=lambda m: (self.substrate.hops(chiplet, m), m))
                down = ResidencyAction(ActionKind.demote, layer, expert, chiplet, memory, tier, replica)
                edits.append(Edit(down, self._features(down, row, 0.0)))
        return edits

    def _memories(self, tier: int, chiplet: int) -> list[int]:
        system = self.substrate.system
        capacity, size = system.tiers[tier].capacity_bytes, self.substrate.expert_bytes
        return [m for m in system.tiers[tier].serving(chiplet) if self.used.get((tier, m), 0) + size <= capacity]

    def _place(
        self, layer: int, expert: int, tier: int, held: npt.NDArray[np.void], source: int
    ) -> tuple[int, int, float] | None:
        """Chiplet, memory and cost that Eq. 36 prefers among the legal places of a tier."""
        share = self.tracker.sources(layer, expert)
        sources = np.flatnonzero(share).tolist()
        span = max(self.substrate.hops(a, b) for a in self.substrate.chiplets for b in self.substrate.chiplets) or 1
        ranks = self.substrate.ranks
        taken = {int(row["chiplet"]) for row in held if ranks[row["tier"]] <= ranks[tier]}
        best: tuple[float, int, int] | None = None
        for chiplet in self.substrate.chiplets:
            if chiplet in taken:
                continue
            distance = sum(float(share[place]) * self.substrate.hops(place, chiplet) for place in sources) / span
            apart = min(self.substrate.hops(int(row["chiplet"]), chiplet) for row in held) / span
            for memory in self._memories(tier, chiplet):
                if not self._path_is_free(source, memory):
                    continue
                capacity = self.substrate.system.tiers[tier].capacity_bytes
                cost = (
                    self.weights.distance * distance
                    + self.weights.queue * float(self.pressure.compute[chiplet])
                    + self.weights.bank * float(self.pressure.bank[memory])
                    + self.weights.scarcity * self.used.get((tier, memory), 0) / capacity
                    - self.weights.diversity * apart
                    # the paper's distance is that of the tokens; weights come over the same links
                    + self.weights.distance * self.substrate.hops(memory, chiplet) / span
                )
                if best is None or (cost, chiplet, memory) < best:
                    best = (cost, chiplet, memory)
        return None if best is None else (best[1], best[2], best[0])

    def _path_is_free(self, source: int, destination: int) -> bool:
        """Eq. 40: what tokens and weights took of every link on the way in the last window, and the copy on top."""
        bound = self.limits.migration_share
        if bound is None:
            return True
        links = self.substrate.path(source, destination)
        if not len(links):
            return True
        foreground = self.pressure.link[links]
        copy = self.substrate.expert_bytes / (self.substrate.link_Bps[links] * self.window_s)
        return bool((foreground + copy <= bound).all())

    # -- features

    def _features(
        self, action: ResidencyAction | None, source: npt.NDArray[np.void] | None, place_cost: float
    ) -> npt.NDArray[np.float64]:
        p, values = self.pressure, dict.fromkeys(FEATURES, 0.0)
        memories = [endpoint.index for endpoint in self.substrate.system.memory_endpoints]
        values |= {
            "bias": 1.0,
            "load": float(p.compute.max(initial=0.0)),
            "link": float(p.link.max(initial=0.0)),
            "bank": float(p.bank[memories].max(initial=0.0)),
            "tier": float(p.tier.max(initial=0.0)),
            "migration": float(p.link_migration.max(initial=0.0)),
            "budget_left": max(0.0, 1 - self.held / self.limits.budget_bytes),
        }
        if action is not None and source is not None:
            layer, expert, size = action.layer, action.expert, self.substrate.expert_bytes
            held = self._of(layer, expert)
            demand = float(self.tracker.smoothed[layer, expert])
            here, farthest = int(source["memory"]), max(int(self.substrate.ranks.max()), 1)
            work = demand * self.substrate.expert_macs * float(self.substrate.s_per_mac[self.substrate.chiplets[0]])
            values |= {
                f"is_{action.kind.value}": 1.0,
                "from_rank": float(self.substrate.ranks[source["tier"]]) / farthest,
                "demand": demand / self.mean,
                "fluctuation": float(self.tracker.fluctuation[layer, expert]) / max(demand, 1.0),
                "source_entropy": self.tracker.source_entropy(layer, expert),
                "replicas": len(held) / self.limits.max_replicas,
                "idle": min(self.tracker.idle.get(int(source["replica"]), 0) / 8, 1.0),
                "age": min(int(source["age_windows"]) / 8, 1.0),
                "work_share": work / self.window_s,
                "from_bank": float(p.bank[here]),
                "target_load": float(p.compute[action.chiplet]),
                "place_cost": place_cost,
            }
            if action.tier:
                tier = self.substrate.system.tier(action.tier)
                number = self.substrate.tiers.index(action.tier)
                rate = self.substrate.tier_Bps(self.substrate.tiers[int(source["tier"])])
                saved = size / rate * float(p.bank[here]) - size / self.substrate.tier_Bps(action.tier) * float(
                    p.bank[action.memory]
                )
                values |= {
                    "target_rank": float(self.substrate.ranks[number]) / farthest,
                    "stream_saved": min(demand, 1.0) * saved / self.window_s,
                    "copy_time": size / float(self.substrate.memory_Bps[here]) / self.window_s,
                    "target_bank": float(p.bank[action.memory]),
                    "target_room": 1 - self.used.get((number, action.memory), 0) / tier.capacity_bytes,
                }
        return np.array([values[name] for name in FEATURES])
