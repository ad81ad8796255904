from __future__ import annotations

import pytest
import synthetic_run

from cosim.report.contents import RunContents


@pytest.fixture(scope="session")
def whole() -> RunContents:
    """Three policies at all five rungs."""
    return synthetic_run.contents()


@pytest.fixture(scope="session")
def small() -> RunContents:
    """Two policies at two rungs, one seed: quick to write and draw."""
    return synthetic_run.contents(
        policies=("static", "hot_replication"), rungs=("analytic", "flit"), seeds=(1,), batches=4, layers=2
    )
