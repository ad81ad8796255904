"""The unrouted part of a model as tasks: on every chiplet one stream of weights and context, and the work on it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cosim.policy.placement import nearest_memory
from cosim.run.machine import COMPUTE, DECISION, FETCH, Machine, single_task
from cosim.system.backbone import BackboneWork

if TYPE_CHECKING:
    from cosim.config.schema_experiment import FullModelSpec

__all__ = ["BackboneTasks", "backbone_tasks"]


@dataclass(frozen=True)
class BackboneTasks:
    """Columns for the engine: fetch and compute of every chiplet, then the decision; ``fetches`` are the first ones."""

    columns: dict[str, npt.NDArray[Any]]
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    fetches: int


def backbone_tasks(
    machine: Machine,
    work: BackboneWork,
    full: FullModelSpec,
    homes: npt.NDArray[np.int32],
    burst_bytes: int,
    key: int,
    rate_share: Fraction = Fraction(1),
) -> BackboneTasks:
    """Tasks of the part of a batch that precedes a gate.

    Weights and work are sliced evenly over the chiplets, keys and values belong to the chiplets of their tokens. Both
    stream from the nearest memory of the tier of homes, whose capacity they are not counted against, through the tile
    buffer, so that reading and working overlap: a roofline of the simulated memory and ``full.efficiency`` of the rate.

    Args:
        homes: chiplet of every token.
        burst_bytes: streams are whole bursts.
        key: of the decision behind the last of them.
        rate_share: of every endpoint's rate that a power cap leaves.
    """
    system, nodes = machine.system, machine.nodes
    chiplets = machine.compute_endpoints.tolist()
    held: dict[int, int] = {}
    fetches, jobs = [], []
    for position, chiplet in enumerate(chiplets):
        memory = nearest_memory(system, system.routes, held, chiplet)
        held[memory] = held.get(memory, 0) + 1
        tokens = int(np.count_nonzero(homes == chiplet))
        size = -(-work.weight_bytes // len(chiplets)) + -(-work.context_bytes * tokens // full.sequence_tokens)
        size = max(-(-size // burst_bytes), 1) * burst_bytes
        place = system.endpoints[chiplet]
        assert place.spec.compute is not None
        rate = place.spec.compute.rate * full.exact_efficiency * rate_share
        cycles = 2 * work.macs * len(homes) * system.network_of(place).level.clock / (rate * len(chiplets))
        fetches.append(
            single_task(
                FETCH,
                message_class=machine.classes["weight"],
                source=int(nodes[memory]),
                destination=int(nodes[chiplet]),
                bytes=size,
                key=-2 - position,
            )[0]
        )
        jobs.append(
            single_task(
                COMPUTE,
                source=int(nodes[chiplet]),
                destination=int(nodes[chiplet]),
                cycles=max(1, -(-cycles.numerator // cycles.denominator)),
                stream=position,
            )[0]
        )
    tasks = [*fetches, *jobs, single_task(DECISION, key=key)[0]]
    columns = {name: np.concatenate([task[name] for task in tasks]) for name in tasks[0]}
    count = len(chiplets)
    return BackboneTasks(
        columns, np.arange(count, 2 * count, dtype=np.int64), np.full(count, 2 * count, dtype=np.int64), count
    )
