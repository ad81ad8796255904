"""The policy: parameters, the layout of the start, and the two loops."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cosim.config.presets import checkpoint
from cosim.config.spec import Items, Spec
from cosim.policy.assignment import homes, nearest
from cosim.policy.base import Policy, Pressure, Profile, ResidencyAction, WindowState
from cosim.policy.directory import Directory, PlacedReplica, Placement
from cosim.policy.hcrmap.controllers import Controller, GreedyController, QController, RuleController
from cosim.policy.hcrmap.demand import DemandTracker
from cosim.policy.hcrmap.edits import FEATURES, Edit, EditLimits, PlaceWeights, legal_edits
from cosim.policy.hcrmap.fast_map import TokenWeights, fast_token_map
from cosim.policy.hcrmap.q_network import QNetwork
from cosim.policy.hcrmap.substrate import Substrate
from cosim.policy.placement import expert_parallel
from cosim.policy.room import Room

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["HCRMap"]

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TokenCost(Spec):
    """Weights of Eq. 39."""

    queue: Weight = 1.0
    path: Weight = 1.0
    bank: Weight = 1.0
    stream: Weight = 1.0


class PlaceCost(Spec):
    """Weights of Eq. 36."""

    distance: Weight = 1.0
    queue: Weight = 1.0
    bank: Weight = 1.0
    scarcity: Weight = 1.0
    diversity: Weight = 0.5


class HCRMap(Policy):
    """Bounded replicas over the tiers by a slow loop, and tokens to them by a fast one (HCRMap, section 6).

    One legal edit at most per window; every expert keeps its home in the farthest tier. The paper publishes none of the
    parameters but the budget.
    """

    name = "hcrmap"
    updates_per_window = 1

    class Params(Policy.Params):
        """``controller``: rules, greedy or dqn (with ``checkpoint``, a shipped name or a path). ``start``: the layout
        of the start fills the budget from the profile, or has homes only.

        ``signals``: pressure signals in use, all four in the full policy. ``fast_map``: Algorithm 2 (``pressure``), the
        nearest replica, or the directory's first (no fast loop). ``block_groups``: groups between two updates of its
        counters; 0: never within a layer. ``near_tiers``: names of the tiers that copies may take; all if not given.

        ``alpha``: share of the old demand that is kept. ``window_batches``: Δ. ``min_residency_windows``: A_min.
        ``max_replicas``: R_max. ``replica_budget``: B_res over the bytes of one copy (1.3 is published). ``eta``: of
        Eq. 40. ``token_cost``, ``place_cost``: weights of Eq. 39 and 36. ``candidates``: experts, and stale replicas,
        that edits are made for. ``stale_windows``: windows without a token after which a replica is stale.
        ``horizon_windows``: over which a copy must pay.
        """

        controller: Literal["rules", "greedy", "dqn"] = "rules"
        checkpoint: str = "hcrmap-dqn"
        start: Literal["profile", "homes"] = "profile"
        signals: Items[Literal["link", "bank", "load", "migration"]] = ("link", "bank", "load", "migration")
        fast_map: Literal["pressure", "nearest", "first"] = "pressure"
        block_groups: Annotated[int, Field(ge=0)] = 1
        near_tiers: Items[str] | None = None
        alpha: Share = 0.8
        window_batches: Annotated[int, Field(ge=1)] = 1
        min_residency_windows: Annotated[int, Field(ge=0)] = 2
        max_replicas: Annotated[int, Field(ge=1)] = 4
        replica_budget: Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)] = 1.3
        eta: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.9
        token_cost: TokenCost = TokenCost()
        place_cost: PlaceCost = PlaceCost()
        candidates: Annotated[int, Field(ge=1)] = 8
        stale_windows: Annotated[int, Field(ge=1)] = 2
        horizon_windows: Annotated[int, Field(ge=1)] = 16

    params: Params

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        super().__init__(params)
        self.needs_what_if = self.params.controller == "greedy"
        self.controller: Controller = self._controller()

    def _controller(self) -> Controller:
        if self.params.controller == "dqn":
            return QController(QNetwork.load(checkpoint(self.params.checkpoint), len(FEATURES)))
        kind = RuleController if self.params.controller == "rules" else GreedyController
        return kind(self.params.horizon_windows)

    def place(self, system: System, model: ModelSpec, profile: Profile) -> Placement:
        params = self.params
        self._substrate = Substrate(system, model)
        self._experts = model.experts
        self._layers = list(profile.running)
        self._tracker = DemandTracker(len(profile.counts), model.experts, len(system.endpoints), params.alpha)
        signals = set(params.signals)
        cost, place = params.token_cost, params.place_cost
        self._token_weights = TokenWeights(
            cost.queue * ("load" in signals),
            cost.path * ("link" in signals),
            cost.bank * ("bank" in signals),
            cost.stream,
        )
        self._place_weights = PlaceWeights(
            place.distance * ("link" in signals),
            place.queue * ("load" in signals),
            place.bank * ("bank" in signals),
            place.scarcity,
            place.diversity,
        )
        home = system.home_tier.name
        known = [tier.name for tier in sorted(system.tiers, key=lambda tier: tier.rank) if tier.name != home]
        near = tuple(name for name in known if params.near_tiers is None or name in params.near_tiers)
        self._limits = EditLimits(
            params.max_replicas,
            int(params.replica_budget * len(self._layers) * model.experts * model.expert_bytes),
            params.min_residency_windows,
            params.candidates,
            params.stale_windows,
            params.eta if "migration" in signals else None,
            near,
        )
        placed = list(expert_parallel(system, model).replicas)
        if params.start == "profile" and near:
            placed += self._copies(system, model, profile, placed, near)
        return Placement(placed)

    def _copies(
        self,
        system: System,
        model: ModelSpec,
        profile: Profile,
        placed: Sequence[PlacedReplica],
        tiers: Sequence[str],
    ) -> list[PlacedReplica]:
        """Copies of the profile's hottest experts, as many as the budget holds: what the slow loop would settle at.

        One after the other goes to the expert with the most demand per replica, over all layers, in the nearest tier
        with room, at the place that Eq. 36 prefers. Its queue is the work that the profile gives a chiplet in that
        layer, tokens split evenly over replicas; its bank pressure the layer's experts in a memory, over its rate.
        """
        chiplets, weights = self._substrate.chiplets, self._place_weights
        hops = {(a, b): self._substrate.hops(a, b) for a in chiplets for b in chiplets}
        span = max(hops.values()) or 1
        mean = {c: sum(hops[source, c] for source in chiplets) / len(chiplets) / span for c in chiplets}
        running = set(self._layers)
        room = Room(system, model, [one for one in placed if one.layer in running])
        held: dict[tuple[int, int], list[int]] = {}
        load = {layer: dict.fromkeys(chiplets, 0.0) for layer in self._layers}
        rate = self._substrate.memory_Bps
        busy = {layer: dict.fromkeys((m for t in system.tiers for m in t.endpoints), 0.0) for layer in self._layers}
        for one in placed:
            if one.layer in running:
                held[one.layer, one.expert] = [one.chiplet]
                load[one.layer][one.chiplet] += float(profile.counts[one.layer, one.expert])
                busy[one.layer][one.memory] += 1 / rate[one.memory]
        heap = [(-float(profile.counts[layer, expert]), layer, expert) for layer, expert in held]
        heapq.heapify(heap)
        budget = int((self.params.replica_budget - 1) * model.experts * len(self._layers))
        copies: list[PlacedReplica] = []
        while heap and len(copies) < budget:
            demand, layer, expert = heapq.heappop(heap)
            places, work, banks = held[layer, expert], load[layer], busy[layer]
            if demand == 0 or len(places) >= min(self.params.max_replicas, len(chiplets)):
                continue
            peak, fullest = max(work.values()), max(banks.values())
            made = None
            for tier in tiers:
                costs = [
                    (
                        weights.distance * (mean[c] + self._substrate.hops(m, c) / span)
                        + weights.queue * work[c] / peak
                        + weights.bank * banks[m] / fullest
                        + weights.scarcity * (1 - room.free_share(tier, m))
                        - weights.diversity * min(hops[place, c] for place in places) / span,
                        c,
                        m,
                    )
                    for c in chiplets
                    if c not in places
                    for m in system.tier(tier).serving(c)
                    if room.fits(tier, m)
                ]
                if costs:
                    _, chiplet, memory = min(costs)
                    made = PlacedReplica(layer, expert, chiplet, memory, tier)
                    room.take(made)
                    banks[memory] += 1 / rate[memory]
                    break
            if made is None:
                continue
            total = float(profile.counts[layer, expert])
            for place in places:
                work[place] -= total / len(places) - total / (len(places) + 1)
            places.append(made.chiplet)
            work[made.chiplet] += total / len(places)
            copies.append(made)
            heapq.heappush(heap, (-total / len(places), layer, expert))
        return copies

    # -- the loops

    def edits(self, state: WindowState) -> list[Edit]:
        """Closes the window in the demand tracker and gives the legal edits, no-op first."""
        self._tracker.close(state.demand, state.directory.rows["replica"])
        return legal_edits(state, self._tracker, self._substrate, self._place_weights, self._limits, self._layers)

    def on_window(self, state: WindowState) -> Sequence[ResidencyAction]:
        edits = self.edits(state)
        chosen = edits[self.controller.choose(edits, state.what_if)].action
        return () if chosen is None else (chosen,)

    def assign(self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure) -> npt.NDArray[np.int32]:
        rows = self.map_tokens(groups, directory, pressure)
        self._tracker.note(groups, directory.rows[rows])
        return rows

    def map_tokens(
        self, groups: npt.NDArray[np.void], directory: Directory, pressure: Pressure
    ) -> npt.NDArray[np.int32]:
        """The fast loop alone: as :meth:`assign`, without counting."""
        if self.params.fast_map == "first":
            return homes(groups, directory)
        if self.params.fast_map == "nearest":
            return nearest(groups, directory, self._substrate.system.routes)
        return fast_token_map(
            groups, directory, pressure, self._substrate, self._token_weights, self.params.block_groups
        )

    def save(self) -> dict[str, object]:
        return self._tracker.save()

    def load(self, state: Mapping[str, Any]) -> None:
        self._tracker.load(state)
