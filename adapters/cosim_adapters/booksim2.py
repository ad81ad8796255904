"""A network experiment as BookSim2's configuration file, and BookSim2's printed statistics as numbers.

Keys and meanings are those of BookSim2 28f43299 (github.com/booksim/booksim2): one class, input-queued routers,
Bernoulli injection, `injection_rate` in flits. Its statistics are read from the block "Overall Traffic Statistics".
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosim.config.errors import ConfigError, ConfigErrors
from cosim.noc import NetworkConfig

__all__ = [
    "BatchStatistics",
    "BookSimStatistics",
    "export_batch",
    "export_traffic",
    "read_batch",
    "read_statistics",
    "run_booksim2",
]

TRAFFIC = {
    "uniform": "uniform",
    "transpose": "transpose",
    "bit_complement": "bitcomp",
    "bit_reversal": "bitrev",
    "shuffle": "shuffle",
    "tornado": "tornado",
    "neighbor": "neighbor",
}
# (our topology kind, our routing) -> BookSim2's topology and routing_function
ROUTING = {
    ("mesh", "dor"): ("mesh", "dor"),
    ("mesh", "min_adaptive"): ("mesh", "min_adapt"),
    ("torus", "dateline_booksim"): ("torus", "dim_order"),
    ("fat_tree", "nca"): ("fattree", "nca"),
}
SAME_NAME = (
    "num_vcs",
    "vc_buf_size",
    "routing_delay",
    "vc_alloc_delay",
    "sw_alloc_delay",
    "st_prepare_delay",
    "st_final_delay",
    "credit_delay",
    "priority",
)
# BookSim2 would otherwise end a run early, or count packets instead of flits
FIXED = {
    "router": "iq",
    "injection_rate_uses_flits": 1,
    "use_read_write": 0,
    "include_queuing": 1,
    "deadlock_warn_timeout": 20000,
    "sim_count": 1,
}
OPEN_LOOP = {
    "sim_type": "latency",
    "injection_process": "bernoulli",
    "stopping_thres": 0.0,
    "acc_stopping_thres": 0.0,
    "latency_thres": 100000.0,
}


@dataclass(frozen=True)
class BookSimStatistics:
    """One run of BookSim2: latencies in cycles, rates in flits per node and cycle, hops in routers visited.

    Hops are nan when the run ended as unstable.
    """

    packet_latency_mean_cycles: float
    network_latency_mean_cycles: float
    flit_latency_mean_cycles: float
    injected_rate: float
    accepted_rate: float
    hops_mean: float


@dataclass(frozen=True)
class BatchStatistics:
    """One batch: cycles from the start to the last tail's reading, and mean latencies in cycles."""

    duration_cycles: float
    packet_latency_mean_cycles: float
    network_latency_mean_cycles: float


def export_traffic(network: NetworkConfig, traffic: Mapping[str, Any], seed: int) -> str:
    """The text of a BookSim2 configuration file for Bernoulli traffic.

    Args:
        network: a mesh with `dor` or `min_adaptive`, a torus with `dateline_booksim`, or a k-ary n-tree with `nca`.
        traffic: the arguments of `Network.run_traffic`: pattern, injection_rate, packet_size_flits, warmup_cycles,
            measure_cycles.
        seed: BookSim2's seed.

    Raises:
        ConfigErrors: everything that BookSim2 cannot express.
    """
    refusals = _Refusals()
    keys = _network(network, refusals)
    keys["traffic"] = _pattern(traffic["pattern"], refusals)
    keys["packet_size"] = traffic.get("packet_size_flits", 1)
    keys["injection_rate"] = traffic["injection_rate"]
    keys.update(_windows(int(traffic.get("warmup_cycles", 4000)), int(traffic.get("measure_cycles", 10000)), refusals))
    refusals.raise_if_any()
    return _text({**keys, **FIXED, **OPEN_LOOP, "seed": seed})


def export_batch(
    network: NetworkConfig, pattern: str | Mapping[str, Any], packet_size_flits: int, batch_size: int, seed: int
) -> str:
    """The text of a BookSim2 configuration file for one batch: each node sends `batch_size` packets back to back.

    Raises:
        ConfigErrors: everything that BookSim2 cannot express.
    """
    refusals = _Refusals()
    keys = _network(network, refusals)
    keys["traffic"] = _pattern(pattern, refusals)
    refusals.raise_if_any()
    batch = {"sim_type": "batch", "packet_size": packet_size_flits, "batch_size": batch_size, "batch_count": 1}
    return _text({**keys, **FIXED, **batch, "seed": seed})


def run_booksim2(binary: Path, config: str, timeout_seconds: float) -> str:
    """What a BookSim2 binary prints for a configuration.

    Its exit status is not looked at: 255 means a good run and 0 an unstable one.

    Raises:
        OSError: the binary cannot be run.
        subprocess.TimeoutExpired: it has not ended in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "experiment.cfg"
        file.write_text(config, encoding="utf-8")
        command = [str(binary.resolve()), file.name]
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    return ended.stdout + ended.stderr


class _Refusals:
    """What BookSim2 cannot express, collected."""

    def __init__(self) -> None:
        self.found: list[ConfigError] = []

    def add(self, path: str, expected: str, got: object) -> None:
        self.found.append(ConfigError(None, None, None, path, f"{expected} (BookSim2 has no other)", str(got)))

    def raise_if_any(self) -> None:
        if self.found:
            raise ConfigErrors(self.found)


def _text(keys: Mapping[str, object]) -> str:
    return "".join(f"{key} = {value};\n" for key, value in keys.items())


def _network(network: NetworkConfig, refusals: _Refusals) -> dict[str, object]:
    keys: dict[str, object] = {**_topology(network, refusals), **{key: getattr(network, key) for key in SAME_NAME}}
    for stage in ("vc_allocator", "sw_allocator"):
        keys[stage] = _allocator(network, stage, refusals)
    if network.router.plugin is not None:
        refusals.add("network.router", "iq", "a plug-in")
    keys["speculative"] = int(network.speculative)
    keys["wait_for_tail_credit"] = int(network.wait_for_tail_credit)
    if network.link_depth_flits != network.vc_buf_size:
        refusals.add("network.link_buffer_flits", f"vc_buf_size = {network.vc_buf_size}", network.link_depth_flits)
    if len(network.classes) > 1:
        refusals.add("network.message_classes", "one class over all VCs", f"{len(network.classes)} classes")
    return keys


def _allocator(network: NetworkConfig, stage: str, refusals: _Refusals) -> str:
    """With its parameter: BookSim2's routers do not read alloc_iters and arb_type."""
    name = str(getattr(network, stage).name)
    if name == "plugin":
        refusals.add(f"network.{stage}", "one of islip, separable_input_first, separable_output_first", "a plug-in")
    return f"{name}({network.alloc_iters if name == 'islip' else network.arb_type})"


def _topology(network: NetworkConfig, refusals: _Refusals) -> dict[str, object]:
    topology: dict[str, Any] = network.topology.model_dump()
    kind, routing = topology["kind"], network.routing_name
    pair = ROUTING.get((kind, routing))
    if pair is None:
        known = ", ".join(f"{k} with {r}" for k, r in ROUTING)
        refusals.add("network.routing", f"one of {known}", f"{kind} with {routing}")
        return {}
    keys: dict[str, object] = {"topology": pair[0], "routing_function": pair[1], "use_noc_latency": 0}
    given: Any = network.link_latency
    latencies = set(given) if isinstance(given, tuple | list) else {given}
    if kind == "fat_tree":
        keys.update(k=topology["k"], n=topology["n"])
    else:
        shape = list(topology["shape"])
        if len(set(shape)) != 1:
            refusals.add("network.topology.shape", "the same number of routers in every dimension", shape)
        if topology["concentration"] != 1:
            refusals.add("network.topology.concentration", "1", topology["concentration"])
        keys.update(k=shape[0], n=len(shape))
    if kind == "torus" and latencies == {2}:
        keys["use_noc_latency"] = 1
    elif latencies != {1}:
        refusals.add("network.link_latency", "1, or 2 on a torus", sorted(latencies))
    return keys


def _pattern(pattern: str | Mapping[str, Any], refusals: _Refusals) -> str:
    given: Mapping[str, Any] = {"kind": pattern} if isinstance(pattern, str) else pattern
    kind = str(given["kind"])
    if kind == "hotspot":
        nodes = list(given["nodes"])
        weights = list(given.get("weights", [1] * len(nodes)))
        # single braces would keep the first node only
        lists = ("{" + ",".join(map(str, values)) + "}" for values in (nodes, weights))
        return "hotspot({" + ",".join(lists) + "})"
    if kind not in TRAFFIC:
        refusals.add("traffic.pattern", f"one of {', '.join((*TRAFFIC, 'hotspot'))}", kind)
    return TRAFFIC.get(kind, kind)


def _windows(warmup: int, measure: int, refusals: _Refusals) -> dict[str, object]:
    if warmup < 1:
        refusals.add("traffic.warmup_cycles", "at least one cycle", warmup)
        return {}
    period = math.gcd(warmup, measure)
    return {
        "sample_period": period,
        "warmup_periods": warmup // period,
        "max_samples": (warmup + measure) // period,
    }


_NAMES = {
    "packet_latency_mean_cycles": "Packet latency average",
    "network_latency_mean_cycles": "Network latency average",
    "flit_latency_mean_cycles": "Flit latency average",
    "injected_rate": "Injected flit rate average",
    "accepted_rate": "Accepted flit rate average",
    "hops_mean": "Hops average",
}
_BATCH_NAMES = {
    "duration_cycles": "Average batch duration",
    "packet_latency_mean_cycles": "Packet latency average",
    "network_latency_mean_cycles": "Network latency average",
}


def read_statistics(text: str) -> BookSimStatistics:
    """The statistics that BookSim2 printed at the end of a run of Bernoulli traffic.

    Raises:
        ValueError: the text holds no complete run; the message quotes what BookSim2 said last.
    """
    values = _values(text, _NAMES, optional="hops_mean")
    return BookSimStatistics(**{"hops_mean": math.nan, **values})


def read_batch(text: str) -> BatchStatistics:
    """The statistics that BookSim2 printed at the end of a batch.

    Raises:
        ValueError: the text holds no complete run; the message quotes what BookSim2 said last.
    """
    return BatchStatistics(**_values(text, _BATCH_NAMES))


def _values(text: str, names: Mapping[str, str], optional: str = "") -> dict[str, float]:
    _, found, overall = text.rpartition("Overall Traffic Statistics")
    values: dict[str, float] = {}
    for key, name in names.items():
        # a batch's duration stands before the block, alone on its line
        place = text if key == "duration_cycles" else overall if found else ""
        match = re.search(rf"^\s*{name} = (\S+)(?: \(\d+ samples?\))?$", place, re.MULTILINE)
        if match is not None:
            values[key] = float(match.group(1))
        elif key != optional:
            last = "\n".join(text.strip().splitlines()[-5:]) or "nothing"
            raise ValueError(f"BookSim2 printed no {name!r}; its last lines:\n{last}")
    return values
