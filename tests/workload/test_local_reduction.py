"""Chiplets that add up what their experts return for one token before they send it."""

from __future__ import annotations

import numpy as np
import pytest

from cosim import Experiment
from cosim.workload.groups import token_homes
from cosim.workload.stages import STAGES

SMALL = ["seeds=[1]", "workload.batches=1", "workload.layers=0-1", "claims=null"]


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_one_sum_comes_back_for_every_token_and_chiplet(rung: str) -> None:
    policies = "policies=[{name: comoe, params: {reduction: false}, label: apart}, {name: comoe, label: summed}]"
    experiment = Experiment.load("quickstart", [*SMALL, policies])
    apart, summed = (experiment.run(policy, rung) for policy in ("apart", "summed"))
    pairs = ["layer", "expert", "source", "tokens", "chiplet"]
    assert apart.groups[pairs].equals(summed.groups[pairs])  # the same tokens at the same chiplets
    setup = experiment.setup
    tokens = setup.batches(1)[0]
    computes = np.array([place.index for place in setup.system.compute_endpoints], dtype=np.int32)
    homes = token_homes(len(tokens), computes)
    for layer in (0, 1):
        rows = summed.groups[summed.groups["layer"] == layer]
        at = {(int(e), int(s)): int(c) for e, s, c in zip(rows["expert"], rows["source"], rows["chiplet"], strict=True)}
        sums = set()
        for number, token in enumerate(tokens.tolist()):
            for expert in setup.trace.ids[token, layer].tolist():
                chiplet = at[expert, int(homes[number])]
                if chiplet != homes[number]:
                    sums.add((number, chiplet))
        moved = summed.layers.loc[summed.layers["layer"] == layer, "bytes_gather"]
        assert moved.tolist() == [len(sums) * setup.model.activation_bytes]
    assert summed.layers["bytes_gather"].sum() < apart.layers["bytes_gather"].sum()
    assert apart.layers["bytes_gather"].sum() == apart.layers["bytes_dispatch"].sum()
    stages = summed.groups[[f"{stage}_fs" for stage in STAGES]]
    assert (stages >= 0).all(axis=None)
    assert (stages.sum(axis=1) == summed.groups["total_fs"]).all()
    # a sum waits for the last of its experts
    ends = summed.groups.groupby(["layer", "chiplet", "aggregator"])["total_fs"].nunique()
    assert (ends[ends.index.get_level_values("chiplet") != ends.index.get_level_values("aggregator")] == 1).all()
