"""Every trap is found where it is and not where it is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosim.trace import RoutingTrace, traps, zipf_markov

MakeTrace = Callable[..., RoutingTrace]


def names(found: RoutingTrace) -> dict[str, str]:
    return {trap.name: trap.evidence for trap in traps.find(found)}


@pytest.fixture(scope="module")
def clean() -> RoutingTrace:
    return zipf_markov(
        layers=3, experts=16, top_k=2, requests=16, positions=64, alpha=0.5, rho=0.5, seed=1, prompt_tokens=8
    )


def changed(base: RoutingTrace, **arrays: Any) -> RoutingTrace:
    return dataclasses.replace(base, **arrays)


def test_clean_traces_have_none(clean: RoutingTrace, sample: RoutingTrace) -> None:
    assert names(clean) == {}
    assert names(sample) == {}


def test_warm_up_rows(clean: RoutingTrace) -> None:
    ids = clean.ids.copy()
    ids[:100] = ids[0]
    assert names(changed(clean, ids=ids))["warm-up or dummy rows"].startswith(
        "100 of 1024 rows lie in 1 runs of identical rows (all layers the same); the longest begins at row 0 and has"
    )


def test_one_layer_of_two_experts_repeats_by_chance() -> None:
    made = zipf_markov(layers=1, experts=2, top_k=1, requests=1, positions=4000, alpha=0.0, rho=0.0, seed=1)
    assert "warm-up or dummy rows" not in names(made)


def test_empty_rows_and_slots(clean: RoutingTrace) -> None:
    ids = clean.ids.copy()
    ids[5:9] = -1
    ids[20, 1, 1] = -1
    found = names(changed(clean, ids=ids))
    assert found["padding or prefix cache"] == "4 of 1024 rows are empty (-1) in every layer, first row 5"
    assert found["empty slots"] == "1 slots of rows that are not wholly empty hold -1"


def test_zero_filled_rows(clean: RoutingTrace) -> None:
    ids = clean.ids.copy()
    ids[7:10] = 0
    evidence = names(changed(clean, ids=ids))["repeated experts"]
    assert evidence.startswith("9 of 3072 (token, layer) rows name an expert twice, first row 7, layer 0")
    assert "3 rows hold one and the same id everywhere (row 7: 0)" in evidence


def test_constant_layer(clean: RoutingTrace) -> None:
    ids = clean.ids.copy()
    ids[:, 0] = [0, 1]
    assert names(changed(clean, ids=ids))["dense layers"].startswith("layer 0 of 3: every token has the same ids")


def test_layer_offset(clean: RoutingTrace) -> None:
    found = names(changed(clean, layer_map=np.array([1, 2, 5], np.int32)))
    assert found["dense-layer offset"] == "the decoder layers recorded are 1-2, 5; 0, 3-4 are not among them"


def test_gaps_and_late_starts(clean: RoutingTrace) -> None:
    rows = np.delete(np.arange(clean.tokens), [0, 1, 64 + 30])
    found = names(clean.take(rows))
    assert found["missing positions"] == "1 gaps; first: request 1 goes from position 29 to 31"
    assert found["prompts not recorded"] == "1 of 16 requests begin after position 0; first: request 0 at position 2"


def test_phases(clean: RoutingTrace) -> None:
    assert "phase not recorded" in names(changed(clean, phase=None))
    assert clean.phase is not None
    phase = clean.phase.copy()
    phase[40] = 0
    assert names(changed(clean, phase=phase))["prompt rows after decode rows"] == "1 times, first in request 0"


def test_sequence_first_rows(sample: RoutingTrace) -> None:
    flat = changed(sample.without_scores(), request=None, position=None, phase=None, domain=None, domains=())
    assert "sequence-first rows" not in names(flat)
    by_position = np.arange(sample.tokens).reshape(128, 128).T.reshape(-1)
    mixed = changed(flat, ids=flat.ids[by_position], weights=None)
    assert names(mixed)["sequence-first rows"].startswith("rows 128 apart share 0.3")
    wrongly_cut = changed(mixed, request=sample.request, position=sample.position, phase=sample.phase)
    assert "sequence-first rows" in names(wrongly_cut)


def test_interleaved_requests_are_no_trap_when_the_file_says_so(sample: RoutingTrace) -> None:
    by_position = np.arange(sample.tokens).reshape(128, 128).T.reshape(-1)
    assert sample.request is not None
    assert sample.position is not None
    assert sample.phase is not None
    assert sample.domain is not None
    interleaved = changed(
        sample.without_scores(),
        ids=sample.ids[by_position],
        weights=None,
        request=sample.request[by_position],
        position=sample.position[by_position],
        phase=sample.phase[by_position],
        domain=sample.domain[by_position],
    )
    assert names(interleaved) == {}


def test_double_counting(clean: RoutingTrace) -> None:
    half = clean.ids[:512]
    flat = changed(clean, ids=np.concatenate([half, half]), request=None, position=None, phase=None)
    assert names(flat)["data-parallel double counting"] == "the 1024 rows are 2 equal copies of 512 rows"


def test_weights(clean: RoutingTrace) -> None:
    weights = np.tile(np.array([0.7, 0.3], np.float32), (clean.tokens, clean.layers, 1))
    assert names(changed(clean, weights=weights)) == {}
    found = names(changed(clean, weights=weights * np.float32(0.43)))
    assert found["weights not normalised"].startswith(
        "in 3072 of 3072 (token, layer) rows the gate weights do not sum to 1 (mean 0.430, 0.430 to 0.430)"
    )
    swapped = weights.copy()
    swapped[3, 1] = [0.3, 0.7]
    found = names(changed(clean, weights=swapped))
    assert found == {"slots not in order of weight": "in 1 of 3072 (token, layer) rows a later slot weighs more"}


def test_experts_unstated(clean: RoutingTrace) -> None:
    assert "experts not stated" in names(changed(clean, experts_stated=False))
