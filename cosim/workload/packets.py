"""MoE routing as packets, for a network by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.workload.groups import token_groups, token_homes
from cosim.workload.legs import legs_of, returned_bytes

if TYPE_CHECKING:
    from cosim.config.schema_model import ModelSpec
    from cosim.policy.base import Profile
    from cosim.system import System
    from cosim.trace import RoutingTrace

__all__ = ["layer_messages", "packets"]

_PHASES = ("dispatch", "gather")


def packets(
    trace: RoutingTrace,
    model: str | Mapping[str, Any] | ModelSpec,
    system: str | os.PathLike[str] | Mapping[str, Any] | System,
    placement: str | Mapping[str, Any] = "static",
    layer: int = 0,
    *,
    phase: str = "dispatch",
    tokens: npt.NDArray[np.int64] | None = None,
    create_cycle: int = 0,
) -> pd.DataFrame:
    """The packets of one MoE layer: tokens to the chiplets of their experts, or results back.

    Token i of the batch waits at chiplet i modulo the number of chiplets. Tokens of one chiplet for one expert travel
    as one message, cut into packets of at most the level's max_packet_flits with a header each; tokens whose expert is
    at their own chiplet are not sent. Without a profile, a policy that copies hot experts sees the trace itself.

    Args:
        trace: the routing.
        model: a shipped name, a path, a mapping or a ``ModelSpec``; its hidden size gives the bytes.
        system: a shipped name, a path, a mapping or a ``System``.
        placement: a policy's name, or ``{"name": ..., "params": {...}}``; it places and assigns the replicas.
        layer: MoE layer.
        phase: ``dispatch`` or ``gather``.
        tokens: rows of the trace that make the batch; all of them if not given.
        create_cycle: when the packets are handed to their sources.

    Returns:
        create_cycle, src, dst (routers), size_flits, one row per packet, rows of a source in the order in which they
        leave; as ``noc.Network.run_packets`` takes them on a network of one node per router.

    Raises:
        ConfigErrors or another ValueError: unknown names, a layer the trace does not have, ids outside the model.
    """
    sent, built = _messages(trace, model, system, placement, layer, phase, tokens, None)
    if len(built.networks) > 1:
        raise ConfigErrors.single(
            "a system of one network: these packets are for one", f"{len(built.networks)} networks", path="system"
        )
    routers = np.array([place.router for place in built.endpoints], dtype=np.int64)
    ends = (routers[sent["source"].to_numpy()], routers[sent["destination"].to_numpy()])
    return _cut(*ends, sent["bytes"].to_numpy(), built, create_cycle)


def layer_messages(
    trace: RoutingTrace,
    model: str | Mapping[str, Any] | ModelSpec,
    system: str | os.PathLike[str] | Mapping[str, Any] | System,
    placement: str | Mapping[str, Any] = "static",
    layer: int = 0,
    *,
    phase: str = "dispatch",
    tokens: npt.NDArray[np.int64] | None = None,
    profile: Profile | None = None,
) -> pd.DataFrame:
    """The messages of one MoE layer, whole: as `packets`, which cuts them.

    Args:
        profile: what the policy has learnt; without it the policy sees the batch itself.

    Returns:
        source, destination (endpoints of the system, different ones), bytes; one row per message.

    Raises:
        ConfigErrors or another ValueError: as `packets`.
    """
    sent, _ = _messages(trace, model, system, placement, layer, phase, tokens, profile)
    travels: pd.DataFrame = sent[sent["source"] != sent["destination"]].reset_index(drop=True)
    return travels


def _messages(
    trace: RoutingTrace,
    model: str | Mapping[str, Any] | ModelSpec,
    system: str | os.PathLike[str] | Mapping[str, Any] | System,
    placement: str | Mapping[str, Any],
    layer: int,
    phase: str,
    tokens: npt.NDArray[np.int64] | None,
    profile: Profile | None,
) -> tuple[pd.DataFrame, System]:
    from cosim.policy.base import Pressure, Profile
    from cosim.policy.registry import make_policy
    from cosim.policy.residency import Residency
    from cosim.system import System, load_system
    from cosim.system.models import model as find_model

    if phase not in _PHASES:
        raise ConfigErrors.single(one_of(_PHASES), repr(phase), path="phase", suggestion=did_you_mean(phase, _PHASES))
    dimensions = find_model(model)
    built = system if isinstance(system, System) else load_system(_reference(system))
    trace.check_model(experts=dimensions.experts)
    if not 0 <= layer < min(trace.layers, dimensions.moe_layers):
        last = min(trace.layers, dimensions.moe_layers) - 1
        raise ConfigErrors.single(f"a MoE layer from 0 to {last}", str(layer), path="layer")
    rows = np.arange(trace.tokens) if tokens is None else np.asarray(tokens)
    ids = trace.ids[rows]
    named: dict[str, Any] = {"name": placement} if isinstance(placement, str) else dict(placement)
    params = named.get("params", {})
    assert isinstance(params, Mapping)
    policy = make_policy(str(named.get("name")), params, path="placement")
    if profile is None:
        counts = np.zeros((dimensions.moe_layers, dimensions.experts), dtype=np.int64)
        for number in range(min(trace.layers, dimensions.moe_layers)):
            here = ids[:, number, :]
            counts[number] = np.bincount(here[here >= 0], minlength=dimensions.experts)
        nothing = np.zeros((0, dimensions.experts, dimensions.experts), dtype=np.int64)
        profile = Profile(counts, nothing, len(rows))
    residency = Residency(
        built,
        dimensions,
        policy.place(built, dimensions, profile),
        expert_bytes=dimensions.expert_bytes,
        alignment_bytes=1,
        layers=[layer],
        max_replicas=policy.max_replicas,
        budget_bytes=int(policy.replica_budget * dimensions.layer_expert_bytes),
    )
    chiplets = np.array([place.index for place in built.compute_endpoints], dtype=np.int32)
    groups = token_groups(ids[:, layer], token_homes(len(rows), chiplets), layer, dimensions.activation_bytes)
    directory = residency.directory()
    endpoints = len(built.endpoints)
    idle = Pressure(
        np.zeros(endpoints), np.zeros(len(built.links)), np.zeros(endpoints), residency.tier_used(endpoints), 0
    )
    legs, rows_of_legs = legs_of(policy.assign(groups, directory, idle), directory)
    groups, replicas = groups[legs], directory.rows[rows_of_legs]
    target = replicas["chiplet"]
    sizes = groups["bytes"]
    if phase == "gather":
        sizes = returned_bytes(groups, replicas, dimensions, policy.partial_sum_bytes)
    ends = (groups["source"], target) if phase == "dispatch" else (target, groups["aggregator"])
    columns = {"source": ends[0], "destination": ends[1], "bytes": sizes}
    return pd.DataFrame({name: values.astype(np.int64) for name, values in columns.items()}), built


def _cut(
    sources: npt.NDArray[np.int64],
    destinations: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    system: System,
    create_cycle: int,
) -> pd.DataFrame:
    (network,) = system.networks
    level = network.level
    payload = network.payload_bytes
    travels = np.flatnonzero(sources != destinations)
    travels = travels[np.argsort(sources[travels], kind="stable")]
    count = -(-sizes[travels] // payload)
    message = np.repeat(travels, count)
    place = np.arange(len(message)) - np.repeat(np.cumsum(count) - count, count)
    carried = np.minimum(payload, sizes[message] - place * payload)
    frame: pd.DataFrame = pd.DataFrame(
        {
            "create_cycle": np.full(len(message), create_cycle, dtype=np.int64),
            "src": sources[message],
            "dst": destinations[message],
            "size_flits": -(-(carried + level.header_bytes) // level.flit_width),
        }
    )
    return frame


def _reference(system: str | os.PathLike[str] | Mapping[str, Any]) -> str | Mapping[str, Any]:
    return system if isinstance(system, Mapping) else os.fspath(system)
