"""A power cap: windows against budgets, the throttled rate, and the control terms of Eq. 18 of HCRMap."""

from __future__ import annotations

import pytest

from cosim import Experiment
from cosim.config.errors import ConfigErrors
from cosim.experiment import Run
from cosim.run.checkpoint import load_state, save_state
from cosim.run.loop import RunLoop
from cosim.run.unit import UnitKey, run_unit


def experiment(*more: str) -> Experiment:
    small = [
        "workload.layers=0-1",
        "workload.batches=5",
        "workload.batch_tokens=64",
        "workload.model.moe_intermediate=64",
        "workload.model.hidden=512",
        "system.endpoints.chiplet.compute.rate=32 GFLOP/s",
        "policies=[static, {name: fixed_replica, params: {replica_budget: 1.1}}]",
        "rungs=[link, flit]",
        "seeds=[1]",
        "analytic=[]",
        "claims=null",
        "sampling=none",
        "sweeps={}",
        "components=null",
    ]
    return Experiment.load("hcrmap", [*small, *more])


def cap(watts: float, rate: float = 0.25) -> str:
    return f"system.power_cap={{limit: {watts} W, throttled_rate: {rate}}}"


def budgets(run: Run, watts: float) -> list[bool]:
    """Whether each batch took more than its budget, from the frames alone."""
    batches = run.layers.groupby("batch")[["energy_J", "total_fs"]].sum()
    return [bool(row["energy_J"] > watts * row["total_fs"] * 1e-15) for _, row in batches.iterrows()]


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_a_window_over_its_budget_slows_the_next_one(rung: str) -> None:
    free = experiment().run("static", rung)
    power = free.layers.groupby("batch")[["energy_J", "total_fs"]].sum()
    watts = float(power["energy_J"].sum() / power["total_fs"].sum() * 1e15)  # between what windows take
    held = experiment(cap(round(watts, 3))).run("static", rung)
    slowed = held.layers.groupby("batch")["throttled"].first().astype(bool).tolist()
    assert held.layers.groupby("batch")["throttled"].nunique().eq(1).all()
    over = budgets(held, round(watts, 3))
    assert slowed == [False, *over[:-1]]
    assert any(slowed)
    assert not all(slowed[1:])
    # the same work and the same energy of what is worked on, only later
    assert held.groups["tokens"].sum() == free.groups["tokens"].sum()
    first = held.layers["batch"] == 0
    assert held.layers.loc[first, "total_fs"].tolist() == free.layers.loc[first, "total_fs"].tolist()
    whole = held.layers["throttled"] == 1.0
    assert (
        (held.groups.groupby(["batch", "layer"])["compute_fs"].sum().to_numpy()[whole.to_numpy()]).sum()
        > 3 * (free.groups.groupby(["batch", "layer"])["compute_fs"].sum().to_numpy()[whole.to_numpy()]).sum()
    )
    assert held.layers["total_fs"].sum() > free.layers["total_fs"].sum()


def test_a_cap_that_is_never_reached_changes_nothing() -> None:
    free, held = experiment().run("static", "link"), experiment(cap(1e6)).run("static", "link")
    assert "throttled" not in free.layers
    assert held.layers["throttled"].eq(0).all()
    assert held.layers.drop(columns="throttled").equals(free.layers)


def test_a_replay_is_throttled_where_its_record_was() -> None:
    made = experiment(cap(1e-3))
    first = run_unit(made.setup, UnitKey("static", "link", 1))
    loose = experiment(cap(1e6))
    again = run_unit(loose.setup, UnitKey("static", "flit", 1), first.record)
    assert again.frames["layers"]["throttled"].tolist() == first.frames["layers"]["throttled"].tolist()
    assert again.frames["layers"]["throttled"].sum() == 8  # of 10: all but the first window's


def test_a_capped_run_goes_on_from_any_layer() -> None:
    made = experiment(cap(1e-3), "system.power_cap.window_batches=2")
    key = UnitKey("static", "link", 1)
    whole = run_unit(made.setup, key)
    assert whole.frames["layers"].groupby("batch")["throttled"].first().tolist() == [0, 0, 1, 1, 1]
    states: list[bytes] = []

    def keep(loop: RunLoop) -> None:
        loop.between_layers = lambda running: states.append(save_state(running))

    run_unit(made.setup, key, prepare=keep)
    again = run_unit(made.setup, key, prepare=lambda loop: load_state(loop, states[4]))
    assert again.frames["layers"].equals(whole.frames["layers"])


def test_control_terms_are_counted_once_each() -> None:
    key, gate, copy = UnitKey("hcrmap", "link", 1), 3e-9, 5e-6
    policies = "policies=[{name: hcrmap, params: {start: homes}}]"
    free = run_unit(experiment(policies).setup, key)
    priced = experiment(policies, "system.energy.gate=3 nJ", "system.energy.migration_control=5 uJ")
    found = run_unit(priced.setup, key)
    copies = sum(action.kind.value in ("promote", "demote") for w in found.record.windows.values() for action in w)
    assert copies > 0
    extra = found.frames["layers"]["energy_J"].sum() - free.frames["layers"]["energy_J"].sum()
    before_last = sum(
        action.kind.value in ("promote", "demote")
        for window, actions in found.record.windows.items()
        for action in actions
        if window < 4
    )  # what is decided after the last batch is in no layer
    assert extra == pytest.approx(len(found.frames["groups"]) * gate + before_last * copy, rel=1e-6)


def test_a_cap_without_all_energies_is_refused() -> None:
    with pytest.raises(ConfigErrors, match="at rung link there is no energy of memory dram"):
        experiment(cap(50), "system.tiers.dram.access_energy=null").check()
    with pytest.raises(ConfigErrors, match="throttled_rate"):
        experiment(cap(50, 1.0))
