"""Hop events per second of the link-level simulator (Algorithm 1 of HDA-MoE), user time of one process.

    python benchmarks/link_hops.py [--messages 20000] [--chunks 20]

Random messages of 256 B to 64 KiB on the mesh, torus and fat tree of HDA-MoE's base set-up. Bytes that crossed links
are held against bytes times hops of the messages.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from cosim.link import LinkSimulator, fat_tree, mesh, torus


def main() -> None:
    """Prints one row per topology."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=20)
    options = parser.parse_args()
    rate = 50_000_000_000
    print(f"{'topology':10s} {'hop events':>11s} {'user s':>7s} {'M hop events/s':>15s}")
    for name, topology in (
        ("mesh 4x8", mesh([4, 8], rate)),
        ("torus 4x8", torus([4, 8], rate)),
        ("fat tree", fat_tree(endpoint_leaf_Bps=rate, leaf_aggregation_Bps=rate, aggregation_core_Bps=rate)),
    ):
        draws = np.random.default_rng(1)
        source = draws.integers(0, topology.endpoints, options.messages)
        target = (source + draws.integers(1, topology.endpoints, options.messages)) % topology.endpoints
        size = draws.integers(256, 64 << 10, options.messages)
        simulator = LinkSimulator(topology, chunks=options.chunks)
        before = os.times().user
        result = simulator.run(source, target, size)
        seconds = os.times().user - before
        hops = topology.hops[source, target]
        busy_fs = float((hops * size).sum()) / rate * 1e15
        assert abs(float(result.link_busy_fs.sum()) / busy_fs - 1) < 1e-6, "bytes were lost or invented"
        assert result.hop_events == int(hops.sum()) * options.chunks, "chunks were lost or invented"
        print(f"{name:10s} {result.hop_events:11,d} {seconds:7.2f} {result.hop_events / seconds / 1e6:15.2f}")


if __name__ == "__main__":
    main()
