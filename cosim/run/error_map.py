"""How wrong the cheap models of communication are, over load and message size: Eq. 2 and reserved links against flits.

The same batches at every point: so many tokens are drawn from the evaluate part of an experiment's trace, and a token's
partial sums are given so many bytes. One pass of a layer's transfers runs from an empty network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cosim.config.errors import ConfigErrors
from cosim.placement.activation import activation
from cosim.run.layer_pass import PassCases, PassSystem, hosted_experts, one_pass

__all__ = ["MODELS", "ErrorMapOptions", "errors", "simulate"]

MODELS = {"node_traffic": "Eq. 2", "link": "reserved links"}
"""Column stem of a cheap model → its name."""


@dataclass(frozen=True)
class ErrorMapOptions:
    """tokens: of a batch. token_bytes: partial sums of a token and group, the size of its messages. batches: at every
    point. seed: of all draws; the same batches for every policy, system and size."""

    tokens: tuple[int, ...] = (8, 32, 128, 512)
    token_bytes: tuple[int, ...] = (64, 256, 1024, 4096)
    batches: int = 2
    seed: int = 1


def simulate(
    cases: PassCases,
    options: ErrorMapOptions,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """A row per system, policy, tokens, token_bytes and batch: layer, collective, messages, sent_bytes,
    node_traffic_s (Eq. 2), link_s and flit_s, each of one pass.

    Raises:
        ConfigErrors: no rows to draw from, fewer than a batch has, a count or size below one.
    """
    setup, systems, policies = cases.setup, cases.systems, cases.policies
    rows = np.asarray(setup.parts.evaluate)
    if len(rows) < max(options.tokens):
        raise ConfigErrors.single(
            f"an evaluate part of at least {max(options.tokens)} rows", f"{len(rows)} rows", path="trace.evaluate"
        )
    if min(*options.tokens, *options.token_bytes, options.batches) < 1:
        raise ConfigErrors.single("at least one token, byte and batch", "fewer", path="tokens")
    found: list[dict[str, object]] = []
    points = [(tokens, size) for tokens in options.tokens for size in options.token_bytes]
    done, total = 0, len(systems) * len(policies) * len(points) * options.batches
    for name, system in systems:
        on = PassSystem.of(system)
        for label, policy in policies:
            hosted = hosted_experts(policy, setup, system)
            for tokens, size in points:
                draws = np.random.default_rng([options.seed, tokens])
                for number in range(options.batches):
                    layer = setup.layers[number % len(setup.layers)]
                    picked = draws.choice(rows, tokens, replace=False)
                    batch = activation(setup.trace.ids[picked, layer], setup.model.experts)
                    row: dict[str, object] = {
                        "system": name,
                        "policy": label,
                        "tokens": tokens,
                        "token_bytes": size,
                        "batch": number,
                        "layer": layer,
                    }
                    found.append(row | one_pass(on, hosted[layer], batch, tokens, size))
                    done += 1
                    if progress is not None:
                        progress(done, total)
    frame: pd.DataFrame = pd.DataFrame(found)
    return frame


def errors(passes: pd.DataFrame) -> pd.DataFrame:
    """Per system, policy, tokens and token_bytes: mean flit_s, and (sum of the model - sum of flit) / sum of flit of
    each of :data:`MODELS`, as ``<model>_error``."""
    keys = ["system", "policy", "tokens", "token_bytes"]
    sums = passes.groupby(keys, sort=False)[[*(f"{model}_s" for model in MODELS), "flit_s"]].sum()
    for model in MODELS:
        sums[f"{model}_error"] = sums[f"{model}_s"] / sums["flit_s"] - 1
    sums["flit_s"] = passes.groupby(keys, sort=False)["flit_s"].mean()
    frame: pd.DataFrame = sums[["flit_s", *(f"{model}_error" for model in MODELS)]].reset_index()
    return frame
