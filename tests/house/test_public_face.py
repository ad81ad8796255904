"""The names that users and checks outside this repository call: they exist, take these arguments, are documented."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import cosim
import cosim.experiment

# dotted name below cosim: the parameters a call may name
CALLS = {
    "noc.Network": "config",
    "noc.Network.run_traffic": "injection_rate packet_size_flits warmup_cycles measure_cycles max_drain_cycles seed",
    "noc.Network.run_packets": "frame",
    "noc.NetworkConfig": "",
    "mem.Memory": "config",
    "mem.Memory.run_requests": "frame commands",
    "trace.load": "",
    "trace.RoutingTrace": "",
    "workload.packets": "model system placement layer",
    "Experiment.load": "",
    "Experiment.run": "policy rung",
    "Experiment.validate": "",
}
RESULTS = {
    "noc.TrafficResult": """offered_rate injected_rate accepted_rate packet_latency_mean_cycles
        network_latency_mean_cycles flit_latency_mean_cycles hops_mean stable undrained_packets flit_hops links""",
    "mem.MemoryRun": """requests commands total_cycles bandwidth_GBps peak_GBps read_latency_mean_cycles
        read_latency_mean_ns bound_by""",
    "experiment.Run": "layers groups links banks decisions",
    "experiment.Report": "metrics claims to_html",
}


def named(dotted: str) -> Any:
    return functools.reduce(getattr, dotted.split("."), cosim)


@pytest.mark.parametrize("dotted", CALLS)
def test_calls(dotted: str) -> None:
    target: Callable[..., object] = named(dotted)
    parameters = inspect.signature(target).parameters
    missing = set(CALLS[dotted].split()) - set(parameters)
    assert not missing, f"{dotted}{inspect.signature(target)} does not take {missing}"
    assert (target.__doc__ or "").strip()


@pytest.mark.parametrize("dotted", RESULTS)
def test_results(dotted: str) -> None:
    target = named(dotted)
    assert isinstance(target, type)
    fields = set(dir(target)) | set(getattr(target, "__dataclass_fields__", ()))
    missing = set(RESULTS[dotted].split()) - fields
    assert not missing, f"{dotted} has no {missing}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'cosim' has no attribute 'nocc'"):
        cosim.nocc  # noqa: B018


def test_rooms_are_imported_on_use() -> None:
    """`import cosim` stays quick: no pandas, no room."""
    loaded = "import sys, cosim; print(sorted(m for m in sys.modules if m.startswith('cosim') or m == 'pandas'))"
    run = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "['cosim', 'cosim._core']"
