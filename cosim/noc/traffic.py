"""The arguments of a run of synthetic traffic, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosim import _core
from cosim.config.errors import ConfigErrors, Problems
from cosim.config.schema_network import NetworkConfig
from cosim.noc.patterns import read_pattern

__all__ = ["read_traffic"]


def read_traffic(
    config: NetworkConfig,
    nodes: int,
    pattern: str | Mapping[str, Any],
    *,
    injection_rate: float,
    packet_size_flits: int = 1,
    warmup_cycles: int = 4000,
    measure_cycles: int = 10000,
    max_drain_cycles: int = 100_000,
    seed: int = 1,
    message_class: str | None = None,
) -> _core.TrafficSpec:
    """The core's description of the traffic; arguments as `Network.run_traffic` has them.

    Raises:
        ConfigErrors: every impossible argument.
    """
    shape = config.topology.node_shape()
    problems = Problems()
    problems.integer("packet_size_flits", packet_size_flits, 1, 1 << 20)
    problems.integer("warmup_cycles", warmup_cycles, 0, 1 << 50)
    problems.integer("measure_cycles", measure_cycles, 1, 1 << 50)
    problems.integer("max_drain_cycles", max_drain_cycles, 0, 1 << 50)
    problems.integer("seed", seed, 0, (1 << 64) - 1)
    if isinstance(injection_rate, bool) or not isinstance(injection_rate, int | float):
        problems.add("injection_rate", "a number of flits per node and cycle", repr(injection_rate))
    elif isinstance(packet_size_flits, int) and not 0 < injection_rate <= packet_size_flits:
        problems.add(
            "injection_rate",
            f"more than 0 and at most packet_size_flits = {packet_size_flits} (a source creates at most one packet "
            "a cycle)",
            str(injection_rate),
        )
    names = config.class_names
    index = 0
    if message_class is not None:
        if not names:
            problems.add("message_class", "none (the network has no message classes)", repr(message_class))
        elif problems.choice("message_class", message_class, names):
            index = names.index(message_class)
    elif len(names) > 1:
        problems.add("message_class", f"one of {', '.join(names)}", "none")
    try:
        destinations = read_pattern(pattern, nodes, shape)
    except ConfigErrors as error:
        problems.found.extend(error.errors)
    else:
        chosen = config.classes[names[index]] if names else None
        if chosen is not None and chosen.session:
            problems.add("message_class", "a class of packets: sessions are for lists of packets", repr(message_class))
        elif destinations.dest_sets and (chosen is None or not chosen.multicast):
            problems.add("message_class", "a class with `multicast: true` for this pattern", repr(message_class))
        elif destinations.source_sets and (chosen is None or not chosen.reduction):
            problems.add("message_class", "a class with `reduction: true` for this pattern", repr(message_class))
    problems.raise_if_any()
    traffic = _core.TrafficSpec()
    traffic.dest_sets = [list(nodes_of) for nodes_of in destinations.dest_sets]
    traffic.source_sets = [list(nodes_of) for nodes_of in destinations.source_sets]
    traffic.permutation = list(destinations.permutation)
    traffic.nodes = list(destinations.nodes)
    traffic.weights = list(destinations.weights)
    traffic.injection_rate = injection_rate
    traffic.packet_size_flits = packet_size_flits
    traffic.message_class = index
    traffic.warmup_cycles = warmup_cycles
    traffic.measure_cycles = measure_cycles
    traffic.max_drain_cycles = max_drain_cycles
    traffic.seed = seed
    return traffic
