"""User time of the same traffic here and on a BookSim2 binary of yours.

Both run the same network, load and windows (uniform traffic, 4 VCs of 8 flits, iSLIP); the figure is the user time of
one process, of ours with its statistics and laws on and without the start of the interpreter.

    python third_party_scripts/booksim2_speed.py --booksim2 ~/booksim2/src/booksim
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path
from typing import Any

from cosim_adapters.booksim2 import export_traffic, read_statistics, run_booksim2

from cosim.noc import Network

# routers a side, offered flits per node and cycle, packet size in flits, cycles measured
CASES = (
    (8, 0.01, 1, 20000),
    (8, 0.1, 1, 20000),
    (8, 0.3, 1, 20000),
    (8, 0.42, 1, 20000),
    (8, 0.3, 4, 20000),
    (16, 0.1, 1, 5000),
    (32, 0.1, 1, 1000),
)


def main() -> int:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--booksim2", type=Path, required=True, help="your BookSim2 binary")
    arguments = parser.parse_args()
    print("mesh    load  flits  cosim user s  BookSim2 user s  ratio  latency cosim / BookSim2  M flit-hops/s")
    for side, rate, size, cycles in CASES:
        network = Network({"topology": {"kind": "mesh", "shape": [side, side]}})
        traffic: dict[str, Any] = {
            "pattern": "uniform",
            "injection_rate": rate,
            "packet_size_flits": size,
            "warmup_cycles": cycles // 5,
            "measure_cycles": cycles,
        }
        start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        our = network.run_traffic(**traffic)
        own = resource.getrusage(resource.RUSAGE_SELF).ru_utime - start
        start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        printed = run_booksim2(arguments.booksim2, export_traffic(network.config, traffic, 1), timeout_seconds=3600)
        other = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start
        latencies = (our.packet_latency_mean_cycles, read_statistics(printed).packet_latency_mean_cycles)
        print(
            f"{side:2}x{side:<3} {rate:6} {size:6} {own:13.3f} {other:16.2f} {other / own:6.1f} "
            f"{latencies[0]:12.2f} / {latencies[1]:.2f} {our.flit_hops / own / 1e6:18.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
