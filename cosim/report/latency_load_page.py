"""The self-contained page of a sweep over load: curve, runs, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cosim import __version__
from cosim.report.figures.figure import HEAT_STEPS, ReportFigure
from cosim.report.tables import TextTable

__all__ = ["SweepInfo", "render"]


@dataclass(frozen=True)
class SweepInfo:
    """What the head of the page says: a name, a sentence, and named values."""

    name: str
    description: str
    facts: tuple[tuple[str, str], ...]


def render(info: SweepInfo, curves: ReportFigure, table: TextTable) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("cosim.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("latency_load.html.j2").render(
        info=info,
        version=__version__,
        style=Markup(environment.get_template("report.css").render(heat_steps=HEAT_STEPS)),
        curves=curves,
        table=table,
        table_rows=lambda shown: [(False, row) for row in shown.rows],
        heat_steps=range(HEAT_STEPS),
    )
