"""How weights reach helpers: whoever helps, memory is read once, tokens get their own expert, nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosim.experiment import Experiment
from cosim.run.domains import domain_counts
from cosim.system import load_system
from cosim.system.models import model as find_model

SIZE = find_model("own-byte-moe").expert_bytes
POLICY = '''
import numpy as np
from typing import Annotated
from pydantic import Field

from cosim.policy import Policy
from cosim.policy.assignment import homes
from cosim.policy.delivery import DeliveryName


class Scattered(Policy):
    """Groups of the hottest experts to cores drawn at random: schedules that no policy of ours would make."""

    name = "scattered"

    class Params(Policy.Params):
        delivery: DeliveryName
        seed: int
        experts: int
        helpers: int

    def __init__(self, params=None):
        super().__init__(params)
        self.delivery = self.params.delivery

    def assign(self, groups, directory, pressure):
        return homes(groups, directory)

    def execute_at(self, groups, assigned, directory, pressure):
        at = directory.rows["chiplet"][assigned].astype(np.int32)
        cores = np.unique(directory.rows["chiplet"])
        draw = np.random.default_rng(self.params.seed)
        hottest = np.argsort(-np.bincount(groups["expert"]), kind="stable")[: self.params.experts]
        for expert in hottest if self.params.helpers else ():
            of_expert = np.flatnonzero(groups["expert"] == expert)
            chosen = draw.choice(cores, self.params.helpers, replace=False)
            at[of_expert] = draw.choice([*chosen, at[of_expert[0]]], len(of_expert))
        return at
'''


def experiment(folder: Path, *policies: dict[str, Any], system: Any = "3d-moe-stack", tokens: int = 24) -> Experiment:
    (folder / "scattered.py").write_text(POLICY)
    return Experiment.load(
        {
            "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
            "workload": {
                "model": "own-byte-moe",
                "mode": "decode",
                "batch_tokens": tokens,
                "batches": 1,
                "layers": "3",
                "scope": "routed",
            },
            "system": system,
            "policies": list(policies),
            "rungs": ["link", "flit"],
            "seeds": [1],
        }
    )


def scattered(folder: Path, way: str, seed: int, experts: int, helpers: int) -> dict[str, Any]:
    params = {"delivery": way, "seed": seed, "experts": experts, "helpers": helpers}
    return {"name": f"{folder}/scattered.py:Scattered", "label": f"{way}{helpers}", "params": params}


def counts(run: Any) -> tuple[int, int, int]:
    """Bytes that memories read, that helpers got over the network, that cores got from their own memory."""
    row = run.layers.iloc[0]
    return int(row["bytes_dram_read"]), int(row["bytes_weight"]), int(row["bytes_near_memory"])


@settings(deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), rung=st.sampled_from(["link", "flit"]))
def test_bytes_read_are_constant_in_the_number_of_helpers(tmp_path: Path, seed: int, rung: str) -> None:
    """The law of one read per broadcast, under random schedules whose ways to helpers cross."""
    ways = ("unicast", "forward", "multicast", "cmn")
    policies = [scattered(tmp_path, way, seed, 4, 5) for way in ways]
    loaded = experiment(tmp_path, scattered(tmp_path, "cmn", seed, 4, 0), *policies)
    alone = loaded.run("cmn0", rung)
    once = counts(alone)
    assert once == (once[2], 0, once[2])
    groups = {}
    for way in ways:
        run = loaded.run(f"{way}5", rung)  # conservation is checked at the end of every run
        read, sent, near = counts(run)
        used = run.groups.drop_duplicates(["expert", "chiplet"])
        home = used["expert"].map(alone.groups.drop_duplicates("expert").set_index("expert")["chiplet"])
        away = int((used["chiplet"] != home).sum())
        assert sent == away * SIZE
        assert near == (len(used) - away) * SIZE
        assert read == (sent + near if way == "unicast" else once[0])
        assert (run.groups["memory_node"] == alone.groups["memory_node"]).all()
        groups[way] = run.groups[["expert", "source", "tokens", "replica", "chiplet"]]
        assert groups[way].equals(groups["unicast"])  # the same decisions, whatever brings the weights
        # each token is served once, by its own expert
        assert groups[way][["expert", "source", "tokens", "replica"]].equals(
            alone.groups[["expert", "source", "tokens", "replica"]]
        )


def test_a_broadcast_ends_sooner_than_messages_to_each(tmp_path: Path) -> None:
    """One hot expert, fourteen helpers; the memory's port carries 48 KiB in 1.5 us."""
    ways = ("unicast", "forward", "multicast", "cmn")
    loaded = experiment(tmp_path, *(scattered(tmp_path, way, 5, 1, 14) for way in ways), tokens=64)
    memory = {}
    for rung in ("link", "flit"):
        for way in ways:
            groups = loaded.run(f"{way}14", rung).groups
            hot = groups[groups["expert"] == groups["expert"].mode()[0]]
            assert hot["chiplet"].nunique() > 8
            memory[rung, way] = int((hot["total_fs"] - hot["gather_fs"]).max())
        assert memory[rung, "cmn"] < memory[rung, "forward"]
        assert memory[rung, "multicast"] < memory[rung, "forward"]
    assert memory["link", "cmn"] == memory["link", "multicast"]  # a tree of reserved links is all that link knows


def test_domains_are_counted(tmp_path: Path) -> None:
    loaded = experiment(
        tmp_path,
        scattered(tmp_path, "cmn", 3, 4, 5),
        {"name": "three_d_moe", "params": {"delivery": "cmn", "tiers": 0}, "label": "algorithm_1"},
        {"name": "static", "label": "ep"},
    )
    scattered_row = loaded.run("cmn5", "link").layers.iloc[0]
    assert scattered_row["domains"] == 4
    assert scattered_row["domain_cores"] <= 7
    assert scattered_row["domain_shared_links"] > 0
    ordered = loaded.run("algorithm_1", "link").layers.iloc[0]
    assert ordered["domains"] >= 1
    assert ordered["domain_shared_links"] == 0
    assert "domains" not in loaded.run("ep", "link").layers
    system = load_system("3d-moe-stack")
    rows = np.zeros(2, dtype=[("memory", np.int32)])
    tiles = {place.router: place.index for place in system.compute_endpoints}
    channels = {place.router: place.index for place in system.memory_endpoints}
    rows["memory"] = [channels[0], channels[1]]
    # 0 to 2 goes through 1, whose own helper is at 3: the link from 1 to 2 is in both
    found = domain_counts(rows, [(0, tiles[2]), (0, tiles[4]), (1, tiles[3])], system.routes)
    assert (found.domains, found.largest_cores, found.shared_links) == (2, 3, 1)


def test_streams_come_first_and_serve_the_rows_of_their_replica(tmp_path: Path) -> None:
    """Recorded decisions bring the same streams again; saved results keep the domains."""
    loaded = experiment(tmp_path, scattered(tmp_path, "cmn", 9, 3, 4))
    first, second = (loaded.run("cmn4", rung) for rung in ("flit", "link"))
    columns = ["domains", "domain_cores", "domain_shared_links", "bytes_dram_read", "bytes_weight"]
    pd.testing.assert_frame_equal(first.layers[columns], second.layers[columns])
    assert first.decisions[1].same_as(second.decisions[1])


@pytest.mark.parametrize("way", ["multicast", "cmn"])
def test_a_system_without_the_class_is_refused(tmp_path: Path, way: str) -> None:
    loaded = experiment(tmp_path, scattered(tmp_path, way, 1, 2, 2), system="near-memory-4x8")
    with pytest.raises(ValueError, match="broadcast"):
        loaded.run(f"{way}2", "link")
