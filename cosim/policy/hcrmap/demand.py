"""What the slow loop knows of demand: smoothed, its fluctuation and sources, and which replicas served nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DemandTracker"]

Floats = npt.NDArray[np.float64]


class DemandTracker:
    """Demand of every (MoE layer, expert), window by window.

    Attributes:
        smoothed: tokens of a window, EWMA that keeps the share ``alpha`` of the old value (HCRMap, 6.2).
        fluctuation: EWMA, of the same share, of the distance between a window's demand and ``smoothed``.
        idle: windows in a row in which a replica served nothing, by replica.
    """

    def __init__(self, layers: int, experts: int, endpoints: int, alpha: float) -> None:
        self._alpha = alpha
        self.smoothed: Floats = np.zeros((layers, experts))
        self.fluctuation: Floats = np.zeros((layers, experts))
        self.idle: dict[int, int] = {}
        self._sources: Floats = np.zeros((layers, experts, endpoints))
        self._window: Floats = np.zeros((layers, experts, endpoints))
        self._used: set[int] = set()
        self._started = False

    def start(self, demand: Floats) -> None:
        """A first estimate, such as a profile's demand of one window."""
        self.smoothed[: len(demand)] = demand
        self._started = bool(demand.any())

    def note(self, groups: npt.NDArray[np.void], replicas: npt.NDArray[np.void]) -> None:
        """Token groups of a layer and the replicas that serve them."""
        np.add.at(self._window, (groups["layer"], groups["expert"], groups["source"]), groups["tokens"])
        self._used.update(np.unique(replicas["replica"]).tolist())

    def close(self, demand: npt.NDArray[np.int64], replicas: npt.NDArray[np.int32]) -> None:
        """A window ends with ``demand`` tokens per (MoE layer, expert); ``replicas`` are published."""
        now = demand.astype(np.float64)
        if self._started:
            keep = self._alpha
            self.fluctuation = keep * self.fluctuation + (1 - keep) * np.abs(now - self.smoothed)
            self.smoothed = keep * self.smoothed + (1 - keep) * now
        else:
            self.smoothed, self._started = now, True
        self._sources, self._window = self._window, np.zeros_like(self._window)
        self.idle = {
            replica: 0 if replica in self._used else self.idle.get(replica, 0) + 1 for replica in replicas.tolist()
        }
        self._used = set()

    def sources(self, layer: int, expert: int) -> Floats:
        """Share of the last window's tokens that waited at each endpoint; zero where there were none."""
        tokens: Floats = self._sources[layer, expert]
        return tokens / max(float(tokens.sum()), 1.0)

    def source_entropy(self, layer: int, expert: int) -> float:
        """Entropy of the sources over that of equal shares, 0 to 1."""
        share = self.sources(layer, expert)
        share = share[share > 0]
        most = np.log(max(int(np.count_nonzero(self._sources.sum(axis=(0, 1)))), 2))
        return float(-(share * np.log(share)).sum() / most) if len(share) else 0.0

    def save(self) -> dict[str, object]:
        """Everything, as plain JSON."""
        return {
            "smoothed": self.smoothed.tolist(),
            "fluctuation": self.fluctuation.tolist(),
            "sources": self._sources.tolist(),
            "window": self._window.tolist(),
            "idle": [[replica, windows] for replica, windows in self.idle.items()],
            "used": sorted(self._used),
            "started": self._started,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what :meth:`save` gave."""
        self.smoothed = np.array(state["smoothed"])
        self.fluctuation = np.array(state["fluctuation"])
        self._sources, self._window = np.array(state["sources"]), np.array(state["window"])
        self.idle = {int(replica): int(windows) for replica, windows in state["idle"]}
        self._used = set(state["used"])
        self._started = bool(state["started"])
