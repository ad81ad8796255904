"""Helpers for one layer: another core works on a group with the same expert's weights, which it has to fetch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosim.experiment import Experiment
from cosim.run.checkpoint import record_from_json, record_to_json
from cosim.run.loop import PolicyError
from cosim.system.models import model as find_model

POLICIES = '''
import numpy as np

from cosim.policy import Policy
from cosim.policy.assignment import homes


class _Asking(Policy):
    name = "asking"

    def assign(self, groups, directory, pressure):
        return homes(groups, directory)


class Neighbours(_Asking):
    """Every second group to the next chiplet."""

    def execute_at(self, groups, assigned, directory, pressure):
        at = directory.rows["chiplet"][assigned].astype(np.int32)
        cores = np.unique(directory.rows["chiplet"])
        following = cores[(np.searchsorted(cores, at) + 1) % len(cores)]
        return np.where(np.arange(len(at)) % 2 == 1, following, at).astype(np.int32)


class Nowhere(_Asking):
    def execute_at(self, groups, assigned, directory, pressure):
        return np.full(len(groups), 10**6, dtype=np.int32)


class Short(_Asking):
    def execute_at(self, groups, assigned, directory, pressure):
        return np.zeros(1, dtype=np.int32)
'''


def experiment(folder: Path, *policies: Any, system: str = "package-4x4") -> Experiment:
    (folder / "asking.py").write_text(POLICIES)
    return Experiment.load(
        {
            "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
            "workload": {
                "model": "own-byte-moe",
                "mode": "decode",
                "batch_tokens": 16,
                "batches": 1,
                "layers": "0-1",
                "scope": "routed",
            },
            "system": system,
            "policies": list(policies),
            "rungs": ["link", "flit"],
            "seeds": [1],
        }
    )


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_helpers_work_on_the_same_expert_and_pay_for_its_weights(tmp_path: Path, rung: str) -> None:
    loaded = experiment(tmp_path, "static", {"name": f"{tmp_path}/asking.py:Neighbours", "label": "helped"})
    alone, helped = loaded.run("static", rung).groups, loaded.run("helped", rung).groups
    key = ["batch", "layer", "expert", "source"]
    assert alone[[*key, "tokens"]].equals(helped[[*key, "tokens"]])  # every token is served once, by its own expert
    assert (alone["replica"] == helped["replica"]).all()
    assert (alone["memory_node"] == helped["memory_node"]).all()  # a helper reads the replica's own memory
    moved = alone["chiplet"] != helped["chiplet"]
    assert 0.4 < moved.mean() < 0.6
    size = find_model("own-byte-moe").expert_bytes
    fetched = helped.drop_duplicates(["batch", "layer", "expert", "chiplet"])
    assert len(fetched) > len(alone.drop_duplicates(["batch", "layer", "expert"]))
    run = loaded.run("helped", rung)
    assert int(run.layers["bytes_weight"].sum()) == len(fetched) * size
    assert (helped["total_fs"] > 0).all()


def test_recorded_helpers_are_replayed(tmp_path: Path) -> None:
    """`validate` drives the rung link by the decisions of flit: helpers included, the same groups at the same cores."""
    loaded = experiment(tmp_path, {"name": f"{tmp_path}/asking.py:Neighbours", "label": "helped"})
    record = loaded.run("helped", "flit").decisions[1]
    again = record_from_json(record_to_json(record))
    assert again.same_as(record)
    first = next(iter(again.layers.values()))
    assert first.chiplets is not None
    assert first.chiplets.dtype == np.int32
    assert record.same_as(loaded.run("helped", "link").decisions[1])


@pytest.mark.parametrize(("name", "text"), [("Nowhere", "does not compute"), ("Short", "an endpoint per group")])
def test_illegal_helpers_are_refused(tmp_path: Path, name: str, text: str) -> None:
    loaded = experiment(tmp_path, f"{tmp_path}/asking.py:{name}")
    with pytest.raises(PolicyError, match=text):
        loaded.run(f"{tmp_path}/asking.py:{name}", "link")
