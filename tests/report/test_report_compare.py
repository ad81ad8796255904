from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path

import numpy as np
import pytest
import synthetic_run
from click.testing import CliRunner, Result

from cosim.cli import main
from cosim.config.errors import ConfigErrors
from cosim.report.compare import Comparison, Difference, cohens_dz, compare, comparison_tables, hedges_g
from cosim.report.contents import RunContents
from cosim.report.directory import RunDirectory
from cosim.report.html import render


@pytest.fixture(scope="module")
def slower(small: RunContents) -> RunContents:
    layers = small.layers.copy()
    columns = [name for name in layers.columns if name.endswith("_fs")]
    layers[columns] = layers[columns] + layers[columns] // 50
    return dataclasses.replace(small, layers=layers)


def find(comparison: Comparison, quantity: str, policy: str = "static", rung: str = "flit") -> Difference:
    (found,) = [d for d in comparison.differences if (d.policy, d.rung, d.quantity) == (policy, rung, quantity)]
    return found


def test_paired_difference_is_that_of_the_units(small: RunContents, slower: RunContents) -> None:
    found = find(compare(small, slower), "layer_latency_mean")
    assert found.paired
    sums: dict[int, list[float]] = {}
    for a, b in zip(small.layers.to_dict("records"), slower.layers.to_dict("records"), strict=True):
        if (a["policy"], a["rung"]) == ("static", "flit"):
            sums.setdefault(a["batch"], []).append((b["total_fs"] - a["total_fs"]) / 1e6)
    gaps = [statistics.fmean(values) for values in sums.values()]
    assert found.difference.value == pytest.approx(statistics.fmean(gaps), rel=1e-9)
    assert found.effect == pytest.approx(statistics.fmean(gaps) / statistics.stdev(gaps), rel=1e-9)
    assert found.units == len(gaps) == 4
    assert found.lower == 0
    assert found.outcome == "higher"
    assert found.relative == pytest.approx(0.02, rel=1e-6)
    assert found.difference.low is not None
    assert found.difference.high is not None
    assert found.difference.low <= found.difference.value <= found.difference.high


def test_a_run_equals_itself(small: RunContents) -> None:
    for found in compare(small, small).differences:
        assert found.difference.value == 0
        assert found.outcome == "the same"
        assert found.lower in (0, None)


def test_swapping_the_runs_turns_the_sign(small: RunContents, slower: RunContents) -> None:
    there, back = find(compare(small, slower), "stage_memory_mean"), find(compare(slower, small), "stage_memory_mean")
    assert there.difference.value == -back.difference.value
    assert there.effect == pytest.approx(-(back.effect or 0))
    assert (there.outcome, back.outcome) == ("higher", "lower")


def test_other_trace_is_compared_unpaired_and_wider(small: RunContents, slower: RunContents) -> None:
    other = dataclasses.replace(slower, info=dataclasses.replace(slower.info, trace_name="another"))
    found = compare(small, other)
    assert found.unpaired_because == ("other trace name: sample and another",)
    loose, tight = find(found, "layer_latency_mean"), find(compare(small, slower), "layer_latency_mean")
    assert not loose.paired
    assert loose.lower is None
    assert loose.difference.value == tight.difference.value
    ends = [(d.difference.low, d.difference.high) for d in (loose, tight)]
    widths = [high - low for low, high in ends if low is not None and high is not None]
    assert widths[0] > 3 * widths[1]
    notes = " ".join(comparison_tables(found)[0].notes)
    assert "unpaired, since the runs have other trace name: sample and another" in notes


def test_other_units_are_compared_unpaired(small: RunContents) -> None:
    fewer = dataclasses.replace(small, layers=small.layers[small.layers["batch"] < 3])
    found = compare(small, fewer)
    assert found.unpaired_because == ("other (seed, batch, layer) units",)
    assert find(found, "layer_latency_mean").units == 3


def test_policies_of_one_run_can_be_paired(small: RunContents) -> None:
    found = compare(small, small, [("static", "hot_replication")])
    best = find(found, "layer_latency_mean", policy="static → hot_replication")
    assert best.paired
    assert best.outcome == "lower"
    means = small.layers.groupby(["policy", "rung"])["total_fs"].mean()
    gap = (means["hot_replication", "flit"] - means["static", "flit"]) / 1e6
    assert best.difference.value == pytest.approx(gap, rel=1e-9)


def test_percentiles_need_enough_units(whole: RunContents, small: RunContents) -> None:
    assert {d.quantity for d in compare(small, small).differences if "_p" in d.quantity[-4:]} == set()
    quantities = {d.quantity for d in compare(whole, whole).differences}
    assert "layer_latency_p50" in quantities
    assert "layer_latency_p95" not in quantities


def test_effect_sizes_by_hand() -> None:
    assert hedges_g(np.array([1.0, 2, 3]), np.array([2.0, 3, 4])) == pytest.approx(1 - 3 / 15)
    assert hedges_g(np.array([1.0, 1]), np.array([1.0, 1])) is None
    assert hedges_g(np.array([1.0]), np.array([1.0, 2])) is None
    assert cohens_dz(np.array([1.0, 2, 3])) == pytest.approx(2.0)
    assert cohens_dz(np.array([1.0, 1])) is None
    assert cohens_dz(np.array([1.0])) is None


def test_wrong_policy_is_named(small: RunContents) -> None:
    with pytest.raises(ConfigErrors, match=r"a policy of B, .* got 'statik'; did you mean 'static'\?"):
        compare(small, small, [("static", "statik")])


def test_runs_without_anything_in_common_are_refused(small: RunContents) -> None:
    other = synthetic_run.contents(policies=("alpha",), rungs=("flit",), seeds=(1,), batches=2, layers=1)
    with pytest.raises(ConfigErrors, match="a policy and rung that both runs have"):
        compare(small, other)


def test_changed_keys_and_verdicts_are_listed(small: RunContents) -> None:
    claims = [{**claim, "verdict": "confirmed"} for claim in small.claims[:2]]
    other = dataclasses.replace(small, claims=claims)
    found = compare(
        small, other, configurations=({"system": {"vcs": 4, "x": [1]}, "same": 1}, {"system": {"vcs": 8}, "same": 1})
    )
    assert found.configuration == (("system.vcs", "4", "8"), ("system.x", "[1]", "–"))
    assert ("replica-p95-cut", "refuted", "confirmed") in found.verdicts
    assert ("replica-factor", "confirmed", "confirmed") not in found.verdicts
    titles = [table.title for table in comparison_tables(found)]
    assert titles == [
        "Configuration that differs",
        "Layer latency, B against A",
        "Stages and traffic, B against A: mean per layer and batch",
        "Claims whose verdict differs",
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, small: RunContents, slower: RunContents) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("runs")
    for name, contents in (("a", small), ("b", slower)):
        with RunDirectory(base / name, f"system: {{vcs: {4 if name == 'a' else 8}}}\n") as run:
            run.write_contents(contents)
            run.write_provenance((1,), {})
    return base / "a", base / "b"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_compare_command_prints_tables_and_json(folders: tuple[Path, Path]) -> None:
    text = call("compare", *folders)
    assert text.exit_code == 0, text.output
    assert "system.vcs  4  8" in text.stdout
    assert "+2.0 %" in text.stdout
    data = json.loads(call("compare", *folders, "--json").stdout)
    assert data["schema"] == 1
    assert {d["outcome"] for d in data["differences"] if d["quantity"] == "layer_latency_mean"} == {"higher"}
    one = call("compare", folders[0], folders[0], "--policy", "static:hot_replication")
    assert "static → hot_replication" in one.stdout


def test_compare_command_refuses_what_is_no_run(folders: tuple[Path, Path], tmp_path: Path) -> None:
    result = call("compare", folders[0], tmp_path)
    assert result.exit_code == 2
    assert "expected a complete run directory" in result.stderr
    assert call("compare", folders[0], tmp_path / "none").exit_code == 2


def test_report_command_makes_the_page_again(folders: tuple[Path, Path], small: RunContents, tmp_path: Path) -> None:
    result = call("report", folders[0])
    assert result.exit_code == 0, result.output
    page = (folders[0] / "report.html").read_text(encoding="utf-8")
    assert page == render(small)
    assert call("report", folders[0], "--out", tmp_path / "x.html", "--tables").stdout.startswith("quickstart: ")
    assert (tmp_path / "x.html").read_text(encoding="utf-8") == page
    wrong = call("report", tmp_path / "none")
    assert wrong.exit_code == 2
    assert "expected a run directory, got nothing" in wrong.stderr


def test_report_of_an_incomplete_run_says_why(tmp_path: Path, small: RunContents) -> None:
    def interrupted() -> None:
        with RunDirectory(tmp_path / "out", "a: 1\n") as run:
            run.write_contents(small)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert call("report", tmp_path / "out").exit_code == 0
    assert "It was interrupted by the user (Ctrl-C)." in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
