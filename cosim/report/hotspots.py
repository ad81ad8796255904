"""Why a policy is slow: its busiest links, banks and experts, and what held them up."""

from __future__ import annotations

from dataclasses import dataclass

from cosim.report import loads
from cosim.report.contents import STALLS, RunContents
from cosim.report.figures import floorplan, stages
from cosim.report.tables import TextTable
from cosim.report.vocabulary import LATENCY, digits, percent, quantity, scale_for

ROWS = 5


@dataclass(frozen=True)
class Hotspots:
    """One policy's explanation: a sentence and the tables behind it."""

    policy: str
    latency: str
    sentences: tuple[str, ...]
    tables: tuple[TextTable, ...]


def of_policy(contents: RunContents, policy: str) -> Hotspots:
    """The explanation of one policy at the highest rung that recorded each kind of load."""
    sentences: list[str] = []
    tables: list[TextTable] = []
    rung = contents.top_rung
    row = contents.metric(policy, rung, LATENCY)
    latency = "" if row is None else quantity(float(row["value"]), str(row["unit"]))
    means = loads.stage_means(contents, policy, rung)
    if means is not None and means.total:
        order = sorted(means.stages.items(), key=lambda pair: -pair[1])[:2]
        parts = " and ".join(f"{stages.label(name)} ({percent(value / means.total)})" for name, value in order if value)
        sentences.append(f"At {rung} most of a layer goes into {parts}.")
    for sentence, table in (_links(contents, policy), _banks(contents, policy), _experts(contents, policy)):
        if sentence:
            sentences.append(sentence)
        if table is not None:
            tables.append(table)
    return Hotspots(policy, latency, tuple(sentences), tuple(tables))


def _links(contents: RunContents, policy: str) -> tuple[str, TextTable | None]:
    rung = floorplan.rung_with(contents, contents.links)
    if rung is None:
        return "", None
    found = loads.link_loads(contents, policy, rung)
    if found.empty:
        return "", None
    rows = []
    for rank, row in enumerate(found.head(ROWS).to_dict("records"), start=1):
        rows.append(
            (
                str(rank),
                str(row["name"]),
                percent(float(row["utilisation"])),
                *(percent(float(row[f"stall_{cause}"])) for cause in STALLS),
                f"{row['top_class']} {percent(float(row['top_class_share']))}",
            )
        )
    first = found.to_dict("records")[0]
    sentence = (
        f"The busiest link, {first['name']}, carries flits in {percent(float(first['utilisation']))} of its cycles, "
        f"mostly {first['top_class']}; stalls: {floorplan.stall_text(first)}."
    )
    table = TextTable(
        f"Busiest links ({rung})",
        ("", "link", "busy", "no credit", "lost arbitration", "busy VC", "main class"),
        tuple(rows),
        ("per cent of observed cycles; stalls are cycles in which a ready flit did not leave, by cause",),
    )
    return sentence, table


def _banks(contents: RunContents, policy: str) -> tuple[str, TextTable | None]:
    rung = floorplan.rung_with(contents, contents.banks)
    if rung is None:
        return "", None
    found = loads.bank_loads(contents, policy, rung)
    if found.empty:
        return "", None
    rows = []
    for rank, row in enumerate(found.head(ROWS).to_dict("records"), start=1):
        shares = (percent(float(row[name])) for name in ("share", "row_hit", "row_conflict", "open"))
        rows.append((str(rank), str(row["name"]), quantity(float(row["bytes"]), "B", 3), *shares))
    first = found.iloc[0]
    sentence = (
        f"The busiest bank, {first['name']}, moved {percent(float(first['share']))} of its pseudo-channel's bytes; "
        f"{percent(float(first['row_conflict']))} of its accesses conflict with an open row."
    )
    table = TextTable(
        f"Busiest banks ({rung})",
        ("", "bank", "bytes", "of channel", "row hits", "row conflicts", "row open"),
        tuple(rows),
        (
            "of channel: share of the pseudo-channel's bytes; row hits and conflicts: per cent of accesses; "
            "row open: per cent of observed cycles in which a row was open or changing",
        ),
    )
    return sentence, table


def _experts(contents: RunContents, policy: str) -> tuple[str, TextTable | None]:
    rung = floorplan.rung_with(contents, contents.experts)
    if rung is None:
        return "", None
    found = loads.expert_loads(contents, policy, rung)
    if found.empty:
        return "", None
    top = found.head(ROWS)
    parts = ("queue_fs", "memory_fs", "compute_fs")
    scale = scale_for([float(v) for part in parts for v in top[part]], "fs")
    rows = []
    for rank, row in enumerate(top.to_dict("records"), start=1):
        times = (digits(scale(float(row[part])), 3) for part in parts)
        rows.append(
            (
                str(rank),
                f"layer {row['layer']} expert {row['expert']}",
                f"{int(row['tokens']):,}",
                *times,
                row["endpoints"],
            )
        )
    first = top.iloc[0]
    sentence = (
        f"Most time went into expert {first['expert']} of layer {first['layer']} ({int(first['tokens']):,} tokens, at "
        f"{first['endpoints']}); its largest part is {first['largest']}."
    )
    table = TextTable(
        f"Experts that took most time ({rung})",
        ("", "expert", "tokens", *(f"{part.removesuffix('_fs')} {scale.unit}" for part in parts), "at"),
        tuple(rows),
        ("queue, memory and compute: means per token group; sorted by their sum over all groups",),
    )
    return sentence, table
