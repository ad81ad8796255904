"""The vectorised models against plain loops over requests, on random decisions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import slow_layer
from analytic_line import PATHS, TinyModel, line_system
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.analytic import AnalyticSystem, CoMoE, HCRMap, LayerTimes
from cosim.analytic.system import Routes

MODEL = TinyModel()


def mesh_system() -> AnalyticSystem:
    """A 2 x 3 mesh of uneven links; chiplets on routers 0 to 3, memories on 4 and 5 (and one beside chiplet 0)."""

    def hops(here: int, there: int) -> list[tuple[int, int]]:
        steps = []
        while here != there:
            along = here % 2 != there % 2
            ahead = there % 2 - here % 2 if along else 2 * (1 if there // 2 > here // 2 else -1)
            steps.append((here, here + ahead))
            here += ahead
        return steps

    neighbours = [(a, b) for a in range(6) for b in range(6) if abs(a - b) == 2 or (a // 2 == b // 2 and a != b)]
    number = {hop: index for index, hop in enumerate(neighbours)}
    routers = [0, 1, 2, 3, 4, 5, 0]
    paths = [[number[hop] for hop in hops(a, b)] for a in routers for b in routers]
    count = len(number)
    return AnalyticSystem(
        link_bandwidth_Bps=5.0 + np.arange(count) % 3,
        link_latency_s=0.25 + 0.125 * (np.arange(count) % 2),
        link_is_d2d=np.arange(count) % 2 == 0,
        routes=Routes.from_paths(len(routers), paths),
        port_bandwidth_Bps=np.array([9.0, 8.0, 7.0, 6.0, 20.0, 30.0, 10.0]),
        compute_flops=np.array([20.0, 30.0, 10.0, 40.0, 0.0, 0.0, 0.0]),
        compute_efficiency=np.array([0.5, 0.75, 1.0, 0.25, 1.0, 1.0, 1.0]),
        memory_bandwidth_Bps=np.array([0.0, 0.0, 0.0, 0.0, 12.0, 50.0, 25.0]),
        memory_latency_s=np.array([0.0, 0.0, 0.0, 0.0, 0.5, 0.125, 0.0625]),
        memory_banks=np.array([0, 0, 0, 0, 2, 3, 1]),
        memory_tier=("", "", "", "", "dram", "hbm", "sram"),
    )


SYSTEMS = {"line": (line_system(), [0, 1], [2]), "mesh": (mesh_system(), [0, 1, 2, 3], [4, 5, 6])}


@st.composite
def random_decisions(draw: st.DrawFn, chiplets: list[int], memories: list[int]) -> pd.DataFrame:
    rows = []
    for seed, batch in draw(st.sets(st.tuples(st.integers(1, 2), st.integers(0, 2)), min_size=1, max_size=3)):
        fetch = {}
        for _ in range(draw(st.integers(1, 8))):
            chiplet, expert = draw(st.sampled_from(chiplets)), draw(st.integers(0, 3))
            if (chiplet, expert) not in fetch:
                resident = draw(st.booleans())
                node = -1 if resident else draw(st.sampled_from(memories))
                fetch[chiplet, expert] = (node, 0 if resident else draw(st.integers(1, 200)))
            node, fetched = fetch[chiplet, expert]
            source, target = draw(st.sampled_from(chiplets)), draw(st.sampled_from(chiplets))
            tokens = draw(st.integers(1, 9))
            rows.append((seed, batch, 0, expert, source, target, tokens, tokens * 4, chiplet, node, fetched))
    names = [
        "seed",
        "batch",
        "layer",
        "expert",
        "source",
        "aggregator",
        "tokens",
        "bytes",
        "chiplet",
        "memory_node",
        "fetch_bytes",
    ]
    return pd.DataFrame(rows, columns=names, dtype=np.int64)


def figures(times: LayerTimes, position: int) -> dict[str, float]:
    every = {**times.stages, **times.other, "total": times.total}
    return {name: float(values[position]) for name, values in every.items()}


@pytest.mark.parametrize("name", list(SYSTEMS))
@settings(max_examples=60)
@given(data=st.data())
def test_models_agree_with_plain_loops(name: str, data: st.DataObject) -> None:
    system, chiplets, memories = SYSTEMS[name]
    decisions = data.draw(random_decisions(chiplets, memories))
    fast = HCRMap().layer_times(decisions, system, MODEL)
    slowest = HCRMap.with_parameters({"layer_time": "eq14"}).layer_times(decisions, system, MODEL)
    physical = CoMoE().layer_times(decisions, system, MODEL)
    for position, (seed, batch) in enumerate(fast.units.to_numpy()):
        rows = decisions[(decisions["seed"] == seed) & (decisions["batch"] == batch)]
        expected = slow_layer.hcrmap(rows, system, MODEL)
        assert slowest.total[position] == pytest.approx(expected.pop("eq14"))
        got = figures(fast, position)
        assert {key: got[key] for key in expected} == pytest.approx(expected, abs=1e-12)
        expected = slow_layer.comoe(rows, system, MODEL)
        got = figures(physical, position)
        assert {key: got[key] for key in expected} == pytest.approx(expected, abs=1e-12)


def test_the_line_of_these_tests_is_the_one_of_the_others() -> None:
    system = line_system()
    assert [slow_layer.links(system, a, b) for a in range(3) for b in range(3)] == PATHS
