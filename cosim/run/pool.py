"""Work in several processes: results as they come, Ctrl-C answered by the parent alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, TypeVar

__all__ = ["pooled"]

_Result = TypeVar("_Result")


def pooled(
    work: Callable[..., _Result],
    items: Sequence[tuple[Any, ...]],
    jobs: int,
    prepare: Callable[..., None] | None = None,
    prepared: tuple[Any, ...] = (),
) -> Iterator[_Result]:
    """``work(*item)`` for every item in at most ``jobs`` processes, in the order in which they end.

    Whoever stops listening, and any error, ends the processes.

    Args:
        work, prepare: functions of a module; ``prepare(*prepared)`` is called once in each process.
    """
    with ProcessPoolExecutor(
        min(jobs, len(items)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(prepare, prepared),
    ) as pool:
        with _interrupts_ignored():  # workers are born here, and only the parent answers Ctrl-C
            waiting: set[Future[_Result]] = {pool.submit(work, *item) for item in items}
        try:
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _start(prepare: Callable[..., None] | None, prepared: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    if prepare is not None:
        prepare(*prepared)


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
