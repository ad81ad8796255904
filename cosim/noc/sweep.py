"""Latency against load: zero-load latency, knee and saturation of a network, found by running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from cosim.config.errors import Problems
from cosim.noc.network import Network
from cosim.noc.results import TrafficResult

__all__ = ["Sweep", "SweepPoint", "sweep"]

KNEE, SATURATION = 2.0, 3.0
"""Multiples of the zero-load latency at which a network is at its knee and saturated."""

LOWEST_RATE = 0.01
PLACES = 5
"""Decimals of a rate: rates are equal when they print equal."""


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep; rates in flits per node and cycle, latencies in cycles."""

    injection_rate: float
    offered_rate: float
    accepted_rate: float
    packet_latency_mean_cycles: float
    packet_latency_mean_half_width_cycles: float
    network_latency_mean_cycles: float
    packet_latency_p99_cycles: int
    zero_load_latency_mean_cycles: float
    stable: bool
    measured_packets: int
    flit_hops: int

    @staticmethod
    def of(injection_rate: float, result: TrafficResult) -> SweepPoint:
        """The columns of a run's result."""
        names = [f.name for f in fields(SweepPoint) if f.name != "injection_rate"]
        return SweepPoint(injection_rate=injection_rate, **{name: getattr(result, name) for name in names})


@dataclass(frozen=True)
class Sweep:
    """What a sweep found.

    Attributes:
        points: every run, by rate.
        zero_load_latency_cycles: mean latency without contention of the packets of the lowest rate.
        knee_rate: the rate at which the mean packet latency is twice that, between the rates of `knee_between`.
        saturation_rate: the rate at which it is three times that, between those of `saturation_between`.
        largest_accepted_rate: of all runs.

    A rate is nan, and its bracket ends at the largest rate offered, where the latency stays below.
    """

    points: tuple[SweepPoint, ...]
    zero_load_latency_cycles: float
    knee_rate: float
    knee_between: tuple[float, float]
    saturation_rate: float
    saturation_between: tuple[float, float]
    largest_accepted_rate: float

    @property
    def frame(self) -> pd.DataFrame:
        """One row per run."""
        frame: pd.DataFrame = pd.DataFrame([vars(point) for point in self.points])
        return frame


def sweep(
    network: Network,
    pattern: str | Mapping[str, Any],
    *,
    packet_size_flits: int = 1,
    warmup_cycles: int = 4000,
    measure_cycles: int = 10000,
    max_drain_cycles: int = 10000,
    seed: int = 1,
    message_class: str | None = None,
    relative_width: float = 0.01,
    curve_points: int = 8,
    known: Mapping[float, SweepPoint] | None = None,
    report: Callable[[SweepPoint], None] = lambda point: None,
) -> Sweep:
    """Find zero-load latency, knee and saturation by bisection, and fill in the curve.

    Args:
        pattern, packet_size_flits, warmup_cycles, measure_cycles, max_drain_cycles, seed, message_class: as
            `Network.run_traffic` has them; every run uses the same.
        relative_width: bisection ends when a bracket is this share of its upper end wide.
        curve_points: runs at even distances up to saturation.
        known: runs made before by the same arguments, by rate; they are not made again.
        report: called after every run.

    Raises:
        ConfigErrors: impossible arguments.
    """
    problems = Problems()
    if not 0 < relative_width < 1:
        problems.add("relative_width", "a share above 0 and below 1", repr(relative_width))
    problems.integer("curve_points", curve_points, 0, 1000)
    problems.raise_if_any()
    points: dict[float, SweepPoint] = {}
    made = known or {}

    def at(rate: float) -> SweepPoint:
        rate = round(rate, PLACES)
        if rate not in points:
            points[rate] = made[rate] if rate in made else SweepPoint.of(
                rate,
                network.run_traffic(
                    pattern, injection_rate=rate, packet_size_flits=packet_size_flits, warmup_cycles=warmup_cycles,
                    measure_cycles=measure_cycles, max_drain_cycles=max_drain_cycles, seed=seed,
                    message_class=message_class,
                ),
            )  # fmt: skip
            report(points[rate])
        return points[rate]

    zero_load = at(LOWEST_RATE).zero_load_latency_mean_cycles
    most = 1.0  # a source sends at most a flit a cycle

    def crossing(multiple: float) -> tuple[float, tuple[float, float]]:
        """The rate at which the latency is `multiple` times that at zero load, and its bracket."""

        def beyond(rate: float) -> bool:
            point = at(rate)
            return not point.stable or not point.packet_latency_mean_cycles < multiple * zero_load

        low, high = LOWEST_RATE, LOWEST_RATE
        while not beyond(high):
            if high == most:
                return float("nan"), (most, most)
            low, high = high, min(2 * high, most)
        while high - low > max(relative_width * high, 10**-PLACES):
            middle = round((low + high) / 2, PLACES)
            low, high = (low, middle) if beyond(middle) else (middle, high)
        return (low + high) / 2, (low, high)

    saturation, saturation_between = crossing(SATURATION)
    knee, knee_between = crossing(KNEE)
    for i in range(1, curve_points + 1):
        at(saturation_between[0] * i / curve_points)
    ordered = tuple(points[rate] for rate in sorted(points))
    return Sweep(
        points=ordered,
        zero_load_latency_cycles=zero_load,
        knee_rate=knee,
        knee_between=knee_between,
        saturation_rate=saturation,
        saturation_between=saturation_between,
        largest_accepted_rate=max(point.accepted_rate for point in ordered),
    )
