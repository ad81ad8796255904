"""HCRMap's slow loop as a Gymnasium environment, for controllers of one's own (extra ``gym``).

    import gymnasium
    env = gymnasium.make("cosim/HCRMapResidency-v1", experiment="hcrmap")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))

A step is one window: the edit is made, then the next batch runs under the new layout at link and rate. It is the
episode that ``cosim train`` trains on, with its reward (HCRMap, Eq. 31 to 33).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.policy.hcrmap import HCRMap
from cosim.policy.hcrmap.edits import FEATURES, Edit
from cosim.run.residency_episode import ResidencyEpisode, RewardWeights, check_profile, policy_params
from cosim.run.setup import Setup
from cosim.system import open_experiment

__all__ = ["NAME", "Observation", "ResidencyEnvironment", "register_environments"]

NAME = "HCRMapResidency-v1"

Observation = dict[str, npt.NDArray[Any]]

STARTS = ("profile", "homes")

#: Features are of the order of one; no share, rank or number of mean loads comes near.
_BOUND = 1e4


class ResidencyEnvironment(gymnasium.Env[Observation, np.int64]):
    """Which replica to promote, demote or evict in each window.

    Action: the number of an edit, 0 for none. Edits beyond the legal ones are told apart by the mask; one of them is no
    edit, costs ``churn`` and sets ``info["legal"]`` to False.

    Observation: ``edits``, float32 (edits, features), the features of every legal edit in order, zero elsewhere (their
    names are ``cosim.policy.hcrmap.edits.FEATURES``); ``mask``, int8 (edits,), 1 where there is one.

    Info: ``action_mask``, the same mask; ``batch_s``, seconds of the window's batch under its layout; ``legal``;
    ``edit``, what was done, in words.

    Episodes are truncated after ``windows``; none terminates.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  the interface's own form

    def __init__(
        self,
        experiment: str = "hcrmap",
        overrides: Sequence[str] = (),
        *,
        policy: str = "hcrmap",
        layers: int = 2,
        windows: int = 40,
        start: str = "profile",
        exposed: float = 1.0,
        churn: float = 0.002,
    ) -> None:
        """Opens an experiment.

        Args:
            experiment: shipped name or path.
            overrides: ``key=value`` as on the command line.
            policy: title of the policy of kind ``hcrmap`` whose parameters are used.
            layers: of the experiment's, drawn for each episode.
            windows: of an episode.
            start: ``profile``, HCRMap's own start, or ``homes``, one copy of each expert.
            exposed, churn: mu_1 and mu_2 of Eq. 33.

        Raises:
            ConfigErrors: all errors of the experiment; a policy it does not have; no layers, windows or known start.
        """
        loaded = open_experiment(experiment, overrides)
        self._params = {**policy_params(loaded.spec, policy, path="policy"), "start": start}
        self.setup = Setup(loaded)
        check_profile(self.setup)
        if not 1 <= layers <= len(self.setup.layers):
            raise ConfigErrors.single(f"1 to {len(self.setup.layers)} layers", str(layers), path="layers")
        if windows < 1:
            raise ConfigErrors.single("at least one window", str(windows), path="windows")
        if start not in STARTS:
            raise ConfigErrors.single(one_of(STARTS), repr(start), path="start", suggestion=did_you_mean(start, STARTS))
        self._layers, self._windows = layers, windows
        self._weights = RewardWeights(exposed, churn, windows)
        self._episode: ResidencyEpisode | None = None
        nearer = len(self.setup.system.tiers) - 1
        # no edit; a hot candidate goes to any of these tiers, a stale one to all but the first of them or altogether
        self.most_edits = 1 + 2 * nearer * HCRMap({**self._params, "controller": "rules"}).params.candidates
        shape = (self.most_edits, len(FEATURES))
        self.action_space = spaces.Discrete(self.most_edits)
        edits, mask = spaces.Box(-_BOUND, _BOUND, shape, dtype=np.float32), spaces.MultiBinary(self.most_edits)
        self.observation_space = spaces.Dict({"edits": edits, "mask": mask})  # type: ignore[assignment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new layout on layers drawn anew, and its first window. There are no options."""
        super().reset(seed=seed)
        if options:
            raise ValueError(f"expected no options, got {', '.join(sorted(options))}")
        drawn = self.np_random.choice(self.setup.layers, size=self._layers, replace=False)
        self._episode = ResidencyEpisode(self.setup, self._params, tuple(sorted(int(layer) for layer in drawn)))
        self._number = 0
        return self._window(self._episode), self._info("none", True)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Makes an edit and runs the next window; the reward is that of the edit on the window that was seen."""
        if self._episode is None:
            raise RuntimeError("expected reset before the first step")
        number = int(action)
        legal = 0 <= number < len(self._edits)
        edit = self._edits[number] if legal else self._edits[0]
        reward, _ = self._episode.reward(self._state, edit, self._weights)
        if not legal:
            reward -= self._weights.churn
        self._episode.apply(edit)
        self._number += 1
        observation = self._window(self._episode)
        return observation, reward, False, self._number >= self._windows, self._info(_words(edit), legal)

    def _window(self, episode: ResidencyEpisode) -> Observation:
        rows = self.setup.parts.profile
        batch = self.np_random.choice(rows, size=self.setup.spec.workload.batch_tokens, replace=False)
        self._state, self._edits = episode.window(np.sort(batch), self._number)
        features = np.zeros((self.most_edits, len(FEATURES)), dtype=np.float32)
        features[: len(self._edits)] = [edit.features for edit in self._edits]
        return {"edits": features, "mask": self._mask()}

    def _mask(self) -> npt.NDArray[np.int8]:
        return (np.arange(self.most_edits) < len(self._edits)).astype(np.int8)

    def _info(self, edit: str, legal: bool) -> dict[str, Any]:
        assert self._state.what_if is not None
        return {"action_mask": self._mask(), "batch_s": self._state.what_if(None), "edit": edit, "legal": legal}


def _words(edit: Edit) -> str:
    if edit.action is None:
        return "none"
    where = f" to {edit.action.tier} of memory {edit.action.memory}" if edit.action.tier else ""
    return f"{edit.action.kind.value} expert {edit.action.expert} of layer {edit.action.layer}{where}"


def register_environments() -> None:
    """Called by Gymnasium through the entry point ``gymnasium.envs``, which gives the name its ``cosim/``."""
    gymnasium.register(id=NAME, entry_point="cosim.run.residency_environment:ResidencyEnvironment")
