"""What a run will take, told before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.policy.registry import make_policy
from cosim.run.machine import RUNG_KNOBS
from cosim.run.setup import Setup
from cosim.run.unit import UnitKey
from cosim.workload.groups import token_groups, token_homes

__all__ = ["Estimate", "estimate"]

# Work per second of one process, measured with benchmarks/coupled_speed.py on a 2-core x86-64 virtual machine, rounded
# down. They only serve the estimate, no result depends on them.
_FLIT_HOPS_PER_S = 4e6
_BURSTS_PER_S = 1e6
_LINK_HOPS_PER_S = 1.5e6
_LAYERS_PER_S = 300.0
_GROUPS_PER_S = 20e3
# Building the system of a unit and making frames of it, per endpoint; making metrics and the report of an experiment.
_ENDPOINT_S = 3e-3
_REPORT_S = 4.0
# Resident bytes of a process that has run nothing yet, and of one token group in results and frames.
_PROCESS_BYTES = 200e6
_GROUP_BYTES = 600
_CHUNKS = 20  # of a message on reserved links


@dataclass(frozen=True)
class Estimate:
    """Of a whole experiment: flit-hops, hops on reserved links and bursts to step, seconds and bytes of one process.

    What policies decide is not in it: copies, prefetches, weights of helpers.
    """

    flit_hops: int
    link_hops: int
    bursts: int
    dram_bytes: int
    seconds: float
    process_bytes: int

    @classmethod
    def together(cls, parts: Sequence[Estimate]) -> Estimate:
        """Of several experiments run one after the other: sums, and the largest process."""
        return cls(
            sum(part.flit_hops for part in parts),
            sum(part.link_hops for part in parts),
            sum(part.bursts for part in parts),
            sum(part.dram_bytes for part in parts),
            sum(part.seconds for part in parts),
            max(part.process_bytes for part in parts),
        )

    def text(self, jobs: int) -> str:
        """One line for the terminal."""
        wall, memory = self.seconds / jobs, jobs * self.process_bytes / 1e9
        return (
            f"estimated: {self.flit_hops / 1e6:.1f} M flit-hops, {self.link_hops / 1e6:.1f} M hops on reserved links, "
            f"{self.bursts / 1e6:.1f} M DRAM bursts ({self.dram_bytes / 1e6:.0f} MB), about {wall:.0f} s and "
            f"{memory:.1f} GB of memory with {jobs} process{'es' if jobs > 1 else ''}"
        )


def estimate(setup: Setup, keys: list[UnitKey]) -> Estimate:
    """Counts distinct experts and token groups of the first seed's batches; an expert is read once per layer and batch.

    A rung below the top one is counted twice under a policy with decision windows: where it decides otherwise than the
    top one it is replayed with that one's decisions.
    """
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
    links = float(np.mean([[routes.between(a, b) for a in computes] for b in computes]))
    weight_bytes = touched * setup.rates.expert_bytes
    # Flits of the narrowest network, as if all were such: of several levels an upper bound.
    level = min((network.level for network in system.networks), key=lambda level: level.flit_width)
    payload = level.max_packet_flits * level.flit_width - level.header_bytes
    weight_flits = weight_bytes / payload * level.max_packet_flits
    pairs = tokens * len(setup.layers) * setup.model.top_k * 2
    token_flits = pairs * -(-(setup.model.activation_bytes + level.header_bytes) // level.flit_width)
    hops = int(weight_flits * near + token_flits * (links + 1))
    groups = _token_groups(ids, batches, setup.layers, np.array(computes, dtype=np.int32))
    token_hops = 2 * groups * min(_CHUNKS, setup.model.activation_bytes) * links  # there and back
    bursts = weight_bytes // setup.burst_bytes
    replayed = {
        policy.title
        for policy in setup.spec.policies
        if make_policy(policy.name, policy.params).window_batches and len({key.rung for key in keys}) > 1
    }
    top = max((key.rung for key in keys), key=list(RUNG_KNOBS).index, default="link")
    flit_hops = link_hops = all_bursts = dram = 0
    seconds = _REPORT_S
    for key in keys:
        network, memory = RUNG_KNOBS[key.rung]
        share = 1.0 if key.rung == "link" or setup.spec.sampling == "none" else setup.spec.sampling.fraction
        times = 2 if key.policy in replayed and key.rung != top else 1
        units = times * share
        unit_s = len(batches) * len(setup.layers) / _LAYERS_PER_S + groups / _GROUPS_PER_S
        seconds += units * unit_s + times * _ENDPOINT_S * len(system.endpoints)
        if network == "flit":
            flit_hops += int(units * hops)
            seconds += units * hops / _FLIT_HOPS_PER_S
        else:
            messages = weight_bytes / (payload if memory == "command" else 16384 / _CHUNKS)
            crossed = messages * near + token_hops
            link_hops += int(units * crossed)
            seconds += units * crossed / _LINK_HOPS_PER_S
        if memory == "command":
            dram += int(units * weight_bytes)
            all_bursts += int(units * bursts)
            seconds += units * bursts / _BURSTS_PER_S
    kept = min(pairs // 2, touched * len(computes)) * len(keys)
    arrays = [setup.trace.ids, setup.trace.weights, setup.trace.scores]
    held = sum(array.nbytes for array in arrays if array is not None)
    return Estimate(flit_hops, link_hops, all_bursts, dram, seconds, int(_PROCESS_BYTES + held + kept * _GROUP_BYTES))


def _token_groups(
    ids: npt.NDArray[np.integer],
    batches: Sequence[npt.NDArray[np.int64]],
    layers: Sequence[int],
    computes: npt.NDArray[np.int32],
) -> int:
    """Token groups that leave their chiplet for an expert, of all batches and layers; all are counted as leaving."""
    return sum(
        len(token_groups(ids[rows, layer], token_homes(len(rows), computes), layer, 1))
        for rows in batches
        for layer in layers
    )
