"""What every room's tests share: which tests can run here, said aloud, and the public routing recordings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Interpreters that tests start must find the installed package, not the folder `cosim` of a checkout they start in.
os.environ["PYTHONSAFEPATH"] = "1"

# The same examples every time and no limit on time, so that a busy machine fails nothing;
# `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")

PUBLIC_TRACES = "COSIM_PUBLIC_TRACES"
CHECKSUMS = Path(__file__).parent / "reference" / "public_traces" / "sha256sums.txt"
_DESELECTED = pytest.StashKey[dict[str, int]]()


def _faults_compiled() -> bool:
    from cosim import _core

    return bool(_core.faults_compiled)


def _cannot_run(item: pytest.Item, *, traces: bool, faults: bool) -> str | None:
    if not traces and item.get_closest_marker("public_traces"):
        return f"public_traces ({PUBLIC_TRACES} is not set)"
    if not faults and item.get_closest_marker("faults"):
        return "faults (this extension has no fault points: build with COSIM_FAULTS=ON)"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    traces = PUBLIC_TRACES in os.environ
    faults = _faults_compiled()
    counts: dict[str, int] = {}
    kept, dropped = [], []
    for item in items:
        reason = _cannot_run(item, traces=traces, faults=faults)
        if reason is None:
            kept.append(item)
        else:
            dropped.append(item)
            counts[reason] = counts.get(reason, 0) + 1
    if dropped:
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)
    config.stash[_DESELECTED] = counts
    worker = getattr(config, "workeroutput", None)
    if worker is not None:
        worker["cosim_deselected"] = counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Workers of pytest-xdist all collect the same tests: the counts of any one of them are the run's."""
    counts = getattr(node, "workeroutput", {}).get("cosim_deselected")
    if counts is not None:
        node.config.stash[_DESELECTED] = counts  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason, count in sorted(config.stash.get(_DESELECTED, {}).items()):
        terminalreporter.write_line(f"deselected {count} tests marked {reason}")


def _checksums() -> Iterable[tuple[str, str]]:
    for line in CHECKSUMS.read_text().splitlines():
        if line and not line.startswith("#"):
            digest, name = line.split(maxsplit=1)
            yield name, digest


@pytest.fixture(scope="session")
def public_trace() -> Callable[[str], Path]:
    """Path of one public recording by its name in sha256sums.txt; fails when it is missing or has other content."""
    digests = dict(_checksums())

    def find(name: str) -> Path:
        path = Path(os.environ[PUBLIC_TRACES]) / name
        if not path.is_file():
            pytest.fail(f"{PUBLIC_TRACES} is set but {name} is not in that folder")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != digests[name]:
            pytest.fail(f"{name}: sha256 {digest}, expected {digests[name]}")
        return path

    return find
