"""`cosim sweep`: grids, results that do not depend on who runs them, resuming, a killed Dask worker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from cosim.cli import main
from cosim.config.errors import ConfigErrors
from cosim.run.store import UnitStore
from cosim.sweep.executors import on_dask, run_task
from cosim.sweep.grid import GridPoint, SweepTask, parse_axis, points_of, tasks_of
from cosim.sweep.results import LATENCY
from cosim.system import open_experiment

SMALL = ["workload.layers=0", "workload.batches=1", "rungs=[link]", "analytic=[]", "seeds=[1]"]
GRID = ["workload.batch_tokens=[8, 16]", "system.levels.package.link_latency=[1, 2]"]
Made = tuple[list[GridPoint], list[SweepTask]]


@pytest.fixture(scope="module")
def made() -> Made:
    points = points_of(open_experiment("quickstart", SMALL), [parse_axis(text) for text in GRID])
    return points, tasks_of(points, [], [])


def test_a_grid_is_every_combination_once(made: Made) -> None:
    points, tasks = made
    assert [list(point.values.values()) for point in points] == [[8, 1], [8, 2], [16, 1], [16, 2]]
    assert len(tasks) == 8
    assert len({task.digest for task in tasks}) == 8
    assert tasks_of(points[:1], ["static"], ["link"]) == [tasks[0]]
    with pytest.raises(ConfigErrors, match="one of static, hot_replication"):
        tasks_of(points[:1], ["statik"], [])


@pytest.mark.parametrize(
    ("axis", "message"),
    [("a", "key.path=value"), ("a=4", "key="), ("a=[]", "key="), ("a=[1, 2, 1]", "every value once")],
)
def test_axes_that_are_none(axis: str, message: str) -> None:
    with pytest.raises(ConfigErrors, match=re.escape(message)):
        parse_axis(axis)


def test_every_wrong_point_is_named() -> None:
    base = open_experiment("quickstart", SMALL)
    axes = [parse_axis("workload.batch_tokens=[8, 0, -3]"), parse_axis("workload.modell=[a]")]
    with pytest.raises(ConfigErrors) as error:
        points_of(base, axes)
    text = str(error.value)
    assert text.count("workload.modell") >= 3
    assert "workload.batch_tokens=0" in text
    assert "workload.batch_tokens=-3" in text


def test_the_command_resumes_grows_and_does_not_depend_on_processes(tmp_path: Path) -> None:
    options = [part for text in SMALL for part in ("-o", text)]

    def sweep(folder: str, jobs: int, *grid: str) -> str:
        axes = [part for text in grid for part in ("-g", text)]
        arguments = ["sweep", "quickstart", *axes, *options, "--out", str(tmp_path / folder), "--jobs", str(jobs)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.output

    assert "2 of 2 units simulated now" in sweep("a", 1, "workload.batch_tokens=[8]")
    assert "2 of 4 units simulated now" in sweep("a", 1, "workload.batch_tokens=[8, 24]")
    once = (tmp_path / "a" / "sweep.parquet").read_bytes()
    assert "0 of 4 units simulated now" in sweep("a", 1, "workload.batch_tokens=[8, 24]")
    assert (tmp_path / "a" / "sweep.parquet").read_bytes() == once
    assert "4 of 4 units simulated now" in sweep("b", 2, "workload.batch_tokens=[8, 24]")
    for name in ("sweep.parquet", "sweep.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    frame = pd.read_parquet(tmp_path / "a" / "sweep.parquet")
    assert list(frame.columns) == [
        "point",
        "workload.batch_tokens",
        "policy",
        "rung",
        "seed",
        "metric",
        "unit",
        "value",
    ]
    assert not frame.duplicated(["point", "policy", "rung", "seed", "metric"]).any()
    latency = frame[frame["metric"] == LATENCY].groupby(["policy", "workload.batch_tokens"])["value"].sum()
    assert latency["static", 24.0] > latency["static", 8.0]
    page = (tmp_path / "a" / "sweep.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "workload.batch_tokens" in page


def test_a_killed_dask_worker_loses_nothing_and_repeats_nothing(made: Made, tmp_path: Path) -> None:
    grid = ["workload.batch_tokens=[8, 16]"]
    arguments = [str(tmp_path / "units"), json.dumps(SMALL), json.dumps(grid)]
    path = os.pathsep.join(os.path.abspath(part) for part in sys.path if part)
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("dask_run.py")), *arguments],
        # whoever asks the dead worker for a result gives up soon
        env={**os.environ, "PYTHONPATH": path, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout.splitlines()[-1])
    assert said["died"] == 1
    assert said["first"] == 4
    assert said["again"] == 0
    assert len(set(said["notes"])) == len(said["notes"]) == 5  # the start, and every unit once
    points, tasks = made  # of which the cluster ran those with the link latency of the file, 2
    ran = [task for task in tasks if points[task.point].values["system.levels.package.link_latency"] == 2]
    for task in ran:
        kept = UnitStore(tmp_path / "units", task.resolved).load(task.key)
        assert kept is not None
        _, alone = run_task(task)
        assert kept.record.same_as(alone.record)
        assert kept.figures == alone.figures
        assert kept.frames["groups"].equals(alone.frames["groups"])


def test_executors_that_are_none(made: Made) -> None:
    tasks = made[1][:1]
    for address in ("tcp://somewhere:1", "dask://"):
        with pytest.raises(ConfigErrors, match="dask://host:port"):
            list(on_dask(tasks, address))
    with pytest.raises(RuntimeError, match="this worker has"):
        run_task(SweepTask(0, tasks[0].resolved, tasks[0].key, version="0.0.1"))
