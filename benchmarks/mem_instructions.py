"""Instructions per memory request, counted by callgrind between two run lengths of one pseudo-channel.

    python benchmarks/mem_instructions.py [--preset HBM3_6400] [--refresh none[,per_bank,...]] [--skipping]
        [--short 20000] [--long 60000] [CASE ...]

Cases: stream, random, mixed (30 % writes), sparse (one request every 64 command slots), range (addresses, over all
pseudo-channels of a channel), stream32 and random32 (over 32 pseudo-channels), buffered and bufferedrandom (through a
return buffer one slot larger than a stream needs, each of them for eight command slots; the gate is 1.1 times the
same channel without a limit, driven event by event too). Requests go in as fast as they are accepted. Start-up cancels
out between the two lengths; reading the table is counted by a run that only reads, and taken off. Needs valgrind; the
answer of every run is checked: every request served.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cosim import _core, mem
from cosim.mem.memory import channel_config
from cosim.mem.standard import COMMANDS

CASES = ("stream", "random", "mixed", "sparse", "range", "stream32", "random32", "buffered", "bufferedrandom")
# as fast as accepted, one pseudo-channel (HBM3, HBM2) or sub-channel
GATES = {"stream": 700, "random": 2200, "mixed": 2200, "sparse": 1600, "range": 700, "stream32": 700, "random32": 2200}
BUFFERED = {"buffered": "stream", "bufferedrandom": "random"}
BUFFER_COST = 1.1
BUFFER_TICKS = 8
SKIPPED_GATE = 100  # an instruction count per burst of a stream, with macro-steps

_CHILD = """
import importlib.util, json, sys
import numpy as np
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
given = json.load(open(sys.argv[2]))
config = core.MemChannelConfig()
for name, value in given["fields"].items():
    setattr(config, name, value)
config.refresh = getattr(core.MemRefresh, given["refresh"])
for scope, *rule in given["rules"]:
    config.add_rule(getattr(core.MemScope, scope), *rule)
table = dict(np.load(sys.argv[3]))
address_map = core.MemAddressMap(*given["map"]) if given["map"] else None
replay = core.MemReplay(config, given["channels"], table, address_map, given["skipping"])
if given["buffer"]:
    replay.set_return_buffer(*given["buffer"])
if sys.argv[4] == "run":
    replay.run(1 << 62)
    assert replay.finished_bursts == given["bursts"], "requests were lost"
    assert all(replay.verify_conservation(c) == "" for c in range(given["channels"]))
    print(replay.total_ticks)
"""

_FIELDS = (
    "pseudo_channels",
    "stack_ids",
    "bank_groups",
    "banks_per_group",
    "rows",
    "columns",
    "access_bytes",
    "slots_per_cycle",
    "shared_command_bus",
    "rising_edge_only",
    "read_latency",
    "write_latency",
    "precharge_ticks",
    "refresh_all_ticks",
    "refresh_bank_ticks",
    "refresh_interval",
    "refresh_set",
    "postponed_refreshes",
    "read_queue",
    "write_queue",
    "write_high",
    "write_low",
    "age_cap",
)


def requests(case: str, count: int, memory: mem.Memory) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """The request table of one case; all but range and random32 stay on the first pseudo-channel."""
    o = memory.standard.organisation
    if case == "range":
        one = np.zeros(1, np.int64)
        return {"arrive_tick": one, "op": one, "address": one, "size_bytes": one + count * o.access_bytes}
    i = np.arange(count, dtype=np.int64)
    rng = np.random.default_rng(1)
    if case == "stream32":
        each = requests("stream", (count + 31) // 32, memory)
        spread = {name: np.repeat(column, 32)[:count] for name, column in each.items()}
        return {**spread, "channel": i % 32 // 2, "pseudo_channel": i % 2}
    if case == "stream":
        group, left = i % o.bank_groups, i // o.bank_groups
        column, left = left % o.columns, left // o.columns
        bank, row = left % o.banks_per_group, left // o.banks_per_group
    else:
        group, bank = rng.integers(0, o.bank_groups, count), rng.integers(0, o.banks_per_group, count)
        row, column = rng.integers(0, o.rows, count), rng.integers(0, o.columns, count)
    zero = np.zeros(count, np.int64)
    return {
        "arrive_tick": i * 64 if case == "sparse" else zero,
        "op": (rng.random(count) < 0.3).astype(np.uint8) if case == "mixed" else np.zeros(count, np.uint8),
        "channel": i % 32 // 2 if case == "random32" else zero,
        "pseudo_channel": i % 2 if case == "random32" else zero,
        "stack_id": zero,
        "bank_group": group,
        "bank": bank,
        "row": row % o.rows,
        "column": column,
    }


def instructions(
    case: str, count: int, memory: mem.Memory, skipping: bool, buffer: tuple[int, int] | None, folder: Path
) -> tuple[int, int]:
    """Instructions and ticks of one run without those of reading its table; `buffer` is slots and ticks."""
    config = channel_config(memory.options)
    mapping = memory.options.address_map
    given = {
        "refresh": "per_bank" if memory.options.refresh == "same_bank" else memory.options.refresh,
        "skipping": skipping,
        "bursts": count,
        "channels": 16 if case.endswith("32") else 1,
        "buffer": buffer,
        "map": [mapping.core_sizes(), mapping.access_bytes, mapping.core_bits()] if case == "range" else None,
        "fields": {name: getattr(config, name) for name in _FIELDS},
        "rules": [
            (c.scope, COMMANDS.index(c.start), COMMANDS.index(c.to), c.ticks, c.window)
            for c in memory.standard.constraints
        ],
    }
    (folder / "config.json").write_text(json.dumps(given))
    np.savez(folder / "table.npz", **requests(case, count, memory))  # type: ignore[arg-type]
    child = [sys.executable, "-c", _CHILD, str(_core.__file__), folder / "config.json", folder / "table.npz"]
    env = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    plain = subprocess.run([*child, "run"], check=True, capture_output=True, text=True, env=env)
    counts: dict[str, int] = {}
    for mode in ("read", "run"):
        counted = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *map(str, child), mode],
            check=True,
            capture_output=True,
            text=True,
            env=env,
        )
        found = re.search(r"Collected : (\d+)", counted.stderr)
        if found is None:
            raise RuntimeError(f"callgrind printed no count:\n{counted.stderr}")
        counts[mode] = int(found[1])
    return counts["run"] - counts["read"], int(plain.stdout)


def main() -> int:
    """Count the cases named on the command line and print one row each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--preset", default="HBM3_6400")
    parser.add_argument(
        "--refresh", default="none", help="none, all_bank, per_bank, same_bank, or several: none,all_bank"
    )
    parser.add_argument("--skipping", action="store_true", help="with macro-steps; the gate is then that of a stream")
    parser.add_argument("--short", type=int, default=20_000)
    parser.add_argument("--long", type=int, default=60_000)
    given = parser.parse_args()
    unknown = [c for c in given.cases if c not in CASES]
    if unknown or not 0 < given.short < given.long:
        parser.error(f"cases are {', '.join(CASES)}; --short must be below --long")
    memories = [mem.Memory({"preset": given.preset, "refresh": refresh}) for refresh in given.refresh.split(",")]
    gates: dict[str, float] = dict.fromkeys(CASES, SKIPPED_GATE) if given.skipping else dict(GATES)
    missed = 0
    print(f"{given.preset}: {'case':<14} {'refresh':<9} instructions/request  gate  slots/request")
    with tempfile.TemporaryDirectory() as folder:

        def per_request(memory: mem.Memory, case: str, buffer: tuple[int, int] | None = None) -> tuple[float, float]:
            skipping = given.skipping and buffer is None
            short, short_ticks = instructions(case, given.short, memory, skipping, buffer, Path(folder))
            long, long_ticks = instructions(case, given.long, memory, skipping, buffer, Path(folder))
            more = given.long - given.short
            return (long - short) / more, (long_ticks - short_ticks) / more

        for case, memory in itertools.product(given.cases, memories):
            if case in BUFFERED:
                without, ticks = per_request(memory, BUFFERED[case], (0, 0))
                _, full = per_request(memory, "stream", (0, 0)) if case != "buffered" else (without, ticks)
                slots = -(-(channel_config(memory.options).read_latency + BUFFER_TICKS) // full) + 1
                per, ticks = per_request(memory, BUFFERED[case], (int(slots), BUFFER_TICKS))
                gate = BUFFER_COST * without
            else:
                per, ticks = per_request(memory, case)
                gate = gates[case]
            missed += per > gate
            row = f"{case:<14} {memory.options.refresh:<9} {per:>20.0f} {gate:>5.0f} {ticks:>14.3f}"
            print(f"{given.preset}: {row}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
