"""`cosim config`: what ships, checks with every error, resolved files, schema for editors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cosim.cli import main


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments])


def test_list() -> None:
    lines = call("list").stdout.splitlines()
    kinds = ["experiments", "hardware", "models", "networks", "memory", "claims", "placements", "checkpoints", "traces"]
    assert [line.split(":")[0] for line in lines] == kinds
    assert call("list", "hardware").stdout.startswith("hardware: ")


def test_show_loads_again(tmp_path: Path) -> None:
    first = call("show", "model", "mixtral-8x7b", "-o", "bytes_per_weight=1")
    assert first.exit_code == 0
    file = tmp_path / "again.yaml"
    file.write_text(first.stdout)
    assert call("show", "model", str(file)).stdout == first.stdout


def test_check_lists_every_error() -> None:
    result = call("check", "model", "mixtral-8x7b", "-o", "top_k=9", "-o", "hiden=1")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "2 errors"
    assert call("check", "model", "mixtral-8x7b").stdout == "mixtral-8x7b: no errors\n"


@pytest.mark.parametrize("kind", ["experiment", "hardware", "model"])
def test_schema_is_json(kind: str) -> None:
    document = json.loads(call("schema", kind).stdout)
    assert document["type"] == "object"
    assert document["additionalProperties"] is False
