"""Random coupled systems whose memories have several channels, with lockstep on and off.

    PYTHONPATH=tests/run python tests/run/lockstep_cases.py --cases 500 --seed 1

runs as many cases as it is told and ends with 1 when any result differs, or when too few shared any work.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from skipping_cases import differences, fill, system
from small_system import Bench

_RUNGS = ("link+command", "flit")


@dataclass(frozen=True)
class Outcome:
    """Two runs of one case: what differs, and what share of the bursts was stepped."""

    differences: tuple[str, ...]
    stepped_share: float


def prepared(seed: int) -> Bench:
    """One case, all tasks submitted: streams, prefetches, revokes and copies from interleaved channels."""
    draw = np.random.default_rng([seed, 0])
    changes = system(draw)
    memory = changes["memory"]
    memory["channels"] = int(draw.choice([2, 4, 8]))
    if memory["preset"].startswith("HBM2"):
        memory["address_map"] = "RoBaSiCoBgPcCh"
    # mostly whole stripes: bursts of 32 B over two pseudo-channels
    stripe = 64 * memory["channels"]
    tile = int(draw.choice([stripe // 2, stripe, 2 * stripe, 4 * stripe, 8 * stripe], p=[0.1, 0.3, 0.3, 0.2, 0.1]))
    buffer = tile * int(draw.integers(1, 9))
    changes["expert"] = {**changes["expert"], "tile": f"{tile} B", "expert_buffer": f"{buffer} B"}
    changes["node"] = {"read_return_slots": int(draw.choice([16, 20, 32, 64]))}
    bench = Bench.of(str(draw.choice(_RUNGS)), **changes)
    fill(bench, seed, changes["routers"], changes["memories"], long=bool(draw.random() < 0.3))
    return bench


def run(seed: int, lockstep: bool) -> Bench:
    """One case to its end."""
    bench = prepared(seed)
    bench.machine.engine.set_lockstep(lockstep)
    bench.run()
    return bench


def stepped(bench: Bench) -> int:
    """Bursts that some channel was stepped for."""
    machine = bench.machine
    memories = machine.system.memory_endpoints
    return sum(machine.engine.stepped_bursts(int(machine.nodes[place.index])) for place in memories)


def compare(seed: int) -> Outcome:
    """A case with lockstep on and off."""
    on, off = run(seed, True), run(seed, False)
    return Outcome(differences(on, off), stepped(on) / max(stepped(off), 1))


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description="lockstep on against off over random coupled systems")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    bad = 0
    shares = []
    for seed in range(chosen.seed, chosen.seed + chosen.cases):
        outcome = compare(seed)
        shares.append(outcome.stepped_share)
        if outcome.differences:
            bad += 1
            print(f"seed {seed}: {', '.join(outcome.differences)} differ")
    shared = sum(share < 0.9 for share in shares)
    print(f"{chosen.cases} cases, {shared} shared work, {np.mean(shares):.2f} of all bursts were stepped")
    print(f"{bad} cases differ")
    return 1 if bad or 3 * shared < chosen.cases else 0


if __name__ == "__main__":
    sys.exit(main())
