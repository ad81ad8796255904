"""What a reader should know first: the fastest policy, the error of the analytical model, the bottleneck."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cosim.report import loads
from cosim.report.contents import ALL_POLICIES, RunContents
from cosim.report.figures import floorplan, stages
from cosim.report.vocabulary import ERROR, LATENCY, RANK_AGREEMENT, digits, percent, quantity


@dataclass(frozen=True)
class Finding:
    """One tile: a small heading, one large fact, one sentence below."""

    heading: str
    fact: str
    detail: str


def fastest(contents: RunContents) -> Finding | None:
    """The policy with the lowest mean layer latency at the highest rung, against the first policy listed."""
    rung = contents.top_rung
    order = loads.ranking(contents, LATENCY, rung)
    if not order:
        return None
    best, value = order[0]
    row = contents.metric(best, rung, LATENCY)
    assert row is not None
    shown = quantity(value, str(row["unit"]))
    if len(order) == 1:
        return Finding("Mean layer latency", shown, f"{best} at {rung}")
    base = contents.info.policies[0]
    if base == best or base not in dict(order):
        base = order[1][0]
    other = dict(order)[base]
    gain = (other - value) / other if other else math.nan
    return Finding("Fastest policy", best, f"{shown} a layer at {rung}, {percent(gain)} below {base}")


def analytic_error(contents: RunContents) -> Finding | None:
    """The range over the policies of the lowest rung's error against flit, and whether it ranks them alike."""
    rung = contents.rungs[0]
    errors = []
    for policy in contents.info.policies:
        row = contents.metric(policy, rung, ERROR)
        if row is not None and not math.isnan(float(row["value"])):
            errors.append(float(row["value"]))
    if not errors or rung == contents.top_rung:
        return None
    low, high = min(errors), max(errors)
    low_text, high_text = percent(low, signed=True), percent(high, signed=True)
    fact = low_text if low_text == high_text else f"{low_text} to {high_text}"
    side = "too little" if high < 0 else "too much" if low > 0 else "both too little and too much"
    detail = f"the {rung} rung promises {side} latency"
    rank = contents.metric(ALL_POLICIES, rung, RANK_AGREEMENT)
    if rank is not None and not math.isnan(float(rank["value"])):
        tau = float(rank["value"])
        verb = "ranks the policies as flit does" if tau == 1 else "does not rank the policies as flit does"
        detail += f"; it {verb} (tau-b {digits(tau, 2)})"
    return Finding(f"Error of {rung} against flit", fact, detail)


def bottleneck(contents: RunContents) -> Finding | None:
    """The largest stage of the fastest policy at the highest rung, and its busiest link and endpoints."""
    order = loads.ranking(contents, LATENCY, contents.top_rung)
    policy = order[0][0] if order else contents.info.policies[0]
    means = loads.stage_means(contents, policy, contents.top_rung)
    if means is None or means.total == 0:
        return None
    share = means.stages[means.largest] / means.total
    busiest = [f"{what} {percent(used)}" for what, used in busiest_of_each(contents, policy)]
    detail = f"of a mean layer of {policy}" + (f"; busiest {', '.join(busiest)}" if busiest else "")
    return Finding("Largest stage", f"{stages.label(means.largest)} {percent(share)}", detail)


def busiest_of_each(contents: RunContents, policy: str) -> list[tuple[str, float]]:
    """Utilisation of the busiest link and of the busiest endpoint of each kind, at the highest rung that has them."""
    out = []
    rung = floorplan.rung_with(contents, contents.links)
    if rung is not None:
        links = loads.link_loads(contents, policy, rung)
        out += [("link", float(used)) for used in links["utilisation"].head(1)]
    rung = floorplan.rung_with(contents, contents.chiplets)
    if rung is not None:
        chiplets = loads.chiplet_loads(contents, policy, rung)
        top = chiplets.groupby("kind", sort=True)["utilisation"].max()
        out += [(str(kind), float(used)) for kind, used in top.items() if used > 0]
    return out


def all_findings(contents: RunContents) -> list[Finding]:
    """The tiles of a run, those that it can fill."""
    made = (fastest(contents), analytic_error(contents), bottleneck(contents))
    return [finding for finding in made if finding is not None]
