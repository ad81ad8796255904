"""What went wrong on purpose in a run, and each step of a hot upgrade: who was using the weights meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from cosim.policy.base import UpgradeStep

__all__ = ["INCIDENT_OF_STEP", "Incident", "incident_frame"]

INCIDENT_OF_STEP = {
    UpgradeStep.stage: "upgrade_staged",
    UpgradeStep.publish: "upgrade_published",
    UpgradeStep.drop: "upgrade_dropped",
    UpgradeStep.confirm: "upgrade_confirmed",
    UpgradeStep.roll_back: "upgrade_rolled_back",
}


@dataclass(frozen=True)
class Incident:
    """One of them.

    batch: running when it happened. layer, expert: whose weights. incident: ``prefetch_failed``, ``copy_interrupted``,
    ``copy_harmed``, ``write_interrupted``, ``write_harmed`` (of a next version), or a step of an upgrade,
    ``upgrade_refused`` where there was no room for it. replicas: how many it befell. version: the published one
    afterwards. groups_in_flight, tokens_in_flight: token groups that were using replicas which the step took out of the
    directory, and their tokens: they end on what they began with.
    """

    time_fs: int
    batch: int
    layer: int
    expert: int
    incident: str
    replicas: int
    version: int
    groups_in_flight: int = 0
    tokens_in_flight: int = 0


def incident_frame(incidents: Sequence[Incident]) -> pd.DataFrame:
    """One row each, numbered in their order; empty where nothing is injected."""
    frame: pd.DataFrame = pd.DataFrame([asdict(incident) for incident in incidents])
    if len(frame):
        frame.insert(0, "number", range(len(frame)))
    return frame
