"""Experiments for BookSim2 and its printed figures; `cosim xval booksim2` against a stand-in that prints them."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cosim_adapters.booksim2 import export_batch, export_traffic, read_batch, read_statistics

from cosim.cli import main
from cosim.config.errors import ConfigErrors
from cosim.noc import NetworkConfig

# printed by BookSim2 28f43299 for noc-mesh8 at injection_rate 0.3, seed 1 (minima and maxima left out)
PRINTED = """\
Time taken is 16000 cycles
====== Overall Traffic Statistics ======
====== Traffic class 0 ======
Packet latency average = 46.1152 (1 samples)
\tminimum = 10 (1 samples)
Network latency average = 45.4614 (1 samples)
Flit latency average = 40.5348 (1 samples)
Injected packet rate average = 0.0751719 (1 samples)
Injected flit rate average = 0.300683 (1 samples)
Accepted flit rate average = 0.300808 (1 samples)
Hops average = 6.26637 (1 samples)
Total run time 4.6998
"""
MESH = NetworkConfig.from_dict({"topology": {"kind": "mesh", "shape": [8, 8]}, "num_vcs": 2, "credit_delay": 3})


def keys_of(text: str) -> dict[str, str]:
    return dict(line.removesuffix(";").split(" = ") for line in text.splitlines())  # type: ignore[misc]


def test_traffic_is_written_in_booksim2s_keys() -> None:
    traffic = {
        "pattern": "bit_complement",
        "injection_rate": 0.2,
        "packet_size_flits": 5,
        "warmup_cycles": 3000,
        "measure_cycles": 5000,
    }
    keys = keys_of(export_traffic(MESH, traffic, seed=7))
    wanted = {
        "topology": "mesh",
        "k": "8",
        "n": "2",
        "routing_function": "dor",
        "num_vcs": "2",
        "vc_buf_size": "8",
        "credit_delay": "3",
        "traffic": "bitcomp",
        "packet_size": "5",
        "injection_rate": "0.2",
        "injection_rate_uses_flits": "1",
        "sim_type": "latency",
        "sample_period": "1000",
        "warmup_periods": "3",
        "max_samples": "8",
        "seed": "7",
    }
    assert {key: keys.get(key) for key in wanted} == wanted


def test_a_hotspots_lists_have_double_braces() -> None:
    text = export_batch(MESH, {"kind": "hotspot", "nodes": [27, 28]}, 1, 10, seed=1)
    assert keys_of(text)["traffic"] == "hotspot({{27,28},{1,1}})"
    assert keys_of(text)["batch_size"] == "10"


def test_everything_that_booksim2_cannot_express_is_listed() -> None:
    network = NetworkConfig.from_dict(
        {"topology": {"kind": "mesh", "shape": [4, 8]}, "link_latency": 3, "vc_buf_size": 4, "link_buffer_flits": 9}
    )
    with pytest.raises(ConfigErrors) as caught:
        export_traffic(network, {"pattern": "uniform", "injection_rate": 0.1, "warmup_cycles": 0}, seed=1)
    assert {error.path for error in caught.value.errors} == {
        "network.topology.shape",
        "network.link_latency",
        "network.link_buffer_flits",
        "traffic.warmup_cycles",
    }


def test_printed_statistics_are_read() -> None:
    read = read_statistics(PRINTED)
    assert (read.packet_latency_mean_cycles, read.network_latency_mean_cycles) == (46.1152, 45.4614)
    assert (read.injected_rate, read.accepted_rate, read.hops_mean) == (0.300683, 0.300808, 6.26637)
    batch = read_batch("Average batch duration = 759\n" + PRINTED)
    assert (batch.duration_cycles, batch.packet_latency_mean_cycles) == (759, 46.1152)


@pytest.mark.parametrize("text", ["", "Class 0:\nPacket latency average = 3 (1 samples)", "error: unknown key"])
def test_output_without_a_complete_run_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match="printed no 'Packet latency average'"):
        read_statistics(text)


def stand_in(folder: Path, text: str) -> Path:
    program = folder / "booksim"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nassert 'topology' in open(sys.argv[1]).read()\nprint({text!r})\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def call(*arguments: str) -> Result:
    short = ("-o", "traffic.measure_cycles=500", "-o", "traffic.warmup_cycles=100", "--seeds", "2")
    return CliRunner().invoke(main, ["xval", "booksim2", "noc-mesh8", *short, *arguments], standalone_mode=True)


def test_the_command_prints_both_sides_and_keeps_the_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = call("--booksim2", str(stand_in(tmp_path, PRINTED)), "--out", str(out))
    assert result.exit_code == 0, result.output
    for part in ("packet latency, mean, cycles", "46.1152", "BookSim2", "difference"):
        assert part in result.output
    assert sorted(p.name for p in out.iterdir()) == [
        "booksim2-1.cfg",
        "booksim2-1.txt",
        "booksim2-2.cfg",
        "booksim2-2.txt",
        "xval.csv",
    ]


def test_wrong_input_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOOKSIM2", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    for arguments, text in (
        ((), "no BookSim2 here"),
        (("--booksim2", str(tmp_path / "none")), "expected the BookSim2 binary"),
        (("--booksim2", str(stand_in(tmp_path, "half a run"))), "printed no"),
        (("-o", "network.link_latency=5"), "network.link_latency"),
    ):
        result = call(*arguments)
        assert result.exit_code == 2
        assert text in result.output
