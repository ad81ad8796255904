"""``cosim claims`` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cosim.cli import main
from cosim.validate.claims import load_claims

TABLE = (
    "policy,layer,quantity,value,unit\nstatic,all,layer_latency_mean,4.7417,ms\nhot,all,layer_latency_mean,4.0355,ms\n"
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["claims", *arguments])


def test_list_names_the_shipped_sets() -> None:
    result = run("list")
    assert result.exit_code == 0
    assert any(line.startswith("quickstart: ") for line in result.output.splitlines())


def test_list_of_a_set_has_a_line_per_claim() -> None:
    result = run("list", "quickstart")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == len(load_claims("quickstart").claims)


def test_show_prints_one_claim_whole() -> None:
    result = run("show", "quickstart", "comoe-within-10-percent")
    assert result.exit_code == 0
    assert "  published: 1.0" in result.output
    assert '  tolerance: {"relative": 0.1}' in result.output
    assert "rung='analytic:comoe'" in result.output


def test_show_as_json() -> None:
    data = json.loads(run("show", "quickstart", "--json").output)
    assert data["schema"] == 1
    assert {claim["kind"] for claim in data["claims"]} <= {"value", "ratio", "order", "trend"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "quickstart", "comoe-within-10-percnt"), "did you mean 'comoe-within-10-percent'"),
        (("list", "quickstrat"), "did you mean 'quickstart'"),
        (("from-csv", "none.csv", "--experiment", "e"), "no such file"),
        (("from-csv",), "TABLE.csv"),
    ],
)
def test_wrong_input_ends_with_status_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_from_csv_makes_a_file_that_loads_and_is_never_overwritten(tmp_path: Path) -> None:
    table, out = tmp_path / "mine.csv", tmp_path / "mine.yaml"
    table.write_text(TABLE)
    arguments = ("from-csv", str(table), "--experiment", "quickstart", "--out", str(out))
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert [claim.id for claim in load_claims(str(out)).claims] == [
        "layer-latency-mean-static",
        "layer-latency-mean-hot",
        "layer-latency-mean-hot-over-static",
        "layer-latency-mean-order",
    ]
    before = out.read_bytes()
    again = run(*arguments)
    assert again.exit_code == 2
    assert "exists" in again.output
    assert out.read_bytes() == before


def test_from_csv_without_out_prints(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(TABLE)
    result = run("from-csv", str(tmp_path / "mine.csv"), "--paper", "Ours")
    assert result.exit_code == 0
    assert "paper: Ours" in result.output
    assert "published: 4.7417" in result.output
    assert "experiment" not in result.output


def test_bad_tables_list_every_error(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("policy,layer,quantity,value,unit\na,x,layer_latency_mean,1,GB\n")
    result = run("from-csv", str(tmp_path / "mine.csv"), "--experiment", "e")
    assert result.exit_code == 2
    assert "mine.csv:2" in result.output
    assert "2 errors" in result.output
