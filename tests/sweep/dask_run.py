"""A sweep on a local Dask cluster of two worker processes, one of which is killed with its task: run by a test.

Prints JSON: digests in the order in which their results came, how many were simulated, whether a worker was killed.
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


def main(folder: Path, overrides: list[str], grid: list[str]) -> None:
    base = open_experiment("quickstart", overrides)
    tasks = tasks_of(points_of(base, [parse_axis(text) for text in grid]), [], [])
    came: list[str] = []
    killed: list[int] = []
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        address = "dask://" + cluster.scheduler_address.removeprefix("tcp://")
        with Client(cluster, set_as_default=False) as watcher:

            def progress(done: float, total: float, note: str) -> None:
                came.append(note)
                if done >= 1 and not killed:  # a worker that is in the middle of its next task
                    busy: dict[str, Any] = watcher.processing()
                    worker = next(name for name, held in busy.items() if held)
                    pids: dict[str, int] = watcher.run(os.getpid)
                    killed.append(pids[worker])
                    os.kill(pids[worker], signal.SIGKILL)

            first = run_sweep(tasks, folder, executor=address, progress=progress)
            again = run_sweep(tasks, folder, executor=address)
    print(json.dumps({"notes": came, "first": first.simulated, "again": again.simulated, "killed": len(killed)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
