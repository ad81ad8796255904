"""One unit of an experiment: a policy at a rung with a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from cosim.policy.registry import make_policy
from cosim.policy.residency import Residency
from cosim.run.fault_plan import FaultPlan
from cosim.run.frames import bank_rows, chiplet_rows, expert_rows, group_rows, layer_rows, link_rows
from cosim.run.incidents import incident_frame
from cosim.run.loop import LoopInputs, RunLoop
from cosim.run.machine import build_machine
from cosim.run.recording import DecisionRecord
from cosim.run.setup import Setup
from cosim.run.skipping import SkipReport
from cosim.run.tenant_results import tenant_frame

__all__ = ["FRAME_NAMES", "UnitKey", "UnitResult", "run_unit", "unit_loop"]

FRAME_NAMES = ("layers", "groups", "links", "banks", "chiplets", "experts", "tenants", "incidents")


@dataclass(frozen=True, order=True)
class UnitKey:
    """Which unit. ``replay``: driven by the decisions recorded at the highest rung instead of its own."""

    policy: str
    rung: str
    seed: int
    replay: bool = False


@dataclass(frozen=True)
class UnitResult:
    """A finished unit: frames by name, exact figures, its decisions, and how much of it was skipped."""

    key: UnitKey
    frames: dict[str, pd.DataFrame]
    figures: dict[str, int]
    record: DecisionRecord = field(repr=False)
    skipped: SkipReport


def unit_loop(
    setup: Setup,
    key: UnitKey,
    replay: DecisionRecord | None = None,
    progress: Callable[[int, int], None] | None = None,
    only: frozenset[tuple[int, int]] | None = None,
    *,
    journal: bool = False,
) -> RunLoop:
    """A unit before its first layer, arguments as of :func:`run_unit`; ``journal`` as of ``build_machine``."""
    spec = setup.spec
    chosen = next(policy for policy in spec.policies if policy.title == key.policy)
    policy = make_policy(chosen.name, chosen.params)
    rates, layers = setup.rates, setup.layers
    residency = Residency(
        setup.system,
        setup.model,
        policy.place(setup.system, setup.model, setup.profile),
        expert_bytes=rates.expert_bytes,
        alignment_bytes=setup.region_alignment_bytes,
        burst_bytes=setup.burst_bytes,
        layers=setup.held_layers,
        max_replicas=policy.max_replicas,
        shared_bytes=rates.shared_bytes,
        min_residency_windows=policy.min_residency_windows,
        updates_per_window=policy.updates_per_window,
        tenants=setup.ledger(),
        scrub=spec.isolation is not None and spec.isolation.scrub,
        budget_bytes=int(policy.replica_budget * len(setup.held_layers) * setup.model.experts * rates.expert_bytes),
    )
    return RunLoop(
        build_machine(setup.system, key.rung, seed=key.seed, journal=journal, skipping=spec.skipping == "on"),
        policy,
        residency,
        LoopInputs(
            setup.trace.ids,
            setup.batches(key.seed),
            layers,
            setup.model,
            rates,
            spec.workload.scope,
            spec.workload.full_model,
            setup.burst_bytes,
            None if policy.preserves_routing else setup.router_scores(key.policy),
            setup.tenants,
            setup.queue_quotas,
        ),
        setup.profile,
        window_batches=policy.window_batches,
        replay=replay,
        progress=progress,
        only=only,
        faults=None if spec.faults is None else FaultPlan(spec.faults),
    )


def run_unit(
    setup: Setup,
    key: UnitKey,
    replay: DecisionRecord | None = None,
    progress: Callable[[int, int], None] | None = None,
    only: frozenset[tuple[int, int]] | None = None,
    prepare: Callable[[RunLoop], None] | None = None,
) -> UnitResult:
    """Runs a unit from an empty system to its last layer; conservation is checked at the end.

    Args:
        replay: decisions to take instead of the policy's own.
        only: with ``replay``, the (batch, layer) to measure; all if not given.
        prepare: called with the loop before it starts: where a saved state is taken up.
    """
    loop = unit_loop(setup, key, replay, progress, only)
    if prepare is not None:
        prepare(loop)
    results = loop.run()
    groups = group_rows(results, key.seed, setup.model.moe_intermediate)
    frames = {
        "layers": layer_rows(results),
        "groups": groups,
        "links": link_rows(loop.machine),
        "banks": bank_rows(loop.machine),
        "chiplets": chiplet_rows(loop.machine, results, setup.model),
        "experts": expert_rows(groups, setup.system),
        "tenants": tenant_frame([(result.batch, result.layer, result.tenants) for result in results]),
        "incidents": incident_frame(loop.incidents),
    }
    for name, frame in frames.items():
        if name != "groups" and len(frame):
            frame.insert(0, "seed", key.seed)
        if len(frame):
            frame.insert(0, "rung", key.rung)
            frame.insert(0, "policy", key.policy)
    figures = loop.machine.figures()
    if setup.spec.faults is not None:
        figures["checked_reads"] = loop.residency.checked_reads
    return UnitResult(
        key,
        frames,
        figures,
        loop.record,
        SkipReport.of(loop.machine),
    )
