"""Random messages over rings, all to all and switches, here and on an ASTRA-sim binary of yours, message by message.

Endpoints send random messages, one at a time and whole, as ASTRA-sim's workload layer does; a message must arrive at
the same nanosecond on both.

    python third_party_scripts/astra_sim_layers.py --astra-sim ~/astra-sim/…/AstraSim_Analytical_Congestion_Aware
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cosim_adapters.astra_sim import compare_messages

from cosim.system import System, load_system

TOPOLOGIES = ("ring", "fully_connected", "star")


def draw(rng: random.Random) -> tuple[str, System, pd.DataFrame]:
    """A topology's name, a system of 4 to 16 chiplets on it, and messages between them."""
    kind, chiplets = rng.choice(TOPOLOGIES), rng.randint(4, 12)
    level: dict[str, Any] = {
        "topology": {"kind": kind, "routers": chiplets},
        "num_vcs": 6 if kind == "ring" else 3,
        "vc_buf_size": 256,  # covers a link's round trip
        "flit_width": f"{rng.choice((16, 32, 64))} B",
        "clock": "1 GHz",
        "link_latency": rng.choice((1, 5, 20, 100)),
    }
    if kind == "ring":
        level["routing"] = "dateline"
    elif kind == "fully_connected":
        level["routing"] = "direct"
    else:
        links = [{"between": [chiplet, chiplets]} for chiplet in range(chiplets)]
        level["topology"] = {"kind": "graph", "routers": chiplets + 1, "links": links, "nodes": list(range(chiplets))}
        level["routing"] = "up_down"
    expert = {"compute": {"rate": "1 TFLOP/s", "efficiency": 1}, "tile": "4 KiB", "expert_buffer": "16 KiB"}
    held = {"memory": {"preset": "HBM2_2000", "channels": 1, "refresh": "none"}, "read_return_slots": 16}
    system = load_system(
        {
            "levels": {"package": level},
            "endpoints": {
                "expert": {"at": {"package": list(range(chiplets))}, "ports": 1, **expert},
                "memory": {"at": {"package": [0]}, "ports": 1, "allow_bottleneck": True, **held},
            },
            "tiers": {"hbm": {"on": "memory", "capacity": "64 MiB"}},
        }
    )
    places = np.array([place.index for place in system.compute_endpoints])
    draws = np.random.default_rng(rng.getrandbits(32))
    count = rng.randint(10, 300)
    source = draws.integers(0, chiplets, count)
    other = (source + draws.integers(1, chiplets, count)) % chiplets
    sizes = draws.integers(1, rng.choice((512, 65536)), count)
    return kind, system, pd.DataFrame({"source": places[source], "destination": places[other], "bytes": sizes})


def main() -> int:
    """Compare the cases that the arguments ask for; 1 when a message differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--astra-sim", type=Path, required=True, help="your AstraSim_Analytical_Congestion_Aware")
    parser.add_argument("--count", type=int, default=12, help="cases")
    parser.add_argument("--seed", type=int, default=1, help="of the draw of cases")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run of ASTRA-sim")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    messages = same = 0
    for index in range(arguments.count):
        kind, system, sent = draw(rng)
        with tempfile.TemporaryDirectory() as scratch:
            found = compare_messages(system, kind, sent, arguments.astra_sim, Path(scratch), arguments.timeout)
        messages += len(sent)
        same += found.same
        print(
            f"{index:>4}  {kind:<15} {found.network.npus:>2} NPUs {len(sent):>4} messages, {found.same:>4} same; last "
            f"at {found.astra_sim_ns:.0f} ns there, {found.cosim_ns:.1f} here; link {found.link_ns:.0f}, "
            f"flit {found.flit_ns:.0f}"
        )
    print(f"{same} of {messages} messages the same")
    return 0 if same == messages else 1


if __name__ == "__main__":
    sys.exit(main())
