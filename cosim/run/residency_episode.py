"""One course of HCRMap's slow loop, window by window, at link and rate: what a controller is trained and driven in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosim.config.errors import ConfigErrors, did_you_mean, one_of
from cosim.config.schema_experiment import ExperimentSpec
from cosim.policy.base import ActionKind, Pressure, Profile, WindowState
from cosim.policy.hcrmap import HCRMap
from cosim.policy.hcrmap.edits import FEATURES, Edit
from cosim.policy.residency import Residency
from cosim.run.counterfactual import Counterfactual
from cosim.run.machine import build_machine
from cosim.run.pressure import PressureMeter
from cosim.run.setup import Setup
from cosim.workload.groups import token_groups, token_homes
from cosim.workload.lowering import lower_layer

__all__ = ["ResidencyEpisode", "RewardWeights", "check_profile", "policy_params"]

_DONE = 0


@dataclass(frozen=True)
class RewardWeights:
    """Eq. 33's mu_1 and mu_2, and the windows that a copy's time is spread over."""

    exposed: float = 1.0
    churn: float = 0.002
    horizon_windows: int = 40


def policy_params(spec: ExperimentSpec, title: str, *, path: str) -> dict[str, object]:
    """Parameters of the experiment's policy of kind ``hcrmap`` with that title.

    Raises ConfigErrors, at ``path``, where there is none.
    """
    found = {policy.title: dict(policy.params) for policy in spec.policies if policy.name == "hcrmap"}
    if title not in found:
        raise ConfigErrors.single(
            one_of(list(found)) if found else "an experiment with the policy hcrmap",
            repr(title),
            path=path,
            suggestion=did_you_mean(title, list(found)),
        )
    return found[title]


def check_profile(setup: Setup) -> None:
    """Raises ConfigErrors where the profile part is smaller than a batch."""
    if setup.profile.tokens < setup.spec.workload.batch_tokens:
        raise ConfigErrors.single(
            f"a profile of at least the batch's {setup.spec.workload.batch_tokens} tokens",
            f"{setup.profile.tokens}",
            path="trace.profile",
        )


class ResidencyEpisode:
    """One layout, from its start on, driven window by window on a machine of its own."""

    def __init__(self, setup: Setup, params: dict[str, object], layers: tuple[int, ...]) -> None:
        self.setup, self.layers = setup, layers
        self.policy = HCRMap({**params, "controller": "rules"})
        known = setup.profile
        self.profile = Profile(known.counts, known.transitions, known.tokens, layers)
        rates = setup.rates
        self.residency = Residency(
            setup.system,
            setup.model,
            self.policy.place(setup.system, setup.model, self.profile),
            expert_bytes=rates.expert_bytes,
            alignment_bytes=setup.region_alignment_bytes,
            burst_bytes=setup.burst_bytes,
            layers=layers,
            max_replicas=self.policy.max_replicas,
            min_residency_windows=self.policy.min_residency_windows,
            updates_per_window=self.policy.updates_per_window,
            budget_bytes=int(self.policy.replica_budget * len(layers) * setup.model.experts * rates.expert_bytes),
        )
        self.machine = build_machine(setup.system, "link")
        self.meter = PressureMeter(self.machine)
        self.counterfactual = Counterfactual(setup.system, rates, self.policy)

    def window(self, rows: npt.NDArray[np.int64], number: int) -> tuple[WindowState, list[Edit]]:
        """Runs a batch under the present layout; returns what the slow loop sees, and its legal edits."""
        setup, machine = self.setup, self.machine
        homes = token_homes(len(rows), machine.compute_endpoints)
        demand = np.zeros_like(self.profile.counts)
        directory = self.residency.directory()
        groups_of = []
        pressure: Pressure = self.meter.read(self.residency)
        for layer in self.layers:
            groups = token_groups(setup.trace.ids[rows, layer], homes, layer, setup.model.activation_bytes)
            groups_of.append(groups)
            np.add.at(demand, (groups["layer"], groups["expert"]), groups["tokens"])
            assigned = self.policy.assign(groups, directory, pressure)
            tasks = lower_layer(groups, assigned, directory, setup.rates, machine.nodes, machine.classes, _DONE)
            machine.engine.submit(tasks.columns, tasks.before, tasks.after, machine.now_fs)
            machine.engine.run()
            machine.engine.take_records()
        self.residency.close_window()
        state = WindowState(
            machine.now_fs,
            number,
            demand,
            self.residency.directory(),
            self.meter.read(self.residency),
            (),
            (),
            self.counterfactual.what_if(groups_of, self.residency.directory()),
        )
        self.meter.close_window()
        return state, self.policy.edits(state)

    def apply(self, edit: Edit) -> None:
        """Makes an edit; its copy is complete at once, its time is in the reward."""
        if edit.action is None:
            return
        orders, _ = self.residency.propose([edit.action])
        for order in orders:
            self.residency.publish(order.replica)

    def reward(self, state: WindowState, edit: Edit, weights: RewardWeights) -> tuple[float, float]:
        """Eq. 33, and the seconds of the batch under the present layout."""
        assert state.what_if is not None
        before = state.what_if(None)
        if edit.action is None:
            return 0.0, before
        gain = (before - state.what_if(edit.action)) / before
        moved = edit.action.kind in (ActionKind.promote, ActionKind.demote)
        exposed = float(edit.features[FEATURES.index("copy_time")]) if moved else 0.0
        return gain - weights.exposed * exposed / weights.horizon_windows - weights.churn, before
