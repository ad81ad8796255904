"""Algorithm 1 of HDA-MoE (seed 002): chunks of messages reserve directed links one after the other.

Every chunk takes the links of its path in order; a link serves one chunk at a time in the order in which they became
ready, a hop lasts bytes / bandwidth. There are no flits, credits, virtual channels or router pipelines. The core's
link network (``ext/link``) does the work, the same that carries the rung ``link``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim._core import Engine, TaskKind
from cosim.config.errors import ConfigErrors
from cosim.link.topology import IntArray, LinkTopology

__all__ = ["LinkResult", "LinkSimulator"]

#: Chunks per message in the published simulator's signature; its callers pass 1.
CHUNKS = 20


@dataclass(frozen=True, eq=False)
class LinkResult:
    """What became of a set of messages that all started at time zero.

    finish_fs:    when the last chunk of each message arrived, int64, in the order of the messages.
    link_busy_fs: how long each link was reserved, int64, shape (links,).
    hop_events:   chunks that crossed links.
    """

    finish_fs: IntArray
    link_busy_fs: IntArray
    hop_events: int

    @property
    def makespan_fs(self) -> int:
        """The last arrival; 0 without messages."""
        return int(self.finish_fs.max(initial=0))

    @property
    def makespan_s(self) -> float:
        """The last arrival in seconds."""
        return self.makespan_fs * 1e-15


@dataclass(frozen=True, eq=False)
class LinkSimulator:
    """Runs sets of messages over one topology, each from an empty network.

    chunks: pieces that a message is cut into (of whole bytes; fewer where it has fewer bytes).
    hop_latency_fs: what a hop lasts beyond bytes / bandwidth; the link is free again without it.
    one_at_a_time: an endpoint sends a message only when its former one has arrived, as ASTRA-sim's workload layer does;
        else all messages are sent at time zero.
    """

    topology: LinkTopology
    chunks: int = CHUNKS
    hop_latency_fs: int = 0
    one_at_a_time: bool = False

    def run(
        self,
        sources: npt.NDArray[np.integer],
        destinations: npt.NDArray[np.integer],
        sizes_bytes: npt.NDArray[np.integer],
    ) -> LinkResult:
        """Sends every message and waits for the last.

        Args:
            sources, destinations: endpoints, shape (messages,); messages of one source leave in this order.
            sizes_bytes: of each message, at least 1.

        Raises:
            ConfigErrors: endpoints that are not there, empty messages, columns of different lengths.
        """
        columns = [np.asarray(column, dtype=np.int64) for column in (sources, destinations, sizes_bytes)]
        if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
            raise ConfigErrors.single("as many destinations and sizes as sources", str([c.shape for c in columns]))
        endpoints = self.topology.endpoints
        for name, column in zip(("sources", "destinations"), columns[:2], strict=True):
            bad = np.flatnonzero((column < 0) | (column >= endpoints))
            if len(bad):
                raise ConfigErrors.single(
                    f"endpoints from 0 to {endpoints - 1}", f"{column[bad[0]]} in row {bad[0]}", path=name
                )
        empty = np.flatnonzero(columns[2] < 1)
        if len(empty):
            raise ConfigErrors.single(
                "messages of at least one byte", f"{columns[2][empty[0]]} B in row {empty[0]}", path="sizes_bytes"
            )
        links = self.topology.links
        if not len(columns[0]):
            return LinkResult(np.zeros(0, dtype=np.int64), np.zeros(links, dtype=np.int64), 0)
        engine = Engine()
        network = engine.add_link_network(
            routers=self.topology.routers,
            link_bytes_per_second=self.topology.bandwidth_Bps.tolist(),
            link_target=self.topology.target.tolist(),
            next_link=self.topology.next_link.reshape(-1).tolist(),
            endpoint_node=list(range(endpoints)),
            endpoint_router=self.topology.endpoint_router.tolist(),
            chunks_per_message=self.chunks,
            hop_latency_fs=self.hop_latency_fs,
            message_classes=1,
            unicast_classes=1,
        )
        order = np.argsort(columns[0], kind="stable")
        follows = (columns[0][order][1:] == columns[0][order][:-1]) & self.one_at_a_time
        engine.submit(
            {
                "kind": np.full(len(columns[0]), int(TaskKind.transfer), dtype=np.uint8),
                "source": columns[0].astype(np.int32),
                "destination": columns[1].astype(np.int32),
                "bytes": columns[2],
            },
            order[:-1][follows].astype(np.int64),
            order[1:][follows].astype(np.int64),
            0,
        )
        engine.run()
        records = engine.take_records()
        statistics = engine.link_network_statistics(network)
        if statistics["conservation_error"]:
            raise RuntimeError(f"link network: {statistics['conservation_error']}")
        finish = np.zeros(len(columns[0]), dtype=np.int64)
        finish[records["task"]] = records["end_fs"]
        return LinkResult(finish, np.asarray(statistics["link_busy_fs"]), int(statistics["hop_events"]))
