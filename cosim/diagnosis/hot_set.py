"""Whether the experts that are hot now are hot later: what placing replicas by history lives on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.diagnosis.steps import Steps

__all__ = ["HotSet", "hot_set"]

_SHUFFLES = 20


@dataclass(frozen=True)
class HotSet:
    """Share of the hottest experts of a window that are among the hottest some windows later; means over layers.

    size: experts in the set. window_steps: steps of a window. lags: windows apart. kept: observed share per lag.
    ceiling: the same between windows of shuffled tokens: what sampling leaves of a load that never changes. chance:
    of a set drawn blindly.
    """

    size: int
    window_steps: int
    lags: tuple[int, ...]
    kept: tuple[float, ...]
    ceiling: float
    chance: float

    @property
    def persistence(self) -> tuple[float, ...]:
        """Per lag: 1 as lasting as a load that never changes, 0 no better than chance."""
        room = self.ceiling - self.chance
        return tuple(1.0 if room <= 0 else (kept - self.chance) / room for kept in self.kept)


def _kept(counts: npt.NDArray[np.int64], size: int, lag: int) -> float:
    """Of windows ``lag`` apart: share of the hot set in common; counts of shape (windows, layers, experts)."""
    hottest = np.argsort(-counts, axis=2, kind="stable")[:, :, :size]
    hot = np.zeros(counts.shape, dtype=np.bool_)
    np.put_along_axis(hot, hottest, True, axis=2)
    return float((hot[lag:] & hot[:-lag]).sum(axis=2).mean()) / size


def hot_set(steps: Steps, size: int, windows: int, seed: int) -> HotSet:
    """Cuts the steps into ``windows`` equal windows and follows the ``size`` hottest experts of each layer."""
    length = steps.count // windows
    used = steps.part(0, windows * length)
    by_window = used.counts().reshape(windows, length, steps.layers, steps.experts).sum(axis=1)
    lags = tuple(lag for lag in (1, 2, 4, 8, 16) if lag < windows)
    draws = np.random.default_rng([seed, 2])
    rows = used.ids.reshape(-1, *used.ids.shape[2:])
    shares = []
    for _ in range(_SHUFFLES):
        mixed = Steps(rows[draws.permutation(len(rows))].reshape(used.ids.shape), used.mode, used.experts)
        counts = mixed.counts().reshape(by_window.shape[0], length, steps.layers, steps.experts).sum(axis=1)
        shares.append(_kept(counts, size, 1))
    return HotSet(
        size,
        length,
        lags,
        tuple(_kept(by_window, size, lag) for lag in lags),
        float(np.mean(shares)),
        size / steps.experts,
    )
