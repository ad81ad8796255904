"""Equations 5 to 18 of seed 000 on a line of three endpoints, against hand-computed figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analytic_line import SMALL, TinyModel, decisions, line_system
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.analytic import HCRMap, LayerTimes
from cosim.analytic.groups import layer_groups, link_load
from cosim.analytic.hcrmap import _split_cores

SYSTEM, MODEL = line_system(), TinyModel()


def times(frame: pd.DataFrame, **parameters: object) -> LayerTimes:
    return HCRMap.with_parameters(parameters).layer_times(frame, SYSTEM, MODEL)


def test_eq5_link_load_adds_the_bytes_of_every_request_on_the_link() -> None:
    groups = layer_groups(SMALL, SYSTEM)
    load = link_load(SYSTEM, 1, groups.unit, groups.dispatch_pair, groups.bytes.astype(float))
    # Only the first group crosses a link (0 > 1); the others are at home.
    assert load.tolist() == [[20.0, 0.0, 0.0, 0.0]]


def test_eq7_route_time_pays_latency_and_serialisation_on_every_link() -> None:
    # One group 0 -> 2's neighbour is not needed: dispatch 0 > 1 costs 0.5 + 20/10.
    got = times(decisions((0, 0, 0, 1, 1, 20, 1, -1, 0)))
    assert got.stages["dispatch"].tolist() == [2.5]
    # Weights 2 -> 0 cross links 3 and 1: 2 * (0.5 + 40/10) = 9 s; cut-through pays 40/10 once: 5 s.
    frame = decisions((0, 0, 0, 0, 1, 10, 0, 2, 40))
    assert times(frame).stages["memory"].tolist() == [9.0]
    assert times(frame, route="cut_through").stages["memory"].tolist() == [5.0]


def test_eq8_network_time_is_the_larger_of_link_load_and_route() -> None:
    got = times(SMALL)
    # Loads: 0>1 20 B dispatch; 1>0 20 B gather of group 1 and 40 B weights of expert 1; 2>1 100 B weights.
    # max load/B = 100/10 = 10 s; longest route: 40 B over two links 2 * (0.5 + 4) = 9 s.
    assert got.other["net"].tolist() == [10.0]


def test_eq10_bank_time_is_latency_plus_traffic_over_bandwidth() -> None:
    # 100 B striped over the whole memory: 0.25 + 100/100.
    assert times(SMALL).other["bank"].tolist() == [1.25]
    # One bank each (50 B/s): expert 0 in bank 0 (60 B), expert 1 in bank 1 (40 B): 0.25 + 60/50.
    assert times(SMALL, striping="bank").other["bank"].tolist() == [1.45]


def test_eq12_memory_time_is_the_largest_of_bank_link_and_route() -> None:
    # Link 2>1 carries 100 B: 10 s, above the bank's 1.25 s and the route's 9 s.
    assert times(SMALL).stages["memory"].tolist() == [10.0]
    # A slow memory, 2 B/s: 0.25 + 100/2 exceeds the link.
    slow = line_system(memory_bandwidth_Bps=np.array([0.0, 0.0, 2.0]))
    assert HCRMap().layer_times(SMALL, slow, MODEL).stages["memory"].tolist() == [50.25]


def test_eq13_compute_time_is_operations_over_sustained_rate() -> None:
    # Expert 0 on chiplet 1: 3 tokens * 8 MAC / 10 MAC/s = 2.4; expert 1 on chiplet 0: 8 / 5 = 1.6.
    got = times(SMALL)
    assert got.stages["compute"].tolist() == [2.4]
    assert got.stages["queue"].tolist() == [0.0]


def test_serial_replicas_of_one_chiplet_queue() -> None:
    frame = decisions((0, 0, 1, 1, 3, 10, 1, -1, 0), (0, 1, 1, 1, 1, 10, 1, -1, 0))
    got = times(frame)
    # 2.4 s and 0.8 s one after the other: the longest is 2.4, the chiplet is busy 3.2.
    assert got.stages["compute"].tolist() == [2.4]
    np.testing.assert_allclose(got.stages["queue"], [0.8], rtol=1e-12)


def test_eq4_split_gives_whole_cores_side_by_side() -> None:
    frame = decisions((0, 0, 1, 1, 3, 10, 1, -1, 0), (0, 1, 1, 1, 1, 10, 1, -1, 0))
    got = times(frame, cores="split", N_core=4)
    # 3 + 1 of 4 cores: 24 MAC / 7.5 MAC/s = 3.2 and 8 / 2.5 = 3.2; nothing waits.
    np.testing.assert_allclose(got.stages["compute"], [3.2], rtol=1e-12)
    assert got.stages["queue"].tolist() == [0.0]
    with pytest.raises(ValueError, match="2 active replicas on one chiplet with 1 cores"):
        times(frame, cores="split", N_core=1)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=4),
    st.integers(4, 9),
)
def test_eq4_split_minimises_the_slowest_replica(work: list[int], cores: int) -> None:
    ops = np.array(work, dtype=float)
    share = _split_cores(ops, np.zeros(len(ops), dtype=np.int64), cores)
    assert share.min() >= 1
    assert share.sum() == cores

    def best(rest: tuple[int, ...], left: int) -> float:
        if len(rest) == 1:
            return rest[0] / left
        return min(max(rest[0] / k, best(rest[1:], left - k)) for k in range(1, left - len(rest) + 2))

    assert (ops / share).max() == pytest.approx(best(tuple(work), cores))


def test_eq15_overlaps_compute_and_memory() -> None:
    got = times(SMALL, T_gate=0.125, T_combine=0.25)
    # Gather of group 1, 1 > 0: 0.5 + 20/10 = 2.5. Total 0.125 + 2.5 + 0 + max(2.4, 10) + 2.5 + 0.25.
    assert got.stages["gather"].tolist() == [2.5]
    assert got.total.tolist() == [15.375]


def test_eq14_adds_all_stages_of_the_slowest_group() -> None:
    got = times(SMALL, layer_time="eq14")
    # Group 1: dispatch 2.5 + memory max(0.25 + 1, 100/10, 0.5 + 6) = 10 + compute 2.4 + gather 2.5 = 17.4.
    # Group 3: 0 + memory 10 (its path crosses the loaded link 2>1) + 1.6 + 0 = 11.6.
    np.testing.assert_allclose(got.total, [17.4], rtol=1e-12)
    assert {name: values.tolist() for name, values in got.stages.items()} == {
        "gate": [0.0],
        "dispatch": [2.5],
        "queue": [0.0],
        "memory": [10.0],
        "compute": [2.4],
        "gather": [2.5],
        "combine": [0.0],
    }


def test_eq8_reading_replaces_dispatch_and_gather_by_the_network_time() -> None:
    got = times(SMALL, communication="eq8")
    assert got.stages["dispatch"].tolist() == [10.0]
    assert got.stages["gather"].tolist() == [0.0]
    assert got.total.tolist() == [20.0]


def test_weight_requests_per_group_read_the_expert_for_every_group() -> None:
    # Expert 0 has two groups: 2 * 60 + 40 = 160 B over link 2>1.
    assert times(SMALL, weight_requests="per_group").stages["memory"].tolist() == [16.0]
    # Bank: 0.25 + 160/100.
    assert times(SMALL, weight_requests="per_group").other["bank"].tolist() == [1.85]


def test_eq17_energy_terms() -> None:
    got = times(SMALL, epsilon_MAC=2.0, epsilon_NoC=0.5, epsilon_D2D=3.0, epsilon_HBM=0.1, E_gate=7.0).energy_J
    # 4 tokens * 8 MAC; on-die links 20 + (20 + 40) B; die-to-die link 2>1 100 B; 100 B from HBM; 3 groups.
    assert {name: values.tolist() for name, values in got.items()} == {
        "comp": [64.0],
        "noc": [40.0],
        "d2d": [300.0],
        "sram": [0.0],
        "hbm": [10.0],
        "dram": [0.0],
        "mig": [0.0],
        "gate": [21.0],
    }


def test_table1_energies_are_the_defaults() -> None:
    parameters = HCRMap().parameters
    assert parameters.number("epsilon_SRAM") == 1.25e-12
    assert parameters.number("epsilon_HBM") == 31.8e-12
    assert parameters.number("epsilon_DRAM") == 160e-12


def test_units_are_independent() -> None:
    second = SMALL.assign(batch=np.int64(1), tokens=SMALL["tokens"] * 2)
    both = pd.concat([second, SMALL], ignore_index=True)
    got = times(both)
    assert got.units["batch"].tolist() == [0, 1]
    alone = times(SMALL)
    for name, values in alone.stages.items():
        assert got.stages[name][0] == values[0]
    assert got.stages["compute"].tolist() == [2.4, 4.8]


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(len(SMALL))))
def test_row_order_does_not_matter(order: list[int]) -> None:
    shuffled = SMALL.iloc[order].reset_index(drop=True)
    for layer_time in ("eq14", "eq15"):
        a, b = times(SMALL, layer_time=layer_time), times(shuffled, layer_time=layer_time)
        assert a.total.tolist() == b.total.tolist()
        assert {k: v.tolist() for k, v in a.stages.items()} == {k: v.tolist() for k, v in b.stages.items()}


def test_every_parameter_has_a_source_and_assumptions_are_marked() -> None:
    for parameter in HCRMap().parameters.values():
        assert parameter.source
        assert parameter.meaning
    assumed = {name for name, parameter in HCRMap().parameters.items() if parameter.assumed}
    assert {"epsilon_MAC", "epsilon_D2D", "cores", "weight_requests"} <= assumed
    assert not assumed & {"epsilon_HBM", "layer_time", "N_core"}


def test_unknown_tier_has_no_energy() -> None:
    odd = line_system(memory_tier=("", "", "optical"))
    with pytest.raises(ValueError, match=r"access energy for \(sram, hbm, dram\), got 'optical'"):
        HCRMap().layer_times(SMALL, odd, MODEL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chiplet": 9}, r"chiplet \[9\] outside 0 .. 2"),
        ({"chiplet": 2}, r"chiplet \[2\] cannot compute"),
        ({"memory_node": -1}, "weights come from nowhere"),
        ({"memory_node": 1}, r"memory_node \[1\] holds no memory"),
        ({"tokens": 0}, "tokens must be at least 1"),
    ],
)
def test_bad_decisions_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        times(SMALL.assign(**{name: np.int64(value) for name, value in change.items()}))


def test_groups_of_one_replica_must_agree_about_the_fetch() -> None:
    frame = SMALL.copy()
    frame.loc[1, "fetch_bytes"] = 61
    with pytest.raises(ValueError, match="disagree about fetch_bytes"):
        times(frame)


def test_missing_column_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="column 'chiplet' is missing; found 'chiplets'"):
        times(SMALL.rename(columns={"chiplet": "chiplets"}))
