"""The self-contained HTML report of a run: no script, no network, light, dark and print from one page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cosim import __version__
from cosim.report import findings, hotspots, tables, verdicts
from cosim.report.contents import VERDICTS, RunContents
from cosim.report.figures import banks, claims, distribution, floorplan, rungs, stages
from cosim.report.figures.figure import HEAT_STEPS, ReportFigure
from cosim.report.tables import grouped_rows

MOST_BYTES = 3_000_000
"""A report is smaller than this whatever the run: figures leave panels out before they grow beyond it."""


@dataclass(frozen=True)
class ClaimView:
    """One claim as the page shows it."""

    id: str
    verdict: str
    word: str
    mark: str
    title: str
    statement: str
    source: str
    scope: str
    kind: str
    published: str
    measured: tuple[tuple[str, str, bool], ...]
    reason: str
    needs: str
    chart: Markup | None


def _claim_view(claim: Mapping[str, Any], number: int) -> ClaimView:
    verdict = str(claim["verdict"])
    unit, kind = str(claim["unit"]), str(claim["kind"])
    judged = verdicts.judged_rung(claim)
    chart = claims.chart(claim, f"claim-{number}")
    return ClaimView(
        id=str(claim["id"]),
        verdict=verdict,
        word=verdicts.WORDS[verdict],
        mark=verdicts.MARKS[verdict],
        title=str(claim["id"]).replace("-", " ").replace("_", " "),
        statement=str(claim["statement"]),
        source=str(claim["source"]),
        scope=str(claim["scope"]),
        kind=kind,
        published=verdicts.published_text(claim),
        measured=tuple((m.rung, m.text(unit, kind), m.rung == judged) for m in verdicts.measured(claim)),
        reason=str(claim["reason"]),
        needs=verdicts.needs_text(claim),
        chart=None if chart is None else Markup(chart),
    )


@dataclass(frozen=True)
class VerdictCount:
    """How many claims got one verdict."""

    verdict: str
    word: str
    mark: str
    count: int


@dataclass(frozen=True)
class Download:
    """Data that a table offers: the name to save it under and its `data:` URI."""

    file: str
    uri: str


def csv_download(name: str, body: bytes) -> Download:
    """A CSV file inside the page."""
    return Download(f"{name}.csv", f"data:text/csv;charset=utf-8;base64,{base64.b64encode(body).decode()}")


def report_figures(contents: RunContents) -> dict[str, list[ReportFigure]]:
    """All figures of a run by the section that shows them; sections that the run cannot fill are empty."""
    made: dict[str, Sequence[ReportFigure | None]] = {
        "stages": [stages.draw(contents)],
        "rungs": [rungs.draw(contents), rungs.draw_stages(contents)],
        "distribution": [distribution.draw(contents)],
        "links": floorplan.draw_links(contents),
        "chiplets": [floorplan.draw_chiplets(contents)],
        "banks": [banks.draw(contents)],
    }
    return {key: [figure for figure in value if figure is not None] for key, value in made.items()}


def render(contents: RunContents, incomplete: str | None = None) -> str:
    """The page. `incomplete` is the reason why the run did not end, shown on top."""
    environment = Environment(
        loader=PackageLoader("cosim.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    counts = verdicts.counts(contents.claims)
    views = [_claim_view(claim, number) for number, claim in enumerate(contents.claims)]
    folds = sum(not view.measured for view in views) > MOST_UNMEASURED
    return environment.get_template("report.html.j2").render(
        info=contents.info,
        version=__version__,
        incomplete=incomplete,
        style=Markup(environment.get_template("report.css").render(heat_steps=HEAT_STEPS)),
        headline=verdicts.headline(contents.claims),
        counts=[VerdictCount(v, verdicts.WORDS[v], verdicts.MARKS[v], counts[v]) for v in VERDICTS if counts[v]],
        findings=findings.all_findings(contents),
        claims=[view for view in views if not folds or view.measured],
        folded=[view for view in views if folds and not view.measured],
        claims_data=csv_download("claims", claims.data(contents).to_csv(index=False, lineterminator="\n").encode()),
        metrics_data=csv_download("metrics", contents.metrics.to_csv(index=False, lineterminator="\n").encode()),
        latency=tables.latency_table(contents),
        traffic=tables.traffic_table(contents),
        fidelity=[
            table
            for table in (
                tables.attribution_table(contents),
                tables.error_table(contents),
                tables.stage_error_table(contents),
                tables.rank_table(contents),
            )
            if table is not None
        ],
        others=tables.other_table(contents),
        figures=report_figures(contents),
        hotspots=_hotspots(contents),
        simulated=tables.figures_line(contents),
        heat_steps=range(HEAT_STEPS),
        sections=SECTIONS,
        table_rows=grouped_rows,
    )


MOST_UNMEASURED = 8
"""Claims of which nothing was measured that stand among the others; more are folded behind them."""

SECTIONS = (
    ("claims", "Claims"),
    ("policies", "Policies"),
    ("fidelity", "Fidelity"),
    ("why", "Why is it slow"),
    ("maps", "Maps"),
    ("run", "The run"),
)


def _hotspots(contents: RunContents) -> list[hotspots.Hotspots]:
    return [hotspots.of_policy(contents, policy) for policy in contents.info.policies]
