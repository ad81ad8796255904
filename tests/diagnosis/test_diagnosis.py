"""`cosim diagnose`: nulls on traces whose answer is known, loads against a slow reference, answers, files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import trace
from cosim.cli import main
from cosim.config.errors import ConfigErrors
from cosim.diagnosis.diagnose import Diagnosis, diagnose
from cosim.diagnosis.hot_set import hot_set
from cosim.diagnosis.imbalance import imbalance
from cosim.diagnosis.steps import Steps, steps_of
from cosim.diagnosis.traffic import loads_of, pipes_of
from cosim.system import load_system
from cosim.system.models import model
from cosim.workload.groups import token_groups, token_homes

EXPERTS, TOP_K, RANKS = 16, 2, 4


def drawn(shares: np.ndarray, steps: int = 32, tokens: int = 24, seed: int = 3) -> Steps:
    """Tokens that pick Top-2 of 16 experts with the given shares, per step: shape (experts,) or (steps, experts)."""
    draws = np.random.default_rng(seed)
    by_step = np.broadcast_to(shares, (steps, EXPERTS))
    keys = np.log(by_step)[:, None, None, :] + draws.gumbel(size=(steps, tokens, 2, EXPERTS))
    return Steps(np.argsort(-keys, axis=3)[..., :TOP_K].astype(np.int64), "sequential", EXPERTS)


EVEN = np.full(EXPERTS, 1 / EXPERTS)
SKEWED = np.arange(1, EXPERTS + 1, dtype=float) ** -1.2
BLOCKS = np.arange(EXPERTS) * RANKS // EXPERTS


def test_an_even_router_is_not_called_unbalanced() -> None:
    found = imbalance(drawn(EVEN), BLOCKS, RANKS, 1)
    assert not found.real.any()
    assert found.observed == pytest.approx(found.balanced, rel=0.06)
    assert (found.observed > 1.1).all()  # and yet its busiest rank has more than the mean


def test_a_skewed_router_is() -> None:
    found = imbalance(drawn(SKEWED), BLOCKS, RANKS, 1)
    assert found.real.all()
    assert found.shuffled == pytest.approx(found.observed, rel=0.06)  # all of it is the long-run load


def test_bursts_are_told_from_a_lasting_load() -> None:
    bursts = np.stack([np.roll(SKEWED, 4 * step) for step in range(32)])  # every rank is hot in turn
    found = imbalance(drawn(bursts), BLOCKS, RANKS, 1)
    assert found.real.all()
    assert (found.observed - found.shuffled > 0.8 * (found.observed - found.balanced)).all()


def test_a_hot_set_that_lasts_and_one_that_moves_on() -> None:
    stays = hot_set(drawn(SKEWED), 4, 8, 1)
    assert min(stays.persistence) > 0.8
    moves = hot_set(drawn(np.stack([np.roll(SKEWED, 4 * (step // 4)) for step in range(32)])), 4, 8, 1)
    assert moves.persistence[0] < 0.3
    assert moves.kept[2] == pytest.approx(stays.kept[2], abs=0.1)  # four windows later the same ranks are hot again


SYSTEM = {
    "levels": {
        "package": {
            "topology": {"kind": "mesh", "shape": [2, 2]},
            "routing": "dor",
            "num_vcs": 4,
            "vc_buf_size": 8,
            "flit_width": "64 B",
            "clock": "1 GHz",
            "link_latency": 1,
        }
    },
    "endpoints": {
        "expert": {
            "at": {"package": "all"},
            "compute": {"rate": "1 TFLOP/s", "efficiency": 1.0},
            "tile": "16 KiB",
            "expert_buffer": "64 KiB",
        },
        "memory": {
            "at": {"package": [0, 3]},
            "memory": {"preset": "HBM2_2000", "channels": 2},
            "read_return_slots": 64,
        },
    },
}
MODEL = {
    "layers": 2,
    "moe_layers": 2,
    "hidden": 64,
    "moe_intermediate": 32,
    "matrices_per_expert": 3,
    "experts": EXPERTS,
    "top_k": TOP_K,
    "gating": "softmax",
    "norm_topk_prob": True,
}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_loads_are_those_of_a_slow_count(seed: int, tokens: int) -> None:
    draws = np.random.default_rng(seed)
    ids = np.argsort(draws.random((2, tokens, 2, EXPERTS)), axis=3)[..., :TOP_K].astype(np.int64)
    ids[draws.random(ids.shape) < 0.1] = -1
    steps = Steps(ids, "sequential", EXPERTS)
    places = [
        [sorted(draws.choice(RANKS, size=draws.integers(1, RANKS + 1), replace=False).tolist()) for _ in range(EXPERTS)]
        for _ in range(2)
    ]
    system, spec = load_system(SYSTEM), model(MODEL)
    pipes = pipes_of(system)
    found = loads_of(steps, places, pipes, spec)
    pair, link, memory = np.zeros((RANKS, RANKS)), np.zeros(len(pipes.links)), np.zeros(2)
    ranks = [place.index for place in system.compute_endpoints]
    memories = [place.index for place in system.memory_endpoints]
    for step in range(2):
        for layer in range(2):
            reading = set()
            for token in range(tokens):
                for expert in ids[step, token, layer].tolist():
                    if expert < 0:
                        continue
                    home, target = token % RANKS, places[layer][expert][token % len(places[layer][expert])]
                    reading.add((expert, target))
                    for a, b in ((home, target), (target, home)):
                        if a != b:
                            pair[a, b] += spec.activation_bytes
                            link[system.routes.path(ranks[a], ranks[b])] += spec.activation_bytes
            for _, target in reading:
                at = int(pipes.memory_of[target])
                memory[at] += spec.expert_bytes
                link[system.routes.path(memories[at], ranks[target])] += spec.expert_bytes
    assert np.allclose(found.pair_bytes, pair / 4)
    assert np.allclose(found.link_bytes, link / 4)
    assert np.allclose(found.memory_bytes, memory / 4)
    assert found.bound_s >= max(found.seconds.values()) - 1e-15
    assert sum(found.bound_by.values()) == pytest.approx(1)


def test_bytes_of_pairs_are_those_the_simulator_sends() -> None:
    steps = drawn(SKEWED, steps=1)
    system, spec = load_system(SYSTEM), model(MODEL)
    once = [[[int(rank)] for rank in BLOCKS]] * 2
    found = loads_of(steps.part(0, 1), once, pipes_of(system), spec)
    chiplets = np.array([place.index for place in system.compute_endpoints], dtype=np.int32)
    sent = 0
    for layer in range(2):
        groups = token_groups(steps.ids[0, :, layer], token_homes(steps.tokens, chiplets), layer, spec.activation_bytes)
        sent += int(groups["bytes"][groups["source"] != chiplets[BLOCKS[groups["expert"]]]].sum())
    assert found.pair_bytes.sum() * 2 == 2 * sent


def look(steps: Steps, **changes: object) -> Diagnosis:
    compute = {"rate": changes.pop("rate", "1 TFLOP/s"), "efficiency": 1.0}
    endpoints = {**SYSTEM["endpoints"], "expert": {**SYSTEM["endpoints"]["expert"], "compute": compute}}
    return diagnose(steps, load_system({**SYSTEM, "endpoints": endpoints}), model(MODEL), spare=8)


def test_replicas_help_where_compute_binds_and_not_where_memory_does() -> None:
    slow = look(drawn(SKEWED, tokens=64), rate="10 GFLOP/s")
    question, answer, because = slow.answers()[2]
    assert (question, answer) == ("Would replicas help?", "yes")
    assert "compute is the bottleneck in 100%" in because
    fast = look(drawn(SKEWED, tokens=64), rate="100 TFLOP/s")
    assert fast.answers()[2][1].startswith("no")
    assert fast.loads["EPLB"].memory_bytes.sum() > fast.loads["one copy"].memory_bytes.sum()  # copies are read too
    assert fast.loads["EPLB"].imbalance < fast.loads["one copy"].imbalance


def test_replicas_that_move_the_bottleneck_are_told() -> None:
    _, answer, because = look(drawn(SKEWED, tokens=64), rate="600 GFLOP/s").answers()[2]
    assert answer == "no, they move the bottleneck"
    assert "compute is the bottleneck in 97% of layers and steps; after, memory in 100%" in because


def test_a_trace_too_small_says_so() -> None:
    sample = trace.load("sample")
    assert steps_of(sample, 32, None, 1).count == 64
    with pytest.raises(trace.TraceError, match="requests"):
        steps_of(sample, 100_000, "decode", 1)
    with pytest.raises(ConfigErrors, match="at least one spare slot"):
        diagnose(drawn(EVEN), load_system(SYSTEM), model(MODEL), spare=0)


def test_the_command_writes_a_page_and_its_data(tmp_path: Path) -> None:
    arguments = ["diagnose", "sample", "--hardware", "package-4x4", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "Is the imbalance real? Yes:" in result.output
    assert "traps: none found" in result.output
    data = json.loads((tmp_path / "diagnosis.json").read_text())
    assert data["facts"]["model"] == "own-byte-moe"
    assert np.array(data["placements"]["EPLB"]["pair_bytes"]).shape == (16, 16)
    page = (tmp_path / "diagnosis.html").read_text()
    assert "Bytes from rank to rank" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)


def test_a_shape_that_no_shipped_model_has(tmp_path: Path) -> None:
    made = trace.zipf_markov(layers=2, experts=8, top_k=1, requests=40, positions=10, alpha=0.5, rho=0.3, seed=1)
    trace.save(made, tmp_path / "made.npz")
    result = CliRunner().invoke(main, ["diagnose", str(tmp_path / "made.npz"), "--hardware", "package-4x4"])
    assert result.exit_code == 2
    assert "no shipped model has" in result.output
