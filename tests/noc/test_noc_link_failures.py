"""Links that fail at a cycle: what packets do meanwhile, the routes before and after, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_checks import check_terms

from cosim import _core
from cosim.config.errors import ConfigErrors
from cosim.noc import Network, NetworkConfig
from cosim.noc.graph import build_spec

TERMS = ["source_queueing", "router", "link", "serialisation", "contention"]


def config(*failed: dict[str, Any], **keys: Any) -> dict[str, Any]:
    topology = {"kind": "mesh", "shape": [4, 4]}
    return {"topology": topology, "routing": "up_down", "failed_links": list(failed), **keys}


def random_frame(seed: int, packets: int, last_cycle: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, 16, (packets, 2))
    create = np.sort(draw.integers(0, last_cycle, packets))
    columns = {"create_cycle": create, "src": ends[:, 0], "dst": ends[:, 1], "size_flits": draw.integers(1, 6, packets)}
    return pd.DataFrame(columns)


def flits_between(links: pd.DataFrame, ends: set[int]) -> int:
    over = links[(links["kind"] == "link") & links["router"].isin(ends) & links["to"].isin(ends)]
    return int(over["flits"].sum())


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32), cycle=st.integers(1, 150), name=st.sampled_from(["up_down", "layered_shortest_path"])
)
def test_packets_before_and_after_take_the_routes_of_two_static_networks(seed: int, cycle: int, name: str) -> None:
    frame = random_frame(seed, 120, 120)
    failed = {"between": [5, 6]}
    run = Network(config({**failed, "at_cycle": cycle}, routing=name)).packet_run(frame)
    assert run.route_changes is not None
    check_terms(run.packets, TERMS)
    before, after = Network(config(routing=name)), Network(config(failed, routing=name))
    if run.route_changes.empty:  # every packet had left before
        assert run.packets["eject_cycle"].equals(before.run_packets(frame)["eject_cycle"])
        return
    (at, changed) = run.route_changes.iloc[0].tolist()
    assert at == cycle <= changed
    injected = run.packets["inject_cycle"]
    early, late = injected < cycle, injected >= changed
    # sources wait from the failure until the network is empty: the last flit won its last switch in the step before
    assert (early | late).all()
    if changed > cycle:
        assert run.packets["eject_cycle"][early].max() == changed + 2
    # up to then it is the network with the link
    columns = ["inject_cycle", "eject_cycle", "hops"]
    alone = before.packet_run(frame[early])
    assert run.packets[early][columns].equals(alone.packets[columns])
    assert flits_between(run.links, {5, 6}) == flits_between(alone.links, {5, 6})
    # from then on the one without it; not to the cycle: its arbiters have served the early packets
    rest = frame[late].assign(create_cycle=frame["create_cycle"][late].clip(lower=changed))
    assert run.packets[late]["hops"].equals(after.run_packets(rest)["hops"])


def test_the_failed_link_carries_nothing_any_more_and_its_flits_are_not_lost() -> None:
    frame = random_frame(3, 400, 300)
    early = frame[frame["create_cycle"] < 100]
    net = Network(config({"between": [5, 6], "at_cycle": 100}, {"from": 9, "to": 10, "at_cycle": 200}))
    run = net.packet_run(frame)
    assert run.route_changes is not None
    assert run.route_changes["at_cycle"].tolist() == [100, 200]
    first, second = run.route_changes["changed_cycle"].tolist()
    assert 100 < first < 200 < second
    sent = run.packets[run.packets["inject_cycle"] < 100]
    used = Network(config()).packet_run(frame.loc[sent.index].reset_index(drop=True)).links
    assert len(sent) <= len(early)
    assert flits_between(run.links, {5, 6}) == flits_between(used, {5, 6}) > 0
    assert (run.packets["eject_cycle"] > 0).all()


def test_traffic_goes_on_around_the_failure() -> None:
    arguments: dict[str, Any] = {"injection_rate": 0.1, "warmup_cycles": 0, "measure_cycles": 4000, "seed": 3}
    run = Network(config({"between": [5, 6], "at_cycle": 2000})).run_traffic("uniform", **arguments)
    whole = Network(config()).run_traffic("uniform", **arguments)
    assert run.stable
    assert run.measured_packets == whole.measured_packets
    assert run.route_changes is not None
    assert 2000 < run.route_changes["changed_cycle"].iloc[0] < 2100
    assert 0 < flits_between(run.links, {5, 6}) < flits_between(whole.links, {5, 6})
    assert whole.route_changes is None


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32), stop=st.integers(1, 150))
def test_a_saved_network_goes_on_identically(seed: int, stop: int) -> None:
    frame = random_frame(seed, 60, 100)
    rows = np.column_stack([frame.to_numpy(), np.zeros(len(frame), dtype=np.int64)])
    spec = build_spec(NetworkConfig.from_dict(config({"between": [5, 6], "at_cycle": 50})))
    whole, first, second = (_core.FlitNetwork(spec) for _ in range(3))
    for net in (whole, first):
        net.offer(rows)
    whole.run(_core.NO_EVENT)
    first.run(stop)
    second.load(first.save())
    for net in (first, second):
        net.run(_core.NO_EVENT)
        assert net.idle
        assert net.verify_conservation() == ""
    assert first.save() == second.save() == whole.save()


def test_every_state_is_checked_for_deadlock() -> None:
    ring = {"kind": "graph", "routers": 4, "links": [{"between": [r, (r + 1) % 4]} for r in range(4)]}
    check = Network(config({"between": [0, 1], "at_cycle": 9}, topology=ring)).check_deadlock()
    assert check.deadlock_free
    # of the second state: a line of four routers
    line = {
        "kind": "graph",
        "routers": 4,
        "links": [{"between": [r, r + 1]} for r in range(1, 3)] + [{"between": [3, 0]}],
    }
    assert check == Network(config(topology=line)).check_deadlock()


def test_refusals_name_what_is_wrong() -> None:
    line = {"kind": "mesh", "shape": [3]}
    with pytest.raises(ConfigErrors, match="can route from cycle 7 on"):
        Network(config({"between": [0, 1], "at_cycle": 7}, topology=line))
    with pytest.raises(ConfigErrors, match="routing, which finds new ways then"):
        Network(
            {"topology": {"kind": "fat_tree", "k": 2, "n": 2}, "failed_links": [{"between": [0, 2], "at_cycle": 7}]}
        )
    with pytest.raises(ConfigErrors, match="whose trees are planned before"):
        Network(config({"between": [5, 6], "at_cycle": 7}, classes={"m": {"vcs": [0], "multicast": True}}))
    with pytest.raises(ConfigErrors, match="one of the 0 links from router 0 to router 2"):
        Network(config({"between": [0, 2], "at_cycle": 7}))
