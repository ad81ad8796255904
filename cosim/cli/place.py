"""``cosim place``: placements of experts, searched from an experiment, priced, or written for a serving engine."""

from __future__ import annotations

import click

from cosim.cli.place_engine import engine
from cosim.cli.place_errors import errors
from cosim.cli.place_gamma import gamma
from cosim.cli.place_group import group
from cosim.cli.place_search import search

__all__ = ["place"]


@click.group()
def place() -> None:
    """Compute placements of experts, fit what their communication costs, and write them for serving engines."""


place.add_command(search)
place.add_command(group)
place.add_command(gamma)
place.add_command(errors)
place.add_command(engine)
