"""Queue quotas: how many tokens of one tenant a chiplet holds at a time.

A chiplet works through its jobs in the order in which their weights are asked for. Tokens of a tenant set out for a
job only when those of enough earlier jobs there are through, so that what has been sent and not yet computed stays
within the quota; the tokens of one job come together. Nothing waits for a later job, and a job that waits for an
earlier one asks for its weights only while both have room in the buffer, so that no order of events can lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Holds", "QueueQuotas", "holds"]


@dataclass(frozen=True)
class QueueQuotas:
    """tokens: most of each tenant at a chiplet, ``None``: any number. tiles, tile_bytes: buffer of every endpoint."""

    tokens: Sequence[int | None]
    tiles: Mapping[int, int]
    tile_bytes: Mapping[int, int]


@dataclass(frozen=True, eq=False)
class Holds:
    """Which job's end what waits for: jobs are positions of the replicas in use.

    tokens: rows (earlier job, job, tenant): that tenant's tokens for the job. weights: rows (earlier job, job).
    """

    tokens: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]


def holds(
    quotas: QueueQuotas,
    job_of_group: npt.NDArray[np.integer],
    groups: npt.NDArray[np.void],
    chiplets: npt.NDArray[np.integer],
    size_bytes: npt.NDArray[np.integer],
) -> Holds:
    """What must wait.

    Args:
        job_of_group: job of each group.
        groups: rows of :data:`cosim.workload.groups.GROUPS`.
        chiplets, size_bytes: endpoint and weights of each job, in the order in which weights are asked for.
    """
    jobs, tenants = len(chiplets), len(quotas.tokens)
    tokens = np.zeros((tenants, jobs), dtype=np.int64)
    np.add.at(tokens, (groups["tenant"], job_of_group), groups["tokens"].astype(np.int64))
    of_tokens: list[tuple[int, int, int]] = []
    of_weights: list[tuple[int, int]] = []
    for chiplet in np.unique(chiplets).tolist():
        here = np.flatnonzero(chiplets == chiplet).tolist()
        waits_for: list[set[int]] = [set() for _ in here]
        for tenant, most in enumerate(quotas.tokens):
            if most is None:
                continue
            mine = [place for place, job in enumerate(here) if tokens[tenant, job]]
            first, held = 0, 0  # those from `first` on may be there together
            for number, place in enumerate(mine):
                held += int(tokens[tenant, here[place]])
                while held > most and first < number:
                    held -= int(tokens[tenant, here[mine[first]]])
                    first += 1
                waits_for[place].update(mine[:first])
                of_tokens += [(here[earlier], here[place], tenant) for earlier in mine[:first]]
        tiles = -(-size_bytes[here].astype(np.int64) // quotas.tile_bytes[chiplet])
        before = np.concatenate([[0], np.cumsum(tiles)])
        root: list[int] = []  # the first job that a job waits for, through others too
        for place, earlier_ones in enumerate(waits_for):
            root.append(min([place, *(root[earlier] for earlier in earlier_ones)]))
            of_weights += [
                (here[earlier], here[place])
                for earlier in sorted(earlier_ones)
                if before[place + 1] - before[root[earlier]] > quotas.tiles[chiplet]
            ]
    return Holds(
        np.array(of_tokens, dtype=np.int64).reshape(-1, 3), np.array(of_weights, dtype=np.int64).reshape(-1, 2)
    )
