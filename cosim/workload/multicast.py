"""Dispatch by multicast: a token that is wanted at several chiplets leaves its own once.

Tokens of one source (and tenant) that the same set of other chiplets wants travel as one message, which forks in the
network; a set of one is sent the plain way. What a chiplet needs for a replica, by (layer, expert, version, chiplet),
is complete when the last message that holds such tokens is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Multicasts", "multicasts"]


@dataclass(frozen=True, eq=False)
class Multicasts:
    """Messages of one layer, in the order of their sources.

    source: endpoint of each message. targets: endpoints that it goes to. tokens: in it. pairs: rows (message, leg),
    which legs have tokens in which message. message_class: of those with several targets; group_of: engine group of a
    set of endpoints.
    """

    source: Sequence[int]
    targets: Sequence[tuple[int, ...]]
    tokens: Sequence[int]
    pairs: npt.NDArray[np.int64]
    message_class: str
    group_of: Callable[[list[int]], int]


def multicasts(
    token: npt.NDArray[np.int64],
    leg: npt.NDArray[np.int64],
    leg_chiplet: npt.NDArray[np.integer],
    homes: npt.NDArray[np.integer],
    tenants: npt.NDArray[np.int16] | None,
    message_class: str,
    group_of: Callable[[list[int]], int],
) -> Multicasts:
    """The messages.

    Args:
        token, leg: pairs, which token is in which leg, as of :func:`cosim.workload.groups.token_legs`.
        leg_chiplet: where each leg runs.
        homes, tenants: of each token.
    """
    wanted: dict[int, set[int]] = {}
    legs_of: dict[int, list[int]] = {}
    for number, at in zip(token.tolist(), leg.tolist(), strict=True):
        chiplet = int(leg_chiplet[at])
        if chiplet != int(homes[number]):
            wanted.setdefault(number, set()).add(chiplet)
            legs_of.setdefault(number, []).append(at)
    bundles: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for number in sorted(wanted):
        owner = 0 if tenants is None else int(tenants[number])
        bundles.setdefault((int(homes[number]), owner, tuple(sorted(wanted[number]))), []).append(number)
    keys = sorted(bundles)
    pairs = sorted(
        {(message, at) for message, key in enumerate(keys) for number in bundles[key] for at in legs_of[number]}
    )
    return Multicasts(
        [source for source, _, _ in keys],
        [targets for _, _, targets in keys],
        [len(bundles[key]) for key in keys],
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        message_class,
        group_of,
    )
