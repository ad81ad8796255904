"""The experiments on public recordings run as they are shipped, and their placements are those of the recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cosim.experiment import Experiment

pytestmark = pytest.mark.public_traces

CASES = {
    "hda-moe-gpt-oss": "gptoss20b_decode/gptoss20b_decode_topk.npz",
    "hda-moe-mixtral": "hdmoe_mixtral8x7b_mtbench/mixtral8x7b_mtbench_topk.npz",
}


@pytest.mark.parametrize("name", CASES)
def test_expert_parallelism_is_behind_at_the_base_point(public_trace: Callable[[str], Path], name: str) -> None:
    """What the guide says of both, at the lowest simulated rung: the hottest expert holds expert parallelism back."""
    changes = [f"trace.file={public_trace(CASES[name])}", "workload.batches=1", "workload.layers=12", "seeds=[1]"]
    experiment = Experiment.load(name, [*changes, "sweeps={}"])
    runs = {item: experiment.run(item, "link") for item in ("tensor_parallel", "hybrid", "expert_parallel")}
    latency = {policy: int(run.layers["total_fs"].sum()) for policy, run in runs.items()}
    assert latency["expert_parallel"] > 1.2 * max(latency["tensor_parallel"], latency["hybrid"])
    # eight groups of four nodes, two of sixteen: an expert is split evenly inside its group
    shares = runs["hybrid"].groups["share"]
    assert shares.max() == shares.min() == (1 / 4 if "gpt" in name else 1 / 16)
