"""The vocabulary of results: what a metric is called, which column it summarises, and its unit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from cosim.analytic.interface import STAGES
from cosim.config.units import BYTES, ENERGY, TIME, Dimension

#: Summaries over the (seed, batch, layer) rows; a percentile is that of all rows together.
STATISTICS = ("mean", "p50", "p95", "p99", "max", "total")

#: Stems whose mean bears the bare name, as in ``balance`` or ``bytes_weight``.
_BARE = (
    "balance", "stack_balance", "replica_factor", "energy", "changed_choices", "top1_retention", "domains",
    "domain_cores", "domain_shared_links", "throttled",
)  # fmt: skip

#: What components and inputs are measured by on their own: exact figures without units of resampling, a number each.
COMPONENT_METRICS = {
    "hotspot": (
        "completion_cycles",
        "link_flits",
        "over_ideal",
        "network_latency_mean_cycles",
        "router_share",
        "link_share",
        "serialisation_share",
        "waiting_share",
    ),
    "communication": (
        *(
            f"{figure}_{network}"
            for network in ("link", "flit")
            for figure in ("gamma", "gamma_low", "gamma_high", "r_squared")
        ),
        "link_over_flit",
        "node_traffic_over_flit",
    ),
    "complementarity": ("flagged_share", "survives_share", "cosine", "domain_distance"),
    "loads": ("peak_over_mean", "skew", "dispersion", "hot_overlap"),
    "grouping": ("max_over_mean", "collaboration", "collaboration_range", "collaboration_hops"),
}

_BYTES_STEM = re.compile(r"bytes_[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Quantity:
    """A metric: one statistic of one column of the layers frame.

    The name is ``<stem>_<statistic>``; for traffic, balance, replica factor, energy, shares of changed routing and of
    throttled layers and domains of helpers the mean per layer and batch is just ``<stem>``.

    stem:      layer_latency, stage_<stage>, bytes_<class>, balance, stack_balance, replica_factor, energy,
               changed_choices, top1_retention, domains, domain_cores, domain_shared_links or throttled
    statistic: one of STATISTICS, or ``exact`` for a figure of a component
    column:    column of the layers frame
    unit:      unit of the metric; ``scale`` is one unit of the column in it
    dimension: table of accepted input units, None where the metric has no unit
    """

    stem: str
    statistic: str
    column: str
    unit: str
    scale: float
    dimension: Dimension | None = field(compare=False)

    @property
    def name(self) -> str:
        """The metric's name in metrics.json."""
        if self.statistic == "exact":
            return self.stem
        if self.statistic == "mean" and (self.stem in _BARE or self.stem.startswith("bytes_")):
            return self.stem
        return f"{self.stem}_{self.statistic}"

    @property
    def component(self) -> str | None:
        """The component that it is measured on, by itself; None for a metric of runs."""
        return self.stem.partition("_")[0] if self.statistic == "exact" else None

    def from_unit(self, value: float, unit: str) -> float:
        """``value`` given in ``unit``, in the metric's own unit; KeyError for an unknown unit."""
        if self.dimension is None:
            if unit != "1":
                raise KeyError(unit)
            return value
        return float(value * self.dimension.units[unit] / self.dimension.units[self.unit])

    def units(self) -> list[str]:
        """Units that ``from_unit`` accepts."""
        return ["1"] if self.dimension is None else sorted(self.dimension.units)


def quantity(name: str) -> Quantity:
    """The metric called ``name``; KeyError where there is none (see ``quantity_names``)."""
    if name in _component_names():
        return Quantity(name, "exact", name, "1", 1.0, None)
    stem, _, statistic = name.rpartition("_")
    if statistic not in STATISTICS:
        stem, statistic = name, "mean"
    found: Quantity | None = None
    if stem == "layer_latency":
        found = Quantity(stem, statistic, "total_fs", "ns", 1e-6, TIME)
    elif stem.startswith("stage_") and stem.removeprefix("stage_") in STAGES:
        found = Quantity(stem, statistic, f"{stem.removeprefix('stage_')}_fs", "ns", 1e-6, TIME)
    elif _BYTES_STEM.fullmatch(stem):
        found = Quantity(stem, statistic, stem, "B", 1.0, BYTES)
    elif stem == "energy":
        found = Quantity(stem, statistic, "energy_J", "J", 1.0, ENERGY)
    elif stem in _BARE and statistic != "total":
        found = Quantity(stem, statistic, stem, "1", 1.0, None)
    if found is None or found.name != name:
        raise KeyError(name)
    return found


def quantity_names(
    byte_classes: Iterable[str] = ("dispatch", "gather", "weight", "prefetch", "migration"),
) -> list[str]:
    """Names to offer where an unknown one was written."""
    stems = ["layer_latency", *(f"stage_{stage}" for stage in STAGES), *(f"bytes_{name}" for name in byte_classes)]
    most = ("max",)  # offered where it is what a bound is held against
    usual = [statistic for statistic in STATISTICS if statistic not in most]
    names = [_name(stem, statistic) for stem in (*stems, "energy") for statistic in usual]
    names += _component_names()
    shares = [stem for stem in _BARE if stem != "energy"]
    names += [_name(stem, statistic) for stem in shares for statistic in usual if statistic != "total"]
    names += [_name(stem, statistic) for stem in shares if stem.startswith("domain") for statistic in most]
    return names


def _name(stem: str, statistic: str) -> str:
    return Quantity(stem, statistic, "", "", 1.0, None).name


def _component_names() -> list[str]:
    return [f"{component}_{metric}" for component, metrics in COMPONENT_METRICS.items() for metric in metrics]
