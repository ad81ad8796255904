"""Random coupled systems with streams long enough to repeat themselves, run with skipping on and off.

    PYTHONPATH=tests/run python tests/run/skipping_cases.py --cases 500 --seed 1

runs as many cases as it is told and ends with 1 when any result differs, or when too few skipped anything.

Two cases in three are lines of routers with fetches, jobs, tokens, prefetches, revokes and copies; the others add
streams to groups of endpoints, by unicasts, multicasts or sessions, or are chiplets under a package with gateways.
Where the canonical form says no, the case is stepped, and must be equal all the more.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import two_levels
from mixed_run import everything
from small_system import NS, Bench

from cosim._core import TaskKind
from cosim.run.machine import RUNG_KNOBS

_RUNGS = tuple(RUNG_KNOBS)

KINDS = ("line", "unicasts", "multicasts", "sessions", "levels")
"""What a case is: see above."""

BROADCASTS: dict[str, dict[str, Any]] = {
    "multicasts": {"vcs": [3]},
    "sessions": {"session": {"setup_cycles": 3, "teardown_cycles": 2, "segment_delay": 1}},
}

Form = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Outcome:
    """Two runs of one case: what differs between them, and what skipping did."""

    seed: int
    rung: str
    kind: str
    differences: tuple[str, ...]
    periods: int
    skipped_share: float
    reasons: tuple[str, ...]


def system(draw: np.random.Generator) -> dict[str, Any]:
    """What of the line of routers differs from the default."""

    def pick(*items: Any) -> Any:
        return items[int(draw.integers(len(items)))]

    routers = int(draw.integers(2, 6))
    count = int(draw.integers(1, min(2, routers - 1) + 1))
    memories = tuple(sorted(draw.permutation(routers)[:count].tolist()))
    flit = pick(16, 32, 64)
    tile = pick(128, 256, 512, 1024)
    memory: dict[str, Any] = {
        "preset": pick("HBM2_2000", "HBM2_2000", "HBM2_2400", "HBM2_2000", "HBM3_6400"),
        "channels": pick(1, 1, 2),
        "read_queue": pick(2, 8, 32),
        "refresh": pick("none", "none", "none", "all_bank", "per_bank"),
    }
    if memory["preset"].startswith("HBM2"):
        memory["address_map"] = pick("RoBaSiCoBgPcCh", "RoBaSiBgPcChCo")
        memory["page_policy"] = pick("open", "open", "closed")
        if memory["refresh"] == "per_bank" and draw.random() < 0.7:
            memory["timing"] = {"nREFIpb": int(draw.integers(40, 400))}
        if memory["refresh"] == "all_bank" and draw.random() < 0.7:
            memory["timing"] = {"nREFI": int(draw.integers(500, 3000))}
    return {
        "routers": routers,
        "memories": memories,
        "level": {
            "flit_width": f"{flit} B",
            "clock": pick("1 GHz", "1 GHz", "0.9 GHz", "1.4 GHz"),
            "num_vcs": pick(3, 4, 6),
            "vc_buf_size": pick(2, 4, 8),
            "max_packet_flits": pick(128, 512) // flit,
            "header_bytes": f"{pick(0, 8)} B",
        },
        "expert": {
            "tile": f"{tile} B",
            "expert_buffer": f"{tile * int(draw.integers(1, 9))} B",
            "grant_latency": int(draw.integers(0, 4)),
        },
        "memory": memory,
        "node": {"read_return_slots": pick(16, 64)},
    }


def calm(changes: dict[str, Any]) -> dict[str, Any]:
    """The same system without what keeps banks from repeating themselves soon."""
    memory = {**changes["memory"], "refresh": "none", "preset": "HBM2_2000", "channels": 1}
    memory.pop("timing", None)
    return {**changes, "memory": memory, "level": {**changes["level"], "clock": "1 GHz"}}


def fill(bench: Bench, seed: int, routers: int, memories: tuple[int, ...], long: bool = False) -> None:
    """Streams beside each other and one after the other, with tokens, prefetches, revokes and copies among them.

    ``long``: from banks, streams of several tens of stripes.
    """
    draw = np.random.default_rng([seed, 1])
    chiplets = [router for router in range(routers) if router not in memories]

    def pick(items: list[int]) -> int:
        return int(items[int(draw.integers(len(items)))])

    tile = bench.machine.system.compute_endpoints[0].spec.tile
    assert tile is not None
    # a period of banks is a stripe of their rows
    command = bench.machine.memory_kind == "command"
    streams = int(draw.integers(1, 3 if command else 5))
    if long and draw.random() < 0.75:
        streams = 1
    last = -1
    for stream in range(streams):
        of_banks = int(draw.integers(150_000, 600_000)) * (3 if long else 1) // tile
        tiles = of_banks if command else int(draw.integers(30, 400))
        size = tiles * tile - 64 * int(draw.integers(0, 2))
        at = pick(chiplets)
        after = [last] if last >= 0 and draw.random() < 0.3 else []
        fetch = bench.fetch(pick(list(memories)), at, size, address=int(draw.integers(0, 64)) * 8192 + (stream << 20))
        per_tile = int(draw.integers(1, 40))
        longer = 0 if long else int(draw.integers(0, tiles))  # tiles of a cycle more
        last = bench.compute(at, per_tile * tiles + longer, stream=fetch, after=after)
    begin = int(draw.integers(0, 50_000))
    bench.submit(begin)
    for _ in range(int(draw.integers(0, 4))):  # tokens that come in between, some at the same instant
        wait = bench.delay(int(draw.integers(1, 20_000)) * NS // int(draw.choice([1, 1, 7])))
        bench.transfer(pick(chiplets), pick(chiplets), int(draw.integers(1, 3000)), after=[wait])
        if draw.random() < 0.3:
            bench.add(TaskKind.decision, key=5, after=[wait])
    if draw.random() < 0.3:
        at = pick(chiplets)
        bench.fetch(pick(list(memories)), at, tile * int(draw.integers(2, 40)), prefetch=1, key=9, address=7 << 20)
        number = len(bench.rows) - 1
        prefetch = bench.submit(begin + int(draw.integers(0, 4000)) * NS) + number
        bench.revoke(at, prefetch)
        bench.submit(begin + int(draw.integers(4000, 20_000)) * NS)
    if len(memories) == 2 and draw.random() < 0.4:
        source, destination = draw.permutation(list(memories)).tolist()
        bench.copy(source, destination, 64 * int(draw.integers(50, 2000)), address=1 << 22, to_address=1 << 23)
        bench.submit(begin + int(draw.integers(0, 3000)) * NS)
    if bench.rows:
        bench.submit(begin)


def fill_groups(bench: Bench, seed: int, routers: int, memories: tuple[int, ...]) -> None:
    """Streams and transfers to several endpoints at once, beside the others or long after them."""
    draw = np.random.default_rng([seed, 3])
    chiplets = [router for router in range(routers) if router not in memories]
    tile = bench.machine.system.compute_endpoints[0].spec.tile
    assert tile is not None
    for number in range(int(draw.integers(1, 3))):
        members = sorted(draw.permutation(chiplets)[: int(draw.integers(1, len(chiplets) + 1))].tolist())
        group = bench.machine.group(members)
        source = bench.node(int(draw.choice(list(memories))))
        fields = {"source": source, "group": group}
        if draw.random() < 0.3:
            tokens = bench.machine.classes["token"]
            bench.add(TaskKind.transfer, bytes=int(draw.integers(1, 3000)), message_class=tokens, **fields)
            continue
        tiles = int(draw.integers(2, 60))
        weights = bench.machine.classes["weight"]
        address = (1 << 24) + (number << 20)
        stream = bench.add(TaskKind.stream, bytes=tiles * tile, message_class=weights, address=address, **fields)
        for member in members:
            bench.compute(member, tiles * int(draw.integers(1, 40)), stream=stream)
    bench.submit(int(draw.choice([0, 3000, 40_000])) * NS)


def two_level_system(draw: np.random.Generator) -> dict[str, Any]:
    """What of the chiplets under a package differs from the default."""
    return {
        "buffer": str(draw.choice(["512 B", "1 KiB", "4 KiB"])),
        "chiplet": {"clock": str(draw.choice(["2 GHz", "1.4 GHz"])), "vc_buf_size": int(draw.choice([4, 8]))},
        "top": {"clock": str(draw.choice(["1 GHz", "0.9 GHz"])), "num_vcs": int(draw.choice([3, 6]))},
        "synchroniser_cycles": int(draw.integers(0, 3)),
    }


def kind_of(seed: int) -> str:
    """Line for two seeds in three."""
    draw = np.random.default_rng([seed, 2])
    return str(draw.choice(KINDS, p=[0.66, 0.08, 0.08, 0.08, 0.1]))


def prepared(seed: int, rung: str | None = None) -> Bench:
    """One case, all tasks submitted."""
    draw = np.random.default_rng([seed, 0])
    chosen = rung or _RUNGS[seed % len(_RUNGS)]
    kind = kind_of(seed)
    bulk_vc = str(np.random.default_rng([seed, 5]).choice(["dynamic", "static"]))
    if kind == "levels":
        levels = two_level_system(draw)
        levels["top"]["bulk_vc"] = bulk_vc
        bench = two_levels.package_bench(chosen, **levels)
        fill(bench, seed, len(bench.machine.system.endpoints), (two_levels.MEMORY,))
        return bench
    changes = system(draw)
    if kind in BROADCASTS:
        changes["level"] |= {"num_vcs": 4, "vc_buf_size": 8, "max_packet_flits": 4}
        classes = {"token": {"vcs": [0]}, "weight": {"vcs": [1]}, "prefetch": {"vcs": [2]}}
        changes["level"]["message_classes"] = {**classes, "broadcast": BROADCASTS[kind]}
    changes["level"]["bulk_vc"] = bulk_vc
    is_calm = RUNG_KNOBS[chosen][1] == "command" and np.random.default_rng([seed, 4]).random() < 0.75
    if is_calm:
        changes = calm(changes)
    bench = Bench.of(chosen, **changes)
    fill(bench, seed, changes["routers"], changes["memories"], long=is_calm)
    if kind != "line":
        fill_groups(bench, seed, changes["routers"], changes["memories"])
    return bench


def run(seed: int, skipping: bool, rung: str | None = None, without: str = "nothing") -> Bench:
    """One case to its end, perhaps by forms that lack a part."""
    bench = prepared(seed, rung)
    bench.machine.engine.skipping = skipping
    if without != "nothing":
        bench.machine.engine.leave_out(without)
    bench.run()
    return bench


def same_form(here: Form, there: Form) -> bool:
    """Whether two canonical forms, and all that grows beside them, are equal, at the same time."""
    return here[0] == there[0] and all(np.array_equal(a, b) for a, b in zip(here[1:], there[1:], strict=True))


def differences(on: Bench, off: Bench) -> tuple[str, ...]:
    """What two finished runs differ in: records, every counter, and the whole state that is left."""
    found = []
    here, there = everything(on), everything(off)
    for name in there:
        if repr(here[name]) != repr(there[name]):
            found.append(name)
    if on.machine.figures() != off.machine.figures():
        found.append("figures")
    return (*found, *form_differences(on, off))


def form_differences(on: Bench, off: Bench) -> tuple[str, ...]:
    """What is left in two systems: the form, or where there is none the raw state."""
    if on.machine.now_fs != off.machine.now_fs:
        return ("time",)
    try:
        here, there = on.machine.engine.form(), off.machine.engine.form()
    except RuntimeError:  # some component says no
        return () if on.machine.engine.save() == off.machine.engine.save() else ("raw state",)
    found = []
    if not np.array_equal(here[1], there[1]):
        found.append("state")
    if not np.array_equal(here[2], there[2]):
        found.append("counters")
    return tuple(found)


def compare(seed: int, rung: str | None = None) -> Outcome:
    """A case with skipping on and off."""
    on, off = run(seed, True, rung), run(seed, False, rung)
    engine = on.machine.engine
    report = engine.skip_report()
    assert off.machine.engine.skip_report()["periods"] == 0
    return Outcome(
        seed,
        on.machine.rung,
        kind_of(seed),
        differences(on, off),
        int(report["periods"]),
        int(report["instants"]) / int(engine.instants),
        tuple(sorted(report["reasons"])),
    )


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description="skipping on against off over random coupled systems")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rung", choices=_RUNGS)
    chosen = parser.parse_args()
    skipped = {(rung, kind): 0 for rung in _RUNGS for kind in KINDS}
    ran = dict(skipped)
    bad = 0
    reasons: dict[str, int] = {}
    for seed in range(chosen.seed, chosen.seed + chosen.cases):
        outcome = compare(seed, chosen.rung)
        ran[outcome.rung, outcome.kind] += 1
        skipped[outcome.rung, outcome.kind] += outcome.periods > 0
        for why in outcome.reasons:
            reasons[why] = reasons.get(why, 0) + 1
        if outcome.differences:
            bad += 1
            print(f"seed {seed} at {outcome.rung}: {', '.join(outcome.differences)} differ")
    for (rung, kind), cases in ran.items():
        if cases:
            print(f"{rung}, {kind}: {cases} cases, {skipped[rung, kind]} of them skipped periods")
    for why, cases in sorted(reasons.items()):
        print(f"  stepped: {why}: {cases} cases")
    print(f"{bad} cases differ")
    few = [rung for rung in _RUNGS if 4 * skipped[rung, "line"] < ran[rung, "line"]]
    if few:
        print("fewer than a quarter of the lines skipped anything at " + ", ".join(few))
    return 1 if bad or few else 0


if __name__ == "__main__":
    sys.exit(main())
