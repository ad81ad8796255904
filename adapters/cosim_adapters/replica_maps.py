"""Placements as the serving engines take them: physical slots of every rank, so that what was simulated can be served.

All of them number physical experts rank by rank, the same number of slots on every rank:

    SGLang        `--init-expert-location FILE`: JSON {"physical_to_logical_map": [layer][physical]}
    TensorRT-LLM  `moe_load_balancer.yaml`: num_slots, initial_global_assignments {layer: [expert per slot]},
                  layer_updates_per_iter
    EPLB          phy2log [layer, physical], log2phy [layer, expert, replica] padded with -1, logcnt [layer, expert],
                  the arrays of `rebalance_experts` (github.com/deepseek-ai/EPLB)
    vLLM          physical_to_logical_map, logical_to_physical_map (padded with -1), logical_replica_count, the
                  tensors of `EplbState`
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from cosim.config.errors import ConfigError, ConfigErrors, did_you_mean, one_of
from cosim.policy.directory import Placement
from cosim.trace.jsondoc import read_json
from cosim.trace.limits import ReadLimits
from cosim.trace.problems import TraceError

__all__ = ["FORMS", "eplb_arrays", "read_map", "slot_map", "write_map"]

FILLS = ("refuse", "repeat")


def slot_map(
    placement: Placement, chiplets: Sequence[int], *, layers: int, experts: int, fill: str = "refuse"
) -> NDArray[np.int32]:
    """Logical expert of every physical slot, `[layer, physical]`; rank r is `chiplets[r]`.

    Args:
        placement: the replicas.
        chiplets: endpoints that compute, in the order of the engine's ranks.
        layers: MoE layers of the model.
        experts: experts per layer.
        fill: engines give every rank the same number of slots. `refuse`: ranks that hold different numbers are an
            error; `repeat`: a shorter rank's spare slots hold its own experts again, in order.

    Raises:
        ConfigErrors: a replica on an endpoint that is no rank, an expert without a replica, uneven ranks.
    """
    if fill not in FILLS:
        raise ConfigErrors.single(one_of(FILLS), repr(fill), path="fill", suggestion=did_you_mean(fill, FILLS))
    findings: list[ConfigError] = []

    def note(path: str, expected: str, got: str) -> None:
        findings.append(ConfigError(None, None, None, path, expected, got))

    rank = {chiplet: number for number, chiplet in enumerate(chiplets)}
    held: list[list[list[int]]] = [[[] for _ in chiplets] for _ in range(layers)]
    for replica in placement.replicas:
        where = f"replica of layer {replica.layer}, expert {replica.expert}"
        if not 0 <= replica.layer < layers or not 0 <= replica.expert < experts:
            note(where, f"a layer below {layers} and an expert below {experts}", "others")
        elif replica.chiplet not in rank:
            note(where, f"a rank's endpoint ({', '.join(map(str, chiplets))})", str(replica.chiplet))
        else:
            held[replica.layer][rank[replica.chiplet]].append(replica.expert)
    slots = max((len(mine) for layer in held for mine in layer), default=0)
    for number, layer in enumerate(held):
        lacking = sorted(set(range(experts)) - {expert for mine in layer for expert in mine})
        if lacking:
            note(f"layer {number}", "a replica of every expert", f"none of {', '.join(map(str, lacking[:8]))}")
        for place, mine in enumerate(layer):
            if len(mine) < slots and (fill == "refuse" or not mine):
                note(
                    f"layer {number}, rank {place}",
                    f"{slots} replicas, as on the fullest rank (fill='repeat' repeats a rank's own experts)",
                    str(len(mine)),
                )
    if findings:
        raise ConfigErrors(findings)
    table = np.empty((layers, len(chiplets) * slots), dtype=np.int32)
    for number, layer in enumerate(held):
        filled = [[mine[slot % len(mine)] for slot in range(slots)] for mine in layer]
        table[number] = [expert for mine in filled for expert in mine]
    return table


def eplb_arrays(table: NDArray[np.int32], experts: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(log2phy `[layer, expert, replica]` padded with -1, logcnt `[layer, expert]`) of a map `[layer, physical]`."""
    layers = table.shape[0]
    counts = np.stack([np.bincount(table[layer], minlength=experts) for layer in range(layers)]).astype(np.int32)
    places = np.full((layers, experts, int(counts.max())), -1, dtype=np.int32)
    for layer in range(layers):
        used = np.zeros(experts, dtype=np.int64)
        for physical, expert in enumerate(table[layer].tolist()):
            places[layer, expert, used[expert]] = physical
            used[expert] += 1
    return places, counts


def write_map(
    path: Path, form: str, table: NDArray[np.int32], *, experts: int, layer_map: Sequence[int] | None = None
) -> None:
    """Writes a map `[layer, physical]` for an engine.

    Args:
        path: the file.
        form: one of `FORMS`.
        table: logical expert of every physical slot.
        experts: experts per layer.
        layer_map: decoder layer of each MoE layer (TensorRT-LLM counts decoder layers); 0, 1, … when None. SGLang wants
            a row for every decoder layer: those that are no MoE layers get experts in order.

    Raises:
        ConfigErrors: an unknown form, or a slot outside the experts.
    """
    if form not in FORMS:
        raise ConfigErrors.single(one_of(list(FORMS)), repr(form), path="form", suggestion=did_you_mean(form, FORMS))
    if table.ndim != 2 or table.size == 0 or int(table.min()) < 0 or int(table.max()) >= experts:
        raise ConfigErrors.single(
            f"experts 0 to {experts - 1} in [layer, physical]", str(list(table.shape)), path="table"
        )
    layers = list(range(table.shape[0])) if layer_map is None else [int(layer) for layer in layer_map]
    if len(layers) != table.shape[0]:
        raise ConfigErrors.single(f"{table.shape[0]} layers", str(len(layers)), path="layer_map")
    partial = path.with_name(path.name + ".partial")
    try:
        FORMS[form](partial, table, experts, layers)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _write_sglang(path: Path, table: NDArray[np.int32], experts: int, layers: list[int]) -> None:
    rows = np.tile(np.arange(table.shape[1], dtype=np.int32) % experts, (layers[-1] + 1, 1))
    rows[layers] = table
    path.write_text(json.dumps({"physical_to_logical_map": rows.tolist()}) + "\n")


def _write_trtllm(path: Path, table: NDArray[np.int32], experts: int, layers: list[int]) -> None:
    document = {
        "num_slots": int(table.shape[1]),
        "initial_global_assignments": {layer: row.tolist() for layer, row in zip(layers, table, strict=True)},
        "layer_updates_per_iter": 0,
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120))


def _write_eplb(path: Path, table: NDArray[np.int32], experts: int, layers: list[int]) -> None:
    places, counts = eplb_arrays(table, experts)
    with path.open("wb") as stream:
        np.savez(stream, phy2log=table, log2phy=places, logcnt=counts)


def _write_vllm(path: Path, table: NDArray[np.int32], experts: int, layers: list[int]) -> None:
    places, counts = eplb_arrays(table, experts)
    with path.open("wb") as stream:
        np.savez(
            stream,
            physical_to_logical_map=table.astype(np.int64),
            logical_to_physical_map=places.astype(np.int64),
            logical_replica_count=counts.astype(np.int64),
        )


FORMS: Mapping[str, Any] = {
    "sglang": _write_sglang,
    "trtllm": _write_trtllm,
    "eplb": _write_eplb,
    "vllm": _write_vllm,
}
"""Name of a form → its writer."""


def read_map(path: Path) -> tuple[NDArray[np.int32], list[int]]:
    """(map `[layer, physical]`, decoder layer of each row) of a file in any of the forms.

    Raises:
        TraceError: when it is in none of them.
    """
    source = str(path)
    with path.open("rb") as stream:
        head = stream.read(64)
    layers: list[int] | None = None
    if head.startswith(b"PK"):
        with np.load(path, allow_pickle=False) as held:
            names = [name for name in ("phy2log", "physical_to_logical_map") if name in held]
            if not names:
                raise TraceError(source, ["no array phy2log or physical_to_logical_map"])
            table = held[names[0]]
    elif head.lstrip().startswith(b"{"):
        document = read_json(path, ReadLimits())
        table = _table(source, document.get("physical_to_logical_map") if isinstance(document, dict) else None)
    else:
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise TraceError(source, [f"not YAML: {' '.join(str(error).split())[:120]}"]) from error
        rows = document.get("initial_global_assignments") if isinstance(document, dict) else None
        if not isinstance(rows, dict) or not all(type(layer) is int for layer in rows):
            raise TraceError(source, ["no initial_global_assignments {layer: [expert per slot]}"])
        layers = sorted(rows)
        table = _table(source, [rows[layer] for layer in layers])
        if document.get("num_slots") != table.shape[1]:
            raise TraceError(
                source, [f"num_slots is {document.get('num_slots')}, the rows have {table.shape[1]} slots"]
            )
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise TraceError(source, [f"expected integers [layer, physical], got {table.dtype} {list(table.shape)}"])
    return table.astype(np.int32), list(range(table.shape[0])) if layers is None else layers


def _table(source: str, value: Any) -> NDArray[Any]:
    try:
        return np.array(value)
    except ValueError as error:
        raise TraceError(source, ["rows of different lengths"]) from error
