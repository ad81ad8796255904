"""A memory node's figures and refusals come from the room of memory; keys and defaults are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosim.config import ConfigErrors, presets
from cosim.config.schema_hardware import MemorySpec
from cosim.mem import presets as memory_presets
from cosim.mem.options import _DEFAULTS
from cosim.system import load_system
from cosim.system.memory import memory_figures


def test_keys_and_defaults_are_those_of_the_room_of_memory() -> None:
    spec = MemorySpec(preset="HBM2_2000", channels=1)
    # skipping is the experiment's key, for all components together
    assert set(MemorySpec.model_fields) == set(_DEFAULTS) - {"skipping"}
    assert {**_DEFAULTS, **spec.options()} == {**_DEFAULTS, "preset": "HBM2_2000"}


def test_figures_of_two_channels_of_hbm2() -> None:
    # JESD235: 128 bits a channel; at 2 Gb/s that is 32 GB/s, and 8 Gb a channel are 1 GiB
    figures = memory_figures(MemorySpec(preset="HBM2_2000", channels=2))
    assert (figures.peak_Bps, figures.capacity_bytes, figures.access_bytes) == (64 * 10**9, 2 * 2**30, 32)


def test_figures_of_the_published_tiers() -> None:
    """HCRMap Table 1: 64 MB at 2.0 TB/s, 8 GB at 460.8 GB/s, 32 GB at 409.6 GB/s; HDA-MoE: 625 GB/s a node."""
    specs = [
        (MemorySpec(preset="SRAM_64MiB", channels=1), (2000 * 10**9, 64 * 2**20, 128)),
        (MemorySpec(preset="HBM2_1800", organisation="2Gb", channels=16), (460_800 * 10**6, 8 * 2**30, 32)),
        (MemorySpec(preset="DDR5_6400", organisation="8Gb_x16", channels=16), (409_600 * 10**6, 32 * 2**30, 64)),
        (MemorySpec(preset="HB3D_625", channels=8), (625 * 10**9, 8 * 2**30, 128)),
    ]
    for spec, figures in specs:
        got = memory_figures(spec)
        assert (got.peak_Bps, got.capacity_bytes, got.access_bytes) == figures


def test_shipped_package_builds() -> None:
    system = load_system("package-4x4")
    assert system.memory_endpoints[0].memory == memory_figures(MemorySpec(preset="HBM2_2000", channels=2))


@pytest.mark.parametrize(
    ("option", "place", "got"),
    [
        ("preset=HBM2_2001", "endpoints.memory.memory.preset", "unknown preset 'HBM2_2001'; did you mean"),
        ("timing={nRCDRX: 3}", "endpoints.memory.memory.timing", "nRCDRX"),
        ("page_timeout=3", "endpoints.memory.memory.page_timeout", "is only read with page_policy 'timeout'"),
        (
            "write_low_watermark=0.9",
            "endpoints.memory.memory.write_low_watermark",
            "must be below write_high_watermark",
        ),
    ],
)
def test_refusals_are_placed(option: str, place: str, got: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load_system("package-4x4", [f"endpoints.memory.memory.{option}"])
    (error,) = caught.value.errors
    assert error.path == place
    assert got in str(error)


def test_own_standard_file_counts_from_its_system_file(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(memory_presets()["HBM2_2000"].read_text())
    hardware = tmp_path / "hw.yaml"
    text = presets.find("hardware", "package-4x4").read_text()
    hardware.write_text(text.replace("preset: HBM2_2000", "preset: HBM2_2000, standard_file: own.yaml"))
    memory = load_system(str(hardware)).memory_endpoints[0].spec.memory
    assert memory is not None
    assert memory.standard_file == str(tmp_path / "own.yaml")
    hardware.write_text(text.replace("preset: HBM2_2000", "preset: './own.yaml:HBM2_2000'"))
    memory = load_system(str(hardware)).memory_endpoints[0].spec.memory
    assert memory is not None
    assert memory.preset == f"{tmp_path / 'own.yaml'}:HBM2_2000"
    hardware.write_text(text.replace("preset: HBM2_2000", "preset: HBM2_2000, standard_file: own.yml"))
    with pytest.raises(ConfigErrors, match=r"standard_file: expected a file, got .*own\.yml.*did you mean"):
        load_system(str(hardware))
