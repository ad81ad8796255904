"""Fractional placements, activations, families and transfers: rules, by hand, and by property."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cosim_adapters.hdmoe_placement import read_placement
from cosim_adapters.hdmoe_results import read_results
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.link import mesh
from cosim.placement.activation import activation
from cosim.placement.families import compute_balanced, expert_parallel, tensor_parallel
from cosim.placement.shares import ExpertShares
from cosim.placement.traffic import layer_transfers


def shares(*rows: list[float], layers: int = 1) -> np.ndarray:
    return np.broadcast_to(np.array(rows, dtype=float), (layers, len(rows), len(rows[0]))).copy()


def test_rows_must_sum_to_one() -> None:
    bad = shares([0.5, 0.5], [0.5, 0.25], layers=3)
    bad[0, 1] = [1, 0]
    with pytest.raises(ValueError, match="sum to 1") as caught:
        ExpertShares(bad, source="p.npz")
    assert str(caught.value).splitlines() == [
        "p.npz: layer 1, expert 1: expected shares over the nodes that sum to 1, got 0.75",
        "p.npz: layer 2, expert 1: expected shares over the nodes that sum to 1, got 0.75",
    ]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (shares([1.5, -0.5]), "layer 0, expert 0, node 1: expected a share of at least 0, got -0.5"),
        (shares([np.nan, 1.0]), "layer 0: expected finite shares, got NaN or infinity"),
        (np.zeros((0, 2, 2)), r"shares \[layer, expert, node\]"),
        (np.ones((2, 2)), r"shares \[layer, expert, node\]"),
    ],
)
def test_bad_shares(values: np.ndarray, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ExpertShares(values)


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        ([[0, 1], [1, 1]], "layer 1, mapping: expected a permutation of 2 nodes, got endpoint 1 for nodes 0, 1"),
        ([[0, 1], [0, 2]], "layer 1, mapping: expected a permutation of 2 nodes, got endpoint 2 outside 0 to 1"),
        ([[0, 1]], "mapping: expected an endpoint for each of 2 nodes in each of 2 layers"),
    ],
)
def test_a_mapping_is_a_permutation(mapping: list[list[int]], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ExpertShares(shares([0.5, 0.5], layers=2), np.array(mapping))


def test_physical_moves_columns() -> None:
    placed = ExpertShares(shares([1.0, 0.0, 0.0], [0.0, 0.25, 0.75]), np.array([[2, 0, 1]]))
    assert placed.physical().shares[0].tolist() == [[0, 0, 1], [0.25, 0.75, 0]]
    assert placed.replica_factor == 1.5


def npz(path: Path, p: np.ndarray, grid: np.ndarray) -> Path:
    np.savez(path, P=p.astype(np.float32), mapping=grid.astype(np.int8))
    return path


def grid_of(cells: list[int], rows: int, columns: int) -> np.ndarray:
    grid = np.zeros((len(cells), rows * columns))
    for node, cell in enumerate(cells):
        if cell >= 0:
            grid[node, cell] = 1
    return grid.reshape(len(cells), rows, columns)


def test_a_published_map_becomes_endpoints(tmp_path: Path) -> None:
    # cell (row, column) of a 2 x 3 grid is endpoint row + 2 column
    grid = np.stack([grid_of([5, 4, 3, 2, 1, 0], 2, 3)])
    read = read_placement(npz(tmp_path / "p.npz", np.full((1, 2, 6), 1 / 6), grid))
    assert read.mapping is not None
    assert read.mapping.tolist() == [[5, 3, 1, 4, 2, 0]]
    assert read_placement(tmp_path / "p.npz", mapping=False).mapping is None


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([0, -1, -1, 3], "layer 1, mapping: expected a place for every node, got all zero for 2 of 4 nodes: 1, 2"),
        ([0, 1, 1, 3], "layer 1, mapping: expected a permutation of 4 nodes, got endpoint 2 for nodes 1, 2"),
    ],
)
def test_a_bad_published_map_names_its_layer(tmp_path: Path, cells: list[int], text: str) -> None:
    grid = np.stack([grid_of([0, 1, 2, 3], 2, 2), grid_of(cells, 2, 2)])
    with pytest.raises(ValueError, match=text):
        read_placement(npz(tmp_path / "p.npz", np.full((2, 2, 4), 0.25), grid))


def test_a_file_without_its_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", shares=np.ones((1, 1, 1)))
    with pytest.raises(ValueError, match="expected the arrays P and mapping, got shares"):
        read_placement(tmp_path / "p.npz")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "expected a JSON list of results"),
        ("{}", "expected a JSON list of results, got dict"),
        ('[{"config": {}}]', "entry 0: expected config and methods .*KeyError"),
        (
            '[{"config": {"mesh_shape": [4, 8], "model": "ds", "dataset": "x", "comp_TFLOPS": 1, "BW_GBPS": 1}}]',
            "no known method",
        ),
    ],
)
def test_bad_result_files(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ValueError, match=error):
        read_results(tmp_path / "r.json")


def test_activation_by_hand() -> None:
    found = activation(np.array([[0, 1], [1, 0], [2, -1], [0, 2], [1, 0]]), 4)
    assert found.expert.tolist() == [0.8, 0.6, 0.4, 0.0]
    assert found.groups.tolist() == [[0, 1], [-1, 2], [0, 2]]
    assert found.group.tolist() == [0.6, 0.2, 0.2]
    assert found.covering(0.6).groups.tolist() == [[0, 1]]
    assert found.covering(0.61).coverage == pytest.approx(0.8)
    assert found.covering(1.0).coverage == pytest.approx(1.0)
    with pytest.raises(ValueError, match="coverage"):
        found.covering(0.0)
    with pytest.raises(ValueError, match="expert ids from 0 to 2"):
        activation(np.array([[3]]), 3)
    with pytest.raises(ValueError, match="routed tokens"):
        activation(np.zeros((0, 2), dtype=int), 3)


@given(st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=40)
def test_expert_parallel_is_even(experts: int, nodes: int) -> None:
    p = expert_parallel(1, experts, nodes).shares[0]
    used = (p > 0).sum(axis=1)
    assert used.max() - used.min() <= 1
    held = (p > 0).sum(axis=0)
    assert held.max() - held.min() <= 1
    assert held.min() >= 1


def test_tensor_parallel_spreads_over_all_nodes() -> None:
    assert tensor_parallel(2, 3, 4).shares.tolist() == np.full((2, 3, 4), 0.25).tolist()


def brute_force(load: list[float], groups: int) -> float:
    best = [sum(load)]

    def place(expert: int, total: list[float]) -> None:
        if expert == len(load):
            best[0] = min(best[0], max(total))
            return
        for group in range(groups):
            place(expert + 1, [t + load[expert] * (g == group) for g, t in enumerate(total)])

    place(0, [0.0] * groups)
    return best[0]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=7), st.integers(2, 3))
@settings(max_examples=40)
def test_compute_balanced_stays_near_the_optimum(counts: list[int], groups: int) -> None:
    ids = np.repeat(np.arange(len(counts)), counts)[:, None]
    found = compute_balanced([activation(ids, len(counts))], 6, groups)
    load = np.array(counts) @ found.shares[0]
    assert load.max() * (6 // groups) <= brute_force([float(c) for c in counts], groups) * 4 / 3 + 1e-9
    assert set(np.unique(found.shares)) <= {0.0, groups / 6}


def test_compute_balanced_needs_groups_of_equal_size() -> None:
    found = activation(np.array([[0]]), 1)
    with pytest.raises(ValueError, match="groups of equal size from 6 nodes, got 4 groups"):
        compute_balanced([found], 6, 4)


def test_transfers_go_to_the_best_aggregator() -> None:
    # experts 0, 1, 2 at the ends and the middle of a line of three
    hosted = np.eye(3, dtype=bool)
    hops = mesh([3, 1], 1).hops
    sent = layer_transfers(hosted, np.array([[0, 1, 2], [0, -1, -1]]), np.array([10.4, 7.0]), np.arange(3), hops)
    assert (sent.source.tolist(), sent.destination.tolist(), sent.size_bytes.tolist()) == ([0, 2], [1, 1], [10, 10])


def test_transfers_of_the_published_code_go_to_a_first_node() -> None:
    hosted = np.array([[False, True, True], [True, False, False]])
    ends = set()
    for seed in range(20):
        sent = layer_transfers(
            hosted,
            np.array([[0, 1]]),
            np.array([5.0]),
            np.array([2, 0, 1]),
            mesh([3, 1], 1).hops,
            aggregator="first_of_random_expert",
            draws=np.random.default_rng(seed),
        )
        assert len(sent.source) == 2
        ends.add(int(sent.destination[0]))
    assert ends == {0, 2}  # logical nodes 1 and 0


@pytest.mark.parametrize(("rule", "draws"), [("bets", None), ("best", 1), ("first_of_random_expert", None)])
def test_bad_aggregators(rule: str, draws: int | None) -> None:
    generator = None if draws is None else np.random.default_rng(draws)
    with pytest.raises(ValueError, match="aggregator"):
        layer_transfers(
            np.ones((1, 1), dtype=bool),
            np.array([[0]]),
            np.array([1.0]),
            np.array([0]),
            np.zeros((1, 1), dtype=np.int64),
            aggregator=rule,
            draws=generator,
        )
