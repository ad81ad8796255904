"""The result of a run on the terminal: verdict first, then latency, traffic, and the claims one by one.

On a terminal the tables are drawn by rich; into a file or pipe the same cells go as aligned plain text without control
codes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cosim.report import verdicts
from cosim.report.contents import ALL_POLICIES, STAGES, RunContents
from cosim.report.vocabulary import (
    BALANCE,
    BYTES_DEFINITION,
    BYTES_PREFIX,
    CHANGED_CHOICES,
    ENERGY,
    ERROR,
    ERROR_ABS,
    ERROR_SOURCES,
    LATENCY,
    METRICS,
    PERCENTILES,
    RANK_AGREEMENT,
    REPLICA_FACTOR,
    SAME_ORDER,
    STACK_BALANCE,
    STAGE_ERROR_PREFIX,
    STAGE_ERROR_SUFFIX,
    TOP1_RETENTION,
    Scale,
    count,
    decimals,
    digits,
    percent,
    quantity,
    scale_for,
    units_needed,
)

TOO_SMALL = "n too small"
ABSENT = "–"

_VERDICT_WIDTH = 16
_STYLES = {"confirmed": "green", "refuted": "bold red", "inconclusive": "yellow", "not testable": "dim"}


@dataclass(frozen=True)
class TextTable:
    """Cells of one table; the first `left` columns are labels, all others are numbers and align right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 2


def grouped_rows(table: TextTable) -> list[tuple[bool, tuple[str, ...]]]:
    """The rows of a table, each with whether its first cell differs from the row above."""
    rows = table.rows
    return [(i == 0 or rows[i - 1][0] != row[0], row) for i, row in enumerate(rows)]


def cell(row: Mapping[str, Any] | None, scale: Scale | None = None, interval: bool = False) -> str:
    """One metric as a table cell: `–` where it was not measured, `n too small` where a percentile needs more units."""
    if row is None:
        return ABSENT
    value = float(row["value"])
    if math.isnan(value):
        return TOO_SMALL if row["metric"] in PERCENTILES else ABSENT
    scale = scale or Scale(str(row["unit"]), 1.0)
    text = digits(scale(value))
    low, high = float(row["ci_low"]), float(row["ci_high"])
    if interval and not math.isnan(low) and not math.isnan(high):
        text += f" [{digits(scale(low))}, {digits(scale(high))}]"
    return text


def _pairs(contents: RunContents) -> list[tuple[str, str]]:
    present = set(zip(contents.metrics["policy"], contents.metrics["rung"], strict=True))
    return [(p, r) for p in contents.info.policies for r in contents.rungs if (p, r) in present]


def _column(contents: RunContents, metrics: Sequence[str]) -> tuple[str, list[float]]:
    rows = contents.metrics[contents.metrics["metric"].isin(metrics)]
    units = sorted(set(rows["unit"]))
    if len(units) > 1:
        raise ValueError(f"metrics {', '.join(metrics)}: expected one unit, got {', '.join(units)}")
    return (units[0] if units else METRICS[metrics[0]].unit), [float(v) for v in rows["value"]]


def latency_table(contents: RunContents) -> TextTable:
    """Mean with its interval, percentiles and the error against flit, one row per policy and rung."""
    names = [LATENCY, *PERCENTILES]
    unit, values = _column(contents, names)
    scale = scale_for(values, unit)
    header = (
        "policy",
        "rung",
        f"mean [95 % CI] {scale.unit}",
        *(f"{METRICS[name].label} {scale.unit}" for name in PERCENTILES),
        "vs flit",
        "units",
    )
    rows = []
    small: set[str] = set()
    for policy, rung in _pairs(contents):
        mean = contents.metric(policy, rung, LATENCY)
        tail = []
        for name in PERCENTILES:
            row = contents.metric(policy, rung, name)
            text = cell(row, scale)
            if text == TOO_SMALL:
                small.add(name)
            tail.append(text)
        error = contents.metric(policy, rung, ERROR)
        against = ABSENT if error is None else percent(float(error["value"]), signed=True)
        n = ABSENT if mean is None else f"{int(mean['n']):,}"
        rows.append((policy, rung, cell(mean, scale, interval=True), *tail, against, n))
    notes = [f"layer latency: {METRICS[LATENCY].definition}; scope {contents.info.scope}"]
    if any(row[-2] != ABSENT for row in rows):
        notes.append(f"vs flit: {METRICS[ERROR].definition}")
    for name in PERCENTILES:
        if name in small:
            needed = units_needed(PERCENTILES[name])
            notes.append(f"{METRICS[name].label}: {TOO_SMALL}, it needs n ≥ {needed:,} units")
    return TextTable("Layer latency", header, tuple(rows), tuple(notes))


def traffic_table(contents: RunContents) -> TextTable | None:
    """Bytes by message class, balance, replica factor and energy; None where the run measured none of them."""
    present = set(contents.metrics["metric"])
    classes = sorted(name for name in present if name.startswith(BYTES_PREFIX))
    others = [
        name
        for name in (BALANCE, STACK_BALANCE, REPLICA_FACTOR, CHANGED_CHOICES, TOP1_RETENTION, ENERGY)
        if name in present
    ]
    if not classes and not others:
        return None
    scales = {}
    for name in classes:
        unit, values = _column(contents, [name])
        scales[name] = scale_for(values, unit)
    energy_unit, energies = _column(contents, [ENERGY]) if ENERGY in present else ("J", [])
    energy_scale = scale_for(energies, energy_unit)
    header = (
        "policy",
        "rung",
        *(f"{name.removeprefix(BYTES_PREFIX)} {scales[name].unit}" for name in classes),
        *(f"{METRICS[name].label} {energy_scale.unit}" if name == ENERGY else METRICS[name].label for name in others),
    )
    rows = []
    for policy, rung in _pairs(contents):
        cells = [cell(contents.metric(policy, rung, name), scales[name]) for name in classes]
        cells += [
            cell(contents.metric(policy, rung, name), energy_scale if name == ENERGY else None) for name in others
        ]
        if any(text != ABSENT for text in cells):
            rows.append((policy, rung, *cells))
    notes = [BYTES_DEFINITION] if classes else []
    if BALANCE in others:
        notes.append(f"balance: {contents.info.balance_definition}")
    notes += [f"{METRICS[name].label}: {METRICS[name].definition}" for name in others if name != BALANCE]
    return TextTable("Traffic, balance and energy", header, tuple(rows), tuple(notes))


def error_table(contents: RunContents) -> TextTable | None:
    """Signed and absolute error of every rung against flit; None where the run has no rung to compare."""
    rows = []
    for policy, rung in _pairs(contents):
        signed, absolute = (contents.metric(policy, rung, name) for name in (ERROR, ERROR_ABS))
        if signed is not None or absolute is not None:
            rows.append((policy, rung, _share(signed, signed=True), _share(absolute)))
    if not rows:
        return None
    notes = tuple(f"{METRICS[name].label}: {METRICS[name].definition}" for name in (ERROR, ERROR_ABS))
    return TextTable("Error of each rung against flit", ("policy", "rung", "signed", "absolute"), tuple(rows), notes)


def attribution_table(contents: RunContents) -> TextTable | None:
    """The error of link split into network, memory and their interaction; None where no mixed rungs ran."""
    rows = []
    for policy in contents.info.policies:
        parts = [contents.metric(policy, "link", name) for name in ERROR_SOURCES]
        if any(part is not None for part in parts):
            whole = contents.metric(policy, "link", ERROR)
            rows.append((policy, *(_share(part, signed=True) for part in (whole, *parts))))
    if not rows:
        return None
    header = ("policy", "error of link", *(METRICS[name].label for name in ERROR_SOURCES))
    notes = tuple(f"{METRICS[name].label}: {METRICS[name].definition}" for name in ERROR_SOURCES)
    return TextTable("Where the error of link comes from", header, tuple(rows), notes, left=1)


def sweep_tables(contents: RunContents) -> list[TextTable]:
    """Mean and P95 layer latency at every point, one table an axis, one column a point in ascending order."""
    made = []
    for axis, frame in contents.points.groupby("axis", sort=True):
        wanted = frame[frame["metric"].isin([LATENCY, "layer_latency_p95"])]
        places = wanted.drop_duplicates("position").sort_values("position")
        records = wanted.to_dict("records")
        cells = {(r["policy"], r["rung"], r["position"], r["metric"]): r for r in records}
        scale = scale_for([float(r["value"]) for r in records], "ns")
        rows = []
        for policy, rung in _pairs(contents):
            row = []
            for position in places["position"]:
                mean, tail = (cells.get((policy, rung, position, name)) for name in (LATENCY, "layer_latency_p95"))
                row.append(ABSENT if mean is None else f"{cell(mean, scale)} / {cell(tail, scale)}")
            if any(text != ABSENT for text in row):
                rows.append((policy, rung, *row))
        header = ("policy", "rung", *(str(label) for label in places["point"]))
        note = f"mean / P95 layer latency in {scale.unit}; the base experiment stands among the points of a number"
        made.append(TextTable(f"Sweep over {axis}", header, tuple(rows), (note,)))
    return made


def _share(row: Mapping[str, Any] | None, signed: bool = False) -> str:
    """A fraction as per cent with its interval."""
    if row is None or math.isnan(float(row["value"])):
        return ABSENT
    text = percent(float(row["value"]), signed)
    low, high = float(row["ci_low"]), float(row["ci_high"])
    if math.isnan(low) or math.isnan(high):
        return text
    bounds = (percent(end, signed).removesuffix(" %") for end in (low, high))
    return f"{text.removesuffix(' %')} [{', '.join(bounds)}] %"


def rank_table(contents: RunContents) -> TextTable | None:
    """How well each rung orders the policies as flit does; None where the run did not compare them."""
    rows = []
    for rung in contents.rungs:
        row = contents.metric(ALL_POLICIES, rung, RANK_AGREEMENT)
        if row is not None:
            same = contents.metric(ALL_POLICIES, rung, SAME_ORDER)
            word = ABSENT if same is None else "yes" if same["value"] == 1 else "no"
            rows.append((rung, digits(float(row["value"]), 3), word, f"{int(row['n'])}"))
    if not rows:
        return None
    return TextTable(
        "Rank agreement of the policies with flit",
        ("rung", "tau-b", "same order", "policies"),
        tuple(rows),
        (METRICS[RANK_AGREEMENT].definition,),
        left=1,
    )


def is_stage_error(metric: str) -> bool:
    """Whether a metric is the difference of a stage's mean from flit."""
    return metric.startswith(STAGE_ERROR_PREFIX) and metric.endswith(STAGE_ERROR_SUFFIX)


def other_table(contents: RunContents) -> TextTable | None:
    """Every metric that has no place elsewhere, under its own name; None where there is none."""
    placed = {*METRICS}
    rows = []
    for record in contents.metrics.to_dict("records"):
        name = str(record["metric"])
        if name in placed or name.startswith(BYTES_PREFIX) or is_stage_error(name):
            continue
        low, high = float(record["ci_low"]), float(record["ci_high"])
        span = "" if math.isnan(low) or math.isnan(high) else f" [{digits(low)}, {digits(high)}]"
        rows.append(
            (
                name,
                str(record["policy"]),
                str(record["rung"]),
                digits(float(record["value"])) + span,
                str(record["unit"]),
                f"{record['n']:,}",
            )
        )
    if not rows:
        return None
    return TextTable("Further metrics", ("metric", "policy", "rung", "value", "unit", "n"), tuple(rows), left=3)


def stage_error_table(contents: RunContents) -> TextTable | None:
    """Difference of each stage's mean from flit, one column per stage; None where the run has none."""
    stages = [
        stage
        for stage in STAGES
        if (contents.metrics["metric"] == f"{STAGE_ERROR_PREFIX}{stage}{STAGE_ERROR_SUFFIX}").any()
    ]
    names = [f"{STAGE_ERROR_PREFIX}{stage}{STAGE_ERROR_SUFFIX}" for stage in stages]
    if not names:
        return None
    unit, values = _column(contents, names)
    scale = scale_for(values, unit)
    rows = []
    for policy, rung in _pairs(contents):
        found = [contents.metric(policy, rung, name) for name in names]
        if any(row is not None for row in found):
            cells = (ABSENT if row is None else decimals(scale(float(row["value"])), 3) for row in found)
            rows.append((policy, rung, *cells))
    header = ("policy", "rung", *(f"{stage.replace('_', ' ')} {scale.unit}" for stage in stages))
    notes = ("difference of the stage's mean from that of flit; negative: the rung promises too little",)
    return TextTable("Stage by stage: difference from flit", header, tuple(rows), notes)


def claim_lines(claim: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """A claim as its verdict, its title, and the lines below: statement, published and measured, reason."""
    unit, kind = str(claim["unit"]), str(claim["kind"])
    found = "; ".join(f"{m.rung} {m.text(unit, kind)}" for m in verdicts.measured(claim)) or "nothing"
    verdict = str(claim["verdict"])
    lines = [
        f"{claim['statement']} ({claim['source']})",
        f"published {verdicts.published_text(claim)}; measured {found}",
        str(claim["reason"]),
    ]
    if needs := verdicts.needs_text(claim):
        lines.append(f"needs {needs}")
    return (
        f"{verdicts.MARKS[verdict]} {verdicts.WORDS[verdict]}",
        f"{claim['id']} ({kind}, scope {claim['scope']})",
        lines,
    )


def figures_line(contents: RunContents) -> list[str]:
    """What each rung simulated, one line per rung."""
    lines = []
    for rung in contents.rungs:
        shown = [
            f"{figure.name} {count(figure.value) if figure.unit == '1' else quantity(figure.value, figure.unit)}"
            for figure in contents.info.figures
            if figure.rung == rung
        ]
        if shown:
            lines.append(f"{rung}: {', '.join(shown)}")
    return lines


def all_tables(contents: RunContents) -> list[TextTable]:
    """The tables of a run in the order in which they are read."""
    made = (
        latency_table(contents),
        traffic_table(contents),
        error_table(contents),
        stage_error_table(contents),
        attribution_table(contents),
        rank_table(contents),
        other_table(contents),
    )
    return [*(table for table in made if table is not None), *sweep_tables(contents)]


def _context(contents: RunContents) -> list[str]:
    info = contents.info
    lines = [
        f"{info.name}: {info.description}" if info.description else info.name,
        f"model {info.model}; trace {info.trace_name} ({info.trace}); "
        f"profile {info.profile}, evaluate {info.evaluate}; "
        f"scope {info.scope}; seeds {', '.join(map(str, info.seeds))}; sampling {info.sampling}",
    ]
    if info.assumed:
        lines.append("assumed: " + ", ".join(f"{key} = {value}" for key, value in info.assumed.items()))
    return lines


def print_report(contents: RunContents, stream: TextIO | None = None) -> None:
    """Prints a run to `stream`, standard output by default."""
    stream = stream if stream is not None else sys.stdout
    if stream.isatty():
        _print_rich(contents, Console(file=stream))
    else:
        stream.write(plain_report(contents))


def print_tables(made: Sequence[TextTable], stream: TextIO | None = None) -> None:
    """Prints tables to `stream`, standard output by default."""
    stream = stream if stream is not None else sys.stdout
    if stream.isatty():
        console = Console(file=stream)
        for table in made:
            _print_table(table, console)
    else:
        stream.write("\n" + "\n\n".join(plain_table(table) for table in made) + "\n")


def _print_table(table: TextTable, console: Console) -> None:
    drawn = Table(title=table.title, title_justify="left", title_style="bold", header_style="bold")
    for i, name in enumerate(table.header):
        drawn.add_column(name, justify="left" if i < table.left else "right", overflow="fold")
    for i, row in enumerate(table.rows):
        last = i + 1 == len(table.rows) or table.rows[i + 1][0] != row[0]
        drawn.add_row(*(Text(text) for text in row), end_section=last and table.left == 2)
    console.print()
    console.print(drawn)
    for note in table.notes:
        console.print(Text(f"  {note}", style="dim"))


def _simulated(contents: RunContents) -> list[str]:
    """What each rung simulated, and how much of it was skipped."""
    return [*figures_line(contents), *(f"{rung}: {text}" for rung, text in contents.skipping.items())]


def plain_report(contents: RunContents) -> str:
    """A run as aligned plain text without control codes."""
    parts = ["\n".join(_context(contents))]
    parts += [plain_table(table) for table in all_tables(contents)]
    parts += ["Simulated\n" + "\n".join(f"  {line}" for line in lines) for lines in [_simulated(contents)] if lines]
    if contents.claims:
        block = ["Claims (measured with 95 % intervals)"]
        for claim in contents.claims:
            verdict, title, lines = claim_lines(claim)
            block.append(f"{verdict:<{_VERDICT_WIDTH}}{title}")
            block += [" " * _VERDICT_WIDTH + line for line in lines]
        parts.append("\n".join(block))
    parts += [f"Warning: {text}" for text in contents.info.warnings]
    parts.append(verdicts.headline(contents.claims) + ".")
    return "\n\n".join(parts) + "\n"


def plain_table(table: TextTable) -> str:
    """A table as aligned plain text, its notes below."""
    widths = [max(len(row[i]) for row in (table.header, *table.rows)) for i in range(len(table.header))]

    def line(cells: tuple[str, ...]) -> str:
        placed = [
            text.ljust(width) if i < table.left else text.rjust(width)
            for i, (text, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(placed).rstrip()

    body = [table.title, line(table.header), line(tuple("-" * width for width in widths))]
    body += [line(row) for row in table.rows]
    body += [f"  {note}" for note in table.notes]
    return "\n".join(body)


def _print_rich(contents: RunContents, console: Console) -> None:
    context = _context(contents)
    console.print(Text(context[0], style="bold"))
    for line in context[1:]:
        console.print(Text(line, style="dim"))
    for table in all_tables(contents):
        _print_table(table, console)
    lines = _simulated(contents)
    if lines:
        console.print()
        console.print(Text("Simulated", style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"))
    if contents.claims:
        console.print()
        console.print(_claims_grid(contents))
    for text in contents.info.warnings:
        console.print(Text(f"Warning: {text}", style="yellow"))
    console.print()
    console.print(Text(verdicts.headline(contents.claims) + ".", style="bold"))


def _claims_grid(contents: RunContents) -> Table:
    grid = Table(title="Claims (measured with 95 % intervals)", title_justify="left", title_style="bold")
    grid.add_column("verdict", no_wrap=True)
    grid.add_column("claim", overflow="fold")
    for claim in contents.claims:
        verdict, title, lines = claim_lines(claim)
        body = Text(title, style="bold")
        body.append("\n" + "\n".join(lines), style="not bold")
        grid.add_row(Text(verdict, style=_STYLES[verdict[2:]]), body, end_section=True)
    return grid
