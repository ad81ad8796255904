"""A repair does what it says, says what it did, and is refused where there is nothing to repair."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosim import trace
from cosim.trace import Repairs, RoutingTrace, TraceError, traps, zipf_markov
from cosim.trace.repair import repaired


@pytest.fixture(scope="module")
def clean() -> RoutingTrace:
    return zipf_markov(
        layers=3, experts=16, top_k=2, requests=16, positions=64, alpha=0.5, rho=0.5, seed=1, prompt_tokens=8
    )


def changed(base: RoutingTrace, **arrays: Any) -> RoutingTrace:
    return dataclasses.replace(base, **arrays)


def names(found: RoutingTrace) -> set[str]:
    return {trap.name for trap in traps.find(found)}


def test_every_repair_has_a_flag() -> None:
    from cosim.cli.trace import inspect

    flags = {parameter.name for parameter in inspect.params}
    assert {entry.name for entry in dataclasses.fields(Repairs)} <= flags
    assert {"padding", "physical_map", *trace.options.SPECIAL} <= flags


def test_none_by_itself(clean: RoutingTrace) -> None:
    assert not Repairs()
    assert trace.same_trace(repaired(clean, Repairs()), clean)


@pytest.mark.parametrize("entry", dataclasses.fields(Repairs), ids=lambda entry: entry.name)
def test_nothing_to_repair_is_an_error(clean: RoutingTrace, entry: Any) -> None:
    value: Any = True if entry.default is False else (0, 1, 2) if entry.name == "moe_layers" else 0
    with pytest.raises(TraceError, match=f"{entry.name}: "):
        repaired(clean, Repairs(**{entry.name: value}))


def test_warm_up(clean: RoutingTrace) -> None:
    ids = clean.ids.copy()
    ids[100:200] = ids[100]
    flat = changed(clean, ids=ids, request=None, position=None, phase=None)
    fixed = repaired(flat, Repairs(drop_warm_up=True))
    assert fixed.tokens == clean.tokens - 100
    assert np.array_equal(fixed.ids, np.delete(ids, np.arange(100, 200), axis=0))
    assert fixed.repairs == ("drop_warm_up: left out 100 of 1024 rows, rows in long runs of identical rows",)
    assert "warm-up or dummy rows" in names(flat) - names(fixed)


def test_empty_rows_and_incomplete_requests(clean: RoutingTrace) -> None:
    ids = clean.ids.copy()
    ids[5:9] = -1
    holed = changed(clean, ids=ids)
    fixed = repaired(holed, Repairs(drop_empty_rows=True))
    assert fixed.tokens == clean.tokens - 4
    assert "missing positions" in names(fixed)
    whole = repaired(holed, Repairs(drop_empty_rows=True, drop_incomplete_requests=True))
    assert names(whole) == set()
    assert whole.requests is not None
    assert whole.requests.tolist() == list(range(1, 16))
    assert len(whole.repairs) == 2


def test_layers(clean: RoutingTrace) -> None:
    ids = clean.ids.copy()
    ids[:, 0] = -1
    dense = changed(clean, ids=ids)
    assert "dense layers" in names(dense)
    assert "empty slots" not in names(dense)
    fixed = repaired(dense, Repairs(moe_layers=(1, 2)))
    assert fixed.layer_map.tolist() == [1, 2]
    assert np.array_equal(fixed.ids, clean.ids[:, 1:])
    assert names(fixed) == {"dense-layer offset"}
    moved = repaired(clean, Repairs(first_moe_layer=3))
    assert moved.layer_map.tolist() == [3, 4, 5]
    with pytest.raises(TraceError, match="moe_layers: not a recorded layer: 7"):
        repaired(clean, Repairs(moe_layers=(1, 7)))


def test_slots(clean: RoutingTrace) -> None:
    wide = np.full((clean.tokens, 3, 8), -1, clean.ids.dtype)
    wide[:, :, :2] = clean.ids
    found = changed(clean, ids=wide)
    assert "no row uses slots 2-7 of 8" in next(t.evidence for t in traps.find(found) if t.name == "empty slots")
    assert np.array_equal(repaired(found, Repairs(drop_empty_slots=True)).ids, clean.ids)


def test_weights(clean: RoutingTrace) -> None:
    weights = np.tile(np.array([0.2, 0.3], np.float32), (clean.tokens, clean.layers, 1))
    found = changed(clean, weights=weights)
    assert names(found) == {"weights not normalised", "slots not in order of weight"}
    fixed = repaired(found, Repairs(sort_slots=True, normalise_weights=True))
    assert names(fixed) == set()
    assert fixed.weights is not None
    assert np.allclose(fixed.weights, [0.6, 0.4])
    assert np.array_equal(fixed.ids, clean.ids[:, :, ::-1])


def test_sequence_first(sample: RoutingTrace, tmp_path: Path) -> None:
    by_position = np.arange(sample.tokens).reshape(128, 128).T.reshape(-1)
    flat = changed(
        sample.without_scores(),
        ids=sample.ids[by_position],
        weights=None if sample.weights is None else sample.weights[by_position],
        request=None,
        position=None,
        phase=None,
        domain=None,
        domains=(),
    )
    assert "sequence-first rows" in names(flat)
    trace.save(flat, tmp_path / "t.npz")
    fixed = trace.load(tmp_path / "t.npz", repairs=Repairs(sequence_first=128), phase="prefill")
    assert np.array_equal(fixed.ids, sample.ids)
    assert np.array_equal(fixed.position, sample.position)
    assert np.array_equal(fixed.request, np.repeat(np.arange(128), 128))
    assert names(fixed) == set()
    trace.save(fixed, tmp_path / "again.npz")
    assert trace.same_trace(trace.load(tmp_path / "again.npz"), fixed)
    with pytest.raises(TraceError, match="nothing is to be guessed"):
        repaired(fixed, Repairs(sequence_first=128))


def test_one_copy(clean: RoutingTrace) -> None:
    half = clean.ids[:512]
    flat = changed(clean, ids=np.concatenate([half, half]), request=None, position=None, phase=None)
    assert np.array_equal(repaired(flat, Repairs(one_copy=2)).ids, half)
    with pytest.raises(TraceError, match="not 4 equal copies"):
        repaired(flat, Repairs(one_copy=4))


@pytest.mark.parametrize("format", ["npz", "parquet", "csv", "jsonl"])
def test_what_was_done_is_kept(tmp_path: Path, make_trace: Callable[..., RoutingTrace], format: str) -> None:
    fixed = repaired(make_trace(scores=False), Repairs(normalise_weights=True))
    trace.save(fixed, tmp_path / f"t.{format}")
    assert trace.load(tmp_path / f"t.{format}").repairs == fixed.repairs != ()


@pytest.mark.parametrize("format", ["npz", "jsonl"])
def test_padding(tmp_path: Path, make_trace: Callable[..., RoutingTrace], format: str) -> None:
    base = changed(make_trace(scores=False), weights=None)
    ids = base.ids.copy()
    ids[4, 1] = 0
    trace.save(changed(base, ids=ids), tmp_path / f"t.{format}")
    fixed = trace.load(tmp_path / f"t.{format}", padding=0)
    assert (fixed.ids[4, 1] == -1).all()
    assert np.count_nonzero(fixed.ids < 0) == 2  # expert 0 beside another one stays
    assert fixed.repairs == ("padding: 0 made empty",)
    with pytest.raises(TraceError, match="padding: no slot holds the filler 200"):
        trace.load(tmp_path / f"t.{format}", padding=200)


def test_padding_outside_the_model(tmp_path: Path, small: RoutingTrace) -> None:
    ids = np.where(small.ids == 3, 255, small.ids)
    np.savez(tmp_path / "t.npz", ids=ids)
    with pytest.raises(TraceError, match="--padding 255 makes it empty"):
        trace.load(tmp_path / "t.npz", experts=8)
    fixed = trace.load(tmp_path / "t.npz", experts=8, padding=255)
    assert np.array_equal(fixed.ids, np.where(small.ids == 3, -1, small.ids))


def test_physical_map(tmp_path: Path, small: RoutingTrace) -> None:
    table = np.stack([np.concatenate([np.roll(np.arange(8), n), [5, 2]]) for n in range(2)])
    physical = np.stack([np.argsort(table[n, :8])[small.ids[:, n]] for n in range(2)], axis=1)
    physical[0, 0][physical[0, 0] == np.flatnonzero(table[0, :8] == 5)[0]] = 8
    np.savez(tmp_path / "t.npz", ids=physical)
    np.savez(tmp_path / "map.npz", physical_to_logical_map=table)
    fixed = trace.load(tmp_path / "t.npz", experts=8, physical_map=tmp_path / "map.npz")
    assert np.array_equal(fixed.ids, small.ids)
    assert fixed.repairs == ("physical_map: physical ids made logical",)
    trace.save(changed(fixed, ids=physical.astype(np.int16), experts=10), tmp_path / "t.jsonl")
    text = (tmp_path / "t.jsonl").read_text().replace('"experts": 10, ', "", 1)
    (tmp_path / "t.jsonl").write_text(text)
    np.save(tmp_path / "short.npy", table[:1])
    with pytest.raises(TraceError, match="layers, the recording has 2"):
        trace.load(tmp_path / "t.jsonl", physical_map=tmp_path / "short.npy")


def test_a_statement_nobody_reads_is_an_error(tmp_path: Path, small: RoutingTrace) -> None:
    trace.save(small, tmp_path / "t.npz")
    with pytest.raises(TraceError, match="top_k: the format npz does not read it"):
        trace.load(tmp_path / "t.npz", top_k=2)
