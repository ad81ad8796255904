"""`cosim validate` from end to end: the same bytes whatever the processes, and from the resolved file again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

SMALL = ["workload.batches=1", "workload.layers=[0, 3]", "seeds=[1, 2]"]
SAME_BYTES = ("metrics.json", "claims.json", "metrics.parquet", "layers.parquet", "config.resolved.yaml")


def validate(reference: str, out: Path, *arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)
    command = [sys.executable, "-W", "error", "-c", "from cosim.cli import main; main()", "validate", reference]
    return subprocess.run(
        [*command, "--out", str(out), *arguments], env=environment, cwd=out.parent, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("validate") / "first"
    overrides = [argument for override in SMALL for argument in ("-o", override)]
    run = validate("quickstart", out, *overrides)
    assert run.returncode == 0, run.stderr
    return out


def test_the_directory_is_whole(first: Path) -> None:
    names = {path.name for path in first.iterdir()}
    assert {*SAME_BYTES, "provenance.json", "report.html"} <= names
    metrics = json.loads((first / "metrics.json").read_text())
    assert metrics["schema"] == 1
    assert {row["rung"] for row in metrics["rows"]} >= {"analytic", "link", "flit"}
    claims = json.loads((first / "claims.json").read_text())
    assert claims["schema"] == 1
    assert {claim["verdict"] for claim in claims["claims"]} <= {"confirmed", "refuted", "inconclusive", "not_testable"}
    layers = pd.read_parquet(first / "layers.parquet")
    assert set(layers["layer"]) == {0, 3}
    assert (layers["total_fs"] > 0).all()


@pytest.mark.parametrize("again", ["two processes, another hash seed", "the resolved file"])
def test_same_bytes_again(first: Path, again: str) -> None:
    out = first.parent / again.replace(" ", "-")
    if again == "the resolved file":
        run = validate(str(first / "config.resolved.yaml"), out)
    else:
        overrides = [argument for override in SMALL for argument in ("-o", override)]
        run = validate("quickstart", out, *overrides, "--jobs", "2", hash_seed="77")
    assert run.returncode == 0, run.stderr
    different = [name for name in SAME_BYTES if (out / name).read_bytes() != (first / name).read_bytes()]
    assert not different


def test_results_name_no_host_path_or_day(first: Path) -> None:
    for name in ("metrics.json", "claims.json"):
        text = (first / name).read_text()
        assert str(first.parent) not in text
        assert os.uname().nodename not in text or len(os.uname().nodename) < 4
