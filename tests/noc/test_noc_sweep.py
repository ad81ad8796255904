"""`cosim noc sweep` and `cosim noc check`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner, Result

from cosim.cli import main
from cosim.config.errors import ConfigErrors
from cosim.config.schema_network import ROUTINGS
from cosim.noc import Network
from cosim.noc.sweep import SweepPoint, sweep

MESH4 = {"topology": {"kind": "mesh", "shape": [4, 4]}, "compat": "booksim2"}
SHORT = {"warmup_cycles": 500, "measure_cycles": 2000, "max_drain_cycles": 2000}


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["noc", *arguments])


def test_saturation_lies_between_booksim2s_rows(latency_load: pd.DataFrame) -> None:
    found = sweep(Network(MESH4), "uniform", warmup_cycles=3000, measure_cycles=5000, curve_points=0)
    rows = latency_load.query("case == 'mesh4_uni_p1_vc4' and sim_type == 'latency' and seed == 1")
    beyond = rows["packet_latency_avg"] > 3 * found.zero_load_latency_cycles
    assert rows[~beyond]["injection_rate"].max() < found.saturation_rate < rows[beyond]["injection_rate"].min()
    low, high = found.saturation_between
    assert high - low <= 0.01 * high
    assert low < found.saturation_rate < high
    assert found.zero_load_latency_cycles == pytest.approx(5 * 3.5 + 2, rel=0.02)
    assert found.knee_rate < found.saturation_rate
    assert found.largest_accepted_rate > found.knee_rate
    at = {point.injection_rate: point for point in found.points}
    assert at[low].packet_latency_mean_cycles < 3 * found.zero_load_latency_cycles
    assert not at[high].stable or at[high].packet_latency_mean_cycles >= 3 * found.zero_load_latency_cycles


def test_known_runs_are_not_made_again() -> None:
    made: list[float] = []
    first = sweep(Network(MESH4), "uniform", curve_points=3, report=lambda p: made.append(p.injection_rate), **SHORT)
    known = {point.injection_rate: point for point in first.points[::2]}
    again = sweep(Network(MESH4), "uniform", curve_points=3, known=known, **SHORT)
    assert again == first
    assert sorted(made) == [point.injection_rate for point in first.points]
    false = {0.01: SweepPoint(**{**vars(first.points[0]), "zero_load_latency_mean_cycles": 1000.0})}
    assert math.isnan(sweep(Network(MESH4), "neighbor", curve_points=0, known=false, **SHORT).saturation_rate)


def test_a_network_that_never_saturates_says_so() -> None:
    crossbar = Network({"topology": {"kind": "crossbar", "nodes": 2}, "vc_buf_size": 16, "num_vcs": 8})
    found = sweep(crossbar, {"kind": "hotspot", "nodes": [0]}, curve_points=0, **SHORT)
    assert found.saturation_rate <= 0.51
    ring = Network({"topology": {"kind": "ring", "routers": 3}, "num_vcs": 8, "vc_buf_size": 16})
    found = sweep(ring, "neighbor", curve_points=0, **SHORT)
    assert math.isnan(found.saturation_rate)
    assert found.saturation_between == (1.0, 1.0)


def test_impossible_arguments() -> None:
    with pytest.raises(ConfigErrors, match="relative_width"):
        sweep(Network(MESH4), "uniform", relative_width=0)
    with pytest.raises(ConfigErrors, match="did you mean 'uniform'"):
        sweep(Network(MESH4), "unifrom")


def experiment(tmp_path: Path, **network: Any) -> str:
    file = tmp_path / "mesh.yaml"
    traffic = {"pattern": "uniform", "injection_rate": 0.1, **SHORT}
    file.write_text(yaml.safe_dump({"network": {**MESH4, **network}, "traffic": traffic}))
    return str(file)


def test_the_command_writes_what_it_finds_and_goes_on(tmp_path: Path) -> None:
    file, out = experiment(tmp_path), tmp_path / "out"
    arguments = ("sweep", file, "--out", str(out), "--points", "3", "--width", "0.05")
    first = call(*arguments)
    assert first.exit_code == 0, first.output
    for part in ("latency without contention", "knee (twice", "saturation (three times)", "95 % interval"):
        assert part in first.output
    names = ("sweep.csv", "metrics.json", "sweep.html")
    whole = {name: (out / name).read_bytes() for name in names}
    runs = whole["sweep.csv"].decode().splitlines()
    # interrupted after four runs: the rest is made, to the same bytes
    (out / "sweep.csv").write_text("\n".join(runs[:5]) + "\n")
    (out / "sweep.html").unlink()
    assert call(*arguments).exit_code == 0
    assert {name: (out / name).read_bytes() for name in names} == whole
    metrics = {row["metric"]: row["value"] for row in json.loads(whole["metrics.json"])["rows"]}
    assert 0.6 < metrics["saturation_rate"] < 0.8
    page = whole["sweep.html"].decode()
    assert page.count("<svg") >= 2
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "saturation" in page
    other = call("sweep", file, "-o", "network.num_vcs=2", "--out", str(out))
    assert other.exit_code == 2
    assert "a sweep of another one" in other.output


def test_check_proves_or_names_a_cycle(tmp_path: Path) -> None:
    good = call("check", experiment(tmp_path))
    assert good.exit_code == 0
    assert "deadlock-free: no cycle of channel dependencies" in good.output
    torus = {"topology": {"kind": "torus", "shape": [4, 4]}, "routing": "dateline_booksim", "num_vcs": 3}
    bad = call("check", experiment(tmp_path, **torus))
    assert bad.exit_code == 2
    assert "may deadlock: a cycle of" in bad.output
    assert "-> again" in bad.output
    proved = call("check", experiment(tmp_path, routing="min_adaptive", compat="none"))
    assert proved.exit_code == 0
    assert "an escape VC is always open" in proved.output


def test_check_without_a_file_covers_everything_shipped() -> None:
    result = call("check")
    assert result.exit_code == 0, result.output
    users = {"table", "plugin"}
    shipped = [(kind, routing) for kind, names in ROUTINGS.items() for routing in names if routing not in users]
    assert [tuple(line.split()[:2]) for line in result.output.splitlines()] == shipped
    assert call("check", "-o", "network.num_vcs=1").exit_code == 2
