"""A run in a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.report.vocabulary import quantity
from cosim.run.skipping import skip_sentence
from cosim.workload.stages import STAGES

if TYPE_CHECKING:
    from cosim.experiment import Run

__all__ = ["run_summary"]


def run_summary(run: Run) -> str:
    """Mean layer latency and its stages, bytes by class, and exact counts, with units."""
    layers = run.layers
    total = float(layers["total_fs"].mean())
    lines = [
        f"{run.policy} at {run.rung}: {len(layers)} layers (seed, batch, layer), mean {quantity(total, 'fs')}",
        "stages of the group that ends last, mean:",
    ]
    for stage in STAGES:
        mean = float(layers[f"{stage}_fs"].mean())
        if mean:
            lines.append(f"  {stage:12s} {quantity(mean, 'fs'):>12s}  {mean / total:6.1%}")
    lines.append("bytes moved:")
    for name in layers.columns:
        if name.startswith("bytes_"):
            moved = float(layers[name].sum())
            lines.append(f"  {name.removeprefix('bytes_'):12s} {quantity(moved, 'B'):>12s}")
    totals: dict[str, int] = {}
    for figures in run.figures.values():
        for name in ("flit_hops", "link_hops", "dram_read_bytes", "dram_written_bytes", "simulated_fs"):
            totals[name] = totals.get(name, 0) + figures.get(name, 0)
    counted = [
        f"{totals[name]:,} {label}"
        for name, label in (("flit_hops", "flit-hops"), ("link_hops", "link hops"))
        if totals[name]
    ]
    counted.append(f"{quantity(float(totals['dram_read_bytes']), 'B')} read from DRAM")
    counted.append(f"{quantity(float(totals['simulated_fs']), 'fs')} simulated")
    lines.append(", ".join(counted))
    if len(run.incidents):
        lines += _incidents(run)
    lines.append(skip_sentence(list(run.skipped.values())))
    return "\n".join(lines)


def _incidents(run: Run) -> list[str]:
    """What was injected, how many token groups were in flight, and how often what they read was checked."""
    counts = run.incidents["incident"].value_counts().sort_index()
    lines = ["injected: " + ", ".join(f"{count} {str(name).replace('_', ' ')}" for name, count in counts.items())]
    swaps = run.incidents[run.incidents["groups_in_flight"] > 0]
    if len(swaps):
        groups, tokens = (int(swaps[f"{name}_in_flight"].sum()) for name in ("groups", "tokens"))
        lines.append(
            f"{len(swaps)} change{'s' * (len(swaps) != 1)} of version with {groups:,} token groups ({tokens:,} tokens) "
            "in flight on the weights that left the directory"
        )
    checked = sum(figures["checked_reads"] for figures in run.figures.values())
    lines.append(f"{checked:,} reads of replicas checked: all whole, unharmed, and of their expert and version")
    return lines
