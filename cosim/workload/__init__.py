"""Workloads: batches of a routing trace and what they ask of the hardware."""

from cosim.workload.batch import MODES, Batch, batches, servable_modes
from cosim.workload.batch_parts import Parts, resolve_parts, select_rows
from cosim.workload.packets import packets

__all__ = ["MODES", "Batch", "Parts", "batches", "packets", "resolve_parts", "select_rows", "servable_modes"]
