"""All-reduces among the endpoints of split experts: who is in them, what they carry, and who returns the sums."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.policy import Directory, ExpertPart, PlacedReplica, Placement
from cosim.policy.residency import Residency
from cosim.run.setup import Setup
from cosim.run.unit import UnitKey, run_unit
from cosim.system import load_system, model, open_experiment
from cosim.workload.group_reduce import group_reduce
from cosim.workload.groups import token_groups, token_homes
from cosim.workload.legs import legs_of
from cosim.workload.stages import STAGES

MODEL = model("own-byte-moe")
SYSTEM = load_system("near-memory-4x4")
NODES = np.array([place.index for place in SYSTEM.compute_endpoints], dtype=np.int32)
SUMS = MODEL.hidden * 4


@lru_cache
def directory(seed: int) -> Directory:
    """Experts on one to four nodes, some of them on the same ones."""
    draws = np.random.default_rng(seed)
    places = [sorted(draws.choice(16, draws.integers(1, 5), replace=False).tolist()) for _ in range(12)]
    replicas = []
    for expert in range(MODEL.experts):
        nodes = places[int(draws.integers(0, len(places)))]
        neurons = np.full(len(nodes), MODEL.moe_intermediate // len(nodes))
        neurons[0] += MODEL.moe_intermediate - neurons.sum()
        parts = [
            ExpertPart(int(NODES[n]), SYSTEM.near_memories[int(NODES[n])], "dram", int(count))
            for n, count in zip(nodes, neurons, strict=True)
        ]
        replicas.append(PlacedReplica.split(0, expert, parts))
    held = Residency(
        SYSTEM,
        MODEL,
        Placement(replicas),
        expert_bytes=48 << 10,
        alignment_bytes=32 << 10,
        layers=[0],
        max_replicas=1,
        budget_bytes=1 << 60,
        burst_bytes=128,
    )
    return held.directory()


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), placed=st.integers(0, 3), tokens=st.integers(1, 60), merged=st.booleans())
def test_rings_against_walking_through_the_tokens(seed: int, placed: int, tokens: int, merged: bool) -> None:
    draws = np.random.default_rng(seed)
    held = directory(placed)
    rows = held.rows
    ids = np.array([draws.choice(64, 4, replace=False) for _ in range(tokens)])
    ids[draws.random((tokens, 4)) < 0.1] = -1
    homes = token_homes(tokens, NODES)
    groups = token_groups(ids, homes, 0, MODEL.activation_bytes)
    assigned = np.array([held.of(0, int(expert))[0] for expert in groups["expert"]], dtype=np.int32)
    legs, leg_rows = legs_of(assigned, held)
    found = group_reduce(ids, homes, groups, legs, leg_rows, held, SYSTEM.routes, sum_bytes=SUMS, merged=merged)

    def members(expert: int) -> tuple[int, ...]:
        parts = held.parts(int(held.of(0, expert)[0]))
        return tuple(sorted(int(rows["chiplet"][part]) for part in parts))

    expected: dict[tuple[int, ...], int] = {}
    for token in range(tokens):
        sets = [members(int(expert)) for expert in ids[token] if expert >= 0]
        split = [nodes for nodes in sets if len(nodes) > 1]
        for nodes in set(split) if merged else split:
            expected[nodes] = expected.get(nodes, 0) + 1
    carried = {tuple(sorted(ring.order.tolist())): ring.size_bytes for ring in found.rings}
    assert carried == {nodes: count * SUMS for nodes, count in expected.items()}
    returned: dict[int, list[int]] = {}
    for leg, (group, row) in enumerate(zip(legs.tolist(), leg_rows.tolist(), strict=True)):
        nodes = members(int(groups["expert"][group]))
        ring = int(found.ring_of_group[leg])
        assert (ring >= 0) == (len(nodes) > 1)
        if ring >= 0:
            assert tuple(sorted(found.rings[ring].order.tolist())) == nodes
            if found.returns[leg]:
                returned.setdefault(group, []).append(int(rows["chiplet"][row]))
    for group in range(len(groups)):
        nodes = members(int(groups["expert"][group]))
        if len(nodes) > 1:
            home = int(groups["aggregator"][group])
            nearest = min(nodes, key=lambda node, home=home: (SYSTEM.routes.between(node, home), node))  # type: ignore[misc]
            assert returned[group] == [nearest]


MESSAGES = {"file": "hda-moe-hybrid-4x4", "dispatch": "per_chiplet"}


@lru_cache
def setup() -> Setup:
    policies = [
        {"name": "placed", "params": {**MESSAGES, "gather": gather, "partial_sums": sums}, "label": f"{sums}-{gather}"}
        for gather in ("per_chiplet", "per_expert")
        for sums in ("returned", "all_reduced")
    ]
    return Setup(
        open_experiment(
            {
                "trace": {"file": "sample", "profile": {"requests": "0-63"}, "evaluate": {"requests": "64-127"}},
                "workload": {
                    "model": "own-byte-moe",
                    "mode": "decode",
                    "batch_tokens": 24,
                    "batches": 2,
                    "layers": "0-1",
                    "scope": "moe",
                },
                "system": "near-memory-4x4",
                "policies": policies,
                "rungs": ["link", "flit"],
                "seeds": [1],
            }
        )
    )


@lru_cache
def ran(policy: str, rung: str) -> Any:
    return run_unit(setup(), UnitKey(policy, rung, 1))


@pytest.mark.parametrize("rung", ["link", "flit"])
@pytest.mark.parametrize("gather", ["per_chiplet", "per_expert"])
def test_a_run_moves_what_the_rings_carry_and_one_output_of_each_token(gather: str, rung: str) -> None:
    reduced, returned = ran(f"all_reduced-{gather}", rung), ran(f"returned-{gather}", rung)
    groups = reduced.frames["groups"]
    keys = ["batch", "layer", "expert", "source", "chiplet", "tokens", "share"]
    assert groups[keys].equals(returned.frames["groups"][keys])  # the same tokens at the same nodes
    setup_of = setup()
    batches, trace = setup_of.batches(1), setup_of.trace
    sets = (
        groups[groups["share"] < 1]
        .groupby(["batch", "layer", "expert"])["chiplet"]
        .agg(lambda c: tuple(sorted(set(c))))
    )
    for unit, row in enumerate(reduced.frames["layers"].itertuples()):
        ids = trace.ids[batches[row.batch], row.layer]
        homes = token_homes(len(ids), NODES)
        carried = 0
        back: dict[tuple[int, int], int] = {}
        of_ring: dict[tuple[int, ...], int] = {}
        for token, experts in enumerate(ids):
            home = int(homes[token])
            rings = [sets[row.batch, row.layer, expert] for expert in experts if expert >= 0]
            senders = []
            for nodes in set(rings) if gather == "per_chiplet" else rings:
                of_ring[nodes] = of_ring.get(nodes, 0) + 1
            for nodes in rings:
                senders.append(min(nodes, key=lambda node, home=home: (SYSTEM.routes.between(node, home), node)))  # type: ignore[misc]
            for sender in set(senders) if gather == "per_chiplet" else senders:
                if sender != home:
                    back[sender, home] = back.get((sender, home), 0) + 1
        for nodes, tokens in of_ring.items():
            carried += 2 * (len(nodes) - 1) * tokens * SUMS
        expected = carried + sum(back.values()) * MODEL.activation_bytes
        assert int(row.bytes_gather) == expected, unit
    stages = sum(groups[f"{stage}_fs"] for stage in STAGES)
    assert (stages == groups["total_fs"]).all()


def test_wrong_values_are_refused() -> None:
    from cosim.config.errors import ConfigErrors
    from cosim.policy import make_policy

    with pytest.raises(ConfigErrors, match="all_reduced"):
        make_policy("placed", {"file": "hda-moe-hybrid", "partial_sums": "reduced"})
