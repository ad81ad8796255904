"""``cosim place``: placements of experts, searched from an experiment or written for a serving engine."""

from __future__ import annotations

import click

from cosim.cli.place_engine import engine
from cosim.cli.place_group import group
from cosim.cli.place_search import search

__all__ = ["place"]


@click.group()
def place() -> None:
    """Compute placements of experts, and write them for serving engines."""


place.add_command(search)
place.add_command(group)
place.add_command(engine)
