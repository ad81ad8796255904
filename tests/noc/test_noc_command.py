"""`cosim noc run`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner, Result

from cosim.cli import main


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["noc", *arguments], standalone_mode=True)


SHORT = ("-o", "traffic.measure_cycles=500", "-o", "traffic.warmup_cycles=100")


def test_the_shipped_experiment_runs_and_prints_its_figures() -> None:
    result = call("run", "noc-mesh8", *SHORT)
    assert result.exit_code == 0, result.output
    for part in ("8 x 8 mesh", "offered load", "accepted load", "at zero load", "cycles = 4 x", "busiest 8 outputs"):
        assert part in result.output


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("noc-torus8", "8 x 8 torus, 64 nodes, dateline_booksim routing"),
        ("noc-fat-tree4x3", "fat_tree of 48 routers, 64 nodes, nca routing"),
        ("noc-pods32", "pod_fat_tree of 28 routers, 32 nodes, nca routing"),
    ],
)
def test_other_shipped_networks_run_and_are_deadlock_free(name: str, says: str) -> None:
    result = call("run", name, *SHORT)
    assert result.exit_code == 0, result.output
    assert says in result.output
    assert "stable" in result.output
    assert call("check", name).exit_code == 0


def test_results_are_written_and_repeat(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert call("run", "noc-mesh8", *SHORT, "--out", str(tmp_path / name)).exit_code == 0
    files = ["config.resolved.yaml", "metrics.json"]
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert metrics["schema"] == 1
    values = {row["metric"]: row["value"] for row in metrics["rows"]}
    assert values["stable"] is True
    assert 36 < values["packet_latency_mean_cycles"] < 40
    assert len(pd.read_parquet(tmp_path / "a" / "links.parquet")) == (4 * 64 - 32 + 64) * 4
    again = call("run", str(tmp_path / "a" / "config.resolved.yaml"))
    assert again.exit_code == 0
    assert f"{values['packet_latency_mean_cycles']:.2f}" in again.output


def test_packets_from_a_file(tmp_path: Path) -> None:
    packets = pd.DataFrame({"create_cycle": [0, 5], "src": [0, 3], "dst": [3, 0], "size_flits": [4, 2]})
    packets.to_csv(tmp_path / "packets.csv", index=False)
    experiment = {
        "network": {"topology": {"kind": "mesh", "shape": [2, 2]}},
        "traffic": {"packets": "packets.csv"},
    }
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(experiment))
    result = call("run", str(file), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "makespan" in result.output
    assert len(pd.read_parquet(tmp_path / "out" / "packets.parquet")) == 2


def test_wrong_input_exits_two_and_lists_everything_with_places(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(
        "network:\n  topology: {kind: mesh, shape: [4, 4]}\n  num_vcs: many\n  buffers: 3\n"
        "traffic:\n  pattern: unifrom\n  injection_rate: 0.1\n"
    )
    result = call("run", str(file), "-o", "network.credit_delay=-1")
    assert result.exit_code == 2
    assert f"{file}:3:" in result.output
    assert f"{file}:4:" in result.output
    assert "-o network.credit_delay=-1" in result.output
    assert "3 errors" in result.output
    traffic = call("run", "noc-mesh8", "-o", "traffic.pattern=unifrom", "-o", "traffic.injection_rate=9")
    assert traffic.exit_code == 2
    assert "did you mean 'uniform'?" in traffic.output
    assert "at most packet_size_flits = 4" in traffic.output


def test_unknown_names_and_files() -> None:
    assert "did you mean 'noc-mesh8'?" in call("run", "noc-mesh9").output
    assert call("run", "nowhere.yaml").exit_code == 2


def test_a_deadlock_of_the_users_routing_exits_two(tmp_path: Path) -> None:
    experiment = {
        "network": {
            "topology": {"kind": "graph", "routers": 3, "links": [{"from": i, "to": (i + 1) % 3} for i in range(3)]},
            "routing": {
                "table": [
                    {"router": r, "destination": n, "next_router": (r + 1) % 3}
                    for r in range(3)
                    for n in range(3)
                    if r != n
                ]
            },
            "num_vcs": 1,
        },
        "traffic": {"pattern": "uniform", "injection_rate": 0.9, "packet_size_flits": 8},
    }
    file = tmp_path / "ring.yaml"
    file.write_text(yaml.safe_dump(experiment))
    result = call("run", str(file), "-o", "traffic.measure_cycles=4000")
    assert result.exit_code == 2
    assert "deadlocked" in result.output
    assert "waits for" in result.output


def test_a_routing_plugin_is_named_counted_and_recorded(tmp_path: Path) -> None:
    router = tmp_path / "corner.py"
    router.write_text(
        "def route(request):\n"
        "    topology, here = request.topology, request.router\n"
        "    target = topology.router_of(request.dst)\n"
        "    if here % 8 != target % 8:\n"
        "        return 0 if target % 8 > here % 8 else 1\n"
        "    if here != target:\n"
        "        return 2 if target > here else 3\n"
        "    return topology.ejection_port(request.dst)\n"
    )
    out = tmp_path / "out"
    result = call("run", "noc-mesh8", *SHORT, "-o", f"network.routing={{plugin: {router}:route}}", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "routing plug-in" in result.output
    assert "a Python function" in result.output
    metrics = {row["metric"]: row["value"] for row in json.loads((out / "metrics.json").read_text())["rows"]}
    assert 0 < metrics["routing_calls"] < metrics["routing_heads"]
    provenance = json.loads((out / "provenance.json").read_text())
    assert provenance["routing"]["name"] in provenance["plugins"]
    assert provenance["seeds"] == [1]
