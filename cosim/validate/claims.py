"""Claims as data: the one schema of ``configs/claims/*.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, SerializeAsAny

from cosim.config import presets
from cosim.config.errors import ConfigErrors
from cosim.config.loader import Document, load_yaml
from cosim.config.spec import Items, Kinds, Problem, Spec, duplicates, refuse
from cosim.config.validate import validate
from cosim.validate.expression import PLAIN, Expression, ExpressionError, parse

__all__ = [
    "SCOPES",
    "Bounds",
    "Claim",
    "ClaimFile",
    "OrderClaim",
    "RatioClaim",
    "Tolerance",
    "TrendClaim",
    "ValueClaim",
    "load_claims",
]

#: What a claim speaks of. A claim about layers of one scope is answered by a run of that scope only;
#: the last four are properties of a component or an input and hold in any run.
SCOPES = ("routed", "moe", "model", "network", "memory", "hardware", "trace")
LAYER_SCOPES = SCOPES[:3]

DEFAULT_RELATIVE = 0.10

Number = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


def _identifier(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", value):
        raise refuse("an id of lower-case letters, digits, '.', '_' and '-'", repr(value))
    return value


def _expression(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    if not isinstance(value, str):
        raise refuse("an expression such as 'layer_latency_mean(static)'", repr(value))
    try:
        return parse(value)
    except ExpressionError as error:
        raise refuse(error.expected, error.got, error.suggestion) from None


Measured = Annotated[Expression, PlainValidator(_expression), PlainSerializer(lambda expression: expression.text)]


class Tolerance(Spec):
    """How far a measured value may lie from the published one; a wide tolerance says why."""

    relative: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    absolute: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    reason: Text | None = None

    def problems(self) -> Iterator[Problem]:
        if (self.relative is None) == (self.absolute is None):
            got = "both" if self.relative is not None else "neither"
            yield Problem((), "one of the keys relative and absolute", got)
        if self.relative is not None and self.relative > DEFAULT_RELATIVE and self.reason is None:
            yield Problem((), "the key 'reason' beside a relative tolerance above 0.1", "no such key")

    def as_json(self) -> dict[str, Any]:
        """The tolerance as claims.json shows it."""
        return self.model_dump(exclude_none=True)


class Bounds(Spec):
    """A published range or bound in place of one number."""

    min: Number | None = None
    max: Number | None = None
    at_least: Number | None = None
    at_most: Number | None = None

    def problems(self) -> Iterator[Problem]:
        given = tuple(name for name in type(self).model_fields if getattr(self, name) is not None)
        if given not in (("min", "max"), ("at_least",), ("at_most",)):
            yield Problem((), "the keys min and max, or at_least, or at_most", " and ".join(given) or "none of them")
        elif given == ("min", "max") and self.min is not None and self.max is not None and self.min > self.max:
            yield Problem((), "min at most max", f"{self.min:g} above {self.max:g}")

    def as_json(self) -> dict[str, Any]:
        """The bounds as claims.json shows them."""
        return self.model_dump(exclude_none=True)


class Claim(Spec):
    """What every claim says.

    source:     where it is printed: paper, table or section
    stated:     whether the source says it, or it is arithmetic on figures the source prints
    experiment: the experiment that tests it; others leave it untested. Without one, every experiment that
                names the claim's file tests it
    analytic:   the analytical model that answers at the rung analytic (default: the experiment's first)
    needs:      what is missing for a test; a claim with needs is not testable
    """

    id: Annotated[str, AfterValidator(_identifier)]
    kind: str
    scope: Literal["routed", "moe", "model", "network", "memory", "hardware", "trace"]
    statement: Text
    source: Text
    stated: Literal["stated", "derived"] = "stated"
    experiment: Text | None = None
    analytic: Text | None = None
    needs: Items[Text] = ()
    notes: Text | None = None

    def expressions(self) -> list[Expression]:
        """Everything the claim measures."""
        raise NotImplementedError

    def tolerance_json(self) -> dict[str, Any]:
        """The tolerance as claims.json shows it."""
        raise NotImplementedError

    def published_json(self) -> Any:
        """The published figure, order or trend as claims.json shows it."""
        raise NotImplementedError

    def unit_json(self) -> str:
        """The unit as claims.json shows it."""
        return "1"

    def problems(self) -> Iterator[Problem]:
        expressions = self.expressions()
        if not expressions and not self.needs:
            yield Problem((), "the key 'quantity', or 'needs' that name what is missing", "neither")
        exact = {term.quantity.component is not None for expression in expressions for term in expression.terms}
        if exact == {True, False}:
            yield Problem(("quantity",), "metrics of runs, or of components, alone", "some of each")
        fixed = {term.rung is not None for expression in expressions for term in expression.terms}
        if fixed == {True, False}:
            yield Problem(("quantity",), "a rung in every term or in none", "a rung in some")


def _published(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, dict, Bounds)):
        raise refuse("a number, {min: , max: }, {at_least: } or {at_most: }", repr(value))
    return float(value) if isinstance(value, int) else value


class _NumberClaim(Claim):
    """A published figure with a tolerance."""

    published: Annotated[float | Bounds, BeforeValidator(_published)]
    unit: Text
    tolerance: Tolerance = Tolerance(relative=DEFAULT_RELATIVE)
    quantity: Measured | None = None

    def expressions(self) -> list[Expression]:
        return [] if self.quantity is None else [self.quantity]

    def tolerance_json(self) -> dict[str, Any]:
        return self.tolerance.as_json()

    def published_json(self) -> Any:
        return self.published.as_json() if isinstance(self.published, Bounds) else self.published

    def unit_json(self) -> str:
        return self.unit

    def accepted(self) -> tuple[float, float]:
        """The interval of values that agree with the published one, bounds widened by the tolerance."""
        low, high = -float("inf"), float("inf")
        if isinstance(self.published, Bounds):
            bounds = self.published
            least = bounds.min if bounds.min is not None else bounds.at_least
            most = bounds.max if bounds.max is not None else bounds.at_most
        else:
            least = most = self.published
        if least is not None:
            low = least - self._margin(least)
        if most is not None:
            high = most + self._margin(most)
        return low, high

    def _margin(self, published: float) -> float:
        if self.tolerance.absolute is not None:
            return self.tolerance.absolute
        assert self.tolerance.relative is not None
        return abs(published) * self.tolerance.relative

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.tolerance.absolute is not None and self.tolerance.reason is None:
            figures = [self.published] if isinstance(self.published, float) else self.published.as_json().values()
            if any(self.tolerance.absolute > abs(figure) * DEFAULT_RELATIVE for figure in figures):
                yield Problem(
                    ("tolerance",), "the key 'reason' where the tolerance exceeds 10 % of the figure", "no such key"
                )
        if self.quantity is not None:
            try:
                self.quantity.to_unit(self.unit)
            except ExpressionError as error:
                yield Problem(("unit",), error.expected, error.got, error.suggestion)


class ValueClaim(_NumberClaim):
    """A figure with a unit."""

    kind: Literal["value"]


class RatioClaim(_NumberClaim):
    """A figure without dimension: a ratio, a share, a reduction."""

    kind: Literal["ratio"]
    unit: Literal["1", "x", "%"]

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.quantity is not None and self.quantity.powers != PLAIN:
            yield Problem(("quantity",), "an expression without dimension", self.quantity.text)


class OrderQuantity(Spec):
    """Expressions in the claimed order."""

    lowest_first: Items[Measured] | None = None
    highest_first: Items[Measured] | None = None

    def problems(self) -> Iterator[Problem]:
        if (self.lowest_first is None) == (self.highest_first is None):
            got = "both" if self.lowest_first is not None else "neither"
            yield Problem((), "one of the keys lowest_first and highest_first", got)
        elif len(self.ascending()) < 2:
            yield Problem((), "at least two expressions", "one")
        elif len({expression.powers for expression in self.ascending()}) > 1:
            yield Problem((), "expressions of one unit", "several")

    def ascending(self) -> tuple[Expression, ...]:
        """The expressions from the one claimed lowest to the one claimed highest."""
        if self.lowest_first is not None:
            return self.lowest_first
        return tuple(reversed(self.highest_first or ()))


class OrderClaim(Claim):
    """Things in a strict order: confirmed where it holds in at least 95 % of the paired resamples."""

    kind: Literal["order"]
    quantity: OrderQuantity | None = None

    def expressions(self) -> list[Expression]:
        return [] if self.quantity is None else list(self.quantity.ascending())

    def tolerance_json(self) -> dict[str, Any]:
        return {"bootstrap_p": 0.95}

    def published_json(self) -> Any:
        return None if self.quantity is None else self.quantity.model_dump(mode="json", exclude_none=True)


class TrendQuantity(Spec):
    """An expression and the numeric column of the layers frame that it is followed over."""

    y: Measured
    over: Text

    def problems(self) -> Iterator[Problem]:
        if self.over in ("seed", "batch"):
            yield Problem(("over",), "an axis inside the unit of resampling, which is a (seed, batch)", repr(self.over))
        if any(name == self.over for term in self.y.terms for name, _ in term.where):
            yield Problem(("y",), f"no equality on {self.over}, the claim's axis", self.y.text)


class TrendClaim(Claim):
    """A direction: the sign of the Theil-Sen slope in at least 95 % of the paired resamples."""

    kind: Literal["trend"]
    published: Literal["increasing", "decreasing"]
    quantity: TrendQuantity | None = None

    def expressions(self) -> list[Expression]:
        return [] if self.quantity is None else [self.quantity.y]

    def tolerance_json(self) -> dict[str, Any]:
        return {"bootstrap_p": 0.95}

    def published_json(self) -> Any:
        over = None if self.quantity is None else self.quantity.over
        return {"expect": self.published} if over is None else {"expect": self.published, "x": over}


CLAIM_KINDS = Kinds(
    "claim",
    "kind",
    lambda: {"value": ValueClaim, "ratio": RatioClaim, "order": OrderClaim, "trend": TrendClaim},
)

AnyClaim = Annotated[SerializeAsAny[Claim], BeforeValidator(CLAIM_KINDS.build), CLAIM_KINDS]


class ClaimFile(Spec):
    """A set of claims, usually one paper's. ``name`` is filled in from the file's name."""

    name: str | None = None
    schema_: Annotated[Literal[1], Field(alias="schema")]
    paper: Text
    claims: Annotated[Items[AnyClaim], Field(min_length=1)]

    def problems(self) -> Iterator[Problem]:
        ids = [claim.id for claim in self.claims]
        for position in duplicates(ids):
            yield Problem(("claims", position, "id"), "each id once", f"{ids[position]!r} again")


def load_claims(reference: str, folder: Path | None = None) -> ClaimFile:
    """Claims by shipped name (configs/claims) or by path, counted from ``folder``.

    Raises:
        ConfigErrors: every error of the file with line, column, key path and the nearest right spelling.
    """
    path = presets.find("claims", reference, folder=folder)
    document = load_yaml(path)
    _refuse_name(document)
    if isinstance(document.data, dict):
        document.data = {"name": path.stem, **document.data}
    return validate(ClaimFile, document)


def _refuse_name(document: Document) -> None:
    if isinstance(document.data, dict) and "name" in document.data:
        expected = "no key 'name': a claim file is known by its file name"
        raise ConfigErrors([document.error(("name",), expected, "it", key=True)])
