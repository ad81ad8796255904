"""Grouping and mapping of 3D-MoE and the groups of Mozart, against brute force over all answers of tiny cases."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.placement.expert_mapping import co_activation, map_experts, offset_scores, pair_weights
from cosim.placement.group_costs import Collaboration, GroupObjectives, group_objectives, max_over_mean
from cosim.placement.group_program import GroupProgram
from cosim.placement.grouping import GroupingOptions, group_experts, history_grouping, improved
from cosim.placement.mozart import co_activation_groups, farthest_point_clusters, similarity
from cosim.placement.step_clusters import cluster_steps

Array = Any


def draw(seed: int, steps: int, experts: int, top: int = 9) -> Array:
    return np.random.default_rng(seed).integers(0, top, (steps, experts)).astype(np.int64)


def splits(experts: int, groups: int) -> list[Array]:
    """Every grouping into equal groups, once: the smallest expert left over opens the next group."""
    size = experts // groups

    def rest(left: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        if not left:
            return [[]]
        found = []
        for others in combinations(left[1:], size - 1):
            group = (left[0], *others)
            found += [[group, *tail] for tail in rest(tuple(e for e in left if e not in group))]
        return found

    result = []
    for parts in rest(tuple(range(experts))):
        shares = np.zeros((experts, groups))
        for number, part in enumerate(parts):
            shares[list(part), number] = 1
        result.append(shares)
    return result


def slow_objectives(
    loads: Array, shares: Array, slots: int, collaboration: Collaboration
) -> tuple[float, float, float]:
    """The three sums as the paper writes them, in plain loops."""
    work_range = collaboration_range = collaboration_sum = 0.0
    for load in loads:
        work, cost = [], []
        for group in range(shares.shape[1]):
            members = np.flatnonzero(shares[:, group])
            served = [shares[e, group] * load[e] for e in members]
            work.append(sum(served))
            if collaboration == "excess":
                cost.append(sum(max(0.0, s - sum(served) / slots) for s in served))
            else:
                mean = sum(load) / len(load)
                cost.append(sum(shares[e, group] * max(0.0, load[e] - mean) for e in members))
        work_range += max(work) - min(work)
        collaboration_range += max(cost) - min(cost)
        collaboration_sum += sum(cost)
    return work_range, collaboration_range, collaboration_sum


def as_tuple(value: GroupObjectives) -> tuple[float, float, float]:
    return value.work_range, value.collaboration_range, value.collaboration


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(["excess", "overload"]))
def test_objectives_against_plain_loops(seed: int, collaboration: Collaboration) -> None:
    loads = draw(seed, 5, 6)
    shares = np.random.default_rng(seed).random((6, 3))
    shares /= shares.sum(axis=1, keepdims=True)
    found = group_objectives(loads.astype(float), np.ones(5, dtype=np.int64), shares, 6, collaboration)
    assert as_tuple(found) == pytest.approx(slow_objectives(loads, shares, 6, collaboration))


@pytest.mark.parametrize("collaboration", ["excess", "overload"])
@pytest.mark.parametrize("seed", [1, 2])
def test_program_finds_the_lexicographic_optimum(seed: int, collaboration: Collaboration) -> None:
    """Few loads, so that several groupings share the best range of work and the later stages decide."""
    loads = draw(seed, 3, 6, top=4)
    values = [slow_objectives(loads, shares, 3, collaboration) for shares in splits(6, 2)]
    best: tuple[float, ...] = ()
    for stage in range(3):
        program = GroupProgram(
            loads.astype(float), np.ones(3, dtype=np.int64), 2, 3, collaboration=collaboration, stage=stage
        )
        answer = program.solve(gap=0.0, node_limit=5000, reached=best)
        assert answer.report.status == "optimal within the gap"
        assert answer.shares is not None
        assert set(np.unique(answer.shares)) == {0.0, 1.0}
        assert (answer.shares.sum(axis=0) == 3).all()
        best = min(value[: stage + 1] for value in values if value[:stage] == pytest.approx(best, abs=1e-4))
        assert answer.report.value == pytest.approx(best[stage], abs=1e-4)
        mine = slow_objectives(loads, answer.shares, 3, collaboration)
        assert mine[: stage + 1] == pytest.approx(best, abs=1e-4)


def test_program_with_room_for_copies_splits_the_load() -> None:
    """One expert has all the load: without copies the range is that load, with them it is zero."""
    loads = np.array([[12.0, 0, 0, 0]])
    one = np.ones(1, dtype=np.int64)
    alone = GroupProgram(loads, one, 2, 2).solve(gap=0.0, node_limit=100)
    shared = GroupProgram(loads, one, 2, 3).solve(gap=0.0, node_limit=100)
    assert alone.report.value == pytest.approx(12)
    assert shared.report.value == pytest.approx(0, abs=1e-6)
    assert shared.shares is not None
    assert shared.shares[0].tolist() == pytest.approx([0.5, 0.5])
    assert shared.shares.sum(axis=1).tolist() == pytest.approx([1] * 4)


def test_a_small_case_reaches_the_optimum_and_says_how() -> None:
    loads = draw(7, 6, 8)
    lines: list[str] = []
    options = GroupingOptions(clusters=6, gap=0.0, node_limit=2000, objectives=1)
    found = group_experts(loads, 2, 4, options, report=lines.append)
    best = min(slow_objectives(loads, shares, 4, "excess")[0] for shares in splits(8, 2))
    assert found.report.value.work_range == best
    assert lines[0].startswith("stage 1: 28 variables (16 binary)")
    assert "optimal within the gap, gap 0.00%" in lines[1]
    assert "clustering moves 0.0% of the load" in str(found.report)
    assert np.bincount(found.group).tolist() == [4, 4]


def test_swaps_never_worsen_and_later_objectives_keep_the_earlier() -> None:
    loads = draw(3, 40, 16).astype(float)
    start = history_grouping(loads.sum(axis=0).astype(np.int64), 4)
    weight = np.ones(40, dtype=np.int64)

    def cost(group: Array) -> tuple[float, float, float]:
        return as_tuple(group_objectives(loads, weight, np.eye(4)[group], 4))

    first, swaps = improved(loads, start, 4, 4, GroupingOptions(objectives=1))
    every, more = improved(loads, start, 4, 4, GroupingOptions(objectives=3))
    assert swaps > 0
    assert more >= swaps
    assert cost(first)[0] < cost(start)[0]
    assert cost(every)[0] <= cost(first)[0]
    for a in range(16):  # no single swap is left that helps the first objective
        for b in range(a + 1, 16):
            swapped = first.copy()
            swapped[a], swapped[b] = first[b], first[a]
            assert cost(swapped)[0] >= cost(first)[0] - 1e-6


def test_programs_too_large_are_left_to_swaps() -> None:
    loads = draw(4, 30, 16)
    lines: list[str] = []
    found = group_experts(loads, 4, 4, GroupingOptions(most_binaries=10), report=lines.append)
    assert "not solved, more than 10 binaries" in lines[0]
    assert found.report.stages == ()
    assert found.report.value.work_range < found.report.contiguous.work_range
    again = group_experts(loads, 4, 4, GroupingOptions(most_binaries=10))
    assert np.array_equal(found.shares, again.shares)


def test_bad_groups_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigErrors) as caught:
        group_experts(draw(1, 4, 12), 5, 3, GroupingOptions(gap=2.0, collaboration="exces"))  # type: ignore[arg-type]
    text = str(caught.value)
    assert "a divisor of 12 experts" in text
    assert "4 divides them" in text
    assert "a relative gap" in text
    assert "'excess'" in text
    with pytest.raises(ConfigErrors, match="room for 4 to 12 experts"):
        group_experts(draw(1, 4, 12), 3, 2)
    with pytest.raises(ConfigErrors, match="swaps do not move copies"):
        group_experts(draw(1, 4, 12), 3, 5, GroupingOptions(most_binaries=0))


def test_clusters_of_steps() -> None:
    loads = np.array([[4, 0], [4, 0], [0, 4], [1, 3], [0, 4]])
    exact = cluster_steps(loads, 9)
    assert exact.loss == 0
    assert exact.weight.tolist() == [1] * 5
    two = cluster_steps(loads, 2)
    assert sorted(two.weight.tolist()) == [2, 3]
    assert int(two.weight @ two.loads.sum(axis=1)) == loads.sum()
    # the three late steps have the mean (1/3, 11/3): they differ by 2/3, 4/3 and 2/3 tokens in either column
    assert two.loss == pytest.approx((1 / 3 + 2 / 3 + 1 / 3) / 20)


def test_max_over_mean_leaves_idle_steps_out() -> None:
    shares = np.eye(2)[[0, 0, 1, 1]]
    assert max_over_mean(np.array([[3.0, 1, 0, 0], [0, 0, 0, 0]]), shares).tolist() == [2.0]


def test_offset_scores_and_affinity_against_plain_loops() -> None:
    loads = draw(2, 7, 5)
    scores = offset_scores(loads)
    ids = np.random.default_rng(1).permuted(np.tile(np.arange(5), (40, 1)), axis=1)[:, :2]
    ids[3, 1] = -1
    affinity = co_activation(ids, 5)
    for a in range(5):
        for b in range(5):
            mean = loads.mean(axis=1)
            x, y = loads[:, a] - mean, loads[:, b] - mean
            slow = sum(min(abs(p), abs(q)) for p, q in zip(x, y, strict=True) if p * q < 0)
            assert scores[a, b] == pytest.approx(slow)
            both = sum(a in row and b in row for row in ids.tolist()) if a != b else 0
            assert affinity[a, b] == pytest.approx(both / 40)


def test_lambda_route() -> None:
    scores, affinity = np.array([[0, 6.0], [6, 0]]), np.array([[0, 0.5], [0.5, 0]])
    group = np.array([0, 0])
    assert pair_weights(scores, affinity, group, 10).pairs[0, 1] == 6 + 10 * 0.5
    assert pair_weights(scores, affinity, group, 10, "balanced").pairs[0, 1] == 12
    assert pair_weights(scores, affinity, group, 10, 2.0).pairs[0, 1] == 7
    assert pair_weights(scores, affinity, np.array([0, 1]), 10, 0.0).pairs[0, 1] == 0
    with pytest.raises(ConfigErrors, match="lambda_route"):
        pair_weights(scores, affinity, group, 10, "even")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mapping_against_all_mappings(seed: int) -> None:
    """Two groups of three experts on two rows of three cores: swaps find the best of all, the bound is below it."""
    generator = np.random.default_rng(seed)
    weights = generator.integers(0, 9, (6, 6)).astype(float)
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    distance = np.array(
        [[abs(a % 3 - b % 3) + 2 * abs(a // 3 - b // 3) for b in range(6)] for a in range(6)], dtype=float
    )
    group, stack = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 0, 0, 1, 1, 1])
    best = min(
        sum(weights[a, b] * distance[core[a], core[b]] for a in range(6) for b in range(a))
        for core in permutations(range(6))
        if all(len({stack[core[e]] for e in range(6) if group[e] == g}) == 1 for g in (0, 1))
    )
    found = map_experts(weights, distance, group, stack, most_experts=1, restarts=8)
    assert found.cost == pytest.approx(best)
    assert found.bound <= best + 1e-9
    assert sorted(found.core.tolist()) == list(range(6))
    assert all(len(set(stack[found.core[group == g]])) == 1 for g in (0, 1))


def test_mapping_with_several_experts_a_core() -> None:
    weights = np.zeros((4, 4))
    weights[0, 3] = weights[3, 0] = 5
    distance = np.array([[0.0, 1], [1, 0]])
    found = map_experts(weights, distance, np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64), most_experts=2)
    assert found.cost == 0
    assert found.core[0] == found.core[3]
    assert np.bincount(found.core).tolist() == [2, 2]
    with pytest.raises(ConfigErrors, match="2 experts a core would do"):
        map_experts(weights, distance, np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64), most_experts=1)
    with pytest.raises(ConfigErrors, match="as many stacks as groups"):
        map_experts(weights, distance, np.array([0, 0, 1, 1]), np.zeros(2, dtype=np.int64), most_experts=2)


def test_farthest_points_open_clusters_and_friends_join() -> None:
    """Pairs (0, 1), (2, 3), (4, 5) are picked together: they end in one cluster each."""
    pairs = np.zeros((6, 6))
    for a, b in ((0, 1), (2, 3), (4, 5)):
        pairs[a, b] = pairs[b, a] = 10
    load = np.array([12, 11, 14, 10, 10, 10])
    near = similarity(pairs, load)
    assert near[0, 1] == pytest.approx(10 / 13)
    cluster = farthest_point_clusters(near, load, 3)
    assert cluster[0] == cluster[1]
    assert cluster[2] == cluster[3]
    assert cluster[4] == cluster[5]
    assert np.bincount(cluster).tolist() == [2, 2, 2]
    with pytest.raises(ConfigErrors, match="a divisor of 6"):
        farthest_point_clusters(near, load, 4)


def test_clusters_go_to_groups_of_least_largest_load() -> None:
    generator = np.random.default_rng(4)
    load = generator.integers(1, 50, 12)
    pairs = np.zeros((12, 12))
    found = co_activation_groups(pairs, load, 2, clusters_per_group=3)
    weight = np.bincount(found.cluster, weights=load)
    best = min(
        max(weight[list(half)].sum(), weight.sum() - weight[list(half)].sum()) for half in combinations(range(6), 3)
    )
    assert found.fullest == best
    assert found.status == "optimal within the gap"
    assert np.bincount(found.group).tolist() == [6, 6]
