from __future__ import annotations

import io
import re

import numpy as np
import pytest
import synthetic_run

from cosim.report import tables, verdicts, vocabulary
from cosim.report.contents import RunContents
from cosim.report.progress import RunProgress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_report_is_aligned_and_has_no_control_codes(whole: RunContents) -> None:
    text = tables.plain_report(whole)
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    block = text.split("Layer latency\n", 1)[1].splitlines()
    ends = {match.end() for line in block[2:17] for match in [re.search(r"\]", line)] if match}
    assert len(ends) == 1, "the interval column is right-aligned"


def test_latency_cells_equal_the_metrics(whole: RunContents) -> None:
    table = tables.latency_table(whole)
    assert table.header[2] == "mean [95 % CI] µs"
    assert len(table.rows) == 15
    for policy, rung, mean, p50, p95, p99, error, n in table.rows:
        row = whole.metric(policy, rung, "layer_latency_mean")
        assert row is not None
        assert float(mean.split(" [")[0]) == pytest.approx(row["value"] / 1000, rel=5e-4)
        median = whole.metric(policy, rung, "layer_latency_p50")
        assert median is not None
        assert float(p50) == pytest.approx(median["value"] / 1000, rel=5e-4)
        assert (p95, p99) == ("n too small", "n too small")
        assert n == "192"
        against = whole.metric(policy, rung, "error_against_flit")
        if rung == "flit":
            assert error == "–"
        else:
            assert against is not None
            assert float(error.removesuffix(" %").replace("−", "-")) == pytest.approx(against["value"] * 100, abs=0.05)


def test_units_of_percentiles_are_stated(whole: RunContents) -> None:
    notes = tables.latency_table(whole).notes
    assert "P95: n too small, it needs n ≥ 400 units" in notes
    assert "P99: n too small, it needs n ≥ 2,000 units" in notes
    assert [vocabulary.units_needed(p) for p in (0.5, 0.95, 0.99, 0.999)] == [40, 400, 2000, 20000]


def test_balance_definition_stands_below_its_table(whole: RunContents) -> None:
    table = tables.traffic_table(whole)
    assert table is not None
    assert f"balance: {whole.info.balance_definition}" in table.notes


def test_every_metric_has_a_place(whole: RunContents) -> None:
    """Each kind of metric turns up in exactly one table, with its own value."""
    by_title = {table.title: table for table in tables.all_tables(whole)}
    assert list(by_title) == [
        "Layer latency",
        "Traffic, balance and energy",
        "Error of each rung against flit",
        "Stage by stage: difference from flit",
        "Where the error of link comes from",
        "Rank agreement of the policies with flit",
        "Further metrics",
    ]
    assert [row[0] for row in by_title["Further metrics"].rows] == ["prefetch_wasted_bytes"]
    split = by_title["Where the error of link comes from"].rows[0]
    whole_error, *parts = (float(text.split(" [")[0].replace("−", "-")) for text in split[1:])
    assert sum(parts) == pytest.approx(whole_error, abs=0.2)


def test_no_metric_is_left_out(whole: RunContents) -> None:
    text = tables.plain_report(whole)
    assert re.search(r"prefetch_wasted_bytes +popularity_prefetch +flit +1,230,000 +B +3", text)


def test_claims_show_verdict_reason_and_needs(whole: RunContents) -> None:
    text = tables.plain_report(whole)
    for claim in whole.claims:
        assert f"{verdicts.MARKS[claim['verdict']]} {verdicts.WORDS[claim['verdict']]}" in text
        assert claim["reason"] in text
        for need in claim["needs"]:
            assert need in text
    assert text.endswith("Of 5 testable claims: 2 confirmed, 1 refuted, 2 inconclusive, at flit.\n")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "No claims were put to this run"),
        (["not_testable"], "The one claim cannot be tested by this run"),
        (["not_testable"] * 2, "None of the 2 claims can be tested by this run"),
        (["refuted"], "The one testable claim is refuted at flit"),
        (["confirmed", "confirmed", "not_testable"], "All 2 testable claims are confirmed at flit"),
        (["confirmed", "refuted"], "Of 2 testable claims: 1 confirmed, 1 refuted, at flit"),
    ],
)
def test_headline(found: list[str], words: str) -> None:
    claims = [{**synthetic_run.CLAIMS[0], "id": str(i), "verdict": verdict} for i, verdict in enumerate(found)]
    assert verdicts.headline(claims) == words


def test_headline_says_when_claims_were_judged_at_different_rungs() -> None:
    lower = {**synthetic_run.CLAIMS[1], "rungs": {"link": {"value": 1.3, "ci_low": 1.29, "ci_high": 1.31, "n": 24}}}
    assert verdicts.headline([synthetic_run.CLAIMS[0], lower]) == (
        "Of 2 testable claims: 1 confirmed, 1 refuted, each at the highest rung that measured it"
    )


def test_terminal_gets_tables_and_the_same_numbers(whole: RunContents) -> None:
    stream = Terminal()
    tables.print_report(whole, stream)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert "n too small" in bare.replace("\n", " ") or "small" in bare
    assert "refuted" in bare
    assert "Layer latency" in bare


def test_numbers_read_well() -> None:
    assert vocabulary.digits(38.7304) == "38.73"
    assert vocabulary.digits(-1234567.0) == "−1,234,567"
    assert vocabulary.digits(0.5, 3) == "0.500"
    assert vocabulary.digits(3e-9) == "3.000e−09"
    assert vocabulary.quantity(38730.4, "ns") == "38.73 µs"
    assert vocabulary.quantity(268_435_456, "B") == "268.4 MB"
    assert vocabulary.count(23_418_116) == "23.4 M"
    assert vocabulary.count(512) == "512"
    assert vocabulary.percent(-0.38, signed=True) == "−38.0 %"
    assert vocabulary.percent(float("nan")) == "–"
    scale = vocabulary.scale_for([float("nan"), 900.0, 41_000.0], "ns")
    assert (scale.unit, scale(41_000.0)) == ("µs", pytest.approx(41.0))


def test_missing_metric_is_a_dash_and_undefined_is_no_small_n(whole: RunContents) -> None:
    assert tables.cell(None) == "–"
    row = {**whole.metrics.iloc[0], "metric": "balance", "value": np.nan}
    assert tables.cell(row) == "–"


def test_progress_without_a_terminal_prints_tenths() -> None:
    now = [0.0]
    stream = io.StringIO()
    with RunProgress("flit", 100, stream, clock=lambda: now[0]) as progress:
        for done in range(1, 101):
            now[0] = done * 1.0
            progress(done, 100, f"layer {done}")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "flit: started, estimated 1 min 40 s"
    assert lines[1] == "flit: 10 % (about 1 min 30 s left; layer 10)"
    assert lines[10] == "flit: 100 % (layer 100)"
    assert lines[11] == "flit: done in 1 min 40 s"
    assert len(lines) == 12
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()


def test_progress_says_how_it_ended() -> None:
    for error, word in ((KeyboardInterrupt, "interrupted"), (RuntimeError, "stopped")):
        stream = io.StringIO()
        with pytest.raises(error), RunProgress("flit", None, stream):
            raise error
        assert f"flit: {word} after" in stream.getvalue()


def test_progress_on_a_terminal_draws_in_place() -> None:
    stream = Terminal()
    with RunProgress("flit", 5, stream) as progress:
        progress(1, 2, "layer 1")
        progress(2, 2)
    assert "\x1b[" in stream.getvalue()
    assert "flit: done in" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("published", "tolerance", "unit", "text", "band"),
    [
        (0.67, {"relative": 0.1}, "1", "0.67 ± 10 %", (0.603, 0.737)),
        (-2, {"relative": 0.1}, "ns", "−2 ns ± 10 %", (-2.2, -1.8)),
        (15.06, {"absolute": 5, "reason": "about"}, "%", "15.06 ± 5 %", (10.06, 20.06)),
        (15.06, {"relative": 0.1}, "%", "15.06 % ± 10 % of it", (13.554, 16.566)),
        ({"max": 5, "min": 4}, {"relative": 0.1}, "x", "from 4 to 5 × ± 10 %", (3.6, 5.5)),
        ({"at_least": 2}, {"relative": 0.1}, "x", "at least 2 × ± 10 %", (1.8, np.inf)),
        ({"at_most": 0.2}, {"absolute": 0.0}, "1", "at most 0.2", (-np.inf, 0.2)),
        ({"lowest_first": ["a", "b"]}, {"bootstrap_p": 0.95}, "1", "a < b", None),
        ({"expect": "increasing", "x": "skew"}, {"bootstrap_p": 0.95}, "1", "increasing over skew", None),
        (None, {"bootstrap_p": 0.95}, "1", "stated in words", None),
    ],
)
def test_published_words_and_band(published, tolerance, unit, text, band) -> None:
    claim = {**synthetic_run.CLAIMS[0], "published": published, "tolerance": tolerance, "unit": unit}
    assert verdicts.published_text(claim) == text
    found = verdicts.tolerance_band(claim)
    assert found == (None if band is None else pytest.approx(band))
