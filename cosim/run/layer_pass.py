"""One pass of a layer's communication under a placement: Eq. 2's node traffic, reserved links, and flits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cosim.analytic.hda_moe_equations import node_tokens, node_traffic_time_s
from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.placement.activation import Activation
from cosim.placement.traffic import layer_transfers
from cosim.policy.registry import make_policy
from cosim.run.communication import NETWORKS, messages_fs, ring_all_reduce_fs
from cosim.run.placing import system_links
from cosim.workload.collectives import ring_order

if TYPE_CHECKING:
    from cosim.link.topology import LinkTopology
    from cosim.policy.base import Policy
    from cosim.run.setup import Setup
    from cosim.system import System

__all__ = ["PassCases", "PassSystem", "hosted_experts", "one_pass"]

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PassSystem:
    """A system with its link topology, a ring through its compute endpoints, and the bandwidth of a node's ports."""

    system: System
    links: LinkTopology
    ring: IntArray
    bandwidth_Bps: float

    @classmethod
    def of(cls, system: System) -> PassSystem:
        """Of a built system."""
        links = system_links(system)
        places = system.compute_endpoints
        bandwidth = min(system.network_of(place).link_bandwidth_Bps * place.spec.ports for place in places)
        return cls(system, links, ring_order(links.hops), float(bandwidth))


@dataclass(frozen=True, eq=False)
class PassCases:
    """What passes are simulated for: an experiment's trace, systems by name and placing policies by title."""

    setup: Setup
    systems: Sequence[tuple[str, System]]
    policies: Sequence[tuple[str, Policy]]

    @property
    def title(self) -> str:
        """Model and trace."""
        return f"{self.setup.model.name}, trace {self.setup.spec.trace.title}"

    @classmethod
    def of(cls, setup: Setup, systems: Sequence[tuple[str, System]], chosen: Sequence[str], *, path: str) -> PassCases:
        """The policies of the experiment whose titles are chosen, all of them if none is.

        Raises:
            ConfigErrors: a title that no policy has, at ``path``.
        """
        known = [item.title for item in setup.spec.policies]
        unknown = [title for title in chosen if title not in known]
        if unknown:
            raise ConfigErrors.single(
                one_of(known), repr(unknown[0]), path=path, suggestion=did_you_mean(unknown[0], known)
            )
        wanted = [item for item in setup.spec.policies if not chosen or item.title in chosen]
        return cls(setup, systems, [(item.title, make_policy(item.name, item.params)) for item in wanted])


def hosted_experts(policy: Policy, setup: Setup, system: System) -> BoolArray:
    """Which compute endpoint holds some of which expert, shape (MoE layers, experts, compute endpoints)."""
    model = setup.model
    number = {place.index: at for at, place in enumerate(system.compute_endpoints)}
    hosted = np.zeros((model.moe_layers, model.experts, len(number)), dtype=bool)
    seen = set()
    for replica in policy.place(system, model, setup.profile).replicas:
        if (replica.layer, replica.expert) in seen:
            continue  # Eq. 2 knows one replica of an expert: its home
        seen.add((replica.layer, replica.expert))
        for chiplet in [part.chiplet for part in replica.parts] or [replica.chiplet]:
            hosted[replica.layer, replica.expert, number[chiplet]] = True
    return hosted


def one_pass(on: PassSystem, held: BoolArray, batch: Activation, tokens: int, token_bytes: int) -> dict[str, object]:
    """The transfers of Algorithm 1 from an empty network; half of a ring all-reduce where every node holds all.

    Args:
        held: which node holds some of which expert, shape (experts, nodes).
        batch: frequencies of the batch's groups; tokens: in it; token_bytes: partial sums of one token.

    Returns: collective (``transfers`` or ``ring all-reduce``), messages, sent_bytes, node_traffic_s (Eq. 2), link_s and
        flit_s.
    """
    system, ring = on.system, on.ring
    counts = batch.group * tokens
    row: dict[str, object]
    if bool(held.all()):
        size, steps = tokens * token_bytes, 2 * (len(ring) - 1)
        row = {"collective": "ring all-reduce", "messages": steps * len(ring), "sent_bytes": steps * size}
        times = {net: ring_all_reduce_fs(system, net, size, ring) / 2 for net in NETWORKS}
    else:
        nodes = np.arange(held.shape[1], dtype=np.int64)
        sent = layer_transfers(held, batch.groups, counts * token_bytes, nodes, on.links.hops)
        row = {"collective": "transfers", "messages": len(sent.source), "sent_bytes": int(sent.size_bytes.sum())}
        times = {net: messages_fs(system, net, sent.source, sent.destination, sent.size_bytes) for net in NETWORKS}
    touched = node_tokens(held, batch.groups, counts)
    row["node_traffic_s"] = node_traffic_time_s(touched, 1, float(token_bytes), on.bandwidth_Bps)
    return row | {f"{net}_s": fs * 1e-15 for net, fs in times.items()}
