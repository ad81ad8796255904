"""DeepSeek's load balancer against its published example, and its promises on drawn loads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.config.errors import ConfigErrors
from cosim.placement.eplb import rebalance_experts

# README of https://github.com/deepseek-ai/EPLB at d52c72d (MIT): 16 replicas, 4 groups, 2 nodes, 8 GPUs
PUBLISHED_LOAD = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
PUBLISHED_PHY2LOG = [
    [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
    [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
]


def test_the_published_example() -> None:
    found = rebalance_experts(PUBLISHED_LOAD, 16, groups=4, nodes=2, gpus=8)
    assert found.phy2log.tolist() == PUBLISHED_PHY2LOG
    assert found.logcnt.sum(axis=1).tolist() == [16, 16]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.randoms(use_true_random=False),
)
def test_what_a_balanced_placement_keeps(layers, nodes, per_node, groups_per_node, extra, random) -> None:
    gpus, groups = nodes * per_node, nodes * groups_per_node
    experts = groups * per_node  # so that every node has whole experts for its GPUs
    replicas = experts + extra * gpus
    load = np.array([[random.randrange(1000) for _ in range(experts)] for _ in range(layers)])
    found = rebalance_experts(load, replicas, groups=groups, nodes=nodes, gpus=gpus)
    for layer in range(layers):
        assert np.array_equal(np.bincount(found.phy2log[layer], minlength=experts), found.logcnt[layer])
        assert (found.logcnt[layer] >= 1).all()
        for expert in range(experts):
            slots = found.log2phy[layer, expert]
            assert sorted(slots[slots >= 0]) == np.flatnonzero(found.phy2log[layer] == expert).tolist()
        # a group stays on one node, with all its replicas
        node_of_slot = np.arange(replicas) // (replicas // nodes)
        group_of_slot = found.phy2log[layer] // (experts // groups)
        for group in range(groups):
            assert len(np.unique(node_of_slot[group_of_slot == group])) == 1


def test_replicas_go_to_the_heaviest_expert_per_replica() -> None:
    found = rebalance_experts([[100, 10, 10, 10]], 6, gpus=2)
    assert found.logcnt.tolist() == [[3, 1, 1, 1]]


def test_groups_that_no_nodes_share_evenly_make_one_node() -> None:
    load = [[8, 7, 6, 5, 4, 3]]
    assert np.array_equal(
        rebalance_experts(load, 8, groups=3, nodes=2, gpus=4).phy2log, rebalance_experts(load, 8, gpus=4).phy2log
    )


def test_sizes_that_do_not_fit_are_all_named() -> None:
    with pytest.raises(ConfigErrors) as error:
        rebalance_experts(np.ones((1, 6)), 5, groups=4, nodes=3, gpus=4)
    text = str(error.value)
    for part in ("each of 6 experts", "a multiple of 4 GPUs", "a divisor of 6 experts", "a divisor of 4 GPUs"):
        assert part in text
    with pytest.raises(ConfigErrors, match="not negative"):
        rebalance_experts([[1.0, float("nan")]], 2, gpus=1)
