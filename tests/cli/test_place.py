"""``cosim place search``: a file that the policy 'placed' runs, its report, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from cosim.cli import main
from cosim.experiment import Experiment
from cosim.placement.file import load_placement

MODEL = {
    "layers": 2,
    "moe_layers": 2,
    "hidden": 64,
    "moe_intermediate": 48,
    "matrices_per_expert": 3,
    "experts": 4,
    "top_k": 2,
    "gating": "softmax",
    "norm_topk_prob": True,
}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """Four experts, the first of them hot, on a 4 x 4 package."""
    draws = np.random.default_rng(4)
    ids = np.stack([[draws.choice(4, 2, replace=False, p=[0.6, 0.2, 0.1, 0.1]) for _ in range(2)] for _ in range(200)])
    np.savez(tmp_path / "trace.npz", ids=ids.astype(np.int16), num_experts=np.int64(4))
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(MODEL))
    document = {
        "trace": {"file": str(tmp_path / "trace.npz"), "profile": {"rows": "0-99"}, "evaluate": {"rows": "100-199"}},
        "workload": {
            "model": str(tmp_path / "model.yaml"),
            "mode": "sequential",
            "batch_tokens": 16,
            "batches": 2,
            "layers": "all",
            "scope": "routed",
        },
        "system": "package-4x4",
        "policies": ["tensor_parallel"],
        "rungs": ["link"],
        "seeds": [1],
    }
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(document))
    return tmp_path / "e.yaml"


def place(*arguments: str) -> tuple[int, str]:
    answer = CliRunner().invoke(main, ["place", "search", *arguments])
    return answer.exit_code, answer.output


@pytest.mark.parametrize(
    ("method", "further"),
    [
        ("tensor", []),
        ("expert", []),
        ("hybrid", ["--groups", "4"]),
        ("node", ["--rounds", "1", "--gap", "0.05"]),
        ("node+link", ["--evaluations", "4", "--rounds", "1", "--gap", "0.05"]),
    ],
)
def test_a_file_is_written_and_runs(experiment: Path, tmp_path: Path, method: str, further: list[str]) -> None:
    target = tmp_path / "p.json"
    status, output = place(str(experiment), "--method", method, "--file", str(target), *further)
    assert status == 0, output
    placed = load_placement(target)
    assert placed.neurons.shape == (2, 4, 16)
    assert placed.made_by["method"] == method
    assert placed.made_by["profile"] == "rows 0-99"
    if method.startswith("node"):
        assert "groups covering" in output
        assert "nodes, gap" in output
    assert place(str(experiment), "--method", method, "--file", str(tmp_path / "q.json"), *further)[0] == 0
    assert (tmp_path / "q.json").read_bytes() == target.read_bytes()
    loaded = Experiment.load(
        str(experiment), [f"policies=[{{name: placed, params: {{file: {target}}}, label: {method}}}]".replace("+", "_")]
    )
    run = loaded.run(method.replace("+", "_"), "link")
    assert len(run.layers) == 4
    assert (run.layers["total_fs"] > 0).all()


def test_only_layers_that_run_are_searched(experiment: Path, tmp_path: Path) -> None:
    arguments = ["--method", "node", "--rounds", "1", "--trials", "2", "--most-kinds", "4", "-o", "workload.layers=1"]
    status, output = place(str(experiment), *arguments, "--running", "--file", str(tmp_path / "p.json"))
    assert status == 0, output
    assert "layer 1: " in output
    assert "layer 0: " not in output
    assert "the other 1 layers: expert parallelism" in output
    # 15 sets of four experts are more than four, and single experts are four
    assert "at most 1 experts a node" in output
    neurons = load_placement(tmp_path / "p.json").neurons
    expert = place(str(experiment), "--method", "expert", "--file", str(tmp_path / "e.json"))
    assert expert[0] == 0
    assert (neurons[0] == load_placement(tmp_path / "e.json").neurons[0]).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--method", "hybrid"], "--groups with the method 'hybrid'"),
        (["--method", "node", "--groups", "2"], "--groups 2 with 'node'"),
        (["--method", "hybrid", "--groups", "5"], "groups of equal size from 16 nodes, got 5 groups"),
        (
            ["-o", "system.tiers.hbm.capacity=32 KiB"],
            "memory-capacity constraint: expected room for the layer's 4 experts",
        ),
        (["-o", "trace.profile=none"], "a profile part to place on, got profile: none"),
        (["--method", "nod"], "nod"),
    ],
)
def test_bad_input(experiment: Path, tmp_path: Path, arguments: list[str], text: str) -> None:
    status, output = place(str(experiment), "--file", str(tmp_path / "p.json"), *arguments)
    assert status == 2
    assert text in output
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize("method", ["complementarity", "mozart", "popularity"])
def test_groups_are_made_written_and_run(experiment: Path, tmp_path: Path, method: str) -> None:
    """Two stacks of eight cores; two experts each, which stay in their stack; the same command gives the same bytes."""
    digests = []
    for name in ("a.json", "b.json"):
        arguments = [
            "place",
            "group",
            str(experiment),
            "--method",
            method,
            "--groups",
            "2",
            "--file",
            str(tmp_path / name),
        ]
        result = CliRunner().invoke(main, [*arguments, "--clusters-per-group", "2", "--batch-tokens", "5"])
        assert result.exit_code == 0, result.output
        digests.append(result.output.split("sha256 ")[1])
    assert digests[0] == digests[1]
    placed = load_placement(tmp_path / "a.json")
    assert placed.made_by["command"] == "cosim place group"
    assert placed.made_by["steps"] == 20
    assert placed.made_by["profile"] == "rows 0-99"
    nodes = placed.neurons.argmax(axis=2)
    assert (placed.neurons.max(axis=2) == 48).all()
    assert np.bincount(nodes[0] // 8).tolist() == [2, 2]
    assert len(set(nodes[0].tolist())) == 4  # one expert a core
    if method == "complementarity":
        assert "stage 1: 24 variables (8 binary)" in result.output
        assert "range of work" in placed.report[0]
        assert "gap" in placed.report[0]
        assert "lambda_route 100" in placed.report[0]
    run = Experiment.load(
        str(experiment), [f"policies=[{{name: placed, params: {{file: {tmp_path / 'a.json'}}}}}]"]
    ).run(policy="placed", rung="link")
    assert len(run.layers)


def test_groups_that_do_not_fit_are_refused(experiment: Path, tmp_path: Path) -> None:
    target = ["--file", str(tmp_path / "x.json")]
    for options, text in (
        ([], "the 16 cores of the system lie in one network"),
        (["--groups", "3"], "a divisor of 16 cores"),
        (["--groups", "8"], "a divisor of 4 experts"),
        (["--groups", "2", "--method", "mozart", "--clusters-per-group", "4"], "a divisor of 4 experts"),
        (["--groups", "2", "--batch-tokens", "500"], "0 steps of 500 tokens"),
    ):
        result = CliRunner().invoke(main, ["place", "group", str(experiment), *target, *options])
        assert result.exit_code == 2, result.output
        assert text in result.output
