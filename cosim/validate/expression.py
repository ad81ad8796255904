"""The small language in which a claim says what it measures.

    layer_latency_p95(hot_replication) / layer_latency_p95(static)
    1 - bytes_weight(comoe) / bytes_weight(static)
    layer_latency_mean(static, rung=analytic) / layer_latency_mean(static, rung=flit)
    geomean(stage_queue_mean(a, layer=0) / stage_queue_mean(b, layer=0), ...)

A term is a metric's name with a policy and, optionally, a rung, equalities on numeric columns of the layers frame or
on axes of the experiment's sweeps (``alpha=2.0``), and a point of an axis of names (``point='sample'``). Terms are
joined by + - * /, parentheses, numbers, min, max and geomean.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt

from cosim.analytic.quantities import Quantity, quantity, quantity_names
from cosim.config.errors import did_you_mean
from cosim.config.units import BANDWIDTH, BYTES, ENERGY, TIME, Dimension

Values = npt.NDArray[np.float64]

#: Exponents of time, bytes and energy.
Powers = tuple[int, int, int]

PLAIN: Powers = (0, 0, 0)

#: Dimensions that a claim may state a unit for, and the unit that metrics in ns, B and J combine to.
_DIMENSIONS: Mapping[Powers, tuple[Dimension, str]] = {
    (1, 0, 0): (TIME, "ns"),
    (0, 1, 0): (BYTES, "B"),
    (0, 0, 1): (ENERGY, "J"),
    (-1, 1, 0): (BANDWIDTH, "GB/s"),
}


class ExpressionError(ValueError):
    """A text that is no expression: what was expected, what came, and the nearest right spelling."""

    def __init__(self, expected: str, got: str, suggestion: str | None = None) -> None:
        self.expected = expected
        self.got = got
        self.suggestion = suggestion
        super().__init__(f"expected {expected}, got {got}" + (f"; {suggestion}" if suggestion else ""))


@dataclass(frozen=True)
class Term:
    """One metric of one policy; ``rung`` None is the rung the claim is judged at."""

    quantity: Quantity
    policy: str
    rung: str | None = None
    where: tuple[tuple[str, float], ...] = ()
    point: str | None = None

    def __str__(self) -> str:
        extra = f", rung={self.rung}" if self.rung is not None else ""
        extra += f", point={self.point}" if self.point is not None else ""
        extra += "".join(f", {name}={value:g}" for name, value in self.where)
        return f"{self.quantity.name}({self.policy}{extra})"


@dataclass(frozen=True)
class Expression:
    """A parsed expression. ``powers`` is its dimension, ``terms`` what must be measured for it."""

    text: str
    powers: Powers
    terms: tuple[Term, ...]
    _tree: ast.expr = field(repr=False, compare=False)

    def evaluate(self, measure: Callable[[Term], Values]) -> Values:
        """The value for each entry of the arrays that ``measure`` returns, in the metrics' own units.

        A division by zero gives nan or an infinity, without a warning.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(_Evaluator(measure).of(self._tree), dtype=np.float64)

    @property
    def own_unit(self) -> str:
        """The unit of :meth:`evaluate`'s values; empty for plain numbers and for dimensions without a name."""
        known = _DIMENSIONS.get(self.powers)
        return known[1] if known is not None else ""

    def to_unit(self, unit: str) -> float:
        """The factor from the expression's own unit to ``unit``; ExpressionError where that is impossible."""
        if self.powers == PLAIN:
            factors = {"1": 1.0, "x": 1.0, "%": 100.0}
            if unit not in factors:
                raise ExpressionError("the unit 1, x or % of a plain number", repr(unit))
            return factors[unit]
        known = _DIMENSIONS.get(self.powers)
        if known is None:
            raise ExpressionError("an expression of time, bytes, energy, bytes per time or a plain number", self.text)
        dimension, base = known
        if unit not in dimension.units:
            raise ExpressionError(
                f"a unit of {dimension.name}, such as {base!r}", repr(unit), did_you_mean(unit, dimension.units)
            )
        return float(dimension.units[base] / dimension.units[unit])


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        ExpressionError: it is no expression, names an unknown metric, or adds what has different units.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise ExpressionError(
            "an expression such as 'layer_latency_mean(a) / layer_latency_mean(b)'", repr(text)
        ) from None
    checker = _Checker()
    powers = checker.powers(tree)
    if not checker.terms:
        raise ExpressionError("an expression that measures something", repr(text))
    return Expression(text.strip(), powers, tuple(dict.fromkeys(checker.terms)), tree)


_FUNCTIONS: Mapping[str, Callable[[list[Values]], Values]] = {
    "min": lambda values: reduce(np.minimum, values),
    "max": lambda values: reduce(np.maximum, values),
    "geomean": lambda values: np.exp(reduce(np.add, [np.log(value) for value in values]) / len(values)),
}


class _Checker:
    """Collects the terms of a tree and works out its dimension."""

    def __init__(self) -> None:
        self.terms: list[Term] = []

    def powers(self, node: ast.expr) -> Powers:
        if isinstance(node, ast.Constant):
            _number(node)
            return PLAIN
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.powers(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self.powers(node.left), self.powers(node.right)
            if isinstance(node.op, ast.Mult):
                return _combine(left, right, 1)
            if isinstance(node.op, ast.Div):
                return _combine(left, right, -1)
            if isinstance(node.op, (ast.Add, ast.Sub)):
                if left != right:
                    raise ExpressionError("the same unit on both sides of + and -", ast.unparse(node))
                return left
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in _FUNCTIONS:
                return self._function(node)
            term = _term(node)
            self.terms.append(term)
            return _powers(term.quantity)
        raise ExpressionError("numbers, metrics of a policy, + - * /, min, max and geomean", ast.unparse(node))

    def _function(self, node: ast.Call) -> Powers:
        if node.keywords or not node.args:
            raise ExpressionError("one or more values", ast.unparse(node))
        found = {self.powers(argument) for argument in node.args}
        if len(found) != 1:
            raise ExpressionError("values of one unit", ast.unparse(node))
        return found.pop()


class _Evaluator:
    def __init__(self, measure: Callable[[Term], Values]) -> None:
        self.measure = measure

    def of(self, node: ast.expr) -> Values:
        if isinstance(node, ast.Constant):
            return np.asarray(_number(node))
        if isinstance(node, ast.UnaryOp):
            return -self.of(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self.of(node.left), self.of(node.right)
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.Div):
                return left / right
            return left + right if isinstance(node.op, ast.Add) else left - right
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        if node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id]([self.of(argument) for argument in node.args])
        return self.measure(_term(node))


def _term(node: ast.Call) -> Term:
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    try:
        measured = quantity(name)
    except KeyError:
        names = [*quantity_names(), *_FUNCTIONS]
        raise ExpressionError("a metric", repr(name), did_you_mean(name, names)) from None
    if len(node.args) != 1:
        raise ExpressionError(f"{name}(policy), with rung=, point= and equalities if wanted", ast.unparse(node))
    policy = _word(node.args[0])
    words: dict[str, str] = {}
    where: dict[str, float] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in where or keyword.arg in words:
            raise ExpressionError("each selector once", ast.unparse(node))
        if keyword.arg in ("rung", "point"):
            words[keyword.arg] = _word(keyword.value)
        else:
            negative = isinstance(keyword.value, ast.UnaryOp) and isinstance(keyword.value.op, ast.USub)
            value = keyword.value.operand if isinstance(keyword.value, ast.UnaryOp) and negative else keyword.value
            if not isinstance(value, ast.Constant):
                raise ExpressionError(f"a number for {keyword.arg}", ast.unparse(keyword.value))
            where[keyword.arg] = -_number(value) if negative else _number(value)
    return Term(measured, policy, words.get("rung"), tuple(sorted(where.items())), words.get("point"))


def _word(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        return node.value
    raise ExpressionError("a name, in quotes where it is no identifier", ast.unparse(node))


def _number(node: ast.Constant) -> float:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ExpressionError("a number", ast.unparse(node))
    return float(value)


def _powers(measured: Quantity) -> Powers:
    table: Iterable[tuple[Dimension, Powers]] = ((TIME, (1, 0, 0)), (BYTES, (0, 1, 0)), (ENERGY, (0, 0, 1)))
    return next((powers for dimension, powers in table if dimension is measured.dimension), PLAIN)


def _combine(left: Powers, right: Powers, sign: int) -> Powers:
    return (left[0] + sign * right[0], left[1] + sign * right[1], left[2] + sign * right[2])
