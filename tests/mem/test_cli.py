"""`cosim mem`: every trace form, units with every figure, errors with the line they are on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from cosim.cli.mem import mem
from cosim.config.errors import ConfigErrors
from cosim.mem.traces import parse_lines, read_trace


def call(*arguments: str) -> Result:
    return CliRunner().invoke(mem, list(arguments), catch_exceptions=False)


def test_the_forms_of_a_trace(tmp_path: Path) -> None:
    coordinates = parse_lines(["@0 R 0 0 1 2 5 3", "# a remark", "", "@10 W 0 0 1 2 5 4"], "t")
    assert coordinates["arrive_cycle"].tolist() == [0, 10]
    assert coordinates[["pseudo_channel", "stack_id", "bank_group", "bank", "row", "column"]].values.tolist() == [
        [0, 0, 1, 2, 5, 3],
        [0, 0, 1, 2, 5, 4],
    ]
    assert parse_lines(["R 0x40", "ST 64"], "t")["address"].tolist() == [64, 64]
    assert parse_lines(["0x40 READ 7"], "t").to_dict("records") == [{"arrive_cycle": 7, "op": "R", "address": 64}]
    assert parse_lines(["0x40 R", "128 W"], "t")["address"].tolist() == [64, 128]
    levels = parse_lines(["R 0,1,2,3,5,7", "W 1,0,2,3,5,8"], "t")
    assert levels[["channel", "pseudo_channel", "stack_id", "bank_group", "row"]].values.tolist() == [
        [0, 1, 0, 2, 5],
        [1, 0, 0, 2, 5],
    ]
    assert parse_lines(["R 0,1,1,2,3,5,7"], "t")["stack_id"].tolist() == [1]
    frame = pd.DataFrame({"arrive_cycle": [0], "op": ["R"], "address": [0], "size_bytes": [64]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        pd.testing.assert_frame_equal(read_trace(tmp_path / name), frame)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["R 0", "X 0"], "line 2: expected"),
        (["R 0", "@0 R 0 0 1 2 5 3"], "line 2: expected the form of the lines before (address)"),
        (["R 0 0 1 2 5"], "line 1"),
        (["# nothing"], "holds no request"),
        (["@x R 0 0 0 0 0 0"], "line 1"),
        (["R 0,1,2"], "line 1: expected"),
        (["64 READ x"], "line 1: expected"),
    ],
)
def test_bad_traces(lines: list[str], text: str) -> None:
    with pytest.raises(ConfigErrors) as error:
        parse_lines(lines, "file.trace")
    assert text in str(error.value)
    assert "file.trace" in str(error.value)


def test_run_prints_units(tmp_path: Path) -> None:
    trace = tmp_path / "t.trace"
    trace.write_text("".join(f"@0 R 0 0 {i % 4} 0 5 {i // 4}\n" for i in range(64)))
    out = tmp_path / "requests.csv"
    commands = tmp_path / "commands.parquet"
    result = call(
        "run", str(trace), "--preset", "HBM3_6400", "-o", "refresh=all_bank", "-o", "timing.nRCDRD=31",
        "--requests", str(out), "--commands", str(commands),
    )  # fmt: skip
    assert result.exit_code == 0
    for text in ("CK = ", " ns", "GB/s of 51.2000 GB/s", "bound by", "pJ/bit", "assumed", "row hits       60"):
        assert text in result.output
    assert len(pd.read_csv(out)) == 64
    assert (pd.read_parquet(commands)["command"] == "ACT").sum() == 4


def test_run_of_sram_says_what_it_is(tmp_path: Path) -> None:
    trace = tmp_path / "t.trace"
    trace.write_text("R 0\nW 128\n")
    output = call("run", str(trace), "--preset", "SRAM_64MiB").output
    assert "16 banks of 1 port(s) of 125 B a cycle, 128 B per burst, CK 1000 MHz" in output
    assert "row hits" not in output
    assert "read 0.160 nJ, write 0.160 nJ" in output


def test_map_shows_interleaving() -> None:
    result = call("map", "-o", "channels=4", "-o", "address_map=RoBaSiCoBgPcCh", "0x20", "0x80")
    assert "bits 5 to 6      ch0 to ch1" in result.output
    assert "bit 7            pc0" in result.output
    assert "0x20: channel 1, pseudo_channel 0" in result.output
    assert "pseudo-channel   2 of them, first changes after 128 B" in result.output
    assert "0x60: channel 3, pseudo_channel 0" in result.output
    with pytest.raises(ConfigErrors, match="an address from 0"):
        call("map", "0x7fffffffffff")


def test_map_shows_isolated_regions() -> None:
    """With the bank bits on top, a replica region of one bank's size is a bank; interleaved ones share them all."""
    options = ("map", "--bursts", "0", "--region", "0:32MiB", "--region", "0x2000000:32MiB")
    result = call(*options, "-o", "address_map=BgBaPcRoSiCoCh")
    assert "region 0:32MiB: 1 banks, 3.35544e+07 B in each" in result.output
    assert "0:32MiB and 0x2000000:32MiB: isolated, no bank in common" in result.output
    assert "share 32 banks" in call(*options).output
    for wrong, text in (("0:10", "whole bursts of 32 B"), ("0", "ADDRESS:SIZE"), ("0:x", "a size such as")):
        with pytest.raises(ConfigErrors, match=text):
            call("map", "--region", wrong)


def test_run_splits_the_latency_and_soak_counts(tmp_path: Path) -> None:
    trace = tmp_path / "t.trace"
    trace.write_text("R 0 0 0 0 5 0\n")
    result = call("run", str(trace), "--split")
    assert "activate       15.000 CK = 15.000 ns (46.9 %)" in result.output
    result = call("soak", "--cases", "3", "--preset", "HBM2_2000")
    assert result.exit_code == 0
    assert "0 cases broke a law" in result.output
    assert "3 cases" in result.output


def test_table_prints_every_pair() -> None:
    result = call("table", "--preset", "HBM2_2000")
    assert "ACT    RD     bank                15  tRCD" in result.output
    assert "(window 4)  tFAW" in result.output
    assert len([line for line in result.output.splitlines() if line.startswith("REFpb")]) >= 9
