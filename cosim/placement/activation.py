"""What a placement is made from: how often each expert, and each set of experts, is picked in a layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors

__all__ = ["COVERAGE", "Activation", "activation"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Share of tokens that the kept co-activation groups must cover at least.
COVERAGE = 0.95


@dataclass(frozen=True, eq=False)
class Activation:
    """Frequencies of one layer.

    tokens:      tokens they were counted from.
    expert:      f_i, shape (experts,); sums to the picks per token.
    groups:      sorted experts of each co-activated group, most frequent first, shape (groups, slots); -1 empty.
    group:       f_g, shape (groups,); sums to one where no group was left out.
    """

    tokens: int
    expert: FloatArray
    groups: IntArray
    group: FloatArray

    @property
    def experts(self) -> int:
        """Experts of the layer."""
        return len(self.expert)

    @property
    def coverage(self) -> float:
        """Share of tokens whose group is kept."""
        return float(self.group.sum())

    def covering(self, coverage: float, *, fewest: int = 1) -> Activation:
        """Only the most frequent groups, as few as cover at least this share of the tokens and are ``fewest``.

        Raises ConfigErrors for a share outside (0, 1].
        """
        if not 0 < coverage <= 1:
            raise ConfigErrors.single("a share of tokens above 0 and up to 1", f"{coverage:g}", path="coverage")
        count = max(fewest, int(np.searchsorted(np.cumsum(self.group), coverage * (1 - 1e-12))) + 1)
        return Activation(self.tokens, self.expert, self.groups[:count], self.group[:count])


def activation(ids: npt.NDArray[np.integer], experts: int) -> Activation:
    """Counts one layer of a trace.

    Args:
        ids: expert ids, shape (tokens, slots); -1 is an empty slot.
        experts: experts of the layer.

    Raises ConfigErrors for no tokens or ids outside the layer.
    """
    if ids.ndim != 2 or not len(ids):
        raise ConfigErrors.single("routed tokens [token, slot]", f"shape {list(ids.shape)}", path="activation")
    if int(ids.max()) >= experts or int(ids.min()) < -1:
        raise ConfigErrors.single(
            f"expert ids from 0 to {experts - 1}, or -1", f"{int(ids.min())} to {int(ids.max())}", path="activation"
        )
    sets = np.sort(ids.astype(np.int64), axis=1)
    groups, counts = np.unique(sets, axis=0, return_counts=True)
    order = np.lexsort((*groups.T[::-1], -counts))
    picked = sets[sets >= 0]
    return Activation(
        len(ids),
        np.bincount(picked, minlength=experts) / len(ids),
        groups[order],
        counts[order] / len(ids),
    )
