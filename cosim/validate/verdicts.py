"""From claims and samples to verdicts, by one rule.

At the highest rung that ran: confirmed where the whole 95 % interval lies within the tolerance of the
published figure, refuted where it lies outside, else inconclusive. Orders and trends: the share of paired
bootstrap resamples in which they hold, at least 0.95 or at most 0.05. Not testable only with the missing
input named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cosim.config.errors import did_you_mean
from cosim.validate.claims import (
    LAYER_SCOPES,
    Claim,
    ClaimFile,
    OrderClaim,
    RatioClaim,
    TrendClaim,
    ValueClaim,
)
from cosim.validate.expression import Expression, Term, Values
from cosim.validate.points import MeasuredRun
from cosim.validate.samples import NotMeasuredError, Samples, known_rungs
from cosim.validate.statistics import interval, theil_sen

CONFIRM = 0.95
REFUTE = 0.05

#: Rungs in the order of fidelity; the last one of a claim's own rungs stands for it in claims.json.
_LADDER = ("analytic", "link", "link+command", "flit+rate", "flit")


@dataclass(frozen=True)
class RunScope:
    """What a run can answer for.

    name:     the experiment, against which a claim's ``experiment`` is held; None accepts every claim
    scope:    routed, moe or model
    analytic: analytical model to rung, as made by cosim.analytic.analytic_rungs
    """

    name: str | None
    scope: str
    analytic: Mapping[str, str]


@dataclass(frozen=True)
class _Answer:
    """A claim at one rung: figures for claims.json, and what they mean."""

    value: float
    low: float | None
    high: float | None
    n: int
    verdict: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {"value": _finite(self.value), "ci_low": self.low, "ci_high": self.high, "n": self.n}


def together(
    claims: ClaimFile, judged: Sequence[tuple[str | None, Sequence[Mapping[str, Any]]]]
) -> list[dict[str, Any]]:
    """One entry per claim from several runs, each the name of an experiment and its entries, the main one first.

    A claim is answered by the experiment it names, else by the first that has a verdict; where none has, the main one
    says what is missing.
    """
    entries = [{entry["id"]: entry for entry in found} for _, found in judged]
    names = [name for name, _ in judged]
    chosen = []
    for claim in claims.claims:
        at = names.index(claim.experiment) if claim.experiment in names else None
        if at is None:
            tested = (i for i, found in enumerate(entries) if found[claim.id]["verdict"] != "not_testable")
            at = next(tested, 0)
        chosen.append(dict(entries[at][claim.id]))
    return chosen


def judge(claims: ClaimFile, samples: Samples | MeasuredRun, run: RunScope) -> list[dict[str, Any]]:
    """The entries of claims.json, in the order of the file."""
    measured = samples if isinstance(samples, MeasuredRun) else MeasuredRun(samples, {})
    return [_judge(claim, measured, run) for claim in claims.claims]


def _judge(claim: Claim, samples: MeasuredRun, run: RunScope) -> dict[str, Any]:
    rungs: dict[str, dict[str, Any]] = {}
    needs = [*claim.needs, *_foreign(claim, run)]
    verdict, reason = "not_testable", ""
    if not needs:
        answer: _Answer | None = None
        for label, rung in _rungs(claim, samples, run).items():
            try:
                answer = _answer(claim, samples, rung)
            except NotMeasuredError as missing:
                answer, needs = None, [_with_hint(missing.needs, claim, samples)]
            else:
                rungs[label] = answer.as_json()
                needs = []
        if answer is not None:
            verdict = answer.verdict
            label = list(rungs)[-1]
            reason = f"{answer.reason} at {label}"
            if verdict == "refuted":
                reason += _stage_at_fault(claim, samples, run, label)
        elif not needs:
            needs = ["a run at one of the rungs analytic, link, flit"]
    if verdict == "not_testable":
        reason = "missing: " + "; ".join(needs)
    return {
        "id": claim.id,
        "scope": claim.scope,
        "statement": claim.statement,
        "kind": claim.kind,
        "source": claim.source + (" (derived)" if claim.stated == "derived" else ""),
        "published": claim.published_json(),
        "tolerance": claim.tolerance_json(),
        "unit": claim.unit_json(),
        "rungs": rungs,
        "verdict": verdict,
        "reason": reason,
        "needs": needs,
    }


def _foreign(claim: Claim, run: RunScope) -> list[str]:
    """What keeps this run from speaking about the claim at all."""
    needs = []
    if None not in (run.name, claim.experiment) and claim.experiment != run.name:
        needs.append(f"the experiment {claim.experiment}")
    if claim.scope in LAYER_SCOPES and claim.scope != run.scope:
        needs.append(f"a run of scope {claim.scope}; this one is of scope {run.scope}")
    return needs


def _rungs(claim: Claim, samples: MeasuredRun, run: RunScope) -> dict[str, str | None]:
    """Label in claims.json to the rung at which open terms are measured (None: every term has its own)."""
    if _exact(claim):  # not of a run: what it is measured on is the same at every rung
        return {known_rungs(samples.rungs())[-1]: None}
    own = {samples.resolve(term.rung) for e in claim.expressions() for term in e.terms if term.rung is not None}
    if own:
        named = {rung.partition(":")[0] for rung in own}
        return {max(named, key=lambda rung: _LADDER.index(rung) if rung in _LADDER else -1): None}
    labels: dict[str, str | None] = {label: label for label in known_rungs(samples.rungs())}
    if claim.analytic is not None and "analytic" in labels:
        chosen = run.analytic.get(claim.analytic)
        if chosen is None:
            del labels["analytic"]
        else:
            labels["analytic"] = chosen
    return labels


def _exact(claim: Claim) -> bool:
    """Whether the claim speaks of components and inputs by themselves."""
    terms = [term for e in claim.expressions() for term in e.terms]
    return bool(terms) and all(term.quantity.component is not None for term in terms)


def _stage_at_fault(claim: Claim, samples: MeasuredRun, run: RunScope, label: str) -> str:
    """Which stage departs most from a cheaper rung, where a claim on time was refuted.

    The cheaper rungs are those that the claim names, else that of the analytical model.
    """
    terms = [term for e in claim.expressions() for term in e.terms if term.quantity.column.endswith("_fs")]
    named = {samples.resolve(term.rung) for term in terms if term.rung is not None} - {label}
    cheaper = named or {run.analytic.get(claim.analytic, "") if claim.analytic is not None else "analytic"}
    found = []
    for term in terms:
        try:
            at_point, _ = samples.located(term)
        except NotMeasuredError:  # the claim's axis, without a value of its own
            at_point = samples.base
        found += [
            (abs(difference), stage, term.policy, rung, difference)
            for rung in sorted(cheaper - {label})
            if at_point.has(term.policy, label) and at_point.has(term.policy, rung)
            for stage, difference in at_point.stage_differences(term.policy, label, rung).items()
        ]
    if not found:
        return _stages_compared(claim, samples, label)
    _, stage, policy, rung, difference = max(found)
    text = f"; the stage farthest from {rung} is {stage} of {policy}, by {difference:+.6g} ns"
    return text + _stages_compared(claim, samples, label)


def _stages_compared(claim: Claim, samples: MeasuredRun, label: str) -> str:
    """Where a claim compares two policies or points: the stage in which the first and the last of them differ most.

    "First" and "last" are in the order of the expressions; this is what decides between them.
    """
    terms = [term for e in claim.expressions() for term in e.terms if term.rung is None]
    sides = list(dict.fromkeys((term.policy, term.where, term.point) for term in terms))
    if len(sides) < 2:
        return ""
    try:
        means = []
        for policy, where, point in (sides[0], sides[-1]):
            at_point, _ = samples.located(Term(terms[0].quantity, policy, label, where, point))
            means.append(at_point.stage_means(policy, label))
    except (NotMeasuredError, KeyError):
        return ""
    differences = {stage: means[1][stage] - means[0][stage] for stage in means[0] if stage in means[1]}
    if not any(differences.values()):
        return ""
    stage = max(differences, key=lambda name: (abs(differences[name]), name))
    first, last = (_side(*side) for side in (sides[0], sides[-1]))
    return f"; between {first} and {last} the stage that differs most is {stage}, by {differences[stage]:+.6g} ns"


def _side(policy: str, where: tuple[tuple[str, float], ...], point: str | None) -> str:
    places = [f"{name} = {value:g}" for name, value in where] + ([] if point is None else [point])
    return f"{policy} at {', '.join(places)}" if places else policy


def _with_hint(needs: str, claim: Claim, samples: MeasuredRun) -> str:
    """A policy that did not run may be a misspelt one that did."""
    if needs.startswith("a run of the policy "):
        hint = did_you_mean(needs.removeprefix("a run of the policy "), samples.policies())
        return f"{needs} ({hint})" if hint else needs
    return needs


def _answer(claim: Claim, samples: MeasuredRun, rung: str | None) -> _Answer:
    if isinstance(claim, (ValueClaim, RatioClaim)):
        return _number(claim, samples, rung)
    if isinstance(claim, OrderClaim):
        return _order(claim, samples, rung)
    assert isinstance(claim, TrendClaim)
    return _trend(claim, samples, rung)


class _Meter:
    """Measures the terms of an expression at one rung; remembers the fewest rows behind any of them."""

    def __init__(self, samples: MeasuredRun, rung: str | None, where: tuple[tuple[str, float], ...] = ()) -> None:
        self.samples = samples
        self.rung = rung
        self.where = where
        self.rows: list[int] = []

    def __call__(self, expression: Expression) -> Values:
        """The point estimate, then the resamples."""
        return expression.evaluate(self._measure)

    @property
    def n(self) -> int:
        return min(self.rows)

    def _measure(self, term: Term) -> Values:
        placed = Term(
            term.quantity,
            term.policy,
            term.rung if term.rung is not None else self.rung,
            tuple(sorted({**dict(term.where), **dict(self.where)}.items())),
            term.point,
        )
        value, resampled, n = self.samples.measure(placed)
        self.rows.append(n)
        return np.concatenate(([value], resampled))


def _number(claim: ValueClaim | RatioClaim, samples: MeasuredRun, rung: str | None) -> _Answer:
    assert claim.quantity is not None
    meter = _Meter(samples, rung)
    values = meter(claim.quantity) * claim.quantity.to_unit(claim.unit)
    if not math.isfinite(values[0]):
        return _Answer(math.nan, None, None, meter.n, "inconclusive", "the expression divides by zero")
    exact = _exact(claim)
    estimate = interval(
        float(values[0]), values[1:], max(2, samples.unit_count) if exact else samples.unit_count, meter.n
    )
    least, most = claim.accepted()
    unit = "" if claim.unit in ("1", "x") else f" {claim.unit}"
    accepted = _span(least, most) + unit
    if estimate.low is None or estimate.high is None:
        verdict, reason = "inconclusive", f"{estimate.value:.6g}{unit} has no interval; accepted is {accepted}"
    else:
        shown = f"95 % interval {estimate.low:.6g} to {estimate.high:.6g}{unit}"
        if exact:
            shown = f"{estimate.value:.6g}{unit}, an exact figure,"
        if least <= estimate.low and estimate.high <= most:
            verdict, reason = "confirmed", f"{shown} lies within {accepted}"
        elif estimate.high < least or estimate.low > most:
            verdict, reason = "refuted", f"{shown} lies outside {accepted}"
        else:
            verdict, reason = "inconclusive", f"{shown} straddles the edge of {accepted}"
    return _Answer(estimate.value, estimate.low, estimate.high, meter.n, verdict, reason)


def _span(least: float, most: float) -> str:
    if least == -math.inf:
        return f"at most {most:.6g}"
    if most == math.inf:
        return f"at least {least:.6g}"
    return f"{least:.6g} to {most:.6g}"


def _order(claim: OrderClaim, samples: MeasuredRun, rung: str | None) -> _Answer:
    assert claim.quantity is not None
    meter = _Meter(samples, rung)
    expressions = claim.quantity.ascending()
    rows = np.stack([meter(expression) for expression in expressions])
    holds: npt.NDArray[np.bool_] = np.asarray((rows[1:] > rows[:-1]).all(axis=0), dtype=np.bool_)
    unit = expressions[0].own_unit
    shown = " < ".join(f"{value:.6g}" for value in rows[:, 0]) + (f" {unit}" if unit else "")
    return _probability(
        bool(holds[0]), holds[1:], rows[:, 1:], samples.unit_count, meter.n, f"order {shown}", exact=_exact(claim)
    )


def _trend(claim: TrendClaim, samples: MeasuredRun, rung: str | None) -> _Answer:
    assert claim.quantity is not None
    axis = claim.quantity.over
    points = samples.axis_values(claim.quantity.y.terms, axis, rung)
    columns, n = [], []
    for point in points:
        meter = _Meter(samples, rung, ((axis, point),))
        columns.append(meter(claim.quantity.y))
        n.append(meter.n)
    slopes = theil_sen(points, np.stack(columns, axis=1))
    signed = slopes if claim.published == "increasing" else -slopes
    text = f"Theil-Sen slope {slopes[0]:.6g} per unit of {axis} over {len(points)} points"
    return _probability(
        bool(signed[0] > 0), signed[1:] > 0, signed[1:], samples.unit_count, min(n), text, exact=_exact(claim)
    )


def _probability(
    point: bool, holds: npt.NDArray[np.bool_], behind: Values, units: int, n: int, text: str, *, exact: bool
) -> _Answer:
    """Verdict of a statement that holds or not in each resample; ``behind`` are the figures it rests on."""
    if exact:
        verdict = "confirmed" if point else "refuted"
        return _Answer(
            float(point), None, None, n, verdict, f"{text}: {'holds' if point else 'does not hold'}, exactly"
        )
    if units < 2 or not bool(np.isfinite(behind).all()):
        word = "holds" if point else "does not hold"
        return _Answer(float(point), None, None, n, "inconclusive", f"{text}: {word}, without resamples to judge by")
    share = int(holds.sum()) / len(holds)
    shown = f"{text}: holds in {100 * share:.6g} % of resamples"
    if share >= CONFIRM:
        return _Answer(share, None, None, n, "confirmed", shown)
    if share <= REFUTE:
        return _Answer(share, None, None, n, "refuted", shown)
    return _Answer(share, None, None, n, "inconclusive", shown)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
