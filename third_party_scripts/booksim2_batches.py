"""Random networks run as BookSim2 batches, here and on a BookSim2 binary of yours, and compared figure by figure.

Each node sends a number of packets back to back by a fixed permutation; mesh routing draws no random number, so both
simulators must agree to the last digit that BookSim2 prints. (On a torus or a fat tree they agree statistically only:
BookSim2's master draws a number for every packet it creates, between the draws of its routing.)

    python third_party_scripts/booksim2_batches.py --booksim2 ~/booksim2/src/booksim --count 16
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from cosim_adapters.booksim2 import export_batch, read_batch, run_booksim2

from cosim.noc import Network
from cosim.noc.patterns import read_pattern

PATTERNS = ("transpose", "bit_complement", "bit_reversal", "shuffle", "tornado", "neighbor")


ALLOCATORS = ("islip", "islip", "separable_input_first", "separable_output_first")


def draw(rng: random.Random) -> tuple[dict[str, Any], str, int, int]:
    """A random mesh, pattern, packet size in flits and batch size in packets."""
    network: dict[str, Any] = {
        "topology": {"kind": "mesh", "shape": [rng.choice((4, 8))] * 2},
        "num_vcs": rng.choice((1, 2, 4, 8, 16)),
        "vc_buf_size": rng.choice((2, 4, 8, 16)),
        "credit_delay": rng.randint(0, 3),
        "routing_delay": rng.randint(0, 1),
        "st_final_delay": rng.randint(1, 3),
        "compat": "booksim2",
        "vc_allocator": rng.choice(ALLOCATORS),
        "sw_allocator": rng.choice(ALLOCATORS),
        "priority": rng.choice(("none", "none", "age")),
        "speculative": rng.random() < 0.4,
        "wait_for_tail_credit": rng.random() < 0.25,
    }
    used = {network["vc_allocator"], network["sw_allocator"]}
    if "islip" in used:
        network["alloc_iters"] = rng.choice((1, 1, 2, 3))
    if used != {"islip"}:
        network["arb_type"] = rng.choice(("round_robin", "matrix"))
    if network["num_vcs"] > 1 and rng.random() < 0.25:
        network["routing"] = "min_adaptive"
    return network, rng.choice(PATTERNS), rng.randint(1, 8), rng.randint(1, 40)


def ours(network: Network, pattern: str, size_flits: int, packets: int) -> tuple[int, float, float]:
    """Duration, mean packet and mean network latency of the batch, in cycles."""
    shape = network.config.topology.model_dump()["shape"]
    to = read_pattern(pattern, network.nodes, shape).permutation
    rows = [(k, node, to[node], size_flits) for node in range(network.nodes) for k in range(packets)]
    run = network.packet_run(pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits"]))
    latencies = run.packets[["packet_latency_cycles", "network_latency_cycles"]].mean()
    return run.makespan_cycles + 1, float(latencies.iloc[0]), float(latencies.iloc[1])


def main() -> int:
    """Compare the configurations that the arguments ask for; 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--booksim2", type=Path, required=True, help="your BookSim2 binary")
    parser.add_argument("--count", type=int, default=16, help="configurations")
    parser.add_argument("--seed", type=int, default=1, help="of the draw of configurations")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    different = 0
    for index in range(arguments.count):
        description, pattern, size, packets = draw(rng)
        network = Network(description)
        text = export_batch(network.config, pattern, size, packets, seed=1)
        their = read_batch(run_booksim2(arguments.booksim2, text, timeout_seconds=600))
        our = ours(network, pattern, size, packets)
        reference = (their.duration_cycles, their.packet_latency_mean_cycles, their.network_latency_mean_cycles)
        same = all(f"{a:.6g}" == f"{b:.6g}" for a, b in zip(our, reference, strict=True))
        different += not same
        k = description["topology"]["shape"][0]
        keys = " ".join(f"{key}={value}" for key, value in description.items() if key not in ("topology", "compat"))
        print(f"{index:3} {'same' if same else 'DIFFERENT'}: {k}x{k} {pattern} {packets} x {size} flits, {keys}")
        print(f"      cosim    duration {our[0]}, packet latency {our[1]:.6g}, network latency {our[2]:.6g} cycles")
        if not same:
            print(f"      BookSim2 duration {reference[0]:g}, {reference[1]:.6g}, {reference[2]:.6g} cycles")
    print(f"{arguments.count - different} of {arguments.count} configurations identical")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
