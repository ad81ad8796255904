"""`cosim xval ramulator2` against a stand-in that writes what Ramulator 2.1 writes."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from cosim_adapters.ramulator2 import PRESETS, compare, export_requests, read_commands

from cosim import mem
from cosim.cli.xval import xval
from cosim.config.errors import ConfigErrors

NAMES = ("pseudo_channel", "bank_group", "bank", "row", "column")
LEVELS = dict(zip(NAMES, ("PseudoChannel", "BankGroup", "Bank", "Row", "Column"), strict=True))
TRACE = "R 0 0 0 1 5 0\nW 0 0 1 0 6 3\nR 0 0 0 1 7 0\n"


def stand_in(folder: Path, commands: pd.DataFrame) -> Path:
    """An executable that writes these commands as CmdTraceRecorder does, and statistics."""
    table = commands.rename(columns={"slot": "clock", **LEVELS})[["clock", "command", *LEVELS.values()]]
    table.insert(2, "Channel", 0)
    table.to_csv(folder / "recorded.csv", index=False)
    program = folder / "python-with-ramulator"
    program.write_text(
        f"#!{sys.executable}\nimport shutil, pathlib\n"
        f"assert pathlib.Path('requests.trace').read_text().startswith('LD ')\n"
        f"shutil.copy({str(folder / 'recorded.csv')!r}, 'commands.csv.ch0')\n"
        'pathlib.Path(\'statistics.json\').write_text(\'{"row_hits": 0, "row_misses": 2, "row_conflicts": 1}\')\n'
    )
    program.chmod(0o755)
    return program


def call(folder: Path, *arguments: str) -> Result:
    (folder / "t.trace").write_text(TRACE)
    return CliRunner().invoke(xval, ["ramulator2", str(folder / "t.trace"), *arguments])


def ours(folder: Path) -> pd.DataFrame:
    memory = mem.Memory({"preset": "HBM2_2000", "values": "ramulator2.1"})
    from cosim.mem.traces import read_trace

    (folder / "t.trace").write_text(TRACE)
    frame = export_requests(memory, read_trace(folder / "t.trace")).frame
    return memory.run_requests(frame, commands=True).commands


def test_the_command_compares_and_keeps_the_files(tmp_path: Path) -> None:
    program = stand_in(tmp_path, ours(tmp_path))
    result = call(tmp_path, "--ramulator2", str(program), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert f"same           {len(ours(tmp_path)):>12}" in result.output
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "commands.csv.ch0",
        "experiment.py",
        "requests.trace",
        "statistics.json",
        "xval.csv",
    }
    compile((tmp_path / "out" / "experiment.py").read_text(), "experiment.py", "exec")


def test_a_different_command_is_named(tmp_path: Path) -> None:
    changed = ours(tmp_path)
    changed.loc[2, "slot"] += 1
    result = call(tmp_path, "--ramulator2", str(stand_in(tmp_path, changed)))
    assert result.exit_code == 1
    assert "first difference: slot" in result.output


def test_nothing_installed_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAMULATOR2_PYTHON", raising=False)
    assert "no Ramulator 2.1 here: name the Python" in call(tmp_path).output
    assert "expected a Python interpreter" in call(tmp_path, "--ramulator2", str(tmp_path / "none")).output
    result = call(tmp_path, "--ramulator2", sys.executable)  # has no package of that name
    assert "no statistics" in result.output
    assert "No module named 'ramulator'" in result.output


def test_addresses_are_those_of_its_mapper() -> None:
    """RoBaRaCoCh: column lowest, then pseudo-channel, stack id, bank group, bank, row."""
    memory = mem.Memory({"preset": "HBM3_6400", "values": "ramulator2.1", "refresh": "per_bank"})
    frame = pd.DataFrame({"arrive_cycle": 0, "op": ["R", "W"], "pseudo_channel": 1, "stack_id": [0, 1], "row": [1, 0]})
    experiment = export_requests(memory, frame)
    assert experiment.trace == f"LD {32 * (32 + 32 * 2 * 2 * 4 * 4)}\nST {32 * (32 + 64)}\n"
    for text in ('HBM3_16Gb_8hi", timing_preset="HBM3_6400Mbps", pseudochannel=2', "HBM34PerBankRefresh()", "HBM34("):
        assert text in experiment.script
    assert experiment.frame["arrive_cycle"].tolist() == [0, 0.5]


def test_what_it_cannot_express_is_listed() -> None:
    memory = mem.Memory({"preset": "HBM2E_3200", "channels": 2})
    frame = pd.DataFrame({"arrive_cycle": [5], "op": ["R"], "row": [1]})
    with pytest.raises(ConfigErrors) as error:
        export_requests(memory, frame)
    for text in ("memory.preset", "memory.values", "memory.channels", "requests.arrive_cycle"):
        assert text in str(error.value)
    assert set(PRESETS) <= set(mem.presets())


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="expected the columns clock, command and levels"):
        read_commands(tmp_path / "x.csv")
    theirs = read_commands_of(tmp_path)
    assert compare(theirs, ours(tmp_path)).first_difference == ""


def read_commands_of(folder: Path) -> pd.DataFrame:
    stand_in(folder, ours(folder))
    return read_commands(folder / "recorded.csv")
