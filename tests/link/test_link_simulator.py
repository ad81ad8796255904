"""The link-level simulator by hand, against a plain event loop, and its three topologies."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.link import LinkSimulator, LinkTopology, fat_tree, mesh, torus

MESH = mesh([2, 3], 10**9)
TORUS = torus([4, 4], 10**9)
TREE = fat_tree(endpoint_leaf_Bps=10**9, leaf_aggregation_Bps=2 * 10**9, aggregation_core_Bps=4 * 10**9)


def slow_run(topology: LinkTopology, chunks: int, messages: list[tuple[int, int, int]]) -> list[int]:
    """Algorithm 1 with exact integers: the earliest-ready hop first, a link serves in the order of readiness."""
    free = [0] * topology.links
    events: list[tuple[int, int, int, int, list[int]]] = []
    order = 0
    finish = [0] * len(messages)
    for number, (source, destination, size) in enumerate(messages):
        pieces = min(chunks, size)
        for k in range(pieces):
            part = (k + 1) * size // pieces - k * size // pieces
            heapq.heappush(events, (0, order, number, part, topology.path(source, destination)))
            order += 1
    while events:
        time, place, number, part, path = heapq.heappop(events)
        if not path:
            finish[number] = max(finish[number], time)
            continue
        link = path[0]
        if free[link] > time:  # delayed and queued again in its old place
            heapq.heappush(events, (free[link], place, number, part, path))
            continue
        free[link] = time + -(-part * 10**15 // int(topology.bandwidth_Bps[link]))
        heapq.heappush(events, (free[link], order, number, part, path[1:]))
        order += 1
    return finish


@st.composite
def traffic(draw):
    topology = draw(st.sampled_from([MESH, TORUS, TREE]))
    end = st.integers(0, topology.endpoints - 1)
    return (
        topology,
        draw(st.integers(1, 4)),
        draw(st.lists(st.tuples(end, end, st.integers(1, 50)), min_size=1, max_size=8)),
    )


@given(traffic())
@settings(max_examples=80)
def test_total_time_bounds(case) -> None:
    """No message beats its own path, no run beats its busiest link, and one message alone is exact."""
    topology, chunks, messages = case
    columns = [np.array(column) for column in zip(*messages, strict=True)]
    got = LinkSimulator(topology, chunks).run(*columns)
    load = np.zeros(topology.links)
    for source, destination, size in messages:
        for link in topology.path(source, destination):
            load[link] += size
    busiest = load / topology.bandwidth_Bps * 1e15
    np.testing.assert_allclose(got.link_busy_fs, busiest, atol=len(messages) * chunks)
    assert got.makespan_fs >= busiest.max(initial=0) - 1
    assert got.hop_events == sum(
        min(chunks, size) * len(topology.path(source, destination)) for source, destination, size in messages
    )
    for row, message in enumerate(messages):
        alone = slow_run(topology, chunks, [message])[0]
        assert got.finish_fs[row] >= alone
    first = LinkSimulator(topology, chunks).run(*(column[:1] for column in columns))
    assert abs(first.makespan_fs - slow_run(topology, chunks, messages[:1])[0]) <= 1


@given(traffic())
@settings(max_examples=60)
def test_messages_of_one_pair_agree_with_the_event_loop(case) -> None:
    """On one path the order of service is settled, so both simulators end every message together."""
    topology, chunks, messages = case
    same = [(*messages[0][:2], size) for _, _, size in messages]
    got = LinkSimulator(topology, chunks).run(*(np.array(column) for column in zip(*same, strict=True)))
    assert np.abs(got.finish_fs - slow_run(topology, chunks, same)).max() <= 1


def test_two_messages_share_a_link_by_hand() -> None:
    # 0 > 1 > 3 by dimension order on a 2 x 3 mesh; 1 GB/s; one chunk: 100 B take 100 ns a hop.
    run = LinkSimulator(MESH, chunks=1).run(np.array([0, 0]), np.array([3, 1]), np.array([100, 100]))
    assert np.round(run.finish_fs / 1e6).tolist() == [200, 200]
    assert run.hop_events == 3
    # in 4 chunks the second hop starts after a quarter of the first message
    run = LinkSimulator(MESH, chunks=4).run(np.array([0]), np.array([3]), np.array([100]))
    assert np.round(run.finish_fs / 1e6).tolist() == [125]


def test_a_message_to_itself_takes_no_time_and_no_messages_none() -> None:
    here = LinkSimulator(MESH).run(np.array([2]), np.array([2]), np.array([1000]))
    assert here.hop_events == 0
    assert here.makespan_fs <= 1
    none = LinkSimulator(MESH).run(np.array([], dtype=int), np.array([], dtype=int), np.array([], dtype=int))
    assert (none.makespan_s, none.hop_events) == (0.0, 0)


def test_a_run_is_repeatable() -> None:
    draws = np.random.default_rng(5)
    columns = draws.integers(0, 32, 500), draws.integers(0, 32, 500), draws.integers(1, 10_000, 500)
    first, second = (LinkSimulator(TREE).run(*columns) for _ in range(2))
    assert first.finish_fs.tolist() == second.finish_fs.tolist()


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (([0], [6], [1]), "endpoints from 0 to 5, got 6"),
        (([-1], [0], [1]), "endpoints from 0 to 5, got -1"),
        (([0], [1], [0]), "at least one byte, got 0 B in row 0"),
        (([0, 1], [1], [1]), "as many destinations"),
    ],
)
def test_bad_messages(columns: tuple[list[int], ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LinkSimulator(MESH).run(*(np.array(column) for column in columns))


@pytest.mark.parametrize("topology", [MESH, TORUS, TREE, torus([2, 5], 1), mesh([3, 2, 2], 1)], ids=lambda t: t.name)
def test_routes_are_walks_over_links(topology: LinkTopology) -> None:
    for a in range(topology.endpoints):
        for b in range(topology.endpoints):
            here = int(topology.endpoint_router[a])
            for link in topology.path(a, b):
                assert topology.source[link] == here
                here = int(topology.target[link])
            assert here == topology.endpoint_router[b]


def test_mesh_and_torus_routes_are_minimal_and_dimension_ordered() -> None:
    for shape, make in (([4, 4], torus), ([4, 8], mesh)):
        topology = make(shape, 1)
        for a in range(topology.endpoints):
            for b in range(topology.endpoints):
                steps = []
                for size, x, y in ((shape[0], a % shape[0], b % shape[0]), (shape[1], a // shape[0], b // shape[0])):
                    gap = abs(x - y)
                    steps.append(min(gap, size - gap) if make is torus else gap)
                path = topology.path(a, b)
                assert len(path) == sum(steps)
                first = [abs(int(topology.source[k]) - int(topology.target[k])) for k in path[: steps[0]]]
                assert all(step < shape[0] for step in first)
    assert mesh([4, 8], 1).links == 104
    assert torus([4, 8], 1).links == 128


def test_fat_tree_is_four_pods_of_eight_with_full_bisection() -> None:
    assert (TREE.endpoints, TREE.routers, TREE.links) == (32, 32 + 16 + 8 + 4, 2 * (32 + 32 + 16))
    hops = TREE.hops
    assert hops[0, 1] == 2  # one leaf
    assert hops[0, 7] == 4  # one pod
    assert hops[0, 31] == 6  # over a core
    rates = TREE.bandwidth_Bps[TREE.path(0, 31)]
    assert rates.tolist() == [10**9, 2 * 10**9, 4 * 10**9, 4 * 10**9, 2 * 10**9, 10**9]
    # destinations of a pod spread over both aggregation switches and, from afar, over all cores
    above = {int(TREE.target[TREE.path(0, b)[2]]) for b in range(8, 32)}
    assert above == {56, 57, 58, 59}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: mesh([4, 0], 1), r"mesh.shape\[1\]: expected a whole number of at least 1"),
        (lambda: torus([4, 4], 0), "torus.bandwidth_Bps"),
        (lambda: mesh([], 1), "at least one dimension"),
        (
            lambda: fat_tree(endpoint_leaf_Bps=1, leaf_aggregation_Bps=1, aggregation_core_Bps=1, cores=3),
            "fat_tree.cores: expected cores in equal shares for 2 aggregation switches, got 3",
        ),
        (
            lambda: fat_tree(endpoint_leaf_Bps=1, leaf_aggregation_Bps=0, aggregation_core_Bps=1),
            "fat_tree.leaf_aggregation_Bps",
        ),
    ],
)
def test_bad_topologies(make, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()
