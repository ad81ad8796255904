"""The fast loop of CoMoE-Chip: every token group to the replica of its expert with the least predicted cost."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt

from cosim.policy.base import Pressure
from cosim.policy.directory import NEAR_MEMORY, Directory
from cosim.policy.service_times import ServiceTimes

__all__ = ["TokenMapping"]


class TokenMapping:
    """Cost of a replica at chiplet c for a group, in seconds (seed 003, section 3.3; the weights are not printed):

        Q(c) + L_path + T_fetch (1 + B(c)) + work + tail_weight max(0, finish - latest finish so far)

    Q is the work given to c so far, as it was when the present sub-batch began; L_path the activations' way, longer by
    the share of time that the busiest link was busy; T_fetch the page's time unless it is near, has been prefetched to
    c or is asked for by an earlier group; B the share of time that the memory was busy. Replicas at chiplets whose
    token credits are used up are left out while another has some.
    """

    def __init__(self, times: ServiceTimes, sub_batches: int, credit_slack: float, tail_weight: float) -> None:
        self._times = times
        self._sub_batches = sub_batches
        self._slack = credit_slack
        self._tail = tail_weight

    def first_ready(self, groups: npt.NDArray[np.void], directory: Directory) -> npt.NDArray[np.int32]:
        """Without the map: the oldest replica near memory, else the home."""
        table = directory.rows
        chosen = np.empty(len(groups), dtype=np.int32)
        keys = zip(groups["layer"].tolist(), groups["expert"].tolist(), strict=True)
        for group, (layer, expert) in enumerate(keys):
            rows = directory.of(layer, expert).tolist()
            near = [row for row in rows if table["executes_at"][row] == NEAR_MEMORY]
            chosen[group] = (near or rows)[0]
        return chosen

    def assign(
        self,
        groups: npt.NDArray[np.void],
        directory: Directory,
        pressure: Pressure,
        prefetched: AbstractSet[tuple[int, int, int]],
    ) -> npt.NDArray[np.int32]:
        """Directory rows, int32, shape (groups,). Groups are taken largest first, without a choice before all others.

        Args:
            prefetched: (layer, expert, chiplet) whose page is on its way.
        """
        times, table = self._times, directory.rows
        count = len(groups)
        layers, experts = groups["layer"].tolist(), groups["expert"].tolist()
        sources, tokens = groups["source"].tolist(), groups["tokens"].tolist()
        options = [directory.of(layer, expert).tolist() for layer, expert in zip(layers, experts, strict=True)]
        order = sorted(range(count), key=lambda g: (len(options[g]) > 1, -tokens[g], g))
        total = sum(tokens)
        credit = {c: (1.0 + self._slack) * total / len(times.chiplets) for c in times.chiplets}
        busy = float(pressure.link.max()) if len(pressure.link) else 0.0
        finish = dict.fromkeys(times.chiplets, 0.0)
        seen = dict(finish)  # as of the beginning of the sub-batch
        asked: set[int] = set()
        chosen = np.empty(count, dtype=np.int32)
        block = -(-total // self._sub_batches)
        given, limit = 0, block
        for group in order:
            rows = [row for row in options[group] if credit[int(table["chiplet"][row])] >= tokens[group]]
            best, best_cost, best_work = -1, float("inf"), 0.0
            latest = max(seen.values())
            for row in rows or options[group]:
                chiplet = int(table["chiplet"][row])
                fetch = 0.0
                if row not in asked:
                    if table["executes_at"][row] == NEAR_MEMORY:
                        fetch = times.near_page_s[chiplet]
                    elif (layers[group], experts[group], chiplet) not in prefetched:
                        fetch = times.page_s[chiplet] * (1.0 + float(pressure.bank[int(table["memory"][row])]))
                hops = times.system.routes.between(sources[group], chiplet)
                path = 0.0
                if hops:
                    moved = 2 * tokens[group] * times.activation_bytes
                    path = (2 * hops * times.hop_s + moved / times.bytes_per_s[chiplet]) * (1.0 + busy)
                work = tokens[group] * times.token_s[chiplet] + fetch
                end = seen[chiplet] + path + work
                cost = end + self._tail * max(0.0, end - latest)
                if cost < best_cost:
                    best, best_cost, best_work = row, cost, work
            chiplet = int(table["chiplet"][best])
            chosen[group] = best
            asked.add(best)
            finish[chiplet] += best_work
            credit[chiplet] -= tokens[group]
            given += tokens[group]
            if given >= limit:
                seen, limit = dict(finish), given + block
        return chosen
