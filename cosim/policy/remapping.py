"""Tiered remapping of 3D-MoE (seed 001): replicas are added, dropped or swapped between stacks when that pays.

Per layer the load of every expert is predicted by an exponential moving average, ``ema`` the share of the newest step.
(Which term the paper's 0.3 weighs is not printed.) The load of a stack is that of its experts, an expert's shared
evenly by its replicas. Tiers 2 and 3 are considered every ``period_steps``, or when a layer's max to mean over stacks
has exceeded its steady value by ``trigger`` for ``trigger_steps`` steps; the steady value, which the paper does not
define, is the mean since the layer was last considered.

Tier 2 adds a replica of an expert of the fullest stack to the core with the least load in the emptiest one (one
transfer of weights), or drops one of an expert below the mean load that no longer lowers the fullest stack (none).
Tier 3 swaps an expert of the fullest stack for one of the emptiest (two transfers): each gets a replica in the
other's place. Homes are never dropped here, so a swapped expert's home stays and takes tokens where it is the less
loaded. The gain is the time by which the fullest stack's cores get faster, over the steps until the next check; the
cost is that of the transfers over the slowest link between stacks. Only the best action of a layer is taken, and only
if its gain exceeds its cost (``cost_aware``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cosim.policy.base import ActionKind, ResidencyAction, WindowState
from cosim.policy.core_work import CoreRates
from cosim.policy.placement import memory_tier, nearest_memory

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["Remapping", "RemappingRates"]


@dataclass(frozen=True)
class RemappingRates:
    """What an action costs and gains.

    transfer_s: of an expert's weights over the slowest link between two stacks. token_s: of a token in an expert.
    memory_of: memory for a replica at each core. tier: where replicas go.
    """

    transfer_s: float
    token_s: float
    memory_of: Mapping[int, int]
    tier: str

    @classmethod
    def of(cls, system: System, model: ModelSpec, rates: CoreRates) -> RemappingRates:
        """The rates of a system for a model's experts."""
        links = [float(network.link_bandwidth_Bps) for network in system.networks]
        gates = [float(gateway.spec.bandwidth) for gateway in system.gateways if gateway.spec.bandwidth is not None]
        cores = [place.index for place in system.compute_endpoints]
        return cls(
            model.expert_bytes / min([*links, *gates]),
            max(rates.token_s.values()),
            {core: nearest_memory(system, system.routes, {}, core) for core in cores},
            memory_tier(system),
        )


class Remapping:
    """The predictor, the triggers and the choice of actions; its state is plain numbers."""

    def __init__(
        self,
        tiers: int,
        stack: Mapping[int, int],
        rates: RemappingRates,
        *,
        layers: int,
        experts: int,
        ema: float,
        period_steps: int,
        trigger: float,
        trigger_steps: int,
        cost_aware: bool,
    ) -> None:
        """``stack``: stack of every core. The rest as of the policy's parameters."""
        self._tiers, self._rates = tiers, rates
        self._number = {network: number for number, network in enumerate(sorted(set(stack.values())))}
        self._stack = {core: self._number[network] for core, network in stack.items()}
        self._cores = np.bincount(list(self._stack.values()), minlength=len(self._number))
        self._experts = experts
        self._ema, self._period, self._trigger = ema, period_steps, trigger
        self._trigger_steps, self._cost_aware = trigger_steps, cost_aware
        self._load = np.zeros((layers, experts))
        self._steps = 0
        self._since = [0] * layers  # steps since the layer was last considered
        self._sum = [0.0] * layers  # of its max to mean in them
        self._above = [0] * layers  # steps in a row above the trigger

    def save(self) -> dict[str, object]:
        """State as plain JSON."""
        return {
            "load": self._load.tolist(),
            "steps": self._steps,
            "since": list(self._since),
            "sum": list(self._sum),
            "above": list(self._above),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what :meth:`save` gave."""
        self._load = np.array(state["load"], dtype=np.float64)
        self._steps = int(state["steps"])
        self._since, self._sum, self._above = list(state["since"]), list(state["sum"]), list(state["above"])

    def actions(self, state: WindowState) -> list[ResidencyAction]:
        """What to do after a step."""
        if self._tiers < 2:
            return []
        self._steps += 1
        rows = state.directory.rows
        moving = {action.layer for action in state.migrating}
        found: list[ResidencyAction] = []
        for layer in np.flatnonzero(state.demand.sum(axis=1) > 0).tolist():
            new = state.demand[layer].astype(np.float64)
            fresh = not self._load[layer].any()
            self._load[layer] = new if fresh else self._ema * new + (1 - self._ema) * self._load[layer]
            of_layer = rows[(rows["layer"] == layer) & (rows["expert"] < self._experts)]
            places = _places(of_layer)
            if self._considered(layer, self._stack_load(new, places)) and layer not in moving:
                found += self._best(layer, places, of_layer)
        return found

    def _considered(self, layer: int, load: np.ndarray[Any, Any]) -> bool:
        balance = float(load.max() / load.mean())
        steady = self._sum[layer] / self._since[layer] if self._since[layer] else balance
        self._above[layer] = self._above[layer] + 1 if balance > steady * (1 + self._trigger) else 0
        self._since[layer] += 1
        self._sum[layer] += balance
        if self._steps % self._period and self._above[layer] < self._trigger_steps:
            return False
        self._since[layer], self._sum[layer], self._above[layer] = 0, 0.0, 0
        return True

    def _stack_load(self, load: np.ndarray[Any, Any], places: Mapping[int, Sequence[int]]) -> np.ndarray[Any, Any]:
        """Tokens of every stack, per core of it."""
        total = np.zeros(len(self._cores))
        for expert, cores in places.items():
            for core in cores:
                total[self._stack[core]] += load[expert] / len(cores)
        return total / self._cores

    def _best(self, layer: int, places: dict[int, list[int]], rows: np.ndarray[Any, Any]) -> list[ResidencyAction]:
        load = self._load[layer]
        before = self._stack_load(load, places)
        fullest, emptiest = int(before.argmax()), int(before.argmin())
        dropped = self._drop(layer, load, places, rows, float(before.max()))
        if fullest == emptiest:
            return dropped
        best: tuple[float, int, list[tuple[int, int]]] | None = None
        core_load = self._core_load(load, places)
        giving = [e for e, cores in places.items() if any(self._stack[c] == fullest for c in cores)]
        giving.sort(key=lambda e: (-load[e] / len(places[e]), e))
        taking = [e for e, cores in places.items() if any(self._stack[c] == emptiest for c in cores)]
        taking.sort(key=lambda e: (load[e] / len(places[e]), e))
        for expert in giving[:4]:
            free = [c for c, s in self._stack.items() if s == emptiest and c not in places[expert]]
            if not free:
                continue
            core = min(free, key=lambda c: (core_load[c], c))
            options = [[(expert, core)]]
            if self._tiers >= 3:
                for other in taking[:4]:
                    back = [c for c in places[expert] if self._stack[c] == fullest and c not in places[other]]
                    there = [c for c in places[other] if self._stack[c] == emptiest and c not in places[expert]]
                    if back and there and other != expert:
                        options.append([(expert, there[0]), (other, back[0])])
            for option in options:
                after = {**places}
                for moved, target in option:
                    after[moved] = [*after[moved], target]
                tokens = float(before.max() - self._stack_load(load, after).max())
                gain = tokens * self._rates.token_s * self._period
                worth = gain - (self._rates.transfer_s * len(option) if self._cost_aware else 0.0)
                if (worth > 0 or not self._cost_aware) and (best is None or worth > best[0]):
                    best = (worth, len(option), option)
        if best is None:
            return dropped
        return dropped + [
            ResidencyAction(ActionKind.promote, layer, expert, core, self._rates.memory_of[core], self._rates.tier)
            for expert, core in best[2]
        ]

    def _core_load(self, load: np.ndarray[Any, Any], places: Mapping[int, Sequence[int]]) -> dict[int, float]:
        total = dict.fromkeys(self._stack, 0.0)
        for expert, cores in places.items():
            for core in cores:
                total[core] += float(load[expert]) / len(cores)
        return total

    def _drop(
        self,
        layer: int,
        load: np.ndarray[Any, Any],
        places: dict[int, list[int]],
        rows: np.ndarray[Any, Any],
        fullest: float,
    ) -> list[ResidencyAction]:
        """Evicts copies of experts below the mean load that no longer lower the fullest stack; ``places`` follows."""
        actions = []
        mean = float(load.mean())
        for expert in sorted(places):
            copies = np.sort(rows[rows["expert"] == expert], order="replica")[1:]
            for copy in copies[::-1]:
                core = int(copy["chiplet"])
                without = {**places, expert: [c for c in places[expert] if c != core]}
                if load[expert] < mean and self._stack_load(load, without).max() <= fullest:
                    actions.append(ResidencyAction(ActionKind.evict, layer, expert, replica=int(copy["replica"])))
                    places[expert] = without[expert]
        return actions


def _places(rows: np.ndarray[Any, Any]) -> dict[int, list[int]]:
    """Cores of every expert's replicas, the oldest first."""
    places: dict[int, list[int]] = {}
    for row in np.sort(rows, order="replica"):
        places.setdefault(int(row["expert"]), []).append(int(row["chiplet"]))
    return places
