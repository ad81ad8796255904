"""All-to-all of every node with every other on a mesh: makespan, user time and flit-hops per second.

usage: noc_all_to_all.py [--side N] [--kib N] [--flit-bytes N] [--packet-flits N]

Node i sends its packets round after round, in round r to node (i + r) mod nodes, back to back, so that no node is sent
to by two at once while all keep step. Prints a line; nothing here is a test.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import pandas as pd

from cosim.noc import Network


def packets(nodes: int, flits: int, packet_flits: int) -> pd.DataFrame:
    """Every node's packets to every other one, of `flits` flits a pair."""
    each, rest = divmod(flits, packet_flits)
    sizes = np.array([packet_flits] * each + ([rest] if rest else []), dtype=np.int64)
    rounds = np.repeat(np.arange(1, nodes), len(sizes))
    source = np.repeat(np.arange(nodes), len(rounds))
    return pd.DataFrame(
        {
            "create_cycle": 0,
            "src": source,
            "dst": (source + np.tile(rounds, nodes)) % nodes,
            "size_flits": np.tile(sizes, nodes * (nodes - 1)),
        }
    )


def main() -> int:
    """Run it and print the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=8, help="nodes a side of the mesh")
    parser.add_argument("--kib", type=int, default=64, help="KiB from each node to each other")
    parser.add_argument("--flit-bytes", type=int, default=16)
    parser.add_argument("--packet-flits", type=int, default=4)
    given = parser.parse_args()
    nodes = given.side**2
    frame = packets(nodes, given.kib * 1024 // given.flit_bytes, given.packet_flits)
    network = Network({"topology": {"kind": "mesh", "shape": [given.side, given.side]}})
    wall, user = time.monotonic(), time.process_time()
    result = network.packet_run(frame)
    wall, user = time.monotonic() - wall, time.process_time() - user
    print(
        f"{nodes} nodes, {given.kib} KiB a pair: {result.makespan_cycles} cycles, {result.flit_hops} flit-hops,"
        f" {user:.1f} s user, {wall:.1f} s wall, {result.flit_hops / user / 1e6:.1f} M flit-hops/s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
