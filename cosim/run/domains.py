"""Collaboration domains of a layer: the cores that work on one replica, and the links from its memory to helpers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cosim.system.routes import Routes

__all__ = ["DomainCounts", "domain_counts"]


@dataclass(frozen=True)
class DomainCounts:
    """Of one layer.

    domains: replicas that have helpers. largest_cores: cores of the largest domain, the replica's own included.
    shared_links: links that are in more than one domain.
    """

    domains: int
    largest_cores: int
    shared_links: int


def domain_counts(rows: npt.NDArray[np.void], helped: Sequence[tuple[int, int]], routes: Routes) -> DomainCounts:
    """Counts the domains of ``helped``, pairs of directory row and the endpoint that helps with it."""
    helpers: dict[int, list[int]] = {}
    for row, endpoint in helped:
        helpers.setdefault(row, []).append(endpoint)
    used: Counter[int] = Counter()
    for row, endpoints in helpers.items():
        memory = int(rows["memory"][row])
        used.update({link for endpoint in endpoints for link in routes.path(memory, endpoint)})
    largest = max((len(endpoints) + 1 for endpoints in helpers.values()), default=0)
    return DomainCounts(len(helpers), largest, sum(count > 1 for count in used.values()))
