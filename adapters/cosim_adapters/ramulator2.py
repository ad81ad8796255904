"""A request trace as a Ramulator 2.1 experiment, and the command trace that it records as a frame.

Names and meanings are those of Ramulator 2.1, commit c5b1c3a (github.com/CMU-SAFARI/ramulator2): LoadStoreTrace front
end, FRFCFSRowHit scheduler, open rows, CmdTraceRecorder. One channel.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.mem import Memory
from cosim.mem.frames import request_columns

__all__ = ["Comparison", "Experiment", "compare", "export_requests", "read_commands", "run_ramulator2"]

# our preset -> DRAM class, organisation preset, timing preset, controller, per-bank refresh manager
PRESETS = {
    "HBM2_1600": ("HBM2", "HBM2_4Gb", "HBM2_1600Mbps", "HBM12", "PerBank"),
    "HBM2_2000": ("HBM2", "HBM2_4Gb", "HBM2_2000Mbps", "HBM12", "PerBank"),
    "HBM2_2400": ("HBM2", "HBM2_4Gb", "HBM2_2400Mbps", "HBM12", "PerBank"),
    "HBM3_6400": ("HBM3", "HBM3_16Gb_8hi", "HBM3_6400Mbps", "HBM34", "HBM34PerBankRefresh"),
    "HBM4_8000": ("HBM4", "HBM4_32Gb_8Hi", "HBM4_8000Mbps", "HBM34", "HBM34PerBankRefresh"),
    "DDR5_4800": ("DDR5", "DDR5_16Gb_x8", "DDR5_4800AN", "GenericDDR", ""),
    "DDR5_5600": ("DDR5", "DDR5_16Gb_x8", "DDR5_5600AN", "GenericDDR", ""),
    "DDR5_6400": ("DDR5", "DDR5_16Gb_x8", "DDR5_6400AN", "GenericDDR", ""),
}
# its address mapper RoBaRaCoCh takes the levels from the low address bits up in this order
_ORDER = ("column", "pseudo_channel", "stack_id", "bank_group", "bank", "row")
_LEVELS = {
    "PseudoChannel": "pseudo_channel",
    "Sid": "stack_id",
    "BankGroup": "bank_group",
    "Bank": "bank",
    "Row": "row",
    "Column": "column",
}
_KEYS = ("slot", "command", "pseudo_channel", "stack_id", "bank_group", "bank", "row", "column")
_ATTEMPTS = 64  # requests offered before each tick of the memory: as fast as accepted

_RECORDER = 'ramulator.controller_plugin.CmdTraceRecorder(path=str(here / "commands.csv"))'

_SCRIPT = '''"""The experiment for Ramulator 2.1: run it with its Python package, `python experiment.py`."""

import json
import pathlib

import ramulator

here = pathlib.Path(__file__).resolve().parent
controller = ramulator.controller.{controller}(
    dram=ramulator.dram.{dram}(org_preset="{organisation}", timing_preset="{timing}"{levels}),
    scheduler=ramulator.scheduler.FRFCFSRowHit(),
    refresh_manager=ramulator.refresh_manager.{refresh}(),
    row_policy=ramulator.row_policy.Open(),
    addr_mapper=ramulator.addr_mapper.RoBaRaCoCh(),
    read_buffer_size={read_queue},
    write_buffer_size={write_queue},
    wr_low_watermark={low},
    wr_high_watermark={high},
    controller_plugins=[{recorder}],
)
memory = ramulator.memory_system.GenericDRAM(
    clock_ratio=1, controllers=[controller], channel_mapper=ramulator.channel_mapper.CacheLineInterleave()
)
frontend = ramulator.frontend.LoadStoreTrace(clock_ratio={attempts}, path=str(here / "requests.trace"))
simulation = ramulator.Simulation(frontend, memory)
simulation.run()
simulation.finalize()
statistics = simulation.stats["memory_system"]["controller"]
(here / "statistics.json").write_text(json.dumps(statistics, default=str))
'''


@dataclass(frozen=True)
class Experiment:
    """What Ramulator reads, and the same requests for ours.

    Attributes:
        script: the experiment as a script for its Python package.
        trace: its requests, a line each.
        frame: the requests for `Memory.run_requests`, offered at the same ticks.
    """

    script: str
    trace: str
    frame: pd.DataFrame


def export_requests(memory: Memory, frame: pd.DataFrame, record: bool = True) -> Experiment:
    """The experiment of a request frame, as fast as accepted.

    Args:
        memory: with values "ramulator2.1" and one channel.
        frame: coordinates, or addresses of single bursts; all arrive_cycle 0.
        record: have it write its commands, and offer it 64 requests a tick; without, one a tick, for measuring time.

    Raises:
        ConfigErrors: what Ramulator 2.1 cannot express, all of it.
    """
    options = memory.options
    standard = memory.standard
    wrong: list[ConfigError] = []

    def refuse(path: str, expected: str, got: object) -> None:
        wrong.append(ConfigError(None, None, None, path, f"{expected} (Ramulator 2.1 has no other here)", str(got)))

    if standard.preset not in PRESETS:
        refuse("memory.preset", f"one of {', '.join(PRESETS)}", standard.preset)
    if not options.compatible:
        refuse("memory.values", "ramulator2.1", standard.values)
    if options.channels != 1:
        refuse("memory.channels", "1", options.channels)
    if "organisation" in options.given:
        refuse("memory.organisation", "the preset's", options.given["organisation"])
    if (frame["arrive_cycle"] != 0).any():
        refuse("requests.arrive_cycle", "0 everywhere: its trace front end knows no times", frame["arrive_cycle"].max())
    if "size_bytes" in frame.columns and (frame["size_bytes"] != standard.organisation.access_bytes).any():
        refuse("requests.size_bytes", f"{standard.organisation.access_bytes} everywhere", frame["size_bytes"].max())
    if wrong:
        raise ConfigErrors(wrong)
    placed = _coordinates(memory, frame)
    address = np.zeros(len(placed), np.int64)
    scale = standard.organisation.access_bytes
    modelled = int(placed["pseudo_channel"].max()) + 1 if len(placed) else 1
    sizes = _sizes(memory) | {"pseudo_channel": modelled}
    for level in _ORDER:
        address += placed[level].to_numpy() * scale
        scale *= sizes[level]
    ops = np.where(frame["op"] == "W", "ST", "LD")
    lines = [f"{op} {place}" for op, place in zip(ops.tolist(), address.tolist(), strict=True)]
    dram, organisation, timing, controller, per_bank = PRESETS[standard.preset]
    levels = {"pseudochannel": modelled} if "HBM" in dram else {"rank": 1}
    levels |= {str(name): int(value) for name, value in options.given.get("timing", {}).items()}
    refresh = {"none": "NoRefresh", "all_bank": "AllBank", "per_bank": per_bank}[options.refresh]
    script = _SCRIPT.format(
        controller=controller,
        dram=dram,
        organisation=organisation,
        timing=timing,
        levels="".join(f", {name}={value}" for name, value in levels.items()),
        refresh=refresh,
        read_queue=options.read_queue,
        write_queue=options.write_queue,
        low=options.given.get("write_low_watermark", 0.2),
        high=options.given.get("write_high_watermark", 0.8),
        attempts=_ATTEMPTS if record else 1,
        recorder=_RECORDER if record else "",
    )
    ours = placed.drop(columns="channel")
    # its first tick comes after one request, every later one after as many as it takes
    ours.insert(0, "arrive_cycle", np.where(np.arange(len(ours)) > 0, 1, 0) / standard.slots_per_cycle)
    ours.insert(1, "op", frame["op"].to_numpy())
    return Experiment(script, "\n".join(lines) + "\n", ours)


def _sizes(memory: Memory) -> dict[str, int]:
    organisation = memory.standard.organisation
    return {
        "column": organisation.columns,
        "pseudo_channel": organisation.pseudo_channels,
        "stack_id": organisation.stack_ids,
        "bank_group": organisation.bank_groups,
        "bank": organisation.banks_per_group,
        "row": organisation.rows,
    }


def _coordinates(memory: Memory, frame: pd.DataFrame) -> pd.DataFrame:
    columns, by_address = request_columns(frame, memory.options)
    names = ("channel", *_ORDER)
    if not by_address:
        table: pd.DataFrame = pd.DataFrame({name: columns[name] for name in names})
        return table
    decoded = [memory.options.address_map.decode(address) for address in columns["address"].tolist()]
    placed: pd.DataFrame = pd.DataFrame(decoded, columns=list(names), dtype=np.int64)
    return placed


def run_ramulator2(python: Path, experiment: Experiment, folder: Path, timeout_seconds: float) -> dict[str, Any]:
    """Runs an experiment with the Python that has the package `ramulator`; returns the controller's statistics.

    Writes experiment.py, requests.trace, and what Ramulator adds (commands.csv.ch0, statistics.json) to `folder`.

    Raises:
        OSError: the interpreter cannot be run.
        ValueError: it ended without statistics; its last lines are quoted.
        subprocess.TimeoutExpired: it has not ended in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.py").write_text(experiment.script, encoding="utf-8")
    (folder / "requests.trace").write_text(experiment.trace, encoding="utf-8")
    written = folder / "statistics.json"
    written.unlink(missing_ok=True)
    command = [str(python), "experiment.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    if ended.returncode != 0 or not written.is_file():
        lines = (ended.stdout + ended.stderr).strip().splitlines()[-5:]
        raise ValueError(f"{python} ended with {ended.returncode} and no statistics: " + "\n".join(lines))
    statistics: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
    return statistics


def read_commands(path: Path) -> pd.DataFrame:
    """The commands of a CmdTraceRecorder file, in our columns: slot, command, levels; -1 where there is none.

    Raises:
        ValueError: the file is none.
        OSError: it cannot be read.
    """
    frame = pd.read_csv(path)
    if not {"clock", "command", "Bank", "Row", "Column"} <= set(frame.columns):
        raise ValueError(f"{path}: expected the columns clock, command and levels, got {', '.join(frame.columns)}")
    out: pd.DataFrame = pd.DataFrame({"slot": frame["clock"].astype(np.int64), "command": frame["command"]})
    for level, name in _LEVELS.items():
        out[name] = frame[level].astype(np.int64) if level in frame.columns else 0
    return _plain(out)


def _plain(commands: pd.DataFrame) -> pd.DataFrame:
    """Only what a command means: rows of ACT, columns of RD and WR, no bank of all-bank commands."""
    out = commands[list(_KEYS)].copy()
    for name in ("stack_id", "bank_group", "bank"):
        out.loc[out["command"].isin(["PREab", "REFab"]), name] = -1
    out.loc[out["command"] != "ACT", "row"] = -1
    out.loc[~out["command"].isin(["RD", "WR", "RDA", "WRA"]), "column"] = -1
    ordered: pd.DataFrame = out.sort_values(list(_KEYS)).reset_index(drop=True)
    return ordered


@dataclass(frozen=True)
class Comparison:
    """Commands of both up to `last_slot`, the last one that Ramulator issued.

    `first_difference` names the first command that only one of them has; empty when all are the same.
    """

    theirs: int
    ours: int
    same: int
    last_slot: int
    first_difference: str


def compare(theirs: pd.DataFrame, ours: pd.DataFrame) -> Comparison:
    """Holds two command traces against each other: `theirs` of `read_commands`, `ours` of `MemoryRun.commands`."""
    last = int(theirs["slot"].max()) if len(theirs) else 0
    mine = _plain(ours[ours["slot"] <= last])
    both = theirs.merge(mine, on=list(_KEYS), how="outer", indicator=True).sort_values(list(_KEYS))
    only = both[both["_merge"] != "both"]
    told = ""
    if len(only):
        row = only.iloc[0]
        who = "Ramulator" if row["_merge"] == "left_only" else "cosim"
        where = ", ".join(f"{name} {row[name]}" for name in _KEYS[2:] if row[name] >= 0)
        told = f"slot {row['slot']}: only {who} has {row['command']} ({where})"
    return Comparison(len(theirs), len(mine), int((both["_merge"] == "both").sum()), last, told)
