"""Topologies made by Python functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosim import noc
from cosim.config import ConfigErrors
from cosim.noc import run_file
from cosim.plugins import PluginError


def ring(routers: int = 4) -> dict[str, Any]:
    return {"routers": routers, "links": [{"between": [r, (r + 1) % routers]} for r in range(routers)]}


def test_the_dragonfly_is_connected_and_deadlock_free(examples: Path) -> None:
    plugin = f"{examples / 'dragonfly_topology.py'}:dragonfly"
    net = noc.Network({"topology": {"plugin": plugin, "params": {"groups": 4, "nodes": 2}}})
    assert (net.routers, net.nodes) == (16, 32)
    assert net.config.topology.kind == "graph"  # the resolved description needs no plug-in
    assert net.check_deadlock().deadlock_free
    result = net.run_traffic("uniform", injection_rate=0.05, warmup_cycles=100, measure_cycles=500)
    assert result.stable
    # a link inside a group of four routers and one between groups: at most five routers by shortest ways
    assert 1 < result.hops_mean < 6


def test_a_function_of_this_process_and_a_file(tmp_path: Path) -> None:
    net = noc.Network({"topology": {"plugin": ring, "params": {"routers": 6}}})
    assert (net.routers, net.nodes) == (6, 6)
    module = tmp_path / "mine.py"
    module.write_text(
        "def line(n=3):\n    return {'routers': n, 'links': [{'between': [i, i + 1]} for i in range(n - 1)]}\n"
    )
    file = tmp_path / "run.yaml"
    file.write_text(
        f"network:\n  topology:\n    plugin: {module}:line\n    params: {{n: 5}}\n"
        "traffic: {pattern: uniform, injection_rate: 0.1}\n"
    )
    loaded = run_file.load(str(file))
    assert loaded.network.routers == 5
    assert loaded.resolved["network"]["topology"]["kind"] == "graph"
    file.write_text(file.read_text().replace("n: 5", "m: 5"))
    with pytest.raises(ConfigErrors, match=r"network\.topology\.params"):
        run_file.load(str(file))


def broken(how: str = "raise") -> Any:
    if how == "raise":
        raise KeyError("gone")
    return {"routers": 2, "link": []} if how == "keys" else 7


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raise", "the topology 'broken' raised KeyError: 'gone'"),
        ("keys", "returned ['link', 'routers'], expected a mapping of"),
        ("type", "returned int, expected a mapping of"),
    ],
)
def test_what_a_function_does_wrong_is_named(how: str, says: str) -> None:
    with pytest.raises(PluginError) as caught:
        noc.Network({"topology": {"plugin": broken, "params": {"how": how}}})
    assert says in str(caught.value)


def test_what_is_no_topology_of_ones_own() -> None:
    for topology, says in (
        ({"plugin": "mesh"}, "expected kind: mesh"),
        ({"plugin": "mehs"}, "mesh"),
        ({"plugin": ring, "parms": {}}, "did you mean 'params'"),
        ({"plugin": lambda: {"routers": 2, "links": [{"between": [0, 5]}]}}, "a router below 2"),
    ):
        with pytest.raises(ConfigErrors, match=says):
            noc.Network({"topology": topology})
