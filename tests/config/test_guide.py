"""The configuration guide: its examples run, and every key of the schemas is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from cosim.cli import main
from cosim.config import (
    ConfigErrors,
    load_experiment,
    load_yaml,
    parse_yaml,
    presets,
    schema_experiment,
    schema_hardware,
    schema_model,
    schema_network,
    schema_topology,
    units,
    validate,
)
from cosim.config.loader import MAX_VALUES
from cosim.config.schema_hardware import HardwareSpec
from cosim.system import System

GUIDE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


NETWORK_GUIDE = (Path(__file__).parents[2] / "docs" / "network.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def test_python_examples_run() -> None:
    assert len(blocks("python")) == 2
    for block in blocks("python"):
        names: dict[str, object] = {}
        exec(compile(block, "docs/configuration.md", "exec"), names)  # noqa: S102
        for line in block.splitlines():
            expression, shown, value = line.partition("  # ")
            if shown and " import " not in expression:
                assert repr(eval(expression, names)) == value  # noqa: S307


def test_yaml_examples_are_the_shipped_files() -> None:
    experiment, hardware, levels = blocks("yaml")
    assert parse_yaml(experiment).data == load_yaml(presets.find("experiments", "quickstart")).data
    assert validate(HardwareSpec, parse_yaml(hardware)).levels["package"].topology.router_count() == 16
    assert len(System.build(validate(HardwareSpec, parse_yaml(levels))).gateways) == 4


def test_commands_run(tmp_path: Path) -> None:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    own = tmp_path / "my.yaml"
    own.write_text(presets.find("experiments", "quickstart").read_text())
    assert len(lines) == 4
    for line in lines:
        words = re.sub(r"#.*|>.*", "", line).replace("my.yaml", str(own)).split()
        assert words[:2] == ["$", "cosim"]
        assert CliRunner().invoke(main, words[2:]).exit_code == 0, line


def test_printed_errors_are_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = blocks("text")[0].splitlines()
    for line in shown[:2]:
        place, key, text = line.split(": ", 2)
        # the same finding, in a file that has the mistake at that place
        row, column = (int(part) for part in place.split(":")[1:])
        assert row > 0
        assert column > 0
        wrong = {
            "levels.package.flit_width": ("64 B", "64 b"),
            "endpoints.memory.at.packge": ("at: {package: [1", "at: {packge: [1"),
        }[key]
        Path("hw.yaml").write_text(blocks("yaml")[1].replace(*wrong))
        with pytest.raises(ConfigErrors) as caught:
            validate(HardwareSpec, load_yaml("hw.yaml"))
        assert any(str(error).split(": ", 2)[1:] == [key, text] for error in caught.value.errors)
    with pytest.raises(ConfigErrors) as caught:
        load_experiment("quickstart", ["workload.mode=decod"])
    assert [str(error) for error in caught.value.errors] == shown[2:]


def specs() -> list[type[BaseModel]]:
    found = []
    for module in (schema_experiment, schema_hardware, schema_model, schema_network, schema_topology):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == module.__name__:
                found.append(value)
    return found


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.__name__)
def test_every_key_is_in_the_guide(spec: type[BaseModel]) -> None:
    # networks by themselves have a guide of their own
    guide = GUIDE + (NETWORK_GUIDE if "network" in spec.__module__ or "topology" in spec.__module__ else "")
    keys = [field.alias or key for key, field in spec.model_fields.items()]
    missing = [key for key in keys if not re.search(rf"\b{key}\b", guide)]
    assert missing == []


def test_limits_and_dimensions_are_in_the_guide() -> None:
    assert f"{MAX_VALUES:,}" in GUIDE
    for dimension in (units.BYTES, units.FREQUENCY, units.BANDWIDTH, units.OPERATION_RATE, units.ENERGY_PER_BIT):
        assert f"`{dimension.base}" in GUIDE or dimension.example.split()[1] in GUIDE
