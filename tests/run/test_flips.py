"""The canonical form leaves nothing out: flips of the raw state, and mutants of the form that such flips tell apart."""

from __future__ import annotations

import flip_cases
import pytest
from skipping_cases import same_form

STOP = 700
"""Instants after which systems are stopped."""

MUTANTS = {
    "inbox": "link",
    "progress": "link",
    "room": "link",
    "rate": "link",
    "copies": "link",
    "link": "link",
    "returns": "link+command",
    "tiles": "link+command",
    "timing": "link+command",
    "row": "link+command",
    "refresh": "link+command",
    "queue": "link+command",
    "sram": "flit, SRAM",
    "path": "flit+rate, stacked",
    "credit": "flit+rate",
    "vc": "flit+rate",
    "wake": "flit+rate, slow router",
    "allocator": "flit+rate, separable",
    "turn": "flit+rate",
    "arbiter": "flit+rate, crossing",
}
"""Part of the form → a system in which flips of that part alone show it."""

NETWORK = {"wake": 6, "vc": 6, "allocator": 6, "arbiter": 10}
MEMORY = {"sram": 4}
FOCUS = {
    "queue": {"stop": 400, "count": 9000},  # one flip in 800 of this case shows it
    "sram": {"only": MEMORY["sram"]},
    "wake": {"stop": 450, "count": 6000, "seed": 3, "only": NETWORK["wake"]},
    "allocator": {"only": NETWORK["allocator"]},
    "vc": {"count": 600, "names": NETWORK["vc"]},
    "arbiter": {"stop": 300, "count": 600, "names": NETWORK["arbiter"]},
}
"""Another stop or more flips, and flips of the network or a memory alone, or of what its routers name."""


@pytest.mark.parametrize("name", flip_cases.CASES)
def test_a_flip_changes_the_form_or_nothing(name: str) -> None:
    counts, bad = flip_cases.run(name, STOP, 60, seed=1)
    assert [f"{flip}: {outcome}" for flip, outcome in bad] == []
    assert counts["differs"] > 10


@pytest.mark.parametrize("part", MUTANTS)
def test_flips_tell_a_form_that_lacks_a_part(part: str) -> None:
    how = {"stop": STOP, "count": 3000, "seed": 2, **FOCUS.get(part, {})}
    _, bad = flip_cases.run(MUTANTS[part], without=part, **how)
    assert len(bad) == 1


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fault", "system"), [("forget_arbiter", "flit"), ("forget_timing", "flit"), ("forget_progress", "link")]
)
def test_a_fault_point_is_the_form_that_lacks_the_part(
    fault: str, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSIM_FAULT", fault)
    forgetting = flip_cases.Stopped.at(flip_cases.CASES[system](), STOP)
    monkeypatch.delenv("COSIM_FAULT")
    mutant = flip_cases.Stopped.at(flip_cases.CASES[system](), STOP, fault.removeprefix("forget_"))
    assert same_form(forgetting.form, mutant.form)
    assert len(mutant.form[1]) < len(mutant.whole[1])
