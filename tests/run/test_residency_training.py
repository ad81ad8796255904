"""The counterfactual, the training of HCRMap's controller on it, and the policy's controllers in whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cosim.cli.train import train as train_command
from cosim.experiment import Experiment
from cosim.policy import ActionKind, ResidencyAction, make_policy
from cosim.policy.residency import Residency
from cosim.run.counterfactual import Counterfactual, directory_after
from cosim.run.residency_training import TrainingOptions, train
from cosim.workload.groups import token_groups, token_homes


def experiment(*policies: dict[str, Any] | str, batches: int = 1) -> Experiment:
    return Experiment.load(
        {
            "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
            "workload": {
                "model": "own-byte-moe",
                "mode": "random",
                "batch_tokens": 24,
                "batches": batches,
                "layers": "0-1",
                "scope": "routed",
            },
            "system": "hcrmap-table1",
            "policies": list(policies) or ["hcrmap"],
            "rungs": ["link"],
            "seeds": [1],
        }
    )


def test_an_edit_is_timed_on_the_same_groups_and_changes_its_own_layer_only() -> None:
    setup = experiment().setup
    policy = make_policy("hcrmap", {"start": "homes"})
    residency = Residency(
        setup.system,
        setup.model,
        policy.place(setup.system, setup.model, setup.profile),
        expert_bytes=setup.rates.expert_bytes,
        alignment_bytes=4096,
        layers=(0, 1),
        max_replicas=4,
        budget_bytes=1 << 40,
    )
    directory = residency.directory()
    chiplets = np.array([place.index for place in setup.system.compute_endpoints], dtype=np.int32)
    ids = setup.trace.ids[setup.batches(1)[0]]
    homes = token_homes(24, chiplets)
    groups = [token_groups(ids[:, layer], homes, layer, setup.model.activation_bytes) for layer in (0, 1)]
    counterfactual = Counterfactual(setup.system, setup.rates, policy)
    what_if = counterfactual.what_if(groups, directory)
    now = what_if(None)
    assert now == pytest.approx(sum(counterfactual.layer_seconds(part, directory) for part in groups))
    row = directory.rows[directory.of(0, int(groups[0]["expert"][0]))[0]]
    near = setup.system.tier("sram").serving(int(row["chiplet"]))[0]
    edit = ResidencyAction(ActionKind.promote, 0, int(row["expert"]), int(row["chiplet"]), near, "sram")
    after = directory_after(directory, edit, setup.system)
    assert len(after) == len(directory) + 1
    layers = (counterfactual.layer_seconds(groups[0], after), counterfactual.layer_seconds(groups[1], directory))
    assert what_if(edit) == pytest.approx(sum(layers))
    assert what_if(None) == now  # from the same empty state again
    gone = directory_after(after, ResidencyAction(ActionKind.evict, 0, 0, replica=len(directory)), setup.system)
    assert np.array_equal(gone.rows, directory.rows)


def test_training_is_the_same_twice_and_its_checkpoint_runs(tmp_path: Path) -> None:
    options = TrainingOptions(windows=20, episode_windows=5, layers=1, hidden=4, batch=4, seed=3)
    first, second = (train(experiment().setup, {}, options) for _ in range(2))
    assert first.rewards == second.rewards
    for one, other in zip(first.network.weights, second.network.weights, strict=True):
        assert np.array_equal(one, other)
    assert any(loss > 0 for loss in first.losses)
    file = tmp_path / "q.npz"
    first.network.save(file)
    dqn = {"name": "hcrmap", "params": {"controller": "dqn", "checkpoint": str(file), "start": "homes"}}
    assert file.stat().st_size < 1 << 20
    assert len(experiment(dqn, batches=2).run("hcrmap", "link").layers) == 4


@pytest.mark.parametrize("controller", ["rules", "greedy", "dqn"])
def test_every_controller_runs_and_edits_once_a_window_at_most(controller: str) -> None:
    policy = {"name": "hcrmap", "params": {"controller": controller, "start": "homes", "candidates": 2, "eta": 100.0}}
    run = experiment(policy, batches=3).run("hcrmap", "link")
    windows = run.decisions[1].windows
    assert len(windows) == 3
    assert all(len(actions) <= 1 for actions in windows.values())


def test_the_command_writes_checkpoint_and_curve(tmp_path: Path) -> None:
    out, curve = tmp_path / "q.npz", tmp_path / "curve.csv"
    small = ["-o", "workload.model=own-byte-moe", "-o", "workload.batch_tokens=16", "-o", "workload.layers=0-1"]
    arguments = ["hcrmap", str(out), "--windows", "3", "--layers", "1", "--curve", str(curve), *small]
    result = CliRunner().invoke(train_command, [*arguments, "-o", "sweeps={}"], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"{out}: " in result.output
    assert curve.read_text().splitlines()[0] == "window,reward,batch_s,loss"
    assert len(curve.read_text().splitlines()) == 4
