"""Tensor parallelism as a ring all-reduce, and metadata and merged messages of expert parallelism, at every rung."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.analytic.hda_moe_equations import ring_all_reduce_time_s
from cosim.experiment import Experiment
from cosim.run.loop import PolicyError
from cosim.run.unit import UnitKey, unit_loop
from cosim.workload.collectives import ring_steps
from cosim.workload.groups import token_homes
from cosim.workload.stages import STAGES

NS = 1_000_000
RUNGS = ["link", "link+command", "flit+rate", "flit"]


def pair(policies: list[Any], **workload: Any) -> Experiment:
    """Two chiplets side by side, two experts, two tokens of 32 elements: partial sums of 256 B a chiplet."""
    level = {
        "topology": {"kind": "mesh", "shape": [3]},
        "routing": "dor",
        "num_vcs": 4,
        "vc_buf_size": 8,
        "flit_width": "64 B",
        "clock": "1 GHz",
        "link_latency": 2,
        "max_packet_flits": 4,
        "header_bytes": "0 B",
    }
    expert = {"at": {"package": [1, 2]}, "compute": {"rate": "1 TFLOP/s", "efficiency": 1.0}}
    memory = {"preset": "HBM2_2000", "channels": 1}
    return Experiment.load(
        {
            "trace": {
                "zipf_markov": {"requests": 4, "positions": 4, "alpha": 0.5, "rho": 0.5, "seed": 1},
                "profile": {"requests": "0-1"},
                "evaluate": {"requests": "2-3"},
            },
            "workload": {
                "model": {
                    "layers": 1,
                    "moe_layers": 1,
                    "hidden": 32,
                    "moe_intermediate": 32,
                    "matrices_per_expert": 3,
                    "experts": 2,
                    "top_k": 2,
                    "gating": "softmax",
                    "norm_topk_prob": True,
                    "source": "made for this test",
                },
                "mode": "random",
                "batch_tokens": 2,
                "batches": 2,
                "layers": "0",
                "scope": "routed",
                **workload,
            },
            "system": {
                "levels": {"package": level},
                "endpoints": {
                    "expert": {**expert, "tile": "256 B", "expert_buffer": "1 KiB"},
                    "memory": {
                        "at": {"package": [0]},
                        "memory": memory,
                        "read_return_slots": 64,
                        "allow_bottleneck": True,
                    },
                },
                "tiers": {"dram": {"on": "memory", "capacity": "1 GiB"}},
            },
            "policies": policies,
            "rungs": ["link", "flit"],
            "seeds": [1],
        }
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 9), st.integers(0, 40))
def test_a_ring_sums_every_slice_for_everyone(members: int, more: int) -> None:
    order = np.random.default_rng(members).permutation(members) + 3
    ring = ring_steps(order, members + more)
    place = {int(member): at for at, member in enumerate(order)}
    # what a member holds of a slice: the members whose sums are in it
    held = [[{at} for _ in range(members)] for at in range(members)]
    for step in range(ring.steps):
        sent = []
        for at in range(members):
            message = step * members + at
            assert place[int(ring.source[message])] == at
            assert place[int(ring.destination[message])] == (at + 1) % members
            part = (at - step) % members
            size = (part + 1) * (members + more) // members - part * (members + more) // members
            assert ring.size_bytes[message] == size
            sent.append((part, set(held[at][part])))
        for at, (part, sums) in enumerate(sent):
            held[(at + 1) % members][part] |= sums
    assert all(sums == set(range(members)) for of_member in held for sums in of_member)
    waits = dict(zip(ring.after.tolist(), ring.before.tolist(), strict=True))
    assert len(waits) == len(ring.after) == members * (ring.steps - 1)
    for after, before in waits.items():
        assert after // members == before // members + 1
        assert ring.destination[before] == ring.source[after]
    for at in range(members):
        assert [int(m) // members for m in ring.reducing(at)] == list(range(members))
        assert (ring.source[ring.reducing(at)] == order[at]).all()
        assert (ring.destination[ring.arriving(at)] == order[at]).all()
        assert len(ring.arriving(at)) == members - 1


def test_a_ring_needs_members_and_bytes() -> None:
    for order, size in ((np.arange(1), 8), (np.arange(4), 3)):
        with pytest.raises(ValueError, match="two members and a byte for each"):
            ring_steps(order, size)


@pytest.mark.parametrize("rung", RUNGS)
def test_tensor_parallelism_of_two_by_hand(rung: str) -> None:
    """Tokens are where they are needed; then two steps of 128 B, the second when the slice before it has arrived."""
    run = pair(["tensor_parallel"]).run("tensor_parallel", rung)
    assert (run.layers["bytes_dispatch"] == 0).all()
    assert (run.layers["bytes_gather"] == 4 * 128).all()  # both members, both steps
    assert (run.groups["dispatch_fs"] == 0).all()
    # per part one group of all tokens of its expert
    assert sorted(run.groups["tokens"].tolist()) == [2] * 8
    # 1 to be seen, two routers of 4 cycles, a link of 2, 3 for injection, ejection and reading, a flit more
    flits = (1 + 4 * 2 + 2 + 3 + 1) * NS
    link = 128 * NS // 64 + 1  # over one link of 64 GB/s, seen a femtosecond after it is sent
    step = flits if rung.startswith("flit") else link
    # weights reach the farther chiplet later: it waits for nobody, its neighbour for it
    last = run.groups.groupby("batch")["gather_fs"].min()
    assert last.tolist() == [2 * step] * 2


def test_tensor_parallelism_over_links_is_the_closed_form() -> None:
    """A torus whose ring takes one link a step: 2 (n - 1) size / (n BW), Eq. 4's limit being 2 size / BW."""
    overrides = ["system=near-memory-torus-4x8", "policies=[tensor_parallel]", "companions=[]", "components=null"]
    overrides += ["sweeps={}", "seeds=[1]", "workload.batches=1", "workload.layers=0"]
    experiment = Experiment.load("hda-moe", overrides)
    link, flit = (experiment.run("tensor_parallel", rung) for rung in ("link", "flit"))
    exact_fs = ring_all_reduce_time_s(32 * 128 * 4, 32, 50e9) * 1e15
    for run in (link, flit):
        assert (run.layers["bytes_gather"] == 62 * 32 * 128 * 4).all()
        assert run.layers["bytes_dispatch"].sum() == 0
    # slices of the layer's own time: every node computes as long as any other, up to a burst of its weights
    assert np.abs(link.layers["gather_fs"] - exact_fs).max() < 0.02 * exact_fs
    # 512 B are 17 flits with their header in two packets, and a step passes two routers
    assert (flit.layers["gather_fs"] > 1.5 * exact_fs).all()
    limit = ring_all_reduce_time_s(32 * 128 * 4, 32, 50e9, exact=False) * 1e15
    assert exact_fs == pytest.approx(limit * 31 / 32)


def test_tensor_parallelism_sums_before_its_ring_in_scope_moe() -> None:
    for rung in ("link", "flit"):
        run = pair(["tensor_parallel"], scope="moe").run("tensor_parallel", rung)
        for frame in (run.layers, run.groups):
            stages = frame[[f"{stage}_fs" for stage in STAGES]]
            assert (stages >= 0).all(axis=None)
            assert (stages.sum(axis=1) == frame["total_fs"]).all()
        # two tokens of two experts and 32 elements at 500 multiply-accumulates a cycle
        assert (run.groups["combine_fs"] == 1 * NS).all()
        assert (run.layers["gather_fs"] > 0).all()


def test_an_all_reduce_needs_every_expert_everywhere() -> None:
    experiment = pair(["expert_parallel"])
    loop = unit_loop(experiment.setup, UnitKey("expert_parallel", "link", 1))
    loop.policy.all_reduce = True
    with pytest.raises(PolicyError, match="every expert on all of the 2 compute endpoints, expert 0 is on 1"):
        loop.run()


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_metadata_comes_before_tokens_by_hand(rung: str) -> None:
    experiment = pair(
        ["expert_parallel", {"name": "expert_parallel", "params": {"metadata_bytes": 4}, "label": "told"}]
    )
    without, told = (experiment.run(policy, rung) for policy in ("expert_parallel", "told"))
    # one expert a chiplet: a count of 4 B each way
    assert (told.layers["bytes_dispatch"] - without.layers["bytes_dispatch"]).tolist() == [8, 8]
    away = told.groups["source"] != told.groups["chiplet"]
    assert away.any()
    longer = (told.groups["dispatch_fs"] - without.groups["dispatch_fs"])[away]
    # one flit, as above; or 4 B over a link of 64 GB/s, seen a femtosecond after they are sent
    assert set(longer) == {(1 + 4 * 2 + 2 + 3) * NS if rung == "flit" else 4 * NS // 64 + 1}
    assert (told.groups["dispatch_fs"][~away] == 0).all()
    assert (told.groups["publish_wait_fs"] == 0).all()


@pytest.mark.parametrize("rung", ["link", "flit"])
def test_a_token_goes_once_to_a_chiplet_and_comes_back_once(rung: str) -> None:
    params = {"dispatch": "per_chiplet", "gather": "per_chiplet"}
    policies = [
        {"name": "expert_parallel", "label": "apart"},
        {"name": "expert_parallel", "params": params, "label": "merged"},
    ]
    overrides = ["system=package-4x4", f"policies={policies}", "companions=[]", "components=null", "sweeps={}"]
    experiment = Experiment.load("hda-moe", [*overrides, "seeds=[1]", "workload.batches=1", "workload.layers=0"])
    apart, merged = (experiment.run(policy, rung) for policy in ("apart", "merged"))
    setup = experiment.setup
    rows = setup.batches(1)[0]
    ids = setup.trace.ids[rows, 0].astype(int)
    computes = np.array([place.index for place in setup.system.compute_endpoints], dtype=np.int32)
    homes = token_homes(len(rows), computes)
    chiplets = computes[ids * 16 // 64]
    each = setup.model.activation_bytes
    travelling = chiplets != homes[:, None]
    pairs = {(n, int(c)) for n in range(len(rows)) for c in chiplets[n] if c != homes[n]}
    for column in ("bytes_dispatch", "bytes_gather"):
        assert apart.layers[column].tolist() == [np.count_nonzero(travelling) * each]
        assert merged.layers[column].tolist() == [len(pairs) * each]
    assert len(pairs) < np.count_nonzero(travelling)
    for run in (apart, merged):
        stages = run.groups[[f"{stage}_fs" for stage in STAGES]]
        assert (stages >= 0).all(axis=None)
        assert (stages.sum(axis=1) == run.groups["total_fs"]).all()
    # tokens of one source for one chiplet arrive together
    arrivals = merged.groups.assign(arrived=merged.groups["dispatch_fs"]).groupby(["source", "chiplet"])["arrived"]
    assert (arrivals.nunique() == 1).all()
