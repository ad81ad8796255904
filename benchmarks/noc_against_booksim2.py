"""Latency under load against BookSim2's measured rows, with the error of each.

usage: noc_against_booksim2.py [--case TEXT] [--topology mesh|torus|fattree] [--seeds N] [--rows] [--csv FILE]
           [--saturation [--booksim2 BINARY]]

Runs every row of tests/reference/noc/latency_load.csv that BookSim2 measured in latency mode below 90 % of its
saturation (the rate at which its mean packet latency is three times the zero-load latency; where the rows do not reach
it, the largest stable rate), in the row's own windows and BookSim2-compatible mode. planar_adapt is left out: it is no
routing of ours. A row that misses 2 % (hops: 0.5 %) is run again with N seeds (20 when not given) and its distance is
told in standard deviations of these runs. Prints the largest and the mean error of each case and topology.

--saturation compares the rates of three times the zero-load latency, each between the two measured rates that enclose
it: ours from the means of three seeds, BookSim2's from its rows. These are single runs near saturation, where runs
scatter; with --booksim2, a binary of yours, both run five seeds in the rows' windows, between rates a quarter as far
apart, and the means are compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from cosim_adapters.booksim2 import export_traffic, read_statistics, run_booksim2
from cosim_adapters.booksim2_keys import from_booksim2

from cosim.config.errors import ConfigErrors
from cosim.noc import Network

ROWS = Path(__file__).parents[1] / "tests" / "reference" / "noc" / "latency_load.csv"
QUANTITIES = {
    "packet": ("packet_latency_avg", "packet_latency_mean_cycles", 0.02),
    "network": ("network_latency_avg", "network_latency_mean_cycles", 0.02),
    "flit": ("flit_latency_avg", "flit_latency_mean_cycles", 0.02),
    "hops": ("hops_avg", "hops_mean", 0.005),
}
DEVIATIONS = 3.0


def bracket(case: pd.DataFrame) -> tuple[float, pd.Series]:
    """Three times the zero-load latency, and the stable rows' mean packet latency by rate, up to the first beyond."""
    stable = case[case["sim_stable"]].groupby("injection_rate")[["packet_latency_avg", "hops_avg"]].mean()
    first = case.iloc[0]
    network = Network(from_booksim2(first)[0])
    hops = float(stable["hops_avg"].iloc[0])
    links = network.config.longest_link_cycles * (hops - 1)
    limit = 3 * network.zero_load_latency_cycles(hops, links, int(first["packet_size"]))
    latencies = stable["packet_latency_avg"]
    above = np.flatnonzero(latencies > limit)
    return limit, latencies if len(above) == 0 else latencies.iloc[: above[0] + 1]


def saturation(case: pd.DataFrame) -> float:
    """The rate of three times the zero-load latency, interpolated; the largest stable rate without such a row."""
    limit, latencies = bracket(case)
    return float(np.interp(limit, latencies.to_numpy()[-2:], latencies.index.to_numpy()[-2:]))


def saturation_error(case: pd.DataFrame, seeds: int = 3) -> float:
    """Relative error of that rate when our latencies (means of seeds) stand at the two rates that enclose it."""
    limit, latencies = bracket(case)
    if len(latencies) < 2 or latencies.iloc[-1] <= limit:
        return float("nan")
    ours = []
    for rate in latencies.index[-2:]:
        row = case[case["injection_rate"] == rate].iloc[0]
        ours.append(np.mean([run(row, seed)["packet"] for seed in range(1, seeds + 1)]))
    return float(np.interp(limit, ours, latencies.index[-2:])) / saturation(case) - 1


def saturation_beside(case: pd.DataFrame, binary: Path, seeds: int = 5) -> str:
    """The rates of both from the means of fresh runs, these with their scatter, and the relative difference, as text.

    The bracket is halved twice, towards BookSim2's rate: between rates far apart latency is no line.
    """
    limit, latencies = bracket(case)
    if len(latencies) < 2 or latencies.iloc[-1] <= limit:
        return "no stable rows on both sides"
    network, traffic = from_booksim2(case[case["injection_rate"] == latencies.index[-1]].iloc[0])
    made = Network(network)

    def both(rate: float) -> tuple[float, list[float], list[float]]:
        ours, theirs = [], []
        for seed in range(1, seeds + 1):
            given = {**traffic, "injection_rate": rate, "seed": seed}
            ours.append(made.run_traffic(**given).packet_latency_mean_cycles)
            printed = run_booksim2(binary, export_traffic(made.config, given, seed), timeout_seconds=3600)
            theirs.append(read_statistics(printed).packet_latency_mean_cycles)
        return rate, ours, theirs

    low, high = both(latencies.index[-2]), both(latencies.index[-1])
    for _ in range(2):
        middle = both((low[0] + high[0]) / 2)
        low, high = (low, middle) if np.mean(middle[2]) > limit else (middle, high)
    rates = [low[0], high[0]]
    texts, means = [], []
    for name, latency in (("cosim", np.array([low[1], high[1]])), ("BookSim2", np.array([low[2], high[2]]))):
        means.append(float(np.interp(limit, latency.mean(axis=1), rates)))
        around = " and ".join(f"{row.mean():.1f} +- {row.std(ddof=1):.1f}" for row in latency)
        texts.append(f"{name} {means[-1]:.4f} (latencies {around})")
    at = f"{rates[0]:g} and {rates[1]:g}"
    return f"at {at}, {seeds} seeds each: {'; '.join(texts)}: {100 * (means[0] / means[1] - 1):+.2f} %"


def below_saturation(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows to compare: latency mode, stable, below 90 % of the case's saturation, a routing of ours."""
    rows = rows[(rows["sim_type"] == "latency") & ~rows["routing"].str.startswith("planar")]
    kept = []
    for _, case in rows.groupby("case", sort=False):
        kept.append(case[case["sim_stable"] & (case["injection_rate"] < 0.9 * saturation(case))])
    return pd.concat(kept)


def run(row: pd.Series, seed: int) -> dict[str, float]:
    """Our figures of one row."""
    network, traffic = from_booksim2(row)
    result = Network(network).run_traffic(**{**traffic, "seed": seed})
    return {name: getattr(result, ours) for name, (_, ours, _) in QUANTITIES.items()}


def compared(row: pd.Series, seeds: int) -> dict[str, object]:
    """Relative errors of a row, and for a miss the largest distance in standard deviations."""
    found = run(row, int(row["seed"]))
    theirs = {name: float(row[column]) for name, (column, _, _) in QUANTITIES.items()}
    errors = {name: found[name] / theirs[name] - 1 for name in QUANTITIES}
    missed = [name for name, (_, _, most) in QUANTITIES.items() if abs(errors[name]) > most]
    distance = 0.0
    if missed:
        runs = pd.DataFrame([run(row, 1000 + seed) for seed in range(seeds)])
        # the reference is one run as well: both scatter
        distance = max(abs(theirs[name] - runs[name].mean()) / runs[name].std() for name in missed)
    place = {key: row[key] for key in ("case", "topology", "injection_rate", "seed")}
    return {**place, **errors, "missed": " ".join(missed), "deviations": distance}


def summary(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Rows, largest and mean error in per cent, and rows beyond both tolerances."""
    parts = []
    for name, group in table.groupby(by, sort=False):
        part: dict[str, object] = {by: name, "rows": len(group)}
        for quantity in QUANTITIES:
            part[f"{quantity} max %"] = 100 * group[quantity].abs().max()
            part[f"{quantity} mean %"] = 100 * group[quantity].abs().mean()
        part["misses"] = int((group["missed"] != "").sum())
        part["failed"] = int((group["deviations"] > DEVIATIONS).sum())
        parts.append(part)
    return pd.DataFrame(parts)


def main() -> int:
    """The command; 1 when a row lies beyond both tolerances or could not be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="part of a case's name")
    parser.add_argument("--topology", choices=("mesh", "torus", "fattree"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", action="store_true", help="print every row that misses")
    parser.add_argument("--saturation", action="store_true", help="compare the rates of saturation too")
    parser.add_argument("--booksim2", type=Path, help="your BookSim2 binary, for --saturation")
    parser.add_argument("--csv", type=Path, help="write every row's errors")
    given = parser.parse_args()
    rows = below_saturation(pd.read_csv(ROWS))
    rows = rows[rows["case"].str.contains(given.case, regex=False)]
    if given.topology:
        rows = rows[rows["topology"] == given.topology]
    start = time.monotonic()
    found, refused = [], []
    for _, row in rows.iterrows():
        try:
            found.append(compared(row, given.seeds))
        except ConfigErrors as error:
            refused.append(f"{row['case']} at {row['injection_rate']}: {error}")
    table = pd.DataFrame(found)
    if given.csv:
        table.to_csv(given.csv, index=False)
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.float_format", "{:.3f}".format):
        for by in ("case", "topology"):
            print(summary(table, by).to_string(index=False), end="\n\n")
        misses = table[table["missed"] != ""]
        if given.rows and len(misses):
            print(misses.to_string(index=False), end="\n\n")
    if given.saturation:
        every = pd.read_csv(ROWS)
        for name in table["case"].unique():
            case = every[(every["case"] == name) & (every["sim_type"] == "latency")]
            print(f"{name:<40} rate of three times the zero-load latency: {100 * saturation_error(case):+.2f} %")
            if given.booksim2:
                print(f"{'':<40} {saturation_beside(case, given.booksim2)}", flush=True)
    failed = table[table["deviations"] > DEVIATIONS]
    seconds = time.monotonic() - start
    print(f"{len(table)} rows in {seconds:.0f} s, {len(misses)} miss, {len(failed)} beyond {DEVIATIONS}")
    for text in refused:
        print(f"not run: {text}")
    return 1 if len(failed) or refused else 0


if __name__ == "__main__":
    sys.exit(main())
