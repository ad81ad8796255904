"""A self-contained page of figures and tables: what a sweep or a regression leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cosim import __version__
from cosim.report.figures.figure import HEAT_STEPS, ReportFigure
from cosim.report.tables import TextTable, grouped_rows

__all__ = ["PageInfo", "PageSection", "render"]


@dataclass(frozen=True)
class PageInfo:
    """What the head and foot of the page say.

    command: that made it. name, description: heading and sentence. facts: named values. beside: a file that lies next
    to the page, and what it is for.
    """

    command: str
    name: str
    description: str
    facts: tuple[tuple[str, str], ...]
    beside: tuple[str, str]


@dataclass(frozen=True)
class PageSection:
    """A heading with named paragraphs, figures and tables under it."""

    name: str
    heading: str
    figures: tuple[ReportFigure, ...] = ()
    tables: tuple[TextTable, ...] = ()
    paragraphs: tuple[tuple[str, str], ...] = ()


def render(info: PageInfo, sections: Sequence[PageSection]) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("cosim.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("figures.html.j2").render(
        info=info,
        version=__version__,
        style=Markup(environment.get_template("report.css").render(heat_steps=HEAT_STEPS)),
        sections=sections,
        table_rows=grouped_rows,
        heat_steps=range(HEAT_STEPS),
    )
