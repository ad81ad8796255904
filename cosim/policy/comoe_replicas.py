"""The slow loop of CoMoE-Chip: which copies the near tier holds, by expected gain, with leases and a hysteresis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.policy.base import ActionKind, ResidencyAction, WindowState
from cosim.policy.resident_pages import PageSlots
from cosim.policy.service_times import ServiceTimes

if TYPE_CHECKING:
    from cosim.policy.transition_graph import TransitionGraph

__all__ = ["ReplicaPlanner"]


class ReplicaPlanner:
    """Expected gain of a page at a chiplet, in seconds a batch (seed 003, Eq. 3 in words):

        gain = p_hit saved - (page time (1 + C_nop) / batches that the copy will stay) - gain of the page it displaces

    p_hit is the chance that a batch uses the expert, by its demand in the window and, with the graph, by that of its
    predecessors (the larger of the two). A first page of an expert saves the page's way through the package; a further
    one at another chiplet saves the work that it takes from the busiest of its chiplets, as far as this one is less
    loaded. C_nop is the share of time that the busiest link was busy. The page of the least gain is displaced where all
    slots are taken; a copy younger than its lease stays, and so does one whose successor does not gain more by the
    hysteresis.
    """

    def __init__(
        self,
        times: ServiceTimes,
        slots: PageSlots | None,
        *,
        lease_windows: int,
        hysteresis: float,
        migrations_per_layer: int,
        expert_copies: int,
    ) -> None:
        self._times = times
        self._slots = slots
        self._lease = lease_windows
        self._hysteresis = hysteresis
        self._migrations = migrations_per_layer
        self._most = expert_copies
        self._demand: npt.NDArray[np.float64] | None = None

    @property
    def chiplets(self) -> list[int]:
        """Endpoints that compute."""
        return self._times.chiplets

    def plan(self, state: WindowState, batches: int, graph: TransitionGraph | None) -> list[ResidencyAction]:
        """Evictions and promotions of every layer; none where the system has no tier near to compute."""
        demand = state.demand / batches
        # stable hotness: windows weigh half of the one behind them
        self._demand = demand if self._demand is None else (self._demand + demand) / 2
        if self._slots is None:
            return []
        actions: list[ResidencyAction] = []
        for layer in np.unique(state.directory.rows["layer"]).tolist():
            actions += self._plan_layer(state, layer, batches, graph)
        return actions

    def _plan_layer(
        self, state: WindowState, layer: int, batches: int, graph: TransitionGraph | None
    ) -> list[ResidencyAction]:
        slots, times, rows = self._slots, self._times, state.directory.rows
        assert slots is not None
        assert self._demand is not None
        tier = [item.name for item in times.system.tiers].index(slots.tier)
        demand = self._demand[layer]
        hit = self._hits(layer, demand, graph)
        of_layer = rows[(rows["layer"] == layer) & (rows["expert"] < len(demand))]
        pages: dict[int, dict[int, npt.NDArray[np.void]]] = {c: {} for c in times.chiplets}  # chiplet: expert: row
        homes: dict[int, int] = {}
        for row in np.sort(of_layer, order="replica"):
            expert, chiplet = int(row["expert"]), int(row["chiplet"])
            homes.setdefault(expert, chiplet)
            if int(row["tier"]) == tier:
                pages[chiplet][expert] = row
        where = {expert: [c for c in times.chiplets if expert in pages[c]] for expert in homes}
        coming = {(action.expert, action.chiplet) for action in state.migrating if action.layer == layer}
        for expert, chiplet in coming:
            where[expert].append(chiplet)
        load = self._load(demand, where, homes)
        nop = 1.0 + (float(state.pressure.link.max()) if len(state.pressure.link) else 0.0)
        stay = batches * max(self._lease, 1)
        actions: list[ResidencyAction] = []
        started = sum(1 for _ in coming)
        used = {c: len(pages[c]) + sum(1 for _, chiplet in coming if chiplet == c) for c in times.chiplets}
        while started < self._migrations:
            best: tuple[float, int, int, int] | None = None
            for expert in sorted(homes):
                if len(where[expert]) >= self._most:
                    continue
                for chiplet in [homes[expert]] if not where[expert] else times.chiplets:
                    if chiplet in where[expert]:
                        continue
                    gain = self._gain(expert, chiplet, demand, hit, where, load)
                    gain -= times.page_s[chiplet] * nop / stay
                    displaced, lost = self._displaced(chiplet, used, pages, demand, hit, where, load)
                    if displaced == -2 or gain <= lost * (1.0 + self._hysteresis) or gain <= 0:
                        continue
                    found = (gain - lost, -expert, -chiplet, displaced)
                    if best is None or found > best:
                        best = found
            if best is None:
                break
            _, expert, chiplet, displaced = best[0], -best[1], -best[2], best[3]
            if displaced >= 0:
                row = pages[chiplet].pop(displaced)
                where[displaced].remove(chiplet)
                used[chiplet] -= 1
                actions.append(ResidencyAction(ActionKind.evict, layer, displaced, replica=int(row["replica"])))
            actions.append(
                ResidencyAction(ActionKind.promote, layer, expert, chiplet, slots.memory[chiplet], slots.tier)
            )
            where[expert].append(chiplet)
            used[chiplet] += 1
            load = self._load(demand, where, homes)
            started += 1
        return actions

    def _hits(
        self, layer: int, demand: npt.NDArray[np.float64], graph: TransitionGraph | None
    ) -> npt.NDArray[np.float64]:
        """Chance that a batch uses each expert."""
        popular = 1.0 - np.exp(-demand)  # tokens of a batch as a Poisson number
        if graph is None or layer == 0:
            return np.asarray(popular, dtype=np.float64)
        assert self._demand is not None
        missed = np.ones(len(demand))
        for node, tokens in enumerate(self._demand[layer - 1].tolist()):
            if tokens:
                for edge in graph.row(layer - 1, node)[0]:
                    missed[edge.expert] *= (1.0 - edge.hit) ** tokens
        return np.asarray(np.maximum(popular, 1.0 - missed), dtype=np.float64)

    def _load(
        self, demand: npt.NDArray[np.float64], where: Mapping[int, list[int]], homes: Mapping[int, int]
    ) -> dict[int, float]:
        """Seconds of work of a batch at each chiplet, demand split evenly over an expert's pages."""
        load = dict.fromkeys(self._times.chiplets, 0.0)
        for expert, chiplets in where.items():
            for chiplet in chiplets or [homes[expert]]:
                share = float(demand[expert]) / max(len(chiplets), 1)
                load[chiplet] += share * self._times.token_s[chiplet]
        return load

    def _gain(
        self,
        expert: int,
        chiplet: int,
        demand: npt.NDArray[np.float64],
        hit: npt.NDArray[np.float64],
        where: Mapping[int, list[int]],
        load: Mapping[int, float],
    ) -> float:
        """Seconds a batch that a page of the expert at the chiplet saves, as if it were not there."""
        times = self._times
        others = [other for other in where[expert] if other != chiplet]
        if not others:
            return float(hit[expert]) * (times.page_s[chiplet] - times.near_page_s[chiplet])
        busiest = max(others, key=lambda other: (load[other], -other))
        moved = float(demand[expert]) * times.token_s[chiplet] / (len(others) + 1)
        relief = min(moved, max(0.0, (load[busiest] - load[chiplet]) / 2))
        return float(hit[expert]) * relief

    def _displaced(
        self,
        chiplet: int,
        used: Mapping[int, int],
        pages: Mapping[int, Mapping[int, npt.NDArray[np.void]]],
        demand: npt.NDArray[np.float64],
        hit: npt.NDArray[np.float64],
        where: Mapping[int, list[int]],
        load: Mapping[int, float],
    ) -> tuple[int, float]:
        """The expert whose page would go, and its gain: -1 and 0 where a slot is free, -2 where all are leased."""
        assert self._slots is not None
        if used[chiplet] < self._slots.per_layer:
            return -1, 0.0
        free = [
            (self._gain(expert, chiplet, demand, hit, where, load), expert)
            for expert, row in pages[chiplet].items()
            if int(row["age_windows"]) >= self._lease
        ]
        if not free:
            return -2, 0.0
        gain, expert = min(free)
        return expert, gain

    def save(self) -> dict[str, object]:
        """Smoothed demand as plain JSON."""
        return {"demand": None if self._demand is None else self._demand.tolist()}

    def load(self, state: Mapping[str, object]) -> None:
        """Takes what :meth:`save` gave."""
        demand = state["demand"]
        self._demand = None if demand is None else np.array(demand, dtype=np.float64)
