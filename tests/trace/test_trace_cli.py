"""`cosim trace`: what it prints, what it refuses, and with which status it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cosim import trace
from cosim.cli import main
from cosim.trace import RoutingTrace, same_trace

SIZES = {"layers": 2, "experts": 8, "top-k": 2, "requests": 4, "positions": 8, "alpha": 0.3, "rho": 0.5, "seed": 1}
GENERATE = [word for name, value in SIZES.items() for word in (f"--{name}", str(value))]


def cosim(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)])


def test_inspect_sample() -> None:
    result = cosim("inspect", "sample", "--layer", "3")
    assert result.exit_code == 0, result.output
    assert "16384 tokens, 8 MoE layers, top 4 of 64 experts" in result.output
    assert "serves      decode, prefill, random, sequential" in result.output
    assert "traps: none of the known ones found" in result.output
    (row,) = [line.split() for line in result.output.splitlines() if line.split()[:2] == ["3", "3"]]
    assert row == ["3", "3", "62", "7.67", "1.69", "0.623", "5.00", "0.303", "0.175", "0.450", "0.337", "0.89"]
    for word in ("used", "max/mean", "zipf", "gini", "entropy", "overlap", "by load", "recall", "popular", "halves"):
        assert f"\n  {word:<9} " in result.output  # every column is defined
    assert "\x1b" not in result.output


def test_inspect_as_json() -> None:
    found = json.loads(cosim("inspect", "sample", "--json", "--layer", "7", "--batch-tokens", "32").output)
    assert found["statistics"]["layers"][0]["layer"] == 7
    assert found["statistics"]["layers"][0]["recall"] is None
    assert found["statistics"]["batches"][0]["batches"] == 512
    assert found["modes"] == dict.fromkeys(["decode", "prefill", "random", "sequential"])
    assert found["traps"] == []


def test_inspect_names_traps_and_refused_modes(tmp_path: Path) -> None:
    ids = np.random.default_rng(1).integers(0, 4, (300, 2, 1))
    ids[:200] = 1
    np.savez(tmp_path / "t.npz", ids=ids.astype(np.uint8))
    output = cosim("inspect", tmp_path / "t.npz").output
    assert "trap: warm-up or dummy rows: 200 of 300 rows lie in 1 runs" in output
    assert "trap: experts not stated" in output
    assert "not decode: the trace keeps no request boundaries" in output


@pytest.mark.parametrize("suffix", ["npz", "parquet", "jsonl"])
def test_convert(tmp_path: Path, small: RoutingTrace, suffix: str) -> None:
    trace.save(small, tmp_path / "in.npz")
    result = cosim("convert", tmp_path / "in.npz", tmp_path / f"out.{suffix}")
    assert result.exit_code == 0, result.output
    assert "15 tokens, 2 layers, top 2 of 8" in result.output
    assert same_trace(trace.load(tmp_path / f"out.{suffix}"), small)


def test_convert_to_csv_without_scores(tmp_path: Path, small: RoutingTrace) -> None:
    trace.save(small, tmp_path / "in.npz")
    assert cosim("convert", tmp_path / "in.npz", tmp_path / "out.csv").exit_code == 2
    assert cosim("convert", tmp_path / "in.npz", tmp_path / "out.csv", "--drop-scores").exit_code == 0
    assert same_trace(trace.load(tmp_path / "out.csv"), small.without_scores())


def test_generate(tmp_path: Path) -> None:
    result = cosim("generate", tmp_path / "t.npz", *GENERATE)
    assert result.exit_code == 0, result.output
    assert trace.load(tmp_path / "t.npz").provenance == "synthetic"


def refused(*arguments: Any) -> str:
    result = cosim(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


def test_wrong_input(tmp_path: Path, small: RoutingTrace) -> None:
    trace.save(small, tmp_path / "in.npz")
    (tmp_path / "broken.npz").write_bytes((tmp_path / "in.npz").read_bytes()[:100])
    assert "did you mean 'sample'?" in refused("inspect", "sampl")
    assert "--layer 8: expected MoE layer 0..7" in refused("inspect", "sample", "--layer", "8")
    assert "truncated or damaged archive" in refused("inspect", tmp_path / "broken.npz")
    assert "format: expected one of npz, parquet, csv, jsonl, got 'txt'" in refused(
        "convert", "sample", tmp_path / "out.txt"
    )
    assert "got 'cvs', did you mean 'csv'?" in refused("inspect", tmp_path / "in.npz", "--format", "cvs")
    assert "the file says 8, the caller says 9" in refused("inspect", tmp_path / "in.npz", "--experts", "9")
    assert "asks for" in refused("inspect", "sample", "--max-gib", "0.0001")
    assert "no such file" in refused("convert", tmp_path / "none.npz", tmp_path / "out.npz")
    assert "out.npz" in refused("convert", "sample", tmp_path / "no-folder" / "out.npz")
    assert "rho: expected" in refused("generate", tmp_path / "t.npz", *GENERATE, "--rho", "0.01")
    assert not (tmp_path / "out.npz").exists()
