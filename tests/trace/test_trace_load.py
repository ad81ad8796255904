"""Reading and writing traces: every format gives back what was written, and every layout people use is read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cosim import trace
from cosim.trace import ReadLimits, RoutingTrace, TraceError, same_trace

FORMATS = ("npz", "parquet", "jsonl", "csv")


def stripped(full: RoutingTrace, *names: str) -> RoutingTrace:
    changes: dict[str, object] = dict.fromkeys(names)
    if "domain" in names:
        changes["domains"] = ()
    if "scores" in names:
        changes["scores_token"] = None
    return dataclasses.replace(full, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    "missing",
    [
        ("scores",),
        ("scores", "weights"),
        ("scores", "phase", "domain"),
        ("scores", "weights", "request", "position", "phase", "domain"),
    ],
    ids=lambda names: "-".join(names),
)
def test_round_trip(tmp_path: Path, small: RoutingTrace, suffix: str, missing: tuple[str, ...]) -> None:
    written = stripped(small, *missing)
    path = tmp_path / f"t.{suffix}"
    trace.save(written, path)
    assert same_trace(trace.load(path), written)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["npz", "parquet", "jsonl"])
def test_round_trip_with_scores(tmp_path: Path, small: RoutingTrace, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    trace.save(small, path)
    assert same_trace(trace.load(path), small)


def test_scores_do_not_fit_csv(tmp_path: Path, small: RoutingTrace) -> None:
    with pytest.raises(TraceError, match="router scores do not fit CSV"):
        trace.save(small, tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", FORMATS)
def test_unstated_experts_and_provenance_survive(
    tmp_path: Path, make_trace: Callable[..., RoutingTrace], suffix: str
) -> None:
    base = make_trace(scores=False)
    largest = int(base.ids.max()) + 1
    written = dataclasses.replace(base, experts=largest, experts_stated=False, provenance="fitted(counts.npz)")
    trace.save(written, tmp_path / f"t.{suffix}")
    read = trace.load(tmp_path / f"t.{suffix}")
    assert same_trace(read, written)
    assert trace.load(tmp_path / f"t.{suffix}", experts=99).experts == 99


def test_sample_is_the_shipped_recording(sample: RoutingTrace) -> None:
    assert sample.ids.shape == (128 * 128, 8, 4)
    assert sample.ids.dtype == np.int16
    assert (sample.experts, sample.experts_stated, sample.top_k) == (64, True, 4)
    assert sample.provenance == "recorded"
    assert sample.layer_map.tolist() == list(range(8))
    assert sample.request is not None
    assert sample.position is not None
    assert sample.phase is not None
    assert sample.request[:130].tolist() == [0] * 128 + [1] * 2
    assert np.array_equal(sample.phase == 0, sample.position < 32)
    assert len(sample.domains) == 11
    assert sample.scores is not None
    assert sample.scores_token is not None
    assert sample.scores.shape == (16 * 128, 8, 64)
    assert sample.scores_token[[0, 1023, 1024, -1]].tolist() == [0, 1023, 120 * 128, 128 * 128 - 1]


def test_sample_scores_belong_to_its_ids(sample: RoutingTrace) -> None:
    """The recording's README: Top-4 of the scores are the recorded ids but for ties in float16."""
    assert sample.scores is not None
    best = np.argsort(-sample.scores.astype(np.float32), axis=2, kind="stable")[:, :, :4]
    recorded = sample.ids[sample.scores_token]
    assert float((best == recorded).mean()) > 0.999


def test_block_layout_without_scores_file(tmp_path: Path) -> None:
    ids = np.arange(2 * 3 * 1 * 2, dtype=np.uint8).reshape(2, 3, 1, 2)
    np.savez(tmp_path / "t.npz", experts=ids, prompt_tokens=np.int32(1), num_experts=np.int32(16))
    read = trace.load(tmp_path / "t.npz")
    assert read.ids[:, 0, 0].tolist() == [0, 2, 4, 6, 8, 10]
    assert read.request is not None
    assert read.position is not None
    assert read.phase is not None
    assert read.request.tolist() == [0, 0, 0, 1, 1, 1]
    assert read.position.tolist() == [0, 1, 2, 0, 1, 2]
    assert read.phase.tolist() == [0, 1, 1, 0, 1, 1]
    assert read.experts == 16


def test_block_layout_with_meta(tmp_path: Path) -> None:
    meta = [{"prompt_tokens": 7, "domain": "law", "row_index": 1}, {"prompt_tokens": 9, "domain": "stem"}]
    np.savez(tmp_path / "t.npz", experts=np.zeros((2, 2, 1, 1), np.uint8), meta=np.array(json.dumps(meta)))
    read = trace.load(tmp_path / "t.npz")
    assert read.position is not None
    assert read.phase is not None
    assert read.domain is not None
    assert read.position.tolist() == [7, 8, 9, 10]
    assert read.phase.tolist() == [1] * 4
    assert [read.domains[d] for d in read.domain] == ["law", "law", "stem", "stem"]


def test_grouped_layout(tmp_path: Path) -> None:
    groups = {"coding": np.full((3, 2, 2), 1, np.uint8), "math": np.full((2, 2, 2), 5, np.uint8)}
    np.savez(tmp_path / "t.npz", **groups)  # type: ignore[arg-type]
    read = trace.load(tmp_path / "t.npz")
    assert read.domains == ("coding", "math")
    assert read.domain is not None
    assert read.domain.tolist() == [0, 0, 0, 1, 1]
    assert read.ids[:, 1, 1].tolist() == [1, 1, 1, 5, 5]
    assert (read.experts, read.experts_stated) == (6, False)
    assert read.request is None


def test_hdmoe_layout(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{ "1": [[3, 1], [0, 2]],\n "10": [[1,2],[7,0]], "2": [[4,5] , [5,4]] }\n')
    read = trace.load(tmp_path / "t.json")
    assert read.layer_map.tolist() == [1, 2, 10]
    assert read.ids.tolist() == [[[3, 1], [4, 5], [1, 2]], [[0, 2], [5, 4], [7, 0]]]
    assert trace.load(tmp_path / "t.json", format="hdmoe_json", experts=64).experts == 64


def test_rows_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "layer,request,position,expert_0,phase\n3,5,1,4,decode\n1,5,0,2,prefill\n1,5,1,3,decode\n3,5,0,1,prefill\n"
    )
    read = trace.load(tmp_path / "t.csv")
    assert read.layer_map.tolist() == [1, 3]
    assert read.position is not None
    assert read.position.tolist() == [1, 0]  # order of first appearance
    assert read.ids[:, :, 0].tolist() == [[3, 4], [2, 1]]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [">i4", "<u2", "int8", "uint64"])
def test_npz_dtypes_and_orders(tmp_path: Path, order: str, dtype: str) -> None:
    ids = np.arange(24).reshape(4, 3, 2)
    np.savez_compressed(tmp_path / "t.npz", ids=np.array(ids, dtype=dtype, order=order))  # type: ignore[call-overload]
    assert trace.load(tmp_path / "t.npz").ids.tolist() == ids.tolist()


def test_take_keeps_scores_with_their_rows(small: RoutingTrace) -> None:
    part = small.take(np.array([1, 2, 3, 7]))
    assert part.scores is not None
    assert small.scores is not None
    assert part.scores_token is not None
    assert part.scores_token.tolist() == [0, 2, 3]
    assert np.array_equal(part.scores, small.scores[[0, 1, 3]])
    assert np.array_equal(part.ids, small.ids[[1, 2, 3, 7]])


def test_arrays_are_frozen(small: RoutingTrace) -> None:
    with pytest.raises(ValueError, match="read-only"):
        small.ids[0] = 0


def test_check_model(small: RoutingTrace) -> None:
    small.check_model(experts=8, layers=2, top_k=2)
    with pytest.raises(TraceError) as caught:
        small.check_model(experts=4, layers=3, top_k=1)
    assert len(caught.value.problems) == 3


def test_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TraceError, match="no such file; shipped traces: sample, did you mean 'sample'"):
        trace.load("sampel")
    with pytest.raises(TraceError, match="a folder that is no recording in a format known here"):
        trace.load(tmp_path)
    with pytest.raises(TraceError, match="got 'parquett', did you mean 'parquet'"):
        trace.load("sample", format="parquett")


def test_limits_are_kept(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", ids=np.zeros((40000, 64, 8), np.uint8))
    with pytest.raises(TraceError, match=r"asks for 2048\d* bytes unpacked"):
        trace.load(tmp_path / "bomb.npz", limits=ReadLimits(free_bytes=1 << 20))
    assert trace.load(tmp_path / "bomb.npz").tokens == 40000


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, small: RoutingTrace) -> None:
    with pytest.raises(TraceError, match=r"expected a file in a folder that is there, got none called .*nowhere"):
        trace.save(small, tmp_path / "nowhere" / "out.npz")
