"""Where the units of a sweep run: in processes of this machine, or on a Dask cluster.

Both hand out tasks and take results in the order in which they end; whoever listens keeps them. A task is a function of
its own text alone, so that one which a killed worker has taken along is simply run again, to the same bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

from cosim import __version__
from cosim.config.errors import ConfigErrors
from cosim.config.loader import parse_yaml
from cosim.run.pool import pooled
from cosim.run.setup import Setup
from cosim.run.unit import UnitResult, run_unit
from cosim.sweep.grid import SweepTask
from cosim.system import open_experiment

__all__ = ["in_processes", "on_dask", "run_task"]

_SCHEME = "dask://"
_setups: dict[str, Setup] = {}


def run_task(task: SweepTask) -> tuple[str, UnitResult]:
    """Simulates one unit; the task's digest and its result.

    Raises:
        RuntimeError: this worker has another version of cosim than whoever made the task.
    """
    if task.version != __version__:
        raise RuntimeError(f"the sweep is of cosim {task.version}, this worker has {__version__}")
    if task.resolved not in _setups:
        _setups.clear()  # a process works through one point after the other: one trace in memory is enough
        document = parse_yaml(task.resolved)
        assert isinstance(document.data, dict)
        _setups[task.resolved] = Setup(open_experiment(document.data))
    return task.digest, run_unit(_setups[task.resolved], task.key)


def in_processes(tasks: Sequence[SweepTask], jobs: int) -> Iterator[tuple[str, UnitResult]]:
    """Runs tasks in ``jobs`` processes, in this one if that is enough."""
    if jobs == 1 or len(tasks) <= 1:
        yield from map(run_task, tasks)
        return
    yield from pooled(run_task, [(task,) for task in tasks], jobs)


def on_dask(tasks: Sequence[SweepTask], address: str) -> Iterator[tuple[str, UnitResult]]:
    """Runs tasks on a Dask cluster, ``dask://host:port`` or ``dask:///path/to/scheduler.json``.

    Workers need cosim of this version and every file the experiment names, at the same path. Results that have come
    here are dropped there.

    Raises:
        ConfigErrors: another scheme, or no ``distributed`` here.
        OSError: no scheduler answers.
    """
    if not address.startswith(_SCHEME) or address == _SCHEME:
        raise ConfigErrors.single("dask://host:port or dask:///path/to/scheduler.json", repr(address), path="executor")
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise ConfigErrors.single(
            "the package distributed", "none", path="executor", suggestion="pip install 'cosim-moe[dask]'"
        ) from None
    place = address.removeprefix(_SCHEME)
    where = {"scheduler_file": place} if place.startswith("/") else {"address": f"tcp://{place}"}
    with distributed.Client(**where) as client:
        waiting = {client.submit(run_task, task, key=f"cosim-{task.digest}", pure=True) for task in tasks}
        for future in distributed.as_completed(list(waiting)):
            result = future.result()
            waiting.discard(future)
            future.release()
            yield result
