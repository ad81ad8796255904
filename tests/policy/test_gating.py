"""Policies that change the routing: who is chosen, what is said about it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import Experiment, trace
from cosim.config.errors import ConfigErrors
from cosim.workload.gating import choose, kept_choices

OVERRIDES = ["seeds=[1]", "workload.batches=2", "workload.layers=0-1", "sweeps={}", "claims=null"]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 9), st.integers(1, 4))
def test_choices_against_sorting_by_hand(seed: int, tokens: int, experts: int, slots: int) -> None:
    draws = np.random.default_rng(seed)
    slots = min(slots, experts)
    scores = draws.integers(0, 4, (tokens, experts)).astype(np.float32)  # many ties
    adjusted = scores + draws.integers(-2, 3, (tokens, experts))
    recorded = np.argsort(draws.random((tokens, experts)), axis=1)[:, :slots]
    recorded[draws.random((tokens, slots)) < 0.2] = -1
    chosen = choose(adjusted, recorded)
    changed = kept_top = 0
    for token in range(tokens):
        own = {int(e) for e in recorded[token] if e >= 0}
        ranked = sorted(range(experts), key=lambda e: (-adjusted[token, e], e not in own, e))
        assert [int(e) for e in chosen[token] if e >= 0] == ranked[: len(own)]
        changed += len(set(ranked[: len(own)]) - own)
        top = min(range(experts), key=lambda e: (-scores[token, e], e not in own, e))
        kept_top += top in ranked[: len(own)]
    counts = kept_choices(scores, recorded, chosen)
    assert (counts.choices, counts.changed) == (int((recorded >= 0).sum()), changed)
    assert (counts.tokens, counts.kept_top1) == (tokens, kept_top)


def test_unadjusted_scores_choose_what_the_model_chose() -> None:
    """The sample's scores have eleven bits: ties are settled for the recorded experts."""
    sample = trace.load("sample")
    assert sample.scores is not None
    assert sample.scores_token is not None
    for layer in range(sample.layers):
        recorded, scores = sample.ids[sample.scores_token, layer], sample.scores[:, layer]
        counts = kept_choices(scores, recorded, choose(scores, recorded))
        assert counts.changed <= 0.001 * counts.choices
        assert counts.kept_top1 == counts.tokens


def experiment(*overrides: str) -> Experiment:
    return Experiment.load("hda-moe-gating", [*OVERRIDES, *overrides])


def test_a_gate_of_no_penalty_is_the_placement_without_it() -> None:
    free = experiment("policies.3.params.r_comp=0", "policies.3.params.r_comm=0")
    gated, plain = free.run("hybrid_gated", rung="link"), free.run("hybrid", rung="link")
    assert (gated.layers["changed_choices"] == 0).all()
    assert "changed_choices" not in plain.layers
    assert gated.layers["total_fs"].tolist() == plain.layers["total_fs"].tolist()


def test_a_gate_moves_tokens_off_busy_nodes_and_says_so() -> None:
    strong = "policies.3.params={file: hda-moe-hybrid, r_comp: -1.0e+6, r_comm: 0}"
    report = experiment(
        strong,
        "policies=[{name: placed, params: {file: hda-moe-hybrid}, label: hybrid}, "
        "{name: hda_moe, params: {file: hda-moe-hybrid, r_comp: -1.0e+6, r_comm: 0}}]",
    ).validate(jobs=1)
    metrics = report.metrics.set_index(["policy", "rung", "metric"])["value"]
    assert 0 < metrics["hda_moe", "flit", "changed_choices"] < 1
    assert 0 < metrics["hda_moe", "flit", "top1_retention"] <= 1
    # every rung is driven by routing of its own gate; pressure is not read, so all choose alike
    assert metrics["hda_moe", "link", "changed_choices"] == metrics["hda_moe", "flit", "changed_choices"]
    assert metrics["hda_moe", "flit", "balance"] > metrics["hybrid", "flit", "balance"]
    assert ("hybrid", "flit", "changed_choices") not in metrics.index


def test_a_gate_without_scores_is_refused() -> None:
    with pytest.raises(ConfigErrors, match=r"scores of every evaluated token.*'hda_moe'"):
        experiment("trace.evaluate={requests: 64-127}").check()


WRONG = """
from cosim.policy.hardware_aware_gating import HDAMoE

class Wrong(HDAMoE):
    def gate(self, scores, state):
        return scores[:, :3]
"""


def test_a_gate_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    found = experiment(
        f"policies=[{{name: '{tmp_path}/wrong.py:Wrong', params: {{file: hda-moe-hybrid}}, label: wrong}}]"
    )
    with pytest.raises(RuntimeError, match="finite scores of shape"):
        found.run("wrong", rung="link")
