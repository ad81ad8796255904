"""What the tests of traces share: a small trace with every column, and its parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cosim import trace
from cosim.trace import RoutingTrace


def build_trace(
    requests: int = 3,
    positions: int = 5,
    layers: int = 2,
    experts: int = 8,
    top_k: int = 2,
    *,
    seed: int = 0,
    scores: bool = True,
) -> RoutingTrace:
    """A trace with every column; the first two positions of a request are its prompt."""
    generator = np.random.default_rng(seed)
    tokens = requests * positions
    ids = generator.permuted(np.tile(np.arange(experts), (tokens, layers, 1)), axis=2)[:, :, :top_k]
    weights = np.sort(generator.random((tokens, layers, top_k)), axis=2)[:, :, ::-1].astype(np.float32)
    position = np.tile(np.arange(positions), requests).astype(np.int32)
    scored = np.arange(1, tokens, 2, dtype=np.int64)
    return RoutingTrace(
        ids=ids.astype(np.int16),
        experts=experts,
        layer_map=(1 + 2 * np.arange(layers)).astype(np.int32),
        weights=weights,
        scores=generator.random((scored.size, layers, experts)).astype(np.float32) if scores else None,
        scores_token=scored if scores else None,
        request=np.repeat(np.arange(10, 10 + requests), positions).astype(np.int32),
        position=position,
        phase=(position >= 2).astype(np.uint8),
        domain=np.repeat(np.arange(requests) % 2, positions).astype(np.int16),
        domains=("code", "prose"),
        source="small",
    )


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., RoutingTrace]:
    return build_trace


@pytest.fixture
def small() -> RoutingTrace:
    return build_trace()


@pytest.fixture(scope="session")
def sample() -> RoutingTrace:
    return trace.load("sample")
