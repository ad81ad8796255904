"""A sweep from its grid to its results: what is kept is not run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosim.run.store import UnitStore
from cosim.run.unit import UnitResult
from cosim.sweep.executors import in_processes, on_dask
from cosim.sweep.grid import SweepTask

__all__ = ["SweepRun", "run_sweep"]


@dataclass(frozen=True)
class SweepRun:
    """Results by digest of their task, and how many of them were simulated this time."""

    results: dict[str, UnitResult]
    simulated: int


def _lasting(tasks: Sequence[SweepTask], folder: Path | None) -> dict[str, UnitStore]:
    return {task.digest: UnitStore(folder, task.resolved) for task in tasks}


def run_sweep(
    tasks: Sequence[SweepTask],
    folder: Path | None,
    *,
    jobs: int = 1,
    executor: str | None = None,
    progress: Callable[[float, float, str], None] | None = None,
) -> SweepRun:
    """Simulates what ``folder`` does not hold yet; every unit is kept there as it ends.

    Tasks that are alike, two points that come to the same experiment, run once. The same results on any executor, for
    any number of processes.

    Args:
        executor: ``dask://…``; processes of this machine if not given.
    """
    unique = {task.digest: task for task in tasks}
    stores = _lasting(list(unique.values()), folder)
    results = {digest: kept for digest, task in unique.items() if (kept := stores[digest].load(task.key)) is not None}
    todo = [task for digest, task in unique.items() if digest not in results]
    simulated = 0
    if progress is not None:
        progress(len(results), len(unique), f"{len(results)} of {len(unique)} are there already")
    for digest, result in _finished(todo, jobs, executor):
        if digest in results:
            continue
        stores[digest].save(result)
        results[digest] = result
        simulated += 1
        if progress is not None:
            task = unique[digest]
            progress(
                len(results),
                len(unique),
                f"point {task.point}, {task.key.policy} at {task.key.rung}, seed {task.key.seed}",
            )
    return SweepRun(results, simulated)


def _finished(tasks: Sequence[SweepTask], jobs: int, executor: str | None) -> Iterator[tuple[str, UnitResult]]:
    if not tasks:
        return iter(())
    return in_processes(tasks, jobs) if executor is None else on_dask(tasks, executor)
