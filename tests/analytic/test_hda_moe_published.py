"""Equations and link simulator of seed 002 against the result files that its authors published.

Provenance of every figure: tests/reference/hda_moe/README.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cosim_adapters.hdmoe_placement import read_placement
from cosim_adapters.hdmoe_results import read_results

from cosim.analytic.hda_moe_equations import compute_time_s, expert_operations, node_traffic_time_s
from cosim.link import LinkSimulator, mesh
from cosim.placement.activation import Activation, activation
from cosim.placement.families import expert_parallel, tensor_parallel
from cosim.placement.node_balance import NodeCosts, node_balance
from cosim.placement.shares import ExpertShares
from cosim.placement.traffic import communication, layer_transfers

pytestmark = pytest.mark.public_traces

#: MoE layers, hidden, expert width, experts per token. The Qwen2 rows use the dense width 18944 and are left out.
DIMENSIONS = {"ds": (26, 2048, 1408, 6), "mixtral": (32, 4096, 14336, 2)}
FILES = ("result_e2e", "result2_e2e", "result3_e2e", "result_ablation")
MIXTRAL_LAYERS, MIXTRAL_HIDDEN = 32, 4096
POINTS = {"10.0_TFLOPS_25.0": 25e9, "5.0_TFLOPS_50.0": 50e9}

Find = Callable[[str], Path]


@pytest.fixture(scope="module")
def results(public_trace: Find) -> pd.DataFrame:
    """Rows of the two models that can be used; the ablation file states no batch and was made with 128."""
    parts = [read_results(public_trace(f"hdmoe_golden_results/{name}.json")).assign(file=name) for name in FILES]
    frame = pd.concat(parts, ignore_index=True)
    frame["batch"] = frame["batch"].fillna(128).astype(int)
    return frame[frame["model"].isin(DIMENSIONS)]


@pytest.fixture(scope="module")
def ids(public_trace: Find) -> np.ndarray:
    with np.load(public_trace("hdmoe_mixtral8x7b_mtbench/mixtral8x7b_mtbench_topk.npz")) as file:
        return np.asarray(file["reasoning"]).astype(np.int64)


@pytest.fixture(scope="module")
def recorded(ids: np.ndarray) -> list[Activation]:
    return [activation(ids[:, layer], 8) for layer in range(MIXTRAL_LAYERS)]


@pytest.fixture(scope="module")
def placed(public_trace: Find) -> Callable[..., ExpertShares]:
    def find(kind: str, point: str, **options: bool) -> ExpertShares:
        return read_placement(public_trace(f"hdmoe_placements/mixtral_{kind}_{point}_GBPS_for_4x8.npz"), **options)

    return find


def test_every_usable_row_of_tensor_parallelism(results: pd.DataFrame) -> None:
    rows = results[results["method"] == "TP"]
    assert len(rows) == 131
    errors = {"communication": [], "computation": []}
    for row in rows.to_dict("records"):
        layers, hidden, width, top_k = DIMENSIONS[row["model"]]
        everywhere = tensor_parallel(1, 1, row["nodes"]).shares[0]
        picks = np.array([float(row["batch"] * top_k)])
        operations = expert_operations(hidden, width, "2hI")
        compute = layers * float(compute_time_s(everywhere, picks, operations, row["rate_FLOPps"]))
        touched = np.full(row["nodes"], float(row["batch"]))
        traffic = layers * 2 * node_traffic_time_s(touched, hidden, 4, row["bandwidth_Bps"])
        # the files print hundredths of a microsecond
        errors["communication"].append(
            max(0, abs(traffic * 1e6 - row["communication_us"]) - 0.005000001) / traffic / 1e6
        )
        errors["computation"].append(max(0, abs(compute * 1e6 - row["computation_us"]) - 0.005000001) / compute / 1e6)
    assert max(errors["communication"]) == 0
    assert max(errors["computation"]) < 4e-4


def mean_imbalance(placement: ExpertShares, recorded: list[Activation]) -> float:
    """Eq. 1 over a perfectly balanced node, mean over layers."""
    values = [
        float(compute_time_s(placement.shares[layer], layer_of.expert, 1.0, 1.0))
        / (layer_of.expert.sum() / placement.nodes)
        for layer, layer_of in enumerate(recorded)
    ]
    return float(np.mean(values))


def ratio_of(results: pd.DataFrame, method: str, point: str) -> np.ndarray:
    rows = results[
        (results["model"] == "mixtral") & (results["bandwidth_Bps"] == POINTS[point]) & (results["rows"] == 4)
    ]
    rows = rows[rows["columns"] == 8]
    wide = rows.pivot_table(index=["file", "batch"], columns="method", values="computation_us")
    return (wide[method] / wide["TP"]).to_numpy()


def test_expert_parallel_compute_from_the_recording(results: pd.DataFrame, recorded: list[Activation]) -> None:
    found = mean_imbalance(expert_parallel(MIXTRAL_LAYERS, 8, 32), recorded)
    assert found == pytest.approx(1.3916, abs=5e-5)
    for point in POINTS:
        np.testing.assert_allclose(ratio_of(results, "EP", point), found, rtol=4e-4)


@pytest.mark.parametrize(
    ("kind", "method", "point", "derived"),
    [
        ("node_link", "node_link_balancing", "10.0_TFLOPS_25.0", 1.0768),
        ("node_link", "node_link_balancing", "5.0_TFLOPS_50.0", 1.0110),
        ("comp_only", "compute_balancing", "10.0_TFLOPS_25.0", 1.0253),
        ("comp_only", "compute_balancing", "5.0_TFLOPS_50.0", 1.0236),
    ],
)
def test_compute_of_the_published_placements(
    results: pd.DataFrame,
    recorded: list[Activation],
    placed: Callable[..., ExpertShares],
    kind: str,
    method: str,
    point: str,
    derived: float,
) -> None:
    found = mean_imbalance(placed(kind, point, mapping=kind == "node_link"), recorded)
    assert found == pytest.approx(derived, abs=5e-5)
    np.testing.assert_allclose(ratio_of(results, method, point), found, rtol=4e-4)


def communication_us(
    placement: ExpertShares, batch: list[Activation], tokens: int, bandwidth: float, draws: np.random.Generator
) -> float:
    """Scatter and gather of all layers as the published code counts them: one byte an element, one chunk a message."""
    topology = mesh([4, 8], int(bandwidth))
    simulator = LinkSimulator(topology, chunks=1)
    total = 0
    for layer, found in enumerate(batch):
        transfers = layer_transfers(
            placement.hosted[layer],
            found.groups,
            found.group * tokens * MIXTRAL_HIDDEN,
            placement.node_of(layer),
            topology.hops,
            aggregator="first_of_random_expert",
            draws=draws,
        )
        total += 2 * communication(simulator, transfers).makespan_fs
    return total * 1e-9


BATCHES = 50


@pytest.fixture(scope="module")
def repeated(ids: np.ndarray, placed: Callable[..., ExpertShares]) -> dict[tuple[str, str], np.ndarray]:
    """Communication of 50 seeded batches of 128 recorded tokens at 25 GB/s; time goes with tokens over bandwidth."""
    found: dict[tuple[str, str], list[float]] = {}
    homes = expert_parallel(MIXTRAL_LAYERS, 8, 32)
    tuned = {point: placed("node_link", point) for point in POINTS}
    for seed in range(BATCHES):
        draws = np.random.default_rng(seed)
        rows = draws.choice(len(ids), 128, replace=False)
        batch = [activation(ids[rows, layer], 8) for layer in range(MIXTRAL_LAYERS)]
        scattered = homes.mapped(np.stack([draws.permutation(32) for _ in range(MIXTRAL_LAYERS)]))
        found.setdefault(("EP", ""), []).append(communication_us(scattered, batch, 128, 25e9, draws))
        for point, placement in tuned.items():
            value = communication_us(placement, batch, 128, 25e9, draws)
            found.setdefault(("node_link_balancing", point), []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def published_us(results: pd.DataFrame, method: str, bandwidth: float) -> np.ndarray:
    """Communication on the 4 x 8 mesh, scaled to 128 tokens and 25 GB/s."""
    rows = results[
        (results["model"] == "mixtral")
        & (results["method"] == method)
        & (results["rows"] == 4)
        & (results["columns"] == 8)
        & (results["bandwidth_Bps"] == bandwidth)
    ]
    return (rows["communication_us"] * 128 / rows["batch"] * rows["bandwidth_Bps"] / 25e9).to_numpy()


def test_communication_of_expert_parallelism_rerun(
    results: pd.DataFrame, repeated: dict[tuple[str, str], np.ndarray]
) -> None:
    published = np.concatenate([published_us(results, "EP", bandwidth) for bandwidth in (25e9, 50e9, 75e9)])
    assert len(published) >= 30
    assert repeated["EP", ""].mean() == pytest.approx(published.mean(), rel=0.10)


@pytest.mark.parametrize("point", POINTS)
def test_communication_of_node_and_link_balance_rerun(
    results: pd.DataFrame, repeated: dict[tuple[str, str], np.ndarray], point: str
) -> None:
    published = published_us(results, "node_link_balancing", POINTS[point])
    assert len(published) >= 8
    assert repeated["node_link_balancing", point].mean() == pytest.approx(published.mean(), rel=0.10)


def test_the_bias_of_sampled_batches_has_its_reason(
    ids: np.ndarray,
    recorded: list[Activation],
    repeated: dict[tuple[str, str], np.ndarray],
    placed: Callable[..., ExpertShares],
    results: pd.DataFrame,
) -> None:
    """The published rows scale the whole recording to B tokens; a drawn batch is less even, so its hottest link ends
    later. With the recording's own frequencies the mean comes nearer to the published one."""
    homes, smooth = expert_parallel(MIXTRAL_LAYERS, 8, 32), []
    for seed in range(10):
        draws = np.random.default_rng(seed)
        scattered = homes.mapped(np.stack([draws.permutation(32) for _ in range(MIXTRAL_LAYERS)]))
        smooth.append(communication_us(scattered, recorded, 128, 25e9, draws))
    published = np.concatenate([published_us(results, "EP", bandwidth) for bandwidth in (25e9, 50e9, 75e9)]).mean()
    assert np.mean(smooth) < repeated["EP", ""].mean()
    assert abs(np.mean(smooth) - published) < abs(repeated["EP", ""].mean() - published)


def test_the_other_term_differs_between_files(results: pd.DataFrame) -> None:
    """Latency less communication less computation: equal for all methods of a row, unequal between files."""
    with_batch = results[results["file"] != "result_ablation"]
    spread = with_batch.groupby(["file", "row"])["other_us"].agg(lambda x: x.max() - x.min())
    # four rows of 8 tokens keep one latency for all methods but EP
    assert int((spread > 0.1).sum()) <= 4
    ablation = results[(results["file"] == "result_ablation")]
    assert ablation["other_us"].abs().max() < 0.02
    one = with_batch[
        (with_batch["method"] == "TP")
        & (with_batch["model"] == "ds")
        & (with_batch["rows"] == 4)
        & (with_batch["columns"] == 4)
        & (with_batch["batch"] == 16)
    ]
    by_file = one.set_index("file")["other_us"].round(1).to_dict()
    assert by_file == {"result_e2e": 154.4, "result2_e2e": 1287.3, "result3_e2e": 1287.3}


def test_published_maps_of_the_compute_only_baseline_are_refused(public_trace: Find) -> None:
    with pytest.raises(
        ValueError, match=r"layer 0, mapping: expected a place for every node, got all zero for 30 of 32"
    ):
        read_placement(public_trace("hdmoe_placements/mixtral_comp_only_5.0_TFLOPS_50.0_GBPS_for_4x8.npz"))


@pytest.mark.parametrize(("point", "rate"), [("10.0_TFLOPS_25.0", 10e12), ("5.0_TFLOPS_50.0", 5e12)])
def test_node_balance_reaches_the_authors_objective(
    recorded: list[Activation], placed: Callable[..., ExpertShares], point: str, rate: float
) -> None:
    """On their recording and set-up, summed over four layers, ours is below theirs, and by less than a tenth."""
    theirs = ours = 0.0
    placement = placed("node_link", point)
    for layer in (0, 4, 8, 12):
        costs = NodeCosts(
            compute_s=128 * expert_operations(MIXTRAL_HIDDEN, 14336, "2hI") / rate,
            traffic_s=128 * MIXTRAL_HIDDEN * 4 / POINTS[point],
            gamma=1.2,
            passes=2.0,
            weight_bytes=3 * MIXTRAL_HIDDEN * 14336 * 2,
        )
        theirs += costs.layer_s(placement.shares[layer], placement.hosted[layer], recorded[layer])
        ours += node_balance(recorded[layer], 32, costs).report.objective_s
    assert 0.9 * theirs < ours <= theirs


@pytest.mark.parametrize(("name", "gain"), [("result_dynamic", 1.02), ("result2_dynamic", 1.03)])
def test_dynamic_scheduling_gains_least_on_the_data_that_was_placed_for(
    public_trace: Find, name: str, gain: float
) -> None:
    """DeepSeek-V2-Lite, 512 tokens, placed on `reasoning`, judged on five data sets: other data gain more."""
    rows = json.loads(public_trace(f"hdmoe_golden_results/{name}.json").read_text())
    gains = {row["config"]["sample"]: row["dynamic_deployment"]["speedup"] for row in rows}
    assert {row["config"]["dataset"] for row in rows} == {"reasoning"}
    assert {row["config"]["batch"] for row in rows} == {512}
    assert gains.pop("reasoning") == gain
    assert min(gains.values()) >= gain + 0.03
