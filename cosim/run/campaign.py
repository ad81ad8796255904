"""Many units: in this process or in several, kept on disk as they finish, decisions replayed where rungs disagree."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from cosim.config.loader import parse_yaml
from cosim.report.contents import RUNG_ORDER
from cosim.run.recording import DecisionRecord
from cosim.run.setup import Setup
from cosim.run.store import UnitStore
from cosim.run.unit import UnitKey, UnitResult, run_unit
from cosim.system import open_experiment

__all__ = ["Campaign", "simulated_rungs", "top_rung"]

Progress = Callable[[float, float, str], None]


def simulated_rungs(rungs: Sequence[str]) -> list[str]:
    """The rungs that are simulated, highest fidelity first."""
    return [rung for rung in reversed(RUNG_ORDER) if rung in rungs and rung != "analytic"]


def top_rung(rungs: Sequence[str]) -> str | None:
    """The highest simulated rung, whose decisions drive the analytical models and the replays."""
    found = simulated_rungs(rungs)
    return found[0] if found else None


@dataclass
class Campaign:
    """The units of one experiment: what is kept is not run again, the rest runs in ``jobs`` processes."""

    setup: Setup
    resolved: str
    store: UnitStore
    jobs: int = 1

    def keys(self) -> list[UnitKey]:
        """The closed-loop units, the longest rungs first."""
        spec = self.setup.spec
        return [
            UnitKey(policy.title, rung, seed)
            for rung in simulated_rungs(spec.rungs)
            for policy in spec.policies
            for seed in spec.seeds
        ]

    def run(self, progress: Progress | None = None) -> tuple[dict[UnitKey, UnitResult], dict[UnitKey, UnitResult]]:
        """All units: (closed, replays).

        closed: every (policy, rung, seed), each rung deciding for itself. replays: of the rungs whose decisions
        differed from the top rung's, the same unit under the top rung's decisions.
        """
        keys = self.keys()
        if self.setup.spec.sampling != "none":
            return self._run_sampled(keys, progress), {}
        closed = self._run_all([(key, None) for key in keys], progress)
        top = top_rung(self.setup.spec.rungs)
        wanted: list[tuple[UnitKey, DecisionRecord | None]] = []
        for key in keys:
            if key.rung == top or top is None:
                continue
            reference = closed[UnitKey(key.policy, top, key.seed)].record
            if not closed[key].record.same_as(reference):
                wanted.append((UnitKey(key.policy, key.rung, key.seed, replay=True), reference))
        return closed, self._run_all(wanted, progress)

    def run_keys(self, keys: Sequence[UnitKey], progress: Progress | None = None) -> dict[UnitKey, UnitResult]:
        """The given closed-loop units."""
        return self._run_all([(key, None) for key in keys], progress)

    def _run_sampled(self, keys: Sequence[UnitKey], progress: Progress | None) -> dict[UnitKey, UnitResult]:
        """Everything at ``link``; the sample at the other rungs, under the decisions of ``link``."""
        whole = self._run_all([(key, None) for key in keys if key.rung == "link"], progress)
        wanted = [(key, whole[UnitKey(key.policy, "link", key.seed)].record) for key in keys if key.rung != "link"]
        found = {**whole, **self._run_all(wanted, progress)}
        return {key: found[key] for key in keys}

    def _run_all(
        self, wanted: Sequence[tuple[UnitKey, DecisionRecord | None]], progress: Progress | None
    ) -> dict[UnitKey, UnitResult]:
        results: dict[UnitKey, UnitResult] = {}
        todo: list[tuple[UnitKey, DecisionRecord | None]] = []
        for key, record in wanted:
            kept = self.store.load(key)
            if kept is None:
                todo.append((key, record))
            else:
                results[key] = kept
        total = len(wanted)
        for number, result in enumerate(self._finished(todo, len(results), total, progress)):
            self.store.save(result)
            results[result.key] = result
            if progress is not None:
                done = total - len(todo) + number + 1
                progress(done, total, f"{result.key.policy} at {result.key.rung}, seed {result.key.seed}")
        return {key: results[key] for key, _ in wanted}

    def _finished(
        self,
        todo: Sequence[tuple[UnitKey, DecisionRecord | None]],
        before: int,
        total: int,
        progress: Progress | None,
    ) -> Iterator[UnitResult]:
        if self.jobs == 1 or len(todo) <= 1:
            for number, (key, record) in enumerate(todo):

                def inner(done: int, layers: int, key: UnitKey = key, number: int = number) -> None:
                    if progress is not None:
                        progress(before + number + done / layers, total, f"{key.policy} at {key.rung}, seed {key.seed}")

                yield _run(self.setup, self.store, key, record, inner)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(
            min(self.jobs, len(todo)),
            mp_context=context,
            initializer=_start_worker,
            initargs=(self.resolved, self.store),
        ) as pool:
            with _interrupts_ignored():  # workers are born here, and only the parent answers Ctrl-C
                waiting: set[Future[UnitResult]] = {pool.submit(_work, key, record) for key, record in todo}
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


_worker: dict[str, Any] = {}


def _start_worker(resolved: str, store: UnitStore) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    document = parse_yaml(resolved)
    assert isinstance(document.data, dict)
    _worker["setup"] = Setup(open_experiment(document.data))
    _worker["store"] = store


def _work(key: UnitKey, record: DecisionRecord | None) -> UnitResult:
    return _run(_worker["setup"], _worker["store"], key, record)


def _run(
    setup: Setup,
    store: UnitStore,
    key: UnitKey,
    record: DecisionRecord | None,
    progress: Callable[[int, int], None] | None = None,
) -> UnitResult:
    only = _sample(setup, key)
    return run_unit(setup, key, record, progress, only, lambda loop: store.resume(key, loop))


def _sample(setup: Setup, key: UnitKey) -> frozenset[tuple[int, int]] | None:
    return None if key.rung == "link" else setup.sample(key.seed)
