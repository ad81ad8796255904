"""Trains HCRMap's slow controller: a masked Double DQN on counterfactual rewards, at link and rate (HCRMap, 6.4).

A window is a batch of tokens of the profile part, drawn at random, on some of the layers. It runs under the present
layout (Eq. 31); the chosen edit is applied and its layer runs again on the same groups (Eq. 32); the reward is the
relative gain, less the copy's time and a charge for any change (Eq. 33). The next window's legal edits bound the target
(Eq. 34). Layouts start over every ``episode_windows``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cosim.policy.hcrmap.edits import FEATURES
from cosim.policy.hcrmap.q_network import QNetwork
from cosim.run.residency_episode import ResidencyEpisode, RewardWeights, check_profile
from cosim.run.setup import Setup

__all__ = ["Training", "TrainingOptions", "curve_csv", "train"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrainingOptions:
    """What the paper does not publish: sizes, rates and penalties.

    Attributes:
        windows: in all.
        episode_windows: until the layout starts over.
        layers: of a window, drawn from those of the experiment for each episode.
        hidden: units of either hidden layer.
        discount: gamma of Eq. 34.
        exposed, churn: mu_1 and mu_2 of Eq. 33.
        learning_rate: of Adam.
        batch: transitions of a step.
        target_windows: windows between two copies into the target network.
        explore: share of random edits at the start; falls linearly to 0.05 over half of the windows.
        seed: of everything.
    """

    windows: int = 1200
    episode_windows: int = 40
    layers: int = 2
    hidden: int = 32
    discount: float = 0.9
    exposed: float = 1.0
    churn: float = 0.002
    learning_rate: float = 1e-3
    batch: int = 32
    target_windows: int = 50
    explore: float = 1.0
    seed: int = 1


@dataclass
class Training:
    """What came out: the network, and per window its reward, the batch's seconds and the loss of its step."""

    network: QNetwork
    rewards: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def mean_reward(self, fifth: int) -> float:
        """Mean reward of one fifth of the windows, 0 to 4."""
        size = max(len(self.rewards) // 5, 1)
        part = self.rewards[fifth * size : (fifth + 1) * size] or self.rewards
        return sum(part) / len(part)


def curve_csv(training: Training) -> str:
    """Reward, seconds of the batch and loss of every window, as CSV with a head."""
    rows = zip(training.rewards, training.seconds, training.losses, strict=True)
    lines = [f"{n},{reward:.6g},{seconds:.6g},{loss:.6g}" for n, (reward, seconds, loss) in enumerate(rows)]
    return "\n".join(["window,reward,batch_s,loss", *lines]) + "\n"


def train(
    setup: Setup,
    policy_params: dict[str, object],
    options: TrainingOptions,
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Trains on the profile part of an experiment.

    Args:
        policy_params: parameters of ``hcrmap``; its controller is replaced.

    Raises:
        ConfigErrors: an experiment without a profile part.
    """
    check_profile(setup)
    return _Trainer(setup, policy_params, options).run(progress)


class _Trainer:
    def __init__(self, setup: Setup, params: dict[str, object], options: TrainingOptions) -> None:
        self.setup, self.params, self.options = setup, params, options
        self.generator = np.random.Generator(np.random.Philox(key=[options.seed, 0x71]))
        self.online = QNetwork.fresh(len(FEATURES), options.hidden, self.generator)
        self.target = self.online.copy()
        self.moments = [[np.zeros_like(part), np.zeros_like(part)] for part in self.online.weights]
        self.weights = RewardWeights(options.exposed, options.churn, options.episode_windows)
        self.steps = 0
        self.memory: list[tuple[Floats, float, Floats | None]] = []

    def run(self, progress: Callable[[int, int], None] | None) -> Training:
        options = self.options
        training = Training(self.online)
        episode: ResidencyEpisode | None = None
        waiting: tuple[Floats, float] | None = None
        for number in range(options.windows):
            if episode is None or number % options.episode_windows == 0:
                if waiting is not None:
                    self.memory.append((*waiting, None))
                waiting = None
                episode = self._episode()
            state, edits = episode.window(self._rows(), number)
            offered = np.stack([edit.features for edit in edits])
            if waiting is not None:
                self.memory.append((*waiting, offered))
            chosen = self._choose(offered, number)
            reward, seconds = episode.reward(state, edits[chosen], self.weights)
            episode.apply(edits[chosen])
            waiting = (offered[chosen], reward)
            training.rewards.append(reward)
            training.seconds.append(seconds)
            training.losses.append(self._step())
            if number % options.target_windows == options.target_windows - 1:
                self.target = self.online.copy()
            if progress is not None:
                progress(number + 1, options.windows)
        return training

    def _episode(self) -> ResidencyEpisode:
        """A layout of the profile, or of homes only, each half of the time."""
        layers = self.generator.choice(
            self.setup.layers, size=min(self.options.layers, len(self.setup.layers)), replace=False
        )
        start = "profile" if self.generator.random() < 0.5 else "homes"
        return ResidencyEpisode(
            self.setup, {**self.params, "start": start}, tuple(sorted(int(layer) for layer in layers))
        )

    def _rows(self) -> npt.NDArray[np.int64]:
        rows = self.setup.parts.profile
        return np.sort(self.generator.choice(rows, size=self.setup.spec.workload.batch_tokens, replace=False))

    def _choose(self, offered: Floats, number: int) -> int:
        options = self.options
        explore = max(0.05, options.explore * (1 - 2 * number / options.windows))
        if self.generator.random() < explore:
            return int(self.generator.integers(0, len(offered)))
        return int(np.argmax(self.online.values(offered)))

    def _step(self) -> float:
        """One step of Adam on a batch of transitions; 0 as long as there are too few."""
        options = self.options
        if len(self.memory) < options.batch:
            return 0.0
        picked = [self.memory[i] for i in self.generator.integers(0, len(self.memory), size=options.batch)]
        features = np.stack([item[0] for item in picked])
        targets = np.array([item[1] for item in picked])
        for position, (_, _, following) in enumerate(picked):
            if following is not None:  # Eq. 34: the online network chooses, the target network values
                best = int(np.argmax(self.online.values(following)))
                targets[position] += options.discount * float(self.target.values(following[best : best + 1])[0])
        gradients, loss = self.online.gradients(features, targets)
        self.steps += 1
        for part, gradient, (first, second) in zip(self.online.weights, gradients, self.moments, strict=True):
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            scaled = (first / (1 - 0.9**self.steps)) / (np.sqrt(second / (1 - 0.999**self.steps)) + 1e-8)
            part -= options.learning_rate * scaled
        return loss
