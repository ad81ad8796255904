"""HCRMap's slow loop as a Gymnasium environment."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from cosim.config.errors import ConfigErrors
from cosim.policy.hcrmap.edits import FEATURES
from cosim.run.residency_environment import NAME, ResidencyEnvironment, register_environments

SMALL = ["workload.model=own-byte-moe", "workload.batch_tokens=24", "workload.layers=0-1", "sweeps={}"]


def environment(**options: object) -> ResidencyEnvironment:
    return ResidencyEnvironment("hcrmap", SMALL, **{"windows": 4, "start": "homes", **options})  # type: ignore[arg-type]


def run(env: ResidencyEnvironment, seed: int, choose: int | None = None) -> list[tuple[float, float, str]]:
    """Reward, seconds and edit of every window of an episode, under random legal edits or always the same."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    seen, over = [], False
    while not over:
        action = env.action_space.sample(info["action_mask"]) if choose is None else choose  # type: ignore[arg-type]
        observation, reward, terminated, over, info = env.step(np.int64(action))
        assert not terminated
        assert env.observation_space.contains(observation)
        assert (observation["mask"] == info["action_mask"]).all()
        assert (observation["edits"][observation["mask"] == 0] == 0).all()
        seen.append((reward, info["batch_s"], info["edit"]))
    return seen


def test_it_keeps_the_interface() -> None:
    check_env(environment(), skip_render_check=True)


def test_episodes_repeat_by_seed_and_end_by_truncation() -> None:
    env = environment()
    first = run(env, 3)
    assert len(first) == 4
    assert first == run(environment(), 3)
    assert first != run(env, 4)


def test_no_edit_has_no_reward_and_an_edit_that_is_no_edit_costs() -> None:
    env = environment(churn=0.01)
    quiet = run(env, 5, choose=0)
    assert [(reward, edit) for reward, _, edit in quiet] == [(0.0, "none")] * 4
    wrong = run(env, 5, choose=env.most_edits - 1)
    assert [reward for reward, _, _ in wrong] == [-0.01] * 4
    assert [seconds for _, seconds, _ in wrong] == [seconds for _, seconds, _ in quiet]


def test_a_promotion_is_made_and_its_reward_is_what_it_saves() -> None:
    env = environment(exposed=0.0, churn=0.0)
    observation, _ = env.reset(seed=6)
    promotes = observation["edits"][:, FEATURES.index("is_promote")] > 0
    assert promotes.any()
    action = int(np.flatnonzero(promotes)[0])
    edit, state = env._edits[action], env._state
    assert state.what_if is not None
    before, after = state.what_if(None), state.what_if(edit.action)
    _, reward, _, _, info = env.step(np.int64(action))
    assert reward == pytest.approx((before - after) / before)
    assert edit.action is not None
    assert info["edit"].startswith(f"promote expert {edit.action.expert} of layer {edit.action.layer} to ")
    held = env._state.directory.rows[env._state.directory.of(edit.action.layer, edit.action.expert)]
    assert len(held) == 2


def test_gymnasium_makes_it_by_name() -> None:
    register_environments()
    env = gymnasium.make(NAME, experiment="hcrmap", overrides=SMALL, windows=2)
    _, info = env.reset(seed=1)
    assert info["action_mask"][0] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "hcrmapp"}, "did you mean 'hcrmap'"),
        ({"layers": 9}, "1 to 2 layers"),
        ({"windows": 0}, "at least one window"),
        ({"start": "profil"}, "did you mean 'profile'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigErrors, match=message):
        environment(**options)


def test_a_step_needs_a_reset() -> None:
    with pytest.raises(RuntimeError, match="reset"):
        environment().step(np.int64(0))
