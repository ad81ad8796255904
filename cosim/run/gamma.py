"""Eq. 3 of HDA-MoE put to the test: simulated communication over the node-traffic time, per system and placement.

Batches are drawn from the evaluate part of an experiment's trace, a layer's token groups are turned into the transfers
of Algorithm 1 under a policy's placement, and one pass is run over reserved links and over flits. Where every expert is
on every node the pass is half of a ring all-reduce (Eq. 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.analytic.hda_moe import PARTIAL_SUMS
from cosim.analytic.hda_moe_equations import GammaFit, fit_gamma, node_tokens, node_traffic_time_s
from cosim.config.errors import ConfigErrors
from cosim.placement.activation import activation
from cosim.placement.traffic import layer_transfers
from cosim.run.communication import NETWORKS, messages_fs, ring_all_reduce_fs, ring_order
from cosim.run.placing import system_links

if TYPE_CHECKING:
    from cosim.policy.base import Policy
    from cosim.run.setup import Setup
    from cosim.system import System

__all__ = ["GammaOptions", "GammaRow", "fits", "sample"]

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class GammaOptions:
    """What to draw.

    samples: batches per policy and system. tokens: of a batch, drawn between the two, both included. partial_sums:
    bytes of an element on the links, by name. seed: of all draws; the same batches for every policy and system.
    """

    samples: int = 40
    tokens: tuple[int, int] = (256, 638)  # as HD-MoE's published script draws them
    partial_sums: str = "FP32"
    seed: int = 1


@dataclass(frozen=True)
class GammaRow:
    """One regression: policy (placement family), system, network (``link`` or ``flit``), and the line through 0."""

    system: str
    policy: str
    network: str
    collective: str
    fit: GammaFit


def _hosted(policy: Policy, setup: Setup, system: System) -> BoolArray:
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


def sample(
    setup: Setup,
    systems: Sequence[tuple[str, System]],
    policies: Sequence[tuple[str, Policy]],
    options: GammaOptions,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Draws batches and simulates them.

    Returns: a frame with a row per system, policy and batch: layer, tokens, collective (``transfers`` or
    ``ring all-reduce``), messages, sent_bytes, node_traffic_s (Eq. 2), link_s and flit_s, each of one pass.

    Raises:
        ConfigErrors: a range of tokens that is none, fewer than three samples, or no rows to draw from.
    """
    low, high = options.tokens
    if not 1 <= low <= high:
        raise ConfigErrors.single("a range of tokens such as 256-638", f"{low}-{high}", path="tokens")
    if options.samples < 3:
        raise ConfigErrors.single("at least 3 samples", str(options.samples), path="samples")
    rows = np.asarray(setup.parts.evaluate)
    if not len(rows):
        raise ConfigErrors.single("an evaluate part to draw from", "no rows", path="trace.evaluate")
    token_bytes = setup.model.hidden * PARTIAL_SUMS[options.partial_sums]
    found: list[dict[str, object]] = []
    done, total = 0, len(systems) * len(policies) * options.samples
    for name, system in systems:
        links = system_links(system)
        ring = ring_order(links.hops)
        places = system.compute_endpoints
        bandwidth = float(min(system.network_of(place).link_bandwidth_Bps * place.spec.ports for place in places))
        for label, policy in policies:
            hosted = _hosted(policy, setup, system)
            draws = np.random.default_rng(options.seed)
            for number in range(options.samples):
                layer = setup.layers[number % len(setup.layers)]
                tokens = int(draws.integers(low, high + 1))
                batch = activation(setup.trace.ids[draws.choice(rows, tokens), layer], setup.model.experts)
                held = hosted[layer]
                counts = batch.group * tokens
                row: dict[str, object] = {"system": name, "policy": label, "layer": layer, "tokens": tokens}
                if bool(held.all()):
                    size = tokens * token_bytes
                    row |= {"collective": "ring all-reduce", "messages": 2 * (len(ring) - 1) * len(ring)}
                    row |= {"sent_bytes": 2 * (len(ring) - 1) * size}
                    times = {net: ring_all_reduce_fs(system, net, size, ring) / 2 for net in NETWORKS}
                else:
                    nodes = np.arange(len(places), dtype=np.int64)
                    sent = layer_transfers(held, batch.groups, counts * token_bytes, nodes, links.hops)
                    row |= {"collective": "transfers", "messages": len(sent.source)}
                    row |= {"sent_bytes": int(sent.size_bytes.sum())}
                    times = {
                        net: messages_fs(system, net, sent.source, sent.destination, sent.size_bytes)
                        for net in NETWORKS
                    }
                touched = node_tokens(held, batch.groups, counts)
                row["node_traffic_s"] = node_traffic_time_s(touched, setup.model.hidden, _bytes(options), bandwidth)
                found.append(row | {f"{net}_s": fs * 1e-15 for net, fs in times.items()})
                done += 1
                if progress is not None:
                    progress(done, total)
    frame: pd.DataFrame = pd.DataFrame(found)
    return frame


def _bytes(options: GammaOptions) -> float:
    return float(PARTIAL_SUMS[options.partial_sums])


def fits(samples: pd.DataFrame) -> list[GammaRow]:
    """Eq. 3 through the origin for each system, policy and network, in the order of the samples."""
    rows = []
    for (system, policy), group in samples.groupby(["system", "policy"], sort=False):
        for network in NETWORKS:
            fit = fit_gamma(group["node_traffic_s"].to_numpy(), group[f"{network}_s"].to_numpy())
            rows.append(GammaRow(str(system), str(policy), network, str(group["collective"].iloc[0]), fit))
    return rows
