"""A fractional placement: which node holds how much of which expert, and where each logical node stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cosim.analytic.hda_moe_equations import hosts
from cosim.config.errors import ConfigError, ConfigErrors

__all__ = ["ExpertShares", "mapping_problem"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: A row of shares may miss one by this much: published files hold single precision.
SUM_TOLERANCE = 1e-5
_SHOWN = 8


@dataclass(frozen=True, eq=False)
class ExpertShares:
    """P and the logical-to-physical map of every MoE layer.

    shares:  P, share of each expert on each logical node, float64, shape (layers, experts, nodes); rows sum to one.
    mapping: physical endpoint of each logical node, int64, shape (layers, nodes), a permutation per layer; ``None``
             where only the logical placement is known.
    source:  what to call it in messages.

    Raises ConfigErrors that names every layer, expert and node outside these rules.
    """

    shares: FloatArray
    mapping: IntArray | None = None
    source: str = "placement"

    def __post_init__(self) -> None:
        errors = list(self._problems())
        if errors:
            raise ConfigErrors(errors)
        for name in ("shares", "mapping"):
            value = getattr(self, name)
            if value is not None:
                view = value.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def _problems(self) -> Iterator[ConfigError]:
        def error(path: str, expected: str, got: str) -> ConfigError:
            return ConfigError(self.source, None, None, path, expected, got)

        shares = self.shares
        if shares.ndim != 3 or 0 in shares.shape:
            yield error("shares", "shares [layer, expert, node], none of them zero", f"shape {list(shares.shape)}")
            return
        for layer in np.flatnonzero(~np.isfinite(shares).all(axis=(1, 2))).tolist():
            yield error(f"layer {layer}", "finite shares", "NaN or infinity")
        for layer, expert, node in np.argwhere(shares < 0)[:_SHOWN].tolist():
            yield error(
                f"layer {layer}, expert {expert}, node {node}",
                "a share of at least 0",
                f"{shares[layer, expert, node]:g}",
            )
        sums = shares.sum(axis=2)
        for layer, expert in np.argwhere(np.abs(sums - 1) > SUM_TOLERANCE)[:_SHOWN].tolist():
            yield error(
                f"layer {layer}, expert {expert}", "shares over the nodes that sum to 1", f"{sums[layer, expert]:g}"
            )
        if self.mapping is None:
            return
        if self.mapping.shape != (shares.shape[0], shares.shape[2]):
            yield error(
                "mapping",
                f"an endpoint for each of {shares.shape[2]} nodes in each of {shares.shape[0]} layers",
                f"shape {list(self.mapping.shape)}",
            )
            return
        for layer, row in enumerate(self.mapping):
            problem = mapping_problem(row)
            if problem:
                yield error(f"layer {layer}, mapping", f"a permutation of {shares.shape[2]} nodes", problem)

    @property
    def layers(self) -> int:
        """MoE layers."""
        return int(self.shares.shape[0])

    @property
    def experts(self) -> int:
        """Experts of a layer."""
        return int(self.shares.shape[1])

    @property
    def nodes(self) -> int:
        """Nodes, logical as well as physical."""
        return int(self.shares.shape[2])

    @property
    def hosted(self) -> npt.NDArray[np.bool_]:
        """I(P > 0), shape (layers, experts, nodes)."""
        return hosts(self.shares)

    @property
    def replica_factor(self) -> float:
        """Nodes that hold some of an expert, mean over experts and layers."""
        return float(self.hosted.sum(axis=2).mean())

    def node_of(self, layer: int) -> IntArray:
        """Physical endpoint of each logical node; the node itself where there is no map."""
        if self.mapping is None:
            return np.arange(self.nodes, dtype=np.int64)
        return np.asarray(self.mapping[layer])

    def physical(self) -> ExpertShares:
        """The same placement with nodes numbered as endpoints and no map."""
        if self.mapping is None:
            return self
        shares = np.zeros_like(self.shares)
        for layer in range(self.layers):
            shares[layer][:, self.mapping[layer]] = self.shares[layer]
        return ExpertShares(shares, None, self.source)

    def mapped(self, mapping: IntArray) -> ExpertShares:
        """The same logical placement under another map."""
        return replace(self, mapping=np.asarray(mapping, dtype=np.int64))


def mapping_problem(row: IntArray) -> str:
    """What keeps a row of endpoints from being a permutation; empty where it is one."""
    nodes = len(row)
    outside = row[(row < 0) | (row >= nodes)]
    if len(outside):
        return f"endpoint {int(outside[0])} outside 0 to {nodes - 1}"
    counts = np.bincount(row, minlength=nodes)
    if bool((counts > 1).any()):
        twice = int(np.flatnonzero(counts > 1)[0])
        return f"endpoint {twice} for nodes {', '.join(map(str, np.flatnonzero(row == twice)[:_SHOWN]))}"
    return ""
