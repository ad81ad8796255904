"""The fast loop (HCRMap, Algorithm 2): every token group to the replica with the lowest pressure-proxy cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.policy.base import Pressure
from cosim.policy.directory import Directory
from cosim.policy.hcrmap.substrate import Substrate

__all__ = ["TokenWeights", "fast_token_map"]


@dataclass(frozen=True)
class TokenWeights:
    """The weights of Eq. 39, of queue, path, bank and streaming cost; the paper does not publish them."""

    queue: float
    path: float
    bank: float
    stream: float


def fast_token_map(
    groups: npt.NDArray[np.void],
    directory: Directory,
    pressure: Pressure,
    substrate: Substrate,
    weights: TokenWeights,
    block_groups: int,
) -> npt.NDArray[np.int32]:
    """Directory row of every group, int32, shape (groups,).

    Costs are seconds over a common reference, so that Eq. 39's terms have one unit:

    - queue: work given to the replica's chiplet, this group's included, raised by the chiplet's share of busy time;
    - path: the larger of dispatch and gather time over the most loaded link of either way, raised by that link's share;
    - bank: bytes given to the memory over its rate, raised by the memory's share of its peak;
    - stream: the time to read the expert in the replica's tier, 0 once the replica streams in this layer anyway.

    Groups whose expert has one replica are booked first: they have no choice. The others follow in their order;
    counters are brought up to date after every ``block_groups`` of them (0: never). Among equals the oldest wins.
    """
    rows = directory.rows
    options = [
        directory.of(layer, expert).tolist()
        for layer, expert in zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)
    ]
    chiplet_of, memory_of = rows["chiplet"].tolist(), rows["memory"].tolist()
    work = np.zeros(len(substrate.s_per_mac))
    held = np.zeros(len(substrate.memory_Bps))
    link = np.zeros(len(substrate.link_Bps))
    streaming: set[int] = set()
    sources, aggregators = groups["source"].tolist(), groups["aggregator"].tolist()
    tokens, sizes = groups["tokens"].tolist(), groups["bytes"].tolist()
    busy_link = pressure.link - (pressure.link_migration if len(pressure.link_migration) else 0)

    def book(group: int, row: int) -> None:
        chiplet, memory = chiplet_of[row], memory_of[row]
        work[chiplet] += tokens[group] * substrate.expert_macs * substrate.s_per_mac[chiplet]
        link[substrate.path(sources[group], chiplet)] += sizes[group]
        link[substrate.path(chiplet, aggregators[group])] += sizes[group]
        if row not in streaming:
            streaming.add(row)
            held[memory] += substrate.expert_bytes
            link[substrate.path(memory, chiplet)] += substrate.expert_bytes

    def way(source: int, destination: int, size: int) -> float:
        links = substrate.path(source, destination)
        if not len(links):
            return 0.0
        return float(((link[links] + size) / substrate.link_Bps[links] * (1 + busy_link[links])).max())

    def cost(group: int, row: int) -> float:
        chiplet, memory = chiplet_of[row], memory_of[row]
        own = tokens[group] * substrate.expert_macs * substrate.s_per_mac[chiplet]
        queue = (work[chiplet] + own) * (1 + pressure.compute[chiplet])
        path = max(
            way(sources[group], chiplet, sizes[group]),
            way(chiplet, aggregators[group], sizes[group]),
            0.0 if row in streaming else way(memory, chiplet, substrate.expert_bytes),
        )
        bank = held[memory] / substrate.memory_Bps[memory] * (1 + pressure.bank[memory])
        stream = 0.0 if row in streaming else substrate.expert_bytes / substrate.memory_Bps[memory]
        return float(weights.queue * queue + weights.path * path + weights.bank * bank + weights.stream * stream)

    chosen = np.array([option[0] for option in options], dtype=np.int32)
    free = [group for group, option in enumerate(options) if len(option) > 1]
    for group, option in enumerate(options):
        if len(option) == 1:
            book(group, option[0])
    waiting: list[int] = []
    for group in free:
        best = min(options[group], key=lambda row: (cost(group, row), row))
        chosen[group] = best
        waiting.append(group)
        if block_groups and len(waiting) >= block_groups:
            for done in waiting:
                book(done, int(chosen[done]))
            waiting.clear()
    return chosen
