"""A memory endpoint of SRAM banks, coupled: worked by hand with the rules of `test_micro_suite`."""

from __future__ import annotations

from small_system import Bench


def bench() -> Bench:
    return Bench.of(memory={"preset": "SRAM_64MiB"})


def test_a_fetch_of_one_access() -> None:
    b = bench()
    task = b.used_fetch(0, 1, 128)
    b.run()
    # seen 1, granted 2, memory 3, access 4 and 5 (125 B a cycle), 2 of latency: 7; network 8, two flits read at
    # 8 + T(2, 2) = 22, compute 23
    assert b.end_ns(task) == 23


def test_a_fetch_of_two_packets() -> None:
    b = bench()
    task = b.used_fetch(0, 1, 512)
    b.run()
    # four accesses in four banks at once: all off the banks at 7, two packets of four flits, the second four behind:
    # network 8, read 8 + T(2, 4) + 4 = 28, compute 29
    assert b.end_ns(task) == 29
