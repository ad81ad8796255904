"""What a run will take, told before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosim.run.machine import RUNG_KNOBS
from cosim.run.setup import Setup
from cosim.run.unit import UnitKey

__all__ = ["Estimate", "estimate"]

# Work per second of one process, measured with benchmarks/coupled_speed.py on a 2-core x86-64 virtual machine, rounded
# down. They only serve the estimate, no result depends on them.
_FLIT_HOPS_PER_S = 4e6
_BURSTS_PER_S = 1e6
_LINK_HOPS_PER_S = 1.5e6
_LAYERS_PER_S = 300.0
# Resident bytes of a process that has run nothing yet, and of one token group in results and frames.
_PROCESS_BYTES = 200e6
_GROUP_BYTES = 600


@dataclass(frozen=True)
class Estimate:
    """Of a whole experiment: ``flit_hops`` and ``bursts`` to step, seconds and resident bytes of one process."""

    flit_hops: int
    bursts: int
    dram_bytes: int
    seconds: float
    process_bytes: int

    @classmethod
    def together(cls, parts: Sequence[Estimate]) -> Estimate:
        """Of several experiments run one after the other: sums, and the largest process."""
        return cls(
            sum(part.flit_hops for part in parts),
            sum(part.bursts for part in parts),
            sum(part.dram_bytes for part in parts),
            sum(part.seconds for part in parts),
            max(part.process_bytes for part in parts),
        )

    def text(self, jobs: int) -> str:
        """One line for the terminal."""
        wall, memory = self.seconds / jobs, jobs * self.process_bytes / 1e9
        return (
            f"estimated: {self.flit_hops / 1e6:.1f} M flit-hops, {self.bursts / 1e6:.1f} M DRAM bursts "
            f"({self.dram_bytes / 1e6:.0f} MB), about {wall:.0f} s and {memory:.1f} GB of memory "
            f"with {jobs} process{'es' if jobs > 1 else ''}"
        )


def estimate(setup: Setup, keys: list[UnitKey]) -> Estimate:
    """Counts distinct experts of the first seed's batches; every one is read once per layer and batch."""
    batches = setup.batches(setup.spec.seeds[0])
    ids = setup.trace.ids
    touched = sum(len(np.unique(ids[rows, layer])) for rows in batches for layer in setup.layers)
    tokens = sum(len(rows) for rows in batches)
    system, routes = setup.system, setup.system.routes
    memories = [place.index for place in system.memory_endpoints]
    computes = [place.index for place in system.compute_endpoints]
    apart = [c for c in computes if c not in system.near_memories]
    nearest = [min(routes.between(m, c) for m in memories) + 1 for c in apart]
    near = sum(nearest) / len(computes)  # weights of stacked memories cross no router
    far = float(np.mean([[routes.between(a, b) for a in computes] for b in computes])) + 1
    weight_bytes = touched * setup.rates.expert_bytes
    # Flits of the narrowest network, as if all were such: of several levels an upper bound.
    level = min((network.level for network in system.networks), key=lambda level: level.flit_width)
    payload = level.max_packet_flits * level.flit_width - level.header_bytes
    weight_flits = weight_bytes / payload * level.max_packet_flits
    pairs = tokens * len(setup.layers) * setup.model.top_k * 2
    token_flits = pairs * -(-(setup.model.activation_bytes + level.header_bytes) // level.flit_width)
    hops = int(weight_flits * near + token_flits * far)
    bursts = weight_bytes // setup.burst_bytes
    flit_hops = all_bursts = dram = 0
    seconds = 0.0
    for key in keys:
        network, memory = RUNG_KNOBS[key.rung]
        share = 1.0 if key.rung == "link" or setup.spec.sampling == "none" else setup.spec.sampling.fraction
        seconds += len(batches) * len(setup.layers) / _LAYERS_PER_S
        if network == "flit":
            flit_hops += int(share * hops)
            seconds += share * hops / _FLIT_HOPS_PER_S
        else:
            messages = weight_bytes / (payload if memory == "command" else 16384 / 20)
            seconds += share * messages * near / _LINK_HOPS_PER_S
        if memory == "command":
            dram += int(share * weight_bytes)
            all_bursts += int(share * bursts)
            seconds += share * bursts / _BURSTS_PER_S
    groups = min(pairs // 2, touched * len(computes)) * len(keys)
    arrays = [setup.trace.ids, setup.trace.weights, setup.trace.scores]
    held = sum(array.nbytes for array in arrays if array is not None)
    return Estimate(flit_hops, all_bursts, dram, seconds, int(_PROCESS_BYTES + held + groups * _GROUP_BYTES))
