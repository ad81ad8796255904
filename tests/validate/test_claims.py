"""Claim files: the strict schema, and the verdict rule on made samples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samples import layers

from cosim.analytic import read_table
from cosim.analytic.comoe import TABLE_4
from cosim.config import presets
from cosim.config.errors import ConfigErrors
from cosim.validate.claims import ClaimFile, load_claims
from cosim.validate.from_csv import claims_from_table, write_claims
from cosim.validate.samples import Samples
from cosim.validate.verdicts import RunScope, judge

HEAD = "schema: 1\npaper: a test\nclaims:\n"
BASE = {
    "id": "c",
    "kind": "ratio",
    "scope": "routed",
    "statement": "s.",
    "source": "t",
    "experiment": "e",
    "published": "0.8",
    "unit": "'1'",
    "quantity": "layer_latency_mean(b) / layer_latency_mean(a)",
}
RUN = RunScope("e", "routed", {"comoe": "analytic", "hcrmap": "analytic:hcrmap"})


def claim_file(tmp_path: Path, *claims: dict[str, str | None]) -> ClaimFile:
    text = HEAD
    for number, changes in enumerate(claims):
        entries = {**BASE, "id": f"c{number}", **changes}
        lines = [f"{key}: {value}" for key, value in entries.items() if value is not None]
        text += "  - " + "\n    ".join(lines) + "\n"
    path = tmp_path / "claims.yaml"
    path.write_text(text, encoding="utf-8")
    return load_claims(str(path))


def verdict(tmp_path: Path, samples: Samples, run: RunScope = RUN, **changes: str | None) -> dict[str, Any]:
    return judge(claim_file(tmp_path, changes), samples, run)[0]


TWO = layers({("a", "flit"): 100.0, ("b", "flit"): 80.0, ("a", "link"): 90.0, ("b", "link"): 95.0})


# ---------------------------------------------------------------- schema


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "ration"}, "did you mean 'ratio'"),
        ({"scop": "routed"}, "did you mean 'scope'"),
        ({"scope": "route"}, "did you mean 'routed'"),
        ({"source": None}, "the key 'source'"),
        ({"id": "No Capitals"}, "an id of lower-case letters"),
        ({"quantity": "layer_latncy_mean(a)"}, "did you mean 'layer_latency_mean'"),
        ({"quantity": None}, "or 'needs' that name what is missing"),
        ({"tolerance": "{relative: 0.2}"}, "the key 'reason'"),
        ({"tolerance": "{absolute: 0.2}"}, "the key 'reason'"),
        ({"tolerance": "{relative: 0.1, absolute: 0.1}"}, "got both"),
        ({"tolerance": "{}"}, "got neither"),
        ({"published": "true"}, "a number"),
        ({"published": "{at_most: 1, min: 0}"}, "the keys min and max, or"),
        ({"published": "{min: 2, max: 1}"}, "min at most max"),
        ({"unit": "ns"}, "one of 1, x, %"),
        ({"quantity": "layer_latency_mean(a)"}, "without dimension"),
        ({"quantity": "layer_latency_mean(a, rung=flit) / layer_latency_mean(b)"}, "a rung in every term"),
        ({"kind": "value", "quantity": "layer_latency_mean(a)", "unit": "GB"}, "a unit of a time"),
        (
            {"kind": "order", "published": None, "unit": None, "quantity": "{lowest_first: [balance(a)]}"},
            "at least two",
        ),
        (
            {
                "kind": "order",
                "published": None,
                "unit": None,
                "quantity": "{lowest_first: [balance(a), bytes_weight(a)]}",
            },
            "expressions of one unit",
        ),
        (
            {"kind": "order", "published": None, "quantity": "{lowest_first: [balance(a), balance(b)]}"},
            "unknown key 'unit'",
        ),
        ({"kind": "trend", "published": "rising", "unit": None, "quantity": "{y: balance(a), over: x}"}, "increasing"),
        (
            {"kind": "trend", "published": "increasing", "unit": None, "quantity": "{y: 'balance(a, x=1)', over: x}"},
            "axis",
        ),
        (
            {"kind": "trend", "published": "increasing", "unit": None, "quantity": "{y: balance(a), over: batch}"},
            "unit of resampling",
        ),
    ],
)
def test_schema_is_strict(tmp_path: Path, changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        claim_file(tmp_path, changes)
    assert message in str(caught.value)
    assert "claims.yaml:" in str(caught.value)


def test_every_error_is_listed_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        claim_file(tmp_path, {"scope": "routd"}, {"unit": "ns"}, {"statement": "''"})
    # Claims start on lines 4, 13 and 22; scope is a claim's third key, unit its eighth, statement its fourth.
    assert [error.line for error in caught.value.errors] == [6, 20, 25]


def test_ids_are_unique(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match="each id once"):
        claim_file(tmp_path, {"id": "same"}, {"id": "same"})


def test_a_wider_tolerance_with_a_reason_is_fine(tmp_path: Path) -> None:
    entry = claim_file(tmp_path, {"tolerance": "{relative: 0.3, reason: another model}"}).claims[0]
    assert entry.tolerance_json() == {"relative": 0.3, "reason": "another model"}


def test_shipped_claims_load() -> None:
    for name in presets.names("claims"):
        loaded = load_claims(name)
        assert loaded.name == name
        assert all(claim.source and claim.statement.endswith(".") for claim in loaded.claims)


def test_ratios_of_table_4_are_its_quotients() -> None:
    short = {"static": "static", "hot": "hot_replication", "transition": "transition_prefetch", "comoe": "comoe"}
    table = {policy: {"mean": ms, "load": gb, "balance": balance} for policy, ms, gb, balance in TABLE_4}
    checked = 0
    for claim in load_claims("comoe").claims:
        match = re.fullmatch(r"ratio-(mean|load)-(\w+)-over-(\w+)", claim.id)
        if match:
            above, below = table[short[match[2]]], table[short[match[3]]]
            assert claim.published_json() == pytest.approx(above[match[1]] / below[match[1]], abs=6e-5), claim.id
            checked += 1
    assert checked == 12


@pytest.mark.parametrize("name", ["comoe", "hcrmap"])
def test_papers_claims_are_measured_or_say_what_they_need(name: str) -> None:
    claims = load_claims(name).claims
    measured = [claim for claim in claims if claim.expressions() and not claim.needs]
    assert len(measured) > len(claims) / 2
    assert all(claim.kind in ("value", "ratio") or not claim.needs or not claim.expressions() for claim in claims)


def test_unknown_claim_set_names_the_nearest() -> None:
    with pytest.raises(ConfigErrors, match="did you mean 'quickstart'"):
        load_claims("quickstrat")


# ---------------------------------------------------------------- verdicts


def test_entry_has_exactly_the_agreed_keys(tmp_path: Path) -> None:
    entry = verdict(tmp_path, Samples(TWO))
    assert list(entry) == [
        "id",
        "scope",
        "statement",
        "kind",
        "source",
        "published",
        "tolerance",
        "unit",
        "rungs",
        "verdict",
        "reason",
        "needs",
    ]
    assert set(entry["rungs"]) == {"link", "flit"}
    assert set(entry["rungs"]["flit"]) == {"value", "ci_low", "ci_high", "n"}
    assert entry["rungs"]["flit"]["n"] == 96
    assert entry["tolerance"] == {"relative": 0.1}


def test_confirmed_refuted_and_inconclusive_at_the_highest_rung(tmp_path: Path) -> None:
    # b / a is 0.8 at flit without noise of its own, 1.06 at link: only flit counts.
    assert verdict(tmp_path, Samples(TWO))["verdict"] == "confirmed"
    refuted = verdict(tmp_path, Samples(TWO), published="0.5")
    assert refuted["verdict"] == "refuted"
    assert "lies outside 0.45 to 0.55 at flit" in refuted["reason"]
    assert verdict(tmp_path, Samples(TWO[TWO["rung"] == "link"]))["verdict"] == "refuted"
    wide = layers({("a", "flit"): 100.0}, noise=0.6)
    half = verdict(tmp_path, Samples(wide), kind="value", quantity="layer_latency_mean(a)", unit="ns", published="110")
    assert half["verdict"] == "inconclusive"
    assert "straddles" in half["reason"]


def test_paired_noise_cancels_in_a_ratio(tmp_path: Path) -> None:
    noisy = Samples(layers({("a", "flit"): 100.0, ("b", "flit"): 80.0}, noise=0.3))
    entry = verdict(tmp_path, noisy)["rungs"]["flit"]
    assert entry["ci_high"] - entry["ci_low"] < 1e-6
    assert entry["value"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ("{at_most: 0.9}", "confirmed"),
        ("{at_most: 0.5}", "refuted"),
        ("{at_least: 0.5}", "confirmed"),
        ("{at_least: 0.95}", "refuted"),
        ("{min: 0.7, max: 0.85}", "confirmed"),
        ("{min: 0.2, max: 0.5}", "refuted"),
    ],
)
def test_bounds(tmp_path: Path, published: str, expected: str) -> None:
    assert verdict(tmp_path, Samples(TWO), published=published)["verdict"] == expected


def test_units_and_percent(tmp_path: Path) -> None:
    entry = verdict(
        tmp_path,
        Samples(TWO),
        quantity="1 - layer_latency_mean(b) / layer_latency_mean(a)",
        unit="'%'",
        published="20",
    )
    assert entry["rungs"]["flit"]["value"] == pytest.approx(20.0)
    assert entry["verdict"] == "confirmed"
    weights = verdict(tmp_path, Samples(TWO), kind="value", quantity="bytes_weight(a)", unit="KB", published="100")
    assert weights["rungs"]["flit"] == {"value": 100.0, "ci_low": 100.0, "ci_high": 100.0, "n": 96}


def test_orders(tmp_path: Path) -> None:
    order = {"kind": "order", "published": None, "unit": None}
    rising = "{lowest_first: [layer_latency_mean(b), layer_latency_mean(a)]}"
    falling = "{highest_first: [layer_latency_mean(b), layer_latency_mean(a)]}"
    held = verdict(tmp_path, Samples(TWO), **order, quantity=rising)
    assert held["verdict"] == "confirmed"
    assert held["rungs"]["flit"]["value"] == 1.0
    assert held["published"] == {"lowest_first": ["layer_latency_mean(b)", "layer_latency_mean(a)"]}
    broken = verdict(tmp_path, Samples(TWO), **order, quantity=falling)
    assert broken["verdict"] == "refuted"
    assert broken["rungs"]["flit"]["value"] == 0.0
    # A tie is no strict order.
    tie = "{lowest_first: [bytes_weight(a), bytes_weight(a)]}"
    assert verdict(tmp_path, Samples(TWO), **order, quantity=tie)["verdict"] == "refuted"


def test_orders_close_together_are_inconclusive(tmp_path: Path) -> None:
    a = layers({("a", "flit"): 100.0}, noise=0.2, seed=1)
    b = layers({("b", "flit"): 100.5}, noise=0.2, seed=2)
    close = Samples(pd.concat([a, b], ignore_index=True))
    entry = verdict(
        tmp_path,
        close,
        kind="order",
        published=None,
        unit=None,
        quantity="{lowest_first: [layer_latency_mean(a), layer_latency_mean(b)]}",
    )
    assert entry["verdict"] == "inconclusive"
    assert 0.05 < entry["rungs"]["flit"]["value"] < 0.95


def test_trends_over_a_sweep(tmp_path: Path) -> None:
    frames = [layers({("a", "flit"): 100.0 - 3 * x}, noise=0.01).assign(rho=x / 10) for x in range(1, 6)]
    swept = Samples(pd.concat(frames, ignore_index=True), sweep=["rho"])
    trend = {"kind": "trend", "unit": None, "quantity": "{y: layer_latency_mean(a), over: rho}"}
    down = verdict(tmp_path, swept, **trend, published="decreasing")
    assert down["verdict"] == "confirmed"
    assert "slope -29.9811" in down["reason"]
    assert down["published"] == {"expect": "decreasing", "x": "rho"}
    assert verdict(tmp_path, swept, **trend, published="increasing")["verdict"] == "refuted"
    # A sweep that did not run is named, and so is a value that was left open.
    assert verdict(tmp_path, Samples(TWO), **trend, published="decreasing")["needs"] == ["a sweep over rho"]
    assert verdict(tmp_path, swept, quantity="layer_latency_mean(a) / layer_latency_mean(a)")["needs"] == [
        "one value of rho, over which the run sweeps"
    ]
    at = "layer_latency_mean(a, rho=0.5) / layer_latency_mean(a, rho=0.1)"
    assert verdict(tmp_path, swept, quantity=at, published="0.876")["verdict"] == "confirmed"


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"needs": "[the checkpoint]"}, ["the checkpoint"]),
        ({"experiment": "other"}, ["the experiment other"]),
        ({"scope": "model"}, ["a run of scope model; this one is of scope routed"]),
        ({"quantity": "layer_latency_mean(hot) / layer_latency_mean(a)"}, ["a run of the policy hot"]),
        ({"quantity": "balance(b) / balance(a)"}, ["a measurement of balance at flit"]),
        (
            {"quantity": "layer_latency_p95(b) / layer_latency_p95(a)"},
            ["n >= 400 (seed, batch, layer) rows for P95; the run has 96"],
        ),
        (
            {"quantity": "layer_latency_mean(a, rung=analytic) / layer_latency_mean(a, rung=flit)"},
            ["a run at the rung analytic"],
        ),
        ({"quantity": "layer_latency_mean(a, layer=9) / layer_latency_mean(a)"}, ["a run with layer = 9"]),
    ],
)
def test_not_testable_names_what_is_missing(tmp_path: Path, changes: dict[str, str], needs: list[str]) -> None:
    entry = verdict(tmp_path, Samples(TWO), **changes)
    assert entry["verdict"] == "not_testable"
    assert entry["needs"] == needs
    assert entry["reason"] == "missing: " + "; ".join(needs)


def test_claims_of_no_experiment_are_tested_by_any(tmp_path: Path) -> None:
    assert verdict(tmp_path, Samples(TWO), experiment=None)["verdict"] == "confirmed"


def test_component_claims_hold_in_any_scope(tmp_path: Path) -> None:
    assert verdict(tmp_path, Samples(TWO), scope="network")["verdict"] == "confirmed"


def test_a_misspelt_policy_gets_a_hint(tmp_path: Path) -> None:
    samples = Samples(layers({("static", "flit"): 1.0}))
    entry = verdict(tmp_path, samples, quantity="layer_latency_mean(sttic) / layer_latency_mean(static)")
    assert "did you mean 'static'" in entry["needs"][0]


def test_one_unit_is_inconclusive(tmp_path: Path) -> None:
    single = Samples(layers({("a", "flit"): 100.0, ("b", "flit"): 80.0}, seeds=1, batches=1))
    entry = verdict(tmp_path, single)
    assert entry["verdict"] == "inconclusive"
    assert entry["rungs"]["flit"]["ci_low"] is None
    order = "{lowest_first: [layer_latency_mean(b), layer_latency_mean(a)]}"
    assert (
        verdict(tmp_path, single, kind="order", published=None, unit=None, quantity=order)["verdict"] == "inconclusive"
    )


def test_claims_across_rungs_use_the_analytic_models_own_rung(tmp_path: Path) -> None:
    frame = layers({("a", "flit"): 100.0, ("a", "analytic"): 60.0, ("a", "analytic:hcrmap"): 90.0})
    samples = Samples(frame, aliases={"analytic:comoe": "analytic"})
    for model, share in (("comoe", "0.6"), ("hcrmap", "0.9")):
        quantity = f"layer_latency_mean(a, rung='analytic:{model}') / layer_latency_mean(a, rung=flit)"
        entry = verdict(tmp_path, samples, quantity=quantity, published=share, tolerance="{relative: 0.01}")
        assert entry["verdict"] == "confirmed", model
        assert list(entry["rungs"]) == ["flit"]


def test_the_claims_own_analytic_model_answers_at_the_rung_analytic(tmp_path: Path) -> None:
    frame = layers({("a", "analytic"): 60.0, ("a", "analytic:hcrmap"): 90.0})
    changes = {"kind": "value", "quantity": "layer_latency_mean(a)", "unit": "ns", "published": "90"}
    first = verdict(tmp_path, Samples(frame), **changes)
    second = verdict(tmp_path, Samples(frame), **changes, analytic="hcrmap")
    assert first["rungs"]["analytic"]["value"] == pytest.approx(60.0, rel=0.02)
    assert second["rungs"]["analytic"]["value"] == pytest.approx(90.0, rel=0.02)
    absent = verdict(tmp_path, Samples(frame), **changes, analytic="comoe_reconstructed")
    assert absent["verdict"] == "not_testable"


def test_refuted_time_claims_name_the_stage(tmp_path: Path) -> None:
    frame = layers({("a", "flit"): 100.0, ("b", "flit"): 80.0, ("a", "analytic"): 60.0, ("b", "analytic"): 60.0})
    entry = verdict(tmp_path, Samples(frame), published="0.5")
    # memory is three quarters of every total: 40 ns apart makes 30 ns.
    assert "the stage farthest from analytic is memory of a, by +29.9055 ns" in entry["reason"]


def test_a_claim_across_rungs_blames_the_stage_between_them(tmp_path: Path) -> None:
    quantity = "layer_latency_mean(a, rung=link) / layer_latency_mean(a, rung=flit)"
    entry = verdict(tmp_path, Samples(TWO), quantity=quantity, published="0.5")
    assert entry["verdict"] == "refuted"
    assert "the stage farthest from link is memory of a" in entry["reason"]


def test_published_tables_stand_at_the_analytic_rung(tmp_path: Path) -> None:
    text = "policy,layer,quantity,value,unit\na,all,layer_latency_mean,0.1,us\nb,all,layer_latency_mean,0.08,us\n"
    (tmp_path / "mine.csv").write_text(text)
    table = read_table(tmp_path / "mine.csv")
    samples = Samples(TWO, figures={"analytic": table})
    entry = verdict(tmp_path, samples)
    assert entry["rungs"]["analytic"] == {"value": 0.8, "ci_low": None, "ci_high": None, "n": 1}
    assert entry["verdict"] == "confirmed"
    only = Samples(TWO.iloc[:0], figures={"analytic": table})
    assert verdict(tmp_path, only)["verdict"] == "inconclusive"


# ---------------------------------------------------------------- from a table


def test_claims_from_a_table_load_and_are_judged(tmp_path: Path) -> None:
    text = (
        "policy,layer,quantity,value,unit\n"
        "a,all,layer_latency_mean,0.1,us\n"
        "b,all,layer_latency_mean,0.08,us\n"
        "a,2,bytes_weight,100,KB\n"
    )
    (tmp_path / "mine.csv").write_text(text)
    made = claims_from_table(read_table(tmp_path / "mine.csv"), experiment="e", scope="routed", paper="mine")
    path = tmp_path / "mine.yaml"
    write_claims(made, path)
    loaded = load_claims(str(path))
    assert [(claim.id, claim.kind) for claim in loaded.claims] == [
        ("layer-latency-mean-a", "value"),
        ("layer-latency-mean-b", "value"),
        ("layer-latency-mean-b-over-a", "ratio"),
        ("layer-latency-mean-order", "order"),
        ("bytes-weight-layer-2-a", "value"),
    ]
    verdicts = {entry["id"]: entry["verdict"] for entry in judge(loaded, Samples(TWO), RUN)}
    assert set(verdicts.values()) == {"confirmed"}
    with pytest.raises(FileExistsError):
        write_claims(made, path)


def test_similar_policy_names_get_ids_of_their_own(tmp_path: Path) -> None:
    text = "policy,layer,quantity,value,unit\nx-y,all,balance,0.5,1\nx_y,all,balance,0.5,1\nif,all,balance,0,1\n"
    (tmp_path / "mine.csv").write_text(text)
    made = claims_from_table(read_table(tmp_path / "mine.csv"), experiment="e", scope="routed", paper="mine")
    (tmp_path / "mine.yaml").write_text(made)
    ids = [claim.id for claim in load_claims(str(tmp_path / "mine.yaml")).claims]
    assert len(set(ids)) == len(ids) == 5


@settings(max_examples=40)
@given(
    st.floats(0.3, 1.5),
    st.floats(0.0, 0.5),
    st.floats(0.0, 0.5),
)
def test_a_wider_tolerance_never_takes_a_confirmation_back(published: float, narrow: float, more: float) -> None:
    def judged(relative: float) -> str:
        entry = {
            **{key: value for key, value in BASE.items() if key not in ("published", "unit")},
            "published": published,
            "unit": "1",
            "tolerance": {"relative": relative, "reason": "drawn"},
        }
        claims = ClaimFile.model_validate({"schema": 1, "paper": "p", "claims": [entry]})
        return str(judge(claims, LOOSE, RUN)[0]["verdict"])

    first, second = judged(narrow), judged(narrow + more)
    rank = ["refuted", "inconclusive", "confirmed"]
    assert rank.index(first) <= rank.index(second)


LOOSE = Samples(
    pd.concat(
        [layers({("a", "flit"): 100.0}, noise=0.2, seed=1), layers({("b", "flit"): 80.0}, noise=0.2, seed=2)],
        ignore_index=True,
    )
)
