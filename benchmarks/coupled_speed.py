"""Work per second of the coupled run, rung by rung: flit-hops, DRAM bursts, link hops and layers of quickstart units.

    python benchmarks/coupled_speed.py [-o key=value ...]

One process, user time, the first policy and seed of the experiment. Conservation is checked by the run itself.
"""

from __future__ import annotations

import argparse
import os

from cosim import Experiment
from cosim.run.machine import RUNG_KNOBS


def main() -> None:
    """Prints one row per rung."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    overrides = [*parser.parse_args().overrides, "seeds=[1]"]
    experiment = Experiment.load("quickstart", overrides)
    experiment.check()
    policy = experiment.spec.policies[0].title
    burst = experiment.setup.burst_bytes
    print(f"{'rung':14s} {'user s':>7s} {'M flit-hops/s':>14s} {'M bursts/s':>11s} {'M link hops/s':>14s} {'MB/s':>7s}")
    for rung in RUNG_KNOBS:
        before = os.times().user
        run = experiment.run(policy, rung)
        seconds = os.times().user - before
        figures = run.figures[1]
        read = figures["dram_read_bytes"]
        bursts = read / burst if rung in ("flit", "link+command") else 0
        print(
            f"{rung:14s} {seconds:7.2f} {figures.get('flit_hops', 0) / seconds / 1e6:14.2f} "
            f"{bursts / seconds / 1e6:11.2f} {figures.get('link_hops', 0) / seconds / 1e6:14.2f} "
            f"{read / seconds / 1e6:7.1f}"
        )


if __name__ == "__main__":
    main()
