"""Standards as data: arithmetic of every preset, and what a wrong file or override gets."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cosim import mem
from cosim.config.errors import ConfigErrors
from cosim.mem.expressions import evaluate
from cosim.mem.standard import COMMANDS
from cosim.mem.standard_files import config_folder, presets
from cosim.mem.standards import load_standard


def preset_names() -> list[str]:
    return list(presets())


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_adds_up(preset: str) -> None:
    standard = load_standard(preset)
    organisation = standard.organisation
    # bytes = product of the levels x bytes per burst: "column" means the same thing everywhere
    assert organisation.access_bytes * 8 == organisation.dq_bits * organisation.burst_length
    memory = mem.Memory({"preset": preset, "channels": 2})
    assert memory.capacity_bytes == memory.options.address_map.capacity_bytes
    # a burst keeps the bus for as long as its beats take at the data rate
    burst_fs = standard.timing["nBL"] * standard.slots_per_cycle * standard.tick_fs
    per_second = organisation.access_bytes / (burst_fs / 10**15) * organisation.pseudo_channels
    assert standard.channel_Bps == per_second


@pytest.mark.parametrize("preset", preset_names())
def test_every_figure_says_where_it_is_from(preset: str) -> None:
    standard = load_standard(preset)
    for name in standard.timing:
        assert standard.provenance[name]
    assumed = {n for n, text in standard.provenance.items() if text.startswith("assumed: ")}
    assert {n.rsplit(".", 1)[-1] for n in assumed} == set(standard.assumed)


def value_sets(preset: str) -> list[str]:
    return ["standard", *yaml.safe_load(presets()[preset].read_text()).get("value_sets", {})]


@pytest.mark.parametrize(("preset", "values"), [(p, v) for p in presets() for v in value_sets(p)])
def test_every_pair_of_commands_is_in_the_table(preset: str, values: str) -> None:
    table = load_standard(preset, values).table()
    commands = load_standard(preset, values).commands
    assert len(commands) == len(COMMANDS)
    assert {(row["from"], row["to"]) for row in table} == {(a, b) for a in commands for b in commands}


def test_hbm2_tier_of_the_published_system() -> None:
    """32 pseudo-channels x 8 B x 1.8 Gb/s = 460.8 GB/s; 256 MiB each with 2 Gb per pseudo-channel."""
    memory = mem.Memory({"preset": "HBM2_1800", "organisation": "2Gb", "channels": 16})
    organisation = memory.standard.organisation
    assert organisation.pseudo_channels * 16 == 32
    assert organisation.dq_bits // 8 == 8
    assert memory.peak_GBps == pytest.approx(32 * 8 * 1.8) == pytest.approx(460.8)
    assert organisation.channel_bytes // organisation.pseudo_channels == 256 * 2**20
    assert memory.capacity_bytes == 8 * 2**30


def test_ddr5_tier_of_the_published_system() -> None:
    """8 DDR5-6400 channels are 16 sub-channels of 25.6 GB/s: 409.6 GB/s, and 32 GiB of 2 GiB each."""
    memory = mem.Memory({"preset": "DDR5_6400", "organisation": "8Gb_x16", "channels": 16})
    assert memory.standard.peak_GBps == pytest.approx(25.6)
    assert memory.peak_GBps == pytest.approx(409.6)
    assert memory.capacity_bytes == 32 * 2**30


def test_bonded_node_of_hda_moe() -> None:
    """Eight channels of 512 bits at 1220.703125 MT/s are the 625 GB/s of a node, without a rounding."""
    memory = mem.Memory({"preset": "HB3D_625", "channels": 8})
    assert memory.standard.channel_Bps * 8 == 625 * 10**9
    assert memory.peak_GBps == 625.0


def test_stacks_of_published_width() -> None:
    """Whole stacks: HBM2 256 GB/s, HBM2E 409.6, HBM3 819.2, HBM3E 1228.8 at 9.6 Gb/s, HBM4 2048 (2048 bits)."""
    wanted = {"HBM2_2000": 256.0, "HBM2E_3200": 409.6, "HBM3_6400": 819.2, "HBM3E_9600": 1228.8, "HBM4_8000": 2048.0}
    for preset, peak in wanted.items():
        standard = load_standard(preset)
        assert standard.peak_GBps * standard.organisation.channels_per_stack == pytest.approx(peak)


@pytest.mark.parametrize(
    ("preset", "peak"),
    [("HBM2_2000", 32.0), ("HBM2_2400", 38.4), ("HBM3_6400", 51.2), ("DDR5_6400", 25.6), ("DDR5_4800", 19.2)],
)
def test_peak_of_a_channel(preset: str, peak: float) -> None:
    assert mem.Memory({"preset": preset}).peak_GBps == pytest.approx(peak)


def test_tccdl_of_hbm3e() -> None:
    """JESD238B.01 as quoted publicly: max(4 nCK, 2.5 ns)."""
    assert {p: load_standard(p).timing["nCCDL"] for p in ("HBM3_6400", "HBM3E_8000", "HBM3E_9600")} == {
        "HBM3_6400": 4,
        "HBM3E_8000": 5,
        "HBM3E_9600": 6,
    }


def test_values_of_ramulator() -> None:
    """The figures of its presets in nCK, where rounding with its shortened tCK differs as well."""
    hbm2 = load_standard("HBM2_2000", "ramulator2.1").timing
    want = {"nRRDS": 4, "nRRDL": 4, "nFAW": 15, "nRFC": 260, "nRFCpb": 160, "nRREFD": 8, "nREFI": 3900, "nREFIpb": 244}
    assert {k: hbm2[k] for k in want} == want
    faster = load_standard("HBM2_2400", "ramulator2.1").timing
    want = {"nRRDS": 5, "nFAW": 19, "nRFC": 313, "nRFCpb": 193, "nRREFD": 10, "nREFI": 4682}
    assert {k: faster[k] for k in want} == want
    hbm3 = load_standard("HBM3_6400", "ramulator2.1").timing
    want = {"nRFC": 560, "nRFCpb": 320, "nRREFD": 8, "nREFI": 6240, "nREFIpb": 195}
    assert {k: hbm3[k] for k in want} == want
    hbm4 = load_standard("HBM4_8000", "ramulator2.1").timing
    want = {"nRFC": 900, "nRFCpb": 560, "nRREFD": 16, "nREFI": 7800, "nREFIpb": 244, "nCCDR": 2, "nRTW": 25}
    assert {k: hbm4[k] for k in want} == want
    ddr5 = load_standard("DDR5_6400", "ramulator2.1").timing
    want = {"nRRDS": 16, "nFAW": 64, "nWTRS": 5, "nCCDL_WR": 64, "nRFC": 946, "nREFI": 12500}
    assert {k: ddr5[k] for k in want} == want


def test_truer_figures_of_ddr5() -> None:
    """JESD79-5 as quoted publicly: tRRD_S 8 nCK, tFAW 32 nCK, tWTR_S max(4 nCK, 2.5 ns), tCCD_L max(8 nCK, 5 ns)."""
    timing = load_standard("DDR5_6400").timing
    want = {"nRRDS": 8, "nFAW": 32, "nWTRS": 8, "nWTRL": 32, "nCCDL": 16, "nCCDL_WR": 64, "nCCDL_WR2": 32}
    assert {k: timing[k] for k in want} == want
    assert load_standard("DDR5_5600").timing["nCCDL"] == 14
    assert timing["nREFI"] == 12480


def test_timing_overrides_by_name() -> None:
    memory = mem.Memory({"preset": "HBM2_2000", "timing": {"nRCDRD": 20}})
    assert memory.standard.timing["nRCDRD"] == 20
    assert memory.standard.provenance["nRCDRD"] == "given by the user"


@pytest.mark.parametrize(
    ("config", "texts"),
    [
        ({"prest": "HBM2_2000"}, ["unknown key 'prest'", "did you mean 'preset'?", "preset: is missing"]),
        ({"preset": "HBM2_200O"}, ["unknown preset", "did you mean"]),
        ({"preset": "./nowhere.yaml"}, ["expected a standard file", "does not exist"]),
        ({"preset": "HBM2_2000", "organisation": "4GB"}, ["unknown organisation '4GB'; did you mean '4Gb'?"]),
        ({"preset": "HBM2E_3200", "values": "ramulator2.1"}, ["this standard has no values 'ramulator2.1'"]),
        ({"preset": "HBM2_2000", "values": "ramulator"}, ["unknown value set 'ramulator'", "ramulator2.1"]),
        ({"preset": "HBM2_2000", "timing": {"nRCDR": 14}}, ["HBM2.yaml", "unknown timing 'nRCDR'", "did you mean"]),
        ({"preset": "HBM2_2000", "timing": {"nRC": 47}}, ["HBM2.yaml", "nRC", "nRAS + nRP", "48"]),
        ({"preset": "HBM2_2000", "timing": {"nFAW": 0}}, ["nFAW", "positive whole number"]),
        ({"preset": "HBM2_2000", "channels": 0}, ["channels", "got 0"]),
        ({"preset": "HBM2_2000", "refresh": "perbank"}, ["did you mean 'per_bank'?"]),
        ({"preset": "DDR5_6400", "refresh": "per_bank"}, ["DDR5 has no per_bank refresh", "all_bank, same_bank"]),
        ({"preset": "HBM2_2000", "page_policy": "timeout"}, ["page_timeout: is missing"]),
        ({"preset": "HBM2_2000", "page_timeout": 5}, ["page_timeout: is only read with"]),
        ({"preset": "HBM2_2000", "postponed_refreshes": 2}, ["refresh is 'none'"]),
        ({"preset": "HBM2_2000", "refresh": "all_bank", "postponed_refreshes": 9}, ["from 0 to 8"]),
        ({"preset": "HBM2_2000", "values": "ramulator2.1", "age_cap": 3}, ["age_cap: is fixed"]),
        ({"preset": "HBM2_2000", "scheduler": "fcfs"}, ["unknown value 'fcfs'", "frfcfs"]),
        ({"preset": "HBM2_2000", "write_low_watermark": 0.9}, ["write_low_watermark", "below"]),
        ({"preset": "HBM2_2000", "address_map": "RoBaCo"}, ["bank_group 0 bits; it has 2"]),
        (
            {"preset": "HBM2_2OOO", "refesh": "none", "channels": True},
            ["refesh", "channels", "HBM2_2000"],
        ),
    ],
)
def test_bad_configurations(config: dict[str, object], texts: list[str]) -> None:
    with pytest.raises(ConfigErrors) as error:
        mem.Memory(config)
    for text in texts:
        assert text in str(error.value)


def edited(tmp_path: Path, change: tuple[str, str]) -> Path:
    text = (config_folder() / "HBM2.yaml").read_text()
    assert change[0] in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(*change))
    return path


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (("nRP: 14, nRAS: 34, nRC: 48", "nRP: 14, nRAS: 34, nRC: 47"), ["mine.yaml", "timing.nRC", "nRAS + nRP"]),
        (("nRP: 14, nRAS: 34", "nRAS: 34"), ["mine.yaml", "needs the timing 'nRP'"]),
        (("scope: bank_group, from: [ACT]", "scope: bankgroup, from: [ACT]"), ["did you mean 'bank_group'?"]),
        (("value: nRRDL}", "value: nRRDL * 2}"), ["not a sum"]),
        (("from: [ACT], to: [REFab]", "from: [ACTIVATE], to: [REFab]"), ["unknown command 'ACTIVATE'"]),
        (("rule: ceil", "rule: floor"), ["rounding.rule"]),
        (("schema: 1", "schema: 2"), ["schema: expected 1"]),
        (("rows: 32768", "rows: 32767"), ["power of two"]),
        (("nBL: 2, nCL: 14", "nBL: 3, nCL: 14"), ["a burst of 4 beats takes 2 CK"]),
        (("act_pre_pJ: {value: 909, source: fgdram}", "act_pre_pJ: {value: 909}"), ["neither a source nor"]),
        (("limits:", "limit:"), ["unknown key 'limit'", "did you mean 'limits'?"]),
        (("rate: 2000 MT/s", "rate: 2000"), ["expected a data rate such as '2000 MT/s'"]),
    ],
)
def test_bad_standard_files(tmp_path: Path, change: tuple[str, str], texts: list[str]) -> None:
    path = edited(tmp_path, change)
    with pytest.raises(ConfigErrors) as error:
        mem.Memory({"preset": "HBM2_2000", "standard_file": str(path)})
    for text in texts:
        assert text in str(error.value)


def test_a_users_own_standard(tmp_path: Path) -> None:
    path = edited(tmp_path, ("HBM2_2000:", "mine:"))
    memory = mem.Memory({"preset": "mine", "standard_file": str(path)})
    assert memory.standard.timing["nRC"] == 48


OWN = """
schema: 1
extends: HB3D
standard: MINE
bins:
  fast: {rate: 2000 MT/s, assumed: "a try", timing: {nBL: 1, nCL: 12, nCWL: 5, nRCDRD: 14, nRCDWR: 12, nRP: 14,
         nRAS: 34, nRC: 48, nWR: 16, nRTPL: 5, nCCDS: 1, nCCDL: 2, nWTRS: 6, nWTRL: 8, nRRDS: 4, nRRDL: 4, nFAW: 16,
         nRREFD: 8, nREFI: 3900, nREFIpb: 244}}
presets: {MINE_2000: {organisation: node, bin: fast}}
"""


def test_a_file_is_a_preset_and_extends_a_shipped_standard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    for preset in ("./mine.yaml", "mine.yaml:MINE_2000", str(tmp_path / "mine.yaml")):
        standard = mem.Memory({"preset": preset}).standard
        assert (standard.name, standard.preset, standard.peak_GBps) == ("MINE", "MINE_2000", 128.0)
        assert {c.name for c in standard.constraints} >= {"tFAW", "tRFCpb"}
    (tmp_path / "mine.yaml").write_text(OWN.replace("presets: {", "presets: {OTHER: {organisation: node, bin: fast}, "))
    with pytest.raises(ConfigErrors, match=r"expected one of its presets, as in .*OTHER, MINE_2000"):
        mem.Memory({"preset": "mine.yaml"})
    (tmp_path / "mine.yaml").write_text(OWN.replace("extends: HB3D", "extends: HBM3D"))
    with pytest.raises(ConfigErrors, match=r"unknown standard 'HBM3D'; did you mean 'H"):
        mem.Memory({"preset": "mine.yaml"})
    (tmp_path / "mine.yaml").write_text(OWN.replace("extends: HB3D", "extends: mine.yaml"))
    with pytest.raises(ConfigErrors, match="circle"):
        mem.Memory({"preset": "mine.yaml"})


def test_the_standard_of_the_guide(tmp_path: Path) -> None:
    """What docs/memory.md shows as a user's own standard is one."""
    guide = Path(__file__).parents[2] / "docs" / "memory.md"
    (tmp_path / "mine.yaml").write_text(guide.read_text().split("```yaml\n", 1)[1].split("```", 1)[0])
    standard = mem.Memory({"preset": str(tmp_path / "mine.yaml")}).standard
    assert (standard.preset, standard.timing["nCL"], standard.provenance["nCL"]) == (
        "MINE_2000",
        11,
        "our test chip, report 12",
    )


def test_expressions() -> None:
    names = {"nCL": 14, "nBL": 2, "nCWL": 5}
    assert evaluate("nCL + nBL + 2 - nCWL", names) == 13
    for wrong in ("", "nCL +", "+ nCL", "nCL nBL", "nCL * 2"):
        with pytest.raises(ValueError, match=r"timing name|without a sign"):
            evaluate(wrong, names)
    with pytest.raises(KeyError):
        evaluate("nXX", names)
