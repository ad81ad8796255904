"""Random requests on every preset that Ramulator 2.1 has too, here and there, compared command by command.

python third_party_scripts/ramulator2_random.py --ramulator2 ~/ramulator2-venv/bin/python --count 20
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
from cosim_adapters.ramulator2 import PRESETS, compare, export_requests, read_commands, run_ramulator2

from cosim import mem


def draw(rng: random.Random, requests: int) -> tuple[dict[str, Any], pd.DataFrame]:
    """A memory and requests that crowd few or many banks and rows."""
    config: dict[str, Any] = {"preset": rng.choice(list(PRESETS)), "values": "ramulator2.1"}
    standard = mem.load_standard(config["preset"], "ramulator2.1")
    config["refresh"] = rng.choice(["none", *standard.refresh_interval_cycles])
    organisation = standard.organisation
    draws = np.random.default_rng(rng.getrandbits(32))
    sizes = {
        "pseudo_channel": rng.choice((1, organisation.pseudo_channels)),
        "stack_id": organisation.stack_ids,
        "bank_group": organisation.bank_groups,
        "bank": organisation.banks_per_group,
        "row": rng.choice((2, organisation.rows)),
        "column": organisation.columns,
    }
    frame = pd.DataFrame({name: draws.integers(0, size, requests) for name, size in sizes.items()})
    frame.insert(0, "arrive_cycle", 0)
    frame.insert(1, "op", np.where(draws.random(requests) < rng.choice((0.0, 0.3)), "W", "R"))
    return config, frame


def main() -> int:
    """Compare the cases that the arguments ask for; 1 when a command differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ramulator2", type=Path, required=True, help="the Python that has the package `ramulator`")
    parser.add_argument("--count", type=int, default=20, help="cases")
    parser.add_argument("--requests", type=int, default=5000, help="requests of a case")
    parser.add_argument("--seed", type=int, default=1, help="of the draw of cases")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run of Ramulator")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    different = commands = 0
    for index in range(arguments.count):
        config, frame = draw(rng, arguments.requests)
        memory = mem.Memory(config)
        experiment = export_requests(memory, frame)
        with tempfile.TemporaryDirectory() as scratch:
            run_ramulator2(arguments.ramulator2, experiment, Path(scratch), arguments.timeout)
            theirs = read_commands(Path(scratch) / "commands.csv.ch0")
        found = compare(theirs, memory.run_requests(experiment.frame, commands=True).commands)
        commands += found.theirs
        different += bool(found.first_difference)
        verdict = found.first_difference or "same"
        print(
            f"{index:>4}  {config['preset']:<10} refresh {config['refresh']:<9} {found.theirs:>7} commands  {verdict}"
        )
    print(f"{arguments.count} cases, {commands} commands, {different} cases differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
