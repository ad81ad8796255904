"""What several tests of the network ask of a result, and how they draw a router and break a law."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pandas as pd
from hypothesis import strategies as st

from cosim import _core
from cosim.noc import NetworkConfig
from cosim.noc.graph import build_spec


def core_network(description: dict[str, Any]) -> _core.FlitNetwork:
    """The network of the core that a description is built as."""
    return _core.FlitNetwork(build_spec(NetworkConfig.from_dict(description)))


def draw_pipeline(data: st.DataObject, most_credit_delay: int = 2) -> dict[str, int]:
    """Delays of a router, under the names of both the configuration and the slow models."""
    return {
        "routing_delay": data.draw(st.integers(0, 2)),
        "vc_alloc_delay": data.draw(st.integers(1, 2)),
        "sw_alloc_delay": data.draw(st.integers(1, 2)),
        "credit_delay": data.draw(st.integers(0, most_credit_delay)),
    }


def check_terms(frame: pd.DataFrame, terms: list[str]) -> None:
    """The terms of every latency add up to it, and none is negative."""
    parts = frame[[f"{term}_cycles" for term in terms]]
    assert (parts.sum(axis=1) == frame["packet_latency_cycles"]).all()
    assert (parts >= 0).all(axis=None)


def flits_sent(links: pd.DataFrame) -> dict[Any, int]:
    """Flits by (router, port), of the ports that sent any."""
    flits = links.groupby(["router", "port"])["flits"].sum()
    return {place: int(count) for place, count in flits.items() if count}


def run_with_fault(fault: str | None, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, with a fault point on or with none."""
    environment = {key: value for key, value in os.environ.items() if key != "COSIM_FAULT"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment if fault is None else {**environment, "COSIM_FAULT": fault},
        capture_output=True,
        text=True,
        check=False,
    )


def check_fault_is_reported(program: str, fault: str, says: str) -> None:
    """A program that prints "finished" ends as a broken conservation law in the words `says` when a fault is on."""
    healthy = run_with_fault(None, program)
    assert healthy.stdout.strip() == "finished", healthy.stderr
    broken = run_with_fault(fault, program)
    assert broken.returncode != 0
    assert "conservation law of the network broken" in broken.stderr
    assert says in broken.stderr
