"""Hardware as an analytical model sees it: plain rates, fixed latencies and the links of every route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class ModelNumbers(Protocol):
    """What an analytical model needs to know of the MoE model."""

    @property
    def hidden(self) -> int:
        """Width of a token's activation vector."""

    @property
    def moe_intermediate(self) -> int:
        """Width of one routed expert's hidden layer."""

    @property
    def expert_bytes(self) -> int:
        """Weight bytes of one routed expert."""

    @property
    def expert_macs_per_token(self) -> int:
        """Multiply-accumulates of one token in one routed expert."""


@dataclass(frozen=True)
class Routes:
    """Directed links of every (source, destination) pair of endpoints, in compressed rows.

    The links of pair ``source * endpoints + destination`` are
    ``links[offsets[pair]:offsets[pair + 1]]``; an endpoint reaches itself over no link.
    """

    endpoints: int
    offsets: IntArray
    links: IntArray

    def __post_init__(self) -> None:
        if self.offsets.shape != (self.endpoints**2 + 1,):
            raise ValueError(f"routes of {self.endpoints} endpoints need {self.endpoints**2 + 1} offsets")
        if self.offsets[0] != 0 or int(self.offsets[-1]) != len(self.links) or bool((np.diff(self.offsets) < 0).any()):
            raise ValueError("route offsets must rise from 0 to the number of route links")

    @classmethod
    def from_paths(cls, endpoints: int, paths: Sequence[Sequence[int]]) -> Routes:
        """Build from one list of link numbers per pair, pairs in row-major order."""
        if len(paths) != endpoints**2:
            raise ValueError(f"expected {endpoints**2} paths for {endpoints} endpoints, got {len(paths)}")
        offsets = np.zeros(len(paths) + 1, dtype=np.int64)
        np.cumsum([len(path) for path in paths], out=offsets[1:])
        links = np.fromiter((link for path in paths for link in path), dtype=np.int64, count=int(offsets[-1]))
        return cls(endpoints, offsets, links)

    def expand(self, pair: IntArray) -> tuple[IntArray, IntArray]:
        """Rows and links of many pairs at once: ``(row, link)``, one entry per link of each given pair."""
        counts = self.offsets[pair + 1] - self.offsets[pair]
        row = np.repeat(np.arange(len(pair), dtype=np.int64), counts)
        first = np.repeat(self.offsets[pair] - (np.cumsum(counts) - counts), counts)
        return row, self.links[first + np.arange(len(row), dtype=np.int64)]


@dataclass(frozen=True)
class AnalyticSystem:
    """Rates and latencies of one package.

    Link arrays have one entry per directed link, endpoint arrays one per endpoint. A rate of 0 means
    the endpoint has no such unit.

    link_bandwidth_Bps:   B_u of seed 000, bytes per second in one direction
    link_latency_s:       lambda_u of seed 000, fixed time of one hop (router pipeline and wire)
    link_is_d2d:          crosses a die boundary (energy is accounted apart)
    port_bandwidth_Bps:   bytes per second between an endpoint and its router, one direction
    compute_flops:        peak FLOP/s of an endpoint, two per multiply-accumulate
    compute_efficiency:   share of the peak that a legal tile reaches, eta_r of seed 000
    memory_bandwidth_Bps: peak bytes per second of all banks of a memory endpoint
    memory_latency_s:     fixed access latency, Lat of seed 000
    memory_banks:         independent banks (or pseudo-channels) behind the endpoint
    memory_tier:          name of the tier an endpoint holds, '' where it holds none
    near_memory:          memory endpoint that a compute endpoint is stacked with, -1 for none
    near_bandwidth_Bps:   bytes per second of the path between them
    """

    link_bandwidth_Bps: FloatArray
    link_latency_s: FloatArray
    link_is_d2d: npt.NDArray[np.bool_]
    routes: Routes
    port_bandwidth_Bps: FloatArray
    compute_flops: FloatArray
    compute_efficiency: FloatArray
    memory_bandwidth_Bps: FloatArray
    memory_latency_s: FloatArray
    memory_banks: IntArray
    memory_tier: tuple[str, ...]
    near_memory: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    near_bandwidth_Bps: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        links, endpoints = len(self.link_bandwidth_Bps), self.routes.endpoints
        problems = []
        for name in ("link_latency_s", "link_is_d2d"):
            if len(getattr(self, name)) != links:
                problems.append(f"{name}: expected {links} entries, one per link, got {len(getattr(self, name))}")
        for name in (
            "port_bandwidth_Bps",
            "compute_flops",
            "compute_efficiency",
            "memory_bandwidth_Bps",
            "memory_latency_s",
            "memory_banks",
            "memory_tier",
        ):
            if len(getattr(self, name)) != endpoints:
                found = len(getattr(self, name))
                problems.append(f"{name}: expected {endpoints} entries, one per endpoint, got {found}")
        if not problems:
            if bool((self.link_bandwidth_Bps <= 0).any()):
                problems.append("link_bandwidth_Bps: every link needs a bandwidth above 0")
            if bool((self.port_bandwidth_Bps <= 0).any()):
                problems.append("port_bandwidth_Bps: every endpoint needs a port bandwidth above 0")
            if bool((self.memory_banks[self.memory_bandwidth_Bps > 0] < 1).any()):
                problems.append("memory_banks: a memory endpoint needs at least one bank")
            if bool((self.compute_efficiency[self.compute_flops > 0] <= 0).any()):
                problems.append("compute_efficiency: a computing endpoint needs an efficiency above 0")
        if problems:
            raise ValueError("\n".join(problems))

    def stacked(self, chiplet: IntArray, memory: IntArray) -> npt.NDArray[np.bool_]:
        """Whether each chiplet reads each memory over the path of its own stack, shape of both."""
        if not len(self.near_memory):
            return np.zeros(np.shape(chiplet), dtype=np.bool_)
        return np.asarray(self.near_memory[chiplet] == memory, dtype=np.bool_)

    @property
    def endpoints(self) -> int:
        """Number of endpoints; sources, aggregators, chiplets and memory nodes are numbers below it."""
        return self.routes.endpoints

    @property
    def link_count(self) -> int:
        """Number of directed links."""
        return len(self.link_bandwidth_Bps)

    @cached_property
    def route_latency_s(self) -> FloatArray:
        """Sum of link_latency_s over the route of every pair, shape (endpoints**2,)."""
        return self._route_sum(self.link_latency_s)

    @cached_property
    def route_seconds_per_byte(self) -> FloatArray:
        """Sum of 1 / bandwidth over the route of every pair: store and forward, Eq. 7 of seed 000."""
        return self._route_sum(1.0 / self.link_bandwidth_Bps)

    @cached_property
    def route_slowest_seconds_per_byte(self) -> FloatArray:
        """Largest 1 / bandwidth on the route of every pair: cut-through; 0 for an empty route."""
        pairs = np.arange(self.endpoints**2, dtype=np.int64)
        row, link = self.routes.expand(pairs)
        slowest = np.zeros(len(pairs))
        np.maximum.at(slowest, row, 1.0 / self.link_bandwidth_Bps[link])
        return slowest

    @cached_property
    def route_hops(self) -> IntArray:
        """Links on the route of every pair, shape (endpoints**2,)."""
        return np.diff(self.routes.offsets)

    @cached_property
    def macs_per_s(self) -> FloatArray:
        """Sustained multiply-accumulates per second of every endpoint: flops / 2 * efficiency."""
        return self.compute_flops / 2.0 * self.compute_efficiency

    def _route_sum(self, per_link: FloatArray) -> FloatArray:
        pairs = np.arange(self.endpoints**2, dtype=np.int64)
        row, link = self.routes.expand(pairs)
        return np.bincount(row, weights=per_link[link], minlength=len(pairs)).astype(np.float64)
