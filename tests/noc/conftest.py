"""The BookSim2 figures of tests/reference/noc."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

REFERENCE = Path(__file__).parents[1] / "reference" / "noc"


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder of the reference figures."""
    return REFERENCE


@pytest.fixture(scope="session")
def latency_load() -> pd.DataFrame:
    """BookSim2's latency/load rows."""
    return pd.read_csv(REFERENCE / "latency_load.csv")
