"""The examples of the documents run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosim.analytic import AnalyticSystem, Routes, layers_frame, load_analytic, quantity, read_table
from cosim.config import load_model
from cosim.validate.claims import load_claims
from cosim.validate.expression import parse

DOCS = Path(__file__).parents[2] / "docs"


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / document).read_text(encoding="utf-8"), re.DOTALL)


def test_the_claim_example_is_a_claim_file(tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(blocks("claims.md", "yaml")[0], encoding="utf-8")
    assert load_claims(str(tmp_path / "example.yaml")).claims[0].kind == "ratio"


def test_the_expressions_of_the_text_are_read() -> None:
    text = (DOCS / "claims.md").read_text(encoding="utf-8")
    terms = re.findall(r"`(\w+\([^`]+\))`", text)
    assert len(terms) >= 2
    for term in terms:
        parse(term)


def test_the_table_example_is_read(tmp_path: Path) -> None:
    table = next(block for block in blocks("analytic-models.md", "text") if block.startswith("policy,layer,"))
    (tmp_path / "results.csv").write_text(table, encoding="utf-8")
    assert [figure.quantity for figure in read_table(tmp_path / "results.csv").figures] == [
        quantity("layer_latency_mean"),
        quantity("layer_latency_p95"),
        quantity("bytes_weight"),
    ]


def test_the_function_example_runs(tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(blocks("analytic-models.md", "python")[0], encoding="utf-8")
    system = AnalyticSystem(
        link_bandwidth_Bps=np.ones(0),
        link_latency_s=np.ones(0),
        link_is_d2d=np.ones(0, dtype=bool),
        routes=Routes.from_paths(1, [[]]),
        port_bandwidth_Bps=np.ones(1),
        compute_flops=np.full(1, 2e12),
        compute_efficiency=np.ones(1),
        memory_bandwidth_Bps=np.full(1, 1e9),
        memory_latency_s=np.zeros(1),
        memory_banks=np.ones(1, dtype=np.int64),
        memory_tier=("hbm",),
    )
    names = ["seed", "batch", "layer", "expert", "source", "aggregator", "tokens", "bytes", "chiplet", "memory_node"]
    # Two groups of one replica in each batch: its weights count once.
    rows = [[1, b, 0, 0, 0, 0, tokens * (b + 1), 1, 0, 0] for b in range(2) for tokens in (400, 600)]
    decisions = pd.DataFrame(rows, columns=names)
    decisions["fetch_bytes"] = 2000
    model = load_model("own-byte-moe").spec
    analytic = load_analytic("my_model.py:layer_times", tmp_path)
    frame = layers_frame(analytic, decisions, system, model, policy="static")  # type: ignore[arg-type]
    macs = model.expert_macs_per_token
    assert frame["compute_fs"].tolist() == [macs * 1000 * 1000, macs * 2000 * 1000]
    assert frame["memory_fs"].tolist() == [2 * 10**9] * 2


@pytest.mark.parametrize("document", ["claims.md", "analytic-models.md"])
def test_parameters_and_metrics_of_the_text_exist(document: str) -> None:
    text = (DOCS / document).read_text(encoding="utf-8")
    for name in re.findall(r"`((?:layer_latency|bytes|stage)_[a-z0-9_]*(?:mean|p50|p95|p99|total))`", text):
        quantity(name)
