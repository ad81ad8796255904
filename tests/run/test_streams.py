"""Streams to several endpoints: one read of a tile for all, whatever carries it; exact where worked by hand.

Shorthand of tests/run/test_micro_suite.py: a stream seen at 1 is granted at 2 and at the memory at 3, ACT at 4, RD k at
19 + 4k, its last beat at 35 + 4k; a packet of eight bursts (four flits) is committed at 63 and seen at 64.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_system import NS, Bench, line

from cosim._core import TaskKind
from cosim.config.errors import ConfigErrors
from cosim.run.machine import build_machine
from cosim.system.loading import load_system

TILE = 256
MEMORY = 0
CLASSES = {
    "token": {"vcs": [0], "priority": 2, "waits_for": ["weight"]},
    "weight": {"vcs": [1], "priority": 1},
    "prefetch": {"vcs": [2]},
}
WAYS: dict[str, dict[str, Any] | None] = {
    "unicast": None,
    "multicast": {"vcs": [3]},
    "session": {"session": {"setup_cycles": 3, "teardown_cycles": 2, "segment_delay": 1}},
}
# a level that has both; a stream's class says which
BOTH = {"vcs": [3], "session": {"setup_cycles": 3, "teardown_cycles": 2, "segment_delay": 1}}


def hardware(way: str, stacked: bool = False, both: bool = False, **changes: Any) -> dict[str, Any]:
    """A line of routers with the memory at router 0, and with `stacked` a compute endpoint on top of it."""
    broadcast = BOTH if both else WAYS[way]
    classes = dict(CLASSES) if broadcast is None else {**CLASSES, "broadcast": broadcast}
    found = line(level={"message_classes": classes, **changes.pop("level", {})}, **changes)
    if stacked:
        path = {"on": "memory", "bandwidth": "64 GB/s", "latency": "2 ns"}
        found["endpoints"]["stacked"] = {**found["endpoints"]["expert"], "at": {"package": [0]}, "near_memory": path}
    return found


def bench(way: str, rung: str = "flit", stacked: bool = False, **changes: Any) -> Bench:
    return Bench(build_machine(load_system(hardware(way, stacked, **changes)), rung))


def class_of(one: Bench, way: str, unicast: str = "weight") -> int:
    return one.machine.classes[unicast if way == "unicast" else way]


def stream(
    one: Bench, endpoints: list[int], size: int, cycles: int = 10, after: tuple[int, ...] = (), way: str | None = None
) -> list[int]:
    """A stream from the memory to `endpoints` and their jobs; returns their numbers, the stream's first.

    `way`: that in which it travels; the level's own if not given.
    """
    group = one.machine.group(endpoints)
    weights = class_of(one, way or next((w for w in WAYS if w in one.machine.classes), "unicast"))
    first = one.add(
        TaskKind.stream, source=one.node(MEMORY), bytes=size, group=group, message_class=weights, after=after
    )
    jobs = [one.add(TaskKind.compute, destination=one.node(e), cycles=cycles, stream=first) for e in endpoints]
    return [first, *jobs]


def read_bytes(one: Bench) -> int:
    return int(one.machine.memory_statistics(MEMORY)["read_bytes"])


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("rung", ["flit", "flit+rate", "link", "link+command"])
def test_bytes_read_do_not_depend_on_the_number_of_helpers(way: str, rung: str) -> None:
    for helpers in (1, 2, 4, 6):
        one = bench(way, rung, stacked=True, routers=8)
        stacked = len(one.machine.system.endpoints) - 1
        tasks = stream(one, [stacked, *range(1, 1 + helpers)], 8 * TILE, way=way)
        record = one.run()[tasks[0]]
        assert read_bytes(one) == 8 * TILE
        assert record["moved_bytes"] == 8 * TILE * (1 + helpers)
        assert one.machine.near_memory_bytes() == 8 * TILE
        one.machine.check_conservation()


def test_a_stream_of_one_tile_by_every_way_by_hand() -> None:
    """To the endpoints at routers 1 and 3: two routers and one link, four routers and three links away."""
    ends = {}
    for way, both in [(way, both) for way in WAYS for both in (False, True)]:
        one = bench(way, both=both)
        tasks = stream(one, [1, 3], TILE, way=way)
        one.run()
        found = [one.end_ns(task) for task in tasks[1:]]
        assert one.end_ns(tasks[0]) == max(found) - 10
        assert read_bytes(one) == TILE
        assert ends.setdefault(way, found) == found  # the same in a level that has both ways
    # multicast: both as a lone packet, read at 64 + 4H + 2(H - 1) + 3 + 3, seen one later, ten cycles of work
    assert ends["multicast"] == [64 + 8 + 2 + 6 + 1 + 10, 64 + 16 + 6 + 6 + 1 + 10]
    # session: asked at 64, three cycles of set-up, read at 67 + H + 2(H - 1) + 3 + 3
    assert ends["session"] == [67 + 2 + 2 + 6 + 1 + 10, 67 + 4 + 6 + 6 + 1 + 10]
    # unicasts: the second leaves four cycles behind the first; a VC serves a packet every n + R + V cycles: two more
    assert ends["unicast"] == [64 + 8 + 2 + 6 + 1 + 10, 68 + 2 + 16 + 6 + 6 + 1 + 10]


def test_a_tile_is_read_when_the_last_node_has_room() -> None:
    """The second endpoint's buffer of four tiles is full of a fetch whose job takes long; the stream waits for it."""
    one = bench("multicast", memories=(0, 3))
    busy = one.fetch(3, 2, 4 * TILE)
    one.compute(2, 4000, stream=busy)
    tasks = stream(one, [1, 2], TILE)
    one.run()
    assert one.end_ns(busy) < 250
    # a tile's room is free when its part of 1,000 cycles ends
    assert 1000 < one.end_ns(tasks[0]) < 1300


@pytest.mark.parametrize("way", list(WAYS))
def test_a_transfer_to_a_group_reaches_all_of_it_once(way: str) -> None:
    one = bench(way)
    used = class_of(one, way, "token")
    group = one.machine.group([1, 2, 3])
    task = one.add(TaskKind.transfer, source=one.node(MEMORY), bytes=1000, group=group, message_class=used)
    one.run()
    # 1,000 B are four packets, the last of 232 B, of four flits each; their VC serves one every n + R + V = 6 cycles
    if way == "multicast":
        assert one.end_ns(task) == 1 + 3 * 6 + 16 + 6 + 3 + 3
    one.machine.check_conservation()
    sums = one.machine.flit_statistics(0)["classes"][used]
    assert sums["payload_bytes"] == 3000
    assert sums["packets"] == 12


def test_waits_for_sessions_are_a_term_of_their_own() -> None:
    one = bench("session", routers=6)
    stream(one, [1, 2, 3, 4, 5], 16 * TILE)
    for _ in range(40):
        one.transfer(1, 5, 256)
    one.run()
    figures = one.machine.figures()
    assert figures["session_wait_token_cycles"] > 0
    assert figures["session_wait_session_cycles"] > 0
    for name in ("token", "session"):
        terms = ("source_queueing", "router", "link", "serialisation", "contention", "session_wait")
        assert sum(figures[f"{term}_{name}_cycles"] for term in terms) == figures[f"latency_{name}_cycles"]
    assert figures["session_flit_hops"] == 64 * 10
    one.machine.check_conservation()


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 1 << 32), rung=st.sampled_from(["flit", "link+command"]))
def test_random_streams_fetches_and_transfers_end_and_are_conserved(seed: int, rung: str) -> None:
    """Streams of every way in one system; bytes read do not depend on who gets them."""
    draw = random.Random(seed)
    one = bench("", rung, stacked=True, both=True, routers=5, expert={"expert_buffer": "512 B"})
    stacked = len(one.machine.system.endpoints) - 1
    endpoints = [1, 2, 3, 4, stacked]
    expected = 0
    for _ in range(12):
        kind = draw.choice(["stream", "stream", "fetch", "transfer"])
        size = TILE * draw.randint(1, 5)
        if kind == "stream":
            members = sorted(draw.sample(endpoints, draw.randint(1, 5)))
            stream(one, members, size, draw.randint(1, 300), way=draw.choice(list(WAYS)))
            expected += size
        elif kind == "fetch":
            one.used_fetch(MEMORY, draw.choice(endpoints), size)
            expected += size
        else:
            one.transfer(draw.choice(endpoints), draw.choice(endpoints), size)
    one.run()
    assert read_bytes(one) == expected
    one.machine.check_conservation()


def test_a_saved_run_continues_to_the_same_bytes() -> None:
    first = bench("session", stacked=True)
    stacked = len(first.machine.system.endpoints) - 1
    stream(first, [1, 2, stacked], 6 * TILE, 200)
    stream(first, [2, 3], 4 * TILE, 100)
    first.add(TaskKind.decision, after=(first.delay(150 * NS),))
    first.submit()
    assert first.machine.engine.run()[0] == "decision"
    state = first.machine.engine.save()
    second = bench("session", stacked=True)
    second.machine.engine.load(state)
    assert second.machine.engine.save() == state
    records = [one.run() for one in (first, second)]
    assert records[0] == records[1]
    assert len(records[0]) == 9
    assert first.machine.engine.save() == second.machine.engine.save()


def test_what_does_not_fit_is_refused() -> None:
    one = bench("multicast")
    with pytest.raises(ValueError, match="compute endpoints"):
        one.machine.group([MEMORY, 1])
    with pytest.raises(ValueError, match="twice"):
        one.machine.group([1, 1])
    group = one.machine.group([1, 2])
    one.add(TaskKind.stream, source=one.node(MEMORY), bytes=TILE, group=group)
    one.add(TaskKind.compute, destination=one.node(1), cycles=1, stream=0)
    with pytest.raises(ValueError, match="expected one on each of the 2 nodes of its group"):
        one.run()
    for level, says in (
        ({"routing": "min_adaptive", "num_vcs": 7}, "one way per router and destination"),
        ({"max_packet_flits": 16}, "at most 8, the smallest VC"),
    ):
        with pytest.raises(ConfigErrors, match=says):
            load_system(hardware("multicast", level=level))
    broadcast = {"session": {"max_waiting": 1}}
    with pytest.raises(ConfigErrors, match="sessions of a system wait"):
        load_system(line(level={"message_classes": {**CLASSES, "broadcast": broadcast}}))
    with pytest.raises(ConfigErrors, match="VCs that 'weight' does not use"):
        load_system(line(level={"message_classes": {**CLASSES, "broadcast": {"vcs": [1]}}}))


def test_times_of_a_stream_do_not_depend_on_the_order_of_nodes() -> None:
    found = []
    for turned in (False, True):
        one = bench("session", stacked=True)
        stacked = len(one.machine.system.endpoints) - 1
        tasks = [*stream(one, [1, 2, stacked], 6 * TILE, 200), *stream(one, [2, 3], 4 * TILE, 100)]
        if turned:
            one.machine.engine.set_order(list(reversed(range(one.machine.engine.nodes))))
        records = one.run()
        found.append([records[task]["end_fs"] for task in tasks])
    assert found[0] == found[1]
    assert all(end % NS == 0 for end in found[0])
