"""Batchers: which tokens go together, and why another mode is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.trace import RoutingTrace, TraceError
from cosim.workload import batches, resolve_parts, select_rows, servable_modes

EVALUATE = {"requests": "64-127"}


def refusal(trace: RoutingTrace, **arguments: Any) -> str:
    with pytest.raises(TraceError) as caught:
        batches(trace, **{"mode": "decode", "batch_tokens": 4, "n_batches": 1, "seed": 1, **arguments})
    return str(caught.value)


def test_decode_takes_one_token_of_each_request_in_order(sample: RoutingTrace) -> None:
    made = batches(sample, "decode", 32, 100, 1, EVALUATE)
    assert len(made) == 100
    seen: dict[int, list[int]] = {}
    for batch in made:
        assert batch.phase == "decode"
        assert batch.request is not None
        assert batch.position is not None
        assert len(set(batch.request.tolist())) == 32
        assert 64 <= batch.request.min() <= batch.request.max() <= 127
        for request, position in zip(batch.request.tolist(), batch.position.tolist(), strict=True):
            seen.setdefault(request, []).append(position)
    assert all(positions == list(range(32, 32 + len(positions))) for positions in seen.values())
    # 96 decode positions each: batch 97 is the first with 32 new requests
    assert len(seen) == 64
    assert made[96].position is not None
    assert set(made[96].position.tolist()) == {32}


def test_prefill_packs_whole_prompts(sample: RoutingTrace) -> None:
    made = batches(sample, "prefill", 100, 8, 3, EVALUATE)
    requests: list[int] = []
    for batch in made:
        assert batch.request is not None
        assert batch.position is not None
        assert batch.tokens.size == 96  # three prompts of 32, a fourth does not fit
        assert batch.position.tolist() == list(range(32)) * 3
        requests += batch.request[::32].tolist()
    assert len(set(requests)) == 24


@given(batch_tokens=st.integers(1, 40), chunk=st.integers(1, 40), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_chunked_prefill_cuts_and_goes_on(sample: RoutingTrace, batch_tokens: int, chunk: int, seed: int) -> None:
    made = batches(sample, "prefill", batch_tokens, 8, seed, EVALUATE, chunk_tokens=chunk)
    progress: dict[int, int] = {}
    for batch in made:
        assert batch.tokens.size == batch_tokens
        assert batch.request is not None
        assert batch.position is not None
        counts = np.unique(batch.request, return_counts=True)[1]
        assert counts.max() <= chunk
        for request, position in zip(batch.request.tolist(), batch.position.tolist(), strict=True):
            assert position == progress.get(request, 0)
            progress[request] = position + 1
    # a prompt is begun only when those before it are finished or have had their share of the batch
    open_prompts = [request for request, done in progress.items() if done < 32]
    assert len(open_prompts) <= -(-batch_tokens // chunk)


@given(
    mode=st.sampled_from(["random", "sequential"]),
    size=st.integers(1, 50),
    count=st.integers(1, 20),
    seed=st.integers(0, 2**64 - 1),
)
@settings(deadline=None, max_examples=40)
def test_random_and_sequential_never_repeat(sample: RoutingTrace, mode: str, size: int, count: int, seed: int) -> None:
    made = batches(sample, mode, size, count, seed, EVALUATE)
    tokens = np.concatenate([batch.tokens for batch in made])
    assert [batch.tokens.size for batch in made] == [size] * count
    assert np.unique(tokens).size == tokens.size
    assert tokens.min() >= 64 * 128
    if mode == "sequential":
        assert np.all(np.diff(tokens) == 1)


@pytest.mark.parametrize("mode", ["decode", "prefill", "random", "sequential"])
def test_seed_decides_and_nothing_else(sample: RoutingTrace, mode: str) -> None:
    def tokens(seed: int) -> list[list[int]]:
        return [batch.tokens.tolist() for batch in batches(sample, mode, 32, 4, seed)]

    assert tokens(1) == tokens(1)
    assert tokens(1) != tokens(2)


def test_batches_are_these(sample: RoutingTrace) -> None:
    """Golden: made by this code at its first release; a change breaks every recorded experiment."""
    first = {
        mode: batches(sample, mode, 32, 1, 1)[0].tokens[:4].tolist() for mode in ("decode", "random", "sequential")
    }
    assert first == GOLDEN_FIRST_TOKENS


GOLDEN_FIRST_TOKENS = {
    "decode": [11552, 7712, 2848, 10784],
    "random": [9295, 6421, 12402, 15440],
    "sequential": [2584, 2585, 2586, 2587],
}


def test_a_trace_says_what_it_can_serve(sample: RoutingTrace, make_trace: Callable[..., RoutingTrace]) -> None:
    assert set(servable_modes(sample).values()) == {None}
    flat = dataclasses.replace(make_trace(scores=False), request=None, position=None, phase=None)
    assert "keeps no request boundaries" in refusal(flat)
    assert "it can serve random, sequential" in refusal(flat, mode="prefill")
    assert len(batches(flat, "random", 4, 2, 1)) == 2
    unknown = dataclasses.replace(make_trace(scores=False), phase=None)
    assert servable_modes(unknown)["decode"] is None
    assert "which rows are prompt tokens" in refusal(unknown, mode="prefill")
    tokens = unknown.tokens
    decode_only = dataclasses.replace(unknown, phase=np.ones(tokens, np.uint8))
    assert "no prefill rows: its prompts were not recorded" in refusal(decode_only, mode="prefill")
    prompts_only = dataclasses.replace(unknown, phase=np.zeros(tokens, np.uint8))
    assert "no decode rows" in refusal(prompts_only)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"mode": "decod"}, "expected one of decode, prefill, random, sequential, got 'decod', did you mean 'decode'?"),
        ({"batch_tokens": 0, "n_batches": 0}, "n_batches: expected at least 1, got 0"),
        ({"chunk_tokens": 4}, "chunk_tokens: only prefill reads it"),
        ({"batch_tokens": 65, "part": EVALUATE}, "batch_tokens is 65, but this part has 64 requests"),
        ({"batch_tokens": 64, "n_batches": 97, "part": EVALUATE}, "after 96 a request ends and all 64"),
        ({"mode": "prefill", "batch_tokens": 31}, "a prompt of 32 tokens does not fit batch_tokens 31"),
        (
            {"mode": "prefill", "batch_tokens": 32, "n_batches": 65, "part": EVALUATE},
            "the 64 prompts of this part fill 64",
        ),
        ({"mode": "random", "n_batches": 4097}, "need 16388 rows, this part has 16384: at most 4096 batches"),
        ({"part": {"rows": "0-31"}}, "this part has no decode rows"),
        ({"part": {"request": 3}}, "got 'request', did you mean 'requests'?"),
        ({"part": {"requests": "0-128"}}, "1 of the requests 0-128 are not in the trace, which has 128 requests"),
        ({"part": {"requests": "9-3"}}, "expected a number or a range like 0-63, got '9-3'"),
        ({"part": {"requests": []}}, "expected a number or a range"),
        ({"part": {"positions": "0-128"}}, "the trace has positions 0-127"),
        ({"part": {"requests": "3", "position": 3}}, "expected all or one of requests, positions"),
        ({"part": {"rows": "5-99999"}}, "the trace has rows 0-16383"),
        ({"part": {"time": "0.5-0.2"}}, "expected shares like 0-0.5"),
        ({"part": {"time": "0-0.00001"}}, "selects nothing of 16384 rows"),
        ({"part": "everything"}, "expected all or one of requests, positions, rows, time, fraction"),
        ({"part": 1.5}, "expected shares"),
    ],
)
def test_refusals(sample: RoutingTrace, arguments: dict[str, Any], expected: str) -> None:
    assert expected in refusal(sample, **arguments)


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("all", 16384),
        ({"requests": "0-63"}, 8192),
        ({"requests": [0, "5-6"]}, 384),
        ({"requests": 7}, 128),
        ({"requests": "3,0-1"}, 384),
        ({"rows": "0-9"}, 10),
        ({"positions": "0-15"}, 128 * 16),
        ({"requests": "0-63", "positions": "0-15,20"}, 64 * 17),
        ({"time": "0.25-0.5"}, 4096),
        ({"time": [0, 0.001]}, 16),
        ({"fraction": "0-0.1"}, 12 * 128),
        (0.5, 8192),
    ],
)
def test_selectors(sample: RoutingTrace, selector: Any, count: int) -> None:
    rows = select_rows(sample, selector)
    assert rows.size == count
    assert np.all(np.diff(rows) > 0)


def test_parts_do_not_overlap_unless_oracle(sample: RoutingTrace) -> None:
    parts = resolve_parts(sample, {"requests": "0-63"}, EVALUATE)
    assert (parts.profile.size, parts.evaluate.size, parts.oracle) == (8192, 8192, False)
    with pytest.raises(TraceError, match=r"share 128 rows \(first: row 8192 of request 64\)"):
        resolve_parts(sample, {"requests": "0-64"}, EVALUATE)
    assert resolve_parts(sample, "none", EVALUATE).profile.size == 0
    oracle = resolve_parts(sample, "oracle", EVALUATE)
    assert oracle.oracle
    assert np.array_equal(oracle.profile, oracle.evaluate)
