"""A sweep on a local Dask cluster of two worker processes, one of which dies with a unit in its hands: run by a test.

Nothing waits for a clock: the worker kills itself when it has simulated its second unit and not yet handed it over.
Prints JSON: notes of results in the order in which they came, how many were simulated, whether a worker died.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster

from cosim.sweep.grid import parse_axis, points_of, tasks_of
from cosim.sweep.runner import run_sweep
from cosim.system import open_experiment


def die_with_the_second_unit(mark: str) -> None:
    """On a worker: of all workers the first to have simulated two units is killed before it gives the second away."""
    from cosim.sweep import executors

    simulate = executors.run_unit
    done: list[Any] = []

    def run_unit(*arguments: Any) -> Any:
        result = simulate(*arguments)
        if done:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass  # the other one was first
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        done.append(arguments)
        return result

    executors.run_unit = run_unit


def main(folder: Path, overrides: list[str], grid: list[str]) -> None:
    base = open_experiment("quickstart", overrides)
    tasks = tasks_of(points_of(base, [parse_axis(text) for text in grid]), [], [])
    came: list[str] = []
    mark = folder.with_suffix(".died")
    # four units on two workers: one of them has two; the dead one is not started again
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        for nanny in cluster.workers.values():
            nanny.auto_restart = False
        address = "dask://" + cluster.scheduler_address.removeprefix("tcp://")
        with Client(cluster, set_as_default=False) as watcher:
            watcher.wait_for_workers(2)
            watcher.run(die_with_the_second_unit, str(mark))
        first = run_sweep(tasks, folder, executor=address, progress=lambda done, total, note: came.append(note))
        again = run_sweep(tasks, folder, executor=address)
    print(json.dumps({"notes": came, "first": first.simulated, "again": again.simulated, "died": int(mark.is_file())}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
