"""A run's whole state between two layers, as plain bytes, and the run that goes on from it.

The engine saves itself; beside it stand the keeper of the replicas, prefetches and copies under way, accounts,
decisions and the results so far. A run that is interrupted and goes on from any of these points ends with the same
bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cosim.policy.base import (
    ActionKind,
    Outcome,
    PreBroadcast,
    Prefetch,
    PrefetchState,
    ResidencyAction,
    Revoke,
    RoutedAction,
    Upgrade,
    UpgradeStep,
)
from cosim.policy.directory import DIRECTORY
from cosim.policy.residency import CopyOrder, WriteOrder
from cosim.run.domains import DomainCounts
from cosim.run.incidents import Incident
from cosim.run.loop import LayerResult, LivePrefetch
from cosim.run.recording import DecisionRecord, LayerDecision
from cosim.run.tenant_results import TenantRow
from cosim.workload.gating import GateCounts
from cosim.workload.groups import GROUPS
from cosim.workload.stages import STAGES

if TYPE_CHECKING:
    from cosim.policy.residency import Residency
    from cosim.run.loop import RunLoop

__all__ = ["UnusableStateError", "load_state", "record_from_json", "record_to_json", "save_state"]

_SCHEMA = 8


def save_state(loop: RunLoop) -> bytes:
    """The state of a loop between two layers."""
    results = loop.results
    facts = {
        "schema": _SCHEMA,
        "position": loop.position,
        "energy_J": loop.energy_J,
        "macs": loop.macs,
        "copies_made": loop.copies_made,
        "gated": loop.gated,
        "power_cap": None if loop.power_cap is None else loop.power_cap.state(),
        "outcomes": [_outcome_to_json(outcome) for outcome in loop.outcomes],
        "prefetches": [[asdict(live.state), live.task, live.replica] for live in loop.prefetches.values()],
        "next_prefetch": loop.next_prefetch,
        "pressure": loop.meter.state(),
        "moved": loop.moved,
        "counted": loop.counted,
        "copies": list(loop.copies.items()),
        "kinds": list(loop.kinds.items()),
        "trials": [[*key, batch] for key, batch in loop.trials.items()],
        "incidents": [asdict(incident) for incident in loop.incidents],
        "residency": _residency_to_json(loop.residency),
        "policy": loop.policy.save(),
        "record": record_to_json(loop.record),
        "results": [
            {
                "batch": r.batch,
                "layer": r.layer,
                "start_fs": r.start_fs,
                "end_fs": r.end_fs,
                "groups": len(r.groups),
                "bytes_by_class": dict(r.bytes_by_class),
                "replica_factor": r.replica_factor,
                "energy_J": r.energy_J,
                "gate": None if r.gate is None else asdict(r.gate),
                "domains": None if r.domains is None else asdict(r.domains),
                "tenants": [asdict(row) for row in r.tenants],
                "throttled": r.throttled,
            }
            for r in results
        ],
    }
    published, draining = loop.residency.rows()
    arrays: dict[str, npt.NDArray[Any]] = {
        "engine": np.frombuffer(loop.machine.engine.save(), dtype=np.uint8),
        "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
        "demand": loop.demand,
        "published": published,
        "draining": draining,
        "groups": _joined([r.groups for r in results], GROUPS),
        "replicas": _joined([r.replicas for r in results], DIRECTORY),
        "first_tokens": _joined([r.first_tokens for r in results], np.dtype(np.int64)),
        "fetch_bytes": _joined([r.fetch_bytes for r in results], np.dtype(np.int64)),
        "resident_fraction": _joined([r.resident_fraction for r in results], np.dtype(np.float64)),
    }
    for stage in (*STAGES, "end"):
        arrays[f"stage_{stage}"] = _joined([r.stages[stage] for r in results], np.dtype(np.int64))
    target = io.BytesIO()
    np.savez(target, **arrays)  # type: ignore[arg-type]
    return target.getvalue()


class UnusableStateError(ValueError):
    """What was read is no state that this version has saved; the loop is as it was."""


def load_state(loop: RunLoop, data: bytes) -> None:
    """Puts a freshly built loop of the same experiment into a saved state.

    Raises:
        UnusableStateError: the bytes are no such state, or another version's.
        ValueError: the state is of another system.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        facts = json.loads(arrays["facts"].tobytes())
        schema = facts["schema"]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as problem:
        raise UnusableStateError(f"no saved state: {problem}") from problem
    if schema != _SCHEMA:
        raise UnusableStateError(f"saved state of schema {schema}, expected {_SCHEMA}")
    try:
        loop.machine.engine.load(arrays["engine"].tobytes())
    except RuntimeError as problem:
        raise ValueError(str(problem)) from problem
    loop.position = facts["position"]
    loop.energy_J = facts["energy_J"]
    loop.macs = facts["macs"]
    loop.copies_made, loop.gated = facts["copies_made"], facts["gated"]
    if loop.power_cap is not None:
        loop.power_cap.restore(facts["power_cap"])
    loop.outcomes = [_outcome_from_json(item) for item in facts["outcomes"]]
    states = [(PrefetchState(**state), task, replica) for state, task, replica in facts["prefetches"]]
    loop.prefetches = {state.prefetch: LivePrefetch(state, task, replica) for state, task, replica in states}
    loop.next_prefetch = facts["next_prefetch"]
    loop.meter.restore(facts["pressure"])
    loop.moved = facts["moved"]
    loop.counted = facts["counted"]
    loop.copies = {int(replica): int(task) for replica, task in facts["copies"]}
    loop.kinds = {int(task): str(kind) for task, kind in facts["kinds"]}
    loop.trials = {(int(layer), int(expert)): int(batch) for layer, expert, batch in facts["trials"]}
    loop.incidents = [Incident(**incident) for incident in facts["incidents"]]
    loop.demand = arrays["demand"]
    loop.policy.load(facts["policy"])
    loop.record = record_from_json(facts["record"])
    _residency_from_json(loop.residency, facts["residency"], arrays["published"], arrays["draining"])
    loop.results = []
    first = 0
    for item in facts["results"]:
        part = slice(first, first + item.pop("groups"))
        first = part.stop
        gate, domains = item.pop("gate"), item.pop("domains")
        loop.results.append(
            LayerResult(
                groups=arrays["groups"][part],
                replicas=arrays["replicas"][part],
                first_tokens=arrays["first_tokens"][part],
                stages={stage: arrays[f"stage_{stage}"][part] for stage in (*STAGES, "end")},
                fetch_bytes=arrays["fetch_bytes"][part],
                resident_fraction=arrays["resident_fraction"][part],
                gate=None if gate is None else GateCounts(**gate),
                domains=None if domains is None else DomainCounts(**domains),
                tenants=tuple(TenantRow(**row) for row in item.pop("tenants")),
                **item,
            )
        )


def _joined(parts: list[npt.NDArray[Any]], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


# -- the keeper of the replicas


def _residency_to_json(residency: Residency) -> dict[str, Any]:
    pending = [{**asdict(order), "action": _action_to_json(order.action)} for order in residency.pending.values()]
    regions = [[list(key), *allocator.state()] for key, allocator in residency.allocators.items()]
    return {
        "next": residency.next_identity,
        "pending": pending,
        "leaving": residency.leaving,
        "upgrades": [[[*key, list(group)] for key, group in groups.items()] for groups in residency.upgrades()],
        "writing": sorted(residency.writing),
        "harmed": list(residency.harmed.items()),
        "checked_reads": residency.checked_reads,
        "scrubbing": [[tier, asdict(order)] for tier, order in residency.scrubbing.values()],
        "tenants": None if residency.tenants is None else residency.tenants.state(),
        "regions": regions,
    }


def _residency_from_json(
    residency: Residency,
    data: Mapping[str, Any],
    published: npt.NDArray[np.void],
    draining: npt.NDArray[np.void],
) -> None:
    orders = [CopyOrder(**{**order, "action": _action_from_json(order["action"])}) for order in data["pending"]]
    scrubbing = [(int(tier), WriteOrder(**order)) for tier, order in data["scrubbing"]]
    staged, retired = (
        {(int(layer), int(expert)): group for layer, expert, group in groups} for groups in data["upgrades"]
    )
    residency.restore(
        data["next"],
        published,
        draining,
        orders,
        data["leaving"],
        scrubbing,
        staged,
        retired,
        data["writing"],
        {int(replica): bool(whole) for replica, whole in data["harmed"]},
    )
    residency.checked_reads = data["checked_reads"]
    if residency.tenants is not None:
        residency.tenants.restore(data["tenants"])
    for key, free, used in data["regions"]:
        residency.allocators[key[0], key[1]].restore([(start, length) for start, length in free], used)


# -- decisions


def record_to_json(record: DecisionRecord) -> dict[str, Any]:
    """A decision record as plain JSON."""
    return {
        "layers": [
            [
                batch,
                layer,
                [_action_to_json(a) for a in decision.actions],
                decision.replicas.tolist(),
                decision.cost_fs,
                None if decision.ids is None else decision.ids.tolist(),
                None if decision.chiplets is None else decision.chiplets.tolist(),
                decision.throttled,
                [{**asdict(one), "step": one.step.value} for one in decision.upgrades],
            ]
            for (batch, layer), decision in record.layers.items()
        ],
        "windows": [[window, [_action_to_json(a) for a in actions]] for window, actions in record.windows.items()],
    }


def record_from_json(data: Mapping[str, Any]) -> DecisionRecord:
    """What :func:`record_to_json` wrote."""
    record = DecisionRecord()
    for batch, layer, actions, replicas, cost, ids, chiplets, throttled, upgrades in data["layers"]:
        decision = LayerDecision(
            tuple(_action_from_json(a) for a in actions),
            np.array(replicas, dtype=np.int32),
            cost,
            None if ids is None else np.array(ids, dtype=np.int32),
            None if chiplets is None else np.array(chiplets, dtype=np.int32),
            throttled,
            tuple(
                Upgrade(UpgradeStep(one["step"]), one["layer"], one["expert"], tuple(one["replicas"]))
                for one in upgrades
            ),
        )
        record.add(batch, layer, decision)
    for window, actions in data["windows"]:
        record.add_window(window, tuple(_action_from_json(a) for a in actions))
    return record


def _action_to_json(action: RoutedAction) -> dict[str, Any]:
    fields = asdict(action)
    if isinstance(action, ResidencyAction):
        fields["kind"] = action.kind.value
    return {"type": type(action).__name__, **fields}


def _action_from_json(data: Mapping[str, Any]) -> Any:
    fields = {name: value for name, value in data.items() if name != "type"}
    if data["type"] == "ResidencyAction":
        return ResidencyAction(**{**fields, "kind": ActionKind(fields["kind"])})
    return {"PreBroadcast": PreBroadcast, "Prefetch": Prefetch, "Revoke": Revoke}[data["type"]](**fields)


def _outcome_to_json(outcome: Outcome) -> list[Any]:
    return [_action_to_json(outcome.action), outcome.status, outcome.reason]


def _outcome_from_json(data: list[Any]) -> Outcome:
    return Outcome(_action_from_json(data[0]), data[1], data[2])
