"""Random coupled systems with streams long enough to repeat themselves, run with skipping on and off.

    PYTHONPATH=tests/run python tests/run/skipping_cases.py --cases 500 --seed 1

runs as many cases as it is told and ends with 1 when any result differs, or when too few skipped anything.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from mixed_run import everything
from small_system import NS, Bench

from cosim._core import TaskKind
from cosim.run.machine import RUNG_KNOBS

_RUNGS = tuple(RUNG_KNOBS)


@dataclass(frozen=True)
class Outcome:
    """Two runs of one case: what differs between them, and what skipping did."""

    seed: int
    rung: str
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


def fill(bench: Bench, seed: int, routers: int, memories: tuple[int, ...]) -> None:
    """Streams beside each other and one after the other, with tokens, prefetches, revokes and copies among them."""
    draw = np.random.default_rng([seed, 1])
    chiplets = [router for router in range(routers) if router not in memories]

    def pick(items: list[int]) -> int:
        return int(items[int(draw.integers(len(items)))])

    tile = bench.machine.system.compute_endpoints[0].spec.tile
    assert tile is not None
    # a period of banks is a stripe of their rows
    command = bench.machine.memory_kind == "command"
    streams = int(draw.integers(1, 3 if command else 5))
    last = -1
    for stream in range(streams):
        tiles = int(draw.integers(150_000, 600_000)) // tile if command else int(draw.integers(30, 400))
        size = tiles * tile - 64 * int(draw.integers(0, 2))
        at = pick(chiplets)
        after = [last] if last >= 0 and draw.random() < 0.3 else []
        fetch = bench.fetch(pick(list(memories)), at, size, address=int(draw.integers(0, 64)) * 8192 + (stream << 20))
        per_tile = int(draw.integers(1, 40))
        last = bench.compute(at, per_tile * tiles + int(draw.integers(0, tiles)), stream=fetch, after=after)
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


def run(seed: int, skipping: bool, rung: str | None = None) -> Bench:
    """One case to its end."""
    draw = np.random.default_rng([seed, 0])
    changes = system(draw)
    chosen = rung or _RUNGS[seed % len(_RUNGS)]
    bench = Bench.of(chosen, **changes)
    bench.machine.engine.skipping = skipping
    fill(bench, seed, changes["routers"], changes["memories"])
    bench.run()
    return bench


def differences(on: Bench, off: Bench) -> tuple[str, ...]:
    """What two finished runs differ in: records, every counter, and the whole state that is left."""
    found = []
    here, there = everything(on), everything(off)
    for name in there:
        if repr(here[name]) != repr(there[name]):
            found.append(name)
    if on.machine.figures() != off.machine.figures():
        found.append("figures")
    (now_on, same_on, grows_on), (now_off, same_off, grows_off) = on.machine.engine.form(), off.machine.engine.form()
    if now_on != now_off:
        found.append("time")
    if not np.array_equal(same_on, same_off):
        found.append("state")
    if not np.array_equal(grows_on, grows_off):
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
    skipped = dict.fromkeys(_RUNGS, 0)
    ran = dict.fromkeys(_RUNGS, 0)
    bad = 0
    reasons: dict[str, int] = {}
    for seed in range(chosen.seed, chosen.seed + chosen.cases):
        outcome = compare(seed, chosen.rung)
        ran[outcome.rung] += 1
        skipped[outcome.rung] += outcome.periods > 0
        for why in outcome.reasons:
            reasons[why] = reasons.get(why, 0) + 1
        if outcome.differences:
            bad += 1
            print(f"seed {seed} at {outcome.rung}: {', '.join(outcome.differences)} differ")
    for rung in _RUNGS:
        if ran[rung]:
            print(f"{rung}: {ran[rung]} cases, {skipped[rung]} of them skipped periods")
    for why, cases in sorted(reasons.items()):
        print(f"  stepped: {why}: {cases} cases")
    print(f"{bad} cases differ")
    few = [rung for rung in _RUNGS if 4 * skipped[rung] < ran[rung]]
    if few:
        print("fewer than a quarter of the cases skipped anything at " + ", ".join(few))
    return 1 if bad or few else 0


if __name__ == "__main__":
    sys.exit(main())
