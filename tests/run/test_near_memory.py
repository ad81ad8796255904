"""Memory stacked with compute: a path of its own, exact to the cycle; rules of docs/coupling.md.

Shorthand of tests/run/test_micro_suite.py: a fetch seen at 1 is granted at 2 and at the memory at 3, ACT at 4, RD k at
19 + 4k, its last beat at 35 + 4k. Bursts then take the path one by one; the compute node sees them at its next edge.
"""

from __future__ import annotations

from typing import Any

import pytest
from small_system import NS, Bench, line

from cosim.config.errors import ConfigErrors
from cosim.policy.placement import nearest_memory
from cosim.run.machine import build_machine
from cosim.system.loading import load_system

BURST = 32
TILE = 256
MEMORY, STACKED, EXPERT = 0, 1, 2


def hardware(near: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A line of four routers; at router 0 a memory and the compute endpoint that is stacked with it."""
    found = line(**changes)
    path = {"on": "memory", "bandwidth": "64 GB/s", "latency": "2 ns", **(near or {})}
    found["endpoints"]["stacked"] = {**found["endpoints"]["expert"], "at": {"package": [0]}, "near_memory": path}
    return found


def bench(rung: str = "flit", near: dict[str, Any] | None = None, **changes: Any) -> Bench:
    return Bench(build_machine(load_system(hardware(near, **changes)), rung))


def test_a_burst_takes_the_path() -> None:
    one = bench()
    task = one.used_fetch(MEMORY, STACKED, BURST)
    one.run()
    # last beat 35, 0.5 ns on the path, 2 ns behind it: 37.5, seen at 38
    assert one.end_ns(task) == 38
    assert one.machine.near_memory_bytes() == BURST
    assert one.machine.flit_statistics(0)["flit_hops"] == 0


def test_bursts_do_not_wait_for_a_packet() -> None:
    one = bench()
    task = one.used_fetch(MEMORY, STACKED, TILE)
    one.run()
    # eight bursts, the last one's last beat at 63, then as above; over the network it would be 81
    assert one.end_ns(task) == 66


def test_a_slow_path_holds_the_banks_back() -> None:
    one = bench(near={"bandwidth": "4 GB/s"}, expert={"tile": "1 KiB"}, node={"read_return_slots": 8})
    task = one.used_fetch(MEMORY, STACKED, 1024)
    one.run()
    # 8 ns a burst from 35 on, 32 of them, and 2 ns: 293, seen strictly after
    assert one.end_ns(task) == 294
    assert one.machine.near_memory_bytes() == 1024


@pytest.mark.parametrize("network", ["link", "flit+rate"])
def test_a_memory_that_is_a_rate_takes_the_same_path(network: str) -> None:
    one = bench(network)
    task = one.used_fetch(MEMORY, STACKED, TILE)
    one.run()
    channel = one.machine.channels[MEMORY]
    latency_ns = -(-channel.idle_read_latency_s * 10**15 // 1) / NS
    read_ns = 3 + TILE / 32 + latency_ns  # 32 GB/s: two pseudo-channels of 8 B at 2 Gb/s
    arrived_ns = read_ns + TILE / 64 + 2
    assert one.end_ns(task) == int(arrived_ns) + 1


def test_other_readers_and_copies_use_the_network() -> None:
    one = bench(memories=(0, 3))
    near, far = one.used_fetch(MEMORY, STACKED, TILE), one.used_fetch(MEMORY, EXPERT, TILE)
    last = len(one.machine.system.endpoints) - 1
    one.copy(MEMORY, last, TILE, to_address=4096)
    one.run()
    assert one.end_ns(near) < one.end_ns(far)
    assert one.machine.near_memory_bytes() == TILE
    assert one.machine.link_bytes() == TILE * (1 + 3)  # one hop to the expert, three to the other memory


def test_a_revoked_prefetch_gives_everything_back() -> None:
    one = bench(near={"bandwidth": "4 GB/s"}, expert={"tile": "1 KiB"})
    one.fetch(MEMORY, STACKED, 1024, prefetch=1)
    first = one.submit()
    one.revoke(STACKED, first)
    one.submit(100 * NS)
    one.run()  # checks conservation
    moved = one.machine.near_memory_bytes()
    assert 0 < moved < 1024
    assert one.machine.compute_statistics(STACKED)["wasted_bytes"] == moved


def test_interrupted_and_resumed_is_the_same() -> None:
    def state(cut: bool) -> bytes:
        one = bench(near={"bandwidth": "4 GB/s"}, expert={"tile": "1 KiB"})
        one.used_fetch(MEMORY, STACKED, 1024)
        one.delay(60 * NS)
        one.add(one_decision(), after=[2], key=7)
        one.submit()
        assert one.machine.engine.run()[0] == "decision"
        if cut:
            saved = one.machine.engine.save()
            one = bench(near={"bandwidth": "4 GB/s"}, expert={"tile": "1 KiB"})
            one.machine.engine.load(saved)
        one.run()
        return bytes(one.machine.engine.save())

    assert state(True) == state(False)


def one_decision() -> Any:
    from cosim._core import TaskKind

    return TaskKind.decision


def test_a_stacked_memory_is_home() -> None:
    system = load_system(hardware(memories=(0, 3)))
    assert system.near_memories == {STACKED: MEMORY}
    held = {MEMORY: 100}
    assert nearest_memory(system, system.routes, held, STACKED) == MEMORY


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"on": "memroy"}, "memory"),
        ({"on": "expert"}, "an endpoint with memory"),
        ({"at": [0, 1]}, "a memory at every router of 'stacked'"),
        ({"twice": True}, "a memory of its own"),
        ({"bandwidth": "0 GB/s"}, "bandwidth"),
    ],
)
def test_what_cannot_be_stacked_is_refused(change: dict[str, Any], expected: str) -> None:
    near = {key: value for key, value in change.items() if key in ("on", "bandwidth")}
    found = hardware(near)
    stacked = found["endpoints"]["stacked"]
    if "at" in change:
        stacked["at"] = {"package": change["at"]}
    if "twice" in change:
        found["endpoints"]["again"] = dict(stacked)
    with pytest.raises(ConfigErrors, match=expected) as caught:
        load_system(found)
    assert "near_memory" in str(caught.value)


def test_a_memory_cannot_be_stacked_with_a_memory() -> None:
    found = hardware()
    found["endpoints"]["memory"]["near_memory"] = found["endpoints"]["stacked"]["near_memory"]
    with pytest.raises(ConfigErrors, match="without 'compute'"):
        load_system(found)


def test_the_path_carries_what_the_ports_cannot() -> None:
    found = hardware()
    memory = found["endpoints"]["memory"]
    memory["memory"]["channels"] = 4  # 128 GB/s behind one port of 64 GB/s
    memory.pop("allow_bottleneck")
    with pytest.raises(ConfigErrors, match="allow_bottleneck"):
        load_system(found)
    found["endpoints"]["stacked"]["near_memory"]["bandwidth"] = "128 GB/s"
    assert load_system(found).near_memories
