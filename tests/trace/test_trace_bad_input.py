"""Files that are wrong: each is refused with its name, the place and all problems of a kind counted."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosim import trace
from cosim.trace import RoutingTrace, TraceError


def problems(path: Path, **options: Any) -> str:
    with pytest.raises(TraceError) as caught:
        trace.load(path, **options)
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())
    return str(caught.value)


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


CSV_HEAD = "request,position,layer,expert_0,expert_1,weight_0,weight_1\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("0,0,0,1,2,.5,.5\n0,1,0,1,.5,.5\n0,2,0,1\n", ["a ragged row (2 times)", "line 3: 6 cells, expected 7"]),
        ("0,0,0,1.5,2,.5,.5\n0,1,0,x,2,.5,.5\n", ["expert_0: expected an integer (2 times)", "line 2: '1.5'"]),
        (
            "0,0,0,1,2,nan,.5\n0,1,0,1,2,.5,-0.25\n",
            ["weight_0: expected a finite number: line 2", "weight_1: negative"],
        ),
        ("0,0,0,1,2,.5,.5\n0,0,0,3,4,.5,.5\n", ["duplicate (request, position, layer)", "row 2 repeats row 1"]),
        ("0,0,0,1,2,.5,.5\n0,0,1,3,4,.5,.5\n0,1,0,1,2,.5,.5\n", ["without a row for every layer", "no layer [1]"]),
        ("0,0,0,1,2,.5,.5\n0,1,0,-2,2,.5,.5\n", ["an id outside the model's", "token 1, layer 0, slot 0 is -2"]),
        ("0,-1,0,1,2,.5,.5\n", ["position: expected 0..2147483647", "row 1 is -1"]),
        ("0,0,0,1,,.5,.5\n", ["expert_1: expected an integer: line 2: ''"]),
        ("", ["no rows"]),
    ],
)
def test_csv(tmp_path: Path, rows: str, expected: list[str]) -> None:
    (tmp_path / "t.csv").write_text(CSV_HEAD + rows)
    text = problems(tmp_path / "t.csv")
    for part in expected:
        assert part in text


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("request,layer,expert_0", "missing column: position"),
        ("layer,expert_0", "missing column: token (or request and position)"),
        ("token,expert_0", "missing column: layer"),
        ("token,layer", "missing column: expert_0"),
        ("token,layer,expert_0,expert_2", "expected expert_0 to expert_1, got [0, 2]"),
        ("token,layer,expert_0,expert_0", "a column that occurs twice"),
        ("token,layer,expert_0,wieght_0", "'wieght_0', did you mean 'weight_0'?"),
        ("prompt_id,position,layer,expert_0", "'prompt_id' (here that is called 'request')"),
        ("token,position,request,layer,expert_0", "token beside request and position"),
        ("token,layer,expert_0,expert_1,weight_0", "1 weight columns for 2 expert columns"),
    ],
)
def test_csv_columns(tmp_path: Path, head: str, expected: str) -> None:
    (tmp_path / "t.csv").write_text(head + "\n0,0,0,0,0,0\n")
    assert expected in problems(tmp_path / "t.csv")


def row(**changes: Any) -> str:
    base: dict[str, Any] = {"request": 0, "position": 0, "layer": 0, "experts": [1, 2], "weights": [0.5, 0.5]}
    return json.dumps({**base, **changes}) + "\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (row() + '{"request": 0,\n', "not JSON: line 2"),
        (row() + "[1]\n", "expected a JSON object: line 2 is list"),
        (row() + row(position=1, experts=[1]), "expected a list of 2 ids: line 2: 1 ids"),
        (row() + row(position=1, experts=[1, 2.0]), "experts: expected integer ids: line 2: [1, 2.0]"),
        (row() + row(position=1, experts=[1, True]), "experts: expected integer ids: line 2"),
        (row(weights=[0.5, float("nan")]), "weights: expected finite numbers >= 0: line 1: nan"),
        (row(weights=[-0.5, 0.5]), "weights: expected finite numbers >= 0: line 1: -0.5"),
        (row(weights=[0.5]), "weights: expected a list of 2 numbers: line 1: 1"),
        (row() + row(), "duplicate (request, position, layer): row 2 repeats row 1"),
        (row() + row(position=1, phase="decode"), "other keys than the first: line 2: ['phase'] unexpected"),
        (row(phase="decoding"), "phase: expected prefill or decode: line 1: 'decoding'"),
        (row(wieghts=1), "unknown key: line 1: 'wieghts', did you mean 'weights'?"),
        (row(request=-1), "request: expected an integer >= 0: line 1: -1"),
        ('{"cosim_trace": 2}\n' + row(), "cosim_trace: expected version 1, got 2"),
        ('{"cosim_trace": 1, "experst": 3}\n' + row(), "unknown header key: 'experst'"),
        ('{"cosim_trace": 1, "experts": 2}\n' + row(), "an id outside the model's 0..1"),
        ('{"request": 0, "layer": 0}\n', "missing keys: line 1: experts, position"),
        ("{" * 100000 + "\n", "not JSON"),
    ],
)
def test_jsonl(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    assert expected in problems(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"0": [[1, 2], [3]]}', "layer 0: a ragged row: token 1 has 1 ids, expected a list of 2"),
        ('{"0": [[1, 2], [3, 4]], "1": [[1, 2]]}', "layer 1 is [1, 2]"),
        ('{"0": [[1, 2], [3, 4.5]]}', "layer 0: expected integer ids: token 1: [3, 4.5]"),
        ('{"0": [[1, 2], [3, true]]}', "layer 0: expected integer ids: token 1: [3, True]"),
        ('{"0": [[1, 2]], "x": [[1, 2]]}', "a key that is no layer number: line 1: 'x'"),
        ('{"0": [[1, 2]], "0": [[1, 2]]}', "a layer that occurs twice"),
        ('{"0": [[1, 2], [3, 4]', "truncated"),
        ('{"0": [[1, 2]]', "truncated"),
        ('{"0": [[1, 2]]} x', "text after the object"),
        ('{"0": [[1, 2], [3, -5]]}', "token 1, layer 0, slot 1 is -5"),
        ('{"0": [[1, nul]]}', "not JSON: layer 0"),
        ('{"0": []}', "an empty trace"),
        ('{"0": [[]]}', "an empty trace"),
        ('{"0": [[99999999999, 1]]}', "expected integer ids: token 0"),
    ],
)
def test_hdmoe_json(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "t.json").write_text(text)
    assert expected in problems(tmp_path / "t.json")


IDS = np.zeros((4, 2, 2), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"ids": IDS.astype(np.float32)}, "ids: expected integer expert ids, got float32"),
        ({"ids": IDS[0]}, "expected [token, layer, slot] or [request, position, layer, slot], got shape [2, 2]"),
        ({"ids": IDS[:0]}, "an empty trace"),
        ({"ids": IDS, "experts": IDS}, "ids and experts name the same thing"),
        ({"weights": IDS.astype(np.float32)}, "no array ids or experts"),
        ({"ids": IDS, "wieghts": IDS}, "an array nobody reads: 'wieghts', did you mean 'weights'?"),
        ({"ids": IDS, "weights": IDS[:2].astype(np.float32)}, "weights: expected floats of the shape of ids [4, 2, 2]"),
        ({"ids": IDS, "weights": np.full((4, 2, 2), np.nan, np.float16)}, "weights: not a finite number (16 times)"),
        ({"ids": IDS, "weights": np.full((4, 2, 2), -1.0)}, "weights: negative (16 times)"),
        ({"ids": IDS, "request": np.zeros(4, np.int32)}, "position: missing"),
        (
            {"ids": IDS, "request": np.zeros(4, np.int32), "position": np.array([0, 1, 1, 1], np.int32)},
            "duplicate (request, position) (2 times): request 0, position 1",
        ),
        ({"ids": IDS, "request": np.zeros(3, np.int32)}, "request: expected integers of shape [4], got int32 [3]"),
        ({"ids": IDS + 9, "num_experts": np.int64(8)}, "an id outside the model's 0..7 (or -1, empty) (16 times)"),
        ({"ids": IDS, "layer_map": np.array([3, 1])}, "layer_map: expected strictly increasing decoder layers"),
        (
            {"ids": IDS, "provenance": np.array("invented")},
            "provenance: expected recorded, fitted(<source>) or synthetic",
        ),
        ({"ids": IDS.astype(np.int64) + 2**40}, "ids: a value outside int32: element [0, 0, 0] is 1099511627776"),
        ({"ids": IDS, "num_experts": np.int64(10**6)}, "experts: expected 1..65536, got 1000000"),
        ({"ids": IDS, "scores": np.zeros((3, 2, 8), np.float32)}, "3 rows for 4 tokens and no scores_token"),
        ({"ids": IDS, "phase": np.array(["decode"] * 4)}, "phase: means nothing without request and position"),
        ({"ids": np.array([[[{}]]], dtype=object)}, "a member that holds pickled objects (never opened): 'ids'"),
        ({"a": IDS, "b": IDS[:, :1]}, "groups of different [layer, slot] sizes: [[1, 2], [2, 2]]"),
    ],
)
def test_npz(tmp_path: Path, arrays: dict[str, Any], expected: str) -> None:
    assert expected in problems(npz(tmp_path / "t.npz", **arrays))


def test_npz_block_columns(tmp_path: Path) -> None:
    block = np.zeros((2, 3, 1, 1), np.uint8)
    path = npz(tmp_path / "t.npz", experts=block, prompt_tokens=np.int32(2), phase=np.array(["prefill"] * 3))
    assert "phase: 2 rows disagree with prompt_tokens (first: row 2, position 2, phase prefill)" in problems(path)
    path = npz(tmp_path / "t.npz", experts=block, phase=np.array(["prefil"] * 3))
    assert "got 'prefil', did you mean 'prefill'?" in problems(path)
    path = npz(tmp_path / "t.npz", experts=block, meta=np.array("[{}, {}]"))
    text = problems(path)
    assert "meta: prompt_tokens: expected an integer >= 0 (2 times)" in text
    assert "meta: domain: expected a name (2 times)" in text


def test_padding_is_named_not_repaired(tmp_path: Path) -> None:
    ids = np.zeros((4, 2, 2), np.uint8)
    ids[2:] = 255
    text = problems(npz(tmp_path / "t.npz", ids=ids, num_experts=np.int64(8)))
    assert "trap padding: 8 slots hold 255 and no other id is outside" in text


def test_pickle_is_never_executed(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
            return (Path(tmp_path / "executed").touch, ())

    for name, content in (("t.pkl", pickle.dumps(Bomb())), ("t.npz", _object_npz(Bomb()))):
        (tmp_path / name).write_bytes(content)
        problems(tmp_path / name)
    assert not (tmp_path / "executed").exists()


def _object_npz(value: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, ids=np.array([[[value]]], dtype=object))
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_every_truncation_is_refused(tmp_path: Path, make_trace: Callable[..., RoutingTrace], suffix: str) -> None:
    whole = tmp_path / f"whole.{suffix}"
    trace.save(make_trace(), whole)
    content = whole.read_bytes()
    for length in range(0, len(content), max(1, len(content) // 60)):
        (tmp_path / f"t.{suffix}").write_bytes(content[:length])
        problems(tmp_path / f"t.{suffix}")


def test_broken_compressed_data(tmp_path: Path, make_trace: Callable[..., RoutingTrace]) -> None:
    path = tmp_path / "t.npz"
    trace.save(make_trace(requests=40), path)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("ids.npy")
    content = bytearray(path.read_bytes())
    content[info.header_offset + 120] ^= 0xFF
    path.write_bytes(content)
    assert "ids" in problems(path)


def test_files_of_other_kinds(tmp_path: Path) -> None:
    for name, content, expected in (
        ("empty", b"", "an empty file"),
        ("t.gz", b"\x1f\x8b\x08rest", "gzip data: unpack the file first"),
        ("t.npy", b"\x93NUMPY\x01\x00", "truncated or damaged array"),
        ("t.json", b'["a", "b"]', "a JSON list"),
        ("t.txt", b"hello", "in no format known here"),
        ("t.bin", b"ab\x00cd", "binary data"),
    ):
        (tmp_path / name).write_bytes(content)
        assert expected in problems(tmp_path / name)


def test_torch_files_that_no_reader_knows(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02N.")
    assert "it holds NoneType, which no reader here knows" in problems(tmp_path / "t.pt")


def test_caller_and_file_contradict(tmp_path: Path, small: RoutingTrace) -> None:
    path = tmp_path / "t.npz"
    trace.save(small, path)
    assert "experts: statements differ: the file says 8, the caller says 9" in problems(path, experts=9)
    assert "phase: stated by the caller, but the file records it" in problems(path, phase="decode")
    assert "the file says recorded, the caller synthetic" in problems(path, provenance="synthetic")


def test_all_problems_at_once(tmp_path: Path) -> None:
    path = npz(
        tmp_path / "t.npz",
        ids=IDS,
        weights=IDS[:2].astype(np.float32),
        layer_map=np.zeros(3, np.int64),
        provenance=np.array([1]),
    )
    assert len(problems(path).splitlines()) == 3
