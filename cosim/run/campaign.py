"""Many units: in this process or in several, kept on disk as they finish, decisions replayed where rungs disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cosim.config.loader import parse_yaml
from cosim.report.contents import RUNG_ORDER
from cosim.run.pool import pooled
from cosim.run.recording import DecisionRecord
from cosim.run.setup import Setup
from cosim.run.store import UnitStore
from cosim.run.unit import UnitKey, UnitResult, run_unit
from cosim.system import open_experiment

__all__ = ["Campaign", "CampaignPart", "simulated_rungs", "top_rung"]

Progress = Callable[[float, float, str], None]


def simulated_rungs(rungs: Sequence[str]) -> list[str]:
    """The rungs that are simulated, highest fidelity first."""
    return [rung for rung in reversed(RUNG_ORDER) if rung in rungs and rung != "analytic"]


def top_rung(rungs: Sequence[str]) -> str | None:
    """The highest simulated rung, whose decisions drive the analytical models and the replays."""
    found = simulated_rungs(rungs)
    return found[0] if found else None


@dataclass(frozen=True)
class CampaignPart:
    """One experiment, or one point of its sweeps: ``resolved`` is what a process opens it from again."""

    setup: Setup
    resolved: str
    store: UnitStore
    label: str = ""

    def unit_keys(self) -> list[UnitKey]:
        """The closed-loop units, the longest rungs first."""
        spec = self.setup.spec
        return [
            UnitKey(policy.title, rung, seed)
            for rung in simulated_rungs(spec.rungs)
            for policy in spec.policies
            for seed in spec.seeds
        ]

    def note(self, key: UnitKey) -> str:
        """What is running, for a line of progress."""
        text = f"{key.policy} at {key.rung}, seed {key.seed}"
        return f"{self.label}: {text}" if self.label else text


#: A unit to run: number of its part, key, decisions to take.
_Wanted = tuple[int, UnitKey, "DecisionRecord | None"]
_Found = dict[tuple[int, UnitKey], UnitResult]


@dataclass
class Campaign:
    """The units of an experiment and its points: what is kept is not run again, the rest runs in ``jobs`` processes."""

    parts: Sequence[CampaignPart]
    jobs: int = 1

    def run(
        self, progress: Progress | None = None
    ) -> list[tuple[dict[UnitKey, UnitResult], dict[UnitKey, UnitResult]]]:
        """All units, per part: (closed, replays).

        closed: every (policy, rung, seed), each rung deciding for itself. replays: of the rungs whose decisions
        differed from the top rung's, the same unit under the top rung's decisions. A sampled part runs everything at
        ``link``, the sample at the other rungs under the decisions of ``link``, and has no replays.
        """
        sampled = [part.setup.spec.sampling != "none" for part in self.parts]
        keys = [(number, key) for number, part in enumerate(self.parts) for key in part.unit_keys()]
        first: list[_Wanted] = [
            (number, key, None) for number, key in keys if not sampled[number] or key.rung == "link"
        ]
        later_at_most = sum(
            key.rung != ("link" if sampled[number] else top_rung(self.parts[number].setup.spec.rungs))
            for number, key in keys
        )
        whole = len(first) + later_at_most
        closed = self._run_all(first, progress, 0, whole)
        second: list[_Wanted] = []
        for number, key in keys:
            top = top_rung(self.parts[number].setup.spec.rungs)
            if sampled[number]:
                if key.rung != "link":
                    second.append((number, key, closed[number, UnitKey(key.policy, "link", key.seed)].record))
            elif top is not None and key.rung != top:
                reference = closed[number, UnitKey(key.policy, top, key.seed)].record
                if not closed[number, key].record.same_as(reference):
                    second.append((number, UnitKey(key.policy, key.rung, key.seed, replay=True), reference))
        later = self._run_all(second, progress, whole - len(second), whole)  # replays that none needs count as done
        if progress is not None and not second and keys:
            progress(whole, whole, self.parts[keys[-1][0]].note(keys[-1][1]))
        found = {**closed, **{item: result for item, result in later.items() if not item[1].replay}}
        return [
            (
                {key: found[number, key] for key in part.unit_keys()},
                {key: result for (owner, key), result in later.items() if owner == number and key.replay},
            )
            for number, part in enumerate(self.parts)
        ]

    def run_keys(self, keys: Sequence[UnitKey], progress: Progress | None = None) -> dict[UnitKey, UnitResult]:
        """The given closed-loop units of the first part."""
        found = self._run_all([(0, key, None) for key in keys], progress)
        return {key: result for (_, key), result in found.items()}

    def _run_all(
        self, wanted: Sequence[_Wanted], progress: Progress | None, before: int = 0, whole: int | None = None
    ) -> _Found:
        """``before`` units of the ``whole`` are over already, for the line of progress."""
        results: _Found = {}
        todo: list[_Wanted] = []
        for number, key, record in wanted:
            kept = self.parts[number].store.load(key)
            if kept is None:
                todo.append((number, key, record))
            else:
                results[number, key] = kept
        total = len(wanted) if whole is None else whole
        before += len(results)
        for count, (number, result) in enumerate(self._finished(todo, before, total, progress)):
            self.parts[number].store.save(result)
            results[number, result.key] = result
            if progress is not None:
                progress(before + count + 1, total, self.parts[number].note(result.key))
        return {(number, key): results[number, key] for number, key, _ in wanted}

    def _finished(
        self, todo: Sequence[_Wanted], before: int, total: int, progress: Progress | None
    ) -> Iterator[tuple[int, UnitResult]]:
        if self.jobs == 1 or len(todo) <= 1:
            for count, (number, key, record) in enumerate(todo):
                part = self.parts[number]

                def inner(done: int, layers: int, key: UnitKey = key, count: int = count, number: int = number) -> None:
                    if progress is not None:
                        progress(before + count + done / layers, total, self.parts[number].note(key))

                yield number, _run(part.setup, part.store, key, record, inner)
            return
        parts = [(part.resolved, part.store) for part in self.parts]
        yield from pooled(_work, todo, self.jobs, _start_worker, (parts,))


_worker: dict[str, Any] = {}


def _start_worker(parts: Sequence[tuple[str, UnitStore]]) -> None:
    _worker["parts"] = parts
    _worker["setups"] = {}


def _work(number: int, key: UnitKey, record: DecisionRecord | None) -> tuple[int, UnitResult]:
    resolved, store = _worker["parts"][number]
    if number not in _worker["setups"]:
        document = parse_yaml(resolved)
        assert isinstance(document.data, dict)
        _worker["setups"][number] = Setup(open_experiment(document.data))
    return number, _run(_worker["setups"][number], store, key, record)


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
