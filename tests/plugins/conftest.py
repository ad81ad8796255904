"""What the tests of plug-ins share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of the shipped examples: of the checkout, or of the installed package."""
    from cosim.plugins import templates

    return templates.examples()
