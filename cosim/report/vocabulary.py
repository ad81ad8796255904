"""Names, units and definitions of the metrics, and how quantities are put into words.

A run may report metrics that are not named here; they are shown under their own name and unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

LATENCY = "layer_latency_mean"
PERCENTILES = {"layer_latency_p50": 0.50, "layer_latency_p95": 0.95, "layer_latency_p99": 0.99}
BALANCE = "balance"
STACK_BALANCE = "stack_balance"
REPLICA_FACTOR = "replica_factor"
CHANGED_CHOICES, TOP1_RETENTION = "changed_choices", "top1_retention"
ENERGY = "energy"
ERROR = "error_against_flit"
RANK_AGREEMENT = "rank_agreement"
SAME_ORDER = "same_order"
ERROR_ABS = "error_abs_against_flit"
ERROR_SOURCES = ("error_from_network", "error_from_memory", "error_from_interaction")
STAGE_ERROR_PREFIX, STAGE_ERROR_SUFFIX = "stage_", "_error_against_flit"
BYTES_PREFIX = "bytes_"


@dataclass(frozen=True)
class Metric:
    """One metric of the vocabulary: its short label, its unit and what exactly it says."""

    name: str
    label: str
    unit: str
    definition: str


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(LATENCY, "mean", "ns", "time of a MoE layer, arithmetic mean over all (seed, batch, layer) units"),
        Metric("layer_latency_p50", "P50", "ns", "median over the same units"),
        Metric("layer_latency_p95", "P95", "ns", "95th percentile over the same units"),
        Metric("layer_latency_p99", "P99", "ns", "99th percentile over the same units"),
        Metric(BALANCE, "balance", "1", "see the definition under the table"),
        Metric(
            STACK_BALANCE,
            "stack balance",
            "1",
            "mean over the stacks (networks with compute chiplets) of the tokens served, over the largest of them",
        ),
        Metric(REPLICA_FACTOR, "replicas", "1", "copies of an expert, mean over experts, layers and batches"),
        Metric(CHANGED_CHOICES, "changed", "1", "share of the tokens' experts that the policy's gate chose anew"),
        Metric(TOP1_RETENTION, "top-1 kept", "1", "share of tokens whose highest-scored expert is still among theirs"),
        Metric("domains", "domains", "1", "replicas of a layer and batch that other endpoints help with, mean"),
        Metric("domain_cores", "cores", "1", "cores of a layer's largest domain, the replica's own included, mean"),
        Metric("domain_shared_links", "shared links", "1", "links in more than one domain of a layer, mean"),
        Metric("throttled", "throttled", "1", "share of layers that a power cap ran at the reduced rate"),
        Metric(ENERGY, "energy", "J", "mean per layer and batch, from the system's declared figures"),
        Metric(
            ERROR,
            "error against flit",
            "1",
            "(mean layer latency of the rung − that of flit) / that of flit, same decisions",
        ),
        Metric(
            ERROR_ABS,
            "absolute error",
            "1",
            "mean absolute difference of a layer's latency from flit / mean layer latency of flit",
        ),
        Metric("error_from_network", "from network", "1", "error of link+command: link-level network, flit's memory"),
        Metric("error_from_memory", "from memory", "1", "error of flit+rate: flit-level network, link's memory"),
        Metric("error_from_interaction", "from interaction", "1", "what is left: error of link − the two others"),
        Metric(
            RANK_AGREEMENT,
            "rank agreement",
            "1",
            "Kendall's tau-b between the order of the policies by mean layer latency at this rung and at flit; "
            "1 is the same order, −1 the reverse",
        ),
        Metric(SAME_ORDER, "same order", "1", "whether the two orders are the same"),
    )
}
BYTES_DEFINITION = (
    "bytes by message class, over_links: bytes times the links that they crossed, read_<memory>: bytes that it read; "
    "mean per layer and batch"
)


def units_needed(quantile: float) -> int:
    """Units a percentile needs before it is reported: n ≥ 20/(1−p)."""
    return math.ceil(round(20 / (1 - quantile), 9))


_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9), ("ps", 1e-12), ("fs", 1e-15))
_BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_JOULES = (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6), ("nJ", 1e-9), ("pJ", 1e-12))
_COUNTS = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
_LADDERS: dict[str, tuple[tuple[tuple[str, float], ...], float]] = {
    **{unit: (_SECONDS, size) for unit, size in _SECONDS},
    **{unit: (_BYTES, size) for unit, size in _BYTES},
    **{unit: (_JOULES, size) for unit, size in _JOULES},
}


def digits(value: float, significant: int = 4) -> str:
    """A number with `significant` digits, no exponent between 1e-4 and 1e15, thousands grouped by commas."""
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if not 1e-4 <= size < 1e15:
        return f"{value:.{significant - 1}e}".replace("-", "−")
    places = max(0, significant - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{places}f}"
    return text.replace("-", "−")


def decimals(value: float, places: int) -> str:
    """A number with a fixed count of decimals, for columns whose small values are noise beside the large ones."""
    return "–" if math.isnan(value) else f"{value:,.{places}f}".replace("-", "−")


@dataclass(frozen=True)
class Scale:
    """A unit to show a set of values in, and the factor from the values' own unit to it."""

    unit: str
    factor: float

    def __call__(self, value: float) -> float:
        return value * self.factor


def scale_for(values: Iterable[float], unit: str) -> Scale:
    """The prefix that puts the largest of `values` (in `unit`) between 1 and 1000; one scale for a whole column."""
    if unit not in _LADDERS:
        return Scale(unit, 1.0)
    ladder, size = _LADDERS[unit]
    top = max((abs(v) for v in values if not math.isnan(v)), default=0.0) * size
    for name, step in ladder:
        if top >= step:
            return Scale(name, size / step)
    name, step = ladder[-1] if top > 0 else next((u, s) for u, s in ladder if u == unit)
    return Scale(name, size / step)


def quantity(value: float, unit: str, significant: int = 4) -> str:
    """A value with a fitting prefix of its unit, for running text: `41.25 µs`."""
    if math.isnan(value):
        return "–"
    if unit == "1":
        return digits(value, significant)
    scale = scale_for([value], unit)
    return f"{digits(scale(value), significant)} {scale.unit}".strip()


def count(value: int) -> str:
    """A whole number for running text: exact below 100,000, else with a decimal prefix (`23.4 M`)."""
    if abs(value) < 100_000:
        return f"{value:,}".replace("-", "−")
    for name, step in _COUNTS:
        if abs(value) >= step:
            return f"{digits(value / step, 3)} {name}".strip()
    return str(value)


def percent(fraction: float, signed: bool = False) -> str:
    """A fraction in per cent with a sign where asked; one decimal below 10 %."""
    if math.isnan(fraction):
        return "–"
    value = fraction * 100
    places = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 0.05 or value == 0 else 2
    text = f"{value:+.{places}f}" if signed else f"{value:.{places}f}"
    return text.replace("-", "−") + " %"
