"""Links that flip bits: the core against the slow model with the same draws, exact costs, and what is refused."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_checks import check_terms
from reference_router import Flit, Packet, Reference, mesh

from cosim.config.errors import ConfigErrors
from cosim.noc import Network

MASK = (1 << 64) - 1
TERMS = ["source_queueing", "router", "link", "serialisation", "contention", "retry"]


def mix(x: int) -> int:
    """splitmix64's finaliser, as `ext/sim/random.hpp` describes it."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


class FaultyLinks(Reference):
    """`Reference` whose flits cross a link when a transmission succeeds, one behind the other."""

    failing = 0.0
    nack = 1
    seed = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.draws: dict[tuple[int, int], int] = {}
        self.free: dict[tuple[int, int], int] = {}
        self.failed = 0

    def fails(self, place: tuple[int, int]) -> bool:
        stream = place[0] * self.ports + place[1]
        key = mix(mix(self.seed) ^ mix(stream * 2 + 1))
        drawn = mix(key ^ mix(self.draws.setdefault(place, 0)))
        self.draws[place] += 1
        return drawn < int(self.failing * 2**64)

    def move(self, router: int, p: int, v: int, t: int) -> None:
        output = self.inputs[router, p, v].output
        before = {cycle: len(flits) for cycle, flits in self.flits_due.items()}
        super().move(router, p, v, t)
        link = self.out_link.get((router, output))
        if link is None:
            return
        sent = t + self.sw_alloc_delay - 1 + self.traversal
        due = self.flits_due[sent + link.latency + 1]
        assert len(due) > before.get(sent + link.latency + 1, 0)
        place, flit = due.pop()
        assert isinstance(flit, Flit)
        start = max(sent, self.free.get((router, output), 0))
        while self.fails((router, output)):
            start += 2 * (link.latency + 1) + self.nack
            self.failed += 1
        self.free[router, output] = start + 1
        self.flits_due[start + link.latency + 1].append((place, flit))


def config(shape: list[int], rate: float, bits: int = 100, **keys: Any) -> dict[str, Any]:
    retry = {"bit_error_rate": rate, "flit_bits": bits - 16, "nack_delay": 2, "seed": 5}
    return {"topology": {"kind": "mesh", "shape": shape}, "num_vcs": 2, "vc_buf_size": 4, "retry": retry, **keys}


def over_links(result: Any, column: str) -> int:
    return int(result.links.loc[result.links["kind"] == "link", column].sum())


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_every_packet_is_that_of_the_slow_model(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([[2], [4], [3, 2]]))
    nodes = shape[0] * (shape[1] if len(shape) > 1 else 1)
    node = st.integers(0, nodes - 1)
    rows = data.draw(st.lists(st.tuples(st.integers(0, 40), node, node, st.integers(1, 6)), min_size=1, max_size=30))
    rate = data.draw(st.sampled_from([0.0005, 0.002, 0.005]))
    latency = data.draw(st.integers(1, 30))
    frame = pd.DataFrame(rows, columns=["create_cycle", "src", "dst", "size_flits"])
    result = Network(config(shape, rate, link_latency=latency)).packet_run(frame)
    model = FaultyLinks(**mesh(shape, [latency] * len(shape), 4), vcs=2, buffer_flits=4)  # type: ignore[arg-type]
    model.failing, model.nack, model.seed = 1 - (1 - rate) ** 100, 2, 5
    packets = [Packet(*row) for row in rows]
    model.run(packets)
    assert result.packets["eject_cycle"].tolist() == [p.eject for p in packets]
    assert result.packets["inject_cycle"].tolist() == [p.inject for p in packets]
    check_terms(result.packets, TERMS)
    assert over_links(result, "retries") == model.failed
    assert over_links(result, "retry_cycles") == model.failed * (2 * (latency + 1) + 2)


def test_a_busy_link_loses_a_round_trip_per_failure() -> None:
    """One packet of 3,000 flits over one link that is never idle: 2 x (2 + 1) + 2 = 8 cycles a failure.

    Without errors every flit waits R + V = 2 cycles at the second router, as the head did; the first gap makes that up.
    """
    frame = pd.DataFrame({"create_cycle": [0], "src": [0], "dst": [1], "size_flits": [3000]})
    clean = Network(config([2], 1e-15, vc_buf_size=64, link_latency=2)).packet_run(frame)
    noisy = Network(config([2], 5e-4, vc_buf_size=64, link_latency=2)).packet_run(frame)
    failures = over_links(noisy, "retries")
    # 3,000 flits of 100 bits fail with 1 - (1 - 5e-4)^100 = 4.9 % a time: 154 expected, deviation 13
    assert 100 < failures < 210
    assert noisy.makespan_cycles - clean.makespan_cycles == 8 * failures - 2
    # the source runs out of credits behind the link: that part of the wait is contention
    late = noisy.packets["retry_cycles"] + noisy.packets["contention_cycles"]
    assert late.tolist() == [8 * failures - 2]
    assert (noisy.packets["retry_cycles"] > 0).all()
    assert clean.packets["contention_cycles"].tolist() == [0]
    assert over_links(clean, "retries") == 0


def test_a_lone_flit_is_late_by_whole_round_trips() -> None:
    frame = pd.DataFrame({"create_cycle": range(0, 60_000, 200), "src": 0, "dst": 2, "size_flits": 1})
    network = Network(config([3], 2e-3))
    result = network.packet_run(frame)
    late = result.packets["packet_latency_cycles"] - int(network.zero_load_latency_cycles(3, 2, 1))
    assert (late % 6 == 0).all()
    assert (late == result.packets["retry_cycles"]).all()
    assert late.sum() == over_links(result, "retry_cycles") == 6 * over_links(result, "retries") > 0


def test_traffic_reports_the_term_and_the_same_seed_the_same_errors() -> None:
    network = Network(config([4, 4], 2e-4))
    runs = [
        network.run_traffic("uniform", injection_rate=0.05, warmup_cycles=200, measure_cycles=1500) for _ in range(2)
    ]
    first, second = runs
    assert first.terms == second.terms
    assert first.terms.retry_mean_cycles > 0
    assert sum(vars(first.terms).values()) == pytest.approx(first.packet_latency_mean_cycles, abs=1e-9)
    assert over_links(first, "retries") == over_links(second, "retries") > 0


def test_what_does_not_fit_is_refused() -> None:
    for change, says in (
        ({"retry": {"bit_error_rate": 0.5, "flit_bits": 8}}, "bit_error_rate"),
        ({"retry": {"flit_bits": 8}}, "bit_error_rate"),
        ({"retry": {"bit_error_rate": 1e-9, "flit_bits": 8, "crc": 4}}, "crc"),
        ({"compat": "booksim2"}, "compat none"),
        ({"classes": {"a": {"vcs": [0]}, "b": {"vcs": [1], "multicast": True}}}, "no multicast and no session"),
    ):
        with pytest.raises(ConfigErrors, match=says):
            Network({**config([3], 1e-6), **change})
