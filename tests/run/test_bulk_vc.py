"""VCs of weights: one of their class per source on every link (static), or any that has a credit (dynamic)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from skipping_cases import differences
from small_system import NS, Bench

from cosim.config import ConfigErrors
from cosim.system.loading import load_system

VCS = 8  # tokens 0-2, weights 3-6, prefetches 7


def line(bulk_vc: str, **level: object) -> Bench:
    """Memories at both ends of six routers, experts at the others."""
    return Bench.of("flit", routers=6, memories=(0, 5), level={"num_vcs": VCS, "bulk_vc": bulk_vc, **level})


def flits_by_vc(bench: Bench) -> npt.NDArray[np.int64]:
    """Over all links."""
    flits: npt.NDArray[np.int64] = bench.machine.flit_statistics(0)["link_vc_flits"]
    return flits.reshape(-1, VCS).sum(axis=0)


@pytest.mark.parametrize(("memory", "vc"), [(0, 3), (5, 4)])
def test_what_a_source_sends_keeps_to_its_vc(memory: int, vc: int) -> None:
    """Terminals are numbered router by router: the memories' are 0 and 5, of four VCs that is 0 and 1."""
    for reader in (2, 3):
        bench = line("static")
        bench.used_fetch(memory, reader, 64 * 256)
        bench.run()
        assert np.flatnonzero(flits_by_vc(bench)).tolist() == [vc]


def test_dynamic_spreads_and_carries_as_much() -> None:
    found = {}
    for bulk_vc in ("static", "dynamic"):
        bench = line(bulk_vc)
        for number, reader in enumerate((1, 2, 3, 4)):
            bench.used_fetch(0 if number % 2 else 5, reader, 64 * 256, address=number << 20)
        bench.run()
        found[bulk_vc] = flits_by_vc(bench)
    assert np.flatnonzero(found["static"]).tolist() == [3, 4]
    assert np.flatnonzero(found["dynamic"]).tolist() == [3, 4, 5, 6]
    assert found["static"].sum() == found["dynamic"].sum()


def test_a_vc_serves_one_packet_at_a_time() -> None:
    """Between a tail and the next head in one VC lie its routing and VC allocation: two cycles a packet of four flits.

    Packets of two VCs follow each other without a gap.
    """
    ends = {}
    for bulk_vc in ("static", "dynamic"):
        for packets in (10, 20):
            bench = line(bulk_vc)
            sent = bench.transfer(1, 4, packets * 256, message_class=bench.machine.classes["weight"])
            bench.run()
            ends[bulk_vc, packets] = bench.end_ns(sent)
    assert ends["dynamic", 20] - ends["dynamic", 10] == 10 * 4
    assert ends["static", 20] - ends["static", 10] == 10 * (4 + 2)


def test_tokens_are_not_bound() -> None:
    ends = []
    for bulk_vc in ("static", "dynamic"):
        bench = line(bulk_vc)
        sent = bench.transfer(1, 4, 20 * 256)
        bench.run()
        ends.append(bench.end_ns(sent))
        assert len(np.flatnonzero(flits_by_vc(bench))) > 1
    assert ends[0] == ends[1]


def test_routings_with_parted_vcs_keep_one_of_each_part() -> None:
    """On a ring dateline's packets use the lower half of the class's VCs before it and the upper half behind it."""
    bench = Bench.of(
        "flit",
        routers=6,
        memories=(0, 5),
        level={
            "topology": {"kind": "ring", "routers": 6},
            "routing": "dateline",
            "num_vcs": 12,
            "bulk_vc": "static",
            "message_classes": {
                "token": {"vcs": [0, 1]},
                "weight": {"vcs": [2, 3, 4, 5, 6, 7]},
                "prefetch": {"vcs": [8, 9]},
            },
        },
    )
    bench.used_fetch(5, 1, 64 * 256)  # over the dateline
    bench.run()
    by_link = bench.machine.flit_statistics(0)["link_vc_flits"].reshape(-1, 12)
    assert {int(np.flatnonzero(row)[0]) for row in by_link if row.any()} <= {4, 7}
    assert all(len(np.flatnonzero(row)) <= 1 for row in by_link)


def test_static_streams_that_share_links_are_skipped() -> None:
    """Four streams of two memories over shared links: periodic with static VCs, and the same as stepped."""

    def streams(skipping: bool) -> Bench:
        level = {"num_vcs": 6, "bulk_vc": "static"}
        bench = Bench.of("flit+rate", routers=6, memories=(0, 5), level=level, memory={"refresh": "none"})
        bench.machine.engine.skipping = skipping
        for number, reader in enumerate((1, 2, 3, 4)):
            fetch = bench.fetch(5 * (number % 2), reader, 3000 * 256, address=number << 22)
            bench.compute(reader, 3000 * 8, stream=fetch)
        bench.run()
        return bench

    on, off = streams(True), streams(False)
    assert differences(on, off) == ()
    assert on.machine.engine.skip_report()["instants"] > 0.8 * on.machine.engine.instants
    assert on.machine.now_fs > 3000 * NS


def test_adaptive_routing_takes_no_static_vcs() -> None:
    changes = [
        "levels.package.routing=min_adaptive",
        "levels.package.num_vcs=6",
        "levels.package.bulk_vc=static",
    ]
    with pytest.raises(ConfigErrors, match="min_adaptive chooses VCs by load"):
        load_system("package-4x4", changes)
    with pytest.raises(ConfigErrors, match=r"levels\.package\.bulk_vc"):
        load_system("package-4x4", ["levels.package.bulk_vc=stat"])
