"""Eq. 3 of HDA-MoE put to the test: simulated communication over the node-traffic time, per system and placement.

Batches are drawn from the evaluate part of an experiment's trace, a layer's token groups are turned into the transfers
of Algorithm 1 under a policy's placement, and one pass is run over reserved links and over flits. Where every expert is
on every node the pass is half of a ring all-reduce (Eq. 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.analytic.hda_moe import PARTIAL_SUMS
from cosim.analytic.hda_moe_equations import GammaFit, fit_gamma
from cosim.config.errors import ConfigErrors
from cosim.placement.activation import activation
from cosim.run.communication import NETWORKS
from cosim.run.layer_pass import PassCases, PassSystem, hosted_experts, one_pass

__all__ = ["GammaOptions", "GammaRow", "fits", "sample"]


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


def sample(
    cases: PassCases,
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
    setup, systems, policies = cases.setup, cases.systems, cases.policies
    rows = np.asarray(setup.parts.evaluate)
    if not len(rows):
        raise ConfigErrors.single("an evaluate part to draw from", "no rows", path="trace.evaluate")
    token_bytes = setup.model.hidden * PARTIAL_SUMS[options.partial_sums]
    found: list[dict[str, object]] = []
    done, total = 0, len(systems) * len(policies) * options.samples
    for name, system in systems:
        on = PassSystem.of(system)
        for label, policy in policies:
            hosted = hosted_experts(policy, setup, system)
            draws = np.random.default_rng(options.seed)
            for number in range(options.samples):
                layer = setup.layers[number % len(setup.layers)]
                tokens = int(draws.integers(low, high + 1))
                batch = activation(setup.trace.ids[draws.choice(rows, tokens), layer], setup.model.experts)
                row: dict[str, object] = {"system": name, "policy": label, "layer": layer, "tokens": tokens}
                found.append(row | one_pass(on, hosted[layer], batch, tokens, token_bytes))
                done += 1
                if progress is not None:
                    progress(done, total)
    frame: pd.DataFrame = pd.DataFrame(found)
    return frame


def fits(samples: pd.DataFrame) -> list[GammaRow]:
    """Eq. 3 through the origin for each system, policy and network, in the order of the samples."""
    rows = []
    for (system, policy), group in samples.groupby(["system", "policy"], sort=False):
        for network in NETWORKS:
            fit = fit_gamma(group["node_traffic_s"].to_numpy(), group[f"{network}_s"].to_numpy())
            rows.append(GammaRow(str(system), str(policy), network, str(group["collective"].iloc[0]), fit))
    return rows
