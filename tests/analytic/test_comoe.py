"""The physical reading of seed 003 by hand, and the fitted reconstruction against its Table 4."""

from __future__ import annotations

import numpy as np
import pytest
from analytic_line import SMALL, TinyModel, decisions, line_system

from cosim.analytic import CoMoE, CoMoEReconstructed
from cosim.analytic.comoe import TABLE_4

SYSTEM, MODEL = line_system(), TinyModel()


def test_stages_by_hand() -> None:
    got = CoMoE().layer_times(SMALL, SYSTEM, MODEL)
    # Ports carry 20 B/s. Dispatch: 20 B 0 > 1: 0.5 + 20/20. Gather the same back.
    assert got.stages["dispatch"].tolist() == [1.5]
    assert got.stages["gather"].tolist() == [1.5]
    # Weights: 60 B to 1 and 40 B to 0 leave the memory's port: 100/20 = 5 s (bank 1 s, arrivals 3 s);
    # the farther route is two links and the access 0.25: 1.25.
    assert got.stages["memory"].tolist() == [6.25]
    # Chiplet 1: 24 / 10; chiplet 0: 8 / 5.
    assert got.stages["compute"].tolist() == [2.4]
    np.testing.assert_allclose(got.total, [1.5 + 6.25 + 2.4 + 1.5], rtol=1e-12)


def test_overlap_hides_the_shorter_of_load_and_compute() -> None:
    half = CoMoE.with_parameters({"overlap": 0.5}).layer_times(SMALL, SYSTEM, MODEL)
    whole = CoMoE.with_parameters({"overlap": 1.0}).layer_times(SMALL, SYSTEM, MODEL)
    np.testing.assert_allclose(half.total, [1.5 + 6.25 + 1.2 + 1.5], rtol=1e-12)
    np.testing.assert_allclose(whole.total, [1.5 + 6.25 + 1.5], rtol=1e-12)


def test_concurrent_streams_lose_bandwidth_when_a_discount_is_set() -> None:
    got = CoMoE.with_parameters({"stream_discount": 0.5}).layer_times(SMALL, SYSTEM, MODEL)
    # Two streams leave the memory: 5 s * 1.5.
    assert got.stages["memory"].tolist() == [8.75]


def test_efficiencies_scale_their_rates() -> None:
    got = CoMoE.with_parameters(
        {"d2d_efficiency": 0.5, "memory_efficiency": 0.05, "matrix_utilisation": 0.5}
    ).layer_times(SMALL, SYSTEM, MODEL)
    assert got.stages["dispatch"].tolist() == [2.5]
    assert got.stages["memory"].tolist() == [1.25 + 100 / 5]
    assert got.stages["compute"].tolist() == [4.8]


def test_weights_at_home_use_no_port() -> None:
    here = line_system(
        memory_bandwidth_Bps=np.array([0.0, 50.0, 100.0]),
        memory_banks=np.array([0, 1, 2]),
        memory_tier=("", "SRAM", "HBM"),
    )
    got = CoMoE().layer_times(decisions((0, 0, 1, 1, 1, 10, 1, 1, 100)), here, MODEL)
    assert got.stages["memory"].tolist() == [2.0]
    assert got.stages["dispatch"].tolist() == [0.0]


def test_no_fetch_takes_no_memory_time() -> None:
    got = CoMoE().layer_times(decisions((0, 0, 0, 0, 1, 10, 1, -1, 0)), SYSTEM, MODEL)
    assert got.stages["memory"].tolist() == [0.0]


def test_reconstruction_meets_the_four_means_of_table_4() -> None:
    load = np.array([row[2] for row in TABLE_4]) * 1e9
    balance = np.array([row[3] for row in TABLE_4])
    published = np.array([row[1] for row in TABLE_4]) * 1e-3
    np.testing.assert_allclose(CoMoEReconstructed().mean_latency_s(load, balance), published, rtol=1e-3)


def test_reconstruction_constants_are_the_least_squares_fit() -> None:
    rest = np.array([ms - gb / 4.096 for _, ms, gb, _ in TABLE_4])
    weight = 1 / np.array([row[1] for row in TABLE_4])
    design = np.array([[1.0, 1 / balance] for *_, balance in TABLE_4])
    fixed, imbalance = np.linalg.lstsq(design * weight[:, None], rest * weight, rcond=None)[0]
    parameters = CoMoEReconstructed().parameters
    assert parameters.number("rest_fixed") == pytest.approx(fixed * 1e-3, rel=1e-6)
    assert parameters.number("rest_imbalance") == pytest.approx(imbalance * 1e-3, rel=1e-6)


def test_reconstruction_refuses_other_configurations() -> None:
    with pytest.raises(
        ValueError, match="128 token-expert pairs per layer and batch on 8 expert chiplets, got 4 pairs on 2"
    ):
        CoMoEReconstructed().layer_times(SMALL, SYSTEM, MODEL)


def test_reconstruction_on_its_own_configuration() -> None:
    frame = decisions((0, 0, 0, 0, 96, 960, 0, 2, 2_048_000_000), (0, 1, 0, 0, 32, 320, 1, -1, 0))
    got = CoMoEReconstructed().layer_times(frame, SYSTEM, MODEL)
    # 2.048 GB over 8 x 512 GB/s; balance 128/8/96 = 1/6.
    np.testing.assert_allclose(got.stages["memory"], [0.5e-3], rtol=1e-12)
    np.testing.assert_allclose(got.stages["compute"], [0.852355e-3 + 6 * 0.373416e-3], rtol=1e-12)
    np.testing.assert_allclose(got.total, got.stages["memory"] + got.stages["compute"], rtol=1e-12)


def test_fit_is_confined_to_the_reconstruction() -> None:
    fitted = [name for name, p in CoMoEReconstructed().parameters.items() if "least squares" in p.source]
    assert fitted == ["rest_fixed", "rest_imbalance"]
    assert not [name for name, p in CoMoE().parameters.items() if "fit" in p.source]
