"""Work of cores in one layer, as policies that hand tokens to other cores estimate it before anything runs.

A core has three things that work side by side: its arithmetic, the path to its own memory and its port; it is done with
its experts when the last of them is. A helper gets the weights of a replica from the replica's memory through its port.
Where that memory's port carries them to each (:class:`Delivery`), helpers share it; where memory is read once for all,
the replica's own core gets them at that pace too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from cosim.policy.delivery import Delivery
from cosim.policy.directory import Directory

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.system import System

__all__ = ["CoreLoad", "CoreRates", "CoreWork"]


class CoreLoad(NamedTuple):
    """Seconds for which the parts of a core are busy."""

    arithmetic_s: float = 0.0
    near_s: float = 0.0
    port_s: float = 0.0

    def plus(self, other: CoreLoad) -> CoreLoad:
        """Both, one after the other in every part."""
        return CoreLoad(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: CoreLoad) -> CoreLoad:
        """Without a part of it."""
        return CoreLoad(*(a - b for a, b in zip(self, other, strict=True)))

    @property
    def end_s(self) -> float:
        """When the last part is done."""
        return max(self)


@dataclass(frozen=True)
class CoreRates:
    """Seconds, per compute endpoint index.

    token_s: of one token in one expert. local_s: of an expert's weights from the endpoint's own memory. remote_s: of an
    expert's weights through the slower of its network and its port.
    """

    token_s: dict[int, float]
    local_s: dict[int, float]
    remote_s: dict[int, float]

    @classmethod
    def of(cls, system: System, model: ModelSpec) -> CoreRates:
        """The rates of a system for a model's routed experts."""
        token, local, remote = {}, {}, {}
        stacked = system.near_memories
        for place in system.compute_endpoints:
            spec = place.spec
            assert spec.compute is not None
            port = float(system.network_of(place).link_bandwidth_Bps) * spec.ports
            near = port
            if place.index in stacked and spec.near_memory is not None:
                memory = system.endpoints[stacked[place.index]].memory
                assert memory is not None
                near = min(float(spec.near_memory.bandwidth), float(memory.peak_Bps))
            token[place.index] = 2 * model.expert_macs_per_token / float(spec.compute.effective_rate())
            local[place.index] = model.expert_bytes / near
            remote[place.index] = model.expert_bytes / port
        return cls(token, local, remote)


class CoreWork:
    """Tokens by (directory row, endpoint), and how long that keeps every endpoint busy."""

    def __init__(
        self,
        groups: npt.NDArray[np.void],
        assigned: npt.NDArray[np.int32],
        directory: Directory,
        rates: CoreRates,
        delivery: Delivery | None = None,
    ) -> None:
        self.rates = rates
        self.delivery = delivery or Delivery("unicast")
        self.home = directory.rows["chiplet"]
        self.memory = directory.rows["memory"]
        self.tokens = groups["tokens"].astype(np.int64)
        self.row = assigned
        self.at = self.home[assigned].astype(np.int32)
        self._cells: dict[tuple[int, int], int] = {}
        for row, place, tokens in zip(assigned.tolist(), self.at.tolist(), self.tokens.tolist(), strict=True):
            self._cells[row, place] = self._cells.get((row, place), 0) + tokens

    def helpers(self, row: int) -> list[int]:
        """Endpoints other than its own that work on a row's tokens."""
        return sorted(place for r, place in self._cells if r == row and place != int(self.home[row]))

    def tokens_of(self, row: int, place: int) -> int:
        """Tokens of a row at an endpoint."""
        return self._cells.get((row, place), 0)

    def rows_at(self, place: int) -> list[int]:
        """Rows whose tokens an endpoint works on, ascending."""
        return sorted(row for row, at in self._cells if at == place)

    def busy_s(self, place: int) -> float:
        """How long an endpoint is busy."""
        return self.load(place).end_s

    def load(self, place: int) -> CoreLoad:
        """What an endpoint works on."""
        total = CoreLoad()
        for (row, at), tokens in self._cells.items():
            if at == place:
                total = total.plus(self.cell(row, place, tokens))
        return total

    def cell(self, row: int, place: int, tokens: int, streams: int | None = None) -> CoreLoad:
        """What ``tokens`` of a row are for an endpoint; ``streams`` helpers share the memory's port."""
        if not tokens:
            return CoreLoad()
        arithmetic = tokens * self.rates.token_s[place]
        memory = int(self.memory[row])
        sharing = streams
        if sharing is None:
            sharing = sum(at != int(self.home[r]) for r, at in self._cells if int(self.memory[r]) == memory)
        way = self.delivery
        remote = way.setup_s + self.rates.remote_s[place] * (1 if way.sends_once else max(1, sharing))
        if place != int(self.home[row]):
            return CoreLoad(arithmetic, 0.0, remote)
        near = self.rates.local_s[place]
        return CoreLoad(arithmetic, max(near, remote) if sharing and way.reads_once else near)

    def move(self, group: int, place: int) -> None:
        """Hands a group to another endpoint."""
        row, before, tokens = int(self.row[group]), int(self.at[group]), int(self.tokens[group])
        left = self._cells[row, before] - tokens
        if left:
            self._cells[row, before] = left
        else:
            del self._cells[row, before]
        self._cells[row, place] = self._cells.get((row, place), 0) + tokens
        self.at[group] = place

    def groups_of(self, row: int, place: int) -> list[int]:
        """Groups of a row at an endpoint, the largest first."""
        found = np.flatnonzero((self.row == row) & (self.at == place))
        return sorted(found.tolist(), key=lambda group: (-int(self.tokens[group]), group))
