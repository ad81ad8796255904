"""The file of `cosim noc run`: `network:` and `traffic:`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cosim.config import presets
from cosim.config.errors import ConfigError, ConfigErrors, Problems
from cosim.config.loader import Document, KeyPath, load_yaml
from cosim.config.overrides import apply_overrides
from cosim.config.schema_network import NetworkConfig
from cosim.config.validate import validate
from cosim.noc.network import Network
from cosim.noc.traffic import read_traffic
from cosim.plugins.topologies import made_topology

__all__ = ["NetworkRun", "load", "load_network"]

TRAFFIC_KEYS = (
    "pattern",
    "injection_rate",
    "packet_size_flits",
    "warmup_cycles",
    "measure_cycles",
    "max_drain_cycles",
    "seed",
    "message_class",
)
FILES: tuple[KeyPath, ...] = (("network", "topology", "links"), ("network", "routing", "table"))
"""Keys that may name a file, which counts from the folder of the file that names it."""


@dataclass(frozen=True)
class NetworkRun:
    """A network and its traffic: the arguments of `Network.run_traffic`, or a frame of packets."""

    network: Network
    traffic: Mapping[str, Any]
    packets: pd.DataFrame | None
    resolved: Mapping[str, Any]


def load(reference: str, options: Iterable[str] = ()) -> NetworkRun:
    """The network and traffic of a shipped name (`configs/networks`) or a path, with `-o` options put in.

    Traffic is either synthetic (`pattern`, `injection_rate`, ... as `Network.run_traffic` takes them) or a CSV or
    Parquet file of packets (`packets: file`, columns as `Network.run_packets` takes them; in CSV a `dst_set` is node
    numbers with spaces between them).

    Raises:
        ConfigErrors: every error of the file and the options, each with its place.
    """
    document = load_yaml(presets.find("networks", reference))
    apply_overrides(document, options)
    problems = Problems()
    data = document.data if isinstance(document.data, Mapping) else {}
    problems.unknown_keys("", data, ("network", "traffic"))
    for key in ("network", "traffic"):
        if key not in data:
            problems.add("", f"the key '{key}'", "no such key")
    placed: list[ConfigError] = []
    network: Network | None = None
    if "network" in data:
        try:
            network = _network(document)
        except ConfigErrors as error:
            placed = list(error.errors)
    traffic: Mapping[str, Any] = {}
    packets: pd.DataFrame | None = None
    given = data.get("traffic", {})
    if not isinstance(given, Mapping):
        problems.add("traffic", "a mapping of keys to values", repr(given))
    elif "packets" in given:
        problems.unknown_keys("traffic", given, ("packets",))
        packets = _packets(given["packets"], document, problems)
    elif "traffic" in data:
        traffic = _synthetic(given, network, problems)
    placed += [_placed(document, error) for error in problems.found]
    if placed:
        raise ConfigErrors(placed)
    assert network is not None
    return NetworkRun(network, traffic, packets, data)


def load_network(reference: str, options: Iterable[str] = ()) -> Network:
    """The network of such a file, whatever its traffic is; arguments and errors as `load`."""
    document = load_yaml(presets.find("networks", reference))
    apply_overrides(document, options)
    return _network(document)


def _network(document: Document) -> Network:
    for path in FILES:
        value = document.get(path)
        if isinstance(value, str):
            document.set(path, str(document.folder_of(path) / Path(value).expanduser()))
    topology = document.get(("network", "topology"))
    if isinstance(topology, Mapping) and "plugin" in topology:
        try:
            document.set(("network", "topology"), made_topology(topology))
        except ConfigErrors as error:
            raise ConfigErrors(_placed(document, e) for e in error.errors) from None
    try:
        return Network(validate(NetworkConfig, document, ("network",)))
    except ConfigErrors as error:
        raise ConfigErrors(e if e.line or e.file else _placed(document, e) for e in error.errors) from None


def _synthetic(given: Mapping[str, Any], network: Network | None, problems: Problems) -> Mapping[str, Any]:
    problems.unknown_keys("traffic", given, TRAFFIC_KEYS)
    missing = [key for key in ("pattern", "injection_rate") if key not in given]
    for key in missing:
        problems.add("traffic", f"the key '{key}' (or 'packets')", "no such key")
    arguments = {key: value for key, value in given.items() if key in TRAFFIC_KEYS}
    if network is not None and not missing:
        try:
            read_traffic(network.config, network.nodes, **arguments)
        except ConfigErrors as error:
            for e in error.errors:
                problems.add(f"traffic.{e.path}", e.expected, e.got, e.suggestion)
    return arguments


def _packets(name: object, document: Document, problems: Problems) -> pd.DataFrame | None:
    if not isinstance(name, str) or not name:
        problems.add("traffic.packets", "a CSV or Parquet file", repr(name))
        return None
    file = Path(name).expanduser()
    if not file.is_absolute():
        file = document.folder_of(("traffic", "packets")) / file
    if not file.is_file():
        problems.add("traffic.packets", "a file", f"{str(file)!r}, which does not exist")
        return None
    try:
        if file.suffix == ".parquet":
            return pd.read_parquet(file)
        frame: pd.DataFrame = pd.read_csv(file)
        if "dst_set" in frame.columns:
            frame["dst_set"] = pd.Series([_nodes(cell) for cell in frame["dst_set"]], dtype=object)
        return frame
    except (ValueError, OSError) as error:
        problems.add("traffic.packets", "a readable CSV or Parquet file", f"{str(file)!r} ({error})")
        return None


def _nodes(cell: object) -> list[int] | None:
    """Node numbers with spaces between them; none in an empty cell."""
    if isinstance(cell, float) and pd.isna(cell):
        return None
    return [int(node) for node in str(cell).split()] if not isinstance(cell, float) else [int(cell)]


def _placed(document: Document, error: ConfigError) -> ConfigError:
    """The finding with the file, line and column of the value it is about."""
    path: KeyPath = tuple(int(part) if part.isdigit() else part for part in error.path.split(".") if part)
    key = error.got.startswith("the unknown key")
    while path and (path not in document.key_marks if key else path not in document.marks):
        path, key = path[:-1], False
    mark = document.mark(path, key=key)
    return ConfigError(mark.source, mark.line, mark.column, error.path, error.expected, error.got, error.suggestion)
