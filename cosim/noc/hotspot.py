"""The hotspot benchmark: a hot node's weight tile for n helpers, by unicasts, by multicasts, by a session, ideally.

Reading the tile off the memory is not part of it: all of the tile is at the hot node at cycle 0. `ideal` is what no
network beats: a flit a cycle straight to all helpers, links alone on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cosim.config import presets
from cosim.config.loader import load_yaml
from cosim.config.overrides import apply_overrides
from cosim.config.schema_hotspot import SCHEMES, HotspotFile, HotspotSpec
from cosim.config.validate import validate
from cosim.noc.network import TERMINAL_CYCLES, Network
from cosim.noc.results import PacketResult

__all__ = ["SHARES", "Hotspot", "load", "nearest", "run"]

SHARES = ("router", "link", "serialisation", "waiting")
"""Parts of a packet's network latency, from its head's leaving the source to its tail's being read; they sum to it."""


@dataclass(frozen=True)
class Hotspot:
    """What the benchmark found.

    frame: a row per scheme, number of helpers and tile size: `scheme, helpers, tile_bytes, packet_flits, packets` (sent
    by the hot node), `completion_cycles` (the last helper has the whole tile), `speed_up` (over unicasts),
    `over_ideal` (completion / that of `ideal`), `link_flits` (flits on links), `network_latency_mean_cycles` and the
    shares of it, `router_share` … `waiting_share`, over all packets and helpers; shares are None for `ideal`.
    sizes: the same columns for unicasts with other packet sizes.
    resolved: the file with overrides put in.
    """

    frame: pd.DataFrame
    sizes: pd.DataFrame
    network: Network
    resolved: dict[str, Any]


def load(reference: str, options: Iterable[str] = ()) -> tuple[HotspotFile, dict[str, Any]]:
    """The checked file of a shipped name (`configs/networks`) or a path, and its content; `-o` options put in.

    Raises:
        ConfigErrors: every error of the file and the options.
    """
    document = load_yaml(presets.find("networks", reference))
    apply_overrides(document, options)
    return validate(HotspotFile, document), dict(document.data)


def nearest(network: Network, hot: int) -> list[int]:
    """All other nodes, by links on the way from `hot`, then by number."""
    ways = [(len(network.session_links(hot, [node])), node) for node in range(network.nodes) if node != hot]
    return [node for _, node in sorted(ways)]


def run(file: HotspotFile, resolved: dict[str, Any]) -> Hotspot:
    """Runs every case; deterministic, no random draws."""
    network = Network(file.network)
    spec = file.hotspot
    order = nearest(network, spec.hot)
    rows = []
    for helpers in spec.helpers:
        nodes = sorted(order[:helpers])
        for tile in spec.tiles:
            cases = [_case(network, spec, scheme, nodes, tile, spec.packet_flits) for scheme in SCHEMES]
            unicast, ideal = cases[0]["completion_cycles"], cases[-1]["completion_cycles"]
            for case in cases:
                case["speed_up"] = unicast / case["completion_cycles"]
                case["over_ideal"] = case["completion_cycles"] / ideal
            rows += cases
    most = sorted(order[: max(spec.helpers)])
    sizes = [_case(network, spec, "unicast", most, spec.tiles[0], size) for size in spec.packet_sizes]
    return Hotspot(pd.DataFrame(rows), pd.DataFrame(sizes), network, resolved)


def _sizes(spec: HotspotSpec, tile: int, packet_flits: int) -> list[int]:
    """Flits of the packets of a tile."""
    payload = packet_flits * spec.flit_width - spec.header_bytes
    full, rest = divmod(tile, payload)
    last = [-(-(rest + spec.header_bytes) // spec.flit_width)] if rest else []
    return [packet_flits] * full + last


def _case(
    network: Network, spec: HotspotSpec, scheme: str, nodes: list[int], tile: int, packet_flits: int
) -> dict[str, Any]:
    sizes = _sizes(spec, tile, packet_flits)
    case: dict[str, Any] = {
        "scheme": scheme,
        "helpers": len(nodes),
        "tile_bytes": tile,
        "packet_flits": packet_flits,
        "packets": len(sizes) * (len(nodes) if scheme == "unicast" else 1),
    }
    if scheme == "ideal":
        flits = sum(sizes)
        latencies = {(link.from_router, link.from_port): int(link.latency) for link in network.spec.links}
        ways = [sum(latencies[link] for link in network.session_links(spec.hot, [node])) for node in nodes]
        links = len(network.session_links(spec.hot, nodes))
        completion = flits - 1 + max(ways) + TERMINAL_CYCLES
        return {**case, "completion_cycles": completion, "link_flits": flits * links, **_no_shares()}
    if scheme == "unicast":
        # packet after packet, each to every helper in turn
        frame = pd.DataFrame({"dst": nodes * len(sizes), "size_flits": [size for size in sizes for _ in nodes]})
    else:
        frame = pd.DataFrame({"size_flits": sizes})
        frame["dst_set"] = pd.Series([nodes] * len(sizes), dtype=object)
    frame = frame.assign(create_cycle=0, src=spec.hot, message_class=scheme)
    result = network.packet_run(frame)
    return {**case, "completion_cycles": result.makespan_cycles, **_measured(result, scheme)}


def _measured(result: PacketResult, scheme: str) -> dict[str, Any]:
    rows = result.packets if scheme == "unicast" else result.deliveries
    links = result.links[result.links["kind"] == "link"]
    flits = int(links["flits"].sum()) + (int(links["session_flits"].sum()) if scheme == "cmn" else 0)
    total = int(rows["network_latency_cycles"].sum())
    terms = {part: int(rows[f"{part}_cycles"].sum()) for part in SHARES[:-1]}
    terms["waiting"] = int(rows["contention_cycles"].sum())
    assert sum(terms.values()) == total
    return {
        "link_flits": flits,
        "network_latency_mean_cycles": total / len(rows),
        **{f"{part}_share": cycles / total for part, cycles in terms.items()},
    }


def _no_shares() -> dict[str, Any]:
    return {"network_latency_mean_cycles": None, **{f"{part}_share": None for part in SHARES}}
