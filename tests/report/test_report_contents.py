from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import synthetic_run
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.report.contents import BANKS, FRAMES, LAYERS, RunContents, RunInfo, canonical, empty, frame_problems


def test_info_survives_json(whole: RunContents) -> None:
    assert RunInfo.from_json(whole.info.to_json()) == whole.info


def test_info_names_the_wrong_key(whole: RunContents) -> None:
    data = whole.info.to_json()
    data["polices"] = data.pop("policies")
    with pytest.raises(ValueError, match=r"unknown key 'polices'; did you mean 'policies'\?\n.*missing key 'policies'"):
        RunInfo.from_json(data)


def test_all_problems_of_all_frames_come_at_once(whole: RunContents) -> None:
    layers = whole.layers.rename(columns={"queue_fs": "queu_fs"})
    links = whole.links.assign(flits=whole.links["flits"].astype(float))
    with pytest.raises(ValueError, match="queue_fs") as error:
        dataclasses.replace(whole, layers=layers, links=links)
    text = str(error.value)
    assert "layers: unknown column 'queu_fs'; did you mean 'queue_fs'?" in text
    assert "links: column 'flits' must hold integers, got float64" in text


def test_unknown_policy_and_rung_are_named(whole: RunContents) -> None:
    metrics = whole.metrics.replace({"policy": {"static": "statik"}})
    with pytest.raises(ValueError, match=r"metrics: policy 'statik' is not in info; did you mean 'static'\?"):
        dataclasses.replace(whole, metrics=metrics)


def test_repeated_key_is_refused(whole: RunContents) -> None:
    twice = pd.concat([whole.layers, whole.layers.iloc[[3]]])
    assert any("1 rows repeat a key" in p for p in frame_problems(twice, LAYERS))


def test_infinite_metric_is_refused(whole: RunContents) -> None:
    metrics = whole.metrics.copy()
    metrics.loc[0, "value"] = np.inf
    with pytest.raises(ValueError, match="column 'value' holds an infinite value"):
        dataclasses.replace(whole, metrics=metrics)


@pytest.mark.parametrize("change", [{"verdict": "maybe"}, {"verdikt": "refuted"}])
def test_claims_are_checked(whole: RunContents, change: dict[str, str]) -> None:
    claims = [{**synthetic_run.CLAIMS[0], **change}]
    with pytest.raises(ValueError, match="claim replica-p95-cut"):
        dataclasses.replace(whole, claims=claims)


BANK_FRAME = synthetic_run.contents(
    policies=("static",), rungs=("flit",), seeds=(1,), batches=1, layers=1, with_claims=False
).banks


@settings(deadline=None, max_examples=8)
@given(st.randoms(use_true_random=False))
def test_row_order_does_not_matter(random: object) -> None:
    frame = BANK_FRAME
    order = list(range(len(frame)))
    random.shuffle(order)  # type: ignore[attr-defined]
    pd.testing.assert_frame_equal(canonical(frame.iloc[order], BANKS), frame)


@pytest.mark.parametrize("spec", FRAMES, ids=lambda spec: spec.name)
def test_empty_frame_is_legal(spec) -> None:
    assert frame_problems(empty(spec), spec) == []
    assert list(canonical(empty(spec), spec).columns) == [name for name, _ in (*spec.key, *spec.values)]


def test_top_rung_is_the_highest_that_ran() -> None:
    run = synthetic_run.contents(rungs=("flit", "analytic", "link+command"), seeds=(1,), batches=1, layers=1)
    assert run.top_rung == "flit"
    assert run.rungs == ["analytic", "link+command", "flit"]
