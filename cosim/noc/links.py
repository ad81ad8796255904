"""The counters of a run's links, and the frame that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim import _core
from cosim.config.schema_network import NetworkConfig

__all__ = ["LinkCounters"]


@dataclass(frozen=True)
class LinkCounters:
    """What a run counted at every output of a router and VC; a frame is made when it is asked for.

    `outputs` are (router, port) as the core has them, `counters` has a row per output and VC, `cycles` is what they
    cover. `per_output` are further columns of an output, which stand at its first VC.
    """

    config: NetworkConfig
    spec: _core.NetworkSpec = field(repr=False)
    outputs: Sequence[tuple[int, int]]
    counters: npt.NDArray[np.int64]
    cycles: int
    per_output: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def add_retries(self, counters: npt.NDArray[np.int64]) -> None:
        """Transmissions of the whole run that failed, and the cycles they cost."""
        retry = self.config.retry
        if retry is None:
            return
        latency = {(link.from_router, link.from_port): int(link.latency) for link in self.spec.links}
        round_trip = [2 * (latency.get(place, 0) + 1) + retry.nack_delay for place in self.outputs]
        self.per_output["retries"] = counters[:, 1]
        self.per_output["retry_cycles"] = counters[:, 1] * np.array(round_trip, dtype=np.int64)

    def frame(self) -> pd.DataFrame:
        """One row per output of a router and VC; stall columns are cycles that a flit or head waited."""
        vcs = self.config.num_vcs
        to_router = {(link.from_router, link.from_port): link.to_router for link in self.spec.links}
        to_node = {(t.router, t.port): node for node, t in enumerate(self.spec.terminals)}
        owner = ["" for _ in range(vcs)]
        for name, message_class in self.config.classes.items():
            for vc in message_class.vcs:
                owner[vc] = name
        kinds, targets = [], []
        for output in self.outputs:
            if output in to_router:
                kinds.append("link")
                targets.append(to_router[output])
            elif output in to_node:
                kinds.append("ejection")
                targets.append(to_node[output])
            else:
                kinds.append("reduction")
                targets.append(output[0])
        flits = self.counters[:, 0]
        links: pd.DataFrame = pd.DataFrame(
            {
                "router": np.repeat([router for router, _ in self.outputs], vcs),
                "port": np.repeat([port for _, port in self.outputs], vcs),
                "kind": np.repeat(kinds, vcs),
                "to": np.repeat(targets, vcs),
                "message_class": np.tile(owner, len(self.outputs)),
                "vc": np.tile(np.arange(vcs), len(self.outputs)),
                "flits": flits,
                "utilisation": flits / self.cycles,
                "no_credit_cycles": self.counters[:, 1],
                "lost_switch_cycles": self.counters[:, 2],
                "busy_vc_cycles": self.counters[:, 3],
                "lost_vc_cycles": self.counters[:, 4],
            }
        )
        for name, values in self.per_output.items():
            column = np.zeros(len(links), dtype=np.int64)
            column[::vcs] = values
            links[name] = column
        return links
