"""Flips items of the raw state of systems stopped in the middle of a run: the canonical form must change, or nothing.

    PYTHONPATH=tests/run python tests/run/flip_cases.py --flips 20000 --seed 1

A flip changes one bit of what ``Engine.save()`` wrote. Then one of these must hold:

- the state cannot be loaded or shown any more, or has another form, so skipping would not take it for the same;
- its form is the same, and so is its future: the form after 1, 20, 200 and 1,000 further instants, how much everything
  that grows has grown by then, and, if nothing that grows was flipped, the records of the tasks that have ended.

Flips are made in a child process, which may crash while it loads or shows a state, not while it goes on from one.

Not flipped: the task graph and the decision handed out last, which change at the graph's own instants alone, and no
period contains one of those; and each node's count of messages sent, which is above that of all of its messages under
way: a flip would let later messages overtake them.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import skipping_cases
from mixed_run import submit_mixed
from small_system import Bench, line

from cosim.run.machine import build_machine
from cosim.system.loading import load_system

Form = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]

HORIZONS = (1, 20, 200, 1000)
"""Instants after which a state that shows the same form is compared."""

_SECONDS = 20
_MOST_MEMORY = 1 << 28


def _mixed(rung: str, **changes: Any) -> Bench:
    """Fetches, jobs, prefetches, revokes, transfers and copies, between memories at both ends of five routers."""
    settings: dict[str, dict[str, Any]] = {
        "level": {"max_packet_flits": 4, "header_bytes": "8 B", **changes.pop("level", {})},
        "expert": {"tile": "512 B", "expert_buffer": "4 KiB"},
        "node": {"read_return_slots": 16},
        **changes,
    }
    bench = Bench.of(rung, routers=5, memories=(0, 4), **settings)
    submit_mixed(bench)
    return bench


def _streams(rung: str, **changes: Any) -> Bench:
    """Two streams that share the way, and a copy of what the first reads."""
    bench = Bench.of(rung, routers=4, memories=(0, 3), **changes)
    for reader in (1, 2):
        fetch = bench.fetch(0, reader, 400 * 256, address=reader << 20)
        bench.compute(reader, 400 * 11 + 3, stream=fetch)
    bench.copy(0, 3, 64 * 1024, address=1 << 20, to_address=1 << 22)
    bench.submit()
    return bench


def _stacked(rung: str) -> Bench:
    """A compute endpoint stacked with the memory, and one beside it."""
    found = line()
    path = {"on": "memory", "bandwidth": "20 GB/s", "latency": "2 ns"}
    found["endpoints"]["stacked"] = {**found["endpoints"]["expert"], "at": {"package": [0]}, "near_memory": path}
    bench = Bench(build_machine(load_system(found), rung))
    for reader in (1, 4):
        fetch = bench.fetch(0, reader, 400 * 256, address=reader << 20)
        bench.compute(reader, 400 * 5, stream=fetch)
    bench.submit()
    return bench


def _crossing(rung: str) -> Bench:
    """Tokens of all endpoints of a 3 x 3 mesh for all others: several inputs of every router want the same output."""
    level = {"topology": {"kind": "mesh", "shape": [3, 3]}, "num_vcs": 6}
    bench = Bench.of(rung, routers=9, memories=(4,), level=level)
    chiplets = [router for router in range(9) if router != 4]
    for turn in range(1, 8):
        for number, source in enumerate(chiplets):
            bench.transfer(source, chiplets[(number + turn * 3) % 8], 4096)
    bench.submit()
    return bench


_LINES = [seed for seed in range(40, 60) if skipping_cases.kind_of(seed) == "line"][:8]
_PER_BANK = {"address_map": "RoBaSiCoBgPcCh", "refresh": "per_bank", "timing": {"nREFIpb": 300}}
_ALL_BANK = {"refresh": "all_bank", "timing": {"nREFI": 900}, "page_policy": "closed"}

CASES: dict[str, Callable[[], Bench]] = {
    "link": lambda: _mixed("link"),
    "link+command": lambda: _mixed("link+command", memory=_PER_BANK),
    "flit+rate": lambda: _mixed("flit+rate"),
    "flit": lambda: _mixed("flit", memory=_PER_BANK),
    "flit, all-bank, closed pages": lambda: _mixed("flit", memory=_ALL_BANK),
    "flit, HBM3": lambda: _streams("flit", memory={"preset": "HBM3_6400", "refresh": "per_bank", "channels": 2}),
    "link+command, streams": lambda: _streams("link+command", memory={"refresh": "none", "read_queue": 8}),
    "flit+rate, streams": lambda: _streams("flit+rate", level={"clock": "0.9 GHz", "vc_buf_size": 2}),
    "flit, SRAM": lambda: _mixed("flit", memory={"preset": "SRAM_64MiB"}),
    "flit, stacked": lambda: _stacked("flit"),
    "flit+rate, stacked": lambda: _stacked("flit+rate"),
    "flit+rate, crossing": lambda: _crossing("flit+rate"),
    "flit+rate, separable": lambda: _mixed(
        "flit+rate",
        level={
            "vc_allocator": "separable_input_first",
            "sw_allocator": "separable_output_first",
            "arb_type": "matrix",
            "wait_for_tail_credit": True,
        },
    ),
    "flit+rate, iSLIP of two": lambda: _mixed("flit+rate", level={"alloc_iters": 2, "speculative": True}),
    "flit+rate, slow router": lambda: _mixed(
        "flit+rate", level={"st_final_delay": 3, "vc_alloc_delay": 2, "credit_delay": 3, "priority": "age"}
    ),
    **{f"random {seed}": partial(skipping_cases.prepared, seed) for seed in _LINES},
}
"""Name → a system with everything submitted."""


@dataclass(frozen=True)
class Flip:
    """A bit of an item of a node: ``item`` counts the node's, ``element`` the item's, ``byte`` the element's."""

    at: int
    bit: int
    node: int
    item: int
    element: int
    byte: int

    def __str__(self) -> str:
        return f"node {self.node} item {self.item}[{self.element}] byte {self.byte} bit {self.bit}"


def go(bench: Bench, instants: int) -> None:
    """That many instants further, or to the end."""
    engine = bench.machine.engine
    left = instants
    while left > 0:
        before = engine.instants
        more = engine.step(left, True)
        left -= engine.instants - before
        if not more and engine.instants == before:
            return


def flips(
    layout: dict[str, npt.NDArray[np.int64]], count: int, draw: np.random.Generator, only: int | None = None
) -> list[Flip]:
    """Bits of ``count`` bytes, an item of four times the size drawn twice as often; of all nodes, or only of one."""
    node, size, width = (layout[name] for name in ("node", "size", "width"))
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    numbers = np.zeros(len(node), dtype=np.int64)
    for position in range(1, len(node)):
        numbers[position] = numbers[position - 1] + 1 if node[position] == node[position - 1] else 0
    decision = (node == -1) & (numbers == 3)
    counters = np.flatnonzero(layout["counter"])
    sent = np.zeros(len(node), dtype=bool)
    sent[counters[np.unique(node[counters], return_index=True)[1]]] = True
    sent[node == -1] = False
    wanted = node != 0 if only is None else node == only
    items = np.flatnonzero(wanted & (size > 0) & ~decision & ~sent & (np.arange(len(node)) > 0))
    weights = np.sqrt(size[items])
    chosen = draw.choice(items, count, p=weights / weights.sum())
    found = []
    for item in chosen.tolist():
        at = int(draw.integers(size[item]))
        element, byte = divmod(at, int(width[item]))
        found.append(
            Flip(int(start[item]) + at, int(draw.integers(8)), int(node[item]), int(numbers[item]), element, byte)
        )
    return found


def flips_of_names(begun: Bench, stopped: Stopped, count: int, draw: np.random.Generator, network: int) -> list[Flip]:
    """Low bits of what said none (255) in a network's routers at rest and names something now: ports, owners, winners.

    A router's record is the widest element of its network.
    """

    def records(saved: bytes, layout: dict[str, npt.NDArray[np.int64]]) -> tuple[int, int, npt.NDArray[np.uint8], int]:
        item = int(np.argmax(np.where(layout["node"] == network, layout["width"], 0)))
        first = int(layout["size"][:item].sum())
        shown = np.frombuffer(saved, dtype=np.uint8)[first : first + int(layout["size"][item])]
        return item - int(np.argmax(layout["node"] == network)), first, shown, int(layout["width"][item])

    *_, rest, _ = records(begun.machine.engine.save(), begun.machine.engine.layout())
    item, first, now, width = records(stopped.saved, stopped.layout)
    found = [
        Flip(first + at, bit, network, item, *divmod(at, width))
        for at in np.flatnonzero((rest == 255) & (now != 255)).tolist()
        for bit in (0, 1)
    ]
    return [found[at] for at in draw.permutation(len(found))[:count].tolist()]


@dataclass
class Stopped:
    """A system stopped in the middle, with what comes next; ``whole`` is the form that lacks nothing."""

    bench: Bench
    without: str
    whole: Form
    saved: bytes
    layout: dict[str, npt.NDArray[np.int64]]
    form: Form
    later: list[Form]
    ended: list[tuple[Any, ...]]

    @classmethod
    def at(cls, bench: Bench, instants: int, without: str = "nothing") -> Stopped:
        bench.machine.engine.skipping = False
        if without != "nothing":
            bench.machine.engine.leave_out(without)
        go(bench, instants)
        engine = bench.machine.engine
        engine.take_records()
        saved, layout = engine.save(), engine.layout()
        engine.load(saved)
        form = whole = engine.form()
        if without != "nothing":
            engine.leave_out("nothing")
            whole = engine.form()
            engine.leave_out(without)
        assert engine.has_form(*form)
        later = []
        for horizon in HORIZONS:
            go(bench, horizon)
            later.append(engine.form())
        return cls(bench, without, whole, saved, layout, form, later, records(bench))


def records(bench: Bench) -> list[tuple[Any, ...]]:
    """Of the tasks that have ended since they were last taken."""
    return [tuple(column.tolist()) for _, column in sorted(bench.machine.engine.take_records().items())]


def loaded(stopped: Stopped, flip: Flip) -> bool:
    """Whether the flipped state shows the form of the other, by the part alone that the form lacks, if any."""
    raw = bytearray(stopped.saved)
    raw[flip.at] ^= 1 << flip.bit
    engine = stopped.bench.machine.engine
    try:
        engine.load(bytes(raw))
        if stopped.without != "nothing":
            engine.leave_out("nothing")
            same = engine.has_form(*stopped.whole)
            engine.leave_out(stopped.without)
            if same:
                return False
        return bool(engine.has_form(*stopped.form))
    except (RuntimeError, ValueError, MemoryError, IndexError, OverflowError):
        return False


def stays_apart(now: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> bool:
    """Whether nothing that grows is farther apart than something was before.

    What counts comes and goes with messages and streams, so its place in the form may have changed.
    """
    return set(now.tolist()) <= {0, *before.tolist()}


def went_elsewhere(stopped: Stopped) -> str:
    """How a state of the same form goes on otherwise; empty when it does not."""
    engine = stopped.bench.machine.engine
    _, _, begun = engine.form()
    plain = np.array_equal(begun, stopped.form[2])
    for horizon, (now, same, grows) in zip(HORIZONS, stopped.later, strict=True):
        go(stopped.bench, horizon)
        here = engine.form()
        if here[0] != now:
            return f"another time after {horizon}"
        if not np.array_equal(here[1], same):
            return f"another form after {horizon}"
        if len(here[2]) != len(grows) or not stays_apart(here[2] - grows, begun - stopped.form[2]):
            return f"other growth after {horizon}"
    if plain and records(stopped.bench) != stopped.ended:
        return "other records"
    return ""


def _child(stopped: Stopped, chosen: list[Flip], write: int) -> None:
    """Answers ``number word`` lines; ends with the first state whose future is another."""
    faulthandler.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_MEMORY, hard))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number, flip in enumerate(chosen):
        signal.alarm(_SECONDS)
        os.write(write, f"{number} loading\n".encode())
        if not loaded(stopped, flip):
            os.write(write, f"{number} differs\n".encode())
            continue
        os.write(write, f"{number} going\n".encode())
        try:
            how = went_elsewhere(stopped)
        except (RuntimeError, ValueError, MemoryError, IndexError, OverflowError) as error:
            how = f"{type(error).__name__} {str(error).splitlines()[0][:80]}"
        os.write(write, f"{number} {'other ' + how if how else 'same'}\n".encode())
        if how:
            return


def outcomes(stopped: Stopped, chosen: list[Flip]) -> Iterator[tuple[Flip, str]]:
    """Of each flip: ``differs``, ``same``, or how its future is another."""
    at = 0
    while at < len(chosen):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(stopped, chosen[at:], write)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, encoding="ascii") as lines:
            said = [line.rstrip("\n").split(" ", 1) for line in lines]
        os.waitpid(child, 0)
        last = {int(number): word for number, word in said}
        for number, word in last.items():
            if word == "loading":
                word = "differs"  # it could not be loaded or shown
            elif word == "going":
                word = "other crash"
            yield chosen[at + number], word
        at += len(last)


def run(
    name: str,
    stop: int,
    count: int,
    seed: int,
    without: str = "nothing",
    only: int | None = None,
    names: int | None = None,
) -> tuple[Counter[str], list[tuple[Flip, str]]]:
    """Flips of one stopped system: how many of each outcome, and those whose future is another.

    ``without`` leaves a part out of the form, and ends the run at the first such flip. ``only`` is the node that flips
    are of, ``names`` the one whose names of owners, ports and winners are flipped.
    """
    stopped = Stopped.at(CASES[name](), stop, without)
    draw = np.random.default_rng([seed, stop, len(name)])
    if names is None:
        chosen = flips(stopped.layout, count, draw, only)
    else:
        chosen = flips_of_names(CASES[name](), stopped, count, draw, names)
    counts: Counter[str] = Counter()
    bad = []
    for flip, outcome in outcomes(stopped, chosen):
        counts[outcome.split()[0]] += 1
        if outcome.startswith("other"):
            bad.append((flip, outcome))
            if without != "nothing":
                break
    return counts, bad


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description="flips of the raw state of systems stopped in the middle of a run")
    parser.add_argument("--flips", type=int, default=20_000, help="over all cases and stops")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stops", type=int, default=3, help="of each case")
    parser.add_argument("--case", choices=list(CASES), action="append")
    parser.add_argument("--without", default="nothing", help="a part of the form that it lacks")
    parser.add_argument("--show", type=int, default=10, help="failures printed of each stop")
    chosen = parser.parse_args()
    names = chosen.case or list(CASES)
    total: Counter[str] = Counter()
    each = -(-chosen.flips // (len(names) * chosen.stops))
    for name in names:
        draw = np.random.default_rng([chosen.seed, *name.encode()])
        for stop in sorted(draw.integers(200, 3000, chosen.stops).tolist()):
            counts, bad = run(name, stop, each, chosen.seed, chosen.without)
            total += counts
            print(f"{name} at {stop}: {dict(counts)}", flush=True)
            for flip, outcome in bad[: chosen.show]:
                print(f"  {flip}: {outcome}")
    print(f"{sum(total.values())} flips: {total['differs']} change the form, {total['same']} change nothing")
    print(f"{total['other']} of the same form have another future")
    return 1 if total["other"] else 0


if __name__ == "__main__":
    sys.exit(main())
