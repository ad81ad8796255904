"""Coupled runs small enough for pencil and paper, exact to the cycle.

The rules that every answer follows from (docs/coupling.md):

- The task graph has no clock: a task is ready at the instant its last predecessor is done. Everything else sees a value
  at its first clock edge strictly after the instant at which it was committed. All times below are edges in ns.
- Network: a lone packet created at cycle c is read at c + H(R+V+S+X) + (H-1)L + 3 + (flits - 1) for H routers visited;
  here R+V+S+X = 4 and L = 2. A message becomes packets at the cycle at which the network sees it.
- A compute node that sees a fetch at edge n grants its tiles as the buffer has room: committed at edge n + G, the grant
  latency (1 where nothing else is said).
- Memory: the commands of tick m are decided on what was known before it; requests accepted, return slots freed and
  streams called off at m count from m + 1 on. HBM2 at 2 Gb/s: ACT is two CK long, so RD is 14 + 1 CK behind it; the
  last beat is 14 + 2 CK behind RD; RDs to one bank are 4 CK apart. ACTs share one row bus, RDs one column bus, oldest
  first.
- A packet of bursts is committed at the last beat of its last burst. A tile is there when its bytes have been seen.

Shorthand: T(H, f) = 4H + 2(H-1) + 3 + f - 1, so T(2, 1) = 13, T(2, 4) = 16, T(3, 4) = 22.
"""

from __future__ import annotations

import pytest
from small_system import NS, Bench

BURST = 32
PACKET = 256  # 8 bursts, 4 flits: one tile
ROW = 1024


def network_cycles(hops: int, flits: int) -> int:
    return 4 * hops + 2 * (hops - 1) + 3 + flits - 1


# ---- one of each


def test_one_transfer() -> None:
    bench = Bench.of()
    task = bench.transfer(1, 3, 100)
    record = bench.run()[task]
    # seen at 1; H = 3, 2 flits: 1 + T(3, 2) = 1 + 12 + 4 + 3 + 1
    assert record["ready_fs"] == record["start_fs"] == 0
    assert record["end_fs"] == 21 * NS == (1 + network_cycles(3, 2)) * NS


def test_one_transfer_over_reserved_links() -> None:
    bench = Bench.of("link")
    task = bench.transfer(1, 3, 100)
    # seen 1 fs later; 20 chunks of 5 B take 5 / 64 ns = 78,125 fs a hop: 20 over the first link, the last once more
    assert bench.run()[task]["end_fs"] == 1 + 21 * 78_125


def test_a_transfer_to_itself() -> None:
    bench = Bench.of()
    task = bench.transfer(1, 1, 64)
    assert bench.run()[task]["end_fs"] == (1 + network_cycles(1, 1)) * NS


def test_a_fetch_of_one_burst() -> None:
    bench = Bench.of()
    task = bench.used_fetch(0, 1, BURST)
    record = bench.run()[task]
    # seen 1, granted 2, memory 3, ACT 4, RD 19, last beat 35, network 36, read 36 + T(2, 1) = 49, compute 50
    assert record["start_fs"] == 1 * NS
    assert record["end_fs"] == 50 * NS
    assert record["moved_bytes"] == BURST


def test_a_fetch_of_one_packet() -> None:
    bench = Bench.of()
    task = bench.used_fetch(0, 1, PACKET)
    bench.run()
    # memory 3, ACT 4, RD 19 23 ... 47, last beat 63, network 64, read 64 + T(2, 4) = 80, compute 81
    assert bench.end_ns(task) == 81


def test_a_fetch_of_one_tile_of_four_packets() -> None:
    bench = Bench.of(expert={"tile": "1 KiB"})
    task = bench.used_fetch(0, 1, ROW)
    bench.run()
    # RD k at 19 + 4k; the fourth packet is complete with k = 31: last beat 159, network 160, read 176, compute 177
    assert bench.end_ns(task) == 177


def test_a_fetch_of_four_tiles() -> None:
    bench = Bench.of()
    fetch = bench.fetch(0, 1, ROW)
    job = bench.compute(1, 4 * 10, stream=fetch)
    bench.run()
    record = bench.records[job]
    # One row again, but now a packet is a tile: they arrive at 81, 113, 145 and 177. The job runs 10 cycles on each
    # and waits 22 between them.
    assert bench.end_ns(fetch) == 177
    assert record["ready_fs"] == 1 * NS
    assert record["start_fs"] == 81 * NS
    assert record["stalled_fs"] == 3 * 22 * NS
    assert record["waited_fs"] == 0
    assert record["end_fs"] == 187 * NS


def test_a_fetch_and_a_transfer_overlap() -> None:
    bench = Bench.of()
    sent = bench.transfer(2, 1, 100)
    fetch = bench.fetch(0, 1, PACKET)
    job = bench.compute(1, 20, stream=fetch, after=[sent])
    bench.run()
    # different links, and the ejection port at different times: each as if alone
    assert bench.end_ns(sent) == 1 + network_cycles(2, 2) == 15
    assert bench.end_ns(fetch) == 81
    assert bench.records[job]["ready_fs"] == 16 * NS
    assert bench.records[job]["start_fs"] == 81 * NS
    assert bench.end_ns(job) == 101


def test_a_transfer_meets_a_fetch_at_the_ejection_port() -> None:
    bench = Bench.of()
    fetch = bench.used_fetch(0, 1, PACKET)
    bench.submit(0)
    bench.transfer(2, 1, 4 * 64)
    late = bench.submit(63 * NS)
    bench.run()
    # Both packets are created at 64 and two routers long: their heads ask for the ejection port in the same cycle and
    # take turns, so the port is busy for 8 cycles from 77 to 84; nobody loses a cycle. The last flits of both are at 83
    # and 84 in one order or the other; a fetch is seen one edge later.
    ends = sorted([bench.end_ns(fetch) - 1, bench.end_ns(late)])
    assert ends == [83, 84]


# ---- compute and its buffer


def test_double_buffering() -> None:
    bench = Bench.of(expert={"expert_buffer": "512 B"})
    fetch = bench.fetch(0, 1, ROW)
    job = bench.compute(1, 4 * 50, stream=fetch)
    bench.run()
    record = bench.records[job]
    # Two tiles fit. Tile 0 arrives at 81, tile 1 at 113; tile 0 is used up at 131 and its room granted to tile 2:
    # committed 132, memory 133, RD 134 (the row is open) ... 162, last beat 178, network 179, read 195, compute 196.
    # Tile 1 has been used up at 181: stalled 15; its room brings tile 3: 182, 183, 184 ... 212, 228, 229, 245, 246,
    # when tile 2 ends.
    assert record["start_fs"] == 81 * NS
    assert record["stalled_fs"] == 15 * NS
    assert record["end_fs"] == 296 * NS
    assert bench.end_ns(fetch) == 246


def test_compute_that_never_waits() -> None:
    bench = Bench.of()
    fetch = bench.fetch(0, 1, ROW)
    job = bench.compute(1, 4 * 50, stream=fetch)
    bench.run()
    assert bench.records[job]["stalled_fs"] == 0
    assert bench.end_ns(job) == 81 + 200


def test_cycles_that_tiles_do_not_divide() -> None:
    bench = Bench.of()
    fetch = bench.fetch(0, 1, 3 * PACKET)
    job = bench.compute(1, 100, stream=fetch)
    bench.run()
    # tiles of 33, 33 and 34 cycles, there at 81, 113 and 145: 81 + 33 = 114, 147, 181
    assert bench.records[job]["stalled_fs"] == 0
    assert bench.end_ns(job) == 181


def test_two_experts_on_one_chiplet() -> None:
    bench = Bench.of()
    fetches = [bench.fetch(0, 1, PACKET, address=address) for address in (0, ROW)]
    jobs = [bench.compute(1, 20, stream=fetch) for fetch in fetches]
    bench.run()
    # The second row lies in the other pseudo-channel: its ACT waits two CK for the row bus, its RDs fall between the
    # first one's; packets created at 64 and 66. The second leaves behind the first one's four flits, on the class's
    # other VC, at 68: read 68 + 16 = 84.
    assert [bench.end_ns(fetch) for fetch in fetches] == [81, 85]
    first, second = (bench.records[job] for job in jobs)
    assert (first["start_fs"], first["end_fs"]) == (81 * NS, 101 * NS)
    assert first["waited_fs"] == 0
    # of the second one's 100 cycles between ready and start, 20 went by while the chiplet worked on the first
    assert (second["ready_fs"], second["start_fs"], second["end_fs"]) == (1 * NS, 101 * NS, 121 * NS)
    assert second["waited_fs"] == 20 * NS


def test_two_fetches_from_one_memory() -> None:
    bench = Bench.of()
    near, far = bench.used_fetch(0, 1, PACKET), bench.used_fetch(0, 2, PACKET, address=ROW)
    bench.run()
    # as above up to the link from the memory; then three routers: 68 + T(3, 4) = 90, compute 91
    assert bench.end_ns(near) == 81
    assert bench.end_ns(far) == 68 + network_cycles(3, 4) + 1 == 91


def test_two_fetches_in_one_bank() -> None:
    bench = Bench.of()
    # bank group 0, bank 0, rows 0 and 1: a row is 1 KiB x 2 pseudo-channels x 4 groups x 4 banks further
    first, second = bench.used_fetch(0, 1, PACKET), bench.used_fetch(0, 2, PACKET, address=32 * ROW)
    bench.run()
    # The first reads until its RD at 47. PRE at 47 + nRTPL 5 = 52 (tRAS 34 after the ACT at 4 is long over: its PRE,
    # one CK long against the ACT's two, may come at 4 + 1 + 34); ACT 52 + 14 - 1 = 65, because tRP ends with the
    # ACT's second cycle; RD 65 + 15 = 80 ... 108, last beat 124, network 125, read 125 + 22, compute 148.
    assert bench.end_ns(first) == 81
    assert bench.end_ns(second) == 125 + network_cycles(3, 4) + 1 == 148


# ---- clocks and latencies


@pytest.mark.parametrize(("grant_latency", "end_ns"), [(0, 49), (1, 50), (5, 54), (40, 89)])
def test_grant_latency(grant_latency: int, end_ns: int) -> None:
    bench = Bench.of(expert={"grant_latency": grant_latency})
    task = bench.used_fetch(0, 1, BURST)
    bench.run()
    assert bench.end_ns(task) == end_ns


@pytest.mark.parametrize(
    ("preset", "grant_tick", "done_tick", "period_fs", "end_ns"),
    [
        # 1.2 GHz: the grant of 2 ns is seen at the first edge after it, tick 3 = 2.5 ns; ACT 4, RD 4 + 17 + 1, last
        # beat 17 + 2 later: tick 41 = 34.1666 ns; network 35, read 48, compute 49
        ("HBM2_2400", 3, 41, 2_500_000 / 3, 49),
        # 0.8 GHz: tick 2 = 2.5 ns; ACT 3, RD 3 + 10 + 1, last beat 10 + 2 later: tick 26 = 32.5 ns; network 33, 46, 47
        ("HBM2_1600", 2, 26, 1_250_000, 47),
        # 0.9 GHz: tick 2 = 2.22 ns; ACT 3, nRCDRD = ceil(14 x 0.9) = 13: RD 17, 13 + 2 later: tick 32 = 35.55 ns;
        # network 36, read 49, compute 50
        ("HBM2_1800", 2, 32, 10_000_000 / 9, 50),
    ],
)
def test_two_clocks(preset: str, grant_tick: int, done_tick: int, period_fs: float, end_ns: int) -> None:
    bench = Bench.of(memory={"preset": preset})
    task = bench.used_fetch(0, 1, BURST)
    bench.run()
    assert (grant_tick - 1) * period_fs <= 2 * NS < grant_tick * period_fs
    assert int(done_tick * period_fs) // NS + 1 + 13 + 1 == end_ns
    assert bench.end_ns(task) == end_ns


def test_a_network_at_another_clock_than_the_memory() -> None:
    bench = Bench.of(level={"clock": "1.5 GHz"})
    task = bench.used_fetch(0, 1, BURST)
    bench.run()
    # Compute and network at 1.5 GHz: seen at edge 1, granted at edge 2 = 1.33 ns, memory at 2 ns: ACT 3, RD 18, last
    # beat 34 ns = edge 51 of the network, seen strictly after it at 52; read at 65, compute at edge 66 = 44 ns.
    assert bench.end_ns(task) == 44


# ---- copies and prefetches


def test_a_copy_between_two_memories() -> None:
    bench = Bench.of(memories=(0, 3))
    task = bench.copy(0, 3, PACKET)
    record = bench.run()[task]
    # The receiver sees it at 1 and grants: committed 2, source 3, last beat 63, network 64, read 64 + T(4, 4) = 92,
    # receiver 93; ACT 94, WR 94 + 12 + 1 = 107 ... 135, last beat 5 + 2 later: 142.
    assert record["start_fs"] == 1 * NS
    assert record["end_fs"] == 142 * NS == (64 + network_cycles(4, 4) + 1 + 49) * NS
    assert record["moved_bytes"] == PACKET
    statistics = bench.machine.memory_statistics(3)
    assert statistics["written_bytes"] == PACKET
    assert sum(bank[6] for bank in statistics["banks"]) == 8  # WR


def test_a_prefetch_that_a_demand_adopts() -> None:
    bench = Bench.of(expert={"expert_buffer": "2 KiB"})
    prefetch = bench.fetch(0, 1, ROW, prefetch=1, key=7)
    bench.submit(0)
    demand = bench.fetch(0, 1, ROW, key=7)
    job = bench.compute(1, 4 * 10, stream=demand)
    first = bench.submit(100 * NS)
    bench.run()
    early, late, work = (bench.records[task] for task in (prefetch, first + demand, first + job))
    # The demand is seen at 101, when the tile of 81 is there and those of 113, 145 and 177 are on their way.
    assert (early["end_fs"], early["used_bytes"], early["moved_bytes"]) == (101 * NS, 256, 256)
    assert (late["start_fs"], late["end_fs"]) == (101 * NS, 177 * NS)
    assert (late["used_bytes"], late["moved_bytes"]) == (256, 768)
    assert (work["start_fs"], work["end_fs"]) == (101 * NS, 187 * NS)
    assert bench.machine.compute_statistics(1)["wasted_bytes"] == 0


def test_a_demand_for_weights_that_a_prefetch_has_brought() -> None:
    bench = Bench.of()
    bench.fetch(0, 1, PACKET, prefetch=1, key=7)
    bench.submit(0)
    demand = bench.fetch(0, 1, PACKET, key=7)
    job = bench.compute(1, 10, stream=demand)
    first = bench.submit(200 * NS)
    bench.run()
    # seen at 201: the fetch is over at once, the job starts at once
    assert bench.end_ns(0) == 81
    assert bench.records[first + demand]["used_bytes"] == PACKET
    assert bench.records[first + demand]["moved_bytes"] == 0
    assert bench.end_ns(first + demand) == 201
    assert bench.end_ns(first + job) == 211


def test_a_prefetch_that_is_revoked() -> None:
    bench = Bench.of()
    prefetch = bench.fetch(0, 1, ROW, prefetch=1, key=7)
    bench.submit(0)
    bench.revoke(1, prefetch)
    revoke = bench.submit(100 * NS)
    bench.run()
    # Seen at 101, called off at 102, memory 103: RDs 19 ... 103 are out, 22 of 32, that of tick 103 having been decided
    # on before; the other 10 bursts never leave their banks. The third packet goes with its 6 bursts: last beat
    # 103 + 16 = 119, network 120, 3 flits, read 135, compute 136.
    assert bench.end_ns(revoke) == 101
    assert bench.end_ns(prefetch) == 120 + network_cycles(2, 3) + 1 == 136
    assert bench.records[prefetch]["moved_bytes"] == 22 * BURST
    memory = bench.machine.memory_statistics(0)
    assert (memory["read_bytes"], memory["cancelled_bytes"]) == (22 * BURST, 10 * BURST)
    compute = bench.machine.compute_statistics(1)
    assert compute["wasted_bytes"] == 22 * BURST
    assert compute["free_tiles"] == compute["buffer_tiles"]


def test_a_demand_takes_room_back_from_a_prefetch() -> None:
    bench = Bench.of()
    prefetch = bench.fetch(0, 1, ROW, prefetch=1, key=7)
    bench.submit(0)
    demand = bench.fetch(0, 1, PACKET, key=8, address=ROW)
    job = bench.compute(1, 10, stream=demand)
    first = bench.submit(200 * NS)
    bench.run()
    # The prefetch fills the buffer's four tiles. The demand, seen at 201, takes them: granted 202, memory 203, the
    # other pseudo-channel: ACT 204, RD 219 ... 247, last beat 263, network 264, read 280, compute 281.
    assert bench.end_ns(prefetch) == 177
    assert bench.end_ns(first + demand) == 281
    assert bench.end_ns(first + job) == 291
    assert bench.machine.compute_statistics(1)["wasted_bytes"] == ROW


# ---- the rungs with a formula on one side


def test_flits_and_a_rate() -> None:
    bench = Bench.of("flit+rate")
    task = bench.used_fetch(0, 1, PACKET)
    bench.run()
    # memory 3; 256 B at 32 GB/s: 11; latency nRCDRD + nCL + nBL = 30: 41; network 42, read 58, compute 59
    assert bench.end_ns(task) == 59


def test_flits_and_a_rate_tile_after_tile() -> None:
    bench = Bench.of("flit+rate")
    fetch = bench.fetch(0, 1, ROW)
    job = bench.compute(1, 4 * 10, stream=fetch)
    bench.run()
    # tiles 8 ns apart: 59, 67, 75, 83; the job needs 10 for each
    assert bench.end_ns(fetch) == 83
    assert bench.end_ns(job) == 59 + 40


def test_reserved_links_and_a_rate() -> None:
    bench = Bench.of("link")
    task = bench.used_fetch(0, 1, PACKET)
    bench.run()
    # committed at 41 by the memory, seen 1 fs later; 256 B over one link of 64 GB/s: 45 ns + 1 fs; compute 46
    assert bench.end_ns(task) == 46


def test_reserved_links_and_commands() -> None:
    bench = Bench.of("link+command")
    task = bench.used_fetch(0, 1, PACKET)
    bench.run()
    # committed at 63, over the link at 67 ns + 1 fs; compute 68
    assert bench.end_ns(task) == 68


def test_a_copy_at_a_rate() -> None:
    bench = Bench.of("flit+rate", memories=(0, 3))
    task = bench.copy(0, 3, PACKET)
    bench.run()
    # receiver 1, committed 2, source 3, read 11, sent 41, network 42, T(4, 4) = 28: 70, receiver 71; 8 ns to write: 79,
    # and the latency of 30 until it is in the array
    assert bench.end_ns(task) == 109


def test_a_revoked_prefetch_at_a_rate() -> None:
    bench = Bench.of("flit+rate")
    prefetch = bench.fetch(0, 1, ROW, prefetch=1)
    bench.submit(0)
    bench.revoke(1, prefetch)
    bench.submit(10 * NS)
    bench.run()
    # Seen at 11, called off at 12, memory 13: the tile that ended at 11 is on its way, that of 19 is being read, two
    # never are. The second one's flits are sent at 49, network 50, read 66, compute 67.
    assert bench.end_ns(prefetch) == 67
    memory = bench.machine.memory_statistics(0)
    assert (memory["read_bytes"], memory["cancelled_bytes"]) == (2 * PACKET, 2 * PACKET)
