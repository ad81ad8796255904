"""What the tests of adapters share."""

from __future__ import annotations

import pytest

from cosim import trace
from cosim.trace import RoutingTrace


@pytest.fixture(scope="session")
def sample() -> RoutingTrace:
    return trace.load("sample")
